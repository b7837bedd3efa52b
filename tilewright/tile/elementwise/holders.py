"""Registers, alone or with memory: each thread computes the elements that it holds."""

from __future__ import annotations

from tilewright.tile.call import TileCall
from tilewright.tile.conditions import constant_extents, one_place_each, only_in
from tilewright.tile.dispatch import condition, elementwise
from tilewright.tile.inside import open_dimensions
from tilewright.tile.rounds import Rounds, by_holders, by_turns, emit_rounds, registers_alike

__all__ = ["holders"]


@condition("a tile is in registers")
def some_registers(call: TileCall) -> str | None:
    return None if "local" in call.spaces else "all tiles are in shared or global memory"


@condition("regions of registers are known to be inside of their buffers")
def registers_inside(call: TileCall) -> str | None:
    for side in call.tiles:
        if side.space == "local" and (dims := open_dimensions(call, side)):
            return f"the region {side} may leave dimension {dims[0]} of {side.name}"
    return None


@elementwise(
    priority=20,
    when=[some_registers, only_in("local", "shared", "global"), constant_extents, one_place_each, registers_inside],
)
def holders(call: TileCall) -> Rounds:
    """Each thread computes the elements that it holds, with runs of memory of up to 128 bits."""
    leading = registers_alike(call)
    return by_turns(call) if leading is None else by_holders(call, leading)


holders.emit(emit_rounds)
