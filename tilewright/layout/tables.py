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
    from tilewright.layout.base import Table
    from tilewright.layout.iters import Iters
    from tilewright.layout.tile import TileLayout

__all__ = ["check_table_size", "is_numeric", "table_of"]


def is_numeric(layout: TileLayout) -> bool:
    """Are all extents, strides and offsets numbers?"""
    values = [v for it in (*layout.shard, *layout.replica) for v in (it.extent, it.stride)]
    return all(as_int(v) is not None for v in (*values, *(term.value for term in layout.offset)))


MOST_PLACES = 1 << 28  # 2 GiB for each axis


def check_table_size(what: str, places: int) -> None:
    """Raise LayoutError before memory is asked for that a machine may not have."""
    if places > MOST_PLACES:
        raise LayoutError(
            f"the table of {what} is too large", given=f"{places} places", allowed=f"{MOST_PLACES} at most"
        )


def table_of(layout: TileLayout, shape: Sequence[int]) -> Table:
    """See `TileLayout.table`."""
    if not is_numeric(layout):
        raise LayoutError(f"{layout} has no table", given="expressions", allowed="numbers in every iter and offset")
    size = prod(it.extent for it in layout.shard)
    check_table_size(str(layout), size * prod(it.extent for it in layout.replica))
    if prod(shape) != size or min(shape, default=1) < 1:
        raise LayoutError(
            f"{layout} does not have the shape {listed(shape)}",
            given=f"{prod(shape)} elements in the shape",
            allowed=f"{size} elements",
        )
    for axis in layout.axes:
        _check_reach(layout, axis)
    return {axis.name: _on_axis(layout, axis, shape) for axis in layout.axes}


def _check_reach(layout: TileLayout, axis: Axis) -> None:
    """Raises LayoutError where a coordinate has more than 64 bits."""
    reach = sum((it.extent - 1) * abs(it.stride) for it in (*layout.shard, *layout.replica) if it.axis == axis)
    strides = [abs(it.stride) for it in (*layout.shard, *layout.replica)]
    most = max([reach + abs(layout.offset_on(axis)), *strides])
    if most >= 1 << 63:
        given, allowed = f"coordinates up to {most} on axis {axis}", "coordinates of 64 bits"
        raise LayoutError(f"{layout} has no table", given=given, allowed=allowed)


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
