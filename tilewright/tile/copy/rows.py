"""Any pair of memories, and registers that the same threads hold, for copies that no other variant takes; and extents
that only the run knows."""

from __future__ import annotations

from tilewright.tile.call import TileCall
from tilewright.tile.conditions import bits_only, one_place_each, only_in
from tilewright.tile.dispatch import condition, variant
from tilewright.tile.distribution import Distribution
from tilewright.tile.flow import by_runs
from tilewright.tile.round_loops import emit_runs

__all__ = ["rows"]


@condition("both sides are in memory, or both in registers, or an extent is of the run")
def alike_or_of_the_run(call: TileCall) -> str | None:
    if call.spaces.count("local") != 1 or call["dst"].size is None:
        return None
    return "one side is in registers, the other is not, and all extents are numbers"


@variant(
    "copy",
    priority=4,
    keywords=("vec_len",),
    when=[alike_or_of_the_run, bits_only, only_in("local", "shared", "global"), one_place_each],
)
def rows(call: TileCall) -> Distribution:
    """Runs in the order of a memory, threads in turns; extents may be those of the run."""
    return by_runs(call)


rows.emit(emit_runs)
