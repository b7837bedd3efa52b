"""An access by one thread, of memory that many CTAs touch: its tags are numbers, and no arrays of lanes are made.

Locks, flags and counters are touched so: a thread at a time, thousands of times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine import MemoryRows, Site, Team, numbers
from tilewright.sim.order.races.permitted import is_frail, newest_frail
from tilewright.sim.order.races.records import CTA, CTA_BITS, MANY, THREAD, UNIT, Pairs

if TYPE_CHECKING:
    from tilewright.sim.order.races.records import AccessRecord, Tags


@dataclass(frozen=True, eq=False, slots=True)
class Lone:
    """The thread of an access. lane: (CTA, warp, lane) in its team. row: of its CTA in the wave."""

    lane: tuple[int, int, int]
    row: int
    thread: int

    @classmethod
    def of(cls, team: Team, site: Site) -> Lone | None:
        """The thread that a team is, if that is one."""
        if team.array is None or team.lane_count != 1 or site.how.collective:
            return None
        cta, warp, lane = team.first
        return cls(team.first, numbers(team.ctas)[cta], 32 * numbers(team.warps)[warp] + lane)

    def candidates(self, access: AccessRecord, block: MemoryRows) -> Pairs | None:
        """The accesses that tags name, but for its own and for those that it comes after."""
        places, clocks, cta = access.places, access.clocks, self.row + access.team.wave.first
        mine, knower = self.thread | cta << CTA, int(clocks.knower[self.thread])
        late = []
        for unit, tag in enumerate(self._tags(access, block).tolist()):
            if not tag or not (tag ^ mine) & places.who:
                continue
            other = tag >> CTA & (1 << CTA_BITS) - 1, tag & THREAD, tag >> places.shift
            if tag & MANY or not clocks.is_known(self.row, knower, *other, also=access.also):
                late.append((*self.lane, unit, tag))
        if not late:
            return None
        *where, tags = np.array(late, np.int64).T
        return Pairs(access, where, tags)

    def write(self, access: AccessRecord, block: MemoryRows, *, many: bool = False) -> None:
        """Its tag at all places that it touches. many: do those tags stand for others, too?"""
        self._tags(access, block, change=True)[...] = self._tag(access) | (MANY if many else 0)

    def read(self, access: AccessRecord, block: MemoryRows) -> None:
        """The same for a read: where it does not come after the last one, the tag stands for both."""
        places, clocks, mine = access.places, access.clocks, self._tag(access)
        knower, frail = int(clocks.knower[self.thread]), access.site.how.sem != "weak"
        tags = self._tags(access, block, change=True)
        for k, old in enumerate(tags.tolist()):
            many = bool(old and (old ^ mine) & places.who)
            if many and (not clocks.fences or access.is_alone) and not old & MANY:
                other = old >> CTA & (1 << CTA_BITS) - 1, old & THREAD, old >> places.shift
                many = not clocks.is_known(self.row, knower, *other, also=access.also)
            many = many or (frail and _is_frail(access, old, write=False))
            tags[k] = mine | MANY if many else mine

    def keep_frail(self, access: AccessRecord) -> None:
        """See `TaggedPlaces.keep_frail`."""
        places = access.places
        for k, old in enumerate(self._tags(access, places.tags_of(places.writes)).tolist()):
            if _is_frail(access, old, write=True):
                kept = self._tags(access, places.tags_of(places.frail), change=True)
                differs = int(kept[k]) and (int(kept[k]) ^ old) & places.who
                kept[k] = old | (MANY if differs else 0)

    def _tag(self, access: AccessRecord) -> int:
        who = self.thread | (self.row + access.team.wave.first) << CTA
        return who | access.time << access.places.shift | (UNIT if access.site.how.by_unit else 0)

    def _tags(self, access: AccessRecord, block: MemoryRows, *, change: bool = False) -> Tags:
        size = access.places.tag.itemsize
        first = access.at.start // access.places.grain
        tags: Tags = (block.to_change if change else block.view)(size)[0, first : first + access.grains]
        return tags


def _is_frail(access: AccessRecord, tag: int, *, write: bool) -> bool:
    """Is a tag one of accesses that are less strong than this?"""
    time = tag >> access.places.shift
    return 0 < time <= newest_frail(access, write=write) and any(
        is_frail(access, record) for record in access.places.log.at(time)
    )
