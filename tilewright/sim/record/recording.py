"""A recorded run as plain data: nothing in it refers to the machine that made it.

Order: ``seq`` counts everything that is recorded, over all warps, in the order in which the simulator did it; what
several warps do at once with one statement has one number. ``step`` is the simulator's own count of the stretches that
it has run. The simulator runs one batch after the other, so that neither is a time: what may be at once follows from
the streams of the warps, and from what their waits name.

What grows meanwhile is at the end: the events of one warp, the phases of an m-barrier, a meeting at a barrier.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np

from tilewright.errors import ArgumentError
from tilewright.explain import numbered
from tilewright.isa import phase_state
from tilewright.public import Public
from tilewright.records import replace

if TYPE_CHECKING:
    from collections.abc import Container, Iterable
    from pathlib import Path

    from tilewright.errors import Span
    from tilewright.explain import Finding
    from tilewright.isa import Lanes, ProductShape
    from tilewright.layout import Layout
    from tilewright.sim.machine import Array, Ints
    from tilewright.view.look import Timeline


@Public(ArgumentError, {}).fields
@dataclass(frozen=True, slots=True)
class RecordingOptions:
    """How much of a run is recorded. ctas: how many, from the first on, or their numbers in the grid; the other CTAs of
    their clusters are recorded, too. events: of all warps together; what comes later is left out. stepped: of so many
    of these CTAs each statement is kept, with its values, within ``nbytes``. alone: CTAs behind the last of them do not
    run at all, so that the arrays are only theirs; a kernel whose CTAs wait for those never ends.
    """

    ctas: int | tuple[int, ...] = 16
    events: int = 400_000
    stepped: int = 1
    nbytes: int = 16 << 20
    alone: bool = False

    def __post_init__(self) -> None:
        count = self.ctas - 1 if isinstance(self.ctas, int) else self.ctas
        several = count if isinstance(count, tuple) else (count,)
        if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in several) or not several:
            allowed = "how many CTAs, from 1 on; or a tuple of their numbers in the grid, from 0 on"
            raise ArgumentError("no CTAs to record", given=repr(self.ctas), allowed=allowed)
        for name, least in (("events", 1), ("stepped", 0), ("nbytes", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                allowed = f"a whole number, from {least} on"
                raise ArgumentError(f"{name} is how many", given=f"{name}={value!r}", allowed=allowed)

    @classmethod
    def of(cls, wanted: bool | int | tuple[int, ...] | RecordingOptions) -> RecordingOptions | None:
        """What the argument ``record=`` means; None: nothing is recorded."""
        if isinstance(wanted, RecordingOptions):
            return wanted
        if isinstance(wanted, bool):
            return cls() if wanted else None
        return cls(ctas=wanted)

    @property
    def last(self) -> int:
        """The number of the last CTA that is asked for."""
        return max(self.ctas) if isinstance(self.ctas, tuple) else self.ctas - 1

    def holds(self, cta: int) -> bool:
        """Is the CTA of this number one of them?"""
        return cta in self.ctas if isinstance(self.ctas, tuple) else cta < self.ctas


@dataclass(frozen=True, slots=True)
class Row:
    """A statement of the lowered kernel. text: its first line. kind: "let", "store", "call", "if", "loop", "meet" (a
    barrier) or "ask" (a wait for an m-barrier or for tensor memory).

    counts: what a warp executes with one execution: names of the instruction table ("ptx.wgmma.mma_async"), "load
    shared" and "store global" and the like, operators with their type ("float32 *", "int32 cast"), and "address", the
    operators of indices. Loads and stores of registers count nothing.
    commits: the group that it closes. mnemonic: of its instruction of the table, in PTX; of
    several that which begins an operation, or the first. signals: buffers with m-barriers that it tells, or the
    operation that it begins.
    defines: the variable or the buffer that gets its value. uses: those that it reads; of a call all that it names.
    turns: of a loop, where they are constant. is_unrolled: does the loop say so? product: of its instruction.
    is_integer: does its instruction have a type of integers? inside: the row of the statement around it.
    """

    text: str
    kind: str
    at: Span | None
    counts: Mapping[str, int]
    commits: str = ""
    mnemonic: str = ""
    signals: tuple[str, ...] = ()
    defines: str = ""
    uses: frozenset[str] = frozenset()
    turns: int | None = None
    is_unrolled: bool = False
    product: ProductShape | None = None
    is_integer: bool = False
    inside: int | None = None


@dataclass(frozen=True, slots=True)
class KernelBuffer:
    """A buffer of the kernel. start: its first byte, of one in shared memory. bits: of an element."""

    name: str
    space: str
    dtype: str
    bits: int
    shape: tuple[int, ...]
    layout: Layout | None
    start: int


@dataclass(frozen=True, slots=True)
class AccessSite:
    """A place of the kernel that touches memory. op: "load", "store" or the instruction. space: shared or global.
    width: bytes of a lane. issues: does an asynchronous operation touch the bytes later? `AsyncOperation` has them.
    run_bytes: of global memory, bytes on end that the recorded warps touch in a stretch, in the mean; whole sectors.
    """

    at: Span | None
    op: str
    buffer: str
    space: str
    write: bool
    width: int
    issues: bool = False
    run_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class WarpAccess:
    """What one access of a warp touches: wavefronts of shared memory and the fewest there could be, or sectors of 32
    bytes of global memory, in so many pieces. start: where the first byte lies among as many as a wavefront has.
    """

    lanes: int
    nbytes: int
    wavefronts: int = 0
    ideal: int = 0
    sectors: int = 0
    start: int = 0
    pieces: int = 0


@dataclass(frozen=True, slots=True)
class Moved:
    """The accesses of a warp at one site in one stretch, added up. site: number in `Recording.sites`. start: of the
    first of them, as of `WarpAccess`.
    """

    site: int
    times: int
    lanes: int
    nbytes: int
    wavefronts: int
    ideal: int
    sectors: int
    start: int = 0
    pieces: int = 0


@dataclass(frozen=True, slots=True)
class Stretch:
    """Statements that a warp executes without any other event in between.

    first, last: the steps of the simulator. segment: of the generated code, the last one. executed: numbers in
    `Recording.rows` and how often, in the order of their first execution; a row of kind "ask" is not among them, each
    `Waited` for an m-barrier is one execution of it.
    """

    seq: int
    first: int
    last: int
    segment: int
    executed: tuple[tuple[int, int], ...]
    moved: tuple[Moved, ...] = ()


@dataclass(frozen=True, slots=True)
class Issued:
    """The warp has issued an asynchronous operation. operation: number in `Recording.operations`."""

    seq: int
    step: int
    row: int
    operation: int


@dataclass(frozen=True, slots=True)
class Committed:
    """The warp has closed a group of operations. operations: those that it closes."""

    seq: int
    step: int
    row: int
    group: str
    operations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Waited:
    """A wait for an m-barrier, a group of operations, or tensor memory (``on``: "mbarrier", "group", "tmem").

    cta, address, phase: of the m-barrier, phases counted from 0 by its initialisation; -1 is the one before the first,
    which counts as over. lane: that asks, the first one. operations: of the group, those that it waits for; reads:
    until their sources have been read. until: seq at which the wait was over; None where it never was. cause: seq of
    the event, of whichever warp or operation, that let it go on; None where nothing that is recorded did.
    blocked: did the warp have to wait in the simulator? For groups that is never so: a wait completes the operations.
    """

    seq: int
    step: int
    row: int
    on: str
    cta: int = -1
    address: int = -1
    phase: int = -1
    lane: int = 0
    group: str = ""
    pending: int | None = None
    operations: tuple[int, ...] = ()
    reads: bool = False
    blocked: bool = False
    until: int | None = None
    cause: int | None = None


@dataclass(frozen=True, slots=True)
class Signalled:
    """Lanes initialised (kind "init"), ended ("inval"), arrived at ("arrive") an m-barrier or announced "bytes" to it.

    cta, address: of the m-barrier, which may be another CTA's. phase: that it was in. arrivals, nbytes: arrivals that
    it counted and bytes that were announced; a thread that does both is one event.
    """

    seq: int
    step: int
    row: int
    kind: str
    cta: int
    address: int
    phase: int
    lanes: int
    arrivals: int = 0
    nbytes: int = 0


@dataclass(frozen=True, slots=True)
class Met:
    """The warp came to a barrier of a CTA, a warpgroup, a number or a cluster. meeting: number in
    `Recording.meetings`, -1 for none. arrives, waits: does it do both, or one of them? until: seq at which it went on;
    None where it never did, or does not wait. cause: seq of the last arrival.
    """

    seq: int
    step: int
    row: int
    barrier: int
    meeting: int
    arrives: bool
    waits: bool
    until: int | None = None
    cause: int | None = None


@dataclass(frozen=True, slots=True)
class Fenced:
    """The warp has ordered its accesses. fence: ``fence acq_rel gpu``, ``proxy fence async shared::cta`` or others."""

    seq: int
    step: int
    row: int
    fence: str


@dataclass(frozen=True, slots=True)
class Marked:
    """The warp came to a mark, ``T.trace(name)``. lanes: how many of it."""

    seq: int
    step: int
    row: int
    name: str
    lanes: int


Event: TypeAlias = "Stretch | Issued | Committed | Waited | Signalled | Met | Fenced | Marked"


@dataclass(frozen=True, slots=True)
class Stream:
    """All that a warp did, in its own order. cta: number in the grid."""

    cta: int
    warp: int
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class AsyncOperation:
    """An asynchronous operation of one warp or warpgroup of a CTA; what its threads issue with one statement is one.

    name: of the instruction table. unit: "TMA", "tensor core", "cp.async", "tcgen05" or "memory", which carries it out.
    mnemonic: in PTX, where it has one. warps: from ``warp`` on, 1 or 4. lanes: that issue. reads, writes: bytes by
    memory ("global", "shared", "tmem", "registers") and buffers by memory. signals: (CTA, address) of m-barriers that
    its completion tells. group: with which it is counted. issued, completed: seq; completed is None where it never was.
    is_commit: does it only report, when they are complete, what was issued to its group before? Those are ``after``.
    """

    name: str
    unit: str
    mnemonic: str
    row: int
    at: Span | None
    cta: int
    warp: int
    warps: int
    lanes: int
    group: str
    issued: int
    issued_step: int
    completed: int | None = None
    completed_step: int | None = None
    reads: Mapping[str, int] = field(default_factory=dict)
    writes: Mapping[str, int] = field(default_factory=dict)
    buffers: tuple[str, ...] = ()
    signals: tuple[tuple[int, int], ...] = ()
    is_commit: bool = False
    after: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase of an m-barrier. name: ``full[2]``. number: from 0 by its initialisation, ``life`` counts those.
    signals: seq of the `Signalled` events and of completed operations that counted in it; the last one of an ended
    phase ended it. arrivals, nbytes: that came in all; announced: bytes that were announced. begun: seq of its
    initialisation, or of the end of the phase before. wanted: arrivals that it waits for. The last phase of each
    m-barrier is there also where nothing came to it.
    """

    cta: int
    address: int
    name: str
    life: int
    number: int
    signals: tuple[int, ...]
    arrivals: int
    announced: int
    nbytes: int
    ended: bool
    begun: int = 0
    wanted: int = 0


@dataclass(frozen=True, slots=True)
class BarrierMeeting:
    """Warps that met at a barrier. scope: cta, warpgroup, named or cluster. arrivals: seq of their `Met` events.
    ended: did all come?
    """

    scope: str
    cta: int
    barrier: int
    arrivals: tuple[int, ...]
    ended: bool


EventPlace: TypeAlias = "tuple[int, int, int]"
"""A stream, an event of it, and a statement of its `Steps`, -1 where those are not kept; or -1 and an operation."""


@dataclass(frozen=True, slots=True)
class FindingMoment:
    """When a finding was made. here: what was done then, by which lane, -1 where none is known; other: the access that
    it clashes with. None: not recorded.
    """

    seq: int
    here: EventPlace | None = None
    other: EventPlace | None = None
    lane: int = -1


@dataclass(frozen=True, eq=False, slots=True)
class Step:
    """One statement that a warp executed. seq: of the event before it. lanes: bits of those that took part. value: that
    a variable got: (1,) of all lanes, (32,), or (32, components). touched: site and the 32 addresses of each access, in
    bytes: offsets in shared memory or in their buffer. registers: those that changed until the next statement: number
    of the buffer in `Steps.buffers`, number of the 32-bit word, and its 32 lanes. tmem: the cells of tensor memory that
    changed until then, whoever changed them: the first lane and column around them, and the words there.
    """

    seq: int
    row: int
    lanes: int
    value: Array | None
    touched: tuple[tuple[int, Ints], ...]
    registers: tuple[tuple[int, int, Array], ...]
    tmem: tuple[int, int, Array] | None = None


@dataclass(frozen=True, slots=True)
class Steps:
    """All statements of one warp, one by one. buffers: names of those in registers. is_whole: are these all?"""

    cta: int
    warp: int
    buffers: tuple[str, ...]
    steps: tuple[Step, ...]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What is not recorded. ctas: of the grid. after: seq behind which nothing is, as there were too many events.
    steps: warps of which not every statement was kept, for the bytes that it takes.
    """

    ctas: int = 0
    after: int | None = None
    steps: int = 0

    def __str__(self) -> str:
        said = [f"{self.ctas:,} CTAs of the grid"] * (self.ctas > 0)
        said += [] if self.after is None else [f"all events after number {self.after:,}"]
        said += [f"the later statements of {self.steps} warps"] * (self.steps > 0)
        return " and ".join(said)


@dataclass(frozen=True, eq=False, repr=False)
class Recording:
    """What was recorded of a run: ``run.recording`` of ``simulate(..., record=True)``.

    rows, sites: what events refer to by number. streams: one for each recorded CTA and warp, in this order. operations,
    phases, meetings: of the recorded CTAs. cluster: CTAs of one. threads: of a CTA. steps: of the whole run. stepped:
    of some warps, each statement. findings: what the checks found; moments: of the first of them, when. buffers: of the
    kernel, as their author has them. compiled: as of the `Kernel`.
    """

    kernel: str
    at: Span | None
    target: str
    grid: tuple[int, int, int]
    cluster: int
    threads: int
    rows: tuple[Row, ...]
    sites: tuple[AccessSite, ...]
    streams: tuple[Stream, ...]
    operations: tuple[AsyncOperation, ...]
    phases: tuple[Phase, ...]
    meetings: tuple[BarrierMeeting, ...]
    steps: int
    left_out: LeftOut
    stepped: tuple[Steps, ...] = ()
    findings: tuple[Finding, ...] = ()
    moments: tuple[FindingMoment, ...] = ()
    buffers: tuple[KernelBuffer, ...] = ()
    compiled: bool = False

    @property
    def ctas(self) -> tuple[int, ...]:
        """The numbers of the recorded CTAs."""
        return tuple(dict.fromkeys(stream.cta for stream in self.streams))

    @cached_property
    def barriers(self) -> dict[tuple[int, int], str]:
        """The names of the m-barriers, by CTA and address."""
        return {(phase.cta, phase.address): phase.name for phase in self.phases}

    def stream(self, cta: int, warp: int) -> Stream:
        """What one warp did. Raises ArgumentError for a warp that is not recorded."""
        for stream in self.streams:
            if (stream.cta, stream.warp) == (cta, warp):
                return stream
        allowed = f"{numbered('CTA', self.ctas)}; {numbered('warp', sorted({each.warp for each in self.streams}))}"
        raise ArgumentError("this warp is not recorded", given=f"CTA {cta}, warp {warp}", allowed=allowed)

    def marks(self, cta: int, warp: int) -> tuple[Marked, ...]:
        """The marks that a warp came to, in its order."""
        return tuple(event for event in self.stream(cta, warp).events if isinstance(event, Marked))

    def counts(self, cta: int, warp: int) -> dict[str, int]:
        """What a warp has executed, by kind: `Row.counts` of all that it did."""
        total: dict[str, int] = {}
        for event in self.stream(cta, warp).events:
            ran = event.executed if isinstance(event, Stretch) else ()
            if isinstance(event, Waited) and self.rows[event.row].kind == "ask" and event.until is not None:
                ran = ((event.row, 1),)
            for row, times in ran:
                for kind, number in self.rows[row].counts.items():
                    total[kind] = total.get(kind, 0) + number * times
        return total

    def timeline(self, path: str | Path | None = None, *, units: str = "cycles") -> Timeline:
        """The run warp by warp. path: also written there, for ui.perfetto.dev or chrome://tracing; ``units`` of that
        file: "cycles" (estimated) or "order" (of the simulator).
        """
        from tilewright.view.look import Timeline  # upwards, and only when somebody looks

        timeline = Timeline(self)
        if path is not None:
            timeline.write(path, units)
        return timeline

    def page(self, path: str | Path | None = None) -> str:
        """The page of the run, one HTML file that needs nothing else. path: also written there."""
        from tilewright.view.look import page_of, written

        return written(path, page_of(self))

    def _repr_html_(self) -> str:
        """What a notebook shows: the page."""
        from tilewright.view.look import in_a_frame

        return in_a_frame(self.page())

    def __repr__(self) -> str:
        events = sum(len(stream.events) for stream in self.streams)
        left = f", without {self.left_out}" if str(self.left_out) else ""
        return (f"<Recording of {self.kernel}: {len(self.ctas)} CTAs, {len(self.streams)} warps, {events:,} events, "
                f"{len(self.operations):,} asynchronous operations{left}>")  # fmt: skip


Open = TypeVar("Open", Waited, Met)


class Growing:
    """A warp's events. moved: its accesses since the last event, by site. asking: the place in ``events`` of the wait
    that the warp is in, met: that of the barrier that it waits at. issued: operations that no group has closed yet, by
    group; row: the last statement that it came to.
    """

    def __init__(self, cta: int, warp: int) -> None:
        self.cta = cta
        self.warp = warp
        self.events: list[Event] = []
        self.moved: dict[int, list[WarpAccess]] = {}
        self.asking: int | None = None
        self.met: int | None = None
        self.arrived = -1  # the cluster's meeting at which it has arrived
        self.issued: dict[str, list[int]] = {}
        self.waited_for: set[tuple[int, bool]] = set()  # operations of groups; until they had been read?
        self.row = -1

    def stretch(self, seq: int, step: int, segment: int, executed: tuple[tuple[int, int], ...]) -> bool:
        """Adds what it has executed since the last event, to the last stretch where nothing lies between; is it new?"""
        moved = tuple(_summed(site, len(every), every[0].start, every) for site, every in self.moved.items())
        self.moved.clear()
        if not executed and not moved:
            return False
        last = self.events[-1] if self.events else None
        if isinstance(last, Stretch) and len(last.executed) + len(executed) <= MOST_ROWS:
            both = replace(last, last=step, segment=segment, executed=_added(last.executed, executed),
                           moved=_moved(last.moved, moved))  # fmt: skip
            self.events[-1] = both
            return False
        self.events.append(Stretch(seq, step, step, segment, executed, moved))
        return True

    def ended(self, place: int, seq: int, cause: int | None) -> None:
        """The wait at a place of ``events`` is over."""
        event = self.events[place]
        assert isinstance(event, Waited | Met)
        self.events[place] = replace(event, until=seq, cause=cause)

    def stream(self) -> Stream:
        """All of them."""
        return Stream(self.cta, self.warp, tuple(self.events))


SUMMED = ("lanes", "nbytes", "wavefronts", "ideal", "sectors", "pieces")
MOST_ROWS = 256  # of one stretch, so that adding to it stays quick


def _added(a: tuple[tuple[int, int], ...], b: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    total = dict(a)
    for row, times in b:
        total[row] = total.get(row, 0) + times
    return tuple(total.items())


def _summed(site: int, times: int, start: int, parts: Iterable[WarpAccess | Moved]) -> Moved:
    return Moved(site, times, start=start, **{name: sum(getattr(part, name) for part in parts) for name in SUMMED})


def _moved(a: tuple[Moved, ...], b: tuple[Moved, ...]) -> tuple[Moved, ...]:
    total = {first.site: first for first in a}
    for more in b:
        before = total.get(more.site)
        if before is not None:
            total[more.site] = _summed(more.site, before.times + more.times, before.start, (before, more))
        else:
            total[more.site] = more
    return tuple(total.values())


@dataclass
class OpenPhase:
    """A phase that signals come to. begun: when it did; wanted: arrivals."""

    number: int
    begun: int = 0
    wanted: int = 0
    signals: list[int] = field(default_factory=list)
    arrivals: int = 0
    announced: int = 0
    nbytes: int = 0


class PhaseLog:
    """The phases of one m-barrier. word: its phase as the machine counts, modulo 4."""

    def __init__(self, cta: int, address: int, name: str) -> None:
        self.cta = cta
        self.address = address
        self.name = name
        self.life = -1
        self.ended: list[Phase] = []
        self.open = OpenPhase(0)
        self.word = 0
        self.last: int | None = None  # seq of the signal that ended the last phase

    def restart(self, seq: int, wanted: int) -> None:
        """It is initialised: phase 0 begins."""
        self.ended.extend(self._frozen(self.open, ends=False) if self.open.signals else ())
        self.life += 1
        self.open, self.word, self.last = OpenPhase(0, seq, wanted), 0, None

    def at(self, word: int) -> OpenPhase:
        """The phase that the machine's count names, which is the current one or a later one."""
        for _ in range((word - self.word) % 4):
            self.ended.extend(self._frozen(self.open, ends=True))
            self.last = self.open.signals[-1] if self.open.signals else None
            self.open = OpenPhase(self.open.number + 1, self.last or self.open.begun, self.open.wanted)
        self.word = word
        return self.open

    def counts(self, seq: int, before: Lanes, after: Lanes) -> tuple[int, int, int]:
        """Signals by one warp, of which each changed the word: the phase of the first, arrivals, bytes announced."""
        was, now = phase_state(before), phase_state(after)
        ended = was.phase != now.phase
        arrivals, announced = was.pending - np.where(ended, 0, now.pending), np.where(ended, 0, now.tx) - was.tx
        first = self.at(int(was.phase[0])).number
        for word, came, nbytes in zip(was.phase.tolist(), arrivals.tolist(), announced.tolist(), strict=True):
            phase = self.at(word)
            phase.signals += [seq] if phase.signals[-1:] != [seq] else []
            phase.arrivals += came
            phase.announced += nbytes
        self.open.wanted = int(now.expected[-1])
        return first, int(arrivals.sum()), int(announced.sum())

    def _frozen(self, phase: OpenPhase, *, ends: bool) -> Iterable[Phase]:
        yield Phase(self.cta, self.address, self.name, self.life, phase.number, tuple(phase.signals), phase.arrivals,
                    phase.announced, phase.nbytes, ends, phase.begun, phase.wanted)  # fmt: skip

    def phases(self, waited: Container[tuple[int, int, int]]) -> list[Phase]:
        """All of them; the last one also where nothing came, if it is waited for, or the only one.

        waited: CTA, address and number of phases.
        """
        last = self.open
        is_shown = last.signals or not self.ended or (self.cta, self.address, last.number) in waited
        is_over = bool(last.signals) and last.arrivals >= last.wanted and last.nbytes == last.announced
        return [*self.ended, *(self._frozen(last, ends=is_over) if is_shown else ())]


@dataclass
class OpenMeeting:
    """Warps that come to a barrier. number: of the meeting."""

    number: int
    scope: str
    cta: int
    barrier: int
    arrivals: list[int] = field(default_factory=list)
    ended: bool = False

    def meeting(self) -> BarrierMeeting:
        """It as plain data."""
        return BarrierMeeting(self.scope, self.cta, self.barrier, tuple(self.arrivals), self.ended)


@dataclass
class OpenOperation:
    """An operation that may be under way. issuers: their numbers in the machine's operation. spans: first and last byte
    of shared memory that each of its accesses touches.
    """

    number: int
    issuers: frozenset[int]
    data: AsyncOperation
    spans: tuple[tuple[int, int], ...] = ()
