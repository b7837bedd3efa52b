"""Pairs of accesses of which neither is known to come first, and the race that is reported of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine import Bools, Device, Ints, Site, Team, numbers
from tilewright.sim.order.races.records import CTA, CTA_BITS, THREAD, AccessRecord

if TYPE_CHECKING:
    from tilewright.sim.order.knowledge.clocks import Thread
    from tilewright.sim.order.races.records import Candidates, Record

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


@dataclass(frozen=True, eq=False, slots=True)
class Pairs:
    """Pairs of accesses, n of them, as clocks name threads. number: of the candidate. row, thread, knower, cta: of the
    later access. time, other_thread, other_cta: of the earlier one.
    """

    candidates: Candidates
    number: Ints
    row: Ints
    thread: Ints
    knower: Ints
    cta: Ints
    time: Ints
    other_thread: Ints
    other_cta: Ints

    def __len__(self) -> int:
        return len(self.number)

    def __getitem__(self, which: Bools | Ints) -> Pairs:
        return Pairs(self.candidates, *(getattr(self, name)[which] for name in Pairs.__slots__[1:]))

    def lane(self, k: int) -> tuple[int, int, int]:
        """(CTA, warp, lane) of the later access in its team."""
        found, n = self.candidates, self.number[k]
        return int(found.cta[n]), int(found.warp[n]), int(found.lane[n])

    @property
    def chosen(self) -> Candidates:
        """The candidates that are in any."""
        return self.candidates[self.number]

    def later(self, k: int) -> Thread:
        """The thread of the later access."""
        return int(self.cta[k]), int(self.thread[k])

    def earlier(self, k: int) -> Thread:
        """The thread of the earlier access."""
        return int(self.other_cta[k]), int(self.other_thread[k])

    def apart(self, run: Device) -> Ints:
        """How far the threads are apart, see `apart`."""
        return apart(self.cta, self.thread, self.other_cta, self.other_thread, run=run)


def apart(cta: Ints, thread: Ints, other_cta: Ints, other_thread: Ints, *, run: Device) -> Ints:
    """How far threads are apart: 0 of one warp, 1 of one CTA, 2 of one cluster, 3 of one GPU, 4 beyond."""
    found = np.where(thread >> 5 != other_thread >> 5, 1, 0)
    for far, scope in enumerate(("cta", "cluster", "gpu"), 2):
        found = np.where(cta // run.reach[scope] != other_cta // run.reach[scope], far, found)
    return found


def pairs_of(access: AccessRecord, found: Candidates) -> Pairs:
    """The pairs of an access with the earlier ones that may race with it."""
    places, clocks = access.places, access.clocks
    ctas, warps = access.seen.ctas, access.seen.warps
    row, warp = ctas.start + ctas.step * found.cta, warps.start + warps.step * found.warp
    thread = warp * 32 + found.lane
    cta = row + access.team.wave.first
    other = found.tags >> CTA & (1 << CTA_BITS) - 1 if places.is_global else cta
    knower = warp if access.site.how.collective else clocks.knower[thread]
    n, time = np.arange(len(found)), found.tags >> places.shift
    return Pairs(found, n, row, thread, knower, cta, time, found.tags & THREAD, other)
