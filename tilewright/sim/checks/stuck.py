"""Threads that can never go on: the scheduler finds them in every run, when nothing else can run.

The signals of a wave's m-barriers are recorded, so that the report names the cause: bytes that no copy brings, a thread
that announced bytes and did not arrive, fewer arrivals than were asked for, or no signal at all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tilewright.errors import SimulationError
from tilewright.explain import Way, advised, between, insert, instruction, operand, replaced
from tilewright.isa import Signal, phase_of, phase_state
from tilewright.sim.checks.base import Check, hear, register
from tilewright.sim.machine.batch import where_text
from tilewright.sim.machine.places import element_text, pointer_to
from tilewright.terms import Operand, Term, call, told

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.machine.arrays import Ints, Value
    from tilewright.sim.machine.batch import Batch, Mask
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.machine.signals import Signalled
    from tilewright.sim.machine.subject import Subject
    from tilewright.sim.machine.wave import Wave

KEPT = 1024  # events of a wave
CAME = "came"


class PastEvent(NamedTuple):
    """A signal to m-barriers, by CTA and address, and their phases. kind: of the `Signal`, or CAME: bytes came."""

    kind: str
    by: str
    at: Span | None
    rows: Ints
    address: Ints
    phase: Ints
    nbytes: Ints

    def where(self) -> Iterator[tuple[int, int]]:
        """CTA row and address of each m-barrier."""
        return zip(self.rows.tolist(), self.address.tolist(), strict=True)

    def of(self, row: int, address: int) -> Ints:
        """The entries of this record that are of one m-barrier."""
        return np.flatnonzero((self.rows == row) & (self.address == address))


class Tale(NamedTuple):
    """An m-barrier of a run that is stuck: what its phase lacks, and its signals in this phase and in all phases."""

    name: str
    cta: str
    address: int
    pending: int
    expected: int
    tx: int
    now: list[PastEvent]
    ever: list[PastEvent]
    came: int
    is_whole: bool  # are these all of its signals, with none dropped?
    pointer: Operand | None  # to it, as the kernel writes it
    asked: Span | None  # where a thread waits for it

    def last(self, *kinds: str, ever: bool = False) -> PastEvent | None:
        """The last record of one of these kinds."""
        return next((one for one in reversed(self.ever if ever else self.now) if one.kind in kinds), None)


class Stuck(Check):
    def __init__(self, program: Subject) -> None:
        super().__init__(program)
        self.told: dict[Wave, deque[PastEvent]] = {}

    def start(self, wave: Wave) -> None:
        self.told[wave] = deque(maxlen=KEPT)

    def ended(self, wave: Wave) -> None:
        del self.told[wave]

    def signalled(self, event: Signalled) -> None:
        signals, kind = event.warps, event.effect.kind
        where = signals.home, signals.offset, signals.phase, np.zeros_like(signals.home)
        self.told[event.batch.wave].append(PastEvent(kind, kind, event.at, *where))

    def completing(self, operation: Operation) -> None:
        for one in operation.signals:
            assert isinstance(one.effect, Signal)
            if not one.effect.at_issue:
                is_bytes = one.effect.kind == "bytes"
                nbytes = operation.amounts(one)[one.issuer] if is_bytes else np.zeros(len(one.issuer))
                phase = phase_of(operation.batch.wave.shared.view(8)[one.rows, one.at >> 3])
                where = one.rows, one.at, phase, nbytes.astype(np.int64)
                self.told[operation.batch.wave].append(
                    PastEvent(CAME, operation.name, operation.instruction.at, *where)
                )

    def stuck(self, wave: Wave, waited: Sequence[tuple[int, int]]) -> str:
        if not waited:
            return ""
        first = waited[0][0] - int(wave.rank(waited[0][0]))
        cluster = range(first, first + wave.run.cluster_ctas)
        awaited = [where for where in waited if where[0] in cluster]
        told = {(row, address) for one in self.told[wave] for row, address in one.where() if row in cluster}
        tales = [self._tale(wave, *where) for where in dict.fromkeys([*awaited, *sorted(told)])]
        for rule, those in RULES:
            for tale in tales[: len(awaited)] if those == "awaited" else tales:
                if idea := rule(tale, tales):
                    return idea
        return ""

    def _tale(self, wave: Wave, row: int, address: int) -> Tale:
        state = phase_state(wave.shared.view(8)[row, address >> 3])
        ever, now, came = list[PastEvent](), list[PastEvent](), 0
        for one in self.told[wave]:
            if len(which := one.of(row, address)):
                ever.append(one)
                if state.alive and (one.phase[which] == state.phase).any():
                    now.append(one)
                    came += int(one.nbytes[which][one.phase[which] == state.phase].sum())
        name = element_text(self.program, self.program.places.shared_at(address), address)
        fields = (int(state.pending), int(state.expected), int(state.tx)) if state.alive else (0, 0, 0)
        is_whole = len(self.told[wave]) < KEPT
        pointer, waits = pointer_to(wave, address), [one for one in ever if one.kind == "wait"]
        asked = waits[-1].at if waits else None
        return Tale(name, wave.cta_name(row), address, *fields, now, ever, came, is_whole, pointer, asked)


# Possible causes, for one m-barrier


def other_bytes(tale: Tale, all_tales: Iterable[Tale]) -> str:
    """All threads have arrived, but other bytes came than were announced."""
    announced, copy = tale.last("arrive", "bytes"), tale.last(CAME)
    if tale.pending or not tale.tx or announced is None:
        return ""
    expected = tale.came + tale.tx
    if copy is not None:
        text = (f"{tale.came} bytes announced at {announced.at}, not {expected}: "
                f"so many came to {tale.name}, the last of {copy.by} at {copy.at}")  # fmt: skip
        ways = [(operand(line, "bytes", tale.came),) for line in _line(announced)]
        return advised(text, "count", "cta", _line(announced), ways=ways)
    told = ""
    for other in all_tales:
        one = other.last(CAME, ever=True)
        if one is not None and other is not tale and (other.tx < 0 or other.address == tale.address):
            told = f"; that of {one.by} at {one.at} came to {other.name} of CTA {other.cta}"
    lacks = f"a copy that tells {tale.name} of CTA {tale.cta}"
    return f"{lacks}: {expected} bytes were announced at {announced.at}, and none came{told}"


def announced_alone(tale: Tale, _: Iterable[Tale]) -> str:
    """Bytes were announced by `expect_tx`, but no thread has arrived."""
    announced = tale.last("bytes")
    if announced is None or tale.pending < tale.expected or tale.tx < 0:
        return ""
    text = told(
        "{} at {}, or an arrival beside it: expect_tx alone announces bytes to {}, and arrives nowhere",
        *(Term("named", ("ptx.mbarrier.arrive.expect_tx",)), announced.at, tale.name),
    )
    ways = [(instruction(line, "ptx.mbarrier.arrive.expect_tx"),) for line in _line(announced)]
    return advised(text, "arrival", "cta", _line(announced), ways=ways)


def unannounced(tale: Tale, _: Iterable[Tale]) -> str:
    """Bytes have come that no thread has announced."""
    copy = tale.last(CAME)
    if not tale.pending or tale.tx >= 0 or copy is None:
        return ""
    named = call("ptx.mbarrier.arrive.expect_tx", Operand(tale.name), tale.came)
    why = f"{copy.by} at {copy.at} has brought {-tale.tx} bytes that nobody there has announced"
    text = told("{} in CTA {}: {}", named, tale.cta, why)
    code = call("ptx.mbarrier.arrive.expect_tx", tale.pointer, tale.came) if tale.pointer is not None else None
    ways = [between(code, *_line(copy))] if code is not None else []
    if (arrived := tale.last("arrive")) is not None and code is not None:
        ways = [(replaced(line, code),) for line in _line(arrived)] + ways
    return advised(text, "count", "cta", _line(copy), code, ways)


def too_few(tale: Tale, _: Iterable[Tale]) -> str:
    """Fewer threads arrived than the m-barrier was made for."""
    made, last, came = tale.last("init", ever=True), tale.last("arrive"), tale.expected - tale.pending
    if last is None or made is None or not 0 < came < tale.expected:
        return ""
    text = (f"{tale.expected - came} more at {tale.name}, or a count of {came} in mbarrier.init at {made.at}: "
            f"it was made for {tale.expected} arrivals, and {came} came, the last at {last.at}")  # fmt: skip
    ways = [(operand(line, "count", came),) for line in _line(made)]
    return advised(text, "count", "cta", _line(made), ways=[*ways, *_arrivals(tale)])


def nobody(tale: Tale, _: Iterable[Tale]) -> str:
    """No thread and no copy has ever arrived."""
    if not tale.is_whole or not tale.expected or tale.last("arrive", CAME, ever=True):
        return ""
    lacks = f"an arrival at {tale.name}, where nobody has ever arrived"
    if tale.last("wait", ever=True):
        return advised(lacks, "arrival", "cta", ways=_arrivals(tale))
    text = f"{lacks}; or parity 1, if this is the first wait for a place that is still empty"
    return advised(text, "arrival", "cta", ways=_arrivals(tale))


def _arrivals(tale: Tale) -> list[Way]:
    """An arrival somewhere."""
    return [] if tale.pointer is None else [(insert(told("{}", call("ptx.mbarrier.arrive", tale.pointer)), 0),)]


def _line(one: PastEvent | None) -> tuple[int, ...]:
    return (one.at.line,) if one is not None and one.at is not None else ()


RULES: tuple[tuple[Callable[[Tale, Iterable[Tale]], str], str], ...] = (
    (other_bytes, "all"),
    (announced_alone, "all"),
    (unannounced, "all"),
    (too_few, "awaited"),
    (nobody, "awaited"),
)


# Loops that turn on the spot

HOISTED = (
    "a volatile or an atomic load of what it waits for: nothing says that another thread may change that place, and so "
    "the compiler has taken a plain load out of the loop"
)
PATIENCE = 1 << 16  # turns between two looks


class Turns:
    """Counts the turns of a loop that no other thread can end: it is endless if a turn changes none of its variables.

    leaves: does anything end the loop? hoisted: is it a compiled one that touches no memory?
    """

    def __init__(self, at: Span | None, *, leaves: bool, hoisted: bool = False) -> None:
        self.at = at
        self.leaves = leaves
        self.hoisted = hoisted
        self.count = 0
        self.before: tuple[Value, ...] = ()

    def next(self, batch: Batch, mask: Mask, state: tuple[Value, ...]) -> None:
        """Raises SimulationError where nothing will end the loop: the variables are what they were a turn ago."""
        if self.hoisted:
            raise self._livelock(batch, mask, "the compiled loop reads nothing from memory, and nothing in it ends it")
        if not self.leaves:
            raise self._livelock(batch, mask, "no condition and no `break` ends it")
        self.count += 1
        if self.count % PATIENCE == 0:
            self.before = state
        elif self.count % PATIENCE == 1 and self.count > 1 and _equal(self.before, state):
            raise self._livelock(batch, mask, "a turn changes none of its variables")

    def _livelock(self, batch: Batch, mask: Mask, why: str) -> SimulationError:
        given, hint = f"{where_text(batch, mask.full)}: {why}", HOISTED if self.hoisted else None
        return batch.error("livelock", "livelock: a loop goes on for ever", mask.full, self.at, given=given, hint=hint)


def _equal(before: tuple[Value, ...], state: tuple[Value, ...]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(before, state, strict=True))


register("deadlock", "threads that wait at a barrier for others that never come", Stuck)
hear("", turns=Turns)
register("divergence", "a warp whose lanes can never be together for an instruction that needs them all")
register("livelock", "loops that poll memory which nobody is left to change")
