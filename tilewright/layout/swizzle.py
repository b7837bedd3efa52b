"""SwizzleLayout: address bits XORed into lower (or higher) address bits, against bank conflicts; ComposeLayout: the
same after a tile layout.

The XOR acts on the whole address. So a law of the algebra holds of the tile layout, and its places are then swizzled;
where a swizzle maps the parts to themselves (their spans are multiples of its period), it holds of the places as well.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import LayoutError, choices, described
from tilewright.layout.axes import INTS, Axis, AxisDistances, Facts, OnAxis, ScopeName, Value, as_int, listed, m, public
from tilewright.layout.base import Layout, Region, Table, require_layout
from tilewright.layout.iters import Iter, fuse, regroup, row_major
from tilewright.layout.products import extremes
from tilewright.layout.tables import Collision, is_small, same_places
from tilewright.layout.tile import TileLayout
from tilewright.public import Kind, sequence_of
from tilewright.records import replace

ADDRESS_BITS = 62  # of the int64 in which tables hold addresses, the sign and one more left out
MOST_ELEMENTS = 1 << 22  # of a layout that is inverted bit by bit


@public.methods
class SwizzledLayout(Layout):
    """A layout that ends with a swizzle, and so does what each of these operations returns."""

    __slots__ = ()

    @abstractmethod
    def parted(self, shape: Sequence[Value]) -> tuple[SwizzleLayout, TileLayout]:
        """The swizzle, and the tile layout that it acts after: row major over ``shape`` for a bare swizzle."""

    def group(self, shape: Sequence[Value], facts: Facts = INTS) -> tuple[ComposeLayout, tuple[int, ...]]:
        """`TileLayout.group` below the swizzle."""
        swizzle, tile = self.parted(shape)
        grouped, separators = tile.group(shape, facts)
        return swizzle.after(grouped), separators

    def part(
        self, shape: Sequence[Value], region: Region, facts: Facts = INTS, *, leaves: bool = False
    ) -> ComposeLayout:
        """`TileLayout.part` below the swizzle, which acts on the whole address, origin included.

        >>> from tilewright.layout import S, SwizzleLayout
        >>> SwizzleLayout(3, 3, 3).after(S[8, 64]).part((8, 64), [(0, 8), (16, 16)]).tile
        S[(8, 16):(64, 1)] + 16
        """
        swizzle, tile = self.parted(shape)
        return swizzle.after(tile.part(shape, region, facts, leaves=leaves))

    def tile_with(
        self, outer: Layout, outer_shape: Sequence[Value], inner_shape: Sequence[Value], facts: Facts = INTS
    ) -> ComposeLayout:
        """`TileLayout.tile` below the swizzle: ``outer`` counts spans of the tile layout."""
        swizzle, tile = self.parted(inner_shape)
        return swizzle.after(tile.tile(outer, outer_shape, inner_shape, facts))

    def tile_to(self, to_shape: Sequence[Value], from_shape: Sequence[Value], facts: Facts = INTS) -> ComposeLayout:
        """`TileLayout.tile_to` below the swizzle."""
        swizzle, tile = self.parted(from_shape)
        return swizzle.after(tile.tile_to(to_shape, from_shape, facts))

    def direct_sum(
        self, left: Layout, left_shape: Sequence[Value], right_shape: Sequence[Value], facts: Facts = INTS
    ) -> ComposeLayout:
        """`TileLayout.direct_sum` below the swizzle: it acts on the sum."""
        swizzle, tile = self.parted(right_shape)
        return swizzle.after(tile.direct_sum(left, left_shape, right_shape, facts))

    def broadcast(self, shape: Sequence[Value], to_shape: Sequence[Value], facts: Facts = INTS) -> ComposeLayout:
        """`TileLayout.broadcast` below the swizzle."""
        swizzle, tile = self.parted(shape)
        return swizzle.after(tile.broadcast(shape, to_shape, facts))


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
            text = described(self.swizzle_inner)
            raise LayoutError("swizzle_inner of a swizzle is a choice", given=text, allowed="True or False")
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

    def _counted(self, rank: int, shape: Sequence[Value] | None = None) -> Sequence[Value] | None:
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

    def _bare(self, verb: str, value: object) -> LayoutError:
        return LayoutError(
            f"{self} alone has no extents, and so nothing to {verb}",
            given=value,
            allowed=f"the swizzle of a tile: {self}.over(shape)",
        )


@public.methods
@public.kind_of("ComposeLayout(swizzle, tile)")
@public.fields
@dataclass(frozen=True, slots=True, init=False, repr=False)
class ComposeLayout(SwizzledLayout):
    """Where ``tile`` leads, with the address on axis m swizzled; the XOR acts on the whole address, offset included.

    >>> from tilewright.layout import S, SwizzleLayout
    >>> ComposeLayout(SwizzleLayout(3, 3, 3), S[8, 64]).apply(1, 8)
    {'m': 64}
    """

    swizzle: SwizzleLayout
    tile: TileLayout

    def __init__(
        self,
        swizzle: SwizzleLayout | None = None,
        tile: TileLayout | None = None,
        *,
        layout_A: SwizzleLayout | None = None,
        layout_B: TileLayout | None = None,
    ) -> None:
        object.__setattr__(self, "swizzle", swizzle if layout_A is None else layout_A)
        object.__setattr__(self, "tile", tile if layout_B is None else layout_B)
        if not isinstance(self.tile, TileLayout) or not isinstance(self.swizzle, SwizzleLayout):
            raise LayoutError(
                "a compose layout is a swizzle and a tile layout",
                given=f"{self.swizzle} and {self.tile}",
                allowed="ComposeLayout(SwizzleLayout(...), S[...])",
            )

    @property
    def tile_layout(self) -> TileLayout:
        """``tile``, as others name it."""
        return self.tile

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes of the tile layout."""
        return self.tile.axes

    def __repr__(self) -> str:
        return f"ComposeLayout({self.swizzle}, {self.tile})"

    def place(self, *coord: Value, shape: Sequence[Value] | None = None, facts: Facts = INTS) -> dict[str, Value]:
        """`TileLayout.place`, then the swizzle on axis m."""
        out = self.tile.place(*coord, shape=shape, facts=facts)
        if "m" in out:
            out["m"] = facts.simplify(self.swizzle.address(out["m"]))
        return out

    def _counted(self, rank: int, shape: Sequence[Value] | None = None) -> Sequence[Value]:
        """`TileLayout._counted`."""
        return self.tile._counted(rank, shape)

    def size(self, axis: str | Axis | None = None) -> Value:
        """`TileLayout.size`: a swizzle adds and drops nothing."""
        return self.tile.size(axis)

    def span(self, axis: str | Axis | None = None) -> Value:
        """Places from the first to the last. On axis m the table gives the exact number; for expressions, and beyond
        `MOST_PLACES` places, the span of the tile layout is rounded up to whole blocks of the swizzle.
        """
        wanted = m if axis is None else Axis.get(axis)
        if wanted != m:
            return self.tile.span(wanted)
        places = self._addresses()
        return _rounded_up(self.tile.span(m), self.swizzle.block) if places is None else int(np.ptp(places)) + 1

    def cosize(self, axis: str | Axis = m) -> Value:
        """One more than the largest coordinate; on axis m rounded up to whole swizzled blocks where `span` is."""
        wanted = Axis.get(axis)
        if wanted != m:
            return self.tile.cosize(wanted)
        places = self._addresses()
        return _rounded_up(self.tile.cosize(m), self.swizzle.block) if places is None else int(places.max()) + 1

    def _addresses(self) -> NDArray[np.int64] | None:
        """Every address; None for expressions, and where there are too many to list."""
        if not is_small(self.tile):
            return None
        return self.table([self.size()]).get("m", np.zeros(1, np.int64))

    def table(self, shape: Sequence[int]) -> Table:
        """`TileLayout.table`, with axis m after the swizzle."""
        table = self.tile.table(shape)
        if "m" in table:
            table["m"] = np.asarray(self.swizzle.address(table["m"]))
        return table

    def canonicalize(self, facts: Facts = INTS) -> TileLayout | SwizzleLayout | ComposeLayout:
        """The tile layout canonical; without the swizzle where no address reaches the bits that it reads, and the
        swizzle alone where the tile is the rows of one period.
        """
        tile = self.tile.canonicalize(facts)
        ends = extremes(tile, m, facts)
        first = self.swizzle.per_element + (self.swizzle.atom_len if self.swizzle.swizzle_inner else 0)
        idle = ends is not None and facts.less(-1, ends[0]) and facts.less(ends[1], 1 << first)
        if idle or not self.swizzle.swizzle_len:
            return tile
        one_period = tile.is_trivial(facts) and facts.equal(tile.size(), self.swizzle.period)
        return self.swizzle if one_period else ComposeLayout(self.swizzle, tile)

    def equivalent(self, other: Layout, facts: Facts = INTS) -> bool:
        """Equality by meaning: equal canonical forms, or, for numbers, equal tables. Beyond `MOST_PLACES` places only
        the forms are compared.
        """
        require_layout(other)
        mine, theirs = self.canonicalize(facts), other.canonicalize(facts)
        parts = [layout.parted([self.size()]) for layout in (mine, theirs)]
        if parts[0][0] == parts[1][0]:
            return parts[0][1].equivalent(parts[1][1], facts)
        return same_places(mine, theirs)

    def is_trivial(self, facts: Facts = INTS) -> bool:
        """Is it the identity: element i at address i?"""
        plain = self.canonicalize(facts)
        return isinstance(plain, TileLayout) and plain.is_trivial(facts)

    def permute_dims(self, perm: Sequence[int]) -> ComposeLayout:
        """`TileLayout.permute_dims` below the swizzle."""
        return replace(self, tile=self.tile.permute_dims(perm))

    def permute_by_groups(self, separators: Sequence[int], perm: Sequence[int]) -> ComposeLayout:
        """`TileLayout.permute_by_groups` below the swizzle."""
        return replace(self, tile=self.tile.permute_by_groups(separators, perm))

    def storage(self) -> ComposeLayout:
        """What one thread holds, swizzled."""
        return replace(self, tile=self.tile.storage())

    def pack(self, n: int, facts: Facts = INTS) -> ComposeLayout:
        """`TileLayout.pack` below a swizzle of shorter runs. Raises LayoutError where a pack is longer than a run."""
        if self.tile.shard and self.tile.shard[-1].axis != m:
            raise LayoutError(f"cannot pack {self} by {n}", given=self.tile.shard[-1], allowed="an innermost iter on m")
        return ComposeLayout(self.swizzle.pack(n), self.tile.pack(n, facts))

    def unpack(self, n: int) -> ComposeLayout:
        """`TileLayout.unpack` below a swizzle of longer runs. Raises LayoutError where another axis would take them."""
        last = self.tile.shard[-1].axis if self.tile.shard else m
        if last.is_memory() and last != m:
            raise LayoutError(f"cannot unpack {self} by {n}", given=f"axis {last}", allowed="an innermost iter on m")
        return ComposeLayout(self.swizzle.unpack(n), self.tile.unpack(n))

    def inverse(self, facts: Facts = INTS) -> Layout:
        """The layout that leads from an address back to the row-major index.

        >>> from tilewright.layout import S, SwizzleLayout
        >>> SwizzleLayout(3, 3, 3).after(S[16, 64]).inverse().apply(65 + 8)
        {'m': 65}

        Raises LayoutError unless the layout permutes ``0 .. size`` on axis m and its inverse is a swizzle after a tile
        layout: the tile layout moves whole periods of the swizzle, or permutes the bits of a power-of-two size.
        """
        plain = self.canonicalize(facts)
        if isinstance(plain, TileLayout):
            return plain.inverse(facts)
        back = self.tile.inverse(facts)
        if _keeps_periods(back, self.swizzle.period, facts):
            return self.swizzle.after(back)
        size = as_int(self.size())
        if size is not None and size <= MOST_ELEMENTS:
            try:
                return _by_bits(self, size)
            except LayoutError:
                pass
        raise LayoutError(
            f"{self} has no inverse that is a swizzle after a tile layout",
            given=f"{back} after the swizzle",
            allowed=f"a tile layout that moves whole periods of {self.swizzle.period} elements, or a size that is"
            " a power of two; LinearLayout.of(layout, shape).inverse() inverts every permutation of bits",
        )

    def parted(self, shape: Sequence[Value]) -> tuple[SwizzleLayout, TileLayout]:
        """The swizzle and the tile layout."""
        return self.swizzle, self.tile

    def __add__(self, other: TileLayout | AxisDistances | OnAxis | Value) -> ComposeLayout:
        return replace(self, tile=self.tile + other)

    __radd__ = __add__

    def collision(self, counts: Callable[[Axis], bool] = lambda _: True) -> Collision | None:
        """`TileLayout.collision`, the place swizzled: no two addresses move to one."""
        collision = self.tile.collision(counts)
        if collision is None or "m" not in collision.place:
            return collision
        return collision._replace(place={**collision.place, "m": self.swizzle.address(collision.place["m"])})

    def get_scope(self) -> tuple[ScopeName, ScopeName]:
        """`TileLayout.get_scope`."""
        return self.tile.get_scope()

    def expand_threads(self, facts: Facts = INTS) -> ComposeLayout:
        """`TileLayout.expand_threads` below the swizzle."""
        return replace(self, tile=self.tile.expand_threads(facts))

    def verify_well_formed(self, facts: Facts = INTS) -> bool:
        """`TileLayout.verify_well_formed`."""
        return self.tile.verify_well_formed(facts)


def _rounded_up(value: Value, block: int) -> Value:
    return (value + (block - 1)) // block * block


# The way back from swizzled addresses.


def _keeps_periods(back: TileLayout, period: int, facts: Facts) -> bool:
    """Does the layout move whole periods? Then it commutes with the swizzle."""
    size: Value = back.size()
    if not facts.divides(period, size):
        return False
    try:
        outer, inner = regroup(back.shard, (facts.simplify(size // period), period), facts)
    except LayoutError:
        return False
    runs = fuse(inner, facts)
    contiguous = len(runs) <= 1 and all(facts.equal(it.stride, 1) for it in runs)
    return contiguous and all(facts.divides(period, it.stride) for it in fuse(outer, facts))


def _by_bits(layout: ComposeLayout, size: int) -> Layout:
    back = LinearLayout.of(layout, (size,)).inverse()
    return back.renamed({"m": "dim0", "dim0": "m"}).to_layout()


# Linear layouts: maps over GF(2), written as what each bit of an input contributes by XOR to each output.
#
# Every layout of power-of-two extents whose digits never carry is a linear layout, swizzled or not, and linear layouts
# are closed under composition and inverse.


Vector = tuple[int, ...]
Inputs = tuple[tuple[str, tuple[Vector, ...]], ...]


def _are_inputs(value: Any) -> bool:
    """`Any`: this function finds out what the values are."""
    pairs = isinstance(value, tuple) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value)
    return pairs and all(isinstance(name, str) and VECTORS.fits(vectors) for name, vectors in value)


VECTORS = sequence_of(sequence_of(public.kind("int")))
public.learn("Inputs", Kind('(name, vectors) for each input: (("lane", ((0, 1), (1, 0))),)', _are_inputs))


@public.methods
@public.constructor
@public.kind_of("LinearLayout(inputs, outputs)")
@dataclass(frozen=True, slots=True)
class LinearLayout:
    """For each named input one vector per bit, lowest first: what a set bit XORs into each of ``outputs``.

    >>> swap = LinearLayout((("lane", ((0, 1), (1, 0))),), ("row", "col"))
    >>> swap(lane=2)
    {'row': 1, 'col': 0}

    Raises LayoutError for a vector that has not one number for each output.
    """

    inputs: Inputs
    outputs: tuple[str, ...]

    def __post_init__(self) -> None:
        for name, vectors in self.inputs:
            if wrong := [v for v in vectors if len(v) != len(self.outputs) or min(v, default=0) < 0]:
                raise LayoutError(
                    f"input {name} of a linear layout has the vector {wrong[0]}",
                    given=wrong[0],
                    allowed=f"{len(self.outputs)} non-negative ints, for {', '.join(self.outputs)}",
                )

    @property
    def vectors(self) -> tuple[Vector, ...]:
        """The vectors of all bits, the last input's lowest bit first."""
        return tuple(vector for _, vectors in reversed(self.inputs) for vector in vectors)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of values of each input."""
        return tuple(1 << len(vectors) for _, vectors in self.inputs)

    def __call__(self, **inputs: Value) -> dict[str, Value]:
        """The outputs for values of the inputs: ints, arrays or expressions."""
        names = [name for name, _ in self.inputs]
        if unknown := [name for name in inputs if name not in names]:
            raise LayoutError(f"unknown input {unknown[0]!r}", given=unknown[0], allowed=choices(unknown[0], names))
        out: list[Value] = [0] * len(self.outputs)
        for name, vectors in self.inputs:
            for bit, vector in enumerate(vectors):
                for k, by in enumerate(vector):
                    if by and name in inputs:
                        out[k] = out[k] ^ ((inputs[name] >> bit) & 1) * by
        return dict(zip(self.outputs, out, strict=True))

    @classmethod
    def of(cls, layout: Layout, shape: Sequence[int], names: Sequence[str] = ()) -> LinearLayout:
        """The linear layout of a layout: one input for each dimension of ``shape`` (``dim0``, ``dim1``, ...), and
        ``replica`` if there are replicas; one output for each axis.

        >>> from tilewright.layout import S, laneid
        >>> LinearLayout.of(S[(4, 2) : (1 @ laneid, 1)], (4, 2)).inputs
        (('dim0', ((1, 0), (2, 0))), ('dim1', ((0, 1),)))

        Raises LayoutError where an entry is no power of two, or the digits' sums are not their XORs.
        """
        table = layout.table(shape)
        copies = max((values.shape[-1] for values in table.values()), default=1)
        labels = tuple(names) or tuple(f"dim{k}" for k in range(len(shape)))
        sizes = dict(zip((*labels, "replica"), (*shape, copies), strict=True))
        if copies == 1:
            del sizes["replica"]
        flat = np.stack([values.reshape(-1) for values in table.values()] or [np.zeros(prod(shape), np.int64)])
        odd = [size for size in sizes.values() if size & (size - 1)]
        if odd or flat.min() < 0:
            raise LayoutError(
                f"{layout} of shape {listed(shape)} is not linear over GF(2)",
                given=f"{odd[0]} values" if odd else f"coordinate {flat.min()}",
                allowed="extents that are powers of two, and no coordinate below 0",
            )
        linear = cls(_read_off(flat, sizes), tuple(table) or ("m",))
        linear._check(layout, flat)
        return linear

    def _check(self, layout: Layout, flat: NDArray[np.int64]) -> None:
        """Refuse a layout whose table ``flat``, (outputs, elements), is not the one that these vectors make."""
        digits = np.unravel_index(np.arange(flat.shape[1]), self.shape) if self.inputs else ()
        again = self(**{name: values for (name, _), values in zip(self.inputs, digits, strict=True)})
        for expected, (axis, results) in zip(flat, again.items(), strict=True):
            values = np.broadcast_to(results, expected.shape)
            if wrong := np.flatnonzero(values != expected).tolist():
                raise LayoutError(
                    f"{layout} is not linear over GF(2)",
                    given=f"element {wrong[0]} at {expected[wrong[0]]} on axis {axis}",
                    allowed=f"{values[wrong[0]]}, the XOR of what its bits contribute",
                )

    def to_layout(self) -> TileLayout | ComposeLayout:
        """The layout of the same table over the shape `shape`, with the shortest swizzle on axis m that it needs.

        >>> swizzled = ComposeLayout(SwizzleLayout(0, 1, 1), TileLayout([Iter(4, 1)]))
        >>> LinearLayout.of(swizzled, (4,)).to_layout()
        ComposeLayout(SwizzleLayout(per_element=0, swizzle_len=1, atom_len=1), S[4:1])

        Raises LayoutError where no tile layout after one swizzle has these vectors. Outputs must be names of axes.
        """
        axes = [Axis.get(name) for name in self.outputs]
        vectors = self.vectors
        if (plain := _iters(vectors, axes)) is not None:
            return TileLayout(fuse(plain))
        for swizzle in _swizzles(vectors, axes):
            address = axes.index(m)
            moved = [(*v[:address], swizzle.address(v[address]), *v[address + 1 :]) for v in vectors]
            if (under := _iters(moved, axes)) is not None:
                return ComposeLayout(swizzle, TileLayout(fuse(under)))
        raise LayoutError(
            "a linear layout that no tile layout after one swizzle describes",
            given=f"vectors {', '.join(map(str, vectors))} on {', '.join(self.outputs)}",
            allowed="vectors that, before the swizzle, lie on one axis each and share no bits",
        )

    def compose(self, inner: LinearLayout) -> LinearLayout:
        """First ``inner``, whose outputs are inputs of this one.

        >>> swap = LinearLayout((("x", ((2,), (1,))),), ("x",))
        >>> swap.compose(swap)(x=2)
        {'x': 2}
        """
        return LinearLayout(
            tuple(
                (name, tuple(tuple(self(**dict(zip(inner.outputs, v, strict=True))).values()) for v in vectors))
                for name, vectors in inner.inputs
            ),
            self.outputs,
        )

    def inverse(self) -> LinearLayout:
        """The map from outputs back to inputs: of a register layout, from (lane, register) to the element.

        >>> from tilewright.layout import S, laneid
        >>> LinearLayout.of(S[(4, 2) : (1 @ laneid, 1)], (4, 2)).inverse()(laneid=3, m=1)
        {'dim0': 3, 'dim1': 1}

        Raises LayoutError unless each place is reached exactly once.
        """
        bits = [max((v[k].bit_length() for v in self.vectors), default=0) for k in range(len(self.outputs))]
        columns = [(k, bit) for k in range(len(bits)) for bit in range(bits[k])]
        rows = [sum(((v[k] >> bit) & 1) << c for c, (k, bit) in enumerate(columns)) for v in self.vectors]
        solved = _solve(rows, len(columns))
        if solved is None:
            raise LayoutError(
                "a linear layout without inverse",
                given=f"{len(rows)} input bits, {len(columns)} output bits",
                allowed="as many, each place reached once",
            )
        places = [(number, bit) for number, (_, v) in reversed(list(enumerate(self.inputs))) for bit in range(len(v))]

        def element(mask: int) -> Vector:
            values = [0] * len(self.inputs)
            for row, (number, bit) in enumerate(places):
                values[number] |= ((mask >> row) & 1) << bit
            return tuple(values)

        elements = {column: element(mask) for column, mask in zip(columns, solved, strict=True)}
        return LinearLayout(
            tuple((name, tuple(elements[k, bit] for bit in range(bits[k]))) for k, name in enumerate(self.outputs)),
            tuple(name for name, _ in self.inputs),
        )

    def renamed(self, names: Mapping[str, str]) -> LinearLayout:
        """The same map with other names for inputs and outputs: ``{"m": "register", "laneid": "lane"}``."""
        return LinearLayout(
            tuple((names.get(name, name), vectors) for name, vectors in self.inputs),
            tuple(names.get(name, name) for name in self.outputs),
        )


def _read_off(flat: NDArray[np.int64], sizes: Mapping[str, int]) -> tuple[tuple[str, tuple[Vector, ...]], ...]:
    """The vectors of a table ``flat``, (outputs, elements), of inputs of these sizes: its entries at powers of two."""
    inputs = []
    inner = flat.shape[1]
    for name, size in sizes.items():
        inner //= size
        bits = range(size.bit_length() - 1)
        inputs.append((name, tuple(tuple(map(int, flat[:, inner << bit])) for bit in bits)))
    return tuple(inputs)


def _iters(vectors: Sequence[Vector], axes: Sequence[Axis]) -> list[Iter] | None:
    """An iter of extent 2 for each vector, highest bit first; None where a sum of them is not their XOR."""
    seen = [0] * len(axes)
    out: list[Iter] = []
    for vector in vectors:
        live = [k for k, by in enumerate(vector) if by]
        if len(live) > 1 or (live and seen[live[0]] & vector[live[0]]):
            return None
        if live:
            seen[live[0]] |= vector[live[0]]
        k = live[0] if live else 0
        out.insert(0, Iter(2, vector[k] if axes else 0, axes[k] if axes else m))
    return out


def _swizzles(vectors: Sequence[Vector], axes: Sequence[Axis]) -> Iterator[SwizzleLayout]:
    """Every swizzle within the address bits, those of the fewest bits first."""
    if m not in axes:
        return
    bits = max((v[axes.index(m)].bit_length() for v in vectors), default=0)
    for length in range(1, bits // 2 + 1):
        for shift in range(length, bits - length + 1):
            for base in range(bits - length - shift + 1):
                yield SwizzleLayout(base, length, shift)
                yield SwizzleLayout(base, length, shift, swizzle_inner=False)


def _solve(rows: Sequence[int], columns: int) -> list[int] | None:
    """For each column the set of rows whose XOR has that bit alone, by Gauss-Jordan elimination; None if singular."""
    if len(rows) != columns:
        return None
    work = [(row, 1 << k) for k, row in enumerate(rows)]
    for column in range(columns):
        pivot = next((k for k in range(column, columns) if work[k][0] >> column & 1), None)
        if pivot is None:
            return None
        work[column], work[pivot] = work[pivot], work[column]
        row, mask = work[column]
        work = [(r ^ row, s ^ mask) if k != column and r >> column & 1 else (r, s) for k, (r, s) in enumerate(work)]
    return [mask for _, mask in work]
