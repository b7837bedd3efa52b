"""Elements of 4 bits, two to a byte: a load picks a half, a store changes one and keeps the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.address import Address, Part
from tilewright.sim.machine.convert import from_nibbles, to_nibbles

if TYPE_CHECKING:
    from tilewright.sim.machine.arrays import Bits
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.masks import Mask
    from tilewright.sim.machine.sites import Site

__all__ = ["load_nibbles", "nibble_flags", "store_nibbles"]


def _bytes(at: Address) -> Address:
    return Address(0, Part(at.full() >> 1))


def load_nibbles(site: Site, batch: Batch, mask: Mask, at: Address) -> Bits:
    """The elements at ``at``, which counts half bytes."""
    return from_nibbles(site.load(batch, mask, _bytes(at)), at.full())


def nibble_flags(site: Site, batch: Batch, mask: Mask, at: Address) -> Bits:
    """The flags of the bytes that hold the elements at ``at``."""
    return site.flags(batch, mask, _bytes(at))


def store_nibbles(site: Site, batch: Batch, mask: Mask, at: Address, bits: Bits, flags: Bits | None = None) -> None:
    """Two lanes may own the halves of one byte, so that the low halves are written first, then the high ones."""
    high = (at.full() & 1) != 0
    there = _bytes(at)
    for half in (~high, high):
        lanes = mask.narrowed(np.broadcast_to(half, np.broadcast_shapes(half.shape, (1, 1, 1))))
        if lanes is None:
            continue
        old = np.array(site.peek(batch, lanes, there))
        site.store(batch, lanes, there, to_nibbles(old, bits, at.full()))
        if flags is not None:
            site.store_flags(batch, lanes, there, np.asarray(flags))
