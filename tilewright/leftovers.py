"""Tiles in shared memory that a turn of a loop fills in part alone: does what the turn before has left matter?

A kernel that copies the part of a tile which is inside of a matrix, and computes with the whole tile, finds in the rest
what the turn before has left there. Where a store replaces what it has stored some turns before, all that it stored in
that turn is over: a run under `Leftovers` puts other bytes there, and a result that differs depends on them.
"""

from __future__ import annotations

from linecache import getlines
from typing import TYPE_CHECKING

import numpy as np

from tilewright.load.cu_idioms import fills_in_part
from tilewright.sim.checks import Check
from tilewright.sim.machine import spread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.errors import Span
    from tilewright.sim.machine import AccessEvent, Address, Hook, Ints, MeetingEvent, Site, Subject, Team, Wave

OTHER = 0x47  # bytes in whose place it is: finite floats of any width, and no small integers


class Leftovers(Check):
    """turns: by wave, how often each CTA has met. last: by wave, for each byte of shared memory, the turn of its last
    store and the number of its line. replaced: the lines whose leftovers were replaced, with the buffer.
    """

    def __init__(self, program: Subject) -> None:
        super().__init__(program)
        self.turns: dict[Wave, Ints] = {}
        self.last: dict[Wave, tuple[NDArray[np.int32], NDArray[np.int32]]] = {}
        self.lines: dict[Span | None, int] = {None: 0}
        self.replaced: dict[Span, str] = {}

    def start(self, wave: Wave) -> None:
        shape = (wave.ctas, wave.shared.data.shape[1])
        self.turns[wave] = np.ones(wave.ctas, np.int64)
        self.last[wave] = np.zeros(shape, np.int32), np.zeros(shape, np.int32)

    def ended(self, wave: Wave) -> None:
        del self.turns[wave], self.last[wave]

    def acquired(self, event: MeetingEvent) -> None:
        self.turns[event.wave][event.ctas] += 1

    def all_met(self, wave: Wave, ctas: slice) -> None:
        self.turns[wave][ctas] += 1

    def watch(self, site: Site) -> Hook | None:
        if not site.write or site.place is None or site.place.space != "shared":
            return None
        text = "".join(getlines(site.at.file)) if site.at is not None else ""
        is_copy = site.at is not None and site.op == "store" and fills_in_part(text, site.at.line)
        line = self.lines.setdefault(site.at if is_copy else None, len(self.lines))

        def hook(event: AccessEvent) -> None:
            for at in event.every:
                self._stored(site, line, event.team, at)

        return hook

    def _stored(self, site: Site, line: int, team: Team, at: Address) -> None:
        """Lanes are about to store."""
        wave, active = team.wave, team.full
        rows = spread(np.asarray(team.look.rows(1)), active.shape)[active]
        octets = spread(at.full(), active.shape)[active][:, None] + np.arange(site.width)
        (turn, by), now = self.last[wave], self.turns[wave]
        for row in np.unique(rows).tolist():
            here = octets[rows == row].reshape(-1)
            before = np.unique(turn[row, here][by[row, here] == line]) if line else np.zeros(0, np.int32)
            over = (by[row] == line) & np.isin(turn[row], before[(before > 0) & (before < now[row])])
            over[here] = False
            if line and over.any():
                wave.shared.data[row, over] = OTHER
                by[row, over] = 0
                assert site.at is not None, "it has a line"
                self.replaced[site.at] = site.line.buffer
            turn[row, here], by[row, here] = now[row], line
