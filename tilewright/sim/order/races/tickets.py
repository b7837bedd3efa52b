"""Numbers that threads take at counters: a thread's own tells that those before it have taken theirs.

Samples of NVIDIA's rely on that without an acquire: each thread passes a fence before it takes its number, and none
behind that. What a CTA then accesses plainly is a warning.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.order.bounds import OBSERVATIONS
from tilewright.sim.order.knowledge.locations import Where, threads_of
from tilewright.sim.order.knowledge.releases import WIDE
from tilewright.sim.order.races.observed import Observation, keep_newest, leads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tilewright.sim.machine.wave import Wave
    from tilewright.sim.order.knowledge.actors import Thread
    from tilewright.sim.order.races.accesses import AccessRecord
    from tilewright.sim.order.races.clash import Clash
    from tilewright.sim.order.wave import WaveOrder

__all__ = ["Tickets"]


@dataclass(slots=True)
class _Counter:
    """The numbers that were taken at a counter by threads that had passed a fence. turn: of the last. taken: when, and
    at which turn. of_cta: of each CTA the last thread, when, and its turn.
    """

    turn: int = 0
    taken: dict[Thread, tuple[int, int]] = field(default_factory=dict)
    of_cta: dict[int, tuple[int, int, int]] = field(default_factory=dict)


class Tickets:
    """The counters of which threads compare what they find, by location."""

    def __init__(self, orders: Mapping[Wave, WaveOrder]) -> None:
        self._orders = orders
        self._counters: dict[Where, _Counter] = {}

    def counted(self, access: AccessRecord) -> None:
        """Atomics have taken place."""
        site, fences = access.site, self._orders[access.batch.wave].fences
        if not (site.atomic and site.compared) or site.polls or site.is_signal or not fences.latest:
            return
        listed = list(threads_of(access))
        for place in access.batch.wave.run.precedence.taken(np.arange(len(listed))).tolist():
            (row, thread), where = listed[place]
            cta = row + access.batch.wave.first
            counter = self._counters.setdefault(where, _Counter())
            counter.turn += 1
            if not fences.scopes(row, thread).isdisjoint(WIDE):
                counter.taken[cta, thread] = access.time, counter.turn
                counter.of_cta[cta] = thread, access.time, counter.turn
                keep_newest(counter.taken, OBSERVATIONS)

    def excuses(self, clash: Clash) -> bool:
        """Does a CTA plainly access what others wrote before they took a number, where its own number counts theirs?"""
        other = clash.other
        if other is None or not clash.with_writer or {clash.site.sem, other.site.sem} != {"weak"}:
            return False
        later, earlier = clash.later, clash.earlier
        for counter in self._counters.values():
            thread, time, turn = counter.of_cta.get(later[0], (0, 0, 0))
            for writer, (written, before) in counter.taken.items():
                seen = Observation(thread, time, written)
                if before < turn and leads(self._orders, earlier, other.time, writer, seen, later):
                    return True
        return False
