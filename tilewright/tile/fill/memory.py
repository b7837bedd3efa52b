"""Shared and global memory: the threads of the scope store runs of the value, in the order of the memory.

Every place of an element counts: replicas are further elements, numbered after the region's own. Of a region that may
leave its buffer a run is inside or outside as a whole.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tilewright.ir import AddressOf, as_expr
from tilewright.layout import TileLayout
from tilewright.tile.builder import Builder
from tilewright.tile.call import Side, TileCall
from tilewright.tile.conditions import constant_extents, only_in
from tilewright.tile.dispatch import FILLS, Decline, variant
from tilewright.tile.distribution import ELEMENT, Distribution, dealt_out, in_memory_order, widened
from tilewright.tile.inside import inside, open_dimensions, splits
from tilewright.tile.partition import places
from tilewright.tile.values import filling_run
from tilewright.tile.walks import Ints, digits_of

MOST_LISTED = 1 << 17  # elements whose addresses are listed: more than shared memory has


@variant(*FILLS, priority=10, keywords=("vec_len",), when=[only_in("shared", "global"), constant_extents])
def memory(call: TileCall) -> Distribution:
    """The threads store neighbouring runs, in accesses of up to 128 bits."""
    return widened(call, _plan)


def _plan(call: TileCall) -> Distribution:
    dst = call["dst"]
    if int(dst.size or 0) > MOST_LISTED:
        raise Decline(f"{dst.size} elements, too many to lay out one by one", allowed=f"at most {MOST_LISTED} elements")
    is_open = bool(open_dimensions(call, dst))
    if is_open and dst.tile is None:
        raise Decline(dst.problem)
    everywhere = _every_place(dst)
    order = _each_place_once(call, everywhere)
    size = int(dst.size or 0)
    share = dealt_out(
        call.with_side(dst, everywhere), order, lambda length: splits(call, dst, order % size, length), numbered=is_open
    )
    if everywhere is not dst and any(offset.through is not None for _, offset in share.offsets):
        raise Decline(f"the places of {dst.name} follow no common pattern")
    return share


def _every_place(side: Side) -> Side:
    """The side with its replicas as further elements."""
    if side.tile is None or not side.tile.replica:
        return side
    tile = side.tile
    extents = (*(it.extent for it in tile.replica), *side.extents)
    return replace(side, extents=extents, tile=TileLayout((*tile.replica, *tile.shard), (), tile.offset))


def _each_place_once(call: TileCall, side: Side) -> Ints:
    """The elements in the order of the memory; of several in one place the first."""
    order, where = in_memory_order(side), places(side, call.facts)
    if len(where.units) > 1:
        return order
    first = np.unique(where.seen[0, order], return_index=True)[1]
    return order if len(first) == len(order) else order[np.sort(first)]


@memory.emit
def _(plan: Distribution, call: TileCall, out: Builder) -> None:
    dst = call["dst"]
    run, flat = filling_run(call, out, plan.vector), dst.buffer.flat()
    with plan.rounds_of(call, out) as at:
        number = at.get(ELEMENT)
        is_inside = None
        if number is not None:
            element = out.let("element", number)
            is_inside = inside(call, dst, digits_of(element % int(dst.size or 0), dst.extents))
        with out.when(is_inside):
            pointer = out.pointer("ptr", flat, at["dst"])
            out.call("cuda.copy_bytes", pointer, AddressOf(run, (as_expr(0),)), plan.nbytes)
