"""Between global and shared memory: the threads of the scope share the elements out in the order of the global side."""

from __future__ import annotations

from dataclasses import replace

from tilewright.tile.call import TileCall
from tilewright.tile.conditions import between, bits_only, constant_extents, one_place_each
from tilewright.tile.dispatch import variant
from tilewright.tile.hints import wider
from tilewright.tile.shares import Share, dealt_out, emit_copies, in_memory_order

__all__ = ["gmem_smem"]


@variant(
    "copy",
    priority=10,
    keywords=("vec_len",),
    when=[between("global", "shared"), bits_only, constant_extents, one_place_each],
)
def gmem_smem(call: TileCall) -> Share:
    """Neighbouring threads copy neighbouring runs of global memory, in accesses of up to 128 bits."""
    plan = _plan(call)
    return replace(plan, widened=wider(call, plan, _plan)) if plan.limit else plan


def _plan(call: TileCall) -> Share:
    return dealt_out(call, in_memory_order(call.side("global")))


gmem_smem.emit(emit_copies)
