"""The page of a recorded run: one file that needs no server and no network, with its data compressed inside.

Browsers decompress it themselves (DecompressionStream: Chromium 80, Firefox 113, Safari 16.4).
"""

from __future__ import annotations

import base64
import json
import linecache
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import cache
from html import escape
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors import ArgumentError, LayoutError, choices
from tilewright.host import aligned
from tilewright.sim.record.recording import Issued, Met, Stretch, Waited
from tilewright.verdict import TRACE
from tilewright.view.look.schedule import (
    Bar,
    Schedule,
    barrier_name,
    bars_of_operations,
    bars_of_phases,
    bars_of_warp,
    causes_of,
    how_open,
    role_of,
    scheduled,
)

if TYPE_CHECKING:
    from tilewright.sim.record.recording import Event, KernelBuffer, Recording, Step, Steps
    from tilewright.tracing import Trace

# What the page shows, as one object for JSON: columns of numbers, and words that are kept once.


MOST_ELEMENTS = 1 << 16
"""Elements of a buffer whose places are shown."""

MOST_LINES = 4000
"""Lines of a file that are shown."""


class _Kept:
    """Values, each with a number; equal ones once."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def __call__(self, value: Any) -> int:
        return self.numbers.setdefault(value, len(self.numbers))

    def all(self) -> list[Any]:
        return list(self.numbers)


def data_of(recording: Recording) -> dict[str, Any]:
    """Everything that the page shows, but `steps_of`."""
    return _Data(recording, scheduled(recording)).all()


def measured_rows(recording: Recording, measured: Trace) -> list[dict[str, Any]]:
    """A row for each warp of the recorded CTAs: a bar from each mark to the next one, on the clock of its SM."""
    rows = []
    for stream in recording.streams:
        marks = measured.of(stream.cta, stream.warp)
        ends = [mark.cycle for mark in marks[1:]] + [mark.cycle for mark in marks[-1:]]
        if marks:
            names, lines = [mark.name for mark in marks], [mark.line for mark in marks]
            rows.append({"cta": stream.cta, "warp": stream.warp, "name": names, "line": lines,
                         "c": [mark.cycle for mark in marks], "d": ends})  # fmt: skip
    return rows


class _Data:
    def __init__(self, recording: Recording, schedule: Schedule) -> None:
        self.rec = recording
        self.schedule = schedule
        self.words, self.files, self.ran = _Kept(), _Kept(), _Kept()
        self.where = causes_of(recording)
        self.issues = {(stream.cta, stream.warp, event.seq): (n, k) for n, stream in enumerate(recording.streams)
                       for k, event in enumerate(stream.events) if isinstance(event, Issued)}  # fmt: skip
        self.units: list[dict[str, Any]] = []
        self.barriers: dict[tuple[int, int], int] = {}

    def all(self) -> dict[str, Any]:
        rec = self.rec
        rows = [[row.text, row.kind, *self._place(row.at), row.signals] for row in rec.rows]
        self.units += self._units(bars_of_operations(rec), "unit") + self._units(bars_of_phases(rec), "m-barrier")
        self.barriers |= {(row["cta"], row["address"]): n for n, row in enumerate(self.units) if "address" in row}
        data: dict[str, Any] = {
            "kernel": rec.kernel, "target": rec.target, "grid": rec.grid, "cluster": rec.cluster,
            "threads": rec.threads, "steps": rec.steps, "left_out": str(rec.left_out), "gpu": self.schedule.gpu.name,
            "end": round(self.schedule.end, 1), "rows": rows,
            "sites": [[row.op, row.buffer, row.space, row.write, row.width, *self._place(row.at)] for row in rec.sites],
            "streams": [self._stream(number) for number in range(len(rec.streams))],
            "units": self.units, "unfinished": how_open(rec), "meetings": self._open_meetings(),
            "critical": [list(place) for place in self.schedule.critical],
            "buffers": [_buffer(row) for row in rec.buffers],
            "findings": [_finding(asdict(row)) for row in rec.findings],
            "moments": [[row.here, row.other, row.lane] for row in rec.moments],
        }  # fmt: skip
        data |= {"words": self.words.all(), "ran": self.ran.all(), "files": [_file(name) for name in self.files.all()]}
        return data

    def _place(self, at: Any) -> tuple[int, int]:
        return (-1, 0) if at is None else (self.files(at.outermost.file), at.outermost.line)

    def _stream(self, number: int) -> dict[str, Any]:
        stream = self.rec.streams[number]
        bars, times = list(bars_of_warp(self.rec, number)), self.schedule.events[number]
        columns = self._columns(bars, [(span.begin, span.end) for span in times])
        columns |= {"cta": stream.cta, "warp": stream.warp, "role": role_of(self.rec, number)}
        columns["ran"] = [self._ran(event) for event in stream.events]
        columns["cause"] = [self.where.get(getattr(event, "cause", None) or -1, ()) for event in stream.events]
        columns["at"] = [self._at(event) for event in stream.events]
        columns["row"] = [event.executed[-1][0] if hasattr(event, "executed") and event.executed
                       else getattr(event, "row", -1) for event in stream.events]  # fmt: skip
        return columns

    def _at(self, event: Event) -> tuple[int, ...]:
        """The m-barrier that an event is at, a number among the units, and the phase; or the barrier's meeting."""
        if isinstance(event, Met):
            return (event.meeting,)
        at = self.barriers.get((getattr(event, "cta", -1), getattr(event, "address", -1)))
        return () if at is None else (at, getattr(event, "phase", -1))

    def _open_meetings(self) -> dict[int, list[Any]]:
        """Of barriers at which some still wait: scope, CTA, number, and how many warps have come."""
        return {
            n: [meeting.scope, meeting.cta, meeting.barrier, len(meeting.arrivals)]
            for n, meeting in enumerate(self.rec.meetings) if not meeting.ended
        }  # fmt: skip

    def _ran(self, event: Event) -> int:
        executed = getattr(event, "executed", None)
        if executed is None:
            return -1
        moved = tuple((m.site, m.times, m.lanes, m.nbytes, m.wavefronts, m.ideal, m.sectors) for m in event.moved)  # type: ignore[union-attr]  # a Stretch
        return self.ran((executed, moved))

    def _columns(self, bars: list[Bar], times: list[tuple[float, float]]) -> dict[str, Any]:
        return {
            "kind": [bar.kind for bar in bars], "word": [self.words(bar.words) for bar in bars],
            "line": [bar.line for bar in bars], "a": [bar.order[0] for bar in bars],
            "b": [bar.order[1] for bar in bars], "c": [round(begin, 1) for begin, _ in times],
            "d": [round(end, 1) for _, end in times], "open": [n for n, bar in enumerate(bars) if bar.open],
        }  # fmt: skip

    def _units(self, bars: Iterable[tuple[int, str, Bar]], kind: str) -> list[dict[str, Any]]:
        """A row for each unit or m-barrier of each CTA."""
        by_unit: dict[tuple[int, str], list[Bar]] = {}
        for cta, name, bar in bars:
            by_unit.setdefault((cta, name), []).append(bar)
        units = []
        for (cta, name), bars_of_it in by_unit.items():
            columns = self._columns(bars_of_it, [self.schedule.span(self.rec, bar.place) for bar in bars_of_it])
            more = {"cta": cta, "name": name, "unit": kind, "number": [bar.place[1] for bar in bars_of_it]}
            if kind == "unit":
                every = [self.rec.operations[bar.place[1]] for bar in bars_of_it]
                more["by"] = [op.warp for op in every]
                more["row"] = [op.row for op in every]
                more["issued"] = [self.issues.get((op.cta, op.warp, op.issued), ()) for op in every]
                more["tells"] = [op.signals for op in every]
            else:
                phases = [self.rec.phases[bar.place[1]] for bar in bars_of_it]
                more["address"] = phases[0].address
                more["phase"] = [(phase.life, phase.number, phase.arrivals, phase.wanted, phase.nbytes, phase.announced)
                                 for phase in phases]  # fmt: skip
            units.append(columns | more)
        return units


def _file(name: str) -> dict[str, Any]:
    lines = [line.rstrip("\n") for line in linecache.getlines(name)[:MOST_LINES]]
    return {"name": name.rsplit("/", 1)[-1], "lines": lines}


def _finding(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A finding without what it does not have; a file by its last part."""
    kept = {key: value for key, value in fields.items() if value not in (None, (), {})}
    for part in (kept, kept.get("other", {})):
        if part.get("file"):
            part["file"] = part["file"].rsplit("/", 1)[-1]
    return kept


def _in_base64(values: np.ndarray[Any, Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()


def _buffer(buffer: KernelBuffer) -> dict[str, Any]:
    """A buffer with the place of each element, where that is one number on memory or a lane and a register."""
    names = ("name", "space", "dtype", "bits", "shape", "start")
    data: dict[str, Any] = {name: getattr(buffer, name) for name in names} | {"layout": str(buffer.layout or "")}
    if buffer.layout is None or not 0 < prod(buffer.shape) <= MOST_ELEMENTS:
        return data
    try:
        table = buffer.layout.table(buffer.shape)
    except LayoutError:
        return data
    for axis, places in table.items():
        first = places.reshape(-1, places.shape[-1])[:, 0]  # of replicas
        data.setdefault("places", {})[axis] = _in_base64(first.astype(np.int32))
    return data


def steps_of(warp: Steps, most: int, *, last: bool = False) -> dict[str, Any]:
    """The first ``most`` statements of a warp, or its last ones, of which the first has all that registers held then.
    Of values in even steps over the lanes there are the first and the step.
    """
    start = max(0, len(warp.steps) - most) if last else 0
    taken = list(warp.steps[start : start + most])
    if start:
        held = {(buffer, word): lanes for step in warp.steps[: start + 1] for buffer, word, lanes in step.registers}
        taken[0] = replace(taken[0], registers=tuple((*key, lanes) for key, lanes in held.items()))
    registers = [register for step in taken for register in step.registers]
    words = np.array([values.astype(np.uint32) for _, _, values in registers], np.uint32)
    is_whole = warp.is_whole and len(taken) == len(warp.steps)
    return {
        "cta": warp.cta, "warp": warp.warp, "buffers": warp.buffers, "whole": is_whole, "start": start,
        "row": [step.row for step in taken], "lanes": [step.lanes for step in taken],
        "seq": [step.seq for step in taken],
        "value": [_value(step) for step in taken],
        "touched": [[[site, *_affine(at)] for site, at in step.touched] for step in taken],
        "tmem": [None if step.tmem is None else _cells(*step.tmem) for step in taken],
        "changed": [[[buffer, word] for buffer, word, _ in step.registers] for step in taken],
        "words": _in_base64(words),
    }  # fmt: skip


def _cells(lane: int, column: int, words: np.ndarray[Any, Any]) -> list[Any]:
    """First lane and column, how many of both, and the words of the first 16 lanes and 32 columns."""
    lanes, columns = words.shape
    return [lane, column, lanes, columns, _in_base64(words[:16, :32].astype(np.uint32))]


def _value(step: Step) -> Any:
    if step.value is None:
        return None
    flat = step.value.reshape(len(step.value), -1)[:, 0]
    if flat.dtype.kind == "f":
        return [float(f"{x:.6g}") if np.isfinite(x) else str(x) for x in flat.astype(float)[:32].tolist()]
    return list(_affine(flat.astype(np.int64))) if len(flat) == 32 else [int(flat[0])]


def _affine(values: np.ndarray[Any, Any]) -> Iterator[Any]:
    """``base, step`` of 32 numbers in even steps, else all of them."""
    steps = np.diff(values)
    even = len(values) == 32 and (steps == steps[0]).all()
    yield from ([int(values[0]), int(steps[0])] if even else values.tolist())


FILES = Path(__file__).parent / "static"
SCRIPTS = ("layouts.js", "tools.js", "timeline.js", "steps.js", "findings.js", "waits.js", "explorer.js", "main.js")
MOST_BYTES = 1_900_000
"""Of a page."""

MOST_STEPS = (6000, 1500, 400, 100)
"""Statements of a warp that are shown one by one: as many of these as there is room for."""


def page_of(
    recording: Recording, *, view: str = "timeline", needed: list[dict[str, Any]] | None = None,
    measured: Trace | None = None,
) -> str:  # fmt: skip
    """The HTML of a recording. view: that it opens with. needed: rows of `tilewright.needed`, where they were made.
    measured: marks that were stamped on a GPU, to stand beside it.
    """
    data = data_of(recording) | {"view": view, "needed": needed or []}
    if measured is not None:
        data |= {"measured": measured_rows(recording, measured), "measured_unit": measured.unit,
                 "differs": measured.differs_from(recording), "waits": measured.waits()}  # fmt: skip
    packed = _packed(data)
    room, kept = MOST_BYTES - len(packed) - _own_bytes(), []
    for steps in recording.stepped:
        for most in MOST_STEPS:
            text = _packed(steps_of(steps, most, last=bool(recording.moments)))
            if len(text) <= room:
                kept.append(text)
                room -= len(text)
                break
    return _html(f"{recording.kernel}: a recorded run", packed, kept)


def written(path: str | Path | None, text: str) -> str:
    """The text, also written into a file where a path is given. Raises ArgumentError where that is not possible."""
    try:
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
    except (OSError, TypeError) as error:
        why = getattr(error, "strerror", None) or "no path"
        raise ArgumentError(f"no file can be written there: {why.lower()}", given=repr(str(path)),
                            allowed="the path of a file, in a folder that is there") from None  # fmt: skip
    return text


def explorer() -> str:
    """The explorer of layouts as a page of its own."""
    return _html("Layouts: an explorer", _packed({"view": "layout", "kernel": ""}), [])


def _packed(data: dict[str, Any]) -> str:
    return base64.b64encode(zlib.compress(json.dumps(data, separators=(",", ":")).encode(), 6)).decode()


@cache
def _own(name: str) -> str:
    return (FILES / name).read_text(encoding="utf-8")


def _own_bytes() -> int:
    """Of a page without any data."""
    return sum(len(_own(name)) for name in ("look.html", "look.css", *SCRIPTS))


def _html(title: str, packed: str, stepped: list[str]) -> str:
    script = "\n".join(map(_own, SCRIPTS)).replace("</script", "<\\/script")
    parts = {"TITLE": escape(title), "STYLE": _own("look.css"), "SCRIPT": script, "DATA": packed,
             "STEPS": json.dumps(stepped, separators=(",", ":"))}  # fmt: skip
    page = _own("look.html")
    for name, text in parts.items():
        page = page.replace(f"<!--{name}-->", text)
    return page


def in_a_frame(page: str, height: int = 640) -> str:
    """The page inside of another one, as in a cell of a notebook."""
    style = f"width:100%;height:{height}px;border:1px solid #8884;border-radius:6px"
    return f'<iframe srcdoc="{escape(page, quote=True)}" style="{style}" title="a recorded run"></iframe>'


# What ``run.timeline()`` gives: the run warp by warp, as text, in a notebook, or a file for Chrome's trace viewer.


UNITS = ("cycles", "order")


class Timeline:
    """The timeline of a recorded run. recording: what it shows; schedule: its estimated cycles."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.schedule: Schedule = scheduled(recording)

    def trace(self, units: str = "cycles") -> dict[str, Any]:
        """The events as Chrome's trace viewer and Perfetto read them. units: "cycles" (estimated), or "order" (of the
        simulator).
        """
        if units not in UNITS:
            raise ArgumentError(f"unknown units {units!r}", given=repr(units), allowed=choices(units, UNITS))
        return trace_of(self.recording, self.schedule, units)

    def write(self, path: str | Path, units: str = "cycles") -> None:
        """Write them into a file, to open at ui.perfetto.dev or chrome://tracing."""
        written(path, json.dumps(self.trace(units), separators=(",", ":")))

    def __repr__(self) -> str:
        return f"<Timeline: {self.recording!r}>"

    def __str__(self) -> str:
        rows = [("CTA", "warp", "role", "statements", "busy", "waits", "most for")]
        for number, stream in enumerate(self.recording.streams):
            times, waits = self.schedule.events[number], Counter[str]()
            statements, busy = 0, 0.0
            for event, span in zip(stream.events, times, strict=True):
                if isinstance(event, Stretch):
                    statements += sum(n for _, n in event.executed)
                if isinstance(event, Waited | Met):
                    waits[_waited_for(self.recording, event)] += round(span.end - span.begin)
                else:
                    busy += span.end - span.begin
            most = max(waits, key=lambda name: waits[name], default="") if sum(waits.values()) else ""
            rows.append((str(stream.cta), str(stream.warp), role_of(self.recording, number), f"{statements:,}",
                         f"{busy:,.0f}", f"{sum(waits.values()):,}", most))  # fmt: skip
        gpu = self.schedule.gpu.name
        head = f"{self.recording!r}\n(busy, waits: cycles, as the figures of an {gpu} say)"
        return "\n".join([head, "", *aligned(rows)])

    def _repr_html_(self) -> str:
        """What a notebook shows: the page."""
        return in_a_frame(page_of(self.recording))


def _waited_for(recording: Recording, event: Waited | Met) -> str:
    if isinstance(event, Met):
        return f"barrier {event.barrier}"
    return barrier_name(recording, event.cta, event.address) if event.on == "mbarrier" else event.group or "tmem"


# A recorded run in the format of Chrome's trace viewer, which Perfetto opens too.
#
# Source: "Trace Event Format" (Google). A CTA is a process, its warps, units and m-barriers are threads; a microsecond
# is one estimated cycle, or one event in the simulator's order.


FIRST_UNIT, FIRST_BARRIER = 1000, 2000  # the numbers of a CTA's threads begin there


def trace_of(recording: Recording, schedule: Schedule, units: str) -> dict[str, Any]:
    """The object that is written as JSON. units: "cycles" or "order"."""
    return {"traceEvents": list(_Tracing(recording, schedule, units).events()), "displayTimeUnit": "ns",
            "otherData": {"schema": TRACE, "kernel": recording.kernel, "unit": units,
                          "left_out": str(recording.left_out)}}  # fmt: skip


class _Tracing:
    def __init__(self, recording: Recording, schedule: Schedule, units: str) -> None:
        self.rec = recording
        self.schedule = schedule
        self.cycles = units == "cycles"
        self.named: dict[tuple[int, str], int] = {}

    def events(self) -> Iterator[dict[str, Any]]:
        for cta in self.rec.ctas:
            yield {"ph": "M", "name": "process_name", "pid": cta, "tid": 0, "args": {"name": f"CTA {cta}"}}
        for number, stream in enumerate(self.rec.streams):
            yield self._name(stream.cta, stream.warp, f"warp {stream.warp}: {role_of(self.rec, number)}")
            for bar in bars_of_warp(self.rec, number):
                yield self._bar(bar, stream.cta, stream.warp)
        for cta, unit, bar in bars_of_operations(self.rec):
            yield from self._asynchronous(bar, cta, self._thread(cta, unit, FIRST_UNIT), unit)
        for cta, name, bar in bars_of_phases(self.rec):
            yield from self._asynchronous(bar, cta, self._thread(cta, name, FIRST_BARRIER), name)
        for (cta, name), thread in self.named.items():
            yield self._name(cta, thread, name)
        yield from self._flows()

    def _thread(self, cta: int, name: str, first: int) -> int:
        return self.named.setdefault((cta, name), first + len(self.named))

    @staticmethod
    def _name(cta: int, thread: int, name: str) -> dict[str, Any]:
        return {"ph": "M", "name": "thread_name", "pid": cta, "tid": thread, "args": {"name": name}}

    def _span(self, bar: Bar) -> tuple[float, float]:
        return self.schedule.span(self.rec, bar.place) if self.cycles else bar.order

    def _bar(self, bar: Bar, cta: int, thread: int) -> dict[str, Any]:
        begin, end = self._span(bar)
        return {"ph": "X", "name": bar.words, "cat": bar.kind, "pid": cta, "tid": thread, "ts": begin,
                "dur": end - begin, "args": {"line": bar.line}}  # fmt: skip

    def _asynchronous(self, bar: Bar, cta: int, thread: int, cat: str) -> Iterator[dict[str, Any]]:
        """A pair: such bars may overlap on one row."""
        begin, end = self._span(bar)
        both = {"name": bar.words, "cat": cat, "id": f"{bar.place[0]}.{bar.place[1]}", "pid": cta, "tid": thread}
        yield {"ph": "b", "ts": begin, "args": {"line": bar.line}, **both}
        yield {"ph": "e", "ts": end, **both}

    def _flows(self) -> Iterator[dict[str, Any]]:
        """An arrow from an operation's issue to the wait that it let go on."""
        issued = {op.completed: n for n, op in enumerate(self.rec.operations) if op.completed is not None}
        for number, stream in enumerate(self.rec.streams):
            for place, event in enumerate(stream.events):
                cause = issued.get(getattr(event, "cause", None) or -1)
                if cause is None or not self.cycles:
                    continue
                op, times = self.rec.operations[cause], self.schedule.events[number][place]
                flow = {"name": "lets go on", "cat": "cause", "id": f"{number}.{place}"}
                yield {"ph": "s", "pid": op.cta, "tid": op.warp, "ts": self.schedule.operations[cause].begin, **flow}
                yield {"ph": "f", "bp": "e", "pid": stream.cta, "tid": stream.warp, "ts": times.end, **flow}
