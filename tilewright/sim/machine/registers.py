"""Registers: a local buffer of every thread of a wave, register-major; and the operands of instructions that lie in
them.

Word k of all lanes of a warp lie side by side, so that what a matrix instruction deals out to its registers is stored
as it comes. The unit that is kept together is a 32-bit word, or as wide as the widest copy in or out of the buffer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from tilewright.sim.machine.address import Address
from tilewright.sim.machine.arrays import Bits
from tilewright.sim.machine.memory import UNITS, CtaRows, initialised
from tilewright.sim.machine.team import numbers
from tilewright.sim.machine.uniform import Uniform

if TYPE_CHECKING:
    from tilewright.isa.mma import Accumulator
    from tilewright.sim.machine import Alike, Array, Ints, Look, Memories, Place, Site, Team, Value

__all__ = ["NewerMatrix", "RegisterFile", "Spread"]

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
            which = [alike.number(number) for number in those]
            some = some if which == list(range(some.shape[axis])) else some.take(which, axis)
        return some.reshape(*some.shape[:2], -1)


class Registers(CtaRows):
    """(CTAs, warps, units, 32) of one buffer; ``nbytes`` of each thread, from local address ``start`` on.

    ctas: that one row may stand for.
    """

    def __init__(self, rows: int, warps: int, nbytes: int, unit: int, start: int = 0, *, ctas: int = 0) -> None:
        super().__init__(rows, ctas or rows)
        self.data = np.zeros((rows, warps, -(-nbytes // unit), 32 * unit), np.uint8)
        self.unit = unit
        self.start = start
        self.nbytes = nbytes
        self._views: dict[int, Bits] = {}
        self._held: dict[object, Newer] = {}
        self._alike: dict[int, tuple[object, Alike]] = {}  # by register: who of a look holds the same
        self._set: set[object] = set()  # see `all_set`; empty after any change

    def parted(self) -> None:
        self._views.clear()
        self._set.clear()

    def view(self, width: int) -> Bits:
        """(CTAs, warps, units, 32, items of ``width`` in a unit)."""
        if self._held:
            self.settle()
        if width not in self._views:
            shape = (*self.data.shape[:3], 32, self.unit // width)
            self._views[width] = self.data.view(UNITS[width]).reshape(shape)
        return self._views[width]

    def slot(self, look: Look, start: int, width: int) -> Bits:
        """The place ``start`` bytes in, of every lane of a look: a view."""
        unit, within = divmod(start - self.start, self.unit)
        return self.view(width)[self.taken(look.ctas), look.warps, unit, :, within // width]

    def load(self, look: Look, at: Address, width: int, only: Team | None = None) -> Bits:
        """One item of ``width`` bytes per lane. May be a view."""
        if width > self.unit:
            parts = [self.load(look, at.shifted(k), self.unit, only) for k in range(0, width, self.unit)]
            return np.stack(parts, axis=-1).view(UNITS[width])[..., 0]
        if not at.parts and only is None:
            return self.slot(look, at.start, width)
        items, where = self._indexed(look, at, width, only)
        return np.take_along_axis(items, where, axis=-1)

    def store(self, team: Team, at: Address, width: int, bits: Bits) -> None:
        """Write one item of ``width`` bytes per active lane."""
        if self.is_for_all:
            team, bits = self.to_store(team, bits, at)
        self._alike.clear()
        self._set.clear()
        if width > self.unit:
            parts = np.ascontiguousarray(bits)[..., None].view(UNITS[self.unit])
            for k in range(width // self.unit):
                self.store(team, at.shifted(k * self.unit), self.unit, parts[..., k])
        elif not at.parts:
            place = self.slot(team.look, at.start, width)
            if team.array is None:
                place[...] = bits
            else:
                np.copyto(place, bits, where=team.array)
        else:
            items, where = self._indexed(team.look, at, width, team)
            old = np.take_along_axis(items, where, axis=-1)
            np.put_along_axis(items, where, np.where(team.full, bits, old), axis=-1)

    def _indexed(self, look: Look, at: Address, width: int, only: Team | None) -> tuple[Bits, Ints]:
        """The threads' own storage, (CTAs, warps, items), and where in it each lane's item is."""
        per_unit = self.unit // width
        view = self.view(width)[self.taken(look.ctas), look.warps]
        storage = view.reshape(*view.shape[:2], -1)
        items = (at.full() - self.start) // width
        if only is not None:
            items = np.where(only.full, items, 0)
        where = items // per_unit * (32 * per_unit) + LANES * per_unit + items % per_unit
        return storage, np.broadcast_to(where, (max(len(storage), len(where)), storage.shape[1], 32))

    def words(self, look: Look, start: int, count: int) -> Bits:
        """``count`` neighbouring words of each lane, (CTAs, warps, count, 32): a view where the unit is a word."""
        if self.unit == 4:
            first = (start - self.start) // 4
            held = self._newer_words(look, frozenset(range(first, first + count)))
            if held is not None and held.words.shape[:2] == look.shape[:2]:
                return held.words[:, :, first - held.first : first - held.first + count]
            view: Bits = self.view(4)[self.taken(look.ctas), look.warps, first : first + count, :, 0]
            return view
        return np.stack([self.slot(look, start + 4 * k, 4) for k in range(count)], axis=2)

    def store_words(self, team: Team, start: int, words: Bits, alike: Alike | None = None) -> None:
        """Write (..., count, 32) words to neighbouring registers.

        alike: CTAs and warps to which the same words go, all lanes of them; they then come once.
        """
        if self.is_for_all:
            team, words = self.to_store(team, words)
        self._set.clear()
        first, count = (start - self.start) // 4, words.shape[-2]
        newer = None if alike is None else NewerWords(team.look, first, words, alike)
        if newer is not None and self.unit == 4:
            self.hold(("words", first, team.look.key), newer)
        elif self.unit == 4 and team.array is None:
            self.view(4)[self.taken(team.ctas), team.warps, first : first + count, :, 0] = words
        else:
            if newer is not None:
                words = newer.of(*map(range, team.shape[:2])).reshape(*team.shape[:2], count, 32)
            for k in range(count):
                np.copyto(self.slot(team.look, start + 4 * k, 4), words[..., k, :], where=team.full)
        for number in range(first, first + count):
            self._alike.pop(number, None)
        if alike is not None:
            self._alike.update(dict.fromkeys(range(first, first + count), (team.look.key, alike)))

    def alike(self, look: Look, registers: Iterable[int]) -> Alike:
        """The CTAs and warps of a look that certainly hold the same in these registers, by their numbers."""
        kinds = [self._alike.get(number) for number in registers]
        first = kinds[0]
        if first is None or first[0] != look.key or kinds.count(first) < len(kinds):
            return Uniform.nobody(look.shape[0]), Uniform.nobody(look.shape[1])
        return first[1]

    def uniform(self, look: Look, numbers: frozenset[int], ctas: range, warps: range) -> tuple[Bits, int]:
        """Words of registers of some warps, (CTAs, warps, words), and how many words before them are left out."""
        held = self._newer_words(look, numbers)
        if held is not None:
            return held.of(ctas, warps), 32 * held.first
        some = tuple(slice(numbers_of.start, numbers_of.stop, numbers_of.step) for numbers_of in (ctas, warps))
        return self.flat(look.ctas, look.warps)[some], 0

    # Registers that are kept in another shape

    def _newer_words(self, look: Look, numbers: frozenset[int]) -> NewerWords | None:
        """What is held of all these registers of a look."""
        for held in self._held.values():
            same = (held.ctas, held.warps) == (look.ctas, look.warps)
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
        return bool(self.data[self.taken(look.ctas), look.warps, units].view(np.bool_).all())

    def held(self, key: object) -> Newer | None:
        """What `hold` got under this key, unless one of its registers has been accessed since."""
        return self._held.get(key)

    def hold(self, key: object, held: Newer) -> None:
        """The registers hold this from now on."""
        for other in [other for other, newer in self._held.items() if newer.meets(held)]:
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


# Operands of instructions in registers: where they lie, what they hold, and as which matrix they may be kept.


RegisterAddress: TypeAlias = "Address | tuple[Address, ...]"
"""Of registers that follow each other where the first one is, else where each of them is."""

FLOATS: dict[str, np.dtype[np.generic]] = {"f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}


def stacked(*values: Value) -> Array:
    """Registers of a vector as (CTAs, warps, registers, 32)."""
    return np.stack(np.broadcast_arrays(*values), axis=2)


@lru_cache(maxsize=64)
def _spread(accumulator: Accumulator, first: int, per_unit: int) -> Spread:
    """The matrix of an accumulator whose first register has this number, of so many in a unit."""
    register, lane = np.divmod(accumulator.total, 32)
    register = register + first
    return Spread((register // per_unit * 32 + lane) * per_unit + register % per_unit)


@dataclass(frozen=True, eq=False)
class RegisterFile:
    """An operand in registers. run: they follow each other, and one address says where; else there is one for each.

    sites: one for all registers of a run, else one for each register.
    """

    sites: tuple[Site, ...]
    count: int
    many: bool
    run: bool
    kind: str

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """The buffer of each register."""
        places = tuple(site.place for site in self.sites if site.place is not None)
        return places * self.count if self.run else places

    @cached_property
    def width(self) -> int:
        """Bytes of each."""
        return self.sites[0].width

    def check(self, team: Team, at: RegisterAddress) -> None:
        """Check the registers' addresses before they are accessed."""
        pending = team.wave.pending
        if isinstance(at, Address):
            if not at.parts and self.is_inside(at.start) and not (pending.loading or pending.watched):
                return
            self.sites[0].reach(team, at)
            if self.count > 1:
                self.sites[0].reach(team, at.shifted((self.count - 1) * self.width))
        else:
            for site, address in zip(self.sites, at, strict=True):
                site.reach(team, address)

    def is_inside(self, start: int) -> bool:
        """Are all registers from this address on inside of the buffer, and aligned?"""
        last = self.places[0].start + self.places[0].nbytes - self.count * self.width
        return self.places[0].start <= start <= last and not start & (self.width - 1)

    def load(self, team: Team, at: RegisterAddress) -> Array:
        """(CTAs, warps, registers, 32) bits, or (CTAs, warps, 32) of an operand that is no vector."""
        self.check(team, at)
        return self.read(team.wave, team, at)

    def read(self, memories: Memories, team: Team, at: RegisterAddress) -> Bits:
        """The same, unchecked, of a wave or of its shadows, which have the flags."""
        if self._are_words(at):
            bits = memories.registers[self.places[0].name].words(team.look, at.start, self.count)
        else:
            every = zip(self.places, self._each(at), strict=True)
            parts = [memories.registers[place.name].load(team.look, address, self.width) for place, address in every]
            bits = stacked(*parts) if self.many else parts[0]
        return bits.view(FLOATS[self.kind]) if self.kind in FLOATS and memories is team.wave else bits

    def _are_words(self, at: RegisterAddress) -> TypeGuard[Address]:
        """Are they words that follow each other, at the same place in all threads?"""
        return isinstance(at, Address) and self.many and self.width == 4 and not at.parts

    def _each(self, at: RegisterAddress) -> list[Address]:
        return [at.shifted(k * self.width) for k in range(self.count)] if isinstance(at, Address) else list(at)

    def store(self, team: Team, at: RegisterAddress, result: Array) -> None:
        """What `load` reads afterwards."""
        self.check(team, at)
        self.write(team.wave, team, at, result)

    def write(
        self, memories: Memories, team: Team, at: RegisterAddress, result: Array | None, alike: Alike | None = None
    ) -> None:
        """The same, unchecked, to a wave or to its shadows; None: flags of what is initialised. alike: CTAs and warps
        that get the same, which then comes once.
        """
        if result is None:
            shape = (1, 1, self.count, 32) if self.many else (1, 1, 32)
            result = np.broadcast_to(initialised(self.width), shape)
        bits = np.asarray(result)
        bits = bits.view(UNITS[self.width]) if bits.dtype.itemsize == self.width else bits.astype(UNITS[self.width])
        if self._are_words(at):
            memories.registers[self.places[0].name].store_words(team, at.start, bits, alike)
            return
        for k, (place, address) in enumerate(zip(self.places, self._each(at), strict=True)):
            memories.registers[place.name].store(team, address, self.width, bits[..., k, :] if self.many else bits)

    def matrix(self, team: Team, at: RegisterAddress, accumulator: Accumulator) -> Array | None:
        """(CTAs, warps, rows, columns): these registers as a matrix that they go on holding, to be changed in place;
        None where they do not follow each other.
        """
        if not self._are_words(at):
            return None
        registers, (place, *_) = team.wave.registers[self.places[0].name], self.places
        first = (at.start - place.start) // 4
        spread = _spread(accumulator, first, registers.unit // 4)
        held = registers.held((spread, team.look.key))
        if not isinstance(held, NewerMatrix):
            words = spread.matrix(registers.flat(team.ctas, team.warps))
            held = NewerMatrix(team.look, spread, frozenset(range(first, first + self.count)), words)
            registers.hold((spread, team.look.key), held)
        return held.matrix

    def is_initialised(self, team: Team, at: RegisterAddress) -> bool:
        """Is the register certainly initialised? False where finding out would take a look at many flags."""
        registers = team.wave.shadows.registers[self.places[0].name]
        if not self._are_words(at) or not registers.is_one:
            return False
        first = (at.start - self.places[0].start) // 4
        return registers.all_set(team.look, range(first, first + self.count))
