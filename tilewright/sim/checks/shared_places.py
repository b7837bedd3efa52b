"""What each place of shared memory remembers for the race check: its last writer and, for each warp, its last reader.

An access in an epoch that everyone has seen cannot race; most are waved through by comparing one number per buffer.
Readers are written down late, when somebody has to look at them: where barriers stand between reads and writes, that is
never.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.sim.address import Address, Part
from tilewright.sim.batch import numbers
from tilewright.sim.checks.clocks import COLLECTIVE, EPOCH, Clocks, Tags, warp_of
from tilewright.sim.checks.reports import Clash, Earlier
from tilewright.sim.checks.touches import Touch, scaled
from tilewright.sim.memory import Block
from tilewright.sim.sites import harmless

if TYPE_CHECKING:
    from tilewright.sim.batch import Batch, Look
    from tilewright.sim.checks.races import Races
    from tilewright.sim.masks import Bools, Mask
    from tilewright.sim.sites import Site
    from tilewright.sim.wave import Wave

__all__ = ["REMEMBERED", "TAG", "SharedPlaces"]

REMEMBERED = 4096  # accesses whose kernel line a report can name
MOST_LATE = 64  # reads that are not written down yet
TAG = np.dtype(np.uint32)


class SharedPlaces:
    """The tags of a wave's shared memory, and its clocks. grain: bytes that share a tag."""

    def __init__(self, wave: Wave, clocks: Clocks, grain: int) -> None:
        self.wave = wave
        self.clocks = clocks
        self.grain = grain
        self.row = -(-max(wave.run.shared_bytes, 1) // (64 * grain)) * 64 * TAG.itemsize  # bytes of tags of one warp
        self.writers = Block.zeros(1, self.row)
        self.readers = Block.zeros(1, self.row * wave.run.warps)
        self.written: dict[str, int] = {}  # the last epoch in which a buffer was written
        self.read: dict[int, dict[str, int]] = {warp: {} for warp in range(wave.run.warps)}  # the same for reads
        self.log: deque[Earlier] = deque(maxlen=REMEMBERED)
        self._late: list[tuple[int, Touch, Tags]] = []  # reads to write down: the epoch, the access, its tags
        self._rows: dict[tuple[int, int, int], Part] = {}

    def expand(self) -> None:
        """From now on every CTA has tags and clocks of its own."""
        self._write_down()
        self.clocks.expand()
        if self.writers.rows == 1 and self.wave.ctas > 1:
            self.writers = self.writers.expanded(self.wave.ctas)
            self.readers = self.readers.expanded(self.wave.ctas)

    def _view(self, batch: Batch, mask: Mask, at: Address) -> tuple[Look, Mask]:
        if self.wave.ctas == 1 or self.writers.rows > 1:
            return batch, mask
        if batch.is_whole_wave and not mask.varies_by_cta and not at.varies_by_cta:
            return batch.single, mask.single
        self.expand()
        return batch, mask

    def touch(self, races: Races, site: Site, batch: Batch, mask: Mask, at: Address, flags: int) -> None:
        """One access: is it ordered after those before, and what do later ones have to know?"""
        look, active = self._view(batch, mask, at)
        if active.array is not None:
            at = harmless(at, active)
        width = TAG.itemsize * (site.width // self.grain)
        touch = Touch(races, site, batch, look, active, at, scaled(at, self.grain, TAG.itemsize), width, flags, TAG)
        unseen = self.clocks.unseen(look)
        if self._latest(self.written, site) >= unseen:
            self._check_writer(touch)
        if site.write:
            self._check_readers(touch, unseen)
            self._write(touch)
        elif not site.atomic:  # an atomic's write is what others have to know
            self._read(touch)
        self.log.append(Earlier(site, batch, mask, at))

    def _latest(self, epochs: dict[str, int], site: Site) -> int:
        """Of one buffer; pointers of run time may have touched any."""
        arena, name = self.wave.run.places.arena.name, site.line.buffer
        return max(epochs.values(), default=0) if name == arena else max(epochs.get(name, 0), epochs.get(arena, 0))

    def _clash(self, touch: Touch, tags: Tags, *, with_writer: bool) -> Clash | None:
        if not (tags >= self.clocks.bound(touch.look)[..., None]).any():
            return None
        racing = self.clocks.unordered(touch.look, tags, touch.flags) & touch.mask.full[..., None]
        return touch.clash(racing, tags, tuple(self.log), with_writer=with_writer) if racing.any() else None

    def _check_writer(self, touch: Touch) -> None:
        clash = self._clash(touch, touch.load(self.writers), with_writer=True)
        if clash is not None:
            touch.races.clash(clash)

    def _check_readers(self, touch: Touch, unseen: int) -> None:
        """Of several clashes the one with another warp is told, as it needs the wider barrier."""
        warps = [warp for warp, epochs in self.read.items() if self._latest(epochs, touch.site) >= unseen]
        if warps:
            self._write_down()
        found = []
        for warp in warps:
            tags = touch.load(self.readers, touch.where.shifted(warp * self.row))
            found.append(self._clash(touch, tags, with_writer=False))
        clashes = sorted((clash for clash in found if clash is not None), key=Clash.is_inside_warp)
        if clashes:
            touch.races.clash(clashes[0])

    def _write(self, touch: Touch) -> None:
        tags = self.clocks.tags(touch.look, touch.flags)
        touch.store(self.writers, tags)
        self.written[touch.site.line.buffer] = self.clocks.latest
        lost = None if touch.site.atomic else touch.lost(self.writers, tags)
        if lost is not None:
            self._check_lost(touch, tags, lost)

    def _check_lost(self, touch: Touch, tags: Any, lost: Bools) -> None:
        """Lanes of one warp in one statement may write the same to one place: any of them wins."""
        cta, warp, lane = map(int, np.argwhere(lost)[0])
        tag = int(np.broadcast_to(touch.load(self.writers), (*lost.shape, touch.width // 4))[cta, warp, lane, 0])
        mine = int(np.broadcast_to(tags, lost.shape)[cta, warp, lane])
        equal = touch.wrote_alike(one_row=False)
        if not (equal and warp_of(tag) == warp_of(mine)):
            log = (*self.log, Earlier(touch.site, touch.batch, touch.mask, touch.at))
            touch.races.clash(Clash(touch, (cta, warp, lane), tag, True, log, equal))

    def _read(self, touch: Touch) -> None:
        for warp in numbers(touch.look.warps):
            self.read[warp][touch.site.line.buffer] = self.clocks.latest
        self._late.append((self.clocks.latest, touch, self.clocks.tags(touch.look, touch.flags)))
        if len(self._late) >= MOST_LATE:
            self._write_down()

    def _write_down(self) -> None:
        """The late reads, without those that everyone has seen."""
        seen_by_all = self.clocks.seen_by_all
        for epoch, touch, tags in self._late:
            if epoch > seen_by_all:
                self._remember(touch, tags)
        self._late.clear()

    def _remember(self, touch: Touch, tags: Tags) -> None:
        """Where two lanes of a warp have read in one epoch, the tag says that it was the warp together."""
        there = self._own_row(touch.look, touch.where)
        together = tags | np.uint32(COLLECTIVE)
        if touch.flags & COLLECTIVE:
            touch.store(self.readers, together, there)
            return
        old = touch.load(self.readers, there)
        both = (old >> EPOCH == tags[..., None] >> EPOCH) & (old != tags[..., None])
        if both.any():
            tags = np.where(both.any(-1), together, tags)
        touch.store(self.readers, tags, there)
        differs = touch.load(self.readers, there) != tags[..., None]
        again = touch.mask.narrowed(differs.any(-1)) if differs.any() else None
        if again is not None:
            touch.store(self.readers, together, harmless(there, again), again)

    def _own_row(self, look: Look, where: Address) -> Address:
        """The readers' tags of each lane's own warp."""
        key = (look.warps.start, look.warps.stop, look.warps.step)
        if key not in self._rows:
            warps = np.arange(*key, dtype=np.int64).reshape(1, -1, 1)
            self._rows[key] = Part(warps * self.row, kept=True)
        return Address(where.start, *where.parts, self._rows[key])
