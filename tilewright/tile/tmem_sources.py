"""Shared memory as tcgen05.cp can read it: changes to try where a copy to tensor memory finds no descriptor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from tilewright.ir import const_value
from tilewright.layout import Iter, TileLayout, TLane
from tilewright.tile import smem_descriptors
from tilewright.tile.call import TileCall
from tilewright.tile.dispatch import Change
from tilewright.tile.smem_descriptors import UNIT
from tilewright.tile.walks import walk_of

if TYPE_CHECKING:
    from tilewright.tile.tmem_copies import Shape

__all__ = ["other_layouts"]


def other_layouts(call: TileCall, shape: Shape) -> Iterator[Change]:
    """The layouts of shared memory that descriptors are made for, the widest swizzle first; then the plainest."""
    src = call["src"]
    yield from smem_descriptors.other_layouts(call, src)
    if (plain := _in_order(call, shape)) is not None:
        yield Change(f"layout={plain} for {src.name}", call.with_buffer(src, layout=plain))


def _in_order(call: TileCall, shape: Shape) -> TileLayout | None:
    """Shared memory as instructions of this shape take it without a swizzle, one after the other: of each the first 16
    bytes of all rows, then the next. None where the region is not all of the buffers, or the lanes follow no pattern.
    """
    tile, sides = call["dst"].tile, (call["dst"], call["src"])
    if tile is None or any(side.extents != side.buffer.shape for side in sides):
        return None
    together, lanes = 8 * UNIT // call["dst"].dtype.bits, shape.lanes[0]
    along = const_value(tile.cosize("TCol"))
    units = -(-int(along or 1) // together)
    shard: list[Iter] = []
    for it in _cut(tile.shard, together):
        at = np.arange(int(it.extent)) * int(it.stride)
        lane, column = (at, 0 * at) if it.axis == TLane else (0 * at, at)
        row = np.searchsorted(lanes, lane - lane % shape.origins)
        block = row + len(lanes) * (column // together + units * (lane % shape.origins))
        walk = walk_of(block * together + column % together, listed=False)
        if walk is None or len(walk.steps) > 1:
            return None
        shard.append(Iter(it.extent, walk.steps[0][1] if walk.steps else 0))
    return TileLayout(shard)


def _cut(shard: Iterable[Iter], together: int) -> Iterator[Iter]:
    """Iters along columns, in two where they cross what stays together."""
    for it in shard:
        extent, stride = int(it.extent), int(it.stride)
        inside = together // stride if stride else 1
        if it.axis != TLane and 1 < inside < extent and not extent % inside:
            yield Iter(extent // inside, together, it.axis)
            yield Iter(inside, stride, it.axis)
        else:
            yield it
