"""Registers: a local buffer of every thread of a chunk, register-major.

Word k of all lanes of a warp lie side by side, so that what a matrix instruction deals out to its registers is stored
as it comes. The unit that is kept together is a 32-bit word, or as wide as the widest copy in or out of the buffer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.memory import UNITS, Bits

if TYPE_CHECKING:
    from tilewright.sim.address import Address, Ints
    from tilewright.sim.batch import Look
    from tilewright.sim.masks import Mask

__all__ = ["Registers"]

LANES = np.arange(32, dtype=np.int64)


class Registers:
    """(CTAs, warps, units, 32) of one buffer; ``nbytes`` of each thread, from local address ``start`` on.

    rows: CTAs, or 1 where one stands for all, as a shadow does.
    """

    def __init__(self, rows: int, warps: int, nbytes: int, unit: int, start: int = 0) -> None:
        self.unit = unit
        self.start = start
        self.nbytes = nbytes
        self.data = np.zeros((rows, warps, -(-nbytes // unit), 32 * unit), np.uint8)
        self._views: dict[int, Bits] = {}

    @property
    def rows(self) -> int:
        return len(self.data)

    def expanded(self, rows: int) -> Registers:
        """Registers with ``rows`` copies of this one's single row."""
        made = Registers(0, 0, self.nbytes, self.unit, self.start)
        made.data = np.repeat(self.data, rows, axis=0)
        return made

    def view(self, width: int) -> Bits:
        """(CTAs, warps, units, 32, items of ``width`` in a unit)."""
        if width not in self._views:
            shape = (*self.data.shape[:3], 32, self.unit // width)
            self._views[width] = self.data.view(UNITS[width]).reshape(shape)
        return self._views[width]

    def _ctas(self, batch: Look) -> slice:
        return batch.ctas if self.rows > 1 else slice(0, 1)

    def slot(self, batch: Look, start: int, width: int) -> Bits:
        """The place ``start`` bytes in, of every lane of the batch: a view."""
        unit, within = divmod(start - self.start, self.unit)
        return self.view(width)[self._ctas(batch), batch.warps, unit, :, within // width]

    def load(self, batch: Look, at: Address, width: int, mask: Mask | None = None) -> Bits:
        """One item of ``width`` bytes per lane. May be a view."""
        if width > self.unit:
            parts = [self.load(batch, at.shifted(k), self.unit, mask) for k in range(0, width, self.unit)]
            return np.stack(parts, axis=-1).view(UNITS[width])[..., 0]
        if not at.parts and mask is None:
            return self.slot(batch, at.start, width)
        own, where = self._indexed(batch, at, width, mask)
        return np.take_along_axis(own, where, axis=-1)

    def store(self, batch: Look, at: Address, width: int, bits: Bits, mask: Mask) -> None:
        if width > self.unit:
            parts = np.ascontiguousarray(bits)[..., None].view(UNITS[self.unit])
            for k in range(width // self.unit):
                self.store(batch, at.shifted(k * self.unit), self.unit, parts[..., k], mask)
        elif not at.parts:
            place = self.slot(batch, at.start, width)
            if mask.array is None:
                place[...] = bits
            else:
                np.copyto(place, bits, where=mask.array)
        else:
            own, where = self._indexed(batch, at, width, mask)
            old = np.take_along_axis(own, where, axis=-1)
            np.put_along_axis(own, where, np.where(mask.full, bits, old), axis=-1)

    def _indexed(self, batch: Look, at: Address, width: int, mask: Mask | None) -> tuple[Bits, Ints]:
        """The threads' own storage, (CTAs, warps, items), and where in it each lane's item is."""
        per_unit = self.unit // width
        view = self.view(width)[self._ctas(batch), batch.warps]
        own = view.reshape(*view.shape[:2], -1)
        items = (at.full() - self.start) // width
        if mask is not None:
            items = np.where(mask.full, items, 0)
        where = items // per_unit * (32 * per_unit) + LANES * per_unit + items % per_unit
        return own, np.broadcast_to(where, (*own.shape[:2], 32))

    def words(self, batch: Look, start: int, count: int) -> Bits:
        """``count`` neighbouring words of each lane, (CTAs, warps, count, 32): a view where the unit is a word."""
        if self.unit == 4:
            first = (start - self.start) // 4
            view: Bits = self.view(4)[self._ctas(batch), batch.warps, first : first + count, :, 0]
            return view
        return np.stack([self.slot(batch, start + 4 * k, 4) for k in range(count)], axis=2)

    def store_words(self, batch: Look, start: int, words: Bits, mask: Mask) -> None:
        """Write (..., count, 32) words to neighbouring registers."""
        if self.unit == 4 and mask.array is None:
            first = (start - self.start) // 4
            self.view(4)[self._ctas(batch), batch.warps, first : first + words.shape[-2], :, 0] = words
            return
        for k in range(words.shape[-2]):
            place = self.slot(batch, start + 4 * k, 4)
            np.copyto(place, words[..., k, :], where=True if mask.array is None else mask.array)
