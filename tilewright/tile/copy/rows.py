"""Any pair of memories, and registers that the same threads hold, for copies that no other variant takes."""

from __future__ import annotations

from tilewright.tile.call import TileCall
from tilewright.tile.conditions import bits_only, one_place_each, only_in
from tilewright.tile.dispatch import Decline, condition, variant
from tilewright.tile.flow import TileFlow, emit_runs, flowing
from tilewright.tile.rounds import MOST_LISTED, Rounds, by_holders, by_turns, registers_alike

__all__ = ["rows"]


@condition("both sides are in memory, or both in registers")
def alike(call: TileCall) -> str | None:
    return None if call.spaces.count("local") != 1 else "one side is in registers, the other is not"


@variant(
    "copy",
    priority=4,
    keywords=("vec_len",),
    when=[alike, bits_only, only_in("local", "shared", "global"), one_place_each],
)
def rows(call: TileCall) -> Rounds | TileFlow:
    """Runs in the order of a memory, threads in turns; extents may be those of the run."""
    size = call["dst"].size
    if "local" in call.spaces:
        if size is None:
            raise Decline("registers have extents that are numbers")
        leading = registers_alike(call)
        assert leading is not None, "dst is in registers"
        return by_holders(call, leading)
    return flowing(call) if size is None or size > MOST_LISTED else by_turns(call)


rows.emit(emit_runs)
