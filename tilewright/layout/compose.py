"""ComposeLayout: a swizzle after a tile layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import LayoutError
from tilewright.layout.axes import Axis, AxisDistances, OnAxis, ScopeName, m
from tilewright.layout.base import Layout, Table, require_layout
from tilewright.layout.facts import INTS, Facts, Value, as_int, public
from tilewright.layout.iters import fuse, regroup
from tilewright.layout.swizzled import SwizzledLayout
from tilewright.layout.tables import Collision, is_small, same_places
from tilewright.layout.thread_axes import extremes
from tilewright.layout.tile import TileLayout
from tilewright.records import replace

if TYPE_CHECKING:
    from tilewright.layout.swizzle import SwizzleLayout

# The way back from swizzled addresses.


MOST_ELEMENTS = 1 << 22  # of a layout that is inverted bit by bit


def unswizzled(layout: ComposeLayout, facts: Facts) -> Layout:
    """See `ComposeLayout.inverse`: first the swizzle, which undoes itself, then the inverse of the tile layout."""
    back = layout.tile.inverse(facts)
    if _keeps_periods(back, layout.swizzle.period, facts):
        return layout.swizzle.after(back)
    size = as_int(layout.size())
    if size is not None and size <= MOST_ELEMENTS:
        try:
            return _by_bits(layout, size)
        except LayoutError:
            pass
    raise LayoutError(
        f"{layout} has no inverse that is a swizzle after a tile layout",
        given=f"{back} after the swizzle",
        allowed=f"a tile layout that moves whole periods of {layout.swizzle.period} elements, or a size that is a power"
        " of two; LinearLayout.of(layout, shape).inverse() inverts every permutation of bits",
    )


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
    from tilewright.layout.linear import LinearLayout  # linear.py imports composed layouts

    back = LinearLayout.of(layout, (size,)).inverse()
    return back.renamed({"m": "dim0", "dim0": "m"}).to_layout()


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
        if not isinstance(self.tile, TileLayout) or not hasattr(type(self.swizzle), "address"):
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

    def counted(self, rank: int, shape: Sequence[Value] | None = None) -> Sequence[Value]:
        """`TileLayout.counted`."""
        return self.tile.counted(rank, shape)

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
        return plain.inverse(facts) if isinstance(plain, TileLayout) else unswizzled(self, facts)

    def parted(self, shape: Sequence[Value]) -> tuple[SwizzleLayout, TileLayout]:
        """The swizzle and the tile layout."""
        return self.swizzle, self.tile

    def __add__(self, other: TileLayout | AxisDistances | OnAxis | Value) -> ComposeLayout:
        return replace(self, tile=self.tile + other)

    __radd__ = __add__

    def collision(self, counts: Callable[[Axis], bool] = lambda _: True) -> Collision | None:
        """`TileLayout.collision`, the place swizzled: no two addresses move to one."""
        found = self.tile.collision(counts)
        if found is None or "m" not in found.place:
            return found
        return found._replace(place={**found.place, "m": self.swizzle.address(found.place["m"])})

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
