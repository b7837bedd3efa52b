"""One access, as the tags of its places will tell of it, and how those are read and written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilewright.sim.machine.address import Address, Part, are_apart
from tilewright.sim.machine.batch import numbers
from tilewright.sim.machine.masks import spread
from tilewright.sim.machine.memory import UNITS, MemoryRows
from tilewright.sim.machine.sites import harmless
from tilewright.sim.order.knowledge.clocks import Clocks
from tilewright.sim.order.knowledge.known import Times

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from tilewright.sim.machine.arrays import Bools, Ints
    from tilewright.sim.machine.batch import Batch, Look
    from tilewright.sim.machine.masks import Mask
    from tilewright.sim.machine.sites import Site
    from tilewright.sim.order.races.clash import Pairs
    from tilewright.sim.order.races.places import TaggedPlaces
    from tilewright.sim.order.races.records import Record

    Tags: TypeAlias = "NDArray[np.unsignedinteger]"

__all__ = ["CTA", "CTA_BITS", "EQUAL", "MANY", "ROUNDED", "THREAD", "UNIT", "AccessRecord", "bound_of"]

THREAD, MANY, CTA = (1 << 10) - 1, 1 << 10, 11  # bits of the thread; the bit of "several threads"; bits below the CTA
CTA_BITS = 22
UNIT = 1 << CTA + CTA_BITS  # the bit of "by an asynchronous unit, for that thread", where memory is global

EQUAL, ROUNDED = "with equal values", "with values that differ by rounding alone"
NEAR = 2.0**-10  # of the smaller: how far apart sums of the same numbers are at most


@dataclass(eq=False, slots=True)  # not frozen: one is made per access of a run, and freezing takes time
class AccessRecord:
    """look, mask: how to look at the tags. at: the bytes. time: of its record. also: blocks of the clocks' columns that
    count as known, beside the first. more: further bytes, of accesses that follow and share a record with it.
    """

    places: TaggedPlaces
    clocks: Clocks
    site: Site
    batch: Batch
    look: Look
    mask: Mask
    at: Address
    time: int
    also: tuple[int, ...] = ()
    more: tuple[Address, ...] = ()
    _tags: Tags | None = None

    def each(self) -> Iterator[AccessRecord]:
        """The access of each of the addresses."""
        return (replace(self, at=at, more=()) for at in (self.at, *self.more)) if self.more else iter((self,))

    @property
    def span(self) -> tuple[int, int]:
        """The first byte, and the one after the last."""
        low, high = self.at.lo, self.at.hi
        for at in self.more:
            low, high = min(low, at.lo), max(high, at.hi)
        return low, high + self.site.width

    def tags(self) -> Tags:
        """The tag of each lane, (CTAs or 1, warps, 32)."""
        if self._tags is None or self._tags.dtype != self.places.tag:
            self._tags = self._new_tags()
        return self._tags

    def _new_tags(self) -> Tags:
        threads = np.array(numbers(self.look.warps)).reshape(1, -1, 1) * 32 + np.arange(32)
        own = threads | self.time << self.places.shift
        if self.site.collective:
            own = own | MANY
        if self.places.is_global:
            own = own | (self.batch.rows(1) + self.batch.wave.first) << CTA | (UNIT if self.site.by_unit else 0)
        return own.astype(self.places.tag)

    def known(self) -> Times:
        """(CTAs or 1, warps, warps): up to when each warp knows each other of its CTA."""
        return self.clocks.known_warps(self.look)

    def all_known(self) -> int:
        """The time until which its threads know everyone."""
        return 0 if self.places.is_global else int(bound_of(self.known()).min())

    def knows(self, pairs: Pairs) -> Bools:
        """Which earlier accesses come before?"""
        of = pairs
        return self.clocks.knows(of.row, of.knower, of.other_cta, of.other_thread, of.time, also=self.also)

    def knows_record(self, record: Record, pairs: Pairs) -> Bools:
        """Which earlier accesses, all of one record, come before? What a warp did together, all of its lanes did."""
        pairs = replace(pairs, time=np.full(len(pairs), record.time))
        if not record.site.collective:
            return self.knows(pairs)
        warps = pairs.other_thread & ~31
        return np.asarray(np.all([self.knows(replace(pairs, other_thread=warps | lane)) for lane in range(32)], axis=0))

    def load(self, block: MemoryRows) -> Tags:
        """The tags in a block, (CTAs or 1, warps or 1, 32 or 1, tags of an access)."""
        found = np.ascontiguousarray(block.load(self.look, self.where, self.width))
        return found[..., None].view(self.places.tag)

    def store(self, block: MemoryRows, tags: Tags, mask: Mask | None = None) -> None:
        """Store the tag of each lane at all places that it touches, or, (CTAs, warps, 32, tags), one at each."""
        if self.grains > 1 or tags.ndim > 3:
            each = tags if tags.ndim > 3 else tags[..., None]
            wide = np.ascontiguousarray(spread(each, (*each.shape[:3], self.grains)))
            tags = wide.view(block.view(self.width).dtype)[..., 0]
        where = self.where if mask is None else harmless(self.where, mask)
        block.store(self.look, where, self.width, tags, mask or self.mask)

    @property
    def grains(self) -> int:
        """Places that each lane touches."""
        return self.site.width // self.places.grain

    @property
    def where(self) -> Address:
        """The tags of each lane."""
        return _scaled(self.at, self.places.grain, self.places.tag.itemsize)

    @property
    def width(self) -> int:
        """Bytes of these tags."""
        return self.grains * self.places.tag.itemsize

    def is_aligned(self) -> bool:
        """Is each lane's address a multiple of the width?"""
        return not self.at.bits & (self.site.width - 1)

    def marks(self) -> tuple[NDArray[np.generic], Ints]:
        """The marks of late writes in items as wide as this access, which is aligned, and the items that it touches."""
        rows, pitch = self.places.late.shape
        shift = self.site.width.bit_length() - 1
        first, items = self.at.units(self.look, shift, pitch // self.grains if rows > 1 else 0)
        return self.places.late.reshape(-1).view(UNITS[self.grains])[first:], items

    def is_apart(self, others: list[AccessRecord]) -> bool:
        """Is it certain that it touches no byte that one of the others touches?"""
        width, every = self.site.width, [self.at]
        for other in others:
            if other.site.width != width:
                return False
            every += other.at, *other.more
        return are_apart(width, *every)

    @property
    def is_alone(self) -> bool:
        """Is it a plain access of one lane, which may know more than its warp?"""
        return self.mask.lanes == 1 and bool(self.clocks.alone) and self.site.sem == "weak"

    def is_one_to_one(self) -> bool:
        """Is it certain that no two lanes touch one place?"""
        rows, pitch = self.places.late.shape
        pitch, shift = pitch // self.grains if rows > 1 else 0, self.site.width.bit_length() - 1
        for at in (self.at, *self.more):
            if at.bits & (self.site.width - 1) or not at.is_one_to_one(self.look, shift, pitch):
                return False
        return not self.more or are_apart(self.site.width, self.at, *self.more)

    def lost(self, block: MemoryRows, tags: Tags) -> Bools | None:
        """The lanes whose tags, just stored, another lane of the same statement has overwritten."""
        differs = self.load(block) != tags[..., None]
        if not differs.any():
            return None
        lanes: Bools = differs.any(-1) & self.mask.full
        return lanes if lanes.any() else None

    def address(self, lane: tuple[int, int, int]) -> int:
        """Where a lane's bytes begin."""
        return int(spread(self.at.full(), self.batch.shape)[lane])

    def shown_address(self, lane: tuple[int, int, int]) -> int:
        """That address as a kernel counts, from the first byte of the CTA whose memory it is."""
        return self.address(lane) % self.places.pitch

    def wrote_alike(self) -> str:
        """Do lanes that write one place at once write equal values (`EQUAL`), nearly so (`ROUNDED`), or not ("")?"""
        if (pending := self.site.to_write(self.at, self.batch.ctas)) is None:
            return ""
        row = 0 if self.places.is_global else self.batch.rows(1 << 40)
        active = spread(self.mask.full, self.batch.shape)
        place = spread(self.where.full() + row, self.batch.shape)[active]
        given = spread(pending, self.batch.shape)[active]
        bits = np.ascontiguousarray(given)[:, None].view(np.uint8)
        order = np.argsort(place, kind="stable")
        meets = np.diff(place[order]) == 0
        return _likeness(bits[order][1:][meets], bits[order][:-1][meets])

    def finds_equal(self) -> Bools:
        """In which lanes does memory already hold the value that a plain store is about to write there?"""
        pending = self.site.to_write(self.at, self.batch.ctas) if self.site.sem == "weak" else None
        if pending is None or self.site.place is None or self.at.hi >= self.places.pitch:
            return np.zeros(self.look.shape, np.bool_)
        old = self.batch.wave.storage(self.site.place).load(self.batch, self.at, self.site.width)
        same: Bools = spread(np.asarray(old == pending), self.batch.shape)
        return same if self.look.shape == self.batch.shape else np.asarray(same.all(0, keepdims=True))


def bound_of(known: Times) -> Ints:
    """The time up to which each warp knows all threads of its CTA, (CTAs or 1, warps, 1, 1)."""
    return np.asarray(known.min(-1)[..., None, None], np.int64)


def _scaled(at: Address, grain: int, tag_bytes: int) -> Address:
    """Where the tags of an address are: ``tag_bytes`` for each ``grain`` bytes."""
    if grain == tag_bytes:
        return at
    if all(part.bits % grain == 0 for part in at.parts):
        return Address(at.start * tag_bytes // grain, *(part.scaled(tag_bytes, grain) for part in at.parts))
    return Address(0, Part(at.full() // grain * tag_bytes))


def _likeness(one: NDArray[np.uint8], other: NDArray[np.uint8]) -> str:
    """Are all rows of bytes `EQUAL`, or float32 that may be sums of the same numbers in other orders: `ROUNDED`? "" for
    no.

    Bytes of small integers do not count as such floats.
    """
    if (one == other).all():
        return EQUAL
    if one.shape[-1] % 4:
        return ""
    a, b = one.view("<f4"), other.view("<f4")
    least = np.minimum(np.abs(a), np.abs(b))
    near = (least >= np.finfo(np.float32).tiny) & (np.abs(a - b) <= NEAR * least)
    return ROUNDED if (near | (a.view(np.uint32) == b.view(np.uint32))).all() else ""
