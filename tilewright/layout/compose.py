"""ComposeLayout: a swizzle after a tile layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import LayoutError
from tilewright.layout.axes import Axis, m
from tilewright.layout.base import Layout, Region, Table
from tilewright.layout.facts import INTS, Facts, Value, as_int, public
from tilewright.layout.tables import is_numeric
from tilewright.layout.thread_axes import extremes
from tilewright.layout.tile import TileLayout

if TYPE_CHECKING:
    from tilewright.layout.swizzle import SwizzleLayout

__all__ = ["ComposeLayout"]


@public.methods
@public.kind_of("ComposeLayout(swizzle, tile)")
@dataclass(frozen=True, slots=True, repr=False)
class ComposeLayout(Layout):
    """Where ``tile`` leads, with the address on axis m swizzled; the XOR acts on the whole address, offset included.

    >>> from tilewright.layout import S, SwizzleLayout
    >>> ComposeLayout(SwizzleLayout(3, 3, 3), S[8, 64]).apply(1, 8)
    {'m': 64}
    """

    swizzle: SwizzleLayout
    tile: TileLayout

    def __post_init__(self) -> None:
        if not isinstance(self.tile, TileLayout) or not hasattr(type(self.swizzle), "address"):
            raise LayoutError(
                "a compose layout is a swizzle and a tile layout",
                given=f"{self.swizzle} and {self.tile}",
                allowed="ComposeLayout(SwizzleLayout(...), S[...])",
            )

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes of the tile layout."""
        return self.tile.axes

    def __repr__(self) -> str:
        return f"ComposeLayout({self.swizzle}, {self.tile})"

    def apply(self, *coord: Value, shape: Sequence[Value] | None = None, facts: Facts = INTS) -> dict[str, Value]:
        """`TileLayout.apply`, then the swizzle on axis m."""
        out = self.tile.apply(*coord, shape=shape, facts=facts)
        if "m" in out:
            out["m"] = facts.simplify(self.swizzle.address(out["m"]))
        return out

    def size(self, axis: str | Axis | None = None) -> Value:
        """`TileLayout.size`: a swizzle adds and drops nothing."""
        return self.tile.size(axis)

    def span(self, axis: str | Axis | None = None) -> Value:
        """Places from the first to the last. Exact on axis m, by the table; of expressions, the blocks that the swizzle
        permutes, as many as the tile layout touches when it starts at one.
        """
        wanted = m if axis is None else Axis.get(axis)
        if wanted != m:
            return self.tile.span(wanted)
        if is_numeric(self.tile):
            places = self.table([self.size()]).get("m", np.zeros(1, np.int64))
            return int(places.max() - places.min() + 1)
        return _rounded_up(self.tile.span(m), self.swizzle.block)

    def cosize(self, axis: str | Axis = m) -> Value:
        """One more than the largest coordinate; of expressions on axis m, rounded up to whole swizzled blocks."""
        wanted = Axis.get(axis)
        if wanted != m:
            return self.tile.cosize(wanted)
        if is_numeric(self.tile):
            return int(self.table([self.size()]).get("m", np.zeros(1, np.int64)).max() + 1)
        return _rounded_up(self.tile.cosize(m), self.swizzle.block)

    def table(self, shape: Sequence[int]) -> Table:
        """`TileLayout.table`, with axis m after the swizzle."""
        table = self.tile.table(shape)
        if "m" in table:
            table["m"] = np.asarray(self.swizzle.address(table["m"]))
        return table

    def canonicalize(self, facts: Facts = INTS) -> TileLayout | ComposeLayout:
        """The tile layout canonical; without the swizzle where no address reaches the bits that it reads."""
        tile = self.tile.canonicalize(facts)
        ends = extremes(tile, m, facts)
        first = self.swizzle.per_element + (self.swizzle.atom_len if self.swizzle.swizzle_inner else 0)
        idle = ends is not None and facts.less(-1, ends[0]) and facts.less(ends[1], 1 << first)
        return tile if idle or not self.swizzle.swizzle_len else ComposeLayout(self.swizzle, tile)

    def equivalent(self, other: Layout, facts: Facts = INTS) -> bool:
        """Equality by meaning: by canonical forms, and for numbers by the tables, which decide."""
        mine, theirs = self.canonicalize(facts), other.canonicalize(facts)
        if isinstance(mine, TileLayout) and isinstance(theirs, TileLayout):
            return mine.equivalent(theirs, facts)
        if isinstance(mine, ComposeLayout) and isinstance(theirs, ComposeLayout) and mine.swizzle == theirs.swizzle:
            return mine.tile.equivalent(theirs.tile, facts)
        tiles = [layout.tile if isinstance(layout, ComposeLayout) else layout for layout in (mine, theirs)]
        sizes = [as_int(layout.size()) for layout in (mine, theirs)]
        if sizes[0] is None or sizes[0] != sizes[1]:
            return False
        return all(not isinstance(t, TileLayout) or is_numeric(t) for t in tiles) and _same_places(mine, theirs)

    def is_trivial(self, facts: Facts = INTS) -> bool:
        """Is it the identity: element i at address i?"""
        plain = self.canonicalize(facts)
        return isinstance(plain, TileLayout) and plain.is_trivial(facts)

    def group(self, shape: Sequence[Value], facts: Facts = INTS) -> tuple[ComposeLayout, tuple[int, ...]]:
        """`TileLayout.group` below the swizzle."""
        tile, separators = self.tile.group(shape, facts)
        return replace(self, tile=tile), separators

    def slice(self, shape: Sequence[Value], region: Region, facts: Facts = INTS) -> ComposeLayout:
        """`TileLayout.slice` below the swizzle, which acts on the whole address, origin included.

        >>> from tilewright.layout import S, SwizzleLayout
        >>> ComposeLayout(SwizzleLayout(3, 3, 3), S[8, 64]).slice((8, 64), [(0, 8), (16, 16)]).tile
        S[(8, 16):(64, 1)] + 16
        """
        return replace(self, tile=self.tile.slice(shape, region, facts))

    def tile_to(self, to_shape: Sequence[Value], from_shape: Sequence[Value], facts: Facts = INTS) -> ComposeLayout:
        """`TileLayout.tile_to` below the swizzle."""
        return replace(self, tile=self.tile.tile_to(to_shape, from_shape, facts))

    def permute_dims(self, perm: Sequence[int]) -> ComposeLayout:
        """`TileLayout.permute_dims` below the swizzle."""
        return replace(self, tile=self.tile.permute_dims(perm))

    def permute_by_groups(self, separators: Sequence[int], perm: Sequence[int]) -> ComposeLayout:
        """`TileLayout.permute_by_groups` below the swizzle."""
        return replace(self, tile=self.tile.permute_by_groups(separators, perm))

    def broadcast(self, shape: Sequence[Value], to_shape: Sequence[Value], facts: Facts = INTS) -> ComposeLayout:
        """`TileLayout.broadcast` below the swizzle."""
        return replace(self, tile=self.tile.broadcast(shape, to_shape, facts))

    def storage(self) -> ComposeLayout:
        """What one thread holds, swizzled."""
        return replace(self, tile=self.tile.storage())

    def pack(self, n: int, facts: Facts = INTS) -> ComposeLayout:
        """`TileLayout.pack` below a swizzle of shorter runs. Raises LayoutError where a pack is longer than a run."""
        if self.tile.shard and self.tile.shard[-1].axis != m:
            raise LayoutError(f"cannot pack {self} by {n}", given=self.tile.shard[-1], allowed="an innermost iter on m")
        return ComposeLayout(self.swizzle.pack(n), self.tile.pack(n, facts))

    def unpack(self, n: int) -> ComposeLayout:
        """`TileLayout.unpack` below a swizzle of longer runs."""
        return ComposeLayout(self.swizzle.unpack(n), self.tile.unpack(n))

    def get_scope(self) -> tuple[str, str]:
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


def _same_places(a: Layout, b: Layout) -> bool:
    """Is each element in the same set of places? For layouts of numbers, of equal size."""
    tables = [layout.table([layout.size()]) for layout in (a, b)]
    names = sorted({name for table in tables for name in table})
    places = []
    for table in tables:
        replicas = max((values.shape[-1] for values in table.values()), default=1)
        absent = np.zeros((a.size(), replicas), np.int64)
        stacked = np.stack([table.get(name, absent) for name in names], axis=-1)
        places.append([{tuple(place) for place in row} for row in stacked.tolist()])
    return bool(places[0] == places[1])
