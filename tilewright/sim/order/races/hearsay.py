"""What threads have heard of others through strong accesses that order nothing, and then read by volatile ones.

``volatile`` makes an access relaxed, and orders no other. A thread that polls a flag, and then reads what was written
before that, may find an older value unless fences stand between the two on both sides. The kernel relies on an order
that it has not got. Source: CUDA C++ Programming Guide, "Memory Fence Functions".
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tilewright.sim.order.bounds import HEARSAY
from tilewright.sim.order.knowledge.locations import Where, threads_of
from tilewright.sim.order.knowledge.releases import WIDE
from tilewright.sim.order.races.accesses import MANY
from tilewright.sim.order.races.clash import Pairs, pairs_of
from tilewright.sim.order.races.judge import farthest_clash
from tilewright.sim.order.races.observed import last_look

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tilewright.sim.machine.sites import Site
    from tilewright.sim.machine.wave import Wave
    from tilewright.sim.order.races.accesses import AccessRecord
    from tilewright.sim.order.races.clash import Clash
    from tilewright.sim.order.races.records import Candidates
    from tilewright.sim.order.wave import WaveOrder

    Thread: TypeAlias = "tuple[int, int]"  # its CTA of the grid, and its number there

__all__ = ["Hearsay"]


@dataclass(frozen=True, slots=True)
class _Heard:
    """A thread of a CTA has heard at a time what another had written at a time of its own."""

    thread: int
    at: int
    told: int


@dataclass(slots=True)
class _Tickets:
    """The numbers that threads have taken at a counter. turn: of the last. taken: by which threads that had passed a
    fence, at which time and turn. seen: the last thread of each CTA that has compared its own, when, at which turn.
    """

    turn: int = 0
    taken: dict[Thread, tuple[int, int]] = field(default_factory=dict)
    seen: dict[int, tuple[int, int, int]] = field(default_factory=dict)


class Hearsay:
    """For each CTA of the grid what its threads have last heard of each thread, from a location that they poll, or from
    a counter whose value they compare.

    counters: the atomics at each location, of which a later one hears. tickets: those of threads that had passed a
    fence, at counters that are compared.
    """

    def __init__(self, orders: Mapping[Wave, WaveOrder], sites: Iterable[Site]) -> None:
        self._orders = orders
        self._awake = any(site.sem == "volatile" and not site.write for site in sites)
        self._of: dict[int, dict[Thread, _Heard]] = {}
        self._counters: dict[Where, dict[Thread, tuple[int, bool]]] = {}
        self._tickets: dict[Where, _Tickets] = {}

    def met(self, access: AccessRecord, found: Candidates | None) -> Clash | None:
        """A strong read has found writes that nothing orders before it. They are heard of; is one relied on?"""
        if not self._awake or found is None or not len(found) or not access.site.shows:
            return None
        found = found[found.tags & MANY == 0]
        pairs = pairs_of(access, found)
        data = access.site.sem == "volatile" and not access.site.polls
        clash = self._relied(access, found, pairs) if data else None
        for k in range(len(found)) if access.site.polls else ():
            teller = int(pairs.other_cta[k]), int(pairs.other_thread[k])
            self._hear(int(pairs.cta[k]), int(pairs.thread[k]), access, teller, int(pairs.time[k]))
        return clash

    def counted(self, access: AccessRecord) -> None:
        """Atomics have taken place, and each hears of those before it. That their threads had passed a fence is enough
        for one that compares what it has counted, and reads by volatile loads then: the guide has such an example.
        """
        site = access.site
        if not (self._awake and site.atomic) or site.is_signal or site.sem == "weak":
            return
        for (row, thread), where in threads_of(access):
            cta = row + access.batch.wave.first
            before = self._counters.setdefault(where, {})
            for teller, (told, fenced) in before.items() if site.shows and (site.polls or site.compared) else ():
                if teller != (cta, thread) and (site.polls or not fenced):
                    self._hear(cta, thread, access, teller, told)
            passed = self._orders[access.batch.wave].fences.latest.get((row, thread >> 5), ())
            before[cta, thread] = access.time, any(each.lanes[thread & 31] for each in passed)
            _forget(before)

    def numbered(self, access: AccessRecord) -> None:
        """Atomics have taken place: threads that compare what they find have taken a number."""
        site, fences = access.site, self._orders[access.batch.wave].fences
        if not (site.atomic and site.compared) or site.polls or site.is_signal or not fences.latest:
            return
        listed = list(threads_of(access))
        for place in access.batch.wave.run.precedence.taken(np.arange(len(listed))).tolist():
            (row, thread), where = listed[place]
            cta = row + access.batch.wave.first
            counter = self._tickets.setdefault(where, _Tickets())
            counter.turn += 1
            passed = fences.latest.get((row, thread >> 5), ())
            if any(each.lanes[thread & 31] and each.scope in WIDE for each in passed):
                counter.taken[cta, thread] = access.time, counter.turn
                counter.seen[cta] = thread, access.time, counter.turn
                _forget(counter.taken)

    def excuses(self, clash: Clash) -> bool:
        """Does a CTA plainly access what others wrote before they took a number, where its own number counts theirs?

        Samples of NVIDIA's do: each thread passes a fence before it takes its number, and none behind that.
        """
        other = clash.other
        if other is None or not clash.with_writer or {clash.site.sem, other.site.sem} != {"weak"}:
            return False
        row, clocks = clash.cta - clash.batch.wave.first, clash.access.clocks
        mine, theirs = (clash.cta, clash.thread), (clash.other_cta, clash.other_thread)
        one = (row, mine[1], clocks.knower[mine[1]], mine[0], other.time, theirs[1], theirs[0])
        pairs = Pairs(*(np.array([number]) for number in one))
        for counter in self._tickets.values():
            thread, at, turn = counter.seen.get(clash.cta, (0, 0, 0))
            if turn and self._follows(clash.access, pairs, 0, _Heard(thread, at, at)):
                for teller, (told, before) in counter.taken.items():
                    if before < turn and self._precedes(teller, _Heard(thread, at, told), pairs, 0):
                        return True
        return False

    def _hear(self, cta: int, thread: int, access: AccessRecord, teller: Thread, told: int) -> None:
        known = self._of.setdefault(cta, {})
        known[teller] = _Heard(thread, access.time, told)
        _forget(known)

    def _relied(self, access: AccessRecord, found: Candidates, pairs: Pairs) -> Clash | None:
        """The volatile read of what a thread had written before it told of that."""
        for k in range(len(found)):
            for teller, heard in self._of.get(int(pairs.cta[k]), {}).items():
                if not (self._follows(access, pairs, k, heard) and self._precedes(teller, heard, pairs, k)):
                    continue
                clash = replace(
                    farthest_clash(access, found[np.arange(len(found)) == k], with_writer=True), relaxed=True
                )
                if clash.other is not None and clash.other.site.sem == "volatile" and not _has_seen(clash):
                    return clash
                break
        return None

    @staticmethod
    def _follows(access: AccessRecord, pairs: Pairs, k: int, heard: _Heard) -> bool:
        """Does the later access come after what its CTA has heard?"""
        if heard.thread == pairs.thread[k]:
            return True
        one = (np.array([each]) for each in (heard.thread, heard.at))
        return bool(access.clocks.knows(pairs.row[[k]], pairs.knower[[k]], pairs.cta[[k]], *one).all())

    def _precedes(self, teller: Thread, heard: _Heard, pairs: Pairs, k: int) -> bool:
        """Does the earlier access come before what was told?"""
        if teller == (pairs.other_cta[k], pairs.other_thread[k]):
            return bool(heard.told > pairs.time[k])
        for wave, order in self._orders.items():
            if 0 <= (row := teller[0] - wave.first) < wave.ctas:
                who = np.array([row]), order.clocks.knower[[teller[1]]]
                of = pairs.other_cta[[k]], pairs.other_thread[[k]], pairs.time[[k]]
                return bool(order.clocks.knows(*who, *of).all())
        return False


def _has_seen(clash: Clash) -> bool:
    """Has the thread read that very value before? Then it cannot find an older one."""
    assert clash.other is not None, "asked of a write that is remembered"
    look = last_look(clash.access, clash.lane, clash.thread)
    return look is not None and look.has_seen(clash.access, clash.other, (clash.other_cta, clash.other_thread))


def _forget(known: dict[Thread, _Heard] | dict[Thread, tuple[int, bool]] | dict[Thread, tuple[int, int]]) -> None:
    if len(known) > HEARSAY:
        del known[next(iter(known))]
