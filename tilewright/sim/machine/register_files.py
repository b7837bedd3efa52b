"""Operands of instructions in registers: where they lie, what they hold, and as which matrix they may be kept."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

import numpy as np

from tilewright.sim.machine.address import Address
from tilewright.sim.machine.memory import UNITS, initialised
from tilewright.sim.machine.registers import NewerMatrix, Registers, Spread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tilewright.isa.products import Accumulator
    from tilewright.sim.machine.arrays import Array, Bits, Flags, Value
    from tilewright.sim.machine.batch import Batch, Look
    from tilewright.sim.machine.masks import Mask
    from tilewright.sim.machine.places import Place
    from tilewright.sim.machine.sites import Site
    from tilewright.sim.machine.uniform import Alike

__all__ = ["RegisterAddress", "RegisterFile", "stacked"]

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

    places: tuple[Place, ...]
    width: int
    count: int
    many: bool
    run: bool
    sites: tuple[Site, ...]
    kind: str

    def check(self, batch: Batch, mask: Mask, at: RegisterAddress) -> None:
        """Check the registers' addresses before they are accessed."""
        pending = batch.wave.pending
        if isinstance(at, Address):
            if not at.parts and self.is_inside(at.start) and not (pending.loading or pending.watched):
                return
            self.sites[0].reach(batch, mask, at)
            if self.count > 1:
                self.sites[0].reach(batch, mask, at.shifted((self.count - 1) * self.width))
        else:
            for site, one in zip(self.sites, at, strict=True):
                site.reach(batch, mask, one)

    def is_inside(self, start: int) -> bool:
        """Are all registers from this address on inside of the buffer, and aligned?"""
        last = self.places[0].start + self.places[0].nbytes - self.count * self.width
        return self.places[0].start <= start <= last and not start & (self.width - 1)

    def load(self, batch: Batch, mask: Mask, at: RegisterAddress, *, checked: bool = False) -> Array:
        """(CTAs, warps, registers, 32) bits, or (CTAs, warps, 32) of an operand that is no vector."""
        if not checked:
            self.check(batch, mask, at)
        bits = self._read(batch, at, batch.wave.registers)
        return bits.view(FLOATS[self.kind]) if self.kind in FLOATS else bits

    def flags(self, batch: Batch, mask: Mask, at: RegisterAddress) -> Bits:
        """The flags of the bits that `load` reads."""
        shadows = batch.wave.shadows
        look, _ = shadows.view(batch, mask, *self._each(at))
        return self._read(look, at, shadows.registers)

    def _read(self, batch: Look, at: RegisterAddress, registers: Mapping[str, Registers]) -> Bits:
        if self._are_words(at):
            return registers[self.places[0].name].words(batch, at.start, self.count)
        found = [
            registers[place.name].load(batch, one, self.width)
            for place, one in zip(self.places, self._each(at), strict=True)
        ]
        return stacked(*found) if self.many else found[0]

    def _are_words(self, at: RegisterAddress) -> TypeGuard[Address]:
        """Are they words that follow each other, at the same place in all threads?"""
        return isinstance(at, Address) and self.many and self.width == 4 and not at.parts

    def _each(self, at: RegisterAddress) -> list[Address]:
        return [at.shifted(k * self.width) for k in range(self.count)] if isinstance(at, Address) else list(at)

    def store(
        self,
        batch: Batch,
        mask: Mask,
        at: RegisterAddress,
        result: Array,
        *,
        checked: bool = False,
        alike: Alike | None = None,
    ) -> None:
        """alike: CTAs and warps that get the same, which then comes once."""
        if not checked:
            self.check(batch, mask, at)
        self._write(batch, mask, at, result, batch.wave.registers, alike)

    def matrix(self, batch: Batch, at: RegisterAddress, accumulator: Accumulator) -> Array | None:
        """(CTAs, warps, rows, columns): these registers as a matrix that they go on holding, to be changed in place;
        None where they do not follow each other.
        """
        if not self._are_words(at):
            return None
        registers, (place, *_) = batch.wave.registers[self.places[0].name], self.places
        first = (at.start - place.start) // 4
        spread = _spread(accumulator, first, registers.unit // 4)
        held = registers.held((spread, batch.key))
        if not isinstance(held, NewerMatrix):
            words = spread.matrix(registers.flat(batch.ctas, batch.warps))
            held = NewerMatrix(batch, spread, frozenset(range(first, first + self.count)), words)
            registers.hold((spread, batch.key), held)
        return held.matrix

    def is_initialised(self, batch: Batch, at: RegisterAddress) -> bool:
        """Is the register certainly initialised? False where finding out would take a look at many flags."""
        shadows = batch.wave.shadows
        if not self._are_words(at) or not shadows.is_collapsed:
            return False
        first = (at.start - self.places[0].start) // 4
        return bool(shadows.registers[self.places[0].name].all_set(batch.single, range(first, first + self.count)))

    def store_flags(self, batch: Batch, mask: Mask, at: RegisterAddress, flags: Flags) -> None:
        """The flags of what `store` wrote; None: all of it is initialised."""
        if flags is None:
            shape = (1, 1, self.count, 32) if self.many else (1, 1, 32)
            flags = np.broadcast_to(initialised(self.width), shape)
        look, active, flags = batch.wave.shadows.view_to_store(batch, mask, flags, *self._each(at))
        self._write(look, active, at, flags, batch.wave.shadows.registers)

    def _write(
        self,
        batch: Look,
        mask: Mask,
        at: RegisterAddress,
        result: Array,
        registers: Mapping[str, Registers],
        alike: Alike | None = None,
    ) -> None:
        bits = np.asarray(result)
        bits = bits.view(UNITS[self.width]) if bits.dtype.itemsize == self.width else bits.astype(UNITS[self.width])
        if self._are_words(at):
            registers[self.places[0].name].store_words(batch, at.start, bits, mask, alike)
            return
        for k, (place, one) in enumerate(zip(self.places, self._each(at), strict=True)):
            registers[place.name].store(batch, one, self.width, bits[..., k, :] if self.many else bits, mask)
