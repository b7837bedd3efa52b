"""What threads observe by strong reads: their next access of that place comes after it, and nothing else does.

Source: PTX ISA, "Memory Consistency Model: Observation, Communication order".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from tilewright.sim.order.knowledge.releases import hold_each_other

if TYPE_CHECKING:
    from tilewright.sim.order.knowledge.clocks import Thread
    from tilewright.sim.order.races.records import AccessRecord, Record

Key = TypeVar("Key")
Kept = TypeVar("Kept")


def last_read(access: AccessRecord, lane: tuple[int, int, int], who: Thread) -> Record | None:
    """The last strong read by a thread, which has this lane, of what it is about to access."""
    address, width = access.address(lane), access.site.width
    for record in access.places.log.newest_first():
        if record.site.how.sem != "weak" and record.site.shows and record.touched(*who, address, width):
            return record
    return None


def has_observed(access: AccessRecord, read: Record | None, who: Thread, write: Record, writer: Thread) -> bool:
    """Has a thread by its strong read seen what another one wrote? Then it comes after that, at this place alone."""
    if read is None or read.time < write.time or read.site.element != write.site.element:
        return False
    run = access.batch.wave.run
    if read.time == write.time and not (read is write and read.comes_first(writer, who, run.precedence)):
        return False
    return bool(hold_each_other(read.site.how.scope, who[0], write.site.how.scope, writer[0], run))


def keep_newest(known: dict[Key, Kept], most: int) -> None:
    """Drop the oldest of more than ``most``."""
    if len(known) > most:
        del known[next(iter(known))]
