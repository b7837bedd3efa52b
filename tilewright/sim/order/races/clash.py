"""The race that is reported of pairs of accesses of which neither is known to come first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine import Bools, Site, Team, numbers
from tilewright.sim.order.races.records import AccessRecord, apart

if TYPE_CHECKING:
    from tilewright.sim.order.knowledge.clocks import Thread
    from tilewright.sim.order.races.records import Record

LOOSE, CHECKED, NUMBERED, DEPENDENT = "loose", "checked", "numbered", "dependent"


@dataclass(frozen=True, eq=False, slots=True)
class Clash:
    """A race. lane: (CTA, warp, lane) in the team of the later access. earlier: the thread of the other one, `other`
    where that is remembered; with_writer: has it written?

    excuse: why a warning is enough. `EQUAL`, `ROUNDED`: both write the same, or nearly so. `LOOSE`: the earlier one, a
    read, always comes first in practice. `CHECKED`: one is a plain read, the other a compare-and-swap, which finds out
    what changed in between. `NUMBERED`: the earlier one, a write, comes before a fence, and that before a number that
    was taken before the number of the later one's CTA. `DEPENDENT`: the later one, a write, stores what depends on the
    value that the earlier one has read. Empty for an error.
    at_once: are both of one execution of a statement? relaxed: are both volatile, and is an order relied on that they
    have not got? lanes: (CTAs, warps, 32), all that race at the later access, where that is known.
    """

    access: AccessRecord
    lane: tuple[int, int, int]
    earlier: Thread
    other: Record | None
    with_writer: bool
    excuse: str = ""
    at_once: bool = False
    relaxed: bool = False
    lanes: Bools | None = None

    @property
    def is_benign(self) -> bool:
        """Is a warning enough?"""
        return bool(self.excuse) or self.ends

    @property
    def ends(self) -> bool:
        """Does it end an m-barrier that others have arrived at? An elected thread does so in libcu++'s pipelines."""
        return self.site.how.ends and self.other is not None and self.other.site.how.is_signal

    def may_depend(self) -> bool:
        """Is it a plain store to shared memory, after a plain read by another lane of its warp?"""
        other = self.other.site if self.other is not None and not self.with_writer else None
        if other is None or not self.access.places.is_shared or self.at_once or self.relaxed:
            return False
        return self.site.how.sem == other.how.sem == "weak" and self.site.op == "store" and self.apart == 0

    @property
    def site(self) -> Site:
        """The place of the kernel that makes the later access."""
        return self.access.site

    @property
    def team(self) -> Team:
        """The threads that make the later access together."""
        return self.access.team

    @property
    def later(self) -> Thread:
        """The thread that makes the later access."""
        cta, warp, lane = self.lane
        return self.team.wave.first + numbers(self.team.ctas)[cta], numbers(self.team.warps)[warp] * 32 + lane

    @property
    def apart(self) -> int:
        """How far the two threads are apart, see `apart`."""
        each = (np.array(number) for number in (*self.later, *self.earlier))
        return int(apart(*each, run=self.team.wave.run))
