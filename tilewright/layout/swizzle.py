"""SwizzleLayout: address bits XORed into lower (or higher) address bits, against bank conflicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tilewright.errors import LayoutError, described
from tilewright.layout.axes import Axis, m
from tilewright.layout.base import Layout, Table, require_layout
from tilewright.layout.compose import ComposeLayout
from tilewright.layout.facts import INTS, Facts, Value, as_int, public
from tilewright.layout.iters import row_major
from tilewright.layout.swizzled import SwizzledLayout
from tilewright.layout.tile import TileLayout

ADDRESS_BITS = 62  # of the int64 in which tables hold addresses, the sign and one more left out


@public.methods
@public.kind_of("SwizzleLayout(...)")
@public.fields
@dataclass(frozen=True, slots=True, repr=False)
class SwizzleLayout(SwizzledLayout):
    """XOR the address bits ``[M+S, M+S+B)`` into ``[M, M+B)``, M, B, S being per_element, swizzle_len, atom_len.

    Addresses are in elements: runs of ``2**M`` stay together. ``swizzle_inner=False`` mirrors it: the low bits are
    XORed into the high ones. A swizzle undoes itself.

    >>> SwizzleLayout(3, 3, 3).apply(64 + 8)
    {'m': 64}

    Raises LayoutError where ``S < B`` (source and target bits would overlap), or for a negative field.
    """

    per_element: int
    swizzle_len: int
    atom_len: int
    swizzle_inner: bool = True

    def __post_init__(self) -> None:
        fields = {name: getattr(self, name) for name in ("per_element", "swizzle_len", "atom_len")}
        for name, value in fields.items():
            number = as_int(value)
            if number is None or number < 0:
                raise LayoutError(f"{name} of a swizzle is {value}", given=value, allowed="an int of at least 0")
            object.__setattr__(self, name, number)
        if not isinstance(self.swizzle_inner, bool):
            given = described(self.swizzle_inner)
            raise LayoutError("swizzle_inner of a swizzle is a choice", given=given, allowed="True or False")
        if self.atom_len < self.swizzle_len:
            raise LayoutError(
                f"a swizzle of {self.swizzle_len} bits over a distance of {self.atom_len}",
                given=f"atom_len {self.atom_len} < swizzle_len {self.swizzle_len}",
                allowed="atom_len of at least swizzle_len, or source and target bits overlap",
            )
        if (bits := self.per_element + self.swizzle_len + self.atom_len) > ADDRESS_BITS:
            raise LayoutError(f"a swizzle of {bits} address bits", given=bits, allowed=f"at most {ADDRESS_BITS}")

    def __repr__(self) -> str:
        mirrored = "" if self.swizzle_inner else ", swizzle_inner=False"
        return (
            f"SwizzleLayout(per_element={self.per_element}, swizzle_len={self.swizzle_len}, "
            f"atom_len={self.atom_len}{mirrored})"
        )

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The memory axis m."""
        return (m,)

    @property
    def period(self) -> int:
        """Elements after which the pattern repeats, and whose multiples it maps to themselves."""
        return 1 << (self.per_element + self.swizzle_len + self.atom_len)

    @property
    def block(self) -> int:
        """Elements of the aligned blocks that the swizzle permutes within themselves."""
        return 1 << (self.per_element + self.swizzle_len) if self.swizzle_inner else self.period

    def address(self, value: Value) -> Value:
        """The address an address moves to, by shifts, ``&`` and ``^`` alone.

        >>> SwizzleLayout(0, 2, 2).address(0b1100)
        15
        """
        if not self.swizzle_len:
            return value
        low = ((1 << self.swizzle_len) - 1) << self.per_element
        if self.swizzle_inner:
            return value ^ ((value >> self.atom_len) & low)
        return value ^ ((value & low) << self.atom_len)

    def place(self, *coord: Value, shape: Sequence[Value] | None = None, facts: Facts = INTS) -> dict[str, Value]:
        """The address of a row-major index, or of a coordinate of ``shape``."""
        if shape is None and len(coord) == 1:
            return {"m": facts.simplify(self.address(coord[0]))}
        rows = [self.size()] if shape is None else shape
        return self.over(rows).place(*coord, shape=rows, facts=facts)

    def counted(self, rank: int, shape: Sequence[Value] | None = None) -> Sequence[Value] | None:
        """The extents of ``shape``; without one the addresses have no end, as the pattern repeats."""
        return shape

    def over(self, shape: Sequence[Value]) -> ComposeLayout:
        """The swizzle of a row-major tile: what a bare swizzle means as the layout of a buffer of that shape.

        >>> SwizzleLayout(3, 3, 3).over((32, 64)).size()
        2048
        """
        return self.after(TileLayout(row_major(shape)))

    def after(self, tile: TileLayout) -> ComposeLayout:
        """The layout that leads where ``tile`` does, swizzled."""
        return ComposeLayout(self, tile)

    def parted(self, shape: Sequence[Value]) -> tuple[SwizzleLayout, TileLayout]:
        """The swizzle, and rows of ``shape``."""
        return self, TileLayout(row_major(shape))

    def size(self, axis: str | Axis | None = None) -> int:
        """Elements of one period."""
        return self.period if axis is None or Axis.get(axis).name == "m" else 1

    def span(self, axis: str | Axis | None = None) -> int:
        """The number of elements: a swizzle permutes one period in place."""
        return self.size(axis)

    def cosize(self, axis: str | Axis = "m") -> int:
        """The number of elements: a swizzle permutes one period in place."""
        return self.size(axis)

    def table(self, shape: Sequence[int]) -> Table:
        """The address of each element of a row-major tile: {"m": int64 array of ``(*shape, 1)``}."""
        return self.over(shape).table(shape) or {"m": np.zeros(1, np.int64)}  # of a tile without dimensions

    def canonicalize(self, facts: Facts = INTS) -> SwizzleLayout:
        """Itself; of no bits, the swizzle of nothing at all."""
        return self if self.swizzle_len else SwizzleLayout(0, 0, 0)

    def equivalent(self, other: Layout, facts: Facts = INTS) -> bool:
        """Equality by meaning: the same swizzle, or a layout of tiles over it that is row major."""
        if isinstance(other, SwizzleLayout):
            return self.canonicalize() == other.canonicalize()
        require_layout(other)
        return self.over([other.size()]).equivalent(other, facts)

    def is_trivial(self, facts: Facts = INTS) -> bool:
        """Does it move nothing?"""
        return not self.swizzle_len

    def collision(self, counts: Callable[[Axis], bool] = lambda _: True) -> None:
        """None: no two addresses move to one."""

    def inverse(self, facts: Facts = INTS) -> SwizzleLayout:
        """Itself: the bits it reads are not those it changes."""
        return self

    def storage(self) -> SwizzleLayout:
        """Itself: there are no thread axes."""
        return self

    def pack(self, n: int, facts: Facts = INTS) -> SwizzleLayout:
        """Addresses in packs of ``n``: the runs that stay together are ``n`` times shorter.

        >>> SwizzleLayout(3, 3, 3).pack(2)
        SwizzleLayout(per_element=2, swizzle_len=3, atom_len=3)

        Raises LayoutError unless ``n`` is a power of two within a run.
        """
        return self._in_units("pack", n, 1 << self.per_element, -1)

    def unpack(self, n: int) -> SwizzleLayout:
        """Addresses in n-ths of an element. Inverse of `pack`."""
        return self._in_units("unpack", n, 1 << (ADDRESS_BITS - self.period.bit_length() + 1), 1)

    def _in_units(self, verb: str, n: int, most: int, sign: int) -> SwizzleLayout:
        number = as_int(n) or 0
        if number < 1 or number & (number - 1) or number > most:
            raise LayoutError(
                f"cannot {verb} {self} by {n}",
                given=n,
                allowed=f"a power of two up to {most}" + (": the elements that stay together" if sign < 0 else ""),
            )
        return replace(self, per_element=self.per_element + sign * (number.bit_length() - 1))

    tile = SwizzledLayout.tile_with

    def expand_threads(self, facts: Facts = INTS) -> SwizzleLayout:
        """Itself: there are no thread axes."""
        return self

    def permute_dims(self, perm: Sequence[int]) -> Layout:
        """Raises LayoutError: a bare swizzle has no iters; `over` gives it those of a shape."""
        raise self._bare("permute", tuple(perm))

    def permute_by_groups(self, separators: Sequence[int], perm: Sequence[int]) -> Layout:
        """Raises LayoutError: a bare swizzle has no iters; `over` gives it those of a shape."""
        raise self._bare("permute", tuple(perm))

    def __add__(self, other: object) -> Layout:
        """Raises LayoutError: a bare swizzle has no tile layout that an offset or a replica could move."""
        raise self._bare("move", other)

    __radd__ = __add__

    def _bare(self, verb: str, given: object) -> LayoutError:
        return LayoutError(
            f"{self} alone has no extents, and so nothing to {verb}",
            given=given,
            allowed=f"the swizzle of a tile: {self}.over(shape)",
        )
