"""Does what a thread stores depend on what another thread has read? A run that marks the one value as unknown tells.

Lanes of a warp that hand values on by shuffles are in order where data depend on them: a lane cannot store a sum before
the other lanes have read what is in it. The memory model knows no such order. So the simulator asks of each store that
only this may excuse: the run is made again, the bits that the other lane reads are unknown there, and those that the
store writes say whether they depend on them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tilewright.explain import Facts
    from tilewright.sim.machine.arrays import Bits
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.sites import Site

__all__ = ["Dependence", "Doubt", "Moment"]


@dataclass(frozen=True, eq=False, slots=True)
class Moment:
    """One access of a thread, counted through the grid: its site, and the time of the record in its wave."""

    site: Site
    time: int
    thread: int


@dataclass(frozen=True, eq=False, slots=True)
class Doubt:
    """A store of a thread, after a read of the same place by another one of its warp. key: of the finding. excuse: what
    is said where it depends on that, and what is known of it.
    """

    key: Hashable
    read: Moment
    store: Moment
    excuse: tuple[str, Facts]


class Dependence:
    """Finds out which stores depend on the reads. holds: the keys of those that do; times: of each site's last
    record.
    """

    def __init__(self, doubts: Iterable[Doubt]) -> None:
        self.doubts = tuple(doubts)
        self.holds: set[Hashable] = set()
        self.times: dict[Site, int] = {}

    def comes(self, site: Site, time: int) -> None:
        """An access is about to take place."""
        self.times[site] = time

    def read(self, site: Site, batch: Batch, flags: Bits) -> Bits:
        """The flags of what lanes have read, without those of the lanes in question."""
        for each in self.doubts:
            if (lane := self._lane(each.read, site, batch)) is not None:
                flags = np.array(np.broadcast_to(flags, batch.shape))
                flags[lane] = 0
        return flags

    def stored(self, site: Site, batch: Batch, flags: Bits | None) -> None:
        """Lanes have stored values with these flags."""
        for each in self.doubts if flags is not None else ():
            lane = self._lane(each.store, site, batch)
            if lane is not None and flags is not None:
                octets = np.broadcast_to(flags, batch.shape)[lane].tobytes()
                if 0 in octets:
                    self.holds.add(each.key)

    def _lane(self, moment: Moment, site: Site, batch: Batch) -> tuple[int, int, int] | None:
        """The place of the thread in a batch, if this is the moment."""
        is_now = moment.site is site and self.times.get(site) == moment.time
        return batch.lane_of(moment.thread) if is_now else None
