"""Shared memory to tensor memory, 4 rows of 32 bytes at a time, one to a lane of each warp.

It fills single lanes: those that a shift has left open, or, lane after lane, the sixteen lanes per warp of an
accumulator of 64 rows (datapath F). That takes many instructions: the other shapes are tried before.
"""

from __future__ import annotations

from tilewright.tile.call import TileCall
from tilewright.tile.dispatch import variant
from tilewright.tile.tmem_copies import FROM_SHARED, Shape, TmemCopyPlan, emit_copies, plan_copies

__all__ = ["tcgen05_cp_4"]


@variant("copy_async", priority=9, when=FROM_SHARED)
def tcgen05_cp_4(call: TileCall) -> TmemCopyPlan:
    """tcgen05.cp 4x256b: one thread copies 4 rows of 32 bytes, one to a lane of each warp."""
    return plan_copies(call, [Shape("4x256b")])


tcgen05_cp_4.emit(emit_copies)
