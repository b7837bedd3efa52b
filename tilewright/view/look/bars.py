"""The rows of a timeline and the bars on them, as text and numbers that any viewer can draw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.host import bytes_text
from tilewright.sim.record.recording import Committed, Event, Fenced, Issued, Marked, Met, Signalled, Stretch, Waited

if TYPE_CHECKING:
    from tilewright.sim.record.recording import AsyncOperation, Phase, Recording

SHOWN_COUNTS = 6


@dataclass(frozen=True, slots=True)
class Bar:
    """kind: stretch, wait, issue, signal, meet, fence, commit, mark, operation or phase. order: begin and end in the
    simulator's order. line: of the kernel. place: stream and event, or -1 and the operation's number. open: has it no
    end in what was recorded?
    """

    kind: str
    words: str
    line: int
    order: tuple[int, int]
    place: tuple[int, int]
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
        yield (
            operation.cta,
            operation.unit,
            Bar("operation", words, line, (operation.issued, end), (-1, number), operation.completed is None),
        )


def bars_of_phases(recording: Recording) -> Iterator[tuple[int, str, Bar]]:
    """CTA, name of the m-barrier and bar of each phase: from when it begins, to its end or that of the recording."""
    last = _last(recording)
    for number, phase in enumerate(recording.phases):
        end = phase.signals[-1] if phase.ended and phase.signals else last
        yield (
            phase.cta,
            phase.name,
            Bar("phase", phase_words(phase), 0, (phase.begun, end), (-2, number), not phase.ended),
        )


def phase_words(phase: Phase) -> str:
    """Arrivals and bytes of a phase, of those that it waits for."""
    nbytes = f", {bytes_text(phase.nbytes)} of {bytes_text(phase.announced)} announced" * bool(
        phase.nbytes or phase.announced
    )
    arrivals = f"{phase.arrivals} of {phase.wanted} arrival{'s' * (phase.wanted != 1)}"
    return f"phase {phase.number}: {arrivals}{nbytes}{'' if phase.ended else ', not over'}"
