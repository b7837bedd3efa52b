"""From shared memory to that of another CTA of the cluster: one thread has stretches of bytes moved by cp.async.bulk.

Source and destination are named as the calling CTA has them; the destination is the same place in CTA
``remote_cta_id=``, whose m-barrier ``mbar=`` counts the bytes. The threads that wait there announce these bytes.
"""

from __future__ import annotations

from tilewright import isa
from tilewright.tile.boxes import StretchPlan, emit_stretch, plan_stretches
from tilewright.tile.builder import Builder
from tilewright.tile.call import TileCall
from tilewright.tile.conditions import constant_extents, one_place_each, single_thread
from tilewright.tile.dispatch import Decline, condition, variant

GIVEN = {"remote_cta_id": "the rank of a CTA of the cluster", "mbar": "mbar=bar.ptr_to([0])"}


@condition("both sides are in shared memory")
def both_shared(call: TileCall) -> str | None:
    outside = next((side for side in call.tiles if side.space != "shared"), None)
    return None if outside is None else f"{outside.name} is in {outside.space} memory, not in shared"


@variant(
    "copy_async",
    priority=10,
    keywords=("mbar", "remote_cta_id", "use_tma_reduce"),
    when=[both_shared, single_thread, constant_extents, one_place_each],
)
def dsmem(call: TileCall) -> StretchPlan:
    """cp.async.bulk: one thread has stretches of bytes moved to the shared memory of another CTA of the cluster."""
    for key, allowed in GIVEN.items():
        if call.option(key) is None:
            raise Decline(f"a copy to another CTA says {key}=", allowed=allowed)
    return plan_stretches(call, "s2c")


@dsmem.emit
def _(plan: StretchPlan, call: TileCall, out: Builder) -> None:
    rank = call.option("remote_cta_id")
    with plan.share.pointers(call, out) as at:
        dst, mbar = (isa.call("ptx.mapa", place, rank) for place in (at["dst"], call.option("mbar")))
        emit_stretch(plan, call, out, dst, at["src"], mbar)
