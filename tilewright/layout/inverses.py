"""The way back from swizzled addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.errors import LayoutError
from tilewright.layout.facts import Facts, Value, as_int
from tilewright.layout.iters import fuse, regroup

if TYPE_CHECKING:
    from tilewright.layout.base import Layout
    from tilewright.layout.compose import ComposeLayout
    from tilewright.layout.tile import TileLayout

__all__ = ["unswizzled"]

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
