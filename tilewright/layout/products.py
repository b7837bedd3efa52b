"""Layouts made of layouts: tiling, direct sums, and finding the missing factor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

from tilewright.errors import LayoutError
from tilewright.layout.axes import OnAxis
from tilewright.layout.base import Layout, require_layout
from tilewright.layout.facts import Facts, Value, listed, times
from tilewright.layout.iters import Iters, regroup
from tilewright.layout.parts import IterLayout, moved
from tilewright.layout.thread_axes import expand_threads

if TYPE_CHECKING:
    from tilewright.layout.swizzle import SwizzleLayout
    from tilewright.layout.tile import TileLayout

__all__ = ["combine", "find_inner", "find_outer"]


def combine(
    outer: Layout, inner: TileLayout, outer_shape: Sequence[Value], inner_shape: Sequence[Value], facts: Facts,
    *, scaled: bool,
) -> TileLayout:  # fmt: skip
    """Element ``o * inner_shape + i`` at ``inner(i) + outer(o)``; scaled: ``outer`` counts spans of ``inner``.

    Raises LayoutError for an ``outer`` with a swizzle: no layout describes an addition after a swizzle.
    """
    outer = _unswizzled(outer, "outer layout of a tile" if scaled else "left part of a direct sum")
    _check_ranks(outer_shape, inner_shape)
    (outer, cuts), near = outer.group(outer_shape, facts), regroup(inner.shard, inner_shape, facts)
    if scaled:
        outer = _scaled(outer, inner, facts)
    return replace(
        inner,
        shard=tuple(it for k, group in enumerate(near) for it in (*outer.shard[cuts[k] : cuts[k + 1]], *group)),
        replica=(*outer.replica, *inner.replica),
        offset=(*outer.offset, *inner.offset),
    )


def _unswizzled(layout: Layout, what: str) -> TileLayout:
    require_layout(layout)
    if isinstance(layout, IterLayout):
        return layout  # type: ignore[return-value]  # TileLayout is the one kind of it
    raise LayoutError(
        f"the {what} has no swizzle",
        given=str(layout),
        allowed="a TileLayout: a swizzle acts on the whole address, that of the tiles inside included;"
        " ComposeLayout(swizzle, inner.tile(outer, ...)) swizzles the whole",
    )


def _swizzled(swizzle: SwizzleLayout | None, tile: TileLayout) -> Layout:
    return tile if swizzle is None else swizzle.after(tile)


def _check_ranks(a: Sequence[Value], b: Sequence[Value]) -> None:
    if len(a) != len(b):
        raise LayoutError(
            "shapes of different rank", given=f"{listed(a)} and {listed(b)}", allowed="as many entries on both sides"
        )


def _scaled(far: TileLayout, inner: TileLayout, facts: Facts) -> TileLayout:
    def scaled(step: OnAxis) -> OnAxis:
        return OnAxis(facts.simplify(times(step.value, inner.span(step.axis))), step.axis)

    return moved(far, scaled)


def find_outer(
    inner: Layout, whole: Layout, shape: Sequence[Value], inner_shape: Sequence[Value], facts: Facts,
    *, scaled: bool,
) -> TileLayout | None:  # fmt: skip
    """The layout which, combined with ``inner``, means ``whole``; None if there is none."""
    require_layout(whole)
    shape = shape if scaled else _summed(shape, inner_shape, 1)
    (swizzle, near), (kept, plain) = inner.parted(inner_shape), whole.parted(shape)
    for below, all_ in ((near, plain), (_apart(near), _apart(plain))):
        whole = _swizzled(kept, all_)
        found = _outer_of((swizzle, below), (whole, all_), shape, inner_shape, facts, scaled=scaled)
        if found is not None:
            return found
    return None


def _outer_of(
    inner: tuple[SwizzleLayout | None, TileLayout], all_: tuple[Layout, TileLayout], shape: Sequence[Value],
    inner_shape: Sequence[Value], facts: Facts, *, scaled: bool,
) -> TileLayout | None:  # fmt: skip
    """The same, of an inner layout parted in its swizzle and its tile, and a whole one with its own."""
    (swizzle, near), (whole, plain) = inner, all_
    parts = _parted(plain, shape, inner_shape, facts)
    if parts is None:
        return None
    _, outer_shape, shard = parts
    for replica in _without(plain.replica, near.replica):
        far = _less(replace(plain, shard=shard, replica=replica), near.offset)
        found = _unscaled(far, near, facts) if scaled else far
        if found is None:
            continue
        again = combine(found, near, outer_shape, inner_shape, facts, scaled=scaled)
        if _swizzled(swizzle, again).equivalent(whole, facts):
            return found
    return None


def find_inner(
    outer: Layout, whole: Layout, shape: Sequence[Value], outer_shape: Sequence[Value], facts: Facts,
    *, scaled: bool,
) -> Layout | None:  # fmt: skip
    """The layout which, combined below ``outer``, means ``whole``, with its swizzle; None if there is none."""
    outer = _unswizzled(outer, "outer layout of a tile" if scaled else "left part of a direct sum")
    require_layout(whole)
    shape = shape if scaled else _summed(shape, outer_shape, 0)
    swizzle, plain = whole.parted(shape)
    for far, all_ in ((outer, plain), (_apart(outer), _apart(plain))):
        if (found := _inner_of(far, all_, shape, outer_shape, facts, scaled=scaled)) is not None:
            return _swizzled(swizzle, found)
    return None


def _inner_of(
    outer: TileLayout, plain: TileLayout, shape: Sequence[Value], outer_shape: Sequence[Value], facts: Facts,
    *, scaled: bool,
) -> TileLayout | None:  # fmt: skip
    inner_shape = _quotient(shape, outer_shape, facts)
    parts = inner_shape and _parted(plain, shape, inner_shape, facts)
    if not inner_shape or not parts:
        return None
    for count in range(len(plain.replica) + 1):
        for replica in combinations(plain.replica, count):
            near = replace(plain, shard=parts[0], replica=replica)
            found = _less(near, (_scaled(outer, near, facts) if scaled else outer).offset)
            if combine(outer, found, outer_shape, inner_shape, facts, scaled=scaled).equivalent(plain, facts):
                return found
    return None


def _apart(layout: TileLayout) -> TileLayout:
    """The layout with threads of a CTA counted by warps and lanes, where its numbers split so."""
    try:
        return expand_threads(layout)
    except LayoutError:
        return layout


def _summed(shape: Sequence[Value], part: Sequence[Value], place: int) -> Sequence[Value]:
    """The shape of a sum; callers may also give the extents of both parts in turn, [left, right, left, right, ...]."""
    if not part or len(shape) != 2 * len(part):
        return shape
    if list(shape[place::2]) != list(part):
        raise LayoutError(
            f"the shape {listed(shape)} of a direct sum",
            given=f"{listed(shape[place::2])} for the {'right' if place else 'left'} part",
            allowed=f"{listed(part)}, or the shape of the sum, in {len(part)} dimensions",
        )
    return [times(left, right) for left, right in zip(shape[0::2], shape[1::2], strict=True)]


def _parted(
    whole: TileLayout, shape: Sequence[Value], inner_shape: Sequence[Value], facts: Facts
) -> tuple[Iters, list[Value], Iters] | None:
    """The iters inside the tiles, the shape of the grid of tiles, and the iters across it."""
    _check_ranks(shape, inner_shape)
    outer_shape = _quotient(shape, inner_shape, facts)
    if outer_shape is None:
        return None
    mixed = [extent for pair in zip(outer_shape, inner_shape, strict=True) for extent in pair]
    try:
        groups = regroup(whole.shard, mixed, facts)
    except LayoutError:
        return None
    far, near = groups[0::2], groups[1::2]
    return tuple(it for group in near for it in group), outer_shape, tuple(it for group in far for it in group)


def _quotient(shape: Sequence[Value], by: Sequence[Value], facts: Facts) -> list[Value] | None:
    _check_ranks(shape, by)
    if not all(facts.divides(b, a) for a, b in zip(shape, by, strict=True)):
        return None
    return [1 if facts.equal(a, b) else facts.simplify(a // b) for a, b in zip(shape, by, strict=True)]


def _without(whole: Iters, part: Iters) -> Iterator[Iters]:
    """What is left of ``whole`` when an equal of each of ``part`` is taken away: nothing or one choice."""
    rest = list(whole)
    for it in part:
        if it not in rest:
            return
        rest.remove(it)
    yield tuple(rest)


def _less(layout: TileLayout, offset: Sequence[OnAxis]) -> TileLayout:
    """The layout moved back by an offset."""
    return replace(layout, offset=(*layout.offset, *(OnAxis(times(-1, term.value), term.axis) for term in offset)))


def _unscaled(far: TileLayout, inner: TileLayout, facts: Facts) -> TileLayout | None:
    """Divide the strides across tiles by the spans of a tile; None where one does not divide."""
    moves = [(it.step, it.extent) for it in (*far.shard, *far.replica)] + [(o, 2) for o in far.offset]
    if not all(facts.equal(e, 1) or facts.divides(inner.span(o.axis), o.value) for o, e in moves):
        return None

    def divided(step: OnAxis) -> OnAxis:
        return OnAxis(facts.simplify(step.value // inner.span(step.axis)), step.axis)

    return moved(far, divided)
