"""Byte-exact memory: a block of rows of bytes, read and written through a view of the access's width; and rows that
stand for all CTAs as long as these are alike.

Global buffers are blocks of one row; the shared arenas of a wave of CTAs are one block with a row per CTA. A block is
also what a check uses as the shadow of another one, then often with one row for all CTAs (`CtaRows`).
A misaligned access is an error on hardware, so every access is a gather of whole units: a vector of 16 bytes is one
item of a void type, which no arithmetic can touch. Addresses are in bounds when they come here.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tilewright.host import zeros
from tilewright.sim.machine.address import Address, Part
from tilewright.sim.machine.team import spread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tilewright.sim.machine import Array, Bits, Ints, Look, Team, Uniform

__all__ = ["UNITS", "WIDEST", "CtaRows", "MemoryRows", "in_turns", "initialised"]

UNITS: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
    16: np.dtype("V16"),
    32: np.dtype("V32"),
    **{width: np.dtype(f"V{width}") for width in (64, 128, 256)},  # tags of the race check
}
SHIFT = {width: width.bit_length() - 1 for width in UNITS}
WIDEST = 256
KEPT_BYTES = 8 << 20  # larger blocks come from the system, which clears what is touched of them


@cache
def initialised(width: int) -> Bits:
    """The flags of an initialised item of so many bytes, see `tilewright.sim.machine.unknown`; (1, 1, 1)."""
    return np.full((1, 1, 1, width), 1, np.uint8).view(UNITS[width])[..., 0]


@cache
def keep_pages() -> None:
    """Make the C library keep the memory that arrays give back, whose pages the system else has to clear anew.

    glibc keeps blocks as large as the largest one that was ever given back, up to 32 MiB. Nothing touches this one.
    """
    np.empty(KEPT_BYTES, np.uint8)


# What each CTA of a wave has, as one row that stands for all of them until two of them differ.
#
# Most kernels have all CTAs do the same at the same places. What is kept of it (flags of initialised bytes, tags of
# accesses, clocks) is then the same in all, and costs as much as that of one. Who reads asks where a row is (`at`,
# `row`, `taken`), who changes one takes it for itself (`own`), or says whether all do alike (`stays_one`, `to_store`).


class CtaRows:
    """tables: names of the arrays (rows, ...), which have a row for each of ``ctas``, or one for all."""

    tables: ClassVar[tuple[str, ...]] = ("data",)

    def __init__(self, rows: int, ctas: int) -> None:
        self.rows = rows
        self.ctas = ctas
        self.is_one = rows == 1  # is there one row?
        self.is_for_all = rows < ctas  # does it stand for several CTAs?

    def at(self, rows: Ints) -> Ints:
        """Where the rows of CTAs are kept."""
        return np.zeros_like(rows) if self.is_one else rows

    def row(self, row: int) -> int:
        """The same of one."""
        return 0 if self.is_one else row

    def taken(self, ctas: slice) -> slice:
        """The same of a range."""
        return slice(0, 1, 1) if self.is_one else ctas

    def own(self, rows: Ints) -> Ints:
        """Where the rows of CTAs are to be changed: each has its own from now on."""
        self.part()
        return rows

    def stays_one(self, *, alike: bool) -> bool:
        """Does one row go on standing for all CTAs, as they do alike? Else each has its own from now on."""
        if self.is_for_all and not alike:
            self.part()
        return self.is_for_all

    def part(self) -> bool:
        """From now on each CTA has a row of its own. Was there one for all?"""
        was_one = self.is_for_all
        if was_one:
            for name in self.tables:
                setattr(self, name, np.repeat(getattr(self, name), self.ctas, axis=0))
            self.rows, self.is_one, self.is_for_all = self.ctas, False, False
            self.parted()
        return was_one

    def parted(self) -> None:
        """What was made of the one row is forgotten, or parts, too."""

    def to_store(self, team: Team, bits: Bits, *at: Address) -> tuple[Team, Bits]:
        """How to write ``bits`` where one row is for all: there if all CTAs write the same at the same places, else in
        the row of each.
        """
        bits, alike = np.atleast_3d(bits), team.as_one(*at)
        if alike is not None and (len(bits) == 1 or (bits == bits[:1]).all()):
            return alike, bits[:1]
        self.part()
        return team, bits


# A block of memory.


class MemoryRows(CtaRows):
    """Rows of bytes, (rows, pitch), contiguous. ``nbytes`` of each row are there; behind them may be padding up to a
    whole unit.
    """

    def __init__(self, data: NDArray[np.uint8], nbytes: int, ctas: int = 1) -> None:
        super().__init__(len(data), ctas)
        self.data = data
        self.nbytes = nbytes
        self.pitch = data.shape[1]
        self._views: dict[int, tuple[Bits, Bits]] = {}
        self._alike: dict[tuple[int, int], tuple[slice, Uniform]] = {}  # by first byte and end: see `fill`
        self._set: set[tuple[int, int]] = set()  # see `are_set`; empty after any change

    @classmethod
    def zeros(cls, rows: int, nbytes: int, ctas: int = 0) -> MemoryRows:
        """``rows`` rows of so many zero bytes each; one row may be for several CTAs."""
        return cls(zeros((rows, -(-max(nbytes, 1) // WIDEST) * WIDEST)), nbytes, ctas or rows)

    @classmethod
    def of(cls, array: Array) -> MemoryRows:
        """The bytes of a host array, not copied."""
        flat = array.reshape(-1).view(np.uint8)
        return cls(flat[None], flat.size)

    def view(self, width: int) -> Bits:
        """(rows, units): all whole units of ``width`` bytes, to be read."""
        return self._both_views(width)[0]

    def to_change(self, width: int) -> Bits:
        """The same, to be written."""
        self._alike.clear()
        self._set.clear()
        return self._both_views(width)[1]

    def _both_views(self, width: int) -> tuple[Bits, Bits]:
        if width not in self._views:
            whole = self.pitch // width * width
            for_writes = self.data[:, :whole].view(UNITS[width])
            for_reads = for_writes.view()
            for_reads.flags.writeable = False
            self._views[width] = for_reads, for_writes
        return self._views[width]

    # Rows that are alike

    def fill(self, ctas: slice, first: int, units: Bits, alike: Uniform) -> None:
        """Write neighbouring units, (CTAs that are not alike, units), from byte ``first`` of some CTAs' rows on."""
        end = first + units.shape[1] * units.itemsize
        self._forget(first, end)
        self._set.clear()
        octets = np.ascontiguousarray(units).view(np.uint8).reshape(alike.outer, 1, alike.inner, -1)
        self.data[ctas, first:end].reshape(*alike.digits, -1)[...] = octets
        if alike.same > 1:
            self._alike[first, end] = ctas, alike

    def alike(self, ctas: slice, first: int, end: int) -> Uniform | None:
        """Which of some CTAs have the same bytes from ``first`` to before ``end``; None where that is not known."""
        uniform: Uniform | None = None
        for (start, stop), (whose, alike) in sorted(self._alike.items(), key=lambda item: item[0]):
            if start <= first < stop and whose == ctas and uniform in (None, alike):
                first, uniform = stop, alike
        return uniform if first >= end else None

    def _forget(self, first: int, end: int) -> None:
        for start, stop in [*self._alike]:
            if (first < stop and start < end) or not 0 <= first <= end <= self.pitch:
                del self._alike[start, stop]

    def are_set(self, first: int, end: int) -> bool:
        """In a shadow: are all flags from byte ``first`` to before ``end`` certainly set, in all CTAs?"""
        if not self.is_one or first < 0:
            return False
        if (first, end) not in self._set:
            if not self.data[0, first:end].view(np.bool_).all():
                return False
            self._set.add((first, end))
        return True

    def parted(self) -> None:
        self._views.clear()

    # Gather

    def load(self, look: Look, at: Address, width: int, only: Team | None = None) -> Bits:
        """The unit at each address, (CTAs or 1, warps or 1, 32 or 1). May be a view of memory: use it up or copy it.

        only: given where addresses of other lanes may be anywhere.
        """
        if only is not None:
            if width > self.data.shape[1]:  # no lane is active: each would read beyond the end
                return np.zeros((1, 1, 1), UNITS[width])
            at = Address(0, Part(np.where(only.full, at.full(), 0)))
        strides = at.strides()
        if strides is None or at.bits & (width - 1):
            return self._gathered(look, at, width)
        return self._strided(look, at, width, strides)

    def _gathered(self, look: Look, at: Address, width: int) -> Bits:
        view = self.view(width)
        # a lone CTA may reach another one's row
        if self.is_one or (look.shape[0] > 1 and not at.varies_by_cta):
            first, units = at.units(look, SHIFT[width])
            if self.is_one:
                return view[0, first:].take(units)
            items = view[look.ctas].take(units.reshape(-1) + first, axis=1)  # a view would copy all
            return items.reshape(items.shape[0], *units.shape[1:])
        first, units = at.units(look, SHIFT[width], self.pitch // width)
        return view.reshape(-1)[first:].take(units)

    def _strided(self, look: Look, at: Address, width: int, strides: tuple[int, ...]) -> Bits:
        """A window on memory: no index array, nothing moved."""
        shape = list(at.shape)
        first = at.first()
        cta = strides[0]
        if not self.is_one:
            shape[0] = look.shape[0]
            first += look.ctas.start * self.pitch
            cta += look.ctas.step * self.pitch
        return np.ndarray(tuple(shape), UNITS[width], self.data.data, first, (cta, strides[1], strides[2]))

    # Scatter

    def store(self, team: Team, at: Address, width: int, bits: Bits) -> None:
        """Write a unit at each active address; of several lanes with one address the last wins."""
        if self.is_for_all:
            team, bits = self.to_store(team, bits, at)
        if self._alike:
            self._forget(at.lo, at.hi + width)
        self._set.clear()
        strides = at.strides()
        if strides is not None and not at.bits & (width - 1):
            window = self._window(team, at, width, strides)
            if window is not None:
                if team.array is None:
                    window[...] = bits
                else:
                    np.copyto(window, bits, where=team.array)
                return
        self._scattered(team, at, width, bits if bits.ndim == 3 else np.atleast_3d(bits))

    def _window(self, team: Team, at: Address, width: int, strides: tuple[int, ...]) -> Bits | None:
        """The places as a strided window where no two lanes share one, and it has the team's shape; else None."""
        if self.is_one and team.shape[0] > 1 and strides[0] == 0:
            return None
        reach = width
        for step, extent in zip(reversed(strides[1:]), (32, team.shape[1]), strict=True):
            if extent > 1 and abs(step) < reach:
                return None
            reach = abs(step) * (extent - 1) + reach if extent > 1 else reach
        if strides[0] and team.shape[0] > 1 and abs(strides[0]) < reach and self.is_one:
            return None
        if team.array is not None and not 0 <= at.lo <= at.hi + width <= self.nbytes:
            return None
        return self._strided(team.look, at, width, strides)

    def _scattered(self, team: Team, at: Address, width: int, bits: Bits) -> None:
        view = self._both_views(width)[1]
        shape = team.shape
        first, units = at.units(team.look, SHIFT[width], 0 if self.is_one else self.pitch // width)
        if self.is_one and units.shape[0] == 1 and bits.shape[0] == 1 and not team.varies_by_cta:
            shape = (1, *shape[1:])  # every CTA writes the same at the same place
            team = team.single
        where = spread(units, shape).reshape(-1)
        what = spread(bits, shape).reshape(-1)
        if team.array is not None:
            where, what = where.take(team.flat), what.take(team.flat)
        view.reshape(-1)[first:][where] = what


def in_turns(address: Ints, lanes: Ints) -> list[Ints]:
    """``lanes`` in groups without a common address, in the order in which each address is met."""
    if len(lanes) == 1:
        return [lanes]
    order = np.argsort(address[lanes], kind="stable")
    ordered = address[lanes][order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    rank = np.arange(len(ordered)) - np.repeat(starts, np.diff(np.r_[starts, len(ordered)]))
    by_rank = np.argsort(rank, kind="stable")
    ends, turned = np.cumsum(np.bincount(rank)).tolist(), lanes[order][by_rank]
    return [turned[first:end] for first, end in pairwise([0, *ends])]


def combined(words: Array, place: Ints, combine: Callable[..., Array], values: Sequence[Array], order: Ints) -> Array:
    """Change words of a block at these places, those that have one in turns; what each has found there."""
    flat, olds = words.reshape(-1), np.empty(len(place), words.dtype)
    for turn in in_turns(place, order):
        there = place[turn]
        olds[turn] = old = flat[there]
        flat[there] = np.asarray(combine(old, *(value[turn] for value in values))).astype(words.dtype)
    return olds
