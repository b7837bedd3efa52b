"""When what happened in a recorded run, on two axes: the order of the simulator, and estimated cycles.

The estimate replays the recording: each warp does its statements one after the other, a unit its operations; whoever
waits goes on when the last of what its wait names is done. Each statement costs an issue slot, shared memory its
wavefronts, and a unit the bytes or products that it has by the peak rates of `tilewright.profiling`. There is no
contention for issue slots, caches or other SMs in it: it shows who waits for whom, not how fast a kernel is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, TypeAlias

from tilewright.isa import GPU_ARCHS, UNIT_LATENCY
from tilewright.profiling import GPUS, Gpu
from tilewright.profiling.gpus import SECTOR_RATE
from tilewright.sim.record.recording import Committed, Event, Fenced, Issued, Met, Signalled, Stretch, Waited

if TYPE_CHECKING:
    from tilewright.sim.record.recording import AsyncOperation, Phase, Recording

__all__ = ["Schedule", "Times", "gpu_of", "scheduled"]

GLOBAL_LOAD = 500.0
"""Cycles that a warp waits for what it loads from global memory, where it cannot go on without it."""

MEETING = 20.0
"""Cycles from the last arrival at a barrier until the others go on."""

Key: TypeAlias = "tuple[int, int]"  # stream and place there; -1 and the number of an operation


@dataclass(frozen=True, slots=True)
class Times:
    """Begin and end of a bar, in estimated cycles, and what it could not begin or end without."""

    begin: float
    end: float
    after: Key | None = None


@dataclass
class Schedule:
    """The estimate. events: of each stream, in the order of its events. operations: by number. critical: what the end
    of the run waited for, the last first. told: by CTA, address and seq of a signal, when it came, and from which bar.
    gpu: whose rates they are.
    """

    gpu: Gpu
    events: list[list[Times]]
    operations: list[Times]
    critical: list[Key] = field(default_factory=list)
    told: dict[tuple[int, int, int], tuple[float, Key]] = field(default_factory=dict)

    @property
    def end(self) -> float:
        """The last cycle."""
        return max((one.end for each in (*self.events, self.operations) for one in each), default=0.0)

    def times_of(self, phase: Phase) -> list[float]:
        """When each signal of a phase came."""
        where = {seq: self.told.get((phase.cta, phase.address, seq), (0.0, (0, 0)))[0] for seq in phase.signals}
        return list(where.values())


def gpu_of(target: str) -> Gpu:
    """The GPU of an architecture, of several the largest; an H100 for one that has none here."""
    found = [gpu for name, gpu in GPUS.items() if GPU_ARCHS[name] == target]
    return max(found, key=lambda gpu: gpu.sms, default=GPUS["H100"])


def scheduled(recording: Recording) -> Schedule:
    """Replays a recording."""
    return _Replay(recording, gpu_of(recording.target)).schedule()


class _Replay:
    """now: for each stream the cycle that it is at, and the bar that it comes from. free: when a CTA's unit is."""

    def __init__(self, recording: Recording, gpu: Gpu) -> None:
        self.rec = recording
        self.gpu = gpu
        self.now = [0.0] * len(recording.streams)
        self.last: list[Key | None] = [None] * len(recording.streams)
        self.begun: dict[Key, float] = {}
        self.events = [[Times(0, 0)] * len(stream.events) for stream in recording.streams]
        self.operations = [Times(0, 0) for _ in recording.operations]
        self.free: dict[tuple[int, str], tuple[float, Key]] = {}
        self.told: dict[tuple[int, int, int], tuple[float, Key]] = {}  # CTA, address and seq of a signal
        self.arrived: dict[int, tuple[float, Key]] = {}  # by meeting, the last
        self.phases: dict[tuple[int, int, int], list[tuple[int, ...]]] = {}
        for phase in recording.phases:
            self.phases.setdefault((phase.cta, phase.address, phase.number), []).append(phase.signals)

    def schedule(self) -> Schedule:
        for _, _, place, kind in sorted(self._order()):
            if kind == "complete":
                self._complete(place[1])
            elif kind == "until":
                self._until(place)
            else:
                self._begin(place)
        made = Schedule(self.gpu, self.events, self.operations, told=self.told)
        made.critical = list(self._critical(made))
        return made

    def _order(self) -> Iterator[tuple[int, int, Key, str]]:
        """Everything by the number that the simulator gave it; what ends at a number follows what happens at it."""
        for one, stream in enumerate(self.rec.streams):
            for place, event in enumerate(stream.events):
                yield event.seq, 1, (one, place), "begin"
                if isinstance(event, Waited | Met) and event.until is not None:
                    yield max(event.until, event.seq), 2, (one, place), "until"
        for number, operation in enumerate(self.rec.operations):
            if operation.completed is not None:
                yield operation.completed, 0, (-1, number), "complete"

    def _begin(self, place: Key) -> None:
        one, k = place
        event, begin = self.rec.streams[one].events[k], self.now[one]
        end = begin + self._cost(event)
        self.begun[place] = begin
        if isinstance(event, Issued):
            self._issue(event.operation, begin, place)
        elif isinstance(event, Signalled):
            self._tell((event.cta, event.address, event.seq), end, place)
        elif isinstance(event, Met) and event.arrives:
            self.arrived[event.meeting] = max(self.arrived.get(event.meeting, (0.0, place)), (end, place))
        self._ends(place, end, self.last[one])

    def _ends(self, place: Key, end: float, after: Key | None) -> None:
        one, k = place
        self.events[one][k] = Times(self.begun[place], end, after)
        self.now[one], self.last[one] = end, place

    def _tell(self, where: tuple[int, int, int], at: float, place: Key) -> None:
        self.told[where] = max(self.told.get(where, (0.0, place)), (at, place))

    def _until(self, place: Key) -> None:
        """A wait is over: when the last of what it names is done."""
        one, k = place
        event = self.rec.streams[one].events[k]
        causes: list[tuple[float, Key]] = []
        if isinstance(event, Met):
            found = self.arrived.get(event.meeting)
            causes = [(found[0] + MEETING, found[1])] if found else []
        elif isinstance(event, Waited) and event.on == "mbarrier":
            signals = self.phases.get((event.cta, event.address, event.phase), [])
            own = next((each for each in reversed(signals) if each[0] <= (event.until or 0)), ())
            causes = [found for seq in own if (found := self.told.get((event.cta, event.address, seq)))]
        elif isinstance(event, Waited):
            causes = [(self.operations[n].end, (-1, n)) for n in event.operations]
        at, cause = max(causes, default=(0.0, place))
        before = self.events[one][k]
        if at > before.end:
            self._ends(place, at, cause)

    # Operations

    def _issue(self, number: int, begin: float, place: Key) -> None:
        operation = self.rec.operations[number]
        if self.operations[number].after is not None:  # another warp of the warpgroup was first
            return
        unit = operation.cta, operation.unit
        free, before = self.free.get(unit, (0.0, place))
        if operation.is_commit:
            ends = [(self.operations[n].end, (-1, n)) for n in operation.after]
            at, cause = max(ends, default=(begin, place))
            self.operations[number] = Times(begin, max(begin, at), cause if at > begin else place)
            return
        start = max(begin, free)
        work = self._work(operation)
        self.free[unit] = start + work, (-1, number)
        self.operations[number] = Times(begin, start + work + UNIT_LATENCY.get(operation.unit, 0.0),
                                        before if free > begin else place)  # fmt: skip

    def _complete(self, number: int) -> None:
        operation, times = self.rec.operations[number], self.operations[number]
        for cta, address in operation.signals:
            self._tell((cta, address, operation.completed or 0), times.end, (-1, number))

    def _work(self, operation: AsyncOperation) -> float:
        """Cycles that a unit is busy with an operation."""
        shape = re.search(r"m(\d+)n(\d+)k(\d+)", operation.mnemonic)
        kinds = re.findall(r"\.(?:bf|tf|f|e\dm|s|u)(\d+)", operation.mnemonic)
        if shape and kinds:
            bits = {16: 16, 19: 32, 32: 32, 64: 64}.get(int(kinds[min(1, len(kinds) - 1)]), 8)
            return 2 * prod(map(int, shape.groups())) / self.gpu.tensor.get(bits, 4096)
        nbytes = max(sum(operation.reads.values()), sum(operation.writes.values()))
        return nbytes / (SECTOR_RATE if "global" in {*operation.reads, *operation.writes} else 2 * SECTOR_RATE)

    def _cost(self, event: Event) -> float:
        """Cycles of a warp."""
        if isinstance(event, Stretch):
            statements = sum(times * max(1, sum(self._counted(row))) for row, times in event.executed)
            waves = sum(one.wavefronts for one in event.moved)
            loads = any(one.sectors and not self.rec.sites[one.site].write and not self.rec.sites[one.site].issues
                        for one in event.moved)  # fmt: skip
            return statements + waves + GLOBAL_LOAD * loads
        return 1.0 if isinstance(event, Issued | Signalled | Committed | Fenced) else 0.0

    def _counted(self, row: int) -> Iterable[int]:
        return (n for kind, n in self.rec.rows[row].counts.items() if kind != "address")

    def _critical(self, made: Schedule) -> Iterator[Key]:
        """What the end of the run waited for, from its end on."""
        ends = [(one.end, (k, n)) for k, each in enumerate(made.events) for n, one in enumerate(each)]
        place: Key | None = max(ends, default=(0.0, None), key=lambda each: each[0])[1]
        known: set[Key] = set()
        while place is not None and place not in known:
            known.add(place)
            yield place
            times = made.operations[place[1]] if place[0] < 0 else made.events[place[0]][place[1]]
            place = times.after
