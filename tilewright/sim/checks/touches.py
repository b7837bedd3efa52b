"""One access as the race check sees it, and the blocks that keep the tags of earlier ones.

Tags lie in blocks as memory does, one for each *grain* of bytes, so that an access gathers and scatters them with its
own address, scaled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.sim.address import Address, Part
from tilewright.sim.batch import numbers
from tilewright.sim.checks.clocks import warp_of
from tilewright.sim.checks.reports import Clash
from tilewright.sim.masks import spread

if TYPE_CHECKING:
    from tilewright.sim.batch import Batch, Look
    from tilewright.sim.checks.races import Races
    from tilewright.sim.checks.reports import Earlier
    from tilewright.sim.masks import Bools, Mask
    from tilewright.sim.memory import Block
    from tilewright.sim.sites import Site

__all__ = ["Touch", "scaled"]


def scaled(at: Address, grain: int, tag_bytes: int) -> Address:
    """Where the tags of an address are: ``tag_bytes`` for each ``grain`` bytes."""
    if grain == tag_bytes:
        return at
    if all(part.bits % grain == 0 for part in at.parts):
        return Address(at.start * tag_bytes // grain, *(part.scaled(tag_bytes, grain) for part in at.parts))
    return Address(0, Part(at.full() // grain * tag_bytes))


@dataclass(frozen=True, eq=False, slots=True)
class Touch:
    """look, mask: how to look at the tags. at: the bytes. where, width: the tags of each lane. tag: dtype of one."""

    races: Races
    site: Site
    batch: Batch
    look: Look
    mask: Mask
    at: Address
    where: Address
    width: int
    flags: int
    tag: np.dtype[Any]

    def load(self, block: Block, where: Address | None = None) -> Any:
        """The tags in a block, (CTAs or 1, warps or 1, 32 or 1, tags of an access)."""
        found = np.ascontiguousarray(block.load(self.look, where or self.where, self.width))
        return found[..., None].view(self.tag)

    def store(self, block: Block, tags: Any, where: Address | None = None, mask: Mask | None = None) -> None:
        """One tag for each lane, everywhere in what it touches."""
        count = self.width // self.tag.itemsize
        if count > 1:
            wide = np.ascontiguousarray(np.broadcast_to(tags[..., None], (*tags.shape, count)))
            tags = wide.view(block.view(self.width).dtype)[..., 0]
        block.store(self.look, where or self.where, self.width, tags, mask or self.mask)

    def lost(self, block: Block, tags: Any) -> Bools | None:
        """The lanes whose tags, just stored, another lane of the same statement has overwritten."""
        pitch = block.pitch if block.rows > 1 else 0
        if not self.where.bits & (self.width - 1) and self.where.is_one_to_one(self.look, pitch):
            return None
        differs = self.load(block) != tags[..., None]
        if not differs.any():
            return None
        lanes: Bools = differs.any(-1) & self.mask.full
        return lanes if lanes.any() else None

    def clash(self, racing: Bools, tags: Any, log: tuple[Earlier, ...], *, with_writer: bool) -> Clash:
        """The report of one racing lane: if there is one that met another warp, as that needs the wider barrier."""
        lanes = np.argwhere(racing)
        found = np.broadcast_to(tags, racing.shape)[tuple(lanes.T)]
        own = np.array(numbers(self.look.warps))[lanes[:, 1]]
        worst = int(np.argmax(warp_of(found).astype(np.int64) != own))
        cta, warp, lane = map(int, lanes[worst, :3])
        equal = with_writer and self.site.write and self.found_equal(np.asarray(racing.any(-1)))
        return Clash(self, (cta, warp, lane), int(found[worst]), with_writer, log, equal)

    def found_equal(self, racing: Bools) -> bool:
        """Does memory hold already what the racing lanes are about to write?"""
        if self.site.pending is None or self.site.place is None:
            return False
        old = self.batch.wave.storage(self.site.place).load(self.batch, self.at, self.site.width)
        same: Any = np.broadcast_to(old == self.site.pending, self.batch.shape)
        return bool(same[np.broadcast_to(racing, self.batch.shape)].all())

    def wrote_alike(self, *, one_row: bool) -> bool:
        """Do lanes that write one place in this statement write the same there? one_row: all CTAs share the memory."""
        if self.site.pending is None:
            return False
        row = 0 if one_row else self.batch.rows(1 << 40)
        active = spread(self.mask.full, self.batch.shape)
        place = np.broadcast_to(self.where.full() + row, self.batch.shape)[active]
        bits = np.ascontiguousarray(np.broadcast_to(self.site.pending, self.batch.shape)[active])[:, None].view(
            np.uint8
        )
        order = np.argsort(place, kind="stable")
        meets = np.diff(place[order]) == 0
        return bool((bits[order][1:] == bits[order][:-1]).all(-1)[meets].all())
