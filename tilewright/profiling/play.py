"""A schedule on one SM, or on those of a cluster: warps take turns at units, wait for memory and for each other.

Every unit is a queue: who comes first is served first, for as long as its turns take. A warp is at one act at a time;
of all warps the one that is furthest behind goes on. CTAs come as others end, as many at a time as there is room for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Any

from tilewright.isa import SECTOR_BYTES
from tilewright.profiling.acts import (
    LINE_BYTES,
    Act,
    AtomicAct,
    GroupAct,
    IssueAct,
    MeetAct,
    PhaseAct,
    ReadAct,
    Script,
    SignalAct,
    StoreAct,
    UnitWork,
    UseAct,
    WorkAct,
)
from tilewright.profiling.bounds import Gpu

# The figures that a schedule is played with, of one SM of a GPU, in cycles and bytes a cycle.
#
# Measured on an H200 where nothing else is said: `python -m benchmarks.gpu figures`, 2026-11-28 and 29, driver
# 580.159.04, kept in benchmarks/results/figures.json. What is marked "by pairs" was chosen by the kernels of
# `benchmarks.gpu.pairs` that are fitted or seen. Other GPUs get the same parts of their datasheets' rates and the same
# latencies: not measured.


MEASURED = "H200"  # the GPU whose figures these are
# Of HBM's rate, what reads and writes reach: 4.6 and 4.4 TB/s of 4.8; both together 4.3 of bytes that are copied, of
# which the cache keeps 3 %.
READ_REACHED, WRITE_REACHED, BOTH_REACHED = 0.965, 0.92, 0.865
LOADED = 64.0  # bytes that one SM loads in a cycle, whoever else does
L2_REACHED = 43.0  # bytes of the second-level cache that each SM gets in a cycle where all of them read: 11 TB/s
L2_SHARED = 82.0  # where bulk copies of several SMs bring the same bytes at about the same time (bursts, 12 the same)
L2_OF_CLUSTERS = 50.0  # where CTAs lie in clusters, as many as each reads: 34 to 38 with 2 and 4 (rings)
RECEIVED = 122.0  # bytes that an SM takes in a cycle from the second-level cache: 48 KB more in 403 cycles (bursts)
WRITTEN, WRITTEN_ALONE = 16.5, 32.0  # bytes that each SM writes in a cycle where all of them do, and one alone
TENSOR_CLOCK = 0.905  # of the clock, where tensor cores are in use, even those of one SM: 1.79 GHz of 1.98
TENSOR_POWER = 0.2  # by how much slower warpgroups' products are where all SMs have them, as power ends; by pairs
CP_ASYNC_LATE = 200.0  # cycles that a copy by cp.async takes longer where there are products, too; by pairs
# Cycles of the copy engine for 128 bytes that are outside of the array, by the CTAs in which they are filled; by pairs.
TMA_OUTSIDE = {1: 6.8, 2: 13.3, 4: 17.5}
DISPATCH = 159.0  # cycles between two CTAs that begin on one SM: 0.607 ns of the whole GPU, whatever they do


def unmeasured(gpu: str) -> str:
    """What is said behind the name of a GPU that has no figures of its own."""
    return "" if gpu == MEASURED else f" (no figure of {gpu} is measured: rates of its documents)"


@dataclass(frozen=True, slots=True)
class SmFigures:
    """Bytes are those of a cycle, latencies cycles; each has a comment where it is not plain."""

    l2_bytes: float
    l2_shared_bytes: float  # by TMA, that are read as others read them
    l2_cluster_bytes: float
    l2_write_bytes: float
    hbm_bytes: float  # its share
    dispatch: float
    tensor_power: float  # times as long
    cp_async_late: float  # more than of a load
    l2_latency: float = 280.0
    hbm_latency: float = 675.0
    hbm_spread: float = 80.0  # cycles of bytes that wait with which HBM reaches half of its rate: fits 2 to 64 KB
    l2_queue: float = 300.0  # times u / (1 - u), where u of the second-level cache's rate is in use; by pairs
    near_latency: float = 40.0  # of a load that hits in the first-level cache
    product_gap: float = 17.6  # between products of one warpgroup, where no other has any (figures, 1 and 2 warpgroups)
    remote_latency: float = 200.0  # to another CTA of the cluster
    remote_bytes: float = 14.0  # that an SM sends to others of its cluster in a cycle: of 4 and 8, 12.8 to 16.9 (sent)
    tensor_latency: float = 60.0  # from the last product's turn to its result
    barrier_latency: float = 15.0  # after the last arrival
    warp_latency: float = 1.8  # the same, more for each warp
    passed: float = 25.0  # of a wait that finds its phase over; by pairs
    signal: float = 20.0  # of an arrival; by pairs
    tma_latency: float = 250.0  # of a copy by TMA, more than of a load
    tma_issue: float = 100.0  # of the thread that issues it; by pairs
    tma_row: float = 2.0  # of the unit, for 128 bytes: 64 rows by 8 to 128 columns, two CTAs of an SM, take 1.95 to 2.4
    cta_start: float = 520.0  # from the end of a CTA to the first instruction of the next
    warp_start: float = 4.0  # the same, more for each of its warps
    cluster_start: float = 350.0  # more, for each CTA of a cluster of more than two; by pairs
    store_room: float = 2000.0  # cycles of stores that may be on their way before a warp waits; by pairs
    store_bytes: float = 8192.0  # of stores that wait for the port of an SM before its warps wait; by pairs
    atomic_cycles: float = 5.0  # of an SM, for a sector of atomics
    lsu_power: float = 1.08  # passes that shared memory takes for each that is counted; by pairs
    launch_s: float = 3.0e-6  # seconds of a launch in a graph that does nothing


def clock_of(gpu: Gpu, recording: Any) -> float:
    """Cycles a second: fewer where tensor cores are in use. `Any`: a `Recording`."""
    return gpu.clock * (TENSOR_CLOCK if any("mma" in name for row in recording.rows for name in row.counts) else 1)


def figures_of(gpu: Gpu, busy_sms: int, written: float = 0.0, clock: float = 0.0) -> SmFigures:
    """The figures where so many SMs are busy: they share what memory gives, but none has more than its port takes.

    written: the part of the bytes of HBM that are written. clock: cycles a second, where it is not the highest.
    """
    busy = max(1, min(gpu.sms, busy_sms))
    mixed = 2 * min(written, 1 - written)
    alone = READ_REACHED * (1 - written) + WRITE_REACHED * written
    part, reached = gpu.sms / busy, alone * (1 - mixed) + BOTH_REACHED * mixed
    return SmFigures(
        l2_bytes=min(LOADED, L2_REACHED * part),
        l2_shared_bytes=min(RECEIVED, L2_SHARED * part),
        l2_cluster_bytes=min(RECEIVED, L2_OF_CLUSTERS * part),
        l2_write_bytes=min(WRITTEN_ALONE, WRITTEN * part),
        hbm_bytes=min(LOADED, gpu.hbm * reached / (clock or gpu.clock) / busy),
        dispatch=DISPATCH / part,
        tensor_power=1 + TENSOR_POWER / part,
        cp_async_late=CP_ASYNC_LATE if 0 < clock < gpu.clock else 0.0,
    )


STARTS = "starts"  # of CTAs: what the GPU can begin, whatever they do
MOST_CLUSTER_START = 1800.0  # cycles
MOST_USED = 0.95  # of the second-level cache's rate, for the length of its queue


@dataclass(slots=True)
class Played:
    """ends: cycles at which each cluster, or CTA, of the play ended. busy: cycles that each unit was busy for, of one
    SM. waits: cycles that warps waited, by what for and in which row. units: turns by unit and row.
    """

    ends: list[float]
    busy: Mapping[str, float]
    waits: Mapping[tuple[str, int], float]
    units: Mapping[tuple[str, int], float]


@dataclass(slots=True)
class Sm:
    """When each unit is free again."""

    slots: list[float] = field(default_factory=lambda: [0.0] * 4)
    pipes: dict[str, list[float]] = field(
        default_factory=lambda: {name: [0.0] * 4 for name in ("fma", "alu", "mufu", "tensor")}
    )
    lsu: float = 0.0
    tensor: float = 0.0
    products: dict[tuple[int, int], float] = field(default_factory=dict)  # ends of the last ones, by warpgroup
    l2: float = 0.0
    tma: float = 0.0
    hbm: float = 0.0
    out: float = 0.0
    remote: float = 0.0


class RunningCluster:
    """A cluster or CTA that runs. (Mutable.)"""

    __slots__ = ("arrived", "done", "left", "meeting_at", "needs", "number", "ready", "script", "waiting")

    def __init__(self, script: Script, number: int) -> None:
        self.script, self.number = script, number
        self.needs, self.ready = dict(script.needs), dict[int, float]()
        self.arrived, self.meeting_at = dict(script.meetings), dict[int, float]()
        self.done: dict[int, tuple[float, float]] = {}
        self.waiting: dict[tuple[str, int], list[Any]] = {}
        self.left = len(script.warps)


class RunningWarp:
    """A warp that runs. (Mutable.)"""

    __slots__ = ("acts", "at", "began", "number", "pending", "scheduler", "sm", "unit")

    def __init__(self, unit: RunningCluster, sm: Sm, warp: int, acts_of: list[Any]) -> None:
        self.unit, self.sm, self.acts, self.at, self.number = unit, sm, acts_of, 0, warp
        self.pending, self.scheduler = 0.0, (warp + unit.number) % 4
        self.began: float | None = None  # to wait


def play(scripts: Sequence[Script], machine: SmFigures, resident: int, total: int) -> Played:
    """Play ``total`` clusters or CTAs, ``resident`` at a time; the scripts in turns."""
    return Play(scripts, machine, resident, total).run()


class Play:
    """The state of a play."""

    def __init__(self, scripts: Sequence[Script], machine: SmFigures, resident: int, total: int) -> None:
        self.scripts, self.machine, self.total = scripts, machine, total
        self.sms = [Sm() for _ in range(max(script.ctas for script in scripts))]
        self.heap: list[tuple[float, int, RunningWarp]] = []
        self.order, self.begun = count(), 0
        self.ends: list[float] = []
        self.waits, self.units = (defaultdict[tuple[str, int], float](float) for _ in "wu")
        self.busy, self.dispatched = defaultdict[str, float](float), 0.0
        self.played: dict[type[Act], Callable[[RunningWarp, float, Any], float | None]] = {
            WorkAct: self._work, ReadAct: self._read, UseAct: self._use, StoreAct: self._store, AtomicAct: self._atomic,
            IssueAct: self._issue, SignalAct: self._signal, PhaseAct: self._phase, GroupAct: self._group,
            MeetAct: self._meet,
        }  # fmt: skip
        self.carried_out = {
            "tensor": self._multiplied, "remote": self._sent, "TMA": self._copied_in_bulk,
            "cp.async": self._copied_by_lanes,
        }  # fmt: skip
        for slot in range(min(resident, total)):
            self._begin(machine.dispatch * slot)

    def run(self) -> Played:
        heap, played = self.heap, self.played
        while heap:
            now, _, warp = heappop(heap)
            list_of, end = warp.acts, len(warp.acts)
            while True:
                if warp.at >= end:
                    self._leave(warp, now)
                    break
                act = list_of[warp.at]
                after = played[type(act)](warp, now, act)
                if after is None:
                    break
                warp.at += 1
                now = after
                if heap and now > heap[0][0]:
                    heappush(heap, (now, next(self.order), warp))
                    break
        many = len(self.sms)
        busy = {name: cycles / many for name, cycles in self.busy.items()}
        return Played(self.ends, busy, self.waits, self.units)

    def _begin(self, now: float) -> None:
        script = self.scripts[self.begun % len(self.scripts)]
        unit = RunningCluster(script, self.begun)
        self.begun += 1
        self.busy[STARTS] += self.machine.dispatch * script.ctas * (self.begun > 1)
        for sm, warp, acts_of in script.warps:
            heappush(self.heap, (now, next(self.order), RunningWarp(unit, self.sms[sm], warp, acts_of)))

    def _leave(self, warp: RunningWarp, now: float) -> None:
        unit = warp.unit
        unit.left -= 1
        if unit.left == 0:
            self.ends.append(now)
            if self.begun < self.total:
                warps = len(unit.script.warps) / unit.script.ctas
                wait = self.machine.cta_start + self.machine.warp_start * warps
                wait += min(MOST_CLUSTER_START, self.machine.cluster_start * unit.script.ctas) * (unit.script.ctas > 2)
                self.dispatched = max(now + wait, self.dispatched + self.machine.dispatch)
                self._begin(self.dispatched)

    def _wake(self, unit: RunningCluster, key: tuple[str, int], now: float) -> None:
        for warp in unit.waiting.pop(key, ()):
            heappush(self.heap, (now, next(self.order), warp))

    def _takes(self, unit: str, row: int, cycles: float) -> None:
        """A unit of an SM is busy for so long, for a row."""
        self.busy[unit] += cycles
        self.units[unit, row] += cycles

    def _passes(self, sm: Sm, now: float, passes: float, row: int) -> float:
        """When an access begins that takes so many passes of an SM's first-level memory."""
        begin = max(now, sm.lsu)
        sm.lsu = begin + passes
        self._takes("shared memory", row, passes)
        return begin

    # Acts: each returns when the warp goes on, or None where it waits

    def _work(self, warp: RunningWarp, now: float, act: WorkAct) -> float:
        slots, units, latency, row = act
        sm, mine = warp.sm, warp.scheduler
        begin = max(now, sm.slots[mine])
        end: float = begin + max(slots, latency)
        sm.slots[mine] = begin + slots
        self._takes("issue", row, slots / 4)
        for unit, turns in units.items():
            if unit == "lsu":
                self._passes(sm, begin, turns * self.machine.lsu_power, row)
                end = max(end, sm.lsu)
            else:
                pipe = sm.pipes[unit]
                pipe[mine] = max(begin, pipe[mine]) + turns
                self._takes(unit, row, turns / 4)
                end = max(end, pipe[mine])
        if end > now + latency:
            self.waits["issue", row] += end - now - max(slots, latency)
        self.waits["results", row] += max(0.0, latency - slots)
        return end

    def _moved(
        self, sm: Sm, now: float, nbytes: float, far: float, row: int, *, out: bool = False, rate: float = 0.0
    ) -> float:
        """When bytes have gone through the second-level cache and come from, or gone to, HBM. rate: of bytes that
        others read, too, at about the same time.
        """
        machine = self.machine
        far_cycles = far / machine.hbm_bytes
        cycles = far / machine.l2_bytes + (nbytes - far) / (rate or machine.l2_bytes)
        if out:
            cycles = nbytes / machine.l2_write_bytes
            sm.out = max(sm.out, now) + cycles
            self._takes("L2 writes", row, cycles)
            self._takes("HBM", row, far_cycles)
            return max(sm.out, self._through_hbm(sm, now, far_cycles)) + machine.l2_latency
        sm.l2 = max(sm.l2, now) + cycles
        self._takes("L2", row, cycles)
        near = sm.l2 + machine.l2_latency + machine.l2_queue * self._crowd("L2", sm.l2)
        if far:
            self._takes("HBM", row, far_cycles)
            return max(near, self._through_hbm(sm, now, far_cycles) + machine.hbm_latency)
        return near

    def _through_hbm(self, sm: Sm, now: float, cycles: float) -> float:
        """When HBM has moved bytes of so many cycles. Bytes that wait are spread over its channels by chance: the fewer
        they are, the more channels have none.
        """
        begin = max(sm.hbm, now)
        sm.hbm = begin + cycles + self.machine.hbm_spread * cycles / max(1e-9, begin - now + cycles)
        return sm.hbm

    def _crowd(self, unit: str, now: float) -> float:
        """How long a load waits in the queues of a memory: the longer, the more of its rate is in use."""
        used = min(MOST_USED, self.busy[unit] / len(self.sms) / (now + self.machine.hbm_latency))
        return used / (1 - used)

    def _read(self, warp: RunningWarp, now: float, act: ReadAct) -> float:
        nbytes, far, passes, row = act
        sm = warp.sm
        begin = self._passes(sm, now, passes, row)
        arrives = self._moved(sm, begin, nbytes, far, row) if nbytes else begin + self.machine.near_latency
        warp.pending = max(warp.pending, arrives)
        return begin + 1

    def _use(self, warp: RunningWarp, now: float, act: UseAct) -> float:
        if warp.pending > now:
            self.waits["memory", act.row] += warp.pending - now
            return warp.pending
        return now

    def _store(self, warp: RunningWarp, now: float, act: StoreAct) -> float:
        nbytes, far, passes, row = act
        sm = warp.sm
        begin = self._passes(sm, now, passes, row)
        done = self._moved(sm, begin, nbytes, far, row, out=True)
        room = done - self.machine.l2_latency - self.machine.store_room
        return max(begin + 1, room, sm.out - self.machine.store_bytes / self.machine.l2_write_bytes)

    def _atomic(self, warp: RunningWarp, now: float, act: AtomicAct) -> float:
        nbytes, _, passes, row = act
        sm = warp.sm
        begin = max(now, sm.lsu)
        sm.lsu = begin + passes
        cycles = nbytes / SECTOR_BYTES * self.machine.atomic_cycles
        sm.out = max(sm.out, begin) + cycles
        self._takes("atomics", row, cycles)
        return begin + 1

    def _issue(self, warp: RunningWarp, now: float, act: IssueAct) -> float:
        unit, number = warp.unit, act.operation
        work = unit.script.operations.get(number)
        if work is None or number in unit.done:
            return now + 1
        done, read, after = self.carried_out[work.unit](warp, now, work)
        unit.done[number] = done, read
        for phase in unit.script.ended.get(number, ()):
            self._told(unit, phase, done)
        return after

    # Asynchronous operations, by the unit that carries them out: each returns when it has ended, when it has read what
    # it reads, and when the warp that issues it goes on

    def _multiplied(self, warp: RunningWarp, now: float, work: UnitWork) -> tuple[float, float, float]:
        sm, cycles = warp.sm, work.cycles * self.machine.tensor_power
        group = warp.unit.number, warp.number // 4
        if not any(end > now for other, end in sm.products.items() if other != group):
            cycles = max(cycles, work.cycles + self.machine.product_gap)  # in a gap no power is needed
        sm.products[group] = sm.tensor = max(sm.tensor, now) + cycles
        self._takes("tensor", work.row, cycles)
        done = sm.tensor + self.machine.tensor_latency
        return done, done, now + 1

    def _sent(self, warp: RunningWarp, now: float, work: UnitWork) -> tuple[float, float, float]:
        sm, cycles = warp.sm, work.nbytes / self.machine.remote_bytes
        sm.remote = max(sm.remote, now) + cycles
        self._takes("SM to SM", work.row, cycles)
        done = sm.remote + self.machine.remote_latency
        return done, done, now + 1

    def _copied_in_bulk(self, warp: RunningWarp, now: float, work: UnitWork) -> tuple[float, float, float]:
        sm, machine = warp.sm, self.machine
        outside = work.outside * TMA_OUTSIDE.get(work.receivers, TMA_OUTSIDE[4])
        cycles = (work.nbytes * machine.tma_row + outside) / LINE_BYTES
        sm.tma = begin = max(sm.tma, now) + cycles
        self._takes("TMA", work.row, cycles)
        return *self._copied(sm, begin, work, self._shared_rate, machine.tma_latency), now + machine.tma_issue

    def _copied_by_lanes(self, warp: RunningWarp, now: float, work: UnitWork) -> tuple[float, float, float]:
        self._passes(warp.sm, now, work.passes, work.row)
        rate = min(LOADED, self._shared_rate)
        return *self._copied(warp.sm, now, work, rate, self.machine.cp_async_late), now + 1

    @property
    def _shared_rate(self) -> float:
        """Bytes a cycle of what several SMs read at about the same time."""
        return self.machine.l2_shared_bytes if len(self.sms) == 1 else self.machine.l2_cluster_bytes

    def _copied(self, sm: Sm, now: float, work: UnitWork, rate: float, latency: float) -> tuple[float, float]:
        """When a copy has ended, and when it has read. latency: more than of a load or store."""
        end = self._moved(sm, now, work.nbytes, work.far, work.row, out=work.writes, rate=rate)
        done = latency + max([end, *self._received(work, sm, now)])
        return done, sm.out + latency if work.writes else done

    def _received(self, work: UnitWork, sm: Sm, now: float) -> Iterator[float]:
        """When the other SMs that a copy is for have its bytes: each takes them by its own port."""
        for number in work.into:
            other, cycles = self.sms[number], work.nbytes / RECEIVED
            if other is not sm:
                other.l2 = max(other.l2, now) + cycles
                self._takes("L2", work.row, cycles)
                yield other.l2 + self.machine.l2_latency

    def _told(self, unit: RunningCluster, phase: int, now: float) -> None:
        unit.needs[phase] -= 1
        unit.ready[phase] = max(unit.ready.get(phase, 0.0), now)
        if unit.needs[phase] == 0:
            self._wake(unit, ("phase", phase), unit.ready[phase] + self.machine.barrier_latency)

    def _signal(self, warp: RunningWarp, now: float, act: SignalAct) -> float:
        script = warp.unit.script
        for phase in script.phases_of.get(act.seq, ()):
            far = self.sms[script.homes.get(phase, 0)] is not warp.sm
            self._told(warp.unit, phase, now + far * self.machine.remote_latency)
        return now + self.machine.signal

    def _phase(self, warp: RunningWarp, now: float, act: PhaseAct) -> float | None:
        unit, phase = warp.unit, act.number
        if unit.needs.get(phase, 0) > 0:
            unit.waiting.setdefault(("phase", phase), []).append(warp)
            warp.began = now if warp.began is None else warp.began
            return None
        began, warp.began = now if warp.began is None else warp.began, None
        ready = unit.ready.get(phase, 0.0) + self.machine.barrier_latency
        after = max(now + self.machine.passed, ready if unit.needs.get(phase) == 0 and phase in unit.ready else now)
        if after > began:
            self.waits["m-barrier", act.row] += after - began
        return after

    def _group(self, warp: RunningWarp, now: float, act: GroupAct) -> float:
        operations, reads, row = act
        done = warp.unit.done
        after = max((done[operation][1 if reads else 0] for operation in operations if operation in done), default=now)
        if after > now:
            self.waits["operations", row] += after - now
        return max(now, after)

    def _meet(self, warp: RunningWarp, now: float, act: MeetAct) -> float | None:
        meeting, arrives, waits, row = act
        unit = warp.unit
        if warp.began is None and arrives:
            unit.arrived[meeting] -= 1
            unit.meeting_at[meeting] = max(unit.meeting_at.get(meeting, 0.0), now)
            if unit.arrived[meeting] == 0:
                self._wake(unit, ("meeting", meeting), unit.meeting_at[meeting] + self._meeting_latency(unit, meeting))
        if not waits:
            return now + 2
        if unit.arrived[meeting] > 0:
            unit.waiting.setdefault(("meeting", meeting), []).append(warp)
            warp.began = now
            return None
        if warp.began is not None:
            self.waits["barrier", row] += now - warp.began
            warp.began = None
            return now
        return max(now, unit.meeting_at[meeting] + self._meeting_latency(unit, meeting))

    def _meeting_latency(self, unit: RunningCluster, meeting: int) -> float:
        return self.machine.barrier_latency + self.machine.warp_latency * unit.script.meetings[meeting]
