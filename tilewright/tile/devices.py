"""Tiles of arrays that are spread over several GPUs: which of them has a tile, and the tile as it lies there.

A symmetric argument may have a layout with the axis ``pid``, the rank: its shape is that of the whole array, of which
each GPU has a part (an iter on ``pid``), or all (a replica along ``pid``). A region that lies on one GPU is a tile of
that GPU's memory, to which a pointer leads.
"""

from __future__ import annotations

from itertools import product
from math import prod

from tilewright.ir import AddressOf, Region, Value, const_value
from tilewright.layout import TileLayout, pid
from tilewright.records import replace
from tilewright.tile.call import Side, TileCall, side_of
from tilewright.tile.dispatch import Decline, is_spread

__all__ = ["OWN", "device_of", "devices_of", "is_everywhere", "on_device", "spread_sides"]


OWN = "own"  # the GPU of the thread, in the place of a rank


def device_of(side: Side) -> Value | str:
    """The rank that has the tile; of one that all have, `OWN`. Raises Decline where it lies on several GPUs."""
    if side.tile is None:
        raise Decline(side.problem, allowed="a region of which the layout says on which GPU it lies")
    apart = [it for it in side.tile.shard if it.axis == pid and const_value(it.extent) != 1]
    if apart:
        count = prod(int(const_value(it.extent) or 0) for it in apart)
        raise Decline(f"{side} lies on {count} GPUs", allowed="tiles that each lie on one GPU, or on all")
    return OWN if is_everywhere(side) else side.tile.offset_on(pid)


def devices_of(side: Side) -> list[Value]:
    """The ranks of all GPUs that have the tile."""
    device_of(side)
    assert side.tile is not None
    copies = [it for it in side.tile.replica if it.axis == pid]
    first = side.tile.offset_on(pid)
    digits = product(*(range(int(const_value(it.extent) or 1)) for it in copies))
    return [first + sum(at * it.stride for at, it in zip(each, copies, strict=True)) for each in digits]


def is_everywhere(side: Side) -> bool:
    """Does each GPU have all of the tile?"""
    copies = [it for it in side.tile.replica if it.axis == pid] if side.tile is not None else []
    return bool(copies) and prod(int(const_value(it.extent) or 0) for it in copies) == side.buffer.peers


def on_device(call: TileCall, side: Side, rank: Value | str, *, name: str = "") -> Side:
    """The tile in the memory of one GPU; on all of them at once for a rank that none has, `Buffer.peers`."""
    assert side.tile is not None
    tile, extents = side.tile, tuple(side.extents)
    layout = TileLayout.from_iters(
        [it for it in tile.shard if it.axis != pid],
        [it for it in tile.replica if it.axis != pid],
        [term for term in tile.offset if term.axis != pid],
    )
    if isinstance(rank, str):
        there = replace(side.buffer, name=f"{side.name}_own", data=AddressOf(side.buffer), peers=0)
    elif const_value(rank) == side.buffer.peers:
        there = side.buffer.multicast()
    else:
        there = side.buffer.peer(rank)
    view = replace(there, name=name or there.name, shape=extents, layout=layout)
    return side_of(Region(view, tuple((0, extent) for extent in extents)), call.facts)


def spread_sides(call: TileCall) -> dict[str, Side]:
    """The tiles of a call that are spread over GPUs, by operand."""
    return {key: side for key, side in call.sides.items() if is_spread(side.buffer)}
