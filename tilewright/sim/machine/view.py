"""One way to touch bytes: the places in one memory that the lanes of a team name, to be read, written or combined.

The same places are bytes in a wave's memories and flags in its shadows: `load` and `store` take either, `flags` and
`store_flags` do for an access of the kernel's what else belongs to that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.address import Address, Part
from tilewright.sim.machine.memory import SHIFT, UNITS, MemoryRows, combined, initialised
from tilewright.sim.machine.places import OFFSET_BITS, WINDOW_BITS, Place, across
from tilewright.sim.machine.team import Team, spread

if TYPE_CHECKING:
    from tilewright.sim.machine import Array, Bits, Memories, Site, Storage

__all__ = ["View", "harmless"]


Origin = tuple["Site | None", Address | None]  # where bits come from


@dataclass(eq=False, slots=True)  # not frozen: one is made per access of a run, and freezing takes time
class View:
    """at: in the memory in which the buffer ``place`` lies; in shared memory also of another CTA of the cluster. width:
    bytes of each lane. site: of an access of the kernel's, there. guarded: may the addresses of lanes that are not
    active be anywhere? others: where pointers of run time lead into several buffers, the lanes in each of the others.
    """

    place: Place
    team: Team
    at: Address
    width: int
    site: Site | None = None
    guarded: bool = False
    others: Sequence[View] = ()

    def load(self, memories: Memories | None = None) -> Bits:
        """What each lane finds there; anything in lanes that are not active. May be a view of memory."""
        block = (memories or self.team.wave).storage(self.place)
        bits = block.load(self.team.look, self._within(block), self.width, self.team if self.guarded else None)
        return self._joined(bits, (view.load(memories) for view in self.others)) if self.others else bits

    def store(self, bits: Bits, memories: Memories | None = None) -> None:
        """Each active lane writes its bits; of several at one place the last wins."""
        block = (memories or self.team.wave).storage(self.place)
        at = self._within(block)
        if not self.guarded or self.team.lane_count:
            block.store(self.team, harmless(at, self.team) if self.guarded else at, self.width, bits)
        for view in self.others:
            view.store(bits, memories)

    def flags(self) -> Bits:
        """The flags of what is there; an argument's are all set, and what is outside or far off counts as such."""
        site, team, shadows, flags = self.site, self.team, self.team.wave.shadows, initialised(self.width)
        assert site is not None, "it is asked of an access"
        if self.place.space != "global" and not site.is_remote and not (self.guarded and not team.full.any()):
            flags = View(self.place, team, harmless(self.at, team), self.width).load(shadows)
            if site.at not in shadows.unset:
                shadows.note(site, team, self.at, flags)
        dependence = team.wave.run.dependence
        flags = flags if dependence is None else dependence.read(site, team, flags)
        return self._joined(flags, (view.flags() for view in self.others)) if self.others else flags

    def _joined(self, bits: Bits, parts: Iterator[Bits]) -> Bits:
        """One array of what each lane finds in the buffer that it points into."""
        for more, view in zip(parts, self.others, strict=True):
            bits = np.where(view.team.full if more.ndim < 4 else view.team.full[..., None], more, bits)
        return bits

    def store_flags(self, flags: Bits | None, origin: Origin = (None, None)) -> None:
        """Store the flags of what is stored; None stands for initialised bytes, all that an argument takes."""
        site, team, shadows = self.site, self.team, self.team.wave.shadows
        assert site is not None, "it is asked of an access"
        if (dependence := team.wave.run.dependence) is not None:
            dependence.stored(site, team, flags)
        if self.place.space != "global":
            octets = initialised(self.width) if flags is None else np.atleast_3d(flags)
            View(self.place, team, harmless(self.at, team), self.width).store(octets, shadows)
        elif flags is not None:
            shadows.require(team, flags, f"a store to {self.place.name}", site.at, "a value", origin)
        for view in self.others:
            view.store_flags(flags, origin)

    def combine(self, memories: Memories, olds: Array, by: Callable[..., Array], values: tuple[Array, ...]) -> None:
        """Each active lane changes its item, those at one place one after the other. olds: gets what each found."""
        for view in self.others:
            view.combine(memories, olds, by, values)
        block, active = memories.storage(self.place), self.team.full
        if not isinstance(block, MemoryRows):  # registers, which no other thread can reach
            bits = np.ascontiguousarray(block.load(self.team.look, self.at, self.width))
            np.copyto(olds, bits.view(olds.dtype), where=active)
            new = np.asarray(by(olds, *values)).astype(olds.dtype)
            block.store(self.team, self.at, self.width, new.view(UNITS[olds.itemsize]))
            return
        words = block.to_change(olds.itemsize).view(olds.dtype)
        row = self.team.look.rows(words.shape[1]) if block.rows > 1 else 0
        place = spread((self._within(block).full() >> SHIFT[olds.itemsize]) + row, olds.shape)[active]
        operands = [spread(value, olds.shape)[active] for value in values]
        order = self.team.wave.run.precedence.taken(np.arange(len(place)))
        olds[active] = combined(words, place, by, operands, order)

    def _within(self, block: Storage) -> Address:
        """The addresses as a block counts them: shared memory of other CTAs lies in other rows of it."""
        if self.place.space != "shared" or not (isinstance(block, MemoryRows) and self.at.hi >> OFFSET_BITS):
            return self.at
        return Address(0, Part.of_lanes(across(self.team.look, block, self.at.full())))


def together(views: list[View]) -> View:
    """All of them as one."""
    first, *first.others = views
    return first


def harmless(at: Address, team: Team) -> Address:
    """``at`` with the addresses of inactive lanes brought to that of an active one."""
    return at if team.array is None else Address(0, Part(team.harmless(at.full())))


def by_window(team: Team, at: Address) -> Iterator[tuple[int, Team, Address]]:
    """For each window that active lanes point into: its number, those lanes, and their addresses in it."""
    first, last = at.lo >> WINDOW_BITS, at.hi >> WINDOW_BITS
    windows = [first]
    if first != last:
        windows = np.unique(spread(at.full(), team.shape)[team.full] >> WINDOW_BITS).tolist()
    for window in windows:
        lanes = team if len(windows) == 1 else team.narrowed(at.full() >> WINDOW_BITS == window)
        if lanes is not None:
            yield window, lanes, at.shifted(-(window << WINDOW_BITS))
