"""Between global and shared memory: the threads of the scope share the elements out in the order of the global side."""

from __future__ import annotations

from tilewright.tile.call import TileCall
from tilewright.tile.conditions import between, bits_only, constant_extents, one_place_each
from tilewright.tile.dispatch import Decline, variant
from tilewright.tile.distribution import Distribution, dealt_out, emit_copies, in_memory_order, widened
from tilewright.tile.flow import flows_wider


@variant(
    "copy",
    priority=10,
    keywords=("vec_len",),
    when=[between("global", "shared"), bits_only, constant_extents, one_place_each],
)
def gmem_smem(call: TileCall) -> Distribution:
    """Neighbouring threads copy neighbouring runs of global memory, in accesses of up to 128 bits."""
    plan = widened(call, lambda wide: dealt_out(wide, in_memory_order(wide.side("global"))))
    if flows_wider(call, plan.vector):
        raise Decline(f"{plan.vector} elements at a time; runs of rows, whose ends are tested, have more")
    return plan


gmem_smem.emit(emit_copies)
