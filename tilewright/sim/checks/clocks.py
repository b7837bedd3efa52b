"""Who has met whom: the clocks by which the race check tells what is ordered.

Each warp has an epoch, which grows at every meeting, and knows the latest epoch of every other warp that lies before
it. An access is remembered as a tag, a 32-bit number: epoch, two flags, thread of the CTA. It is ordered before a later
one of warp w when w has seen its epoch; two of one warp are when it has met in between; two of one thread always are.
While all CTAs of a wave do the same, one row of clocks stands for all of them. Of the other CTAs of its cluster a warp
knows what it heard at the cluster's barrier, or at an m-barrier that they told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilewright.sim.batch import numbers

if TYPE_CHECKING:
    from tilewright.sim.batch import Look
    from tilewright.sim.masks import Bools
    from tilewright.sim.wave import Wave

__all__ = ["ATOMIC", "COLLECTIVE", "EPOCH", "THREAD_BITS", "Clocks", "Tags", "warp_of"]

Tags = NDArray[np.uint32]
Numbers = NDArray[np.int64]

THREAD_BITS = 10
COLLECTIVE, ATOMIC = 1 << 10, 1 << 11  # made by a warp together; ordered by itself
EPOCH = 12  # bits below the epoch


def warp_of(tag: Any) -> Any:
    """The warp of a tag's thread: of one tag, or of each of an array."""
    return tag >> 5 & 31


class Clocks:
    """epoch: (rows, warps). seen: (rows, warps, warps), the last known epoch of each warp; of itself the one before.

    heard: (CTAs, warps, ranks * warps), the same of all warps of the cluster but those of the own CTA; None where each
    CTA is alone. Knowledge that is handed on is such a row of ``width`` numbers, with those of the own CTA.
    """

    def __init__(self, wave: Wave) -> None:
        self.wave = wave
        self.warps = warps = wave.run.warps
        self.width = wave.run.cluster_ctas * warps
        self.heard = np.zeros((wave.ctas, warps, self.width), np.int64) if self.width > warps else None
        self.epoch = np.ones((1, warps), np.int64)
        self.seen = np.zeros((1, warps, warps), np.int64)
        self.arriving: dict[int, Numbers] = {}  # by barrier: what is released there, in the row that keeps it
        self.latest = 1  # the largest epoch of any warp
        self._cache: dict[object, Any] = {}

    @property
    def is_collapsed(self) -> bool:
        """Does one row stand for all CTAs?"""
        return len(self.epoch) == 1

    def _changed(self) -> None:
        self.latest = int(self.epoch.max())
        self._cache.clear()

    def expand(self) -> None:
        """From now on every CTA has clocks of its own."""
        if self.is_collapsed and self.wave.ctas > 1:
            self.epoch = np.repeat(self.epoch, self.wave.ctas, axis=0)
            self.seen = np.repeat(self.seen, self.wave.ctas, axis=0)
            self._changed()

    # What an access asks

    def tags(self, look: Look, flags: int) -> Tags:
        """The tag of each lane's access now, (rows, warps, 32)."""
        key = (flags, look.key)
        if key not in self._cache:
            warps = np.array(numbers(look.warps)).reshape(1, -1, 1)
            thread = warps * 32 + np.arange(32)
            epoch = self.epoch[self._rows(look), look.warps][..., None]
            self._cache[key] = (epoch << EPOCH | flags | thread).astype(np.uint32)
        found: Tags = self._cache[key]
        return found

    def bound(self, look: Look) -> Tags:
        """Tags below this one are surely ordered, (rows, warps, 1)."""
        key = ("bound", look.key)
        if key not in self._cache:
            floor = self.seen[self._rows(look), look.warps].min(-1)[..., None]
            self._cache[key] = (floor + 1 << EPOCH).astype(np.uint32)
        found: Tags = self._cache[key]
        return found

    def unseen(self, look: Look) -> int:
        """Every access of an earlier epoch is surely ordered."""
        key = ("unseen", look.key)
        if key not in self._cache:
            self._cache[key] = int(self.bound(look).min()) >> EPOCH
        found: int = self._cache[key]
        return found

    @property
    def seen_by_all(self) -> int:
        """The last epoch of which every warp has seen everything."""
        return int(self.seen.min())

    def unordered(self, look: Look, tags: Tags, flags: int) -> Bools:
        """Which earlier accesses, (rows or CTAs, warps, 32, n) tags of the same CTA, race with one now."""
        mine = self.tags(look, flags)[..., None]
        thread = tags & (1 << THREAD_BITS) - 1
        seen = self.seen[self._rows(look), look.warps]
        spread = np.broadcast_to(seen[:, :, None, :], (*seen.shape[:2], 32, seen.shape[-1]))
        warp = np.broadcast_to(
            (thread >> 5).astype(np.int64), np.broadcast_shapes(tags.shape, (*seen.shape[:2], 32, 1))
        )
        spread = np.broadcast_to(spread, (*warp.shape[:3], seen.shape[-1]))
        ordered = (tags >> EPOCH) <= np.take_along_axis(spread, np.minimum(warp, seen.shape[-1] - 1), axis=-1)
        same = (thread == mine & (1 << THREAD_BITS) - 1) & (((tags | mine) & COLLECTIVE) == 0)
        atomic = (tags & mine & ATOMIC) != 0
        racing: Bools = (tags != 0) & ~ordered & ~same & ~atomic
        return racing

    def heard_of(self, look: Look, other: Numbers, tags: Tags) -> Bools:
        """Which accesses of other CTAs, by their numbers in the grid, does a warp know of that were made before?"""
        if self.heard is None:
            return np.zeros(tags.shape, np.bool_)
        size = self.wave.run.cluster_ctas
        mine = (look.rows(1) + self.wave.first)[..., None]
        warp = np.minimum(warp_of(tags).astype(np.int64), self.warps - 1)
        known = np.broadcast_to(self.heard[look.ctas, look.warps][:, :, None], (*tags.shape[:3], self.width))
        epoch = np.take_along_axis(known, other % size * self.warps + warp, axis=-1)
        before: Bools = (other // size == mine // size) & ((tags >> EPOCH) <= epoch)
        return before

    def _rows(self, look: Look) -> slice:
        return slice(0, 1) if self.is_collapsed else look.ctas

    # Meetings

    def all_met(self, ctas: slice) -> None:
        """All warps of these CTAs."""
        if len(numbers(ctas)) < self.wave.ctas:
            self.expand()
        rows = slice(0, 1) if self.is_collapsed else ctas
        latest = self.epoch[rows].max(-1)
        self.seen[rows] = latest[:, None, None]
        self.epoch[rows] = latest[:, None] + 1
        if self.heard is not None:
            self.heard[ctas] = self.heard[ctas].max(1, keepdims=True)
        self._changed()

    def warps_met(self, look: Look, active: Bools, *, alike: bool) -> None:
        """The lanes of each warp with active lanes."""
        if not alike:
            self.expand()
        rows = self._rows(look)
        here = np.asarray(active.any((0, 2)))[None] if self.is_collapsed else np.asarray(active.any(-1))
        own_numbers = np.array(numbers(look.warps))
        epoch = self.epoch[rows, look.warps]
        window = self.seen[rows, look.warps]
        own = (slice(None), np.arange(len(own_numbers)), own_numbers)
        window[own] = np.where(here, epoch, window[own])
        epoch += here
        self._changed()

    def released(self, ctas: Numbers, warps: slice, here: Bools, barrier: int, rows: Numbers) -> None:
        """Warps arrive at a barrier: what they did until now will be seen by those who wait there."""
        which, own = np.nonzero(here)
        told = np.zeros((*here.shape, self.width), np.int64)
        told[which, own] = self.published(ctas[which], np.arange(self.warps)[warps][own])
        known = self.arriving.setdefault(barrier, np.zeros((self.wave.ctas, self.width), np.int64))
        np.maximum.at(known, rows, told.max(1))

    def acquired(self, ctas: Numbers, waiting: Bools, barrier: int, rows: Numbers) -> None:
        """A barrier is complete: those who waited there see all that was released."""
        if barrier in self.arriving:
            which, warps = np.nonzero(waiting)
            self.taken_over(ctas[which], warps, self.arriving[barrier][rows[which]])

    def forgotten(self, barrier: int, rows: Numbers) -> None:
        """What was released at a barrier is of no use any more."""
        if barrier in self.arriving:
            self.arriving[barrier][rows] = 0

    def published(self, rows: Numbers, warps: Numbers) -> Numbers:
        """What each of these warps has done, seen or heard until now, (n, width). A new epoch begins for them."""
        self.expand()
        epoch = self.epoch[rows, warps]
        self.seen[rows, warps, warps] = epoch
        self.epoch[rows, warps] = epoch + 1
        self._changed()
        if self.heard is None:
            return np.asarray(self.seen[rows, warps])
        known = self.heard[rows, warps]
        np.put_along_axis(known, self._own(rows), self.seen[rows, warps], axis=1)
        return np.asarray(known)

    def taken_over(self, rows: Numbers, warps: Numbers, known: Numbers) -> None:
        """Each of these warps, none of them twice, has seen what others have published, (n, width)."""
        self.expand()
        seen = np.maximum(self.seen[rows, warps], np.take_along_axis(known, self._own(rows), axis=1))
        seen[np.arange(len(rows)), warps] = self.seen[rows, warps, warps]
        self.seen[rows, warps] = seen
        if self.heard is not None:
            self.heard[rows, warps] = np.maximum(self.heard[rows, warps], known)
        self._changed()

    def _own(self, rows: Numbers) -> Numbers:
        """Where in a segment of knowledge the own warps of CTAs are, (n, warps)."""
        first = (rows + self.wave.first) * self.warps % self.width
        found: Numbers = first[:, None] + np.arange(self.warps)
        return found
