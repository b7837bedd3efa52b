"""Writes that a thread has seen by a strong read: its next access of that place comes after them.

Source: PTX ISA, "Memory Consistency Model: Observation, Communication order".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.batch import numbers
from tilewright.sim.order.knowledge.releases import holds

if TYPE_CHECKING:
    from tilewright.sim.machine.arrays import Bools
    from tilewright.sim.machine.sites import Site
    from tilewright.sim.order.races.accesses import AccessRecord
    from tilewright.sim.order.races.clash import Pairs
    from tilewright.sim.order.races.records import Record

__all__ = ["StrongRead", "finds_out", "last_look"]


@dataclass(frozen=True, eq=False, slots=True)
class StrongRead:
    """A strong read of a place by a thread of a CTA of the grid."""

    record: Record
    who: tuple[int, int]

    def has_seen(self, access: AccessRecord, other: Record, who: tuple[int, int]) -> bool:
        """Has the thread seen the write of another record? Then it comes after that, at this place alone."""
        record, run = self.record, access.batch.wave.run
        one, two, size = record.site, other.site, run.cluster_ctas
        if record.time < other.time or one.element != two.element:
            return False
        if record.time == other.time and not (record is other and record.comes_first(who, self.who, run.precedence)):
            return False
        return bool(holds(one.scope, self.who[0], who[0], size) & holds(two.scope, who[0], self.who[0], size))


def last_look(access: AccessRecord, lane: tuple[int, int, int], thread: int) -> StrongRead | None:
    """The last time that a thread has strongly read what it is about to access."""
    address = access.address(lane)
    own = access.batch.wave.first + numbers(access.batch.ctas)[lane[0]]
    for record in access.places.log.newest_first():
        if record.site.sem != "weak" and record.site.shows and record.touched(own, thread, address, access.site.width):
            return StrongRead(record, (own, thread))
    return None


def finds_out(one: Site, other: Site) -> bool:
    """Is one access a plain read, and the other a compare-and-swap of the same size?"""
    read, swap = (one, other) if other.compares else (other, one)
    plain = read.sem == "weak" and not (read.write or read.collective)
    return swap.compares and plain and read.element == swap.element


def went_along(access: AccessRecord, pairs: Pairs, record: Record | None = None) -> Bools:
    """Which arrivals, of a record or the last ones, were made together with a lane of their warp that is known?

    An m-barrier is ended by one lane for all that arrived with it, in libcu++'s pipelines, once the warp has met.
    """
    found = np.zeros(len(pairs.row), np.bool_)
    for k in range(len(found)) if access.site.ends else ():
        one = record or access.places.log.find(int(pairs.other_cta[k]), int(pairs.time[k]))
        if one is None or not one.site.is_signal:
            continue
        which = np.full(32, k)
        ctas, threads = pairs.other_cta[which], pairs.other_thread[which] & ~31 | np.arange(32)
        known = access.clocks.knows(pairs.row[which], pairs.knower[which], ctas, threads, np.full(32, one.time))
        itself = (threads == pairs.thread[k]) & (ctas == pairs.cta[k])
        found[k] = bool(((known | itself) & one.holds(ctas, threads)).any())
    return found
