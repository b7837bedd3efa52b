"""A recording as what a model plays: for each warp a list of acts.

Within a stretch the loads of a block of statements are begun together, as compilers do; then the rest of the block
follows, which takes its slots, or the longest way through what depends on each other where that is longer.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import filterfalse, groupby, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tilewright.isa import SECTOR_BYTES, ProductShape
from tilewright.isa.table import INSTRUCTIONS

if TYPE_CHECKING:
    from tilewright.sim.record.recording import AccessSite, Moved, Recording, Row, Stretch

# What instructions cost on an SM: slots of a scheduler, turns of its units, passes of shared memory, latency.
#
# A row is found by the first pattern that matches what a recording counts. Latencies and turns are those of an H200
# (`python -m benchmarks.gpu figures`, 2026-11-28); other architectures have the same units in other widths
# (`play.SmFigures`). A compiler moves and merges the arithmetic of indices: of that only a share counts.


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one instruction of a warp. slots: of its scheduler. unit: which one takes it: "fma", "alu", "mufu", "lsu",
    "tensor" or "". turns: cycles that this unit of a scheduler is taken; of the SM, for "lsu". latency: cycles until
    its result is there.
    """

    slots: float = 1.0
    unit: str = ""
    turns: float = 0.0
    latency: float = 4.0


NOTHING = Cost(0.0, "", 0.0, 0.0)
FMA, ALU = Cost(1, "fma", 1, 4), Cost(1, "alu", 2, 4)
INDEX = Cost(0.2, "alu", 0.25, 1)  # of the language's own indices, most of which the compiler merges or hoists
MUFU = Cost(2, "mufu", 8, 17)
LSU = Cost(1, "", 0, 0)  # an access; its passes come from the recording
TABLE: tuple[tuple[str, Cost], ...] = (
    (r"address", Cost(0.05, "alu", 0.05, 0.5)),
    (r"(load|store) (shared|global|param|const)|cuda\.atomic.*|ptx\.(atom|red)\b.*", LSU),
    (r"float32 [-+*]|float32 fma|float32 neg", FMA),
    (r"(float16|bfloat16) .*|float\S+ cast", Cost(1, "alu", 2, 6)),
    (r"float32 /", Cost(8, "mufu", 8, 40)),
    (r"float64 .*", Cost(1, "fma", 2, 8)),
    (r"float32 (max|min|abs)|fmax|fmin|fabs|.* (<|>|<=|>=|==|!=|select|max|min|and|or|not)", ALU),
    (r"u?int(8|16|32|64) cast", Cost(0.1, "alu", 0.1, 1)),
    (r"u?int32 (//|%|/)", Cost(0.5, "alu", 0.6, 4)),
    (r"u?int64 .*", Cost(0.3, "alu", 0.3, 2)),
    (r"u?int32 .*|bool .*", INDEX),
    (r"(exp2?|log2?|rsqrt|rcp|tanh|sin|cos|sqrt)\b.*", MUFU),
    (r"cuda\.shfl.*|ptx\.shfl.*", Cost(1, "lsu", 1, 24)),
    (r"cuda\.copy_bytes|ptx\.(ld|st)\b.*|ptx\.ldmatrix.*|ptx\.stmatrix.*|ptx\.cp_async\b.*", LSU),
    (r"ptx\.(ex2|lg2|rcp|rsqrt|sqrt|sin|cos|tanh)\b.*", Cost(1, "mufu", 8, 17)),
    (r"ptx\.(mov|reinterpret|pack|unpack|setmaxnreg|griddepcontrol|cvta)\b.*", NOTHING),
    (r"ptx\.(fma|mad|add|sub|mul)\b.*", FMA),
    (r"ptx\.cvt\b.*", Cost(1, "alu", 2, 6)),
    (r"ptx\.(div|rem)\b.*", Cost(12, "alu", 16, 60)),
    (r"ptx\.redux.*", Cost(1, "alu", 8, 44)),
    (r"ptx\.(elect\.sync|vote|match|activemask)\b.*", Cost(1, "alu", 4, 17)),
    (r"ptx\.mbarrier\..*", Cost(2, "lsu", 2, 20)),
    (r"ptx\.wgmma\.(mma_async|fence|commit|wait).*", Cost(2, "", 0, 4)),
    (r"smem_desc.*|ptx\.wgmma\.encode.*", Cost(1, "alu", 1, 2)),
    (r"ptx\.fence.*|cuda\.(fence|threadfence).*", Cost(2, "", 0, 20)),
)  # fmt: skip
COMPILED = tuple((re.compile(pattern), cost) for pattern, cost in TABLE)


@cache
def cost_of(name: str) -> Cost:
    """The cost of what a recording calls so."""
    return next((cost for pattern, cost in COMPILED if pattern.fullmatch(name)), ALU)


ADDRESS = Cost(0.5, "alu", 1, 4)  # of which ptxas puts many into the offsets of loads and stores


@cache
def compiled_cost(name: str, *, is_integer: bool) -> Cost:
    """The same in a PTX text: operators are those of addresses, which its loads and stores have in themselves."""
    if not name.startswith(("ptx.", "load ", "store ")):
        return NOTHING
    if name in ("ptx.add", "ptx.sub", "ptx.mul", "ptx.mad") and is_integer:
        return Cost(0.5, "fma", 1, 4) if name in ("ptx.mul", "ptx.mad") else ADDRESS
    return ADDRESS if name in ("ptx.shl", "ptx.shr", "ptx.and_", "ptx.or_") else cost_of(name)


LINE_BYTES = 128
UNROLLED_TRIP = 32  # turns of a loop that a compiler unrolls whole
UNROLLED = 4  # turns of a loop whose loads a compiler begins together
CHUNK = 64.0  # slots of work, or turns of tensor cores, after which another warp may go on
# Of the products by `mma` between a cp.async and the next wait, those that ptxas has in front of the copy: copies stand
# behind 0.39 of a step's products, the wait behind 0.63 (SASS of 12 of `benchmarks.gpu.mma_kernels`, NVRTC 13.0).
ISSUED_BEHIND = 0.62
# Of what the site that reads most of a buffer reads: such a load hits in the cache, as others have read it.
MINOR = 0.05
CACHED_BYTES = 64 << 10  # of an array that the first-level cache keeps
# Of HBM's rate, what is reached by so many bytes on end: of all warps, measured (figures, pieces); of one access.
RUNS = ((32, 0.68), (64, 0.84), (128, 0.9), (256, 0.955))
PIECES = ((32, 0.69), (64, 0.91), (128, 0.985))
LANES = 32
LOADED_BYTES = 64.0  # of a lane: half of the 32 registers below which ptxas gains no room for warps (seen in SASS)
PRODUCT_CYCLES = 6.2  # of a scheduler's tensor core for m16n8 and 32 bytes along K by `mma`; measured on an H200
WARP_PRODUCT = ProductShape(16, 8, 16, 16)  # of an instruction that does not say its own

# Acts. Each has the row of the recording that it belongs to.


class WorkAct(NamedTuple):
    """Instructions between two other acts. slots: of a scheduler. units: turns of each."""

    slots: float
    units: Mapping[str, float]
    latency: float
    row: int


class ReadAct(NamedTuple):
    """Loads of global memory: begun. far: bytes that come from HBM, more where they are short pieces, which take
    longer. passes: of the first-level memory.
    """

    nbytes: float
    far: float
    passes: float
    row: int

    def scaled(self, share: float) -> ReadAct:
        """So much of it."""
        return type(self)(self.nbytes * share, self.far * share, self.passes * share, self.row)


class StoreAct(ReadAct):
    """Stores to global memory: begun, nobody waits."""


class AtomicAct(ReadAct):
    """Atomics on global memory, of so many bytes of whole sectors."""


class UseAct(NamedTuple):
    """Waits for all loads that this warp has begun."""

    row: int


class IssueAct(NamedTuple):
    """An asynchronous operation."""

    operation: int


class SignalAct(NamedTuple):
    """Tells an m-barrier."""

    seq: int


class PhaseAct(NamedTuple):
    """Waits for a phase of an m-barrier."""

    number: int
    row: int


class GroupAct(NamedTuple):
    """Waits for operations, or for their reads alone."""

    operations: tuple[int, ...]
    reads: bool
    row: int


class MeetAct(NamedTuple):
    """A barrier of threads."""

    meeting: int
    arrives: bool
    waits: bool
    row: int


Act: TypeAlias = WorkAct | ReadAct | UseAct | IssueAct | SignalAct | PhaseAct | GroupAct | MeetAct


@cache
def is_atomic(op: str) -> bool:
    """Does an instruction read and write a place at once, by itself? op: as a recording's sites have it."""
    forms = INSTRUCTIONS[op].forms if op in INSTRUCTIONS else ()
    return any(access.rmw for form in forms if form.issue is None for access in form.touched)


@dataclass(frozen=True, slots=True)
class UnitWork:
    """An asynchronous operation. unit: that carries it out. nbytes, far: of global memory, and those of HBM. writes:
    to global memory? cycles: of tensor cores. passes: of shared memory. outside: bytes of shared memory that are
    filled in each of so many CTAs, the receivers, as they are outside of the array. into: SMs of the cluster that get
    the bytes, where these are several.
    """

    unit: str
    nbytes: float = 0.0
    far: float = 0.0
    writes: bool = False
    cycles: float = 0.0
    passes: float = 0.0
    row: int = 0
    outside: float = 0.0
    receivers: int = 1
    into: tuple[int, ...] = ()


@dataclass(slots=True)
class Script:
    """What the warps of one cluster, or of one CTA, do. warps: (SM within the cluster, warp, acts). signals: for each
    phase how many tellings it waits for; phase_of: the phases that a telling counts in, by its seq; ended: the phases
    that the end of an operation counts in; homes: the SM of a phase. meetings: how many warps arrive.
    """

    warps: list[tuple[int, int, list[Act]]] = field(default_factory=list)
    operations: dict[int, UnitWork] = field(default_factory=dict)
    needs: dict[int, int] = field(default_factory=dict)
    phases_of: dict[int, list[int]] = field(default_factory=dict)
    ended: dict[int, list[int]] = field(default_factory=dict)
    homes: dict[int, int] = field(default_factory=dict)
    meetings: dict[int, int] = field(default_factory=dict)
    ctas: int = 1


Share = Mapping[tuple[str, bool], float]
"""Of what is read of a buffer, or (True) written to it, the part that comes from HBM, or goes there; the rest is in the
second-level cache.
"""


def script_of(recording: Recording, share: Share, first: int = 0, cached: frozenset[str] = frozenset()) -> Script:
    """What the CTA, or the cluster of CTAs, from ``first`` on does. cached: arrays that first-level caches keep."""
    script, blocks = Script(ctas=recording.cluster), ActWriter(recording, share, cached)
    ours = range(first, first + recording.cluster)
    number = {(record.cta, record.address, record.number): at for at, record in enumerate(recording.phases)}
    for at, record in enumerate(recording.operations):
        if record.cta in ours:
            script.operations[at] = blocks.operation(record)
    for stream in recording.streams:
        if stream.cta in ours:
            acts = list(issued_late(blocks.acts(stream.events, number, script), script.operations))
            script.warps.append((stream.cta - first, stream.warp, acts))
    _count_signals(recording, script, ours)
    return script


def issued_late(acts: Iterable[Act], operations: Mapping[int, UnitWork]) -> Iterator[Act]:
    """The acts in the order in which ptxas issues them: copies by cp.async among the products by `mma` behind them."""

    def is_copy(act: Act) -> bool:
        return (
            isinstance(act, IssueAct) and act.operation in operations and operations[act.operation].unit == "cp.async"
        )

    for _, several in groupby(acts, key=lambda act: isinstance(act, WorkAct | IssueAct)):
        part = list(several)
        last = max((at for at, act in enumerate(part) if is_copy(act)), default=len(part))
        products = [
            at for at, act in enumerate(part) if at >= last and isinstance(act, WorkAct) and "tensor" in act.units
        ]
        place = products[int(ISSUED_BEHIND * len(products))] if products else 0
        yield from filterfalse(is_copy, part[:place])
        yield from filter(is_copy, part[:place])
        yield from part[place:]


def _count_signals(recording: Recording, script: Script, ours: range) -> None:
    """Which tellings and which operations each phase waits for."""
    told = Counter(act.seq for _, _, acts in script.warps for act in acts if isinstance(act, SignalAct))
    ends = {move.completed: at for at, move in enumerate(recording.operations) if move.completed is not None}
    for at, phase in enumerate(recording.phases):
        if phase.cta not in ours:
            continue
        script.homes[at] = phase.cta - ours.start
        for seq in phase.signals:
            if seq in told:
                script.phases_of.setdefault(seq, []).append(at)
                script.needs[at] = script.needs.get(at, 0) + told[seq]
            elif seq in ends and ends[seq] in script.operations:
                script.ended.setdefault(ends[seq], []).append(at)
                script.needs[at] = script.needs.get(at, 0) + 1
        script.needs.setdefault(at, 0)


class ActWriter:
    """Makes acts of stretches; equal ones once. (Mutable: it remembers.)"""

    def __init__(self, recording: Recording, share: Share, cached: frozenset[str]) -> None:
        self.rows, self.sites, self.share = recording.rows, recording.sites, share
        self.compiled = recording.compiled
        self.minor = _minor(recording)
        self.known: dict[Any, list[Act]] = {}
        self.cached, self.cluster = cached, recording.cluster

    def acts(self, events: Sequence[Any], phases: Mapping[tuple[int, int, int], int], script: Script) -> Iterator[Act]:
        for event in events:
            kind = type(event).__name__
            if kind == "Stretch":
                key = event.executed, event.moved
                if key not in self.known:
                    self.known[key] = list(self.stretch(event))
                yield from self.known[key]
            elif kind == "Issued":
                yield IssueAct(event.operation)
            elif kind == "Signalled":
                yield SignalAct(event.seq)
            elif kind == "Waited":
                yield from self._wait(event, phases)
            elif kind == "Met" and event.meeting >= 0:
                if event.arrives:
                    script.meetings[event.meeting] = script.meetings.get(event.meeting, 0) + 1
                yield MeetAct(event.meeting, event.arrives, event.waits, event.row)

    def _wait(self, event: Any, phases: Mapping[tuple[int, int, int], int]) -> Iterator[Act]:
        if event.on == "group":
            if event.operations:
                yield GroupAct(event.operations, event.reads, event.row)
        elif event.on == "mbarrier" and (event.cta, event.address, event.phase) in phases:
            yield PhaseAct(phases[event.cta, event.address, event.phase], event.row)

    def operation(self, record: Any) -> UnitWork:
        if record.unit == "tensor core":
            return UnitWork("tensor", cycles=product_cycles(self.rows[record.row].product), row=record.row)
        if record.unit not in ("TMA", "cp.async"):
            return UnitWork("remote", record.writes.get("shared", 0), row=record.row)
        read, written = record.reads.get("global", 0), record.writes.get("global", 0)
        nbytes = max(read, written)
        places = ((name, bool(written)) for name in record.buffers)
        share = min((self.share[place] for place in places if place in self.share), default=1.0)
        receivers, by_tma = max(1, len(record.signals)), record.unit == "TMA"
        fills = by_tma and record.signals and not record.reads.get("shared")
        outside = max(0.0, record.writes.get("shared", 0) / receivers - read) if fills else 0.0
        into = tuple(cta % self.cluster for cta, _ in record.signals) if by_tma and receivers > 1 else ()
        return UnitWork(record.unit, nbytes, nbytes * share, bool(written), 0.0, nbytes / LINE_BYTES, record.row,
                        outside, receivers, into)  # fmt: skip

    # Stretches

    def stretch(self, stretch: Stretch) -> Iterator[Act]:
        moved: dict[str, list[Moved]] = {}
        for access in stretch.moved:
            if not self.sites[access.site].issues:
                moved.setdefault(self.sites[access.site].op, []).append(access)
        for rows, turns in self.blocks(stretch.executed):
            yield from self.block(rows, turns, moved)

    def blocks(self, executed: Sequence[tuple[int, int]]) -> Iterator[tuple[list[tuple[int, float]], int]]:
        """Rows that follow each other in one turn of a loop, with how often in a turn; and how many turns there are."""
        block: list[tuple[int, float]] = []
        loops = Loops(self.rows, executed)
        current: tuple[int | None, int] = (None, 1)  # the innermost loop, and the turns of all
        for row, times in executed:
            place = loops.loop(row), loops.turns(row)
            if place != current and block:
                yield block, current[1]
                block = []
            current = place
            block.append((row, times / place[1]))
        if block:
            yield block, current[1]

    def block(self, rows: list[tuple[int, float]], turns: int, moved: dict[str, list[Moved]]) -> Iterator[Act]:
        together = 1 if self.compiled else max(1, min(UNROLLED, turns))
        reads, stores = list[ReadAct | UseAct](), list[ReadAct]()
        units, slots, most = defaultdict[str, float](float), 0.0, (-1.0, rows[0][0])
        begun = LoadsBegun()
        for row, times in rows:
            row_slots, before, many_reads = 0.0, units["lsu"], len(reads)
            for name, many in self.rows[row].counts.items():
                cost = self.cost(row, name)
                row_slots += cost.slots * many * times
                if cost.unit:
                    units[cost.unit] += cost.turns * many * times
                for act in self._moves(name, many, moved, row, turns):
                    if isinstance(act, float):
                        units["lsu"] += act
                    elif type(act) is ReadAct:
                        if self.compiled and begun.is_full(act.nbytes / LANES):
                            reads.append(UseAct(row))
                        reads.append(act)
                    else:
                        stores.append(act)
            begun.follow(self.rows[row], row_slots, loads=len(reads) > many_reads)
            slots += row_slots
            most = max(most, (row_slots + 4 * (units["lsu"] - before), row))  # four schedulers share a unit for memory
        latency = self.longest(rows)
        rounds = -(-turns // together)
        share = turns / rounds
        block: list[Act] = [act.scaled(share) if isinstance(act, ReadAct) else act for act in reads]
        if block:
            block.append(UseAct(reads[-1].row))
        work = {unit: many * share for unit, many in units.items()}
        block += _chunks(slots * share, work, latency + max(0.0, share - 1) * 4, most[1])
        block += [act.scaled(share) for act in stores]
        for _ in range(rounds):
            yield from block

    def cost(self, row: int, name: str) -> Cost:
        if name.startswith("ptx.mma"):
            m, n, k, bits = self.rows[row].product or WARP_PRODUCT
            return Cost(1, "tensor", PRODUCT_CYCLES * (m * n * k * bits / 8) / (16 * 8 * 32), 24)
        if self.compiled:
            return NOTHING if self._is_address(row, name) else compiled_cost(name, is_integer=self.rows[row].is_integer)
        return cost_of(name)

    def _is_address(self, row: int, name: str) -> bool:
        """Does it compute where the access of its row is? Its register is shared by the accesses around it."""
        accesses = [counted for counted in self.rows[row].counts if counted.startswith(("load ", "store "))]
        return bool(accesses) and name not in accesses

    def _moves(
        self, name: str, many: int, moved: dict[str, list[Moved]], row: int, turns: int
    ) -> Iterator[ReadAct | float]:
        """The accesses of a row, for one turn; of shared memory the passes that they take."""
        op = name.partition(" ")[0] if name.startswith(("load ", "store ")) else name
        waiting = moved.get(op, [])
        for _ in range(many):
            if not waiting:
                return
            access = waiting.pop(0)
            site = self.sites[access.site]
            while waiting and is_atomic(op) and self.sites[waiting[0].site].buffer == site.buffer:
                waiting.pop(0)  # the other side of the same atomic
            if site.space == "shared":
                yield access.wavefronts / turns
                continue
            nbytes, lines = access.sectors * SECTOR_BYTES / turns, max(access.times, access.nbytes / LINE_BYTES) / turns
            if is_atomic(op):
                yield AtomicAct(nbytes, 0.0, lines, row)
            else:
                share = 0.0 if access.site in self.minor else self.share.get((site.buffer, site.write), 1.0)
                if site.buffer in self.cached and not site.write:
                    nbytes, share = 0.0, 0.0
                piece = SECTOR_BYTES * access.sectors / max(1, access.pieces)
                far = nbytes * share / (reached_by(site.run_bytes, RUNS) * reached_by(piece, PIECES))
                yield (StoreAct if site.write else ReadAct)(nbytes, far, lines, row)

    def longest(self, rows: list[tuple[int, float]]) -> float:
        """Cycles of a warp that has its scheduler for itself: a result is used when it is there, as soon as the first
        one is where a row runs several times, unless it adds up; and a unit takes its turns one after the other.
        """
        first, last = dict[str, float](), dict[str, float]()
        free: dict[str, float] = {}
        end = 0.0
        for row, times in rows:
            defined, used = self.rows[row].defines, self.rows[row].uses
            costs = [self.cost(row, name) for name in self.rows[row].counts]
            latency = max((cost.latency for cost in costs), default=0.0)
            at = max((first.get(name, 0.0) for name in used), default=0.0)
            after = max((last.get(name, 0.0) for name in used), default=0.0)
            if not latency:
                first[defined], last[defined] = at, after
                continue
            adds_up = defined in used
            taken = [cost for cost in costs if cost.unit not in ("", "lsu")]
            at = max([at, *(free.get(cost.unit, 0.0) for cost in taken)])
            pace = max([4.0 if adds_up else 1.0, *(cost.turns for cost in taken)])
            free |= {cost.unit: at + cost.turns * times for cost in taken}
            done = max(at + max(0.0, times - 1) * pace, after) + latency
            first[defined], last[defined] = done if adds_up else at + latency, done
            end = max(end, done)
        return end


def accesses(recording: Any) -> Iterator[tuple[Moved, AccessSite]]:
    """What all recorded warps moved in their stretches, and where. `Any`: a `Recording`."""
    for stream in recording.streams:
        for event in stream.events:
            yield from ((access, recording.sites[access.site]) for access in getattr(event, "moved", ()))


def _minor(recording: Recording) -> set[int]:
    """The sites that read little of a buffer that others read."""
    most, sectors = Counter[str](), Counter[int]()
    for access, site in accesses(recording):
        if site.space == "global" and not site.write:
            sectors[access.site] += access.sectors
            most[site.buffer] = max(most[site.buffer], sectors[access.site])
    return {site for site, many in sectors.items() if many < MINOR * most[recording.sites[site].buffer]}


class LoadsBegun:
    """Loads of a block that are on their way, where a compiler's text has the use of each behind it. ptxas begins the
    next ones early, as long as their results have room in registers. (Mutable.)
    """

    def __init__(self) -> None:
        self.lane_bytes, self.is_used = 0.0, False
        self.results: set[str] = set()

    def is_full(self, lane_bytes: float) -> bool:
        """Has the next load, of so many bytes of a lane, to wait for those before it? Then these are over."""
        full = self.is_used and self.lane_bytes + lane_bytes > LOADED_BYTES
        self.lane_bytes = lane_bytes if full else self.lane_bytes + lane_bytes
        self.is_used = self.is_used and not full
        return full

    def follow(self, row: Row, slots: float, *, loads: bool) -> None:
        """A row that has been begun, and what it takes: nothing where it names a part of a result."""
        if loads or (slots <= 0 and row.uses & self.results):
            self.results.add(row.defines)
        else:
            self.is_used = self.is_used or bool(row.uses & self.results)


class Loops:
    """How many turns of loops the rows of a stretch are in. executed: rows and how often, of a loop its bodies."""

    def __init__(self, rows: Sequence[Row], executed: Sequence[tuple[int, int]]) -> None:
        self.rows, self.times = rows, dict(executed)

    def loop(self, row: int) -> int | None:
        """The innermost loop around a row that ran in the stretch and that no compiler unrolls whole; of one itself."""
        return next((loop for loop in self._around(row) if loop in self.times and not self._is_unrolled(loop)), None)

    def turns(self, row: int) -> int:
        """Of all such loops around a row together."""
        around = [loop for loop in self._around(row) if loop in self.times]
        if not around:  # in a loop that is cut where threads wait in it
            return self.times[row]
        turns = 1.0
        for loop, outer in zip_longest(around, around[1:]):
            if not self._is_unrolled(loop):
                turns *= self.times[loop] / self.times.get(outer, 1)
        return max(1, round(turns))

    def _is_unrolled(self, loop: int) -> bool:
        return self.rows[loop].is_unrolled or 0 < (self.rows[loop].turns or 0) <= UNROLLED_TRIP

    def _around(self, row: int) -> Iterator[int]:
        at: int | None = row
        while at is not None:
            if self.rows[at].kind == "loop":
                yield at
            at = self.rows[at].inside


def _chunks(slots: float, units: Mapping[str, float], latency: float, row: int) -> list[Act]:
    """Work in pieces between which other warps may go on."""
    if not (slots or units or latency):
        return []
    pieces = max(1, int(max(slots, units.get("tensor", 0.0)) / CHUNK))
    part = {unit: many / pieces for unit, many in units.items()}
    return [WorkAct(slots / pieces, part, latency / pieces, row)] * pieces


def reached_by(nbytes: float, table: Sequence[tuple[int, float]]) -> float:
    """Of HBM's rate, what is reached by so many bytes on end; all of it by 0, of which nothing is known."""
    return next((part for most, part in table if 0 < nbytes <= most), 1.0)


def product_cycles(product: ProductShape | None) -> float:
    """Cycles of an SM's tensor cores for a product of a warpgroup. A product reads its operands from shared memory at
    128 bytes a cycle: 64 rows of A, 32 bytes each, and the columns of B.
    """
    if product is None:
        return 64.0
    m, n, k, _ = product
    bits = 256 // k  # along K; of a sparse product those of half of its elements
    return max(2 * m * n * k / (65536 / bits), m * 32 / 128 + n * 32 / 128)
