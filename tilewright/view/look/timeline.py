"""What `run.timeline()` gives: the run warp by warp, as text, in a notebook, or as a file for other viewers."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from tilewright.errors import ArgumentError, choices
from tilewright.sim.record.recording import Met, Stretch, Waited
from tilewright.view.look.bars import role_of
from tilewright.view.look.page import in_a_frame, page_of, written
from tilewright.view.look.schedule import Schedule, scheduled
from tilewright.view.look.trace import trace_of

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
            for event, one in zip(stream.events, times, strict=True):
                if isinstance(event, Stretch):
                    statements += sum(n for _, n in event.executed)
                if isinstance(event, Waited | Met):
                    waits[_waited_for(self.recording, event)] += round(one.end - one.begin)
                else:
                    busy += one.end - one.begin
            most = max(waits, key=lambda name: waits[name], default="") if sum(waits.values()) else ""
            rows.append((str(stream.cta), str(stream.warp), role_of(self.recording, number), f"{statements:,}",
                         f"{busy:,.0f}", f"{sum(waits.values()):,}", most))  # fmt: skip
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        gpu = self.schedule.gpu.name
        head = f"{self.recording!r}\n(busy, waits: cycles, as the figures of an {gpu} say)"
        return "\n".join([head, "", *lines])

    def _repr_html_(self) -> str:
        """What a notebook shows: the page."""
        return in_a_frame(page_of(self.recording))


def _waited_for(recording: Recording, event: Waited | Met) -> str:
    from tilewright.view.look.bars import barrier_name

    if isinstance(event, Met):
        return f"barrier {event.barrier}"
    return barrier_name(recording, event.cta, event.address) if event.on == "mbarrier" else event.group or "tmem"
