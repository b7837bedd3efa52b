"""Shared memory to tensor memory, 64 rows of 16 bytes at a time, each row to a lane of two warps.

Which two is in the name: ``02_13`` has rows 0 to 31 in the lanes of warps 0 and 2, the rest in those of warps 1 and 3
(``R[2 : 64 @ TLane]``); ``01_23`` pairs neighbours (rows 32 apart go 64 lanes apart, ``R[2 : 32 @ TLane]``).
"""

from __future__ import annotations

from tilewright.tile.call import TileCall
from tilewright.tile.dispatch import variant
from tilewright.tile.tmem_copies import FROM_SHARED, Shape, TmemCopyPlan, emit_copies, plan_copies

__all__ = ["tcgen05_cp_64"]


@variant("copy_async", priority=10, when=FROM_SHARED)
def tcgen05_cp_64(call: TileCall) -> TmemCopyPlan:
    """tcgen05.cp 64x128b.warpx2: one thread copies 64 rows of 16 bytes, each to a lane of two warps."""
    return plan_copies(call, [Shape("64x128b", f"warpx2::{pairs}") for pairs in ("02_13", "01_23")])


tcgen05_cp_64.emit(emit_copies)
