"""The vectorised table of a layout: every coordinate of every element, by outer sums."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import LayoutError
from tilewright.layout.axes import Axis
from tilewright.layout.facts import as_int, listed

if TYPE_CHECKING:
    from tilewright.layout.base import Layout, Table
    from tilewright.layout.iters import Iters
    from tilewright.layout.tile import TileLayout

__all__ = ["MOST_PLACES", "is_numeric", "is_small", "same_places", "table_of"]

MOST_PLACES = 1 << 22
"""Elements times replicas up to which an answer may be looked up in a table."""

MOST_ENTRIES = 1 << 27
"""The most places of a table that a caller may ask for: 1 GB for each axis."""


def is_numeric(layout: TileLayout) -> bool:
    """Are all extents, strides and offsets numbers?"""
    values = [v for it in (*layout.shard, *layout.replica) for v in (it.extent, it.stride)]
    return all(as_int(v) is not None for v in (*values, *(term.value for term in layout.offset)))


def is_small(layout: TileLayout) -> bool:
    """Numbers alone, and few enough for a table?"""
    return is_numeric(layout) and prod(it.extent for it in (*layout.shard, *layout.replica)) <= MOST_PLACES


def same_places(a: Layout, b: Layout) -> bool:
    """Is each element in the same set of places? False where expressions or their number keep that from being seen."""
    tiles = [layout.parted([other.size()])[1] for layout, other in ((a, b), (b, a))]
    if not all(map(is_small, tiles)) or tiles[0].size() != tiles[1].size():
        return False
    size = tiles[0].size()
    tables = [layout.table([size]) for layout in (a, b)]
    copies = [max((values.shape[-1] for values in table.values()), default=1) for table in tables]
    if size * prod(copies) > MOST_PLACES:
        return False
    numbers: NDArray[np.int64] = np.zeros((size, sum(copies)), np.int64)  # one number for each place
    absent = np.zeros((1, 1), np.int64)
    for name in {name for table in tables for name in table}:
        found = [np.broadcast_to(t.get(name, absent), (size, n)) for t, n in zip(tables, copies, strict=True)]
        values = np.unique(np.concatenate(found, axis=1), return_inverse=True)[1].reshape(numbers.shape)
        numbers = np.unique(numbers * (values.max() + 1) + values, return_inverse=True)[1].reshape(numbers.shape)
    met = numbers[:, : copies[0], None] == numbers[:, None, copies[0] :]
    return bool(met.any(axis=1).all() and met.any(axis=2).all())


def table_of(layout: TileLayout, shape: Sequence[int]) -> Table:
    """See `TileLayout.table`."""
    if not is_numeric(layout):
        raise LayoutError(f"{layout} has no table", given="expressions", allowed="numbers in every iter and offset")
    size = prod(it.extent for it in layout.shard)
    if prod(shape) != size or min(shape, default=1) < 1:
        raise LayoutError(
            f"{layout} does not have the shape {listed(shape)}",
            given=f"{prod(shape)} elements in the shape",
            allowed=f"{size} elements",
        )
    entries = size * prod(it.extent for it in layout.replica)
    ends = (abs(end) for axis in layout.axes for end in layout.ends(axis))
    strides = (abs(it.stride) for it in (*layout.shard, *layout.replica))
    far = max((0, *ends, *strides))
    if entries > MOST_ENTRIES or far >= 1 << 63:
        raise LayoutError(
            f"{layout} has no table that memory holds",
            given=f"{entries} places" if entries > MOST_ENTRIES else f"a coordinate of {far}",
            allowed=f"{MOST_ENTRIES} places, in 64 bits",
            hint="apply(...) computes single places" if entries > MOST_ENTRIES else None,
        )
    return {axis.name: _on_axis(layout, axis, shape) for axis in layout.axes}


def _on_axis(layout: TileLayout, axis: Axis, shape: Sequence[int]) -> NDArray[np.int64]:
    elements = _sums(layout.shard, axis).reshape(*shape, 1)
    replicas = _sums(layout.replica, axis).reshape(-1)
    return elements + (replicas + np.int64(layout.offset_on(axis)))


def _sums(iters: Iters, axis: Axis) -> NDArray[np.int64]:
    """Digit times stride, summed over the iters of one axis, for all digits of all iters, flat."""
    total: NDArray[np.int64] = np.zeros(1, np.int64)
    for it in iters:
        step = it.stride if it.axis == axis else 0
        total = (total[:, None] + np.arange(it.extent, dtype=np.int64) * step).reshape(-1)
    return total
