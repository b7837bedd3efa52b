"""Shared and global memory: the threads of the scope load runs of all sources, compute, and store runs."""

from __future__ import annotations

from tilewright.tile.call import TileCall
from tilewright.tile.conditions import constant_extents, one_place_each, only_in
from tilewright.tile.dispatch import Decline, elementwise
from tilewright.tile.distribution import Distribution, by_turns
from tilewright.tile.flow import flows_wider
from tilewright.tile.round_loops import emit_runs


@elementwise(priority=20, when=[only_in("shared", "global"), constant_extents, one_place_each])
def turns(call: TileCall) -> Distribution:
    """Neighbouring threads compute neighbouring runs, loaded and stored by accesses of up to 128 bits."""
    plan = by_turns(call)
    if flows_wider(call, plan.vector):
        raise Decline(f"{plan.vector} elements at a time; runs of rows, whose ends are tested, have more")
    return plan


turns.emit(emit_runs)
