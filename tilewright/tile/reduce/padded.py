"""Registers that end inside of a warp, or of a thread, are copied to scratch registers that do not, padded with the
neutral element. All lanes then hold equally many, and join by shuffles.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise

from tilewright.ir import Buffer, Region, const_value
from tilewright.layout import Iter, TileLayout
from tilewright.primitives.fill import fill
from tilewright.primitives.reduce import axes_of
from tilewright.records import replace
from tilewright.tile.call import Side, TileCall, side_of
from tilewright.tile.conditions import by_several, constant_extents, from_registers, kept_inside
from tilewright.tile.dispatch import Decline, variant
from tilewright.tile.owners import owners
from tilewright.tile.reductions import KEYWORDS, OPERATIONS, reduction_of
from tilewright.tile.steps import CallSteps, ScratchRegisters, emit_steps, in_steps, inner_call

WARP = 32


@variant(
    *OPERATIONS,
    priority=11,
    keywords=KEYWORDS,
    when=[from_registers, by_several, constant_extents, kept_inside],
)
def padded(call: TileCall) -> CallSteps:
    """Lanes that have less than others, or nothing, count neutral elements, so that all join by shuffles."""
    src = call["src"]
    if _is_even(call):
        raise Decline(f"the threads that hold {src} are whole warps, or a power of two, with as much in each")
    shape, layout = src.buffer.shape, src.buffer.layout
    axes = axes_of(dict(call.config), len(shape)) or ()
    if not isinstance(layout, TileLayout) or any(const_value(start) is None for start in src.starts):
        raise Decline(f"{src.name} has no layout without a swizzle and a region of numbers")
    wide, extents = _widened(call, layout, [int(const_value(extent) or 0) for extent in shape], axes)
    if all((src.starts[dim], src.extents[dim]) == (0, extents[dim]) for dim in axes):
        raise Decline(f"{src.name} has all elements of the dimensions that are reduced")
    _check_positions(call, extents, axes)
    scratch = ScratchRegisters(side_of(Buffer("padded", src.dtype, tuple(extents), "local", wide).region(), call.facts))
    plan = in_steps(call, _calls, {"src": scratch})
    return replace(plan, words=f"{scratch.side.size} elements with neutral ones: {plan.chosen[-1].plan.summary()}")


def _is_even(call: TileCall) -> bool:
    try:
        count = len(owners(call, call["src"], loading=True).threads)
    except Decline:
        return False
    return count % WARP == 0 or (count < WARP and count.bit_count() == 1)


def _widened(
    call: TileCall, layout: TileLayout, shape: list[int], axes: Collection[int]
) -> tuple[TileLayout, list[int]]:
    """The layout with more threads along the dimensions that are reduced, and their extents."""
    grouped, ends = layout.group(shape)
    shard, extents = list(grouped.shard), list(shape)
    for dim, (first, end) in enumerate(pairwise(ends)):
        it = shard[first] if first < end else None
        if dim not in axes or it is None or not it.axis.is_thread():
            continue
        room = _room(call, layout, it)
        shard[first] = Iter(room, it.stride, it.axis)
        extents[dim] = extents[dim] // int(it.extent) * room
    return TileLayout(shard, grouped.replica, grouped.offset), extents


def _room(call: TileCall, layout: TileLayout, it: Iter) -> int:
    """The extent of a thread iter that reaches the next one on its axis, the end of a warp, or a power of two."""
    strides = [int(other.stride) for other in (*layout.shard, *layout.replica) if other.axis == it.axis]
    beyond = min((stride for stride in strides if stride > int(it.stride)), default=0)
    reach = int(it.stride) * int(it.extent)
    end = beyond or (1 << (reach - 1).bit_length() if reach < WARP else -(-reach // WARP) * WARP)
    fits = end % int(it.stride) == 0 and end <= call.scope.threads
    return end // int(it.stride) if fits else int(it.extent)


def _check_positions(call: TileCall, extents: list[int], axes: Collection[int]) -> None:
    """Positions count through the dimensions that are reduced: those but the outermost must be as they were."""
    src, inner = call["src"], sorted(axes)[1:]
    moved = any(const_value(src.starts[dim]) for dim in axes) or any(src.extents[dim] != extents[dim] for dim in inner)
    if OPERATIONS[call.stmt.primitive].finds and moved:
        raise Decline("the positions among more elements would be others")


def _calls(call: TileCall, scratch: Mapping[str, Side]) -> tuple[TileCall, TileCall, TileCall]:
    src, whole = call["src"], scratch["src"]
    axes, box = axes_of(dict(call.config), len(src.extents)) or (), whole.region.box
    inside = side_of(Region(whole.buffer, src.region.box), call.facts)
    kept = tuple(box[dim] if dim in axes else part for dim, part in enumerate(src.region.box))
    rest = side_of(Region(whole.buffer, kept), call.facts)
    value = reduction_of(call, None if OPERATIONS[call.stmt.primitive].finds else whole.size).padding
    return (
        replace(inner_call(call, fill.name, {"dst": whole}), scalars={"value": value}),
        inner_call(call, "copy", {"dst": inside, "src": src}),
        inner_call(call, call.stmt.primitive, {"dst": call["dst"], "src": rest}, **dict(call.config)),
    )


padded.emit(emit_steps)
