"""Global memory to shared memory and back by the copy engine: one thread issues copies of boxes of an array.

Box, swizzle and coordinates follow from the two layouts (`tile.boxes`); the tensor map is an argument that the compiler
adds and every call makes. Waiting is the caller's: a load completes at ``mbar=`` all bytes of the region, also those
outside of the array; a store belongs to the thread's bulk group, and needs a proxy fence before it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.dtypes import INT32
from tilewright.ir import AddressOf, Expr, as_expr, cast
from tilewright.isa import lookup
from tilewright.tile.boxes import Box, BoxPlan, plan_boxes
from tilewright.tile.builder import Builder
from tilewright.tile.call import TileCall
from tilewright.tile.conditions import between, check_target, constant_extents, one_way_keywords, single_thread
from tilewright.tile.dispatch import variant
from tilewright.tile.walks import plus

TENSOR = "ptx.cp_async.bulk.tensor"


@dataclass(frozen=True, slots=True)
class TmaPlan:
    """row: what moves each box."""

    row: str
    boxes: BoxPlan

    def summary(self) -> str:
        return f"{self.row.rpartition('.')[2]}: {self.boxes.summary()}"


@variant(
    "copy_async",
    priority=20,
    keywords=("mbar", "cta_mask", "cta_group", "cache_hint", "oob", "use_tma_reduce"),
    when=[between("global", "shared"), single_thread, constant_extents, one_way_keywords],
)
def tma(call: TileCall) -> TmaPlan:
    """cp.async.bulk.tensor: one thread has the copy engine move boxes of an array."""
    loads = call["dst"].space == "shared"
    row = "g2c" if loads else "s2g_reduce" if call.option("use_tma_reduce") else "s2g"
    check_target(call, f"{TENSOR}.{row}", lookup(f"{TENSOR}.{row}").forms[0])
    return TmaPlan(f"{TENSOR}.{row}", plan_boxes(call, oob=str(call.option("oob") or "zero")))


@tma.emit
def _(plan: TmaPlan, call: TileCall, out: Builder) -> None:
    tensor_map = out.tensor_map(plan.boxes.tensor_map)
    for box in plan.boxes.boxes:
        _issue(plan, box, tensor_map.pointer, call, out)


def _issue(plan: TmaPlan, box: Box, of: Expr, call: TileCall, out: Builder) -> None:
    boxes = plan.boxes
    tile = AddressOf(call.side("shared").buffer.flat(), (as_expr(plus(boxes.offset, box.offset)),))
    starts = zip(boxes.starts, box.coords, strict=True)
    coords = [cast(as_expr(call.facts.simplify(plus(start, step))), INT32) for start, step in starts]
    hint = str(call.option("cache_hint") or "")
    rank = len(coords)
    if plan.row.endswith("g2c"):
        mask = call.option("cta_mask", 0)
        group = 2 if call.option("cta_group") == 2 else -1
        out.call(plan.row, rank, tile, call.option("mbar"), of, mask, group, hint, *coords)
    elif plan.row.endswith("s2g"):
        out.call(plan.row, rank, tile, of, hint, *coords)
    else:
        out.call(plan.row, rank, tile, of, hint, call.option("use_tma_reduce"), *coords)
