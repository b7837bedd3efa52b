"""Memory that may end inside of a run, and extents that only the run knows: whole runs, and elements at the ends."""

from __future__ import annotations

from tilewright.tile.builder import Builder
from tilewright.tile.call import TileCall
from tilewright.tile.conditions import one_place_each, only_in
from tilewright.tile.dispatch import Decline, variant
from tilewright.tile.flow import TileFlow, emit_flow, flowing
from tilewright.tile.round_loops import emit_rounds
from tilewright.tile.rounds import MOST_LISTED, Rounds, by_turns

__all__ = ["edges"]


@variant(
    "fill", "memset", "zero", priority=12, keywords=("vec_len",), when=[only_in("shared", "global"), one_place_each]
)
def edges(call: TileCall) -> Rounds | TileFlow:
    """Runs of up to 128 bits, of which those that the buffer ends in are stored element by element."""
    size = call["dst"].size
    if size is None or size > MOST_LISTED:
        return flowing(call)
    plan = by_turns(call)
    if not plan.parts:
        raise Decline("each run is inside or outside as a whole")
    return plan


@edges.emit
def _(plan: Rounds | TileFlow, call: TileCall, out: Builder) -> None:
    if isinstance(plan, TileFlow):
        emit_flow(plan, call, out)
    else:
        emit_rounds(plan, call, out)
