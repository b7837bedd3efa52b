"""Shared memory to tensor memory, 32 rows of 16 bytes at a time, each row to one lane of all four warps.

This is how block scales reach the tensor cores: an mma reads the scale of a row in each quarter of the 128 lanes, so
that the layout of tensor memory holds every element four times, 32 lanes apart: ``R[4 : 32 @ TLane]``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilewright.ir import Region
from tilewright.layout import Iter, TileLayout, TLane
from tilewright.tile.call import TileCall, side_of
from tilewright.tile.cells import replicas_of
from tilewright.tile.dispatch import Change, Variant, by_name, condition, variant
from tilewright.tile.tmem_copies import FROM_SHARED, Shape, TmemCopyPlan, emit_copies, plan_copies

__all__ = ["tcgen05_cp"]

ROUTER = (Iter(4, 32, TLane),)


def _with_router(call: TileCall) -> Iterator[Change]:
    """The same call on a layout with the replicas that it lacks."""
    region, layout = call.dst.region, call.dst.buffer.layout
    if isinstance(layout, TileLayout) and not layout.replica:
        buffer = replace(region.buffer, layout=replace(layout, replica=ROUTER))
        changed = side_of(Region(buffer, region.box), call.facts)
        yield Change(f"layout={buffer.layout} for {buffer.name}", call.with_side(call.dst, changed))


@condition(
    "the tensor memory holds each element in all four warps' lanes: exactly R[4 : 32 @ TLane]", changes=_with_router
)
def one_copy_per_warp(call: TileCall) -> str | None:
    found = replicas_of(call.dst)
    if found == ROUTER:
        return None
    given = " + ".join(f"R[{it}]" for it in found) or "no replica"
    return f"needs R[4:32@TLane] on {call.dst.name}, which has {given}"


@variant("copy_async", priority=10, when=[*FROM_SHARED, one_copy_per_warp])
def tcgen05_cp(call: TileCall) -> TmemCopyPlan:
    """tcgen05.cp 32x128b.warpx4: one thread copies 32 rows of 16 bytes to the lanes of all four warps."""
    return plan_copies(call, [Shape("32x128b", "warpx4")])


tcgen05_cp.emit(emit_copies)


@by_name("copy_async")
def smem_to_tmem(name: str) -> Variant | None:
    """The same, as kernels written for TIRx call it: ``dispatch="smem->tmem"``."""
    if name != "smem->tmem":
        return None
    made = Variant(name, tcgen05_cp.priority, tcgen05_cp.when, tcgen05_cp.planner, tcgen05_cp.doc)
    made.emit(emit_copies)
    return made
