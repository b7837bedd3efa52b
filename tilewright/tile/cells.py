"""Tensor memory as tile calls see it: in which lane, and in which bits of its columns, each element of a region is.

Tensor memory is a grid of 128 lanes by 512 columns of 32 bits. A layout counts columns in elements (`TCol`), so that
element ``c`` of a lane begins at bit ``c * bits``; whole columns are multiples of 32 bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright.ir import const_value
from tilewright.layout import Iter, TileLayout, Value
from tilewright.tile.dispatch import Decline
from tilewright.tile.partition import cut_out
from tilewright.tile.walks import Ints

if TYPE_CHECKING:
    from tilewright.tile.call import Side

COLUMN_BITS = 32
WHOLE_COLUMNS = "a region that begins at a multiple of 32 bits in each lane"


@dataclass(frozen=True, slots=True, eq=False)
class CellPlaces:
    """Where the elements of a region are: (elements, replicas) lanes and bits, elements in row-major order.

    The kernel adds ``lane_base`` and ``bit_base`` to them, expressions that are not known before it runs.
    """

    lane: Ints
    bit: Ints
    lane_base: Value = 0
    bit_base: Value = 0


def tmem_cells(side: Side) -> CellPlaces:
    """The cells of a side in tensor memory, all replicas. Raises Decline where no table describes them."""
    if side.swizzle is not None:
        raise Decline(f"{side.name} is swizzled", allowed="no swizzle: tensor memory has no banks")
    if side.tile is None:
        table, base = cut_out(side), dict[str, Value]()
    else:
        layout, base = _in_numbers(side.tile)
        if any(const_value(it.stride) is None for it in (*layout.shard, *layout.replica)):
            raise Decline(f"{side.name} has symbolic strides", allowed="strides that are numbers")
        table = layout.table([layout.size()])
    if foreign := [name for name in (*table, *base) if name not in ("TLane", "TCol")]:
        raise Decline(f"{side.name} in tensor memory has the axis {foreign[0]}", allowed="the axes TLane and TCol")
    still = np.zeros(next(iter(table.values())).shape, np.int64) if table else np.zeros((1, 1), np.int64)
    bits = side.dtype.bits
    lane, column = table.get("TLane", still), table.get("TCol", still)
    return CellPlaces(lane, column * bits, base.get("TLane", 0), base.get("TCol", 0) * bits)


def replicas_of(side: Side) -> tuple[Iter, ...]:
    """In how many places, and how far apart, each element is: the replica iters, simplified."""
    layout = side.buffer.layout if side.tile is None else side.tile
    return layout.canonicalize().replica if isinstance(layout, TileLayout) else ()


def _in_numbers(tile: TileLayout) -> tuple[TileLayout, dict[str, Value]]:
    """The layout without the symbolic part of its origin, and that part on each axis."""
    symbolic = [term for term in tile.offset if const_value(term.value) is None]
    constant = tuple(term for term in tile.offset if const_value(term.value) is not None)
    return replace(tile, offset=constant), {term.axis.name: term.value for term in symbolic}
