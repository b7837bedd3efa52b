"""Any memories, for copies that no other variant takes: extents that only the run knows, and registers that go in
another order than the memory does.
"""

from __future__ import annotations

from tilewright.tile.call import TileCall
from tilewright.tile.conditions import bits_only, one_place_each, only_in
from tilewright.tile.dispatch import variant
from tilewright.tile.distribution import Distribution
from tilewright.tile.flow import by_runs
from tilewright.tile.pieces import by_fewer_accesses
from tilewright.tile.round_loops import emit_runs


@variant(
    "copy",
    priority=4,
    keywords=("vec_len",),
    when=[bits_only, only_in("local", "shared", "global"), one_place_each],
)
def rows(call: TileCall) -> Distribution:
    """Runs in the order of a memory, threads in turns; extents may be those of the run."""
    plan = by_runs(call)
    if "local" in call.spaces and (better := by_fewer_accesses(call, plan)):
        raise better
    return plan


rows.emit(emit_runs)
