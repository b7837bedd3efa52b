"""Accesses of asynchronous units to memory, on behalf of an instruction's issuers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilewright.isa import Access, Signal
from tilewright.isa.mbarrier import at_once, completed
from tilewright.sim.machine.memory import SHIFT, UNITS, combined
from tilewright.sim.machine.places import OFFSET_BITS, WINDOW_BITS, escaped, split
from tilewright.sim.machine.tmem import INITIALISED, CellSet, are_taken, trouble_with

if TYPE_CHECKING:
    from tilewright.isa import Addresses
    from tilewright.sim.machine import Array, Bools, Ints, Issuers, Memories, MemoryRows, Operation, Place, Wave

__all__ = ["UnitView"]

LOW_BYTES = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF, 0xFFFFFFFF], np.uint32)  # of a cell, by how many count


@dataclass(frozen=True, eq=False)
class UnitView:
    """One access or signal of an operation, m places of it.

    issuer: (m,), on whose behalf. rows: (m, ...), of the CTAs whose memory that is. places: offsets in shared memory,
    generic addresses, or lanes of tensor memory, with their ``column``. width: bytes of each; nbytes: how many count.

    home: the buffer in shared memory that the operand points into, where that is certain.

    ctas: where CTAs that follow each other touch the same of their own shared memory, these; the places of the first
    of them, or of each p of its issuers, then stand for all.
    """

    effect: Access | Signal
    space: str
    width: int
    issuer: Ints
    rows: Ints
    places: Ints
    column: Ints | None
    nbytes: Ints | None
    fill: NDArray[np.uint8] | None = None
    ctas: slice | None = None
    home: Place | None = None

    @classmethod
    def of(
        cls, issuers: Issuers, effect: Access | Signal, space: str, width: int, where: Addresses, home: Place | None
    ) -> UnitView:
        at, ctas = np.asarray(where.at).astype(np.int64, copy=False), None
        count = len(issuers.rows) if where.issuer is None else len(where.issuer)
        if space == "shared" and where.issuer is None and where.rank is None and where.nbytes is None:
            at, ctas = _alike(issuers, at)
        if ctas is None and len(at) < count:
            at = _repeated(at, count)
        issuer = np.arange(count) if where.issuer is None else where.issuer
        shape = (count, *at.shape[1:])
        rows = issuers.rows[issuer]
        if where.rank is not None:
            rows, at = rows - issuers.wave.rank(rows) + where.rank, at & (1 << OFFSET_BITS) - 1
        rows = np.broadcast_to(rows.reshape(-1, *[1] * (at.ndim - 1)), shape)
        if space == "shared" and ctas is None:
            first = rows - issuers.wave.rank(rows)
            rows, at = split(issuers.wave, rows, at)
            count = issuers.cluster_ctas
            if (beyond := (rows < first) | (rows >= first + count)).any():
                who = np.isin(np.arange(len(issuers.rows)), issuer[beyond.reshape(len(at), -1).any(1)])
                issuers.fault(f"an address of CTA {int((rows - first)[beyond][0])} of a cluster of {count} CTAs", who)
        nbytes = None if where.nbytes is None else np.broadcast_to(where.nbytes, shape).astype(np.int64)
        column = None if where.column is None else _repeated(where.column, count)
        if column is not None and nbytes is not None:  # a cell that does not count may be anywhere
            at, column = (np.where(nbytes > 0, axis, 0) for axis in (at, column))
        return cls(effect, space, where.width or width, issuer, rows, at, column, nbytes, where.fill, ctas, home)

    @cached_property
    def at(self) -> Ints:
        """(m, ...): all places, of each issuer its own."""
        return _repeated(self.places, len(self.issuer))

    def along(self, values: Ints) -> Ints:
        """Values of the first axis, (m,), each for all places that are there: (m, ..., 1, 1)."""
        return values.reshape(-1, *[1] * (self.places.ndim - 1))

    @property
    def shape(self) -> tuple[int, ...]:
        """(m, ...)."""
        return (len(self.issuer), *self.places.shape[1:])

    @cached_property
    def reach(self) -> tuple[int, int]:
        """The first byte that counts, and the one behind the last; the same twice where none does."""
        at = self.places if self.nbytes is None else self.at[self.touches]
        return (int(at.min()), int(at.max()) + self.width) if at.size else (0, 0)

    def of_one_cta(self) -> UnitView:
        """Those of the first of ``ctas``, which stand for all of them."""
        assert self.ctas is not None
        count = len(self.issuer) // (self.ctas.stop - self.ctas.start)
        rows, places = np.zeros_like(self.rows[:count]), _repeated(self.places, count)
        return replace(self, issuer=self.issuer[:count], rows=rows, places=places, ctas=slice(0, 1))

    @cached_property
    def writes(self) -> bool:
        """Does it write?"""
        return isinstance(self.effect, Signal) or self.effect.write

    @cached_property
    def proxy(self) -> str:
        """Through which it is accessed; m-barriers through the generic one."""
        return "generic" if isinstance(self.effect, Signal) else self.effect.proxy

    @cached_property
    def combines(self) -> bool:
        """Does it read and write as one access?"""
        return isinstance(self.effect, Access) and self.effect.rmw

    @cached_property
    def touches(self) -> Bools:
        """(m, ...) bools: the places of which at least one byte counts."""
        return np.broadcast_to(np.True_, self.shape) if self.nbytes is None else self.nbytes > 0

    @property
    def _axes(self) -> tuple[Ints, Ints, Ints]:
        """Rows, lanes and columns of places in tensor memory, which broadcast to each other."""
        assert self.column is not None
        row, lane, column = map(_thin, (self.rows, self.at, self.column))
        return row, lane, column

    @cached_property
    def every_cell(self) -> CellSet:
        """Those of tensor memory, in the shape of all places."""
        return CellSet.of(*self._axes)

    @cached_property
    def counted_cells(self) -> tuple[Ints, CellSet]:
        """Those that count, and on whose behalf each row of them is."""
        if self.nbytes is None:
            return self.issuer, self.every_cell
        issuer, *axes = self.cells
        return issuer, CellSet.of(*axes)

    @cached_property
    def cells(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Those of tensor memory that count: (p,), on whose behalf; (p, cells), their rows, lanes and columns."""
        assert self.column is not None
        count = len(self.issuer)
        places = [np.broadcast_to(axis, self.shape).reshape(count, -1) for axis in (self.rows, self.at, self.column)]
        issuer = self.issuer
        if self.nbytes is not None:
            which, place = np.nonzero(self.touches.reshape(count, -1))
            issuer, places = issuer[which], [axis[which, place, None] for axis in places]
        row, lane, column = places
        return issuer, row, lane, column

    @property
    def count(self) -> int:
        """How many places count."""
        return prod(self.shape) if self.nbytes is None else int(np.count_nonzero(self.nbytes > 0))

    @property
    def bytes_moved(self) -> int:
        """Bytes of all places together."""
        return prod(self.shape) * self.width if self.nbytes is None else int(self.nbytes.sum())

    def on_behalf(self, issuer: int) -> UnitView:
        """The places that one issuer touches."""
        mine = self.issuer == issuer
        column, nbytes = (None if part is None else part[mine] for part in (self.column, self.nbytes))
        issuers, rows, places = self.issuer[mine], self.rows[mine], self.at[mine]
        return replace(self, issuer=issuers, rows=rows, places=places, column=column, nbytes=nbytes, ctas=None)

    def check(self, operation: Operation, *, bounds: bool) -> None:
        """Raises SimulationError for the first issuer with a place that is none, or outside of its operand's buffer."""
        issuers = operation.issuers
        wave = issuers.wave
        if self.space == "tmem":
            if self.nbytes is None and self.count and are_taken(wave.columns, *self._axes, bounds):
                return
            issuer, row, lane, column = self.cells
            if trouble_with(wave.columns, row, lane, column, bounds):
                for k in np.unique(issuer):
                    mine = issuer == k
                    if trouble := trouble_with(wave.columns, row[mine], lane[mine], column[mine], bounds):
                        issuers.fault(trouble, np.arange(len(issuers.rows)) == k)
            return
        if self._is_inside(wave, bounds):
            return
        ends = self.at + (self.width if self.nbytes is None else self.nbytes)
        for place, first, size, there in self._homes(wave, bounds):
            outside = there & ((self.at < first) | (ends > first + size))
            if outside.any():
                rows = outside.reshape(len(outside), -1)
                if place is not None:
                    raise escaped(operation, self, place, first, size, rows)
                who = np.isin(np.arange(len(issuers.rows)), self.issuer[rows.any(1)])
                issuers.fault("an address that is not in global memory", who)

    def _is_inside(self, wave: Wave, bounds: bool) -> bool:
        """Are all places known to be inside of one buffer?"""
        low, high = self.reach
        if self.space == "shared":
            places = wave.run.places
            home = (self.home or places.shared_at(low)) if bounds else places.arena
            return low == high or (low >= home.start and high <= home.start + home.nbytes)
        window = low >> WINDOW_BITS
        if window != high - 1 >> WINDOW_BITS or wave.run.ranks > 1:
            return low == high
        _, block = wave.run.global_block(window)
        return block is not None and high - (window << WINDOW_BITS) <= block.nbytes

    def _homes(self, wave: Wave, bounds: bool) -> Iterator[tuple[Place | None, int, int, Bools]]:
        """The operand's buffers: first byte, size, and which places are to be there; a row's first place says which."""
        places = wave.run.places
        if self.space != "shared":
            for window, there in self.windows():
                _, block = wave.run.global_block(window)
                place, start = places.globals.get(window), window << WINDOW_BITS
                if place is not None and place.pitch:
                    yield from self._of_ranks(wave, place, there)
                else:
                    yield place, start, 0 if block is None else block.nbytes, there
            return
        starts = self.at.reshape(len(self.at), -1)[:, 0]
        if self.home is not None or not bounds:
            starts = np.zeros_like(starts)
        for start in np.unique(starts).tolist():
            home = (self.home or places.shared_at(start)) if bounds else places.arena
            yield home, home.start, home.nbytes, self.touches & self.along(starts == start).astype(np.bool_)

    def _of_ranks(self, wave: Wave, place: Place, there: Bools) -> Iterator[tuple[Place, int, int, Bools]]:
        """The same for a buffer that several GPUs have: the part of each, of which a row may be in one alone."""
        home = (self.at.reshape(len(self.at), -1)[:, 0] - place.base) // place.pitch
        if place.own:
            home = (self.rows.reshape(len(self.at), -1)[:, 0] + wave.first) // wave.run.reach["gpu"]
        for rank in np.unique(home).tolist():
            its = there & self.along(home == rank).astype(np.bool_)
            yield place, place.base + rank * place.pitch, place.nbytes, its

    def _memories(self, memories: Memories) -> Iterator[tuple[MemoryRows, Ints, Ints, Bools]]:
        """The blocks: rows and addresses of the places there, and which of these places count."""
        if self.space == "shared":
            yield memories.shared, memories.shared.at(self.rows), self.at, self.touches
            return
        for window, there in self.windows():
            _, block = memories.run.global_block(window)
            assert block is not None, "it was checked at the issue"
            yield block, np.zeros_like(self.rows), self.at & (1 << WINDOW_BITS) - 1, there

    def windows(self) -> Iterator[tuple[int, Bools]]:
        """The global buffers, by their windows, and which of the places that count are in each."""
        low, high = self.reach
        if low >> WINDOW_BITS == high - 1 >> WINDOW_BITS:
            yield low >> WINDOW_BITS, self.touches
            return
        window, counts = self.at >> WINDOW_BITS, self.touches
        for number in np.unique(window[counts]).tolist():
            yield number, (window == number) & counts

    # Bytes

    @property
    def all_initialised(self) -> Array:
        """Flags that say that all places are initialised."""
        if self.space == "tmem":
            return np.full(self.shape, 0x01010101, np.uint32)
        return np.ones((*self.shape, self.width), np.uint8)

    def flags(self, wave: Wave) -> Array | None:
        """The flags of what `load` finds; None where all of it is initialised. Bytes that do not count are."""
        is_set = self.space == "shared" and wave.shadows.shared.are_set(*self.reach)
        if is_set or self.space not in ("shared", "tmem"):
            return None
        flags = self.load(wave.shadows)
        return flags if self.space == "tmem" or not flags.all() else None

    def load(self, memories: Memories, *, once: bool = False) -> Array:
        """The contents: (m, ..., width) bytes, (m, ...) cells. Bytes that do not count are zero, or the fill; as flags
        they are set.

        once: what all issuers of a CTA read may come once for each CTA.
        """
        blank = memories.blank
        if self.space == "tmem":
            words = self._of_cells(memories.tmem)
            if self.nbytes is not None:
                counts = self._bytes_that_count
                words = words & counts | np.uint32(blank) * INITIALISED & ~counts
            return words
        if self.ctas is not None:
            return self._of_each_cta(memories.shared, once=once)
        octets = np.full((*self.shape, self.width), blank, np.uint8)
        if self.fill is not None and not blank:
            octets[...] = self.fill[self.issuer].reshape(-1, *[1] * (self.places.ndim - 1), self.width)
        for block, rows, at, there in self._memories(memories):
            self._gather(block, rows, at, there, octets)
        return octets

    @cached_property
    def _bytes_that_count(self) -> NDArray[np.uint32]:
        """Of each cell the bits of its bytes that count."""
        return LOW_BYTES[4 if self.nbytes is None else self.nbytes]

    def _of_cells(self, table: Array) -> NDArray[np.uint32]:
        return np.broadcast_to(self.every_cell.load(table), self.shape)

    def _to_cells(self, table: Array, words: Array) -> None:
        _, cells = self.counted_cells
        if self.nbytes is not None:
            there, new = self._bytes_that_count[self.touches], np.broadcast_to(words, self.shape)[self.touches]
            words = cells.load(table) & ~there[:, None] | (new & there)[:, None]
        cells.store(table, words)

    def _of_each_cta(self, block: MemoryRows, *, once: bool = False) -> NDArray[np.uint8]:
        assert self.ctas is not None
        view = block.view(self.width)[block.taken(self.ctas)]
        places = self.places.reshape(-1) >> SHIFT[self.width]
        items = view.take(places, axis=1).reshape(len(view), *self.places.shape)
        counts = (self.ctas.stop - self.ctas.start, len(self.issuer) // (self.ctas.stop - self.ctas.start))
        if once and len(self.places) == 1 and len(items) == counts[0]:
            return items.reshape(-1, *self.shape[1:])[..., None].view(np.uint8)
        if items.shape[:2] != counts:
            full = np.broadcast_to(items[:, None], (counts[0], counts[1] // items.shape[1], *items.shape[1:]))
            items = np.ascontiguousarray(full)
        return items.reshape(self.shape)[..., None].view(np.uint8)

    def _gather(self, block: MemoryRows, rows: Ints, at: Ints, there: Bools, into: NDArray[np.uint8]) -> None:
        if self.nbytes is None and len(block.data) == 1 and there.all():
            into[...] = block.view(self.width)[0].take(at >> SHIFT[self.width])[..., None].view(np.uint8)
            return
        if self.nbytes is None or (self.nbytes[there] == self.width).all():
            into[there] = block.view(self.width)[rows[there], at[there] >> SHIFT[self.width]][..., None].view(np.uint8)
            return
        counts = np.arange(self.width) < self.nbytes[..., None]
        octets = np.where(counts, at[..., None] + np.arange(self.width), 0)
        into[there] = np.where(counts, block.data[rows[..., None], octets], into)[there]

    def store(self, memories: Memories, data: Array) -> None:
        """Write values as `load` returns them, a row for each of the m, or one for each of the n issuers."""
        if len(data) != len(self.issuer):
            data = data[self.issuer]
        if self.space == "tmem":
            self._to_cells(memories.tmem, data)
            return
        data = np.broadcast_to(data, (*self.shape, self.width))
        if self.ctas is not None:
            self._to_each_cta(memories.shared, data)
            return
        for block, rows, at, there in self._memories(memories):
            self._scatter(block, rows, at, there, data)

    def store_flags(self, wave: Wave, flags: Array | None) -> None:
        """The flags of what `store` wrote; None: all of it is initialised."""
        shadows, view = wave.shadows, self
        if self.space == "shared":
            is_all = self.ctas is not None and self.ctas.stop - self.ctas.start == wave.ctas
            view = self.of_one_cta() if shadows.shared.stays_one(alike=flags is None and is_all) else self
        if self.space in ("shared", "tmem"):
            view.store(shadows, view.all_initialised if flags is None else flags)

    def _to_each_cta(self, block: MemoryRows, data: NDArray[np.uint8]) -> None:
        assert self.ctas is not None
        ctas, shift = self.ctas.stop - self.ctas.start, SHIFT[self.width]
        words = np.ascontiguousarray(data).view(UNITS[self.width]).reshape(ctas, -1, self.places.size)[:, -1]
        block.to_change(self.width)[self.ctas, self.places.reshape(-1) >> shift] = words

    def _scatter(self, block: MemoryRows, rows: Ints, at: Ints, there: Bools, data: NDArray[np.uint8]) -> None:
        if self.nbytes is None or (self.nbytes[there] == self.width).all():
            words = np.ascontiguousarray(data[there]).view(UNITS[self.width])[..., 0]
            block.to_change(self.width)[rows[there], at[there] >> SHIFT[self.width]] = words
            return
        counts = (np.arange(self.width) < self.nbytes[..., None]) & there[..., None]
        octets = at[..., None] + np.arange(self.width)
        block.to_change(1)[np.broadcast_to(rows[..., None], octets.shape)[counts], octets[counts]] = data[counts]

    def change(self, wave: Wave, amounts: Array) -> None:
        """Change the m-barriers that are signalled, one after the other. amounts: (n,), what each issuer gives."""
        assert isinstance(self.effect, Signal)
        assert self.effect.change is not None
        words = wave.shared.to_change(8)
        place, amounts = self.rows * words.shape[1] + (self.at >> 3), amounts[self.issuer]
        if self.effect.change is completed:
            place, amounts = at_once(words.reshape(-1), place, amounts)
        combined(words, place, self.effect.change, (amounts,), np.arange(len(place)))


def _repeated(places: Ints, count: int) -> Ints:
    """``count`` rows, of which the others repeat the first ones."""
    full = np.broadcast_to(places, (count // len(places), *places.shape)) if len(places) < count else places
    return full.reshape(count, *places.shape[1:])


def _thin(axis: Ints) -> Ints:
    """An array once where it repeats itself."""
    return axis[tuple(slice(0, 1) if step == 0 else slice(None) for step in axis.strides)]


def _alike(issuers: Issuers, at: Ints) -> tuple[Ints, slice | None]:
    """The places of one CTA's issuers, or of the first of them, and the CTAs that all have the same."""
    issuing = issuers.each_cta
    if not issuing or not at.size or at.max() >> OFFSET_BITS or len(at) > issuing < len(issuers.rows):
        by_cta = at.reshape(-1, issuing, *at.shape[1:]) if issuing and len(at) == len(issuers.rows) else at[:0]
        if not at.size or not len(by_cta) or at.max() >> OFFSET_BITS or (by_cta != by_cta[:1]).any():
            return at, None
        at = by_cta[0]
    return (at, issuers.ctas) if issuing % len(at) == 0 else (at, None)
