"""The variants of fills: a value in memory, or in registers."""

from __future__ import annotations

import numpy as np

from tilewright.ir import Region
from tilewright.layout import ComposeLayout, TileLayout
from tilewright.records import replace
from tilewright.tile.builder import Builder
from tilewright.tile.call import TileCall, side_of
from tilewright.tile.conditions import only_in, registers_inside
from tilewright.tile.dispatch import FILLS, variant
from tilewright.tile.distribution import Distribution, by_runs, in_memory_order, widened
from tilewright.tile.partition import places
from tilewright.tile.round_loops import emit_runs
from tilewright.tile.walks import Ints


@variant(*FILLS, priority=10, keywords=("vec_len",), when=[only_in("shared", "global")])
def memory(call: TileCall) -> Distribution:
    """Threads store neighbouring runs of up to 128 bits; those that the buffer ends in element by element."""
    return widened(call, lambda other: by_runs(_everywhere(other), order=_each_place_once(other)))


@variant(*FILLS, priority=10, keywords=("vec_len",), when=[only_in("local"), registers_inside])
def registers(call: TileCall) -> Distribution:
    """Each thread stores to the registers that it holds, all replicas among them."""
    return by_runs(call)


registers.emit(emit_runs)


@memory.emit
def _(plan: Distribution, call: TileCall, out: Builder) -> None:
    emit_runs(plan, _everywhere(call), out)


def _everywhere(call: TileCall) -> TileCall:
    """The call on a view in which each place of an element is one of its own: replicas are further dimensions."""
    dst = call["dst"]
    layout = dst.buffer.layout
    tile = layout.tile if isinstance(layout, ComposeLayout) else layout
    if not isinstance(tile, TileLayout) or not tile.replica:
        return call
    copies = tuple(it.extent for it in tile.replica)
    wide = TileLayout((*tile.replica, *tile.shard), (), tile.offset)
    view = replace(
        dst.buffer,
        shape=(*copies, *dst.buffer.shape),
        layout=ComposeLayout(layout.swizzle, wide) if isinstance(layout, ComposeLayout) else wide,
    )
    box = (*((0, count) for count in copies), *dst.region.box)
    return call.with_side(dst, side_of(Region(view, box), call.facts))


def _each_place_once(call: TileCall) -> Ints | None:
    """The elements in the order of the memory, of several in one place the first; None where each has its own."""
    side = _everywhere(call)["dst"]
    if side is call["dst"] or side.size is None:
        return None
    order, where = in_memory_order(side), places(side, call.facts)
    first = np.sort(np.unique(where.seen[0, order], return_index=True)[1])
    return order[first] if len(where.units) == 1 else order
