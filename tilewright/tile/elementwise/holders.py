"""Registers, alone or with memory: each thread computes the elements that it holds."""

from __future__ import annotations

from tilewright.tile.call import TileCall
from tilewright.tile.conditions import constant_extents, one_place_each, only_in, registers_inside
from tilewright.tile.dispatch import condition, elementwise
from tilewright.tile.distribution import Distribution, by_holders, by_turns, registers_alike
from tilewright.tile.pieces import by_fewer_accesses
from tilewright.tile.round_loops import emit_runs


@condition("a tile is in registers")
def some_registers(call: TileCall) -> str | None:
    return None if "local" in call.spaces else "all tiles are in shared or global memory"


@elementwise(
    priority=20,
    when=[some_registers, only_in("local", "shared", "global"), constant_extents, one_place_each, registers_inside],
)
def holders(call: TileCall) -> Distribution:
    """Each thread computes the elements that it holds, with runs of memory of up to 128 bits."""
    leading = registers_alike(call)
    plan = by_turns(call) if leading is None else by_holders(call, leading)
    if better := by_fewer_accesses(call, plan):
        raise better
    return plan


holders.emit(emit_runs)
