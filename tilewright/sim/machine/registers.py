"""Registers: a local buffer of every thread of a wave, register-major.

Word k of all lanes of a warp lie side by side, so that what a matrix instruction deals out to its registers is stored
as it comes. The unit that is kept together is a 32-bit word, or as wide as the widest copy in or out of the buffer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilewright.sim.machine.arrays import Bits
from tilewright.sim.machine.batch import numbers
from tilewright.sim.machine.memory import UNITS
from tilewright.sim.machine.uniform import Uniform

if TYPE_CHECKING:
    from tilewright.sim.machine.address import Address
    from tilewright.sim.machine.arrays import Ints
    from tilewright.sim.machine.batch import Look
    from tilewright.sim.machine.masks import Mask
    from tilewright.sim.machine.uniform import Alike

__all__ = ["Newer", "NewerMatrix", "Registers", "Spread"]

LANES = np.arange(32, dtype=np.int64)


class Spread:
    """A matrix in the registers of a warp. spots: for each element its word, see `Registers.flat`."""

    def __init__(self, spots: Ints) -> None:
        self.spots = spots
        self._order = np.argsort(spots, axis=None)
        words = spots.reshape(-1)[self._order]
        first, last = int(words[0]), int(words[-1]) + 1
        self._words: slice | Ints = slice(first, last) if last - first == words.size else words

    def matrix(self, flat: Bits) -> Bits:
        """(CTAs, warps, rows, columns), a copy."""
        return flat.take(self.spots, axis=2)

    def put(self, flat: Bits, matrix: Bits) -> None:
        """Write a matrix to its words."""
        flat[:, :, self._words] = matrix.reshape(*matrix.shape[:2], -1).take(self._order, axis=2)


class Newer:
    """Registers of some CTAs and warps as an array of another shape, which is newer than their words.

    numbers: of the registers that these are.
    """

    def __init__(self, ctas: slice, warps: slice, numbers: frozenset[int]) -> None:
        self.ctas, self.warps, self.numbers = ctas, warps, numbers

    def put(self, registers: Registers) -> None:
        """Write the words."""
        raise NotImplementedError

    def meets(self, other: Newer) -> bool:
        """Do the two have a register of one thread in common?"""
        pairs = ((self.ctas, other.ctas), (self.warps, other.warps))
        both = all(mine == theirs or set(numbers(mine)) & set(numbers(theirs)) for mine, theirs in pairs)
        return both and not self.numbers.isdisjoint(other.numbers)

    def covers(self, other: Newer) -> bool:
        """Has it every register of the other?"""
        return self.ctas == other.ctas and self.warps == other.warps and self.numbers >= other.numbers


class NewerMatrix(Newer):
    """(CTAs, warps, rows, columns)."""

    def __init__(self, look: Look, spread: Spread, numbers: frozenset[int], matrix: NDArray[Any]) -> None:
        super().__init__(look.ctas, look.warps, numbers)
        self.spread = spread
        self._matrix = matrix

    @property
    def matrix(self) -> NDArray[Any]:
        """The matrix, which may be changed in place."""
        return self._matrix

    def put(self, registers: Registers) -> None:
        self.spread.put(registers.flat(self.ctas, self.warps), self.matrix.view(np.uint32))


class NewerWords(Newer):
    """The words of registers from number ``first`` on, (CTAs and warps that are not alike, registers, 32)."""

    def __init__(self, look: Look, first: int, words: Bits, alike: Alike) -> None:
        super().__init__(look.ctas, look.warps, frozenset(range(first, first + words.shape[2])))
        self.first, self.words, self.alike = first, words, alike

    def put(self, registers: Registers) -> None:
        place = registers.view(4)[self.ctas, self.warps, self.first : self.first + self.words.shape[2], :, 0]
        ctas, warps = self.alike
        rest = self.words.shape[2:]
        place.reshape(*ctas.digits, *warps.digits, *rest)[...] = self.words.reshape(
            ctas.outer, 1, ctas.inner, warps.outer, 1, warps.inner, *rest
        )

    def of(self, ctas: range, warps: range) -> Bits:
        """The words of these CTAs and warps of the batch, (CTAs, warps, words)."""
        some = self.words
        for axis, (alike, those) in enumerate(zip(self.alike, (ctas, warps), strict=True)):
            which = [alike.number(one) for one in those]
            some = some if which == list(range(some.shape[axis])) else some.take(which, axis)
        return some.reshape(*some.shape[:2], -1)


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
        self._held: dict[object, Newer] = {}
        self._alike: dict[int, tuple[object, Alike]] = {}  # by register: who of a batch holds the same
        self._set: set[object] = set()  # see `all_set`; empty after any change

    @property
    def rows(self) -> int:
        """CTAs, or 1 where one stands for all."""
        return len(self.data)

    def expanded(self, rows: int) -> Registers:
        """Registers with ``rows`` copies of this one's single row."""
        made = Registers(0, 0, self.nbytes, self.unit, self.start)
        made.data = np.repeat(self.data, rows, axis=0)
        return made

    def view(self, width: int) -> Bits:
        """(CTAs, warps, units, 32, items of ``width`` in a unit)."""
        if self._held:
            self.settle()
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
        """Write one item of ``width`` bytes per active lane."""
        self._alike.clear()
        self._set.clear()
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
            held = self._newer_words(batch, frozenset(range(first, first + count)))
            if held is not None and held.words.shape[:2] == batch.shape[:2]:
                return held.words[:, :, first - held.first : first - held.first + count]
            view: Bits = self.view(4)[self._ctas(batch), batch.warps, first : first + count, :, 0]
            return view
        return np.stack([self.slot(batch, start + 4 * k, 4) for k in range(count)], axis=2)

    def store_words(self, batch: Look, start: int, words: Bits, mask: Mask, alike: Alike | None = None) -> None:
        """Write (..., count, 32) words to neighbouring registers.

        alike: CTAs and warps to which the same words go, all lanes of them; they then come once.
        """
        self._set.clear()
        first, count = (start - self.start) // 4, words.shape[-2]
        newer = None if alike is None else NewerWords(batch, first, words, alike)
        if newer is not None and self.unit == 4:
            self.hold(("words", first, batch.key), newer)
        elif self.unit == 4 and mask.array is None:
            self.view(4)[self._ctas(batch), batch.warps, first : first + count, :, 0] = words
        else:
            if newer is not None:
                words = newer.of(*map(range, batch.shape[:2])).reshape(*batch.shape[:2], count, 32)
            for k in range(count):
                np.copyto(self.slot(batch, start + 4 * k, 4), words[..., k, :], where=mask.full)
        for number in range(first, first + count):
            self._alike.pop(number, None)
        if alike is not None:
            self._alike.update(dict.fromkeys(range(first, first + count), (batch.key, alike)))

    def alike(self, batch: Look, registers: Iterable[int]) -> Alike:
        """The CTAs and warps of the batch that certainly hold the same in these registers, by their numbers."""
        found = [self._alike.get(number) for number in registers]
        first = found[0]
        if first is None or first[0] != batch.key or found.count(first) < len(found):
            return Uniform.nobody(batch.shape[0]), Uniform.nobody(batch.shape[1])
        return first[1]

    def uniform(self, batch: Look, numbers: frozenset[int], ctas: range, warps: range) -> tuple[Bits, int]:
        """Words of registers of some warps, (CTAs, warps, words), and how many words before them are left out."""
        held = self._newer_words(batch, numbers)
        if held is not None:
            return held.of(ctas, warps), 32 * held.first
        some = tuple(slice(one.start, one.stop, one.step) for one in (ctas, warps))
        return self.flat(batch.ctas, batch.warps)[some], 0

    # Registers that are kept in another shape

    def _newer_words(self, batch: Look, numbers: frozenset[int]) -> NewerWords | None:
        """What is held of all these registers of the batch."""
        for held in self._held.values():
            same = (held.ctas, held.warps) == (batch.ctas, batch.warps)
            if same and isinstance(held, NewerWords) and numbers <= held.numbers:
                return held
        return None

    def flat(self, ctas: slice, warps: slice) -> Bits:
        """(CTAs, warps, words), a view: word k of lane l is number 32 k + l, where the unit is a word."""
        view = self.view(4)[ctas, warps]
        return view.reshape(*view.shape[:2], -1)

    def all_set(self, look: Look, numbers: tuple[int, ...] | range) -> bool:
        """In a shadow: are these registers, ascending, initialised in all lanes?"""
        key = (look.key, numbers)
        if key not in self._set:
            if not self._are_set(look, numbers):
                return False
            self._set.add(key)
        return True

    def _are_set(self, look: Look, numbers: tuple[int, ...] | range) -> bool:
        first, last = int(numbers[0]) * 4 // self.unit, int(numbers[-1]) * 4 // self.unit + 1
        alone = len(numbers) * 4 < (last - first) * self.unit
        units: slice | Ints = np.asarray(numbers, np.int64) * 4 // self.unit if alone else slice(first, last)
        return bool(self.data[self._ctas(look), look.warps, units].view(np.bool_).all())

    def held(self, key: object) -> Newer | None:
        """What `hold` got under this key, unless one of its registers has been accessed since."""
        return self._held.get(key)

    def hold(self, key: object, held: Newer) -> None:
        """The registers hold this from now on."""
        for other in [other for other, one in self._held.items() if one.meets(held)]:
            before = self._held.pop(other)
            if not held.covers(before):
                self._settle(before)
        self._held[key] = held
        for number in held.numbers:
            self._alike.pop(number, None)

    def settle(self) -> None:
        """Bring the words up to date before an access to them."""
        while self._held:
            self._settle(self._held.popitem()[1])

    def _settle(self, held: Newer) -> None:
        kept, self._held = self._held, {}
        held.put(self)
        self._held = kept
