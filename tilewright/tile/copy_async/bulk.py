"""Between global and shared memory by cp.async.bulk: one thread issues copies of runs of bytes, without a tensor map.

It serves copies that are no box of an argument: buffers that a kernel makes of pointers, strides that no map has, flat
arrays. Elements outside of the array are not filled in. Waiting is the caller's, as with `tma`: a load completes its
bytes at ``mbar=``, a store belongs to the thread's bulk group.
"""

from __future__ import annotations

from tilewright.tile.boxes import StretchPlan, emit_stretch, plan_stretches
from tilewright.tile.builder import Builder
from tilewright.tile.call import TileCall
from tilewright.tile.conditions import between, constant_extents, one_place_each, one_way_keywords, single_thread
from tilewright.tile.dispatch import variant


@variant(
    "copy_async",
    priority=10,
    keywords=("mbar", "cta_mask", "cache_hint", "use_tma_reduce"),
    when=[between("global", "shared"), single_thread, constant_extents, one_place_each, one_way_keywords],
)
def bulk(call: TileCall) -> StretchPlan:
    """cp.async.bulk: one thread has stretches of bytes moved, as long as they are contiguous in both memories."""
    if call["dst"].space == "global":
        return plan_stretches(call, "s2g")
    return plan_stretches(call, "g2s_cta" if call.option("cta_mask") is None else "g2s_cluster")


@bulk.emit
def _(plan: StretchPlan, call: TileCall, out: Builder) -> None:
    mbar = call.option("mbar")
    modifiers = {key: value for key in ("cta_mask", "cache_hint") if (value := call.option(key)) not in (None, "")}
    with plan.share.pointers(call, out) as at:
        emit_stretch(plan, call, out, at["dst"], at["src"], *(() if mbar is None else (mbar,)), **modifiers)
