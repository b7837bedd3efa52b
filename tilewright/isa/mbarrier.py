"""m-barriers: 8 bytes of shared memory where threads and asynchronous units count a phase down to its end.

Threads arrive, announce bytes (`expect_tx`) and wait; copies and tensor operations arrive when they are complete. The
first part says what happens to the 8 bytes, the second how that is spelled and what operands must obey. A wait names
its phase by the parity (0 for the first), or by the state that an arrival returned. Waiting by parity cannot tell a
phase from the one two before it: a thread that falls two phases behind waits for the wrong one.

Source: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import BOOL, VOID, dtype
from tilewright.errors import InstructionError
from tilewright.ir import const_value
from tilewright.isa.arch import since
from tilewright.isa.forms import (
    GIVEN,
    LEFT_OUT,
    Access,
    Form,
    Meaning,
    Mods,
    Operand,
    Ptx,
    Signal,
    Spellings,
    Sync,
    counts,
    read_and_written,
    reads,
)
from tilewright.isa.machine import Lanes, Machine
from tilewright.isa.places import OWN
from tilewright.isa.table import Bound, instruction, single
from tilewright.terms import Operand as OperandTerm
from tilewright.terms import Term, call, told

__all__ = [
    "INVALIDATED", "MBARRIER_LIMIT", "PhaseState", "announced", "announced_and_arrived", "announced_and_dropped",
    "arrived", "completed", "dropped", "fresh", "is_alive", "phase_of", "phase_state", "trouble",
]  # fmt: skip

# The 64 bits of an m-barrier: what arrivals and bytes do to them.
#
# A phase ends when as many threads have arrived as `mbarrier.init` said, and all bytes that were announced
# (`expect_tx`) have come (`complete_tx`); at that moment the next phase begins with the full count. A wait names a
# phase by its parity, or by the state that an arrival returned. PTX leaves the 64 bits opaque; here they are
#
#     bits 0-19    pending    arrivals that the phase still waits for
#     bits 20-39   expected   arrivals of each phase
#     bits 40-60   tx         bytes announced and not yet come; signed, since they may come first
#     bits 61-62   phase      its number modulo 4: the parity is the lowest bit
#     bit  63      alive      since `init`
#
# so that memory holds the whole state. Waiting by parity cannot tell a phase from the one two before it: a thread
# that falls two phases behind waits for the wrong one, here as on hardware.
#
# Source: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".

MBARRIER_LIMIT = (1 << 20) - 1  # the most arrivals, and the most bytes either way

_ALIVE = np.uint64(1 << 63)
INVALIDATED, _OVERRUN, _TX_OUT_OF_RANGE = (np.uint64(0x4D62_0000_0000_0000 + code) for code in (1, 2, 3))
_TROUBLE = {  # the 64 bits: what is wrong, and what to do
    int(INVALIDATED): (
        "the m-barrier was invalidated",
        told("{} after its last use, or mbarrier.init again", Term("named", ("ptx.mbarrier.inval",))),
    ),
    int(_OVERRUN): (
        "the m-barrier got more arrivals than its phase waited for",
        "mbarrier.init with the count of all arrivals of a phase; or, where a thread arrives for the next phase, "
        "a wait for the end of this one before",
    ),
    int(_TX_OUT_OF_RANGE): (
        f"the bytes that the m-barrier waits for left -{MBARRIER_LIMIT}..{MBARRIER_LIMIT}",
        told("bytes announced once for each copy, by {}", Term("named", ("ptx.mbarrier.arrive.expect_tx",))),
    ),
}
_NEVER = (
    "the m-barrier was never initialised",
    told(
        "{} by one thread, and a barrier of all that use it behind that",
        call("ptx.mbarrier.init", OperandTerm("bar"), OperandTerm("count")),
    ),
)


class PhaseState(NamedTuple):
    """What the 64 bits of m-barriers say, each field an array; where one is not alive, the others mean nothing."""

    pending: NDArray[np.int64]
    expected: NDArray[np.int64]
    tx: NDArray[np.int64]
    phase: NDArray[np.int64]
    alive: NDArray[np.bool_]


def phase_state(words: Lanes) -> PhaseState:
    """The fields of m-barriers."""
    bits = np.asarray(words, np.uint64)

    def field(first: int, width: int) -> NDArray[np.int64]:
        return (bits >> np.uint64(first) & np.uint64((1 << width) - 1)).astype(np.int64)

    tx = field(40, 21)
    return PhaseState(field(0, 20), field(20, 20), tx - (tx >> 20 << 21), field(61, 2), (bits & _ALIVE) != 0)


def is_alive(words: Lanes) -> NDArray[np.bool_]:
    """Which m-barriers have been initialised, and not ended since?"""
    return np.asarray((words & _ALIVE) != 0)


def phase_of(words: Lanes) -> NDArray[np.int64]:
    """The phases of m-barriers, modulo 4."""
    return (np.asarray(words, np.uint64) >> np.uint64(61) & np.uint64(3)).astype(np.int64)


def trouble(word: int) -> tuple[str, str]:
    """What is wrong with the 64 bits of an m-barrier, and what to do; empty where it is alive."""
    return ("", "") if word >> 63 else _TROUBLE.get(word, _NEVER)


def fresh(count: Lanes) -> Lanes:
    """m-barriers in phase 0, with ``count`` arrivals to wait for and no bytes."""
    return _packed(count, count, 0, 0)


def _packed(pending: Lanes, expected: Lanes, tx: Lanes | int, phase: Lanes | int) -> Lanes:
    """An m-barrier that is alive, with these fields."""
    word: Lanes = np.asarray(_ALIVE)
    for value, first, width in ((pending, 0, 20), (expected, 20, 20), (tx, 40, 21), (phase, 61, 2)):
        word = word | (np.asarray(value) & ((1 << width) - 1)).astype(np.uint64) << np.uint64(first)
    return word


def _counted(word: Lanes, arrivals: Lanes | int, announced: Lanes | int, leaving: Lanes | int = 0) -> Lanes:
    """The m-barrier after so many arrivals and with so many more bytes to wait for; the phase ends if that was all.

    leaving: arrivals that later phases no longer wait for.

    A dead m-barrier stays as it is; one whose count leaves its range becomes dead, so that its next use is an error.
    """
    state = phase_state(word)
    pending, tx, expected = state.pending - arrivals, state.tx + announced, state.expected - leaving
    ends = (pending == 0) & (tx == 0)
    after = _packed(np.where(ends, expected, pending), expected, tx, (state.phase + ends) & 3)
    after = np.where(np.abs(tx) > MBARRIER_LIMIT, _TX_OUT_OF_RANGE, after)
    after = np.where(pending < 0, _OVERRUN, after)
    return np.where(state.alive, after, word)


def arrived(word: Lanes, count: Lanes) -> Lanes:
    """The m-barrier after ``count`` arrivals."""
    return _counted(word, count.astype(np.int64), 0)


def announced(word: Lanes, nbytes: Lanes) -> Lanes:
    """The m-barrier with ``nbytes`` more to wait for."""
    return _counted(word, 0, nbytes.astype(np.int64))


def completed(word: Lanes, nbytes: Lanes) -> Lanes:
    """The m-barrier after ``nbytes`` have come."""
    return _counted(word, 0, -nbytes.astype(np.int64))


def at_once(words: Lanes, place: NDArray[np.int64], nbytes: Lanes) -> tuple[NDArray[np.int64], Lanes]:
    """Bytes that come to m-barriers at these places, those of a place together where that is the same: where only the
    last of them can end the phase.
    """
    places, which = np.unique(place, return_inverse=True)
    sums: Lanes = np.bincount(which, nbytes).astype(np.uint64)
    state = phase_state(words[places])
    same = (state.pending > 0) | (sums.astype(np.int64) <= state.tx)
    return (places, sums) if same.all() else (place, nbytes)


def announced_and_arrived(word: Lanes, nbytes: Lanes) -> Lanes:
    """The m-barrier with ``nbytes`` more to wait for and one arrival less."""
    return _counted(word, 1, nbytes.astype(np.int64))


def dropped(word: Lanes, count: Lanes) -> Lanes:
    """The m-barrier after ``count`` arrivals of threads that no later phase waits for."""
    return _counted(word, count.astype(np.int64), 0, count.astype(np.int64))


def announced_and_dropped(word: Lanes, nbytes: Lanes) -> Lanes:
    """The m-barrier with ``nbytes`` more to wait for, and after the last arrival of a thread."""
    return _counted(word, 1, nbytes.astype(np.int64), 1)


SOURCE = 'PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier.{}"'
STATE = dtype("uint64")

# What the rows ask of their operands: "{name} of an m-barrier is {low}..{high}".
RANGES = {"count": (1, MBARRIER_LIMIT), "bytes": (0, MBARRIER_LIMIT)}


def check_constants(bound: Bound) -> None:
    """Raises InstructionError for a constant out of its range; `within` checks other values when the kernel runs."""
    for name, (low, high) in RANGES.items():
        for operand in bound.operands.get(name, ()):
            number = const_value(operand)
            if number is not None and not low <= number <= high:
                raise InstructionError(f"T.{bound.instruction.name}: {name}", given=number, allowed=f"{low}..{high}")


def within(machine: Machine, name: str, value: Lanes) -> None:
    """Stops the kernel where a value is out of its range."""
    low, high = RANGES[name]
    outside = (value < low) | (value > high)
    if outside.any() and (wrong := machine.active & outside).any():
        sample = np.broadcast_to(value, wrong.shape)[wrong][0]
        machine.fault(f"{name} of an m-barrier is {low}..{high}, not {sample}", wrong)


def _check_alive(machine: Machine, words: Lanes) -> None:
    alive = is_alive(words)
    if not alive.all() and (dead := machine.active & ~alive).any():
        what, hint = trouble(int(np.broadcast_to(words, dead.shape)[dead][0]))
        machine.fault(what, dead, hint=hint)


def changed(machine: Machine, address: Lanes, change: Callable[[Lanes, Lanes], Lanes], by: Lanes) -> Lanes:
    """Change the m-barriers, each lane in turn; returns what each lane found there."""
    amount = np.broadcast_to(by, np.broadcast_shapes(address.shape, by.shape)).astype(np.uint64)
    state = machine.shared.atomic(address, change, amount)
    _check_alive(machine, state)
    here = np.broadcast_to(machine.active, state.shape)  # often few lanes
    if not is_alive(change(state[here], np.broadcast_to(amount, state.shape)[here])).all():
        _check_alive(machine, change(state, amount))
    return state


def _read(machine: Machine, address: Lanes) -> Lanes:
    words: Lanes = machine.shared.rows(address, 8).view(np.uint64)[..., 0]
    _check_alive(machine, words)
    return words


def initialise(machine: Machine, address: Lanes, count: Lanes) -> None:
    """Phase 0 begins, with ``count`` arrivals to wait for and no bytes."""
    within(machine, "count", count)
    words = np.broadcast_to(fresh(count), np.broadcast_shapes(address.shape, count.shape))
    machine.shared.store_rows(address, np.ascontiguousarray(words)[..., None].view(np.uint8))


def invalidate(machine: Machine, address: Lanes) -> None:
    """The m-barrier ends: its 8 bytes may be used for something else."""
    _read(machine, address)
    machine.shared.store_rows(address, np.full((*address.shape, 1), INVALIDATED).view(np.uint8))


def once(change: Callable[[Lanes, Lanes], Lanes]) -> Callable[[Machine, Lanes], Lanes]:
    """A change by one; it returns the state before it, which names the phase."""
    return lambda machine, address: changed(machine, address, change, np.ones(address.shape, np.uint64))


def by(name: str, change: Callable[[Lanes, Lanes], Lanes]) -> Callable[[Machine, Lanes, Lanes], Lanes]:
    """A change by the operand of that name; it returns the state before it, which names the phase."""

    def execute(machine: Machine, address: Lanes, amount: Lanes) -> Lanes:
        within(machine, name, amount)
        return changed(machine, address, change, amount)

    return execute


def parity_is_over(machine: Machine, address: Lanes, phase: Lanes) -> Lanes:
    """True where the phase of this parity has ended: the current one has the other parity.

    In phase 0 that holds for parity 1, as if a phase before the first had ended. The lowest bit is the parity, of
    whatever number (an H200 takes that of 2, 3, 4, 0x80000000 and -1).
    """
    over: Lanes = phase_of(_read(machine, address)) % 2 != phase & 1
    return over


def state_is_over(machine: Machine, address: Lanes, state: Lanes) -> Lanes:
    """True where the phase in which an arrival returned ``state`` has ended."""
    over: Lanes = phase_of(_read(machine, address)) != phase_of(state)
    return over


def in_time(is_over: Callable[..., Lanes]) -> Callable[..., Lanes]:
    """The same; how long the hardware may sleep before it answers is nothing that values show."""
    return lambda machine, address, phase, ns: is_over(machine, address, phase)


# Spellings. Threads can arrive and announce bytes at an m-barrier of another CTA of the cluster, but not wait at it.

REMOTE: Spellings = {"shared::cluster": ".shared::cluster"}
OWN_SCOPE: Spellings = {None: "", "cta": ""}  # the order of an instruction whose spelling has none
ANY_SCOPE: Spellings = {None: ".cta", "cta": ".cta", "cluster": ".cluster"}
CLUSTER: Spellings = {"cluster": ".cluster"}
REMOTE_SCOPE: Spellings = {None: ".cluster", "cluster": ".cluster"}


def scope_of(mods: Mods) -> str:
    """The scope of a call's access to an m-barrier."""
    return str(mods["scope"] or ("cluster" if mods.get("space") in REMOTE else "cta"))


class BarrierOrder(NamedTuple):
    """One way to order an access to an m-barrier."""

    text: str
    modifiers: Mapping[str, Spellings]
    first: str

    def signal(self, kind: str) -> Signal:
        """What it does to the m-barrier, see `Signal`."""
        (sem,) = self.modifiers["sem"]
        return Signal("ptr", kind, str(sem), scope_of)


def _orders(sem: str, first: str, *, remote: bool) -> Iterator[BarrierOrder]:
    """Arrivals release, waits acquire, unless they are relaxed; only the plain form is older than sm_90."""
    strong, weak = {sem: f".{sem}"}, {"relaxed": ".relaxed"}
    yield BarrierOrder("{space}", {"sem": {sem: ""}, "scope": OWN_SCOPE, "space": OWN}, first)
    yield BarrierOrder("{sem}{scope}{space}", {"sem": strong, "scope": CLUSTER, "space": OWN}, "sm_90")
    yield BarrierOrder("{sem}{scope}{space}", {"sem": weak, "scope": ANY_SCOPE, "space": OWN}, "sm_90")
    if remote:
        yield BarrierOrder(
            "{space}", {"sem": {sem: ""}, "scope": {"cta": ""}, "space": REMOTE}, "sm_90"
        )  # the cheap one
        far = {"scope": REMOTE_SCOPE, "space": REMOTE}
        yield BarrierOrder("{sem}{scope}{space}", {"sem": strong, **far}, "sm_90")
        yield BarrierOrder("{sem}{scope}{space}", {"sem": weak, **far}, "sm_90")


PTR = reads("ptr", "shared")
CHANGE = read_and_written("ptr", "shared", 8, scope=scope_of)
READ, _ = CHANGE


def _plain_row(name: str, execute: Callable[..., None], doc: str, *more: Operand) -> None:
    single(
        f"ptx.mbarrier.{name}",
        Ptx(f"mbarrier.{name}.shared.b64"),
        since("sm_80"),
        SOURCE.format(name),
        Meaning(execute, on="machine"),
        operands=(PTR, *more),
        check=check_constants,
        doc=doc,
        effects=(Access("ptr", "shared", 8, write=True), Signal("ptr", name)),
    )


_plain_row(
    "init", initialise, "Makes an m-barrier of 8 bytes; each phase waits for ``count`` arrivals.", counts("count")
)
_plain_row("inval", invalidate, "Ends an m-barrier; its bytes may be used for something else.")


def _arrivals(
    opcode: str, execute: Callable[..., Lanes], more: str, first: str, settings: Mapping[str, Spellings] = {}
) -> Iterator[Form]:
    """The forms of an arrival."""
    for order in _orders("release", first, remote=True):
        remote = order.modifiers["space"] is REMOTE
        yield Form(
            Ptx(
                f"mbarrier.{opcode}{order.text}.b64",
                {**settings, **order.modifiers},
                pattern=f"{'_' if remote else '{result}'}, [{{ptr}}]{more}",
            ),
            since(order.first),
            SOURCE.format(opcode),
            Meaning(execute, on="machine"),
            effects=(*CHANGE, order.signal("arrive")),
            result=VOID if remote else STATE,
        )


ORDERED = {"sem": "release", "scope": None, "space": "shared"}
Change = Callable[[Lanes, Lanes], Lanes]
"""What becomes of the 64 bits of m-barriers, by an amount."""


def arrival_rows(name: str, arrives: Change, announces: Change, *docs: str) -> None:
    """``T.ptx.mbarrier.<name>``, and the same after bytes are announced. docs: of both."""
    instruction(
        f"ptx.mbarrier.{name}",
        keywords={"count": None, **ORDERED},
        operands=(PTR, counts("count")),
        check=check_constants,
        doc=docs[0],
        forms=(
            *_arrivals(name, once(arrives), "", "sm_80", {"count": LEFT_OUT}),
            *_arrivals(name, by("count", arrives), ", {count}", "sm_90", {"count": GIVEN}),
        ),
    )
    instruction(
        f"ptx.mbarrier.{name}.expect_tx",
        keywords=ORDERED,
        operands=(PTR, counts("bytes")),
        check=check_constants,
        doc=docs[1],
        forms=tuple(_arrivals(f"{name}.expect_tx", by("bytes", announces), ", {bytes}", "sm_90")),
    )


arrival_rows(
    "arrive",
    arrived,
    announced_and_arrived,
    "Arrives at an m-barrier, ``count`` times; returns its state before, unless it is in another CTA.",
    "Announces ``bytes`` to an m-barrier, then arrives; returns its state before, unless it is in another CTA.",
)

for _name, _change, _doc in (
    ("expect_tx", announced, "Announces ``bytes`` to an m-barrier: its phase does not end before they have come."),
    ("complete_tx", completed, "Tells an m-barrier that so many ``bytes`` have come, as an asynchronous copy does."),
):
    instruction(
        f"ptx.mbarrier.{_name}",
        keywords={"scope": None, "space": "shared"},
        operands=(PTR, counts("bytes")),
        check=check_constants,
        also={"relaxed": "", "cta": ""},
        doc=_doc,
        forms=tuple(
            Form(
                Ptx(f"mbarrier.{_name}.relaxed{{scope}}{{space}}.b64", {"scope": scopes, "space": spaces}),
                since("sm_90"),
                SOURCE.format(_name),
                Meaning(by("bytes", _change), on="machine"),
                effects=(*CHANGE, Signal("ptr", "bytes", "relaxed", scope_of)),
            )
            for scopes, spaces in ((ANY_SCOPE, OWN), ({**ANY_SCOPE, **REMOTE_SCOPE}, REMOTE))
        ),
    )

# A wait to which the hardware may answer "not yet" is emitted in a loop; a single test gives the answer.
BLOCKING = "{{ .reg .pred done; again: {mnemonic} done, [{ptr}], %s; @!done bra again; }}"
ASKING = "{{ .reg .pred done; {mnemonic} done, [{ptr}], %s; selp.b32 {result}, 1, 0, done; }}"


def _waits(
    opcode: str, pattern: str, execute: Callable[..., Lanes], first: str, settings: Mapping[str, Spellings] = {}
) -> Iterator[Form]:
    blocking = pattern.startswith(BLOCKING.partition("%s")[0])
    for order in _orders("acquire", first, remote=False):
        yield Form(
            Ptx(
                f"mbarrier.{opcode}{order.text.replace('{space}', '.shared')}.b64",
                {**settings, "sem": order.modifiers["sem"], "scope": order.modifiers["scope"]},
                pattern=pattern,
            ),
            since(order.first),
            SOURCE.format(opcode.replace(".parity", "")),
            Meaning(execute, on="machine"),
            effects=(READ, order.signal("wait"), *((Sync("poll"),) if blocking else ())),
            result=VOID if blocking else BOOL,
        )


WAITED = {"sem": "acquire", "scope": None}


class Named(NamedTuple):
    """How a wait names the phase that it waits for."""

    operand: Operand
    suffix: str
    is_over: Callable[..., Lanes]
    doc: str


PARITY = Named(counts("phase"), ".parity", parity_is_over, "the phase of parity ``phase`` (its lowest bit)")
BY_STATE = Named(counts("state", "b64"), "", state_is_over, "the phase in which `arrive` gave ``state``")


def _wait_row(name: str, phase: Named, pattern: str, doc: str, first: str = "sm_90") -> None:
    opcode = name.partition("_wait")[0] + "_wait" + phase.suffix
    instruction(
        f"ptx.mbarrier.{name}",
        keywords=WAITED,
        operands=(PTR, phase.operand),
        check=check_constants,
        doc=doc.format(phase=phase.doc),
        forms=tuple(_waits(opcode, pattern % f"{{{phase.operand.name}}}", phase.is_over, first)),
    )


def _ask_row(name: str, phase: Named) -> None:
    operand = f"{{{phase.operand.name}}}"
    opcode = f"try_wait{phase.suffix}"
    instruction(
        f"ptx.mbarrier.{name}",
        keywords={"ns": None, **WAITED},
        operands=(PTR, phase.operand, counts("ns")),
        check=check_constants,
        doc=f"Whether {phase.doc} is over; may sleep a while, at most about ``ns`` nanoseconds, before it answers no.",
        forms=(
            *_waits(opcode, ASKING % operand, phase.is_over, "sm_90", {"ns": LEFT_OUT}),
            *_waits(opcode, ASKING % f"{operand}, {{ns}}", in_time(phase.is_over), "sm_90", {"ns": GIVEN}),
        ),
    )


_wait_row("try_wait", PARITY, BLOCKING, "Waits until {phase} is over.")
_wait_row("try_wait.state", BY_STATE, BLOCKING, "Waits until {phase} is over.")
_wait_row("test_wait", BY_STATE, ASKING, "Whether {phase} is over.", "sm_80")
_wait_row("test_wait.parity", PARITY, ASKING, "Whether {phase} is over.", "sm_80")
_ask_row("try_wait_once", PARITY)
_ask_row("try_wait_once.state", BY_STATE)

# m-barriers: threads that arrive for the last time, arrivals that end no phase, and what a state says.
#
# Source: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".


def unending(change: Callable[[Lanes, Lanes], Lanes], machine: Machine, address: Lanes, count: Lanes) -> Lanes:
    """``count`` arrivals of a kind, which must not end the phase; returns the state before them."""
    within(machine, "count", count)
    before = changed(machine, address, change, count)
    ended = machine.active & (phase_state(change(before, count)).phase != phase_state(before).phase)
    if ended.any():
        machine.fault("an arrival with .noComplete ends the phase", ended)
    return before


def pending_of(state: Lanes) -> Lanes:
    """How many arrivals were pending when an arrival returned ``state``."""
    return phase_state(state).pending.astype(np.uint32)


arrival_rows(
    "arrive_drop",
    dropped,
    announced_and_dropped,
    "Arrives at an m-barrier for the last time: later phases wait for ``count`` arrivals less.",
    "Announces ``bytes`` to an m-barrier, then arrives for the last time; returns its state before.",
)
for _name, _arrival, _last in (("arrive", arrived, ""), ("arrive_drop", dropped, " for the last time")):
    single(
        f"ptx.mbarrier.{_name}.no_complete",
        Ptx(f"mbarrier.{_name}.noComplete{{space}}.b64", {"space": OWN}),
        since("sm_80"),
        SOURCE.format(_name),
        Meaning(partial(unending, _arrival), on="machine"),
        keywords={"space": "shared"},
        operands=(PTR, counts("count")),
        check=check_constants,
        doc=f"Arrives ``count`` times{_last}; ending the phase is an error. Returns the m-barrier's state before.",
        effects=(*read_and_written("ptr", "shared", 8, scope="cta"), Signal("ptr", "arrive", "release", "cta")),
        result=STATE,
    )
single(
    "ptx.mbarrier.pending_count",
    Ptx("mbarrier.pending_count.b64"),
    since("sm_80"),
    SOURCE.format("pending_count"),
    Meaning(pending_of),
    operands=(counts("state", "b64"),),
    doc="How many arrivals were pending when an arrival gave ``state``.",
    result=lambda mods: "u32",
)
