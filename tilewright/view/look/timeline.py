"""What ``run.timeline()`` gives: the run warp by warp, as text, in a notebook, or a file for Chrome's trace viewer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tilewright.errors import ArgumentError, choices
from tilewright.host import aligned
from tilewright.sim.record.recording import Met, Stretch, Waited
from tilewright.verdict import TRACE
from tilewright.view.look.page import in_a_frame, page_of, written
from tilewright.view.look.schedule import (
    Bar,
    Schedule,
    barrier_name,
    bars_of_operations,
    bars_of_phases,
    bars_of_warp,
    role_of,
    scheduled,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tilewright.sim.record.recording import Recording

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
