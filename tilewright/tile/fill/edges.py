"""Memory that may end inside of a run, and extents that only the run knows: whole runs, and elements at the ends."""

from __future__ import annotations

from tilewright.tile.call import TileCall
from tilewright.tile.conditions import one_place_each, only_in
from tilewright.tile.dispatch import Decline, variant
from tilewright.tile.distribution import MOST_LISTED, Distribution, by_turns
from tilewright.tile.flow import by_runs, flowing, flows_wider
from tilewright.tile.round_loops import emit_runs


@variant(
    "fill",
    "memset",
    "zero",
    priority=12,
    keywords=("vec_len",),
    when=[only_in("local", "shared", "global"), one_place_each],
)
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


edges.emit(emit_runs)
