"""Why a phase of an m-barrier never ends: what its signals in a run that is stuck tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from tilewright.explain.remedy import Way, advised, between, insert, instruction, operand, replaced
from tilewright.terms import Operand, Term, call, told

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.errors import Span

    Ints: TypeAlias = NDArray[np.int64]

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


def cause_of(tales: Sequence[Tale], awaited: int) -> str:
    """What may be the cause, in words, empty where nothing tells. awaited: at so many, the first, threads wait."""
    for rule, those in RULES:
        for tale in tales[:awaited] if those == "awaited" else tales:
            if idea := rule(tale, tales):
                return idea
    return ""
