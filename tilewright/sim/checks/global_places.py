"""What each place of a global buffer remembers for the race check: its last writer and its last two readers.

A tag has 64 bits: the number of the CTA in the grid plus one, above the tag that this CTA's clocks understand. A third
reader may go unnoticed; a writer never does.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.sim.checks.clocks import ATOMIC, COLLECTIVE, EPOCH, THREAD_BITS, Clocks, warp_of
from tilewright.sim.checks.reports import Clash, Earlier
from tilewright.sim.checks.shared_places import REMEMBERED
from tilewright.sim.checks.touches import Touch, scaled
from tilewright.sim.memory import Block
from tilewright.sim.sites import harmless

if TYPE_CHECKING:
    from tilewright.sim.address import Address
    from tilewright.sim.batch import Batch
    from tilewright.sim.checks.races import Races
    from tilewright.sim.masks import Bools, Mask
    from tilewright.sim.sites import Site

__all__ = ["GlobalPlaces"]

TAG = np.dtype(np.uint64)
CTA = np.uint64(32)  # bits below the CTA's number
IDENTITY = np.uint64((1 << 64) - (1 << 32) | (1 << THREAD_BITS) - 1)  # CTA and thread of a tag

SINGLE = IDENTITY | np.uint64(COLLECTIVE)  # and whether it was alone


class GlobalPlaces:
    """The tags of one buffer. grain: bytes that share a tag."""

    def __init__(self, nbytes: int, grain: int) -> None:
        self.grain = grain
        self.size = -(-nbytes // grain) * TAG.itemsize
        self.writers = Block.zeros(1, self.size)
        self.readers: list[Block] = []  # the last, and the last that was another thread than that
        self.log: deque[Earlier] = deque(maxlen=REMEMBERED)

    def touch(self, races: Races, site: Site, batch: Batch, mask: Mask, at: Address, flags: int) -> None:
        """One access: is it ordered after those before, and what do later ones have to know?"""
        if mask.array is not None:
            at = harmless(at, mask)
        width = TAG.itemsize * (site.width // self.grain)
        touch = Touch(races, site, batch, batch, mask, at, scaled(at, self.grain, TAG.itemsize), width, flags, TAG)
        clocks: Clocks = batch.wave.checks["races"].clocks
        ctas = (batch.rows(1) + (batch.wave.first + 1)).astype(np.uint64) << CTA
        tags = ctas | clocks.tags(batch, flags)
        self._check(touch, self.writers, tags)
        for block in self.readers if site.write else ():
            self._check(touch, block, tags)
        if site.write:
            touch.store(self.writers, tags)
            if not site.atomic and not _is_one_to_one(at, batch):
                self._check_lost(touch, tags)
        elif not site.atomic:
            self._read(touch, tags)
        self.log.append(Earlier(site, batch, mask, at))

    def _check(self, touch: Touch, block: Block, mine: Any) -> None:
        tags = touch.load(block)
        if not tags.any() or _is_own(tags, mine[..., None], touch.flags):
            return
        racing = self._racing(touch, tags) & touch.mask.full[..., None]
        if racing.any():
            with_writer = block is self.writers
            touch.races.clash(touch.clash(racing, tags, tuple(self.log), with_writer=with_writer))

    @staticmethod
    def _racing(touch: Touch, tags: Any) -> Bools:
        """Of the same CTA: what its clocks say. Of another: everything but atomics, unless it was published.

        In a cluster that is what its barriers and m-barriers say, elsewhere fences and atomics.
        """
        batch = touch.batch
        clocks: Clocks = batch.wave.checks["races"].clocks
        tags = np.broadcast_to(tags, (*batch.shape, tags.shape[-1]))
        other = (tags >> CTA).astype(np.int64) - 1
        mine = (batch.rows(1) + batch.wave.first)[..., None]
        inside = tags.astype(np.uint32)
        near = (other == mine) & (inside >= clocks.bound(batch)[..., None])
        if near.any():
            near &= clocks.unordered(batch, inside, touch.flags)
        far = (other >= 0) & (other != mine) & (inside & np.uint32(touch.flags) & np.uint32(ATOMIC) == 0)
        if far.any():
            far &= ~clocks.heard_of(batch, other, inside)
        if far.any():
            epoch = (inside >> EPOCH).astype(np.int64)
            pairs = np.stack([other[far], np.broadcast_to(mine, far.shape)[far], epoch[far]])
            for cta, to, when in np.unique(pairs, axis=1).T:
                if touch.races.published(int(cta), int(when), int(to)):
                    far &= ~((other == cta) & (mine == to) & (epoch == when))
        racing: Bools = near | far
        return racing

    def _check_lost(self, touch: Touch, tags: Any) -> None:
        """Lanes whose tag another lane of the same statement has overwritten."""
        lost = touch.lost(self.writers, tags)
        if lost is None:
            return
        cta, warp, lane = map(int, np.argwhere(lost)[0])
        back = touch.load(self.writers)
        tag = int(np.broadcast_to(back, (*lost.shape, back.shape[-1]))[cta, warp, lane, 0])
        mine = int(np.broadcast_to(tags, lost.shape)[cta, warp, lane])
        equal = touch.wrote_alike(one_row=True)
        if equal and (tag >> CTA, warp_of(tag)) == (mine >> CTA, warp_of(mine)):
            return  # lanes of one warp: any of them wins
        log = (*self.log, Earlier(touch.site, touch.batch, touch.mask, touch.at))
        touch.races.clash(Clash(touch, (cta, warp, lane), tag, True, log, equal, at_once=True))

    def _read(self, touch: Touch, tags: Any) -> None:
        if not self.readers:
            self.readers = [Block.zeros(1, self.size), Block.zeros(1, self.size)]
        last, before = self.readers
        old = touch.load(last)
        others = ((old != 0) & ((old ^ tags[..., None]) & IDENTITY != 0)).any(-1)
        moved = touch.mask.narrowed(others) if others.any() else None
        if moved is not None:
            touch.store(before, np.broadcast_to(old[..., 0], touch.batch.shape), mask=moved)
        touch.store(last, tags)


def _is_own(tags: Any, mine: Any, flags: int) -> bool:
    """Did each thread itself, if any, leave the tags where it goes now? The cheap answer for most accesses."""
    return not flags & COLLECTIVE and not ((tags != 0) & ((tags ^ mine) & SINGLE != 0)).any()


def _is_one_to_one(at: Address, batch: Batch) -> bool:
    """Surely no two lanes with one address?"""
    steps = at.strides()
    if steps is None:
        return False
    reach = 0
    for step, extent in zip(reversed(steps), reversed(batch.shape), strict=True):
        if extent > 1 and abs(step) <= reach:
            return False
        reach += abs(step) * (extent - 1)
    return True
