"""When what happened in a recorded run, in estimated cycles: the schedule that `tilewright.profiling` plays, watched.

Each recorded CTA, or cluster of them, is played alone, from the first cycle on: warps take turns at units, and wait for
memory and for each other. What shares the GPU with it counts only by the rates that memory has then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

from tilewright.isa import GPU_ARCHS
from tilewright.profiling import GPUS, Gpu
from tilewright.profiling.acts import ActWriter, Script, script_of
from tilewright.profiling.play import Play, SmFigures, figures_of
from tilewright.sim.record.recording import Met, Signalled, Waited

if TYPE_CHECKING:
    from tilewright.sim.record.recording import Event, Phase, Recording

MEASURED = "H200"
"""The GPU whose figures `tilewright.profiling.play` has measured: taken for its architecture."""

SHORT = 1.0  # cycles: a wait that takes no longer has waited for nobody

Key: TypeAlias = "tuple[int, int]"  # stream and place there; -1 and the number of an operation


@dataclass(frozen=True, slots=True)
class Times:
    """Begin and end of a bar, in cycles, and what it could not begin or end without."""

    begin: float
    end: float
    after: Key | None = None


@dataclass
class Schedule:
    """events: of each stream, in the order of its events. operations: by number. critical: what the end of each CTA
    waited for, the last first. told: by CTA, address and seq of a signal, when it came. gpu: whose rates they are.
    """

    gpu: Gpu
    events: list[list[Times]]
    operations: list[Times]
    told: dict[tuple[int, int, int], float] = field(default_factory=dict)
    critical: list[Key] = field(default_factory=list)

    @property
    def end(self) -> float:
        """The last cycle."""
        return max((times.end for bars in (*self.events, self.operations) for times in bars), default=0.0)

    def times_of(self, phase: Phase) -> tuple[float, float]:
        """When a phase begins, and ends."""
        begin, *signals = (self.told.get((phase.cta, phase.address, seq), 0.0) for seq in (phase.begun, *phase.signals))
        return begin, max(begin, *signals) if phase.ended and signals else max(begin, self.end)


def gpu_of(target: str) -> Gpu:
    """The GPU of an architecture: the measured one, else the largest; the measured one for one that has none here."""
    gpus = [gpu for name, gpu in GPUS.items() if GPU_ARCHS[name] == target] or [GPUS[MEASURED]]
    return next((gpu for gpu in gpus if gpu.name == MEASURED), max(gpus, key=lambda gpu: gpu.sms))


class Watched(Play):
    """A play that notes when each warp begins and ends each of its acts. (Mutable.)"""

    def __init__(self, script: Script, machine: SmFigures) -> None:
        super().__init__([script], machine, 1, 1)
        self.acts: dict[int, dict[int, list[float]]] = {}  # of the list of acts of a warp, by place: begin and end
        self.done: dict[int, tuple[float, float]] = {}  # of operations: begin and end
        self.played = tuple(map(self._watched, self.played))

    def _watched(self, does: Any) -> Any:
        def watched(warp: Any, now: float, act: Any) -> float | None:
            after: float | None = does(warp, now, act)
            times = self.acts.setdefault(id(warp.acts), {}).setdefault(warp.at, [now, now])
            times[1] = now if after is None else after
            if does.__name__ == "_issue" and act[1] not in self.done:
                self.done[act[1]] = now, max(now, warp.unit.done.get(act[1], (now, now))[0])
            return after

        return watched


def scheduled(recording: Recording) -> Schedule:
    """Plays a recording."""
    gpu = gpu_of(recording.target)
    machine = figures_of(gpu, prod(recording.grid))
    schedule = Schedule(gpu, [[Times(0, 0)] * len(stream.events) for stream in recording.streams],
                    [Times(0, 0)] * len(recording.operations))  # fmt: skip
    causes = causes_of(recording)
    for first in (cta for cta in recording.ctas if cta % recording.cluster == 0):
        _play(recording, schedule, machine, first, causes)
    _never(recording, schedule)
    schedule.critical = list(_critical(recording, schedule))
    return schedule


def causes_of(recording: Recording) -> dict[int, Key]:
    """The bar that a seq is of: an operation that it completes, else the last event of that number."""
    events: dict[int, Key] = {event.seq: (at, place) for at, stream in enumerate(recording.streams)
                             for place, event in enumerate(stream.events)}  # fmt: skip
    return events | {op.completed: (-1, n) for n, op in enumerate(recording.operations) if op.completed is not None}


def _play(recording: Recording, schedule: Schedule, machine: SmFigures, first: int, causes: dict[int, Key]) -> None:
    """The times of a cluster, or of a CTA."""
    script = script_of(recording, {}, first)
    watched = Watched(script, machine)
    watched.run()
    blocks, unused = ActWriter(recording, {}, frozenset()), Script()
    number = {(phase.cta, phase.address, phase.number): at for at, phase in enumerate(recording.phases)}
    ours = [n for n, stream in enumerate(recording.streams) if first <= stream.cta < first + recording.cluster]
    issues: dict[int, Key] = {}
    for n, (_, _, acts) in zip(ours, script.warps, strict=True):
        times, at, now = watched.acts.get(id(acts), {}), 0, 0.0
        for place, event in enumerate(recording.streams[n].events):
            many = len(list(blocks.acts([event], number, unused)))
            spans = [times[k] for k in range(at, at + many) if k in times]
            at, begin = at + many, max(now, spans[0][0]) if spans else now
            now = max(begin, spans[-1][1]) if spans else begin
            schedule.events[n][place] = Times(begin, now, _after(event, n, place, now - begin, causes))
            if isinstance(event, Signalled):
                schedule.told[event.cta, event.address, event.seq] = now
            if hasattr(event, "operation"):
                issues.setdefault(event.operation, (n, place))
    for n, (begin, end) in watched.done.items():
        schedule.operations[n] = Times(begin, end, issues.get(n))
        for cta, address in recording.operations[n].signals:
            schedule.told[cta, address, recording.operations[n].completed or 0] = end


def _after(event: Event, stream: int, place: int, cycles: float, causes: dict[int, Key]) -> Key | None:
    """What a bar could not begin or end without: of a wait that took time its cause, else the bar before."""
    cause = causes.get(event.cause or -1) if isinstance(event, Waited | Met) and cycles > SHORT else None
    if cause is not None and cause != (stream, place):
        return cause
    return (stream, place - 1) if place else None


def _never(recording: Recording, schedule: Schedule) -> None:
    """Waits that were never over last to the end."""
    end = schedule.end
    for stream, times in zip(recording.streams, schedule.events, strict=True):
        last = stream.events[-1] if stream.events else None
        if isinstance(last, Waited | Met) and last.until is None and getattr(last, "waits", True):
            times[-1] = Times(times[-1].begin, max(end, times[-1].end), times[-1].after)


def _critical(recording: Recording, schedule: Schedule) -> Iterator[Key]:
    """What the end of each CTA waited for, from its end on."""
    seen: set[Key] = set()
    for cta in recording.ctas:
        ends = [(times.end, (k, n)) for k, events in enumerate(schedule.events) if recording.streams[k].cta == cta
                for n, times in enumerate(events)]  # fmt: skip
        place: Key | None = max(ends, default=(0.0, None), key=lambda end: end[0])[1]
        while place is not None and place not in seen:
            seen.add(place)
            yield place
            place = (schedule.operations[place[1]] if place[0] < 0 else schedule.events[place[0]][place[1]]).after
