"""Shared memory to tensor memory: a row for each way in which tcgen05.cp distributes rows to lanes.

32 rows to all four warps is how block scales reach the tensor cores: an mma reads the scale of a row in each quarter of
the 128 lanes, so that tensor memory holds every element four times, 32 lanes apart: ``R[4 : 32 @ TLane]``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilewright.ir import Region
from tilewright.layout import Iter, TileLayout, TLane
from tilewright.tile.call import TileCall, side_of
from tilewright.tile.cells import replicas_of
from tilewright.tile.dispatch import Change, Condition, Variant, by_name, condition, register
from tilewright.tile.tmem_copies import FROM_SHARED, Shape, TmemCopyPlan, emit_copies, plan_copies

ROUTER = (Iter(4, 32, TLane),)


def _with_router(call: TileCall) -> Iterator[Change]:
    """The same call on a layout with the replicas that it lacks."""
    region, layout = call["dst"].region, call["dst"].buffer.layout
    if isinstance(layout, TileLayout) and not layout.replica:
        buffer = replace(region.buffer, layout=replace(layout, replica=ROUTER))
        changed = side_of(Region(buffer, region.box), call.facts)
        yield Change(f"layout={buffer.layout} for {buffer.name}", call.with_side(call["dst"], changed))


@condition(
    "the tensor memory holds each element in all four warps' lanes: exactly R[4 : 32 @ TLane]", changes=_with_router
)
def one_copy_per_warp(call: TileCall) -> str | None:
    replicas = replicas_of(call["dst"])
    if replicas == ROUTER:
        return None
    text = " + ".join(f"R[{it}]" for it in replicas) or "no replica"
    return f"needs R[4:32@TLane] on {call['dst'].name}, which has {text}"


@dataclass(frozen=True, slots=True)
class CopyVariant:
    """A variant: what it is called, the shapes of the instruction that it tries, what it asks beside the others."""

    name: str
    doc: str
    shapes: tuple[Shape, ...]
    priority: int = 10
    when: tuple[Condition, ...] = ()


ROWS = (
    CopyVariant(
        "tcgen05_cp",
        "tcgen05.cp 32x128b.warpx4: one thread copies 32 rows of 16 bytes to the lanes of all four warps.",
        (Shape("32x128b", "warpx4"),),
        when=(one_copy_per_warp,),
    ),
    CopyVariant(
        "tcgen05_cp_128",
        "tcgen05.cp 128x256b or 128x128b: one thread copies 128 rows, each to a lane of its own.",
        (Shape("128x256b"), Shape("128x128b")),
    ),
    CopyVariant(  # 02_13 has rows 0 to 31 in warps 0 and 2 (R[2 : 64 @ TLane]), 01_23 in neighbours (R[2 : 32 @ TLane])
        "tcgen05_cp_64",
        "tcgen05.cp 64x128b.warpx2: one thread copies 64 rows of 16 bytes, each to a lane of two warps.",
        (Shape("64x128b", "warpx2::02_13"), Shape("64x128b", "warpx2::01_23")),
    ),
    CopyVariant(  # fills lanes that a shift leaves free, or 64 rows one after the other: needs the most instructions
        "tcgen05_cp_4",
        "tcgen05.cp 4x256b: one thread copies 4 rows of 32 bytes, one to a lane of each warp.",
        (Shape("4x256b"),),
        priority=9,
    ),
)
ALIASES = {"smem->tmem": "tcgen05_cp"}  # as kernels written for TIRx call it


def made(row: CopyVariant, name: str) -> Variant:
    """The variant of a row."""

    def plan(call: TileCall) -> TmemCopyPlan:
        return plan_copies(call, row.shapes)

    variant = Variant(name, row.priority, (*FROM_SHARED, *row.when), plan, row.doc, ("cta_group", "fmt"))
    variant.emit(emit_copies)
    return variant


VARIANTS = {row.name: register(made(row, row.name), "copy_async") for row in ROWS}


@by_name("copy_async")
def smem_to_tmem(name: str) -> Variant | None:
    """The same under another name, which only ``dispatch=`` may say."""
    return next((made(row, name) for row in ROWS if row.name == ALIASES.get(name)), None)
