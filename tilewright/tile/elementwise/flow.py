"""Shared and global memory whose extents only the run knows, or that is too large to be listed."""

from __future__ import annotations

from tilewright.tile.call import TileCall
from tilewright.tile.conditions import one_place_each, only_in
from tilewright.tile.dispatch import elementwise
from tilewright.tile.flow import TileFlow, emit_flow, flowing

__all__ = ["flow"]


@elementwise(priority=10, when=[only_in("shared", "global"), one_place_each])
def flow(call: TileCall) -> TileFlow:
    """Runs of rows whose length only the run knows, or of regions too large to be listed; the ends are tested."""
    return flowing(call)


flow.emit(emit_flow)
