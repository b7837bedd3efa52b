"""Volatile reads that rely on an order which they have not got.

``volatile`` makes an access relaxed, and orders no other. A thread that polls a flag, and then reads what was written
before that, may find an older value unless fences stand between the two on both sides.

Source: CUDA C++ Programming Guide, "Memory Fence Functions".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.masks import Mask
from tilewright.sim.order.bounds import OBSERVATIONS, STRONG_WRITES
from tilewright.sim.order.knowledge.actors import Actors
from tilewright.sim.order.knowledge.fence_points import apart
from tilewright.sim.order.knowledge.locations import Where, threads_of
from tilewright.sim.order.races.clash import Pairs
from tilewright.sim.order.races.judge import farthest_clash
from tilewright.sim.order.races.observed import has_observed, keep_newest, last_read

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tilewright.sim.machine.arrays import Bools
    from tilewright.sim.machine.sites import Site
    from tilewright.sim.machine.wave import Wave
    from tilewright.sim.order.knowledge.actors import Thread
    from tilewright.sim.order.knowledge.known import Known
    from tilewright.sim.order.races.accesses import AccessRecord
    from tilewright.sim.order.races.clash import Clash
    from tilewright.sim.order.races.records import Record
    from tilewright.sim.order.wave import WaveOrder

__all__ = ["VolatileReads"]


@dataclass(frozen=True, eq=False, slots=True)
class _Observation:
    """A thread of a CTA has observed, at a time, what another one had written at a time of its own. known: what that
    one knew then.
    """

    thread: int
    time: int
    written: int
    known: Known | None

    def tells(self, access: AccessRecord, later: Thread, writer: Thread, earlier: Thread, time: int) -> bool:
        """Does what a thread did at a time come before the thread of an access by way of the write?"""
        clocks = access.clocks
        if self.thread != later[1]:
            row = later[0] - access.batch.wave.first
            if not clocks.come_after(row, later[1], later[0], self.thread, self.time):
                return False
        if writer == earlier:
            return self.written > time
        one = (np.array([value]) for value in (*earlier, time))
        return self.known is not None and bool(clocks.are_in(self.known, *one)[0])


class VolatileReads:
    """The writes that threads have observed and not acquired: at a location that they poll, or at a counter whose value
    they compare.

    observed: by CTA of the grid and writer, the last. counters: by location, the last atomic of each thread: when, and
    had it passed a fence? written: by CTA of the grid, warp and time, what lanes knew that wrote strongly then.
    """

    def __init__(self, orders: Mapping[Wave, WaveOrder], sites: Iterable[Site]) -> None:
        self._orders = orders
        sites = list(sites)
        reads = any(site.sem == "volatile" and not site.write for site in sites)
        self._awake = reads and any(site.polls or site.compared for site in sites)
        self._observed: dict[int, dict[Thread, _Observation]] = {}
        self._counters: dict[Where, dict[Thread, tuple[int, bool]]] = {}
        self._written: dict[tuple[int, int, int], list[tuple[Bools, Known]]] = {}

    def read(self, access: AccessRecord, found: Pairs | None) -> Clash | None:
        """A strong read has found writes that nothing orders before it. One that polls observes them; of another one
        that is volatile, the race with a write on whose order it relies.
        """
        if not self._awake or found is None or not len(found) or not access.site.shows:
            return None
        pairs = found[~found.of_many]
        if access.site.polls:
            for k in range(len(pairs)):
                self._observe(pairs.later(k), access, pairs.earlier(k), int(pairs.time[k]))
            return None
        return self._relied(access, pairs) if access.site.sem == "volatile" else None

    def counted(self, access: AccessRecord) -> None:
        """Strong writes have taken place. An atomic observes those before it. That their threads had passed a fence is
        enough for one that compares what it has counted, and reads by volatile loads then: the guide has such an
        example.
        """
        site, fences = access.site, self._orders[access.batch.wave].fences
        if not (self._awake and site.write) or site.is_signal:
            return
        shape = access.batch.shape
        who = Actors.of(access.batch, Mask(shape, np.broadcast_to(access.mask.full, shape)))
        for k, lanes, known in apart(access.clocks, who):
            key = int(who.rows[k]) + access.batch.wave.first, int(who.warps[k]), access.time
            self._written.setdefault(key, []).append((lanes, known))
            keep_newest(self._written, STRONG_WRITES)
        if not site.atomic:
            return
        for (row, thread), where in threads_of(access):
            own = row + access.batch.wave.first, thread
            before = self._counters.setdefault(where, {})
            for writer, (time, fenced) in before.items() if site.shows and (site.polls or site.compared) else ():
                if writer != own and (site.polls or not fenced):
                    self._observe(own, access, writer, time)
            before[own] = access.time, bool(fences.scopes(row, thread))
            keep_newest(before, OBSERVATIONS)

    def _observe(self, who: Thread, access: AccessRecord, writer: Thread, written: int) -> None:
        known = self._observed.setdefault(who[0], {})
        there = self._written.get((writer[0], writer[1] >> 5, written), ())
        of_writer = next((one for lanes, one in there if lanes[writer[1] & 31]), None)
        known[writer] = _Observation(who[1], access.time, written, of_writer)
        keep_newest(known, OBSERVATIONS)

    def _relied(self, access: AccessRecord, pairs: Pairs) -> Clash | None:
        """The volatile read of what a thread had written volatile before a write that is observed."""
        for k in range(len(pairs)):
            later, earlier, time = pairs.later(k), pairs.earlier(k), int(pairs.time[k])
            observed = self._observed.get(later[0], {}).items()
            if any(seen.tells(access, later, writer, earlier, time) for writer, seen in observed):
                clash = farthest_clash(access, pairs[np.array([k])], with_writer=True)
                if clash.other is not None and clash.other.site.sem == "volatile" and not _has_read(clash, clash.other):
                    return replace(clash, relaxed=True)
        return None


def _has_read(clash: Clash, write: Record) -> bool:
    """Has the thread read that very value before? Then it cannot find an older one."""
    read = last_read(clash.access, clash.lane, clash.later)
    return has_observed(clash.access, read, clash.later, write, clash.earlier)
