"""Copies from global to shared memory that several CTAs make alike, done once.

The CTAs in a row of a grid load the same tile: their addresses in global memory are equal, and so are those in shared
memory, each in its own CTA. Such a copy reads for one of them, puts the bytes in order, and gives them to all; shared
memory remembers who has the same (`MemoryRows.fill`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.sim.machine.instructions import Move
from tilewright.sim.machine.masks import spread

if TYPE_CHECKING:
    from tilewright.sim.machine.address import Address
    from tilewright.sim.machine.arrays import Bits, Ints
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.masks import Mask
    from tilewright.sim.machine.sites import Site
    from tilewright.sim.machine.uniform import Uniform

__all__ = ["Copy", "is_fill"]


def is_fill(source: Site, target: Site) -> bool:
    """Does a copy go from a buffer in global memory to one in shared memory?"""
    return [site.place and site.place.space for site in (source, target)] == ["global", "shared"]


class Copy(Move):
    """A copy with both buffers known before the kernel runs."""

    def __call__(self, batch: Batch, mask: Mask, source: Address, target: Address) -> None:
        alike = source.alike(batch.shape[0]) if mask.array is None and batch.shape[0] > 1 else None
        order = self._order(batch, source, target) if alike is not None else None
        if alike is None or order is None:
            super().__call__(batch, mask, source, target)
            return
        units = self._units(batch, mask, source, alike)
        self.target.pending = lambda: _of_all(batch, units, alike)
        self.target.reach(batch, mask, target)
        self.target.pending = None
        batch.wave.shared.fill(batch.ctas, target.lo, units.take(order, axis=1), alike)
        if self.with_shadows:
            flags = self.source.flags(batch, mask, source)
            self.target.store_flags(batch, mask, target, flags, (self.source, source))

    def _order(self, batch: Batch, source: Address, target: Address) -> Ints | None:
        """The order in which the threads of a CTA write all bytes from the first to the last; None where they do not,
        or not in every CTA the same.
        """
        for site, at in ((self.source, source), (self.target, target)):
            if not site.contains(batch, at) or at.bits & (site.width - 1):
                return None
        part, *others = target.parts or [None]
        if part is None or others or not part.kept or part.values.shape != (1, *batch.shape[1:]):
            return None
        return part.order(self.target.width)

    def _units(self, batch: Batch, mask: Mask, source: Address, alike: Uniform) -> Bits:
        """What the CTAs read that are not alike, (CTAs, threads)."""
        assert self.source.place is not None
        self.source.reach(batch, mask, source)
        look = batch.firsts(alike)
        found = batch.wave.storage(self.source.place).load(look, source.firsts, self.source.width)
        return spread(found, look.shape).reshape(look.shape[0], -1)


def _of_all(batch: Batch, units: Bits, alike: Uniform) -> Bits:
    """The units of every CTA, (CTAs, warps, 32)."""
    return units[[alike.number(cta) for cta in range(batch.shape[0])]].reshape(batch.shape)
