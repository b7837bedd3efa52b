"""Tiles that are spread over several GPUs: copied asynchronously to or from the GPU that has them."""

from __future__ import annotations

from tilewright.tile.call import TileCall
from tilewright.tile.copy.devices import plan_peer
from tilewright.tile.dispatch import across_gpus, variant
from tilewright.tile.steps import CallSteps, emit_steps


@variant("copy_async", priority=30, keywords=("mbar", "cta_mask", "cache_hint", "use_tma_reduce"), when=[across_gpus])
def peer(call: TileCall) -> CallSteps:
    """The unit gets a pointer into the memory of the GPU that has the tile."""
    return plan_peer(call)


peer.emit(emit_steps)
