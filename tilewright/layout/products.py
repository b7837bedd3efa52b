"""Layouts made of layouts, cut out of one or combined of two, and the missing factor of a combination found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import gcd
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import LayoutError
from tilewright.layout.axes import OnAxis
from tilewright.layout.base import Layout, require_layout
from tilewright.layout.facts import Facts, Value, as_int, listed, plus, product, times
from tilewright.layout.iters import Iter, Iters, fuse, is_one, moved, point, regroup
from tilewright.layout.thread_axes import expand_threads
from tilewright.records import replace

if TYPE_CHECKING:
    from tilewright.layout.swizzle import SwizzleLayout
    from tilewright.layout.tile import TileLayout


# Cutting a region out of a layout.


def check_bounds(dim: int, extent: Value, start: Value, length: Value, facts: Facts) -> None:
    """Refuse what is proven to lie outside; what is not proven is the caller's check."""
    number = as_int(length)
    empty = number is not None and number < 1
    if empty or facts.less(start, 0) or facts.less(extent, plus(start, length)):
        raise LayoutError(
            f"dimension {dim}: region from {start} with {length} elements lies outside",
            given=f"start {start}, extent {length}",
            allowed=f"at least one element within 0..{extent}",
        )


def cut(dim: int, iters: Iters, extent: Value, start: Value, length: Value, facts: Facts) -> tuple[Iters, list[OnAxis]]:
    """Elements ``start .. start + length`` of one dimension: their iters, and where they begin.

    From the inside out: an iter is kept whole while start and length are multiples of it, split where they share a
    factor with it, and shortened where the rest of the region lies inside one run of it.
    """
    if facts.equal(length, extent) and as_int(start) == 0:
        return iters, []
    outer, kept, terms = list(fuse(iters, facts)), list[Iter](), list[OnAxis]()
    where = (start, length)
    while outer and not is_one(length, facts):
        it, last = outer[-1], len(outer) == 1
        if last or _in_one_run(it.extent, start, length, facts):
            outer.pop()
            inside = start if last else facts.simplify(start % it.extent)
            kept.insert(0, Iter(length, it.stride, it.axis))
            terms.append(OnAxis(times(inside, it.stride), it.axis))
            start, length = 0 if last else facts.simplify(start // it.extent), 1
        elif as_int(common := _common_part(it.extent, start, length, facts)) != 1:
            rest = Iter(facts.simplify(it.extent // common), times(it.stride, common), it.axis)
            outer[-1:] = [] if facts.equal(it.extent, common) else [rest]
            kept.insert(0, Iter(common, it.stride, it.axis))
            start, length = facts.simplify(start // common), facts.simplify(length // common)
        elif run := _describe_run(outer, start, length, facts):
            return (*run[0], *kept), [*terms, *run[1]]
        else:
            raise LayoutError(
                f"dimension {dim}: the region cuts iter {it} in a way that no layout describes",
                given=f"start {where[0]}, extent {where[1]}, of iters {', '.join(map(str, iters))}",
                allowed=_missing(it, start, length),
            )
    return tuple(kept), [*terms, *point(outer, start, facts)]


def _missing(it: Iter, start: Value, length: Value) -> str:
    if as_int(start) is not None:
        return f"a start and an extent that are multiples of {it.extent}, or a region inside one run of {it.extent}"
    return f"a fact: {start} % {it.extent} == 0, or {start} % {it.extent} + {length} <= {it.extent}"


def _in_one_run(extent: Value, start: Value, length: Value, facts: Facts) -> bool:
    """Is it proven that the region does not leave one run of ``extent`` elements?"""
    if facts.divides(length, start) and facts.divides(length, extent):
        return True
    return facts.less(facts.simplify(start % extent + length - 1), extent)


def _common_part(extent: Value, start: Value, length: Value, facts: Facts) -> Value:
    """The largest inner part of an iter of which the region takes whole copies; 1 for none."""
    numbers = as_int(extent), as_int(length)
    if numbers[0] is None or numbers[1] is None:
        return extent if facts.divides(extent, start) and facts.divides(extent, length) else 1
    shared = gcd(numbers[0], numbers[1])
    return next(d for d in range(shared, 0, -1) if shared % d == 0 and facts.divides(d, start))


def _describe_run(
    outer: Sequence[Iter], start: Value, length: Value, facts: Facts
) -> tuple[Iters, list[OnAxis]] | None:
    """The region as a run inside the innermost few iters, from a start that is known there; None if no layout fits."""
    count = as_int(length)
    for depth in range(2, len(outer) + 1):
        inner, rest = outer[-depth:], outer[:-depth]
        period = as_int(product(it.extent for it in inner))
        if period is None or count is None:
            return None
        first = as_int(facts.simplify(start % period) if rest else start)
        if first is None or first + count > period:
            continue
        if iters := _infer(inner, first, count):
            origin = [*point(inner, first, facts), *point(rest, facts.simplify(start // period), facts)]
            return iters, origin
    return None


def _infer(iters: Sequence[Iter], first: int, count: int) -> Iters | None:
    """The iters that lead where ``iters`` lead for ``count`` indices from ``first``, relative to the first; None if
    there are none. A layout is unique once fused, so reading it off from the inside decides.
    """
    columns = _columns(iters, first, count)
    moves: NDArray[np.int64] = np.stack([values for _, values in columns])
    out: list[Iter] = []
    inner = 1
    while inner < count:
        step = moves[:, inner]
        live = [(it, int(by)) for (it, _), by in zip(columns, step, strict=True) if by]
        if len({it.axis for it, _ in live}) > 1:
            return None
        along = moves[:, ::inner]
        extent = _straight(along, step)
        repeated = (np.arange(extent) * step[:, None])[:, :, None] + moves[:, None, :inner]
        if count % (inner * extent) or not np.array_equal(
            moves[:, : inner * extent], repeated.reshape(len(columns), -1)
        ):
            return None
        stride: Value = 0
        for it, by in live:
            stride = plus(stride, times(by, it.stride))
        out.insert(0, Iter(extent, stride, live[0][0].axis if live else iters[-1].axis))
        inner *= extent
    return tuple(out)


def _straight(along: NDArray[np.int64], step: NDArray[np.int64]) -> int:
    """For how many entries do the columns advance by equal steps?"""
    straight = (along == np.arange(along.shape[1]) * step[:, None]).all(axis=0)
    return int(along.shape[1] if straight.all() else straight.argmin())


def _columns(iters: Sequence[Iter], first: int, count: int) -> list[tuple[Iter, NDArray[np.int64]]]:
    """How far each index is from the first one, as one column per axis, or per iter where strides are expressions.

    A column's iter says what one step of it is worth.
    """
    index = np.arange(first, first + count)
    numbers = all(as_int(it.stride) is not None for it in iters)
    columns: dict[object, tuple[Iter, NDArray[np.int64]]] = {}
    inner = 1
    for position, it in reversed(list(enumerate(iters))):
        digit = index // inner % it.extent
        inner *= it.extent
        key, unit = (it.axis, Iter(1, 1, it.axis)) if numbers else (position, it)
        moved = (digit - digit[0]) * (it.stride if numbers else 1)
        columns[key] = (unit, moved + columns[key][1] if key in columns else moved)
    return list(columns.values())


# Two layouts combined, and the missing factor of a combination.


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
    swizzle, tile = layout.parted(())
    if swizzle is None:
        return tile
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
        outer = _outer_of((swizzle, below), (whole, all_), shape, inner_shape, facts, scaled=scaled)
        if outer is not None:
            return outer
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
        outer = _unscaled(far, near, facts) if scaled else far
        if outer is None:
            continue
        again = combine(outer, near, outer_shape, inner_shape, facts, scaled=scaled)
        if _swizzled(swizzle, again).equivalent(whole, facts):
            return outer
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
        if (inner := _inner_of(far, all_, shape, outer_shape, facts, scaled=scaled)) is not None:
            return _swizzled(swizzle, inner)
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
            inner = _less(near, (_scaled(outer, near, facts) if scaled else outer).offset)
            if combine(outer, inner, outer_shape, inner_shape, facts, scaled=scaled).equivalent(plain, facts):
                return inner
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
