"""When what happened in a recorded run, in estimated cycles, and the bars that show it on the rows of a timeline.

The schedule that `tilewright.profiling` plays is watched: each recorded CTA, or cluster of them, is played alone, from
the first cycle on: warps take turns at units, and wait for memory and for each other. What shares the GPU with it
counts only by the rates that memory has then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

from tilewright.host import bytes_text
from tilewright.isa import GPU_ARCHS
from tilewright.profiling import GPUS, Gpu
from tilewright.profiling.acts import ActWriter, IssueAct, Script, script_of
from tilewright.profiling.play import MEASURED, Play, SmFigures, figures_of
from tilewright.sim.record.recording import Committed, Event, Fenced, Issued, Marked, Met, Signalled, Stretch, Waited

if TYPE_CHECKING:
    from tilewright.sim.record.recording import AsyncOperation, Event, Phase, Recording

SHORT = 1.0  # cycles: a wait that takes no longer has waited for nobody

Key: TypeAlias = "tuple[int, int]"  # stream and place there; OF_OPERATIONS, or OF_PHASES, and the number of one
OF_OPERATIONS, OF_PHASES = -1, -2


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

    def span(self, recording: Recording, place: Key) -> tuple[float, float]:
        """When a bar begins, and ends. place: see `Bar`."""
        stream, number = place
        if stream == OF_PHASES:
            return self._phase(recording.phases[number])
        times = self.operations[number] if stream == OF_OPERATIONS else self.events[stream][number]
        return times.begin, times.end

    def _phase(self, phase: Phase) -> tuple[float, float]:
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
        self.played = {kind: self._watched(does) for kind, does in self.played.items()}

    def _watched(self, does: Any) -> Any:
        def watched(warp: Any, now: float, act: Any) -> float | None:
            after: float | None = does(warp, now, act)
            times = self.acts.setdefault(id(warp.acts), {}).setdefault(warp.at, [now, now])
            times[1] = now if after is None else after
            if isinstance(act, IssueAct) and act.operation not in self.done:
                self.done[act.operation] = now, max(now, warp.unit.done.get(act.operation, (now, now))[0])
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
    return events | {
        op.completed: (OF_OPERATIONS, n) for n, op in enumerate(recording.operations) if op.completed is not None
    }


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


# The rows of a timeline and the bars on them, as text and numbers that any viewer can draw.


SHOWN_COUNTS = 6


@dataclass(frozen=True, slots=True)
class Bar:
    """kind: stretch, wait, issue, signal, meet, fence, commit, mark, operation or phase. order: begin and end in the
    simulator's order. line: of the kernel. place: see `Key`. open: has it no end in what was recorded?
    """

    kind: str
    words: str
    line: int
    order: tuple[int, int]
    place: Key
    open: bool = False


def how_open(recording: Recording) -> str:
    """What to say of what has no end: only where no thread can go on it never has one."""
    wrong = [finding.kind for finding in recording.findings if finding.severity == "error"]
    if not {"deadlock", "livelock"}.isdisjoint(wrong) or not (wrong or recording.left_out.after):
        return "never over"
    return "cut off: the run ends here, at what was found" if wrong else "cut off: the recording ends here"


def role_of(recording: Recording, number: int) -> str:
    """What a warp does, in a word or two: what it issues and what it computes."""
    stream = recording.streams[number]
    issued = [recording.operations[e.operation] for e in stream.events if isinstance(e, Issued)]
    counts = recording.counts(stream.cta, stream.warp)
    has_products = any("mma" in op.mnemonic and not op.is_commit for op in issued)
    words = [word for word, has in (
        ("loads", any("global" in op.reads and op.writes.keys() - {"global"} for op in issued)),
        ("products", has_products or counts.get("ptx.mma", 0) > 0),
        ("stores", counts.get("store global", 0) > 0 or any("global" in op.writes for op in issued)),
    ) if has]  # fmt: skip
    return ", ".join(words) or ("computes" if counts else "idle")


def bars_of_warp(recording: Recording, number: int) -> Iterator[Bar]:
    """The bars of one warp, in its order."""
    last, unfinished = _last(recording), how_open(recording)
    for place, event in enumerate(recording.streams[number].events):
        kind, words, row = _said(recording, event)
        until = getattr(event, "until", event.seq)
        end = last if until is None else max(until, event.seq) + (1 if kind == "stretch" else 0)
        at = recording.rows[row].at if row >= 0 else None
        never = until is None and kind in ("wait", "meet") and getattr(event, "waits", True)
        words += f": {unfinished}" * never
        yield Bar(kind, words, at.outermost.line if at else 0, (event.seq, end), (number, place), never)


def _last(recording: Recording) -> int:
    return max((stream.events[-1].seq for stream in recording.streams if stream.events), default=0) + 1


def _said(rec: Recording, event: Event) -> tuple[str, str, int]:
    """Kind, words and row of an event."""
    if isinstance(event, Stretch):
        return "stretch", _stretch_words(rec, event), event.executed[-1][0] if event.executed else -1
    if isinstance(event, Waited):
        return "wait", wait_words(rec, event), event.row
    if isinstance(event, Met):
        verb = "meets" if event.arrives and event.waits else "arrives" if event.arrives else "waits"
        scope = rec.meetings[event.meeting].scope if event.meeting >= 0 else "cluster"
        return "meet", f"{verb} at barrier {event.barrier} ({scope})", event.row
    if isinstance(event, Issued):
        operation = rec.operations[event.operation]
        return "issue", f"issues {operation.name.removeprefix('ptx.')}: {moved_words(operation)}", event.row
    if isinstance(event, Signalled):
        return "signal", _signal_words(rec, event), event.row
    if isinstance(event, Committed):
        return "commit", f"closes a group of {event.group}: {len(event.operations)} operations", event.row
    if isinstance(event, Marked):
        return "mark", event.name, event.row
    assert isinstance(event, Fenced)
    return "fence", event.fence, event.row


def _stretch_words(rec: Recording, event: Stretch) -> str:
    total: dict[str, int] = {}
    for row, times in event.executed:
        for kind, number in rec.rows[row].counts.items():
            total[kind] = total.get(kind, 0) + number * times
    total.pop("address", None)
    first = sorted(total.items(), key=lambda item: -item[1])[:SHOWN_COUNTS]
    words = ", ".join(f"{n} x {kind.removeprefix('ptx.')}" for kind, n in first)
    return words or f"{sum(times for _, times in event.executed)} statements"


def barrier_name(rec: Recording, cta: int, address: int) -> str:
    """The kernel's name of an m-barrier."""
    return rec.barriers.get((cta, address)) or f"m-barrier at byte {address}"


def wait_words(rec: Recording, event: Waited) -> str:
    """What a wait is for."""
    if event.on == "mbarrier":
        phase = f"phase {event.phase}" if event.phase >= 0 else "the phase before the first"
        return f"waits for {phase} of {barrier_name(rec, event.cta, event.address)}"
    if event.on == "group":
        left = f", all but the newest {event.pending}" if event.pending else ""
        return f"waits for {event.group}{left}: {len(event.operations)} operations"
    return "waits for tensor memory"


def _signal_words(rec: Recording, event: Signalled) -> str:
    name = barrier_name(rec, event.cta, event.address)
    if event.kind == "init":
        return f"initialises {name}"
    if event.kind == "inval":
        return f"ends {name}"
    parts = [f"{event.arrivals} arrival{'s' * (event.arrivals != 1)}"] * (event.arrivals > 0)
    parts += [f"{bytes_text(event.nbytes)} announced"] * (event.nbytes > 0)
    return f"{name}, phase {event.phase}: {', '.join(parts)}"


def moved_words(operation: AsyncOperation) -> str:
    """``16 KiB global to shared``."""
    if operation.is_commit:
        return f"reports {len(operation.after)} operations"
    nbytes = max((*operation.reads.values(), *operation.writes.values()), default=0)
    return f"{bytes_text(nbytes)} {' and '.join(operation.reads)} to {' and '.join(operation.writes)}"


def bars_of_operations(recording: Recording) -> Iterator[tuple[int, str, Bar]]:
    """CTA, unit and bar of each operation."""
    last = _last(recording)
    for number, operation in enumerate(recording.operations):
        end = operation.completed if operation.completed is not None else last
        words = f"{operation.name.removeprefix('ptx.')}: {moved_words(operation)}"
        line = operation.at.outermost.line if operation.at else 0
        is_open, place = operation.completed is None, (OF_OPERATIONS, number)
        bar = Bar("operation", words, line, (operation.issued, end), place, is_open)
        yield operation.cta, operation.unit, bar


def bars_of_phases(recording: Recording) -> Iterator[tuple[int, str, Bar]]:
    """CTA, name of the m-barrier and bar of each phase: from when it begins, to its end or that of the recording."""
    last = _last(recording)
    for number, phase in enumerate(recording.phases):
        end = phase.signals[-1] if phase.ended and phase.signals else last
        bar = Bar("phase", phase_words(phase), 0, (phase.begun, end), (OF_PHASES, number), not phase.ended)
        yield phase.cta, phase.name, bar


def phase_words(phase: Phase) -> str:
    """Arrivals and bytes of a phase, of those that it waits for."""
    nbytes = f", {bytes_text(phase.nbytes)} of {bytes_text(phase.announced)} announced" * bool(
        phase.nbytes or phase.announced
    )
    arrivals = f"{phase.arrivals} of {phase.wanted} arrival{'s' * (phase.wanted != 1)}"
    return f"phase {phase.number}: {arrivals}{nbytes}{'' if phase.ended else ', not over'}"
