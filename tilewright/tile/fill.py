"""The variants of fills: a value in memory, or in registers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tilewright.ir import AddressOf, Buffer, Const, Expr, as_expr, cast
from tilewright.layout import TileLayout
from tilewright.tile.builder import Builder
from tilewright.tile.call import Side, TileCall
from tilewright.tile.conditions import constant_extents, kept_inside, only_in
from tilewright.tile.dispatch import FILLS, Decline, variant
from tilewright.tile.distribution import ELEMENT, MOST_LISTED, Distribution, dealt_out, in_memory_order, widened
from tilewright.tile.owners import inside, open_dimensions, owners, splits
from tilewright.tile.partition import places
from tilewright.tile.walks import Ints, Offset, digits_of

# Shared and global memory: the threads of the scope store runs of the value, in the order of the memory.
#
# Every place of an element counts: replicas are further elements, numbered after the region's own. Of a region that may
# leave its buffer a run is inside or outside as a whole.


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


# Registers: each thread stores to those that the layout says are its own, all replicas among them.


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """slots: where each of the rounds stores, one element. guard: holds in the threads that have elements."""

    rounds: int
    slots: Offset
    guard: Expr | None

    def summary(self) -> str:
        """``8 registers per thread``."""
        return f"{self.rounds} elements in registers per thread"


@variant(*FILLS, priority=10, keywords=("vec_len",), when=[only_in("local"), constant_extents, kept_inside])
def registers(call: TileCall) -> SlotPlan:
    """Each thread stores to the registers that it holds."""
    dst = call["dst"]
    held = owners(call, dst, loading=True)
    slots = held.offset_of(held.slots)
    if slots is None:
        raise Decline(f"the slots of {dst.name} follow no pattern")
    return SlotPlan(len(held.slots), slots, held.guard(storing=False))


@registers.emit
def _(plan: SlotPlan, call: TileCall, out: Builder) -> None:
    value, flat = filling(call, out), call["dst"].buffer.flat()
    with out.when(plan.guard), out.loop("f", plan.rounds) as f:
        out.store(flat, out.offsets(plan.slots, "r")(f), value)


# The value that a call fills a tile with.


def filling(call: TileCall, out: Builder) -> Expr:
    """The value, computed once; 0 for a call that names none."""
    value = call.scalars.get("value", cast(0, call.dtype))
    return value if isinstance(value, Const) else out.let("value", value)


def filling_run(call: TileCall, out: Builder, length: int) -> Buffer:
    """Registers that hold the value so many times: what a wide access stores."""
    value, run = filling(call, out), out.local("run", length, str(call.dtype))
    with out.loop("e", length) as e:
        out.store(run.flat(), e, value)
    return run.flat()
