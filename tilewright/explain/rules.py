"""Rules that hold in every schedule, in words; why a phase of an m-barrier never ends; and what terms are called in
other languages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from tilewright.errors import SimulationError
from tilewright.explain.finding import Way, advised, between, insert, instruction, operand, place_of, replaced
from tilewright.isa import INSTRUCTIONS
from tilewright.records import read_tables
from tilewright.terms import (
    NO_BARRIER,
    OURS,
    Dialect,
    Keywords,
    Operand,
    Operands,
    Spelling,
    Term,
    Told,
    barrier,
    call,
    listed,
    told,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.errors import Span
    from tilewright.explain.finding import Facts, Threads

__all__ = [
    "COMMAND", "CUDA", "NUMBA", "PTX", "TRITON",
]  # fmt: skip


# What terms are called in other languages: a table for each.
#
# A kind of term that a table does not have stays for another table: options are named by the command line alone.


def _in_ptx(name: str, operands: Operands, keywords: Keywords) -> str:
    """``cp.async.wait_group 1``: a call as PTX spells it, whose operands are numbers and modifiers; one that names a
    place has no spelling of its own there.
    """
    row = INSTRUCTIONS.get(name)
    name = name.removeprefix("ptx.")
    values = [*operands, *(value for _, value in keywords)]
    if row is None or any(isinstance(value, Operand) for value in values):
        return f"{name}({listed(operands, keywords)})"
    names = [*row.params[: len(operands)], *row.keywords][: len(operands)]
    mods: dict[str, Any] = {**row.keywords, **dict(zip(names, operands, strict=False)), **dict(keywords)}
    numbers = "".join(f" {value}" for value in values if type(value) is int)
    fitting = (form.mnemonic(mods) for form in row.forms if form.fits(mods) and ... not in values)
    return next(fitting, row.forms[0].wording.template.partition("{")[0].rstrip(".")) + numbers


_OF_GRIDS = {"ptx.griddepcontrol.wait": "cudaGridDependencySynchronize()"}


def _called_in_cuda(name: str, operands: Operands, keywords: Keywords) -> str:
    """A call by the function that CUDA has for it, or as PTX spells it."""
    return _OF_GRIDS.get(name) or _in_ptx(name, operands, keywords)


def _met_in_ptx(name: str) -> str:
    return _in_ptx(name, (...,), ())


def _plain(name: str) -> str:
    """An instruction without the name of its room."""
    return name.removeprefix("ptx.").replace("cp_async", "cp.async")


_ATOMICS = ("add", "min", "max", "and", "or", "xor", "exch", "inc", "dec", "cas")
_COLLECTIVES = ("shfl", "vote", "match", "redux")


def _in_cuda(name: str) -> str:
    """An instruction as a .cu file has it; that of a function of its own in PTX keeps its name."""
    match name.split("."):
        case ["cuda", "cta_sync"]:
            return "__syncthreads"
        case ["ptx", "bar", "warp", "sync"]:
            return "__syncwarp"
        case ["ptx", "atom" | "red", op, *more] if op in _ATOMICS:
            return ".".join([f"atomic {op}", *more])
        case ["ptx", "ld" | "st" as op, *_]:
            return f"volatile {'load' if op == 'ld' else 'store'}"
        case ["ptx", kind, "sync", *more] if kind in _COLLECTIVES:
            return ".".join([f"__{kind}_sync", *more])
    return _plain(name)


def _met_in_cuda(name: str) -> str:
    return {"cuda.cta_sync": "__syncthreads()", "ptx.bar.warp.sync": "__syncwarp(...)"}.get(name) or _met_in_ptx(name)


_FLAG = "; or tell of it by a flag, with {0} before it is set and after it is seen"
_GRID = "; or, where the launch is cooperative, cooperative_groups::this_grid().sync()"


def _apart(flag: str) -> dict[str, str]:
    """How CTAs are told of something, beside what holds for all of them."""
    return {f"no barrier {kind}": text + flag for kind, text in NO_BARRIER.items()}


def _by_barrier(word: str, met: Callable[[str], str] = _met_in_ptx) -> dict[str, str | Callable[[str], str]]:
    """The rows that name the barrier of a CTA. met: how else threads meet."""
    return {
        "barrier cta": word,
        "operation": lambda name: {"cuda.cta_sync": word, "cuda.trap": "trap"}.get(name) or _plain(name),
        "meeting": lambda name: word if name == "cuda.cta_sync" else met(name),
    }


_AS_IN_PTX: dict[str, Spelling] = {
    "named": _plain,
    "register": "a value",
    "fence at": "{2} {0} line {1}",
    "one is enough": OURS.spellings["one is enough"],
    "advice": OURS.spellings["advice"],
    "call": _in_ptx,
    "trap": "trap",
}
"""What those share who write PTX, or a language that its instructions are known by."""


CUDA = Dialect({
    **_AS_IN_PTX,
    "barrier warp": "__syncwarp()",
    "barrier cta": "__syncthreads()",
    "barrier cluster": "cooperative_groups::this_cluster().sync()",
    "fence": "asm volatile(\"fence.acq_rel.{0};\" ::: \"memory\")",
    "fence gpu": "__threadfence()",
    "fence cta": "__threadfence_block()",
    "fence sys": "__threadfence_system()",
    "call": _called_in_cuda,
    "operation": _in_cuda,
    "meeting": _met_in_cuda,
    "atomic": "atomic{0}(&{1}[...], value)",
    "atomic add": "atomicAdd(&{1}[...], value)",
    "strong": "an atomic or volatile access",
    "only if cta": "if (blockIdx.x == 0) ...",
    "only if thread": "if (threadIdx.x == 0) ...",
    "only if cta thread": "if (blockIdx.x == 0 && threadIdx.x == 0) ...",
    **_apart(_FLAG.format("__threadfence()") + _GRID),
    "trap": "__trap()",
}, end=";")  # fmt: skip
"""CUDA C++."""
PTX = Dialect({
    **_AS_IN_PTX,
    "register": "{0}",
    "barrier warp": "bar.warp.sync",
    **_by_barrier("bar.sync 0"),
    "barrier cluster": "barrier.cluster",
    "fence": "fence.acq_rel.{0}",
    "atomic": "atom.{0}",
    "strong": "{0}.relaxed",
    "only if cta": "a branch of CTA 0 alone",
    "only if thread": "a branch of thread 0 alone",
    "only if cta thread": "a branch of thread 0 of CTA 0 alone",
    **_apart(_FLAG.format("fence.acq_rel.gpu")),
}, end=";")  # fmt: skip
"""PTX."""
NUMBA = Dialect({
    **_AS_IN_PTX,
    "barrier warp": "cuda.syncwarp()",
    **_by_barrier("cuda.syncthreads()"),
    "barrier cluster": "the barrier of the cluster",
    "fence": "cuda.threadfence()",
    "fence cta": "cuda.threadfence_block()",
    "fence sys": "cuda.threadfence_system()",
    "atomic": "cuda.atomic.{0}({1}, ..., value)",
    "strong": "an atomic access",
    "only if cta": "if cuda.blockIdx.x == 0: ...",
    "only if thread": "if cuda.threadIdx.x == 0: ...",
    "only if cta thread": "if cuda.grid(1) == 0: ...",
    **_apart(_FLAG.format("cuda.threadfence()")),
})  # fmt: skip
"""Kernels of Numba."""
TRITON = Dialect({
    "named": _plain,
    "register": "a value",
    "call": lambda name, operands, keywords: f"{_plain(name)}({listed(operands, keywords)})",
    "fence at before": "sem='release' at line {1}",
    "fence at after": "sem='acquire' at line {1}",
    "barrier warp": "tl.debug_barrier()",
    **_by_barrier("tl.debug_barrier()", lambda name: f"{_plain(name)}(...)"),
    "atomic": "tl.atomic_{0}({1} + ..., value)",
    "strong": "an atomic",
    "one is enough": "",
    "advice": "",
    **_apart("; or tell of it by an atomic with sem='release', and look for it by one with sem='acquire'"),
    "trap": "trap",
})  # fmt: skip
"""Triton, whose compiler places barriers: what it has no word for is no advice to its users."""


def _array_option(name: str, how: str, dtype: str) -> str:
    """``--arg x:f32[...]``."""
    short = {"bfloat16": "bf16"}.get(dtype) or dtype.replace("float", "f").replace("uint", "u").replace("int", "i")
    return f"--arg {name}:{short}[...]"


COMMAND = Dialect({
    **{f"option {name}": f"--{name} {{1}}" for name in ("block", "grid", "cluster")},
    "option non_portable_cluster": "--non-portable-cluster",
    "option shared_bytes": "--smem {1}",
    "option limit_s": "--limit {1}s",
    "option limit_steps": "--limit {1}steps",
    "option limit_bytes": "--limit {1}B",
    "option target": "--arch {1}",
    "array as": _array_option,
    "bytes of a structure": "FILE.npy of its bytes, or numbers with their types, i32(7)",
    "typed number": "a number with its type, i32(7)",
})  # fmt: skip
"""The command line of `tilewright check`."""


# Rules that hold in every schedule, in words: of barriers, m-barriers, other CTAs' memory, operations under way; and
# why a phase of an m-barrier never ends.


if TYPE_CHECKING:
    Ints: TypeAlias = NDArray[np.int64]


class ScheduleRule(NamedTuple):
    """what: who breaks it does that, with the fields of one finding. allowed, hint: instead."""

    what: str
    allowed: str
    hint: str | None = None
    kind: str = "races"


_TERMS = {"no data": call("ptx.mbarrier.inval", ...), "cta ended": barrier("cluster")}
"""What fills the hole in the hint of a rule."""


@cache
def schedule_rules() -> Mapping[str, ScheduleRule]:
    """The rules by name, read once one of them is broken."""
    rules = {name: ScheduleRule(**row) for name, row in read_tables(__file__, "schedule_rules.toml").items()}
    hints = {name: told(rules[name].hint or "", term) for name, term in _TERMS.items()}
    return {name: rule._replace(hint=hints.get(name, rule.hint)) for name, rule in rules.items()}


def broken(
    rule: str,
    *fields: object,
    at: Span | None,
    who: Threads | None = None,
    instead: tuple[str, ...] = (),
    hint: str | None = None,
    **facts: object,
) -> SimulationError:
    """The finding. facts: ``given`` among them, else it is who. instead: the fields of what is allowed. hint: in place
    of the rule's.
    """
    row, shown = schedule_rules()[rule], facts.pop("given", None)
    facts = {name: fact for name, fact in facts.items() if fact is not None} | ({"threads": (who,)} if who else {})
    return SimulationError(
        told(row.what, *fields),
        given=shown or str(who),
        allowed=row.allowed.format(*instead),
        hint=hint or row.hint,
        at=at,
        kind=row.kind,
        **facts,
    )


@dataclass(frozen=True, slots=True)
class LackingFence:
    """What an operation may not see, ``reads s, stored by warp 0 without a proxy fence``, and the place of the fence.

    fence: what is missing, and where it belongs, in words. lines: behind which that is, or between which; else right
    before the operation. is_wrong: does hardware give wrong data, so that a warning is not enough? buffer: the one that
    is touched.
    """

    what: str
    fence: Told
    lines: tuple[int, ...] = ()
    is_wrong: bool = False
    buffer: str | None = None

    def warning(self, name: str, at: Span | None) -> Told:
        """The sentence, with the line of the operation."""
        return told("{}: {} {}{}", at, name, self.what, Term("advice", (self.fence,)))

    def remedy(self, at: Span | None) -> Told:
        """The hint."""
        lines = self.lines if len(self.lines) > 1 or at is None else (*self.lines, at.line)
        code = next(part for part in self.fence.parts if isinstance(part, Term))
        return advised(self.fence, "proxy_fence", "cta", lines, code)

    def facts(self, name: str, at: Span | None, who: Threads) -> Facts:
        """The fields of the warning's finding."""
        facts = {"operation": name, "buffer": self.buffer, "remedy": self.remedy(at).remedy, "threads": (who,)}
        return place_of(at) | facts

    def error(self, name: str, at: Span | None, who: Threads, shown: str) -> SimulationError:
        """The finding."""
        hint, buffer = self.remedy(at), self.buffer
        return broken(
            "unfenced", name, self.what, at=at, who=who, given=shown, hint=hint, operation=name, buffer=buffer
        )


# Why a phase of an m-barrier never ends: what its signals in a run that is stuck tell.


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
        return next((event for event in reversed(self.ever if ever else self.now) if event.kind in kinds), None)


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
        event = other.last(CAME, ever=True)
        if event is not None and other is not tale and (other.tx < 0 or other.address == tale.address):
            told = f"; that of {event.by} at {event.at} came to {other.name} of CTA {other.cta}"
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
    begun, last, came = tale.last("init", ever=True), tale.last("arrive"), tale.expected - tale.pending
    if last is None or begun is None or not 0 < came < tale.expected:
        return ""
    text = (f"{tale.expected - came} more at {tale.name}, or a count of {came} in mbarrier.init at {begun.at}: "
            f"it was made for {tale.expected} arrivals, and {came} came, the last at {last.at}")  # fmt: skip
    ways = [(operand(line, "count", came),) for line in _line(begun)]
    return advised(text, "count", "cta", _line(begun), ways=[*ways, *_arrivals(tale)])


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


def _line(event: PastEvent | None) -> tuple[int, ...]:
    return (event.at.line,) if event is not None and event.at is not None else ()


CAUSES: tuple[tuple[Callable[[Tale, Iterable[Tale]], str], str], ...] = (
    (other_bytes, "all"),
    (announced_alone, "all"),
    (unannounced, "all"),
    (too_few, "awaited"),
    (nobody, "awaited"),
)


def cause_of(tales: Sequence[Tale], awaited: int) -> str:
    """What may be the cause, in words, empty where nothing tells. awaited: at so many, the first, threads wait."""
    for rule, those in CAUSES:
        for tale in tales[:awaited] if those == "awaited" else tales:
            if idea := rule(tale, tales):
                return idea
    return ""
