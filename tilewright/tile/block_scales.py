"""Scales of blocks in tensor memory, as a product takes them: for each instruction a column, and the first one's byte.

Where a product looks for them is in `tilewright.isa.tcgen05_mma_places`. A layout that `sf_tmem_layout` makes has them
there; others do, too, if each instruction finds its own together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tilewright import isa
from tilewright.errors import LayoutError
from tilewright.ir import Region, Value, const_value
from tilewright.isa.tcgen05_mma_values import path_of, scale_places
from tilewright.layout import sf_tmem_layout
from tilewright.primitives.gemm_async import scale_extents
from tilewright.tile.call import Side, TileCall, side_of
from tilewright.tile.cells import COLUMN_BITS, tmem_cells
from tilewright.tile.dispatch import Change, Decline
from tilewright.tile.smem_descriptors import long_extents
from tilewright.tile.walks import Ints, quotient

__all__ = ["PlacedScales", "placed_scales", "scale_blocks"]


@dataclass(frozen=True, slots=True, eq=False)
class PlacedScales:
    """Of each block of rows and step of K the column of its scales, from ``base`` on, and the byte of the first."""

    columns: Ints
    first: Ints
    base: Value


def scale_blocks(call: TileCall) -> int:
    """Elements along K that share a scale; 0 in a call without scales."""
    if "SFA" not in call.sides:
        return 0
    k = long_extents(call["A"].extents)[0 if call.option("transA") else 1]
    return k // _extents(call["SFA"])[1]


def _extents(side: Side) -> tuple[int, ...]:
    """Rows, and scales of each."""
    return tuple(int(const_value(extent) or 1) for extent in scale_extents(side.extents))


def placed_scales(call: TileCall, name: str, made: isa.InstructionDescriptor, rows: int) -> PlacedScales:
    """The scales of A or B ("SFA", "SFB") for instructions of so many rows or columns each.

    Raises Decline, with the layout that would do, where a product does not find them.
    """
    side, block = call[name], scale_blocks(call)
    cells, shape = tmem_cells(side), _extents(side)
    count = made.K // block
    numbers = np.arange(shape[0] * shape[1]).reshape(-1, rows, shape[1] // count, count).swapaxes(1, 2)
    order = np.argsort(cells.lane, axis=1)
    lane, bit = (np.take_along_axis(part, order, axis=1)[numbers] for part in (cells.lane, cells.bit))
    parts = path_of(made).halves if name == "SFB" else 1
    row, part = np.arange(rows)[:, None, None] % (rows // parts), np.arange(rows)[:, None, None] // (rows // parts)
    lanes = row % 32 + 32 * (4 // parts * part + np.arange(4 // parts))
    found = np.zeros((*numbers.shape[:2], 2), np.int64)
    fits = const_value(cells.lane_base) == 0 and lane.shape[-1] == 4 // parts and bool((lane == lanes).all())
    fits = fits and call.facts.divides(COLUMN_BITS, cells.bit_base) and not (bit[:, :, 0, 0, 0] % 8).any()
    for at in np.ndindex(*numbers.shape[:2]) if fits else ():
        first = int(bit[at][0, 0, 0]) % COLUMN_BITS // 8
        column, byte = _wanted(made, name, first, block, rows)
        start = int(bit[at][0, 0, 0]) // COLUMN_BITS
        fits = fits and bool((bit[at] == ((start + column) * COLUMN_BITS + 8 * byte)[..., None]).all())
        found[at] = start, first
    steps = {1: 1, 2: 2, 3: 1, 6: 2}
    if not fits or (found[..., 1] % steps.get(count, 4)).any():
        raise Decline(
            f"{side.name} is not in tensor memory as the product takes scales: {side.buffer.layout}",
            allowed=f"row r in lane r % 32 of {4 // parts} quarters, its {count} scales in a cell of column r // 32",
            changes=_as_taken(call, side, count),
        )
    base = call.facts.simplify(quotient(cells.bit_base, COLUMN_BITS, call.facts))
    return PlacedScales(found[..., 0], found[..., 1], base)


def _wanted(made: isa.InstructionDescriptor, name: str, first: int, block: int, rows: int) -> tuple[Ints, Ints]:
    if name == "SFA":
        column, byte = scale_places(replace(made, sfa_id=first), "a", block)
    else:
        column, byte = scale_places(replace(made, sfb_id=first), "b_desc", block)
    parts = rows // len(column)
    return (column, byte) if parts == 1 else (np.tile(column, (parts, 1)), np.tile(byte, (parts, 1)))


def _as_taken(call: TileCall, side: Side, count: int) -> Iterator[Change]:
    """The same scales where a product takes them."""
    shape = long_extents(side.buffer.shape)
    if len(shape) != 2:
        return
    try:
        layout = sf_tmem_layout(*shape, sf_per_mma=count)
    except LayoutError:
        return
    changed = side_of(Region(replace(side.buffer, layout=layout), side.region.box), call.facts)
    text = f"layout=sf_tmem_layout({shape[0]}, SF_K={shape[1]}, sf_per_mma={count}) for {side.name}"
    yield Change(text, call.with_side(side, changed))
