"""Cutting a region out of a layout."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import LayoutError
from tilewright.layout.axes import OnAxis
from tilewright.layout.facts import Facts, Value, as_int, listed, plus, product, times
from tilewright.layout.iters import Iter, Iters, fuse, is_one, merged, point, regroup
from tilewright.records import replace

if TYPE_CHECKING:
    from tilewright.layout.base import Region
    from tilewright.layout.tile import TileLayout

__all__ = ["slice_tile"]


def slice_tile(
    layout: TileLayout, shape: Sequence[Value], region: Region, facts: Facts, *, leaves: bool = False
) -> TileLayout:
    """The layout of a region; its origin goes into the offset. See `TileLayout.part`."""
    if len(region) != len(shape):
        raise LayoutError(
            f"a region of {len(region)} dimensions in a shape of {len(shape)}",
            given=f"region {tuple(region)}, shape {listed(shape)}",
            allowed="one (start, extent) for each dimension",
        )
    shard: list[Iter] = []
    terms = list(layout.offset)
    for dim, (iters, extent, (start, length)) in enumerate(
        zip(regroup(layout.shard, shape, facts), shape, region, strict=True)
    ):
        if not leaves:
            _check_bounds(dim, extent, start, length, facts)
        kept, moved = _cut(dim, iters, extent, start, length, facts)
        shard += kept
        terms += moved
    origin = [OnAxis(facts.simplify(term.value), term.axis) for term in merged(terms)]
    found = replace(layout, shard=tuple(shard), offset=tuple(origin))
    lost = [Iter(1, 0, axis) for axis in layout.axes if axis not in found.axes]
    return replace(found, shard=(*lost, *found.shard))


def _check_bounds(dim: int, extent: Value, start: Value, length: Value, facts: Facts) -> None:
    """Refuse what is proven to lie outside; what is not proven is the caller's check."""
    number = as_int(length)
    empty = number is not None and number < 1
    if empty or facts.less(start, 0) or facts.less(extent, plus(start, length)):
        raise LayoutError(
            f"dimension {dim}: region from {start} with {length} elements lies outside",
            given=f"start {start}, extent {length}",
            allowed=f"at least one element within 0..{extent}",
        )


def _cut(
    dim: int, iters: Iters, extent: Value, start: Value, length: Value, facts: Facts
) -> tuple[Iters, list[OnAxis]]:
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
        elif found := _describe_run(outer, start, length, facts):
            return (*found[0], *kept), [*terms, *found[1]]
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
    found: list[Iter] = []
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
        found.insert(0, Iter(extent, stride, live[0][0].axis if live else iters[-1].axis))
        inner *= extent
    return tuple(found)


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
