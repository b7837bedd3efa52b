"""One way to touch bytes: the places in one memory that the lanes of a team name, to be read, written or combined.

The same places are bytes in a wave's memories and flags in its shadows: `load` and `store` take either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.address import Address, Part
from tilewright.sim.machine.memory import SHIFT, UNITS, MemoryRows, combined
from tilewright.sim.machine.places import OFFSET_BITS, WINDOW_BITS, Place, across
from tilewright.sim.machine.team import Team, spread

if TYPE_CHECKING:
    from tilewright.sim.machine import Array, Bits, Memories, Storage

__all__ = ["View", "harmless"]


@dataclass(eq=False, slots=True)  # not frozen: one is made per access of a run, and freezing takes time
class View:
    """at: in the memory in which the buffer ``place`` lies; in shared memory also of another CTA of the cluster. width:
    bytes of each lane. guarded: may the addresses of lanes that are not active be anywhere?
    """

    place: Place
    team: Team
    at: Address
    width: int
    guarded: bool = False

    def load(self, memories: Memories) -> Bits:
        """What each lane finds there; anything in lanes that are not active. May be a view of memory."""
        block = memories.storage(self.place)
        return block.load(self.team.look, self._within(block), self.width, self.team if self.guarded else None)

    def store(self, memories: Memories, bits: Bits) -> None:
        """Each active lane writes its bits; of several at one place the last wins."""
        block = memories.storage(self.place)
        at = self._within(block)
        block.store(self.team, harmless(at, self.team) if self.guarded else at, self.width, bits)

    def combine(self, memories: Memories, olds: Array, by: Callable[..., Array], values: tuple[Array, ...]) -> None:
        """Each active lane changes its item, those at one place one after the other. olds: gets what each found."""
        block, active = memories.storage(self.place), self.team.full
        if not isinstance(block, MemoryRows):  # registers, which no other thread can reach
            bits = np.ascontiguousarray(self.load(memories))
            np.copyto(olds, bits.view(olds.dtype), where=active)
            new = np.asarray(by(olds, *values)).astype(olds.dtype)
            self.store(memories, new.view(UNITS[olds.itemsize]))
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


def joined(parts: Iterable[tuple[Bits, Team]]) -> Bits:
    """One array of what each lane found in the buffer that it points into."""
    (bits, _), *others = parts
    for more, lanes in others:
        where = lanes.full if more.ndim < 4 else lanes.full[..., None]
        bits = np.where(where, more, bits)
    return bits


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
