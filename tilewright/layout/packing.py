"""Wider and narrower elements, repeated elements, and the way back from addresses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tilewright.errors import LayoutError
from tilewright.layout.axes import Axis, OnAxis, m
from tilewright.layout.facts import Facts, Value, listed, product, times
from tilewright.layout.iters import Iter, Iters, fuse, is_one, regroup
from tilewright.layout.parts import moved

if TYPE_CHECKING:
    from tilewright.layout.tile import TileLayout

__all__ = ["inverse_iters", "packed", "stretched", "unpacked"]


def packed(layout: TileLayout, n: int, facts: Facts) -> TileLayout:
    """See `TileLayout.pack`."""
    outer, inner = _contiguous_tail(layout.shard, n, facts)
    beside = [it for it in (*outer, *layout.replica) if it.axis == inner.axis and not is_one(it.extent, facts)]
    aligned = all(facts.divides(n, it.stride) for it in beside) and facts.divides(n, layout.offset_on(inner.axis))
    contiguous = n == 1 or facts.equal(inner.stride, 1)
    if n < 1 or not inner.axis.is_memory() or not contiguous or not facts.divides(n, inner.extent) or not aligned:
        raise LayoutError(
            f"cannot pack {layout} by {n}",
            given=f"on axis {inner.axis}: iters {', '.join(map(str, [*beside, inner]))},"
            f" offset {layout.offset_on(inner.axis)}",
            allowed=f"a memory axis; innermost stride 1; its extent, the other strides and the offset multiples of {n}",
        )

    def narrowed(step: OnAxis) -> OnAxis:
        divides = step.axis == inner.axis and facts.divides(n, step.value)
        return OnAxis(facts.simplify(step.value // n), step.axis) if divides else step

    narrow = moved(replace(layout, shard=outer), narrowed)
    return replace(narrow, shard=(*narrow.shard, Iter(facts.simplify(inner.extent // n), inner.stride, inner.axis)))


def _contiguous_tail(shard: Iters, n: int, facts: Facts) -> tuple[Iters, Iter]:
    """The iters before the innermost run, and that run, neighbours fused until ``n`` divides its extent."""
    if not shard:
        return (), Iter(1, 1)
    start = len(shard) - 1
    while start and is_one(shard[start].extent, facts) and n > 1:
        start -= 1
    inner = shard[start]
    while start and not facts.divides(n, inner.extent):
        joined = fuse((shard[start - 1], inner), facts)
        if len(joined) != 1:
            break
        start, inner = start - 1, joined[0]
    return shard[:start], inner


def unpacked(layout: TileLayout, n: int) -> TileLayout:
    """See `TileLayout.unpack`."""
    if n < 1:
        raise LayoutError(f"cannot unpack {layout} by {n}", given=n, allowed="at least 1")
    axis: Axis = layout.shard[-1].axis if layout.shard and layout.shard[-1].axis.is_memory() else m

    def widened(step: OnAxis) -> OnAxis:
        return OnAxis(times(step.value, n), axis) if step.axis == axis else step

    wide = moved(layout, widened)
    return replace(wide, shard=(*wide.shard, Iter(n, 1, axis)))


def stretched(shard: Iters, shape: Sequence[Value], to_shape: Sequence[Value], facts: Facts) -> Iters:
    """See `TileLayout.broadcast`."""
    groups = regroup(shard, shape, facts)
    missing = len(to_shape) - len(shape)
    axis = shard[0].axis if shard else m
    out = [Iter(extent, 0, axis) for extent in to_shape[: max(missing, 0)]]
    for dim, (iters, extent) in enumerate(zip(groups, shape, strict=True)):
        target = to_shape[dim + missing] if missing >= 0 else 0
        if facts.equal(extent, target):
            out += iters
        elif is_one(extent, facts) and missing >= 0:
            out.append(Iter(target, 0, iters[0].axis))
        else:
            raise LayoutError(
                f"shape {listed(shape)} does not broadcast to {listed(to_shape)}",
                given=f"dimension {dim} of {extent} elements",
                allowed="an entry of 1, or the same entry",
            )
    return tuple(out)


def inverse_iters(layout: TileLayout, facts: Facts) -> Iters:
    """See `TileLayout.inverse`."""
    plain = layout.canonicalize(facts)
    strides: list[Value] = [product(it.extent for it in plain.shard[k + 1 :]) for k in range(len(plain.shard))]
    waiting = [(it, Iter(it.extent, stride)) for it, stride in zip(plain.shard, strides, strict=True)]
    out: list[Iter] = []
    reached: Value = 1
    while waiting:
        found = next((pair for pair in waiting if pair[0].axis == m and facts.equal(pair[0].stride, reached)), None)
        if found is None:
            break
        waiting.remove(found)
        out.insert(0, found[1])
        reached = facts.simplify(times(reached, found[1].extent))
    if waiting or plain.replica or plain.offset:
        raise LayoutError(
            f"{layout} has no inverse layout",
            given=f"as {plain}; addresses below {reached} are reached once",
            allowed="one element at each address of axis m from 0 to the size, no replicas, no offset",
        )
    return tuple(out)
