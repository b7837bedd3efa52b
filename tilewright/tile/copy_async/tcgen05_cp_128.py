"""Shared memory to all 128 lanes of tensor memory, a row of 32 or 16 bytes to each: accumulators and operands."""

from __future__ import annotations

from tilewright.tile.call import TileCall
from tilewright.tile.dispatch import variant
from tilewright.tile.tmem_copies import FROM_SHARED, Shape, TmemCopyPlan, emit_copies, plan_copies

__all__ = ["tcgen05_cp_128"]


@variant("copy_async", priority=10, when=FROM_SHARED)
def tcgen05_cp_128(call: TileCall) -> TmemCopyPlan:
    """tcgen05.cp 128x256b or 128x128b: one thread copies 128 rows, each to a lane of its own."""
    return plan_copies(call, [Shape("128x256b"), Shape("128x128b")])


tcgen05_cp_128.emit(emit_copies)
