"""Shared and global memory: the threads of the scope load runs of all sources, compute, and store runs."""

from __future__ import annotations

from tilewright.tile.call import TileCall
from tilewright.tile.conditions import constant_extents, one_place_each, only_in
from tilewright.tile.dispatch import Decline, elementwise
from tilewright.tile.rounds import Rounds, by_turns, emit_rounds

__all__ = ["turns"]

MOST_LISTED = 1 << 17  # elements whose addresses are listed


@elementwise(priority=20, when=[only_in("shared", "global"), constant_extents, one_place_each])
def turns(call: TileCall) -> Rounds:
    """Neighbouring threads compute neighbouring runs, loaded and stored by accesses of up to 128 bits."""
    if int(call["dst"].size or 0) > MOST_LISTED:
        raise Decline(f"{call['dst'].size} elements, too many to lay out one by one")
    return by_turns(call)


turns.emit(emit_rounds)
