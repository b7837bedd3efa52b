"""What a bare swizzle and a swizzle after a tile layout have in common: operations change the tile layout alone.

The XOR acts on the whole address. So a law of the algebra holds of the tile layout, and its places are then swizzled;
where a swizzle maps the parts to themselves (their spans are multiples of its period), it holds of the places as well.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.layout.base import Layout, Region
from tilewright.layout.facts import INTS, Facts, Value, public
from tilewright.layout.products import find_inner, find_outer

if TYPE_CHECKING:
    from tilewright.layout.compose import ComposeLayout
    from tilewright.layout.swizzle import SwizzleLayout
    from tilewright.layout.tile import TileLayout


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

    def is_tile_inner(
        self, tiled: Layout, tiled_shape: Sequence[Value], inner_shape: Sequence[Value], facts: Facts = INTS
    ) -> TileLayout | None:
        """The ``outer`` with which ``self.tile(outer, ..)`` means ``tiled``, or None."""
        return find_outer(self, tiled, tiled_shape, inner_shape, facts, scaled=True)

    def is_direct_sum_right(
        self, total: Layout, shape: Sequence[Value], right_shape: Sequence[Value], facts: Facts = INTS
    ) -> TileLayout | None:
        """The ``left`` with which ``self.direct_sum(left, ..)`` means ``total``, or None."""
        return find_outer(self, total, shape, right_shape, facts, scaled=False)

    def is_tile_outer(
        self, tiled: Layout, tiled_shape: Sequence[Value], outer_shape: Sequence[Value], facts: Facts = INTS
    ) -> Layout | None:
        """Raises LayoutError: the layout of the tiles is a `TileLayout`, since the swizzle acts after it."""
        return find_inner(self, tiled, tiled_shape, outer_shape, facts, scaled=True)

    def is_direct_sum_left(
        self, total: Layout, shape: Sequence[Value], left_shape: Sequence[Value], facts: Facts = INTS
    ) -> Layout | None:
        """Raises LayoutError: the left part of a direct sum is a `TileLayout`, since the swizzle acts after the sum."""
        return find_inner(self, total, shape, left_shape, facts, scaled=False)

    def broadcast(self, shape: Sequence[Value], to_shape: Sequence[Value], facts: Facts = INTS) -> ComposeLayout:
        """`TileLayout.broadcast` below the swizzle."""
        swizzle, tile = self.parted(shape)
        return swizzle.after(tile.broadcast(shape, to_shape, facts))
