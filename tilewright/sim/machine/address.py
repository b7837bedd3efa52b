"""Addresses as sums of small arrays.

``base + 4 * (256 * ctaid + tid)`` is a number, a column over the CTAs and a row over the threads of a CTA. Kept apart,
bounds and alignment are those of a few hundred numbers instead of a million, and where both parts climb in even steps
the access needs no index array at all. Parts that depend on thread numbers only are made once and kept.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.arrays import Array, Ints
from tilewright.sim.machine.uniform import Uniform

if TYPE_CHECKING:
    from tilewright.sim.machine import Look, Shape

__all__ = ["Address", "Part", "are_apart"]

MOST_PARTS, MOST_SUMS = 1024, 64  # parts that are kept
SPARSE = 16  # times as many places as numbers: a flag for each place costs as much as sorting the numbers


class Part:
    """Byte offsets, (CTAs or 1, warps or 1, 32 or 1), and what follows from them, computed when first read."""

    def __init__(self, values: Ints, *, kept: bool = False) -> None:
        self.kept = kept  # is the part kept, so that what follows from it may be kept, too?
        self.values = values if values.ndim == 3 else np.asarray(values, np.int64).reshape(1, 1, 1)
        self._units: dict[int, Ints] = {}
        self._orders: dict[int, Ints | None] = {}
        self._scaled: dict[tuple[int, int], Part] = {}
        self.wavefronts: dict[tuple[int, ...], tuple[int, int]] = {}  # see `tilewright.sim.machine.sites`

    @classmethod
    def of_lanes(cls, values: Ints) -> Part:
        """A part for addresses computed lane by lane, which are not tested for even steps."""
        part = cls(values)
        part.strides = None
        return part

    @cached_property
    def lo(self) -> int:
        """The smallest offset."""
        return int(self.values.min())

    @cached_property
    def hi(self) -> int:
        """The largest offset."""
        return int(self.values.max())

    @cached_property
    def bits(self) -> int:
        """All offsets or-ed together: their low bits give the alignment."""
        return int(np.bitwise_or.reduce(self.values, axis=None))

    @cached_property
    def varying(self) -> int:
        """The bits in which offsets differ, counted from the smallest offset."""
        return int(np.bitwise_or.reduce(self.values - self.lo, axis=None))

    @cached_property
    def strides(self) -> tuple[int, int, int] | None:
        """The steps along the axes, where the offsets climb evenly along each; None where they do not."""
        v = self.values
        steps = [int(v[1, 0, 0] - v[0, 0, 0]) if v.shape[0] > 1 else 0]
        steps.append(int(v[0, 1, 0] - v[0, 0, 0]) if v.shape[1] > 1 else 0)
        steps.append(int(v[0, 0, 1] - v[0, 0, 0]) if v.shape[2] > 1 else 0)
        even = v[:1, :1, :1]
        for axis, step in enumerate(steps):
            shape = [1, 1, 1]
            shape[axis] = -1
            even = even + np.arange(0, step * v.shape[axis], step).reshape(shape) if step else even
        return (steps[0], steps[1], steps[2]) if bool((even == v).all()) else None

    @cached_property
    def alike(self) -> Uniform:
        """Which CTAs have the same offsets."""
        return Uniform.of_rows(self.values.reshape(len(self.values), -1))

    @cached_property
    def firsts(self) -> Part:
        """The offsets of the CTAs that are not like an earlier one."""
        return Part(self.values[self.alike.firsts], kept=self.kept) if len(self.values) > 1 else self

    def order(self, width: int) -> Ints | None:
        """Which offset is the first, the second and so on, if each is ``width`` bytes behind the one before."""
        if width not in self._orders:
            order = np.argsort(self.values, axis=None)
            steps = np.diff(self.values.reshape(-1)[order])
            self._orders[width] = order if bool((steps == width).all()) else None
        return self._orders[width]

    def scaled(self, up: int, down: int) -> Part:
        """The offsets, multiples of ``down``, times ``up / down``."""
        if (up, down) not in self._scaled:
            self._scaled[up, down] = Part(self.values // down * up, kept=self.kept)
        return self._scaled[up, down]

    def units(self, shift: int) -> Ints:
        """The offsets in units of ``1 << shift`` bytes; they are multiples of it."""
        if shift not in self._units:
            self._units[shift] = self.values >> shift
        return self._units[shift]


def int64(values: Array) -> Ints:
    """Numbers of any width as offsets."""
    return values.astype(np.int64)


def keep(parts: dict[object, Part], key: object, values: Ints) -> Part:
    """A part for these offsets, remembered while there is room."""
    if len(parts) >= MOST_PARTS:
        return Part(values)
    parts[key] = Part(values, kept=True)
    return parts[key]


class Address:
    """``start + parts``, in bytes: one number per lane, added up only where all numbers are needed."""

    __slots__ = ("_full", "parts", "start")

    def __init__(self, start: int, *parts: Part) -> None:
        self.start = start
        self.parts = parts
        self._full: Ints | None = None

    @property
    def lo(self) -> int:
        """The smallest, taken over all lanes, active or not."""
        lo = self.start
        for part in self.parts:
            lo += part.lo
        return lo

    @property
    def hi(self) -> int:
        """The largest, taken over all lanes, active or not."""
        hi = self.start
        for part in self.parts:
            hi += part.hi
        return hi

    @property
    def bits(self) -> int:
        """Low bits that are zero here are zero in every address."""
        bits = self.start
        for part in self.parts:
            bits |= part.bits
        return bits

    @property
    def varies_by_cta(self) -> bool:
        """Can two CTAs have different addresses?"""
        return any(len(part.values) > 1 for part in self.parts)

    def alike(self, ctas: int) -> Uniform:
        """Which of so many CTAs certainly have the same addresses."""
        varying = [part for part in self.parts if len(part.values) > 1]
        if len(varying) > 1 or not all(part.kept for part in self.parts):
            return Uniform.nobody(ctas)
        uniform = varying[0].alike if varying else Uniform(1, ctas, 1)
        return uniform if uniform.firsts is not None else Uniform.nobody(ctas)

    def firsts(self, alike: Uniform) -> Address:
        """The addresses of the CTAs that are not like an earlier one, where `alike` says who is."""
        return self if alike.same == 1 else Address(self.start, *(part.firsts for part in self.parts))

    @property
    def shape(self) -> Shape:
        """What all parts broadcast to: (CTAs or 1, warps or 1, 32 or 1)."""
        if len(self.parts) == 1:
            return self.parts[0].values.shape
        return np.broadcast_shapes((1, 1, 1), *(part.values.shape for part in self.parts))

    def full(self) -> Ints:
        """All of them, (CTAs or 1, warps or 1, 32 or 1)."""
        if self._full is None:
            full = self.parts[0].values if self.parts else np.zeros((1, 1, 1), np.int64)
            for part in self.parts[1:]:
                full = full + part.values
            self._full = full + self.start if self.start else full
        return self._full

    def units(self, look: Look, shift: int, pitch: int = 0) -> tuple[int, Ints]:
        """All of them in units of ``1 << shift`` bytes, as a number to add to each and an array.

        pitch: units from one CTA's row to the next, for memory that has one for each. The array is kept with the batch
        where its parts are kept.
        """
        if not self._is_kept or self.bits & ((1 << shift) - 1):
            units = self.full() >> shift
            return 0, units + look.rows(pitch) if pitch else units
        key = (shift, pitch, *map(id, self.parts))
        if key not in look.sums:
            total = look.rows(pitch) if pitch else np.zeros((1, 1, 1), np.int64)
            for part in self.parts:
                total = total + part.units(shift)
            if len(look.sums) >= MOST_SUMS:
                look.sums.clear()
            look.sums[key] = total
        return self.start >> shift, look.sums[key]

    @property
    def _is_kept(self) -> bool:
        """Are all parts kept, and no offset negative?"""
        for part in self.parts:
            if not part.kept or part.lo < 0:
                return False
        return self.start >= 0

    def is_one_to_one(self, look: Look, shift: int, pitch: int = 0) -> bool:
        """Is it certain that no two lanes of a batch have one address, a multiple of ``1 << shift`` bytes? Known for
        even steps, and for kept parts.

        pitch: units from one CTA's row to the next, for memory that has one for each.
        """
        if self._climbs(look, pitch << shift):
            return True
        if not all(part.kept for part in self.parts):
            return False
        key = (shift, pitch, *map(id, self.parts))
        if key not in look.one_to_one:
            _, units = self.units(look, shift, pitch)
            look.one_to_one[key] = units.shape == look.shape and _are_distinct(units)
        return look.one_to_one[key]

    def _climbs(self, look: Look, pitch: int) -> bool:
        """Is each axis's step longer than all that the inner axes span together?"""
        steps = self.strides()
        if steps is None:
            return False
        reach = 0
        for step, extent in zip((steps[2], steps[1], steps[0] + pitch * look.ctas.step), look.shape[::-1], strict=True):
            if extent > 1 and abs(step) <= reach:
                return False
            reach += abs(step) * (extent - 1)
        return True

    def strides(self) -> tuple[int, int, int] | None:
        """The steps in bytes along CTAs, warps and lanes, where there are such."""
        ctas = warps = lanes = 0
        for part in self.parts:
            if (steps := part.strides) is None:
                return None
            ctas, warps, lanes = ctas + steps[0], warps + steps[1], lanes + steps[2]
        return ctas, warps, lanes

    def first(self) -> int:
        """The address of the first lane."""
        first = self.start
        for part in self.parts:
            first += int(part.values[0, 0, 0])
        return first

    def scaled(self, factor: int) -> list[Part]:
        """The address times ``factor``."""
        return [part.scaled(factor, 1) for part in self.parts]

    def shifted(self, nbytes: int) -> Address:
        """The address so many bytes further on."""
        return Address(self.start + nbytes, *self.parts)


def are_apart(width: int, *every: Address) -> bool:
    """Is it certain that no two of these accesses, of ``width`` bytes in each lane, share a byte?

    It is where all have the same parts, no two parts vary in the same bit, and the smallest address of each has none of
    these bits: then offsets add up without a carry, and the other bits tell which of the accesses an address is of.
    """
    first, bits, lowest = every[0], width - 1, 0
    for part in first.parts:
        if bits & part.varying:
            return False
        bits |= part.varying
        lowest += part.lo
    starts = {at.start + lowest for at in every if at.parts == first.parts}
    return len(starts) == len(every) and min(starts) >= 0 and not any(start & bits for start in starts)


def _are_distinct(numbers: Ints) -> bool:
    """Are no two of them equal? Where they lie close together, as many flags are set as there are numbers."""
    if numbers.min() < 0 or numbers.max() >= SPARSE * numbers.size:
        ordered = np.sort(numbers, axis=None)
        return bool((ordered[1:] != ordered[:-1]).all())
    flags = np.zeros(int(numbers.max()) + 1, np.bool_)
    flags[numbers.reshape(-1)] = True
    return int(np.count_nonzero(flags)) == numbers.size
