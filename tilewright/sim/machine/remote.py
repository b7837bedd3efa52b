"""Shared memory across the CTAs of a cluster.

A shared address has its offset in bits 0 to 23. Above them, an address of the cluster's window has 1 + the rank of the
CTA that it is in; 0 is the thread's own CTA, so that an own address is an address of the cluster's window as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tilewright.sim.machine.wave import Wave

from tilewright.sim.machine.arrays import Array, Ints

__all__ = ["OFFSET_BITS", "atomic_words", "on_rank", "split"]

OFFSET_BITS = 24


def on_rank(address: Ints, rank: Ints) -> Ints:
    """The same offset in the CTA of a rank."""
    offset = address.astype(np.int64) & (1 << OFFSET_BITS) - 1
    made: Ints = offset | rank.astype(np.int64) + 1 << OFFSET_BITS
    return made


def split(wave: Wave, rows: Ints, address: Ints) -> tuple[Ints, Ints]:
    """Row in the wave and offset of each address that a thread of CTA ``rows`` gives."""
    rank = (address >> OFFSET_BITS) - 1
    return np.where(rank >= 0, rows - wave.rank(rows) + rank, rows), address & (1 << OFFSET_BITS) - 1


def atomic_words(
    wave: Wave, rows: Ints, address: Ints, combine: Callable[..., Array], values: tuple[Array, ...]
) -> Array:
    """`Memory.atomic` on places of 8 bytes in the shared memory of the CTAs ``rows``, one after the other."""
    words = wave.shared.view(8)
    olds = np.zeros(len(rows), np.uint64)
    for k, (row, offset) in enumerate(zip(*split(wave, rows, address), strict=True)):
        one = slice(k, k + 1)
        olds[one] = words[row, offset >> 3]
        words[row, offset >> 3] = np.asarray(combine(olds[one], *(value[one] for value in values)))[0]
    return olds
