"""Shared memory across the CTAs of a cluster.

A shared address has its offset in bits 0 to 23. Above them, an address of the cluster's window has 1 + the rank of the
CTA that it is in; 0 is the thread's own CTA, so that an own address is an address of the cluster's window as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.places import OFFSET_BITS

if TYPE_CHECKING:
    from tilewright.sim.machine import Array, Ints, Look, MemoryRows, Wave

__all__ = ["in_turns", "split"]


def on_rank(address: Ints, rank: Ints) -> Ints:
    """The address of an offset in the shared memory of the CTA with this rank."""
    offset = address.astype(np.int64) & (1 << OFFSET_BITS) - 1
    addresses: Ints = offset | rank.astype(np.int64) + 1 << OFFSET_BITS
    return addresses


def split(wave: Wave, rows: Ints, address: Ints) -> tuple[Ints, Ints]:
    """Row in the wave and offset of each address that a thread of CTA ``rows`` gives."""
    rank = (address >> OFFSET_BITS) - 1
    return np.where(rank >= 0, rows - wave.rank(rows) + rank, rows), address & (1 << OFFSET_BITS) - 1


def across(batch: Look, block: MemoryRows, address: Ints) -> Ints:
    """Addresses of the cluster's window, counted from the own CTA's first byte: the CTAs follow each other."""
    if not int(address.max()) >> OFFSET_BITS:
        return address
    rows = batch.rows(1)
    there, offset = split(batch.wave, rows, address)
    return offset + (there - rows) * block.pitch if block.rows > 1 else offset


def in_turns(address: Ints, lanes: Ints) -> list[Ints]:
    """``lanes`` in groups without a common address, in the order in which each address is met."""
    order = np.argsort(address[lanes], kind="stable")
    ordered = address[lanes][order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    rank = np.arange(len(ordered)) - np.repeat(starts, np.diff(np.r_[starts, len(ordered)]))
    by_rank = np.argsort(rank, kind="stable")
    ends = np.cumsum(np.bincount(rank))
    return np.split(lanes[order][by_rank], ends[:-1])


def combined(words: Array, place: Ints, combine: Callable[..., Array], values: Sequence[Array], order: Ints) -> Array:
    """Change words of a block at these places, those that have one in turns; what each has found there."""
    flat, olds = words.reshape(-1), np.empty(len(place), words.dtype)
    for turn in in_turns(place, order):
        there = place[turn]
        olds[turn] = old = flat[there]
        flat[there] = np.asarray(combine(old, *(value[turn] for value in values))).astype(words.dtype)
    return olds
