"""Runs of any memories: the copies, fills and computations that are one `Distribution` each, and when they fit."""

from __future__ import annotations

import numpy as np

from tilewright.primitives.copy import ASKED, FILL
from tilewright.tile.call import TileCall
from tilewright.tile.conditions import bits_only, constant_extents, one_place_each, only_in, registers_inside
from tilewright.tile.dispatch import FILLS, Decline, condition, elementwise, variant
from tilewright.tile.distribution import MOST_LISTED, Distribution, by_holders, by_turns, registers_alike
from tilewright.tile.flow import by_runs, flowing, flows_wider
from tilewright.tile.pieces import by_fewer_accesses
from tilewright.tile.round_loops import emit_runs

ADDRESSED = only_in("local", "shared", "global")
ENDS = "{} elements at a time; runs of rows, whose ends are tested, have more"


@condition("clip= or fill= says that regions may leave their buffers")
def asked(call: TileCall) -> str | None:
    if any(operand.role.may_leave(dict(call.config)) for operand in call.row.operands):
        return None
    return "neither clip=True nor fill= is given"


@condition("the sides have different dtypes")
def dtypes_differ(call: TileCall) -> str | None:
    return None if call["dst"].dtype != call["src"].dtype else f"both sides are of {call.dtype}"


@condition("fill= is a number that the source could have")
def converted_as_well(call: TileCall) -> str | None:
    fill, kind = call.option(FILL), call["src"].dtype
    if not isinstance(fill, (int, float)):
        return None
    with np.errstate(all="ignore"):
        kept = np.asarray(fill).astype(kind.numpy).astype(np.float64) == fill
    return None if kept else f"fill={fill} is no {kind}"


@condition("a tile is in registers")
def some_registers(call: TileCall) -> str | None:
    return None if "local" in call.spaces else "all tiles are in shared or global memory"


# Copies


@variant("copy", priority=4, keywords=("vec_len",), when=[bits_only, ADDRESSED, one_place_each])
def rows(call: TileCall) -> Distribution:
    """Runs in the order of a memory, threads in turns; extents may be those of the run."""
    plan = by_runs(call)
    if "local" in call.spaces and (better := by_fewer_accesses(call, plan)):
        raise better
    return plan


@variant(
    "copy",
    priority=3,
    keywords=("vec_len", *ASKED),
    when=[asked, ADDRESSED, bits_only, one_place_each, registers_inside],
)
def clipped(call: TileCall) -> Distribution:
    """Runs of up to 128 bits, of which those that a buffer ends in are copied element by element."""
    return by_runs(call)


@variant(
    "copy",
    priority=1,
    keywords=("vec_len", *ASKED),
    when=[dtypes_differ, ADDRESSED, one_place_each, registers_inside, converted_as_well],
)
def converted(call: TileCall) -> Distribution:
    """Runs of up to 128 bits are loaded, converted as by `cast`, and stored."""
    return by_runs(call)


# Fills


@variant(*FILLS, priority=12, keywords=("vec_len",), when=[ADDRESSED, one_place_each])
def edges(call: TileCall) -> Distribution:
    """Runs of up to 128 bits, of which those that the buffer ends in are stored element by element."""
    size = call["dst"].size
    if size is None or size > MOST_LISTED:
        return by_runs(call)
    if call["dst"].space == "local":
        raise Decline("the extents of the registers are numbers")
    plan = by_turns(call)
    if flows_wider(call, plan.vector):
        return flowing(call)
    if not plan.parts:
        raise Decline("each run is inside or outside as a whole")
    return plan


# Computations


@elementwise(priority=20, when=[some_registers, ADDRESSED, constant_extents, one_place_each, registers_inside])
def holders(call: TileCall) -> Distribution:
    """Each thread computes the elements that it holds, with runs of memory of up to 128 bits."""
    leading = registers_alike(call)
    plan = by_turns(call) if leading is None else by_holders(call, leading)
    if better := by_fewer_accesses(call, plan):
        raise better
    return plan


@elementwise(priority=20, when=[only_in("shared", "global"), constant_extents, one_place_each])
def turns(call: TileCall) -> Distribution:
    """Neighbouring threads compute neighbouring runs, loaded and stored by accesses of up to 128 bits."""
    plan = by_turns(call)
    if flows_wider(call, plan.vector):
        raise Decline(ENDS.format(plan.vector))
    return plan


@elementwise(priority=10, when=[ADDRESSED, one_place_each])
def flow(call: TileCall) -> Distribution:
    """Runs of rows whose length only the run knows, or of regions too large to be listed; the ends are tested."""
    return by_runs(call) if call["dst"].size is None else flowing(call)


for _row in (rows, clipped, converted, edges, holders, turns, flow):
    _row.emit(emit_runs)
