"""Extents that only the run knows, and memory that is too large to be listed."""

from __future__ import annotations

from tilewright.tile.call import TileCall
from tilewright.tile.conditions import one_place_each, only_in
from tilewright.tile.dispatch import elementwise
from tilewright.tile.distribution import Distribution
from tilewright.tile.flow import by_runs, flowing
from tilewright.tile.round_loops import emit_runs


@elementwise(priority=10, when=[only_in("local", "shared", "global"), one_place_each])
def flow(call: TileCall) -> Distribution:
    """Runs of rows whose length only the run knows, or of regions too large to be listed; the ends are tested."""
    return by_runs(call) if call["dst"].size is None else flowing(call)


flow.emit(emit_runs)
