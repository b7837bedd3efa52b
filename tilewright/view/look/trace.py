"""A recorded run in the format of Chrome's trace viewer, which Perfetto opens too.

Source: "Trace Event Format" (Google). A CTA is a process, its warps, units and m-barriers are threads; a microsecond is
one estimated cycle, or one event in the simulator's order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tilewright.verdict import TRACE
from tilewright.view.look.bars import Bar, bars_of_operations, bars_of_phases, bars_of_warp, role_of

if TYPE_CHECKING:
    from tilewright.sim.record.recording import Recording
    from tilewright.view.look.schedule import Schedule

UNITS, BARRIERS = 1000, 2000  # the numbers of a CTA's threads begin there


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
            yield from self._asynchronous(bar, cta, self._thread(cta, unit, UNITS), unit)
        for cta, name, bar in bars_of_phases(self.rec):
            yield from self._asynchronous(bar, cta, self._thread(cta, name, BARRIERS), name)
        for (cta, name), thread in self.named.items():
            yield self._name(cta, thread, name)
        yield from self._flows()

    def _thread(self, cta: int, name: str, first: int) -> int:
        return self.named.setdefault((cta, name), first + len(self.named))

    @staticmethod
    def _name(cta: int, thread: int, name: str) -> dict[str, Any]:
        return {"ph": "M", "name": "thread_name", "pid": cta, "tid": thread, "args": {"name": name}}

    def _span(self, bar: Bar) -> tuple[float, float]:
        if not self.cycles:
            return bar.order
        if bar.place[0] == -2:
            return self.schedule.times_of(self.rec.phases[bar.place[1]])
        one, number = bar.place
        times = self.schedule.operations[number] if one == -1 else self.schedule.events[one][number]
        return times.begin, times.end

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
        issued = {one.completed: number for number, one in enumerate(self.rec.operations) if one.completed is not None}
        for number, stream in enumerate(self.rec.streams):
            for place, event in enumerate(stream.events):
                cause = issued.get(getattr(event, "cause", None) or -1)
                if cause is None or not self.cycles:
                    continue
                one, times = self.rec.operations[cause], self.schedule.events[number][place]
                flow = {"name": "lets go on", "cat": "cause", "id": f"{number}.{place}"}
                yield {"ph": "s", "pid": one.cta, "tid": one.warp, "ts": self.schedule.operations[cause].begin, **flow}
                yield {"ph": "f", "bp": "e", "pid": stream.cta, "tid": stream.warp, "ts": times.end, **flow}
