"""Numbers that threads take at counters: a thread's own tells that those before it have taken theirs.

Samples of NVIDIA's rely on that without an acquire: what others write comes before a fence, and that before their
number, but no fence stands behind one's own. What a CTA then accesses plainly is a warning. It is one exactly where a
fence.sc behind the own number would put the two in order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.order.bounds import OBSERVATIONS
from tilewright.sim.order.knowledge.fence_points import Stamps
from tilewright.sim.order.knowledge.locations import Where, threads_of
from tilewright.sim.order.races.clash import NUMBERED
from tilewright.sim.order.races.judge import are_plain, clash_of
from tilewright.sim.order.races.observed import keep_newest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tilewright.sim.machine.arrays import Bools
    from tilewright.sim.machine.wave import Wave
    from tilewright.sim.order.knowledge.clocks import Clocks
    from tilewright.sim.order.knowledge.known import Far
    from tilewright.sim.order.knowledge.locations import Locations
    from tilewright.sim.order.knowledge.releases import Release
    from tilewright.sim.order.races.accesses import AccessRecord
    from tilewright.sim.order.races.clash import Clash, Pairs
    from tilewright.sim.order.races.records import Candidates
    from tilewright.sim.order.wave import WaveOrder

__all__ = ["Tickets"]


@dataclass(eq=False, slots=True)
class _Ticket:
    """A thread, which had passed a fence, has taken a number at a time. release: what all before it have published."""

    thread: int
    time: int
    release: Release
    _fenced: Far | None = None

    def counts(self, clocks: Clocks, done: Stamps) -> Bools:
        """Which of these accesses come before a fence that holds every thread, and that before an earlier number?"""
        if self._fenced is None:
            self._fenced = self._all_fenced(clocks)
        found = np.zeros(len(done), np.bool_)
        for cta in self._fenced.keys() & set(done.ctas.tolist()):
            here = done.ctas == cta
            found[here] = self._fenced[cta][done.threads[here]] >= done.times[here]
        return found

    def _all_fenced(self, clocks: Clocks) -> Far:
        fenced: Far = {}
        patterns = [*self.release.patterns.patterns.values(), *self.release.by_sc.patterns.values()]
        for known in [
            pattern.known for pattern in patterns if pattern.of_fence and pattern.scope in clocks.wave.run.wide
        ]:
            for far in (clocks.near_as_far(known, 0), *known.far):
                for cta, times in far.items():
                    fenced[cta] = np.maximum(fenced[cta], times) if cta in fenced else times
        return fenced


class Tickets:
    """The numbers that threads have taken and compare: by CTA and location, the last."""

    def __init__(self, orders: Mapping[Wave, WaveOrder], locations: Locations) -> None:
        self._orders = orders
        self._locations = locations
        self._taken: dict[int, dict[Where, _Ticket]] = {}

    def counted(self, access: AccessRecord) -> None:
        """Atomics have taken place, and `Locations` has recorded them."""
        site, wave, seen = access.site, access.batch.wave, self._locations.seen
        fences = self._orders[wave].fences
        if not (site.atomic and site.compared) or site.polls or site.is_signal or not (seen and fences.latest):
            return
        for (row, thread), where in threads_of(access):
            cta = row + wave.first
            if (cta, thread) in seen and not fences.scopes(row, thread).isdisjoint(wave.run.wide):
                own = self._taken.setdefault(cta, {})
                own[where] = _Ticket(thread, access.time, seen[cta, thread])
                keep_newest(own, OBSERVATIONS)

    def clash_of(self, access: AccessRecord, found: Candidates) -> tuple[Clash | None, Pairs]:
        """As `clash_of` of earlier writes; a warning where all of them come before numbers that were taken earlier."""
        clash, pairs = clash_of(access, found, with_writer=True)
        if clash is None or clash.is_benign or access.site.sem != "weak" or not self._taken:
            return clash, pairs
        strict, _ = clash_of(access, found, with_writer=True, excused=self._excused)
        return strict or replace(clash, excuse=NUMBERED), pairs

    def _excused(self, access: AccessRecord, pairs: Pairs) -> Bools:
        """Which of these are of a plain write, and of a thread that comes after a number that counts it?"""
        excused, weak = np.zeros(len(pairs), np.bool_), are_plain(access, pairs)
        for cta in np.unique(pairs.cta).tolist():
            for ticket in self._taken.get(cta, {}).values():
                left = np.flatnonzero(weak & ~excused & (pairs.cta == cta))
                of_ticket = (np.full(len(left), value) for value in (cta, ticket.thread, ticket.time))
                after = access.clocks.knows(pairs.row[left], pairs.knower[left], *of_ticket)
                left = left[after | (pairs.thread[left] == ticket.thread)]
                done = Stamps(pairs.time[left], pairs.other_cta[left], pairs.other_thread[left])
                excused[left] = ticket.counts(access.clocks, done)
        return excused
