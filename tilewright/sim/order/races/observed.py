"""What threads observe by strong reads: their next access of that place comes after it, and nothing else does.

Source: PTX ISA, "Memory Consistency Model: Observation, Communication order".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from tilewright.sim.machine.batch import numbers
from tilewright.sim.order.knowledge.releases import holds

if TYPE_CHECKING:
    from tilewright.sim.order.knowledge.actors import Thread
    from tilewright.sim.order.races.accesses import AccessRecord
    from tilewright.sim.order.races.records import Record

__all__ = ["StrongRead", "keep_newest", "last_read"]

Key = TypeVar("Key")
Kept = TypeVar("Kept")


@dataclass(frozen=True, eq=False, slots=True)
class StrongRead:
    """A strong read of a place by a thread of a CTA of the grid."""

    record: Record
    who: Thread

    def has_observed(self, access: AccessRecord, other: Record, who: Thread) -> bool:
        """Has the thread seen the write of another record? Then it comes after that, at this place alone."""
        record, run = self.record, access.batch.wave.run
        one, two, size = record.site, other.site, run.cluster_ctas
        if record.time < other.time or one.element != two.element:
            return False
        if record.time == other.time and not (record is other and record.comes_first(who, self.who, run.precedence)):
            return False
        return bool(holds(one.scope, self.who[0], who[0], size) & holds(two.scope, who[0], self.who[0], size))


def last_read(access: AccessRecord, lane: tuple[int, int, int], thread: int) -> StrongRead | None:
    """The last strong read by a thread of what it is about to access."""
    address = access.address(lane)
    own = access.batch.wave.first + numbers(access.batch.ctas)[lane[0]]
    for record in access.places.log.newest_first():
        if record.site.sem != "weak" and record.site.shows and record.touched(own, thread, address, access.site.width):
            return StrongRead(record, (own, thread))
    return None


def keep_newest(known: dict[Key, Kept], most: int) -> None:
    """Drop the oldest of more than ``most``."""
    if len(known) > most:
        del known[next(iter(known))]
