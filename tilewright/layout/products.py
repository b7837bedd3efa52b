"""Layouts made of layouts, cut out of one or combined of two; and how axes of threads compose and split."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from math import gcd
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import LayoutError, choices
from tilewright.layout.axes import (
    AXES,
    COMPOSITIONS,
    INTS,
    SCOPES,
    Axis,
    Composition,
    Facts,
    OnAxis,
    Value,
    as_int,
    listed,
    plus,
    product,
    public,
    times,
)
from tilewright.layout.base import Layout, require_layout
from tilewright.layout.iters import Iter, Iters, fuse, is_one, moved, point, regroup
from tilewright.records import replace

if TYPE_CHECKING:
    from tilewright.layout.base import Table
    from tilewright.layout.swizzle import SwizzleLayout
    from tilewright.layout.tile import TileLayout


# Thread axes: how they compose into wider ones, split into narrower ones, and number the threads of a scope.


THREAD_AXES = {name: axis for name, axis in AXES.items() if axis.is_thread()}


def extremes(layout: TileLayout, axis: Axis, facts: Facts = INTS) -> tuple[Value, Value] | None:
    """The smallest and largest coordinate on an axis; None where the sign of a stride is not known."""
    low = high = layout.offset_on(axis)
    for it in (*layout.shard, *layout.replica):
        if it.axis != axis:
            continue
        reach = times(it.extent - 1, it.stride)
        if facts.less(it.stride, 0):
            low = plus(low, reach)
        elif facts.less(-1, it.stride):
            high = plus(high, reach)
        else:
            return None
    return low, high


def _within(layout: TileLayout, axis: Axis, bound: int, facts: Facts) -> bool:
    ends = extremes(layout, axis, facts)
    return ends is not None and facts.less(-1, ends[0]) and facts.less(ends[1], bound)


def compose_threads(layout: TileLayout, facts: Facts = INTS) -> TileLayout:
    """Rewrite pairs of thread axes as the axis that they compose to, as far as that goes.

    A pair composes where both occur, their composition does not, and the inner one is proven to stay below the factor.
    """
    for row in COMPOSITIONS:
        axes = layout.axes
        pair = row.outer in axes and row.inner in axes and row.whole not in axes
        if pair and _within(layout, row.inner, row.factor, facts):
            return compose_threads(_renamed(layout, row), facts)
    return layout


def _renamed(layout: TileLayout, row: Composition) -> TileLayout:
    factor = {row.outer: row.factor, row.inner: 1}

    def rename(step: OnAxis) -> OnAxis:
        return OnAxis(times(step.value, factor[step.axis]), row.whole) if step.axis in factor else step

    return moved(layout, rename)


def expand_threads(layout: TileLayout, facts: Facts = INTS) -> TileLayout:
    """Rewrite tid_in_wg and tx as warps and lanes, and (wgid, wid_in_wg) as warpid.

    Raises LayoutError where an iter or an offset mixes warp and lane in a way that does not split.
    """
    for row in COMPOSITIONS:
        if row.whole in (Axis.tid_in_wg, Axis.tx) and row.inner == Axis.laneid and row.whole in layout.axes:
            layout = _split_axis(layout, row, facts)
    row = next(row for row in COMPOSITIONS if row.whole == Axis.warpid)
    if row.outer in layout.axes and row.inner in layout.axes and _within(layout, row.inner, row.factor, facts):
        layout = _renamed(layout, row)
    return layout


def _split_axis(layout: TileLayout, row: Composition, facts: Facts) -> TileLayout:
    def split(iters: Iters) -> Iters:
        return tuple(part for it in iters for part in (_split_iter(it, row, facts) if it.axis == row.whole else [it]))

    terms: list[OnAxis] = []
    for term in layout.offset:
        if term.axis == row.whole:
            outer, inner = facts.simplify(term.value // row.factor), facts.simplify(term.value % row.factor)
            terms += [OnAxis(outer, row.outer), OnAxis(inner, row.inner)]
        else:
            terms.append(term)
    done = replace(layout, shard=split(layout.shard), replica=split(layout.replica), offset=tuple(terms))
    if not _within(done, row.inner, row.factor, facts):
        raise LayoutError(
            f"{layout} does not split into {row.outer} and {row.inner}",
            given=f"as {done}, whose {row.inner} is not proven to stay below {row.factor}",
            allowed=f"0 <= {row.inner} < {row.factor}: offsets on {row.whole} that carry into no further {row.outer}",
        )
    return done


def _split_iter(it: Iter, row: Composition, facts: Facts) -> list[Iter]:
    if facts.divides(row.factor, it.stride):
        return [Iter(it.extent, facts.simplify(it.stride // row.factor), row.outer)]
    if facts.less(times(it.extent - 1, it.stride), row.factor):
        return [Iter(it.extent, it.stride, row.inner)]
    if facts.less(0, it.stride) and facts.divides(it.stride, row.factor):
        inner = facts.simplify(row.factor // it.stride)
        if facts.divides(inner, it.extent):
            return [Iter(facts.simplify(it.extent // inner), 1, row.outer), Iter(inner, it.stride, row.inner)]
    raise LayoutError(
        f"iter {it} does not split into {row.outer} and {row.inner}",
        given=f"stride {it.stride}, extent {it.extent}",
        allowed=f"a stride that {row.factor} divides, a reach below {row.factor}, or an extent of whole {row.outer}s",
    )


@public
def threads(table: Table | Mapping[str, NDArray[np.int64]], scope: str) -> NDArray[np.int64]:
    """The index of the thread inside one ``scope`` (warp, warpgroup or cta) for each place of a `table`.

    Absent axes count as 0. Raises LayoutError where a thread axis is wider than the scope.
    """
    numbered = SCOPES[1 : SCOPES.index("cta") + 1]
    if scope not in numbered:
        raise LayoutError(f"no thread numbering in scope {scope!r}", given=scope, allowed=choices(scope, numbered))
    index: NDArray[np.int64] = np.zeros(next(iter(table.values())).shape if table else (), np.int64)
    for name, values in table.items():
        axis = THREAD_AXES.get(name)
        if axis is None:
            continue
        if SCOPES.index(axis.scope) > SCOPES.index(scope):
            raise LayoutError(
                f"axis {name} counts across a {axis.scope}, wider than one {scope}",
                given=name,
                allowed=", ".join(n for n, a in THREAD_AXES.items() if SCOPES.index(a.scope) <= SCOPES.index(scope)),
            )
        index = index + axis.each * values
    return index


def check_scopes(layout: TileLayout) -> None:
    """Raise LayoutError unless the thread axes subdivide each level of the hierarchy at most once, without a gap."""
    axes = sorted((a for a in layout.axes if a.is_thread()), key=lambda a: SCOPES.index(a.subscope))
    for inner, outer in pairwise(axes):
        if inner.scope != outer.subscope:
            problem = "overlap" if SCOPES.index(inner.scope) > SCOPES.index(outer.subscope) else "leave a gap"
            raise LayoutError(
                f"thread axes {outer} and {inner} {problem}",
                given=f"{outer} counts the {outer.subscope}s of a {outer.scope}, "
                f"{inner} the {inner.subscope}s of a {inner.scope}",
                allowed="axes of which each counts what the next one divides: warpid with laneid, wgid with tid_in_wg",
            )


# Layouts made of layouts, cut out of one or combined of two, and the missing factor of a combination found.
#
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
