"""Which events of a recording a finding is about: the statement that was executed then, and the access before it.

The check has told the finding while the statement was under way, so that the last event of its warp is that one. The
other access is the last one, by the threads that the finding names, to bytes that the statement touches: of what may be
still under way the oldest operation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from tilewright.sim.record.recording import FindingMoment, Stretch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tilewright.errors import Span
    from tilewright.explain import Finding, OtherAccess, Threads
    from tilewright.sim.record.details import Detailed, OpenStep
    from tilewright.sim.record.recorder import Recorder
    from tilewright.sim.record.recording import Event, EventPlace
    from tilewright.sim.record.streams import Growing, OpenOperation

Line: TypeAlias = "tuple[str | None, int | None]"
Spans: TypeAlias = list[tuple[int, int, int]]
"""First byte, the one behind the last, and the lane."""


def moment_of(rec: Recorder, finding: Finding) -> FindingMoment:
    """Now, for a finding that was just made."""
    at = finding.file, finding.line
    if finding.kind == "leaks":
        return FindingMoment(rec.seq, _issue(rec, at))
    stream = _stream(rec, finding.threads) or _current(rec)
    if stream is None or not stream.events:
        return FindingMoment(rec.seq)
    here = _place(rec, stream, at, _step(rec, stream, at))
    step = _steps(rec, stream)[here[2]] if here[2] >= 0 else None
    lanes = next((threads.lanes for threads in finding.threads if threads.lanes), (-1, -1))
    if finding.other is None:
        return FindingMoment(rec.seq, here, None, lanes[0])
    other, lane = _other(rec, finding.other, here, _touched(rec, step))
    return FindingMoment(rec.seq, here, other, lane if lane >= 0 else lanes[0])


def _stream(rec: Recorder, threads: tuple[Threads, ...]) -> Growing | None:
    """The first warp of the threads that is recorded."""
    every = (rec.by_cta[who.ctas[0]][who.warps[0] if who.warps else 0] for who in threads if who.ctas[0] in rec.by_cta)
    return next(every, None)


def _current(rec: Recorder) -> Growing | None:
    """The first warp that is executing."""
    if rec.batch is None or rec.mask is None or rec.mask.full.shape[:2] != rec.batch.shape[:2]:
        return next((stream for _, _, stream in rec.streams), None)
    return next((stream for _, _, stream in rec.active(rec.batch, rec.mask)), None)


def _number(rec: Recorder, stream: Growing) -> int:
    """Its place among the streams of the recording."""
    return sorted(rec.by_cta).index(stream.cta) * rec.run.warps + stream.warp


def _place(rec: Recorder, stream: Growing, at: Line, step: int) -> EventPlace:
    """The last event of a line, or else the last one."""
    last = len(stream.events) - 1
    k = next((k for k in range(last, -1, -1) if at in _lines(rec, stream.events[k])), last)
    return _number(rec, stream), k, step


def _lines(rec: Recorder, event: Event) -> set[Line]:
    """The lines of an event."""
    rows = [row for row, _ in event.executed] if isinstance(event, Stretch) else [event.row]
    return {line for row in rows if row >= 0 for line in _of_span(rec.rows[row].at)}


def _of_span(at: Span | None) -> Iterator[Line]:
    """The line of a statement, and those that call the function in which it stands."""
    while at is not None:
        yield at.file, at.line
        at = at.outer


def _steps(rec: Recorder, stream: Growing) -> list[OpenStep]:
    detailed: Detailed | None = rec.detailed.get((stream.cta, stream.warp))
    return detailed.steps if detailed is not None else []


def _step(rec: Recorder, stream: Growing, at: Line) -> int:
    """The last statement of a line, or else the last one; -1 where none is kept."""
    return next((k for k, _ in _backwards(rec, stream, at)), len(_steps(rec, stream)) - 1)


def _backwards(rec: Recorder, stream: Growing, at: Line) -> Iterator[tuple[int, OpenStep]]:
    steps = _steps(rec, stream)
    for k in range(len(steps) - 1, -1, -1):
        if at in _of_span(rec.rows[steps[k].row].at):
            yield k, steps[k]


def _touched(rec: Recorder, step: OpenStep | None) -> dict[str, Spans]:
    """Bytes that the active lanes of a statement touch, by buffer; of shared memory all together."""
    touched: dict[str, Spans] = {}
    for site, addresses in step.touched if step is not None else ():
        access = rec.sites[site].row
        active = (lane for lane in range(32) if step is not None and step.lanes >> lane & 1)
        spans = touched.setdefault("" if access.space == "shared" else access.buffer, [])
        spans += [(int(addresses[lane]), int(addresses[lane]) + access.width, lane) for lane in active]
    return touched


def _lane(a: dict[str, Spans], b: dict[str, Spans]) -> int:
    """The first lane of ``a`` that touches some of the same bytes; -1 where none does."""
    meet = (
        lane for name in a.keys() & b.keys() for x, y, lane in a[name] if any(x < v and u < y for u, v, _ in b[name])
    )
    return min(meet, default=-1)


def _other(
    rec: Recorder, other: OtherAccess, here: EventPlace, touched: dict[str, Spans]
) -> tuple[EventPlace | None, int]:
    """The last access of a line to what is touched, by the finding's threads, or the operation of that line; and the
    lane that clashes with it.
    """
    at, who = (other.file, other.line), _stream(rec, other.threads)
    cta = next(stream.cta for stream in _all(rec) if _number(rec, stream) == here[0])
    if (running := _operation(rec, other, who, cta, touched)) is not None:
        return (-1, running.number, -1), _lane(touched, _spans(running))
    for stream in _all(rec) if who is None else [who]:
        number = _number(rec, stream)
        for k, step in _backwards(rec, stream, at):
            lane = _lane(touched, _touched(rec, step))
            if lane >= 0 and (number, k) != (here[0], here[2]):
                return (number, _event_at(rec, stream, step.seq, at), k), lane
    return (None if who is None or not who.events else _place(rec, who, at, _step(rec, who, at))), -1


def _all(rec: Recorder) -> list[Growing]:
    return [stream for every in rec.by_cta.values() for stream in every]


def _event_at(rec: Recorder, stream: Growing, seq: int, at: Line) -> int:
    """The event of a statement that was begun behind the event of this number."""
    after = (k for k, event in enumerate(stream.events) if (event.seq > seq or k + 1 == len(stream.events)
             or stream.events[k + 1].seq > seq) and at in _lines(rec, event))  # fmt: skip
    return next(after, len(stream.events) - 1)


def _spans(operation: OpenOperation) -> dict[str, Spans]:
    return {"": [(first, end, 0) for first, end in operation.spans]}


def _operation(
    rec: Recorder, other: OtherAccess, who: Growing | None, cta: int, touched: dict[str, Spans]
) -> OpenOperation | None:
    """The newest operation of a line that touches some of these bytes; of those that are not complete the oldest."""
    name, at = other.op.removeprefix("ptx."), (other.file, other.line)
    every = [op for op in rec.operations if at in _of_span(op.data.at) and op.data.name.removeprefix("ptx.") == name
             and (op.data.cta == cta if who is None else (op.data.cta, op.data.warp) == (who.cta, who.warp))
             and (not touched.get("") or not op.spans or _lane(touched, _spans(op)) >= 0)]  # fmt: skip
    return next((op for op in every if op.data.completed is None), every[-1] if every else None)


def _issue(rec: Recorder, at: Line) -> EventPlace | None:
    """The first operation of a line that is not complete."""
    ops = (op for op in rec.operations if op.data.completed is None and at in _of_span(op.data.at))
    return next(((-1, op.number, -1) for op in ops), None)
