"""SwizzleLayout: address bits XORed into lower (or higher) address bits, against bank conflicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tilewright.errors import LayoutError
from tilewright.layout.axes import Axis, m
from tilewright.layout.base import Layout, Region, Table
from tilewright.layout.compose import ComposeLayout
from tilewright.layout.facts import INTS, Facts, Value, as_int, public
from tilewright.layout.iters import row_major
from tilewright.layout.tables import check_table_size
from tilewright.layout.tile import TileLayout

__all__ = ["SwizzleLayout"]


@public.methods
@public.kind_of("SwizzleLayout(...)")
@dataclass(frozen=True, slots=True, repr=False)
class SwizzleLayout(Layout):
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
        if self.atom_len < self.swizzle_len:
            raise LayoutError(
                f"a swizzle of {self.swizzle_len} bits over a distance of {self.atom_len}",
                given=f"atom_len {self.atom_len} < swizzle_len {self.swizzle_len}",
                allowed="atom_len of at least swizzle_len, or source and target bits overlap",
            )

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

    def apply(self, *coord: Value, shape: Sequence[Value] | None = None, facts: Facts = INTS) -> dict[str, Value]:
        """The address of a row-major index, or of a coordinate of ``shape``."""
        if shape is None and len(coord) == 1:
            return {"m": facts.simplify(self.address(coord[0]))}
        rows = [self.size()] if shape is None else shape
        return self._over(rows).apply(*coord, shape=rows, facts=facts)

    def _over(self, shape: Sequence[Value]) -> ComposeLayout:
        return ComposeLayout(self, TileLayout(row_major(shape)))

    def size(self, axis: str | Axis | None = None) -> int:
        """Elements of one period."""
        return self.period if axis is None or Axis.get(axis).name == "m" else 1

    def span(self, axis: str | Axis | None = None) -> int:
        """As many places as elements: one period is permuted."""
        return self.size(axis)

    def cosize(self, axis: str | Axis = "m") -> int:
        """As many places as elements: one period is permuted."""
        return self.size(axis)

    def table(self, shape: Sequence[int]) -> Table:
        """The address of each element of a row-major tile: {"m": int64 array of ``(*shape, 1)``}."""
        check_table_size(str(self), prod(shape))
        return {"m": np.asarray(self.address(np.arange(prod(shape), dtype=np.int64))).reshape(*shape, 1)}

    def canonicalize(self, facts: Facts = INTS) -> SwizzleLayout:
        """Itself; of no bits, the swizzle of nothing at all."""
        return self if self.swizzle_len else SwizzleLayout(0, 0, 0)

    def equivalent(self, other: Layout, facts: Facts = INTS) -> bool:
        """Equality by meaning: the same swizzle, or a layout of tiles over it that is row major."""
        if isinstance(other, SwizzleLayout):
            return self.canonicalize() == other.canonicalize()
        return self._over([other.size()]).equivalent(other, facts)

    def is_trivial(self, facts: Facts = INTS) -> bool:
        """Does it move nothing?"""
        return not self.swizzle_len

    def inverse(self) -> SwizzleLayout:
        """Itself: the bits it reads are not those it changes."""
        return self

    def slice(self, shape: Sequence[Value], region: Region, facts: Facts = INTS) -> ComposeLayout:
        """The swizzle over a region of a row-major ``shape``."""
        return self._over(shape).slice(shape, region, facts)

    def storage(self) -> SwizzleLayout:
        """Itself: there are no thread axes."""
        return self

    def tile_to(self, to_shape: Sequence[Value], from_shape: Sequence[Value], facts: Facts = INTS) -> ComposeLayout:
        """The swizzle over row-major tiles of ``from_shape``, one after another until they fill ``to_shape``."""
        return self._over(from_shape).tile_to(to_shape, from_shape, facts)

    def pack(self, n: int, facts: Facts = INTS) -> SwizzleLayout:
        """Addresses in packs of ``n``: the runs that stay together are ``n`` times shorter.

        >>> SwizzleLayout(3, 3, 3).pack(2)
        SwizzleLayout(per_element=2, swizzle_len=3, atom_len=3)

        Raises LayoutError unless ``n`` is a power of two within a run.
        """
        bits = int(n).bit_length() - 1
        if n < 1 or n != 1 << bits or bits > self.per_element:
            raise LayoutError(
                f"cannot pack {self} by {n}",
                given=n,
                allowed=f"a power of two up to {1 << self.per_element}: the elements that stay together",
            )
        return SwizzleLayout(self.per_element - bits, self.swizzle_len, self.atom_len, self.swizzle_inner)

    def unpack(self, n: int) -> SwizzleLayout:
        """Addresses in n-ths of an element. Inverse of `pack`."""
        bits = int(n).bit_length() - 1
        if n < 1 or n != 1 << bits:
            raise LayoutError(f"cannot unpack {self} by {n}", given=n, allowed="a power of two")
        return SwizzleLayout(self.per_element + bits, self.swizzle_len, self.atom_len, self.swizzle_inner)
