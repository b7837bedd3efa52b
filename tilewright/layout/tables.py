"""The vectorised table of a layout: every coordinate of every element, by outer sums; and whether two elements share a
place, without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import gcd, prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import LayoutError
from tilewright.layout.axes import INDEX, Axis, Facts, Value, as_int, checked, listed, plus, times
from tilewright.layout.iters import Iter

if TYPE_CHECKING:
    from tilewright.layout.base import Layout, Table
    from tilewright.layout.iters import Iters
    from tilewright.layout.tile import TileLayout

# Is a logical coordinate inside the extents that it counts in?


def check_inside(coord: Sequence[Value], extents: Sequence[Value] | None, facts: Facts) -> None:
    """Raise LayoutError for a coordinate outside of its extent: an int, any entry of an array, or an expression that is
    proven to be outside. extents: None for no bound. A coordinate of another rank is not checked here.
    """
    if extents is None:
        extents = [None] * len(coord)
    if len(coord) != len(extents):
        return
    for dim, (index, extent) in enumerate(zip(coord, extents, strict=True)):
        low, high = _ends(index, dim)
        if facts.less(low, 0) or (extent is not None and facts.less(extent - 1, high)):
            raise LayoutError(
                f"the coordinate {listed(coord)} is outside of {listed(extents)}" if extent is not None
                else f"the coordinate {listed(coord)} is negative",
                given=f"{low if low is high else f'{low} to {high}'} in dimension {dim}",
                allowed="0 or more" if extent is None else f"0 to {extent - 1}",
            )  # fmt: skip


def _ends(index: Value, dim: int) -> tuple[Value, Value]:
    """The smallest and the largest number of an array; any other value twice."""
    value = checked(index, f"coordinate {dim}", INDEX)
    if not isinstance(value, np.ndarray):
        return value, value
    return (int(value.min()), int(value.max())) if value.size else (0, 0)


# Do two elements of a layout share a place? Decided on extents and strides, without a table.


MOST_STATES = 1 << 16
"""The most sums of digits that a search keeps for one iter. A layout whose strides nest has one or two."""

Steps = list[int]
"""For each of some iters, how much larger its digit is in one element than in the other."""


class Collision(NamedTuple):
    """Two elements, by their row-major indices, and the place that both have, on the axes that count."""

    first: int
    second: int
    place: dict[str, Value]


def find_collision(layout: TileLayout, counts: Callable[[Axis], bool]) -> Collision | None:
    """Two elements that share a place, compared on the axes for which ``counts`` is true; None if there are none.

    Each iter moves along one axis, so that axes may be searched one by one. An iter whose extent or stride is an
    expression counts as not moving: a collision that is found is one, but None proves nothing about such iters.
    Replicas of one element do not collide.
    """
    iters = [*layout.shard, *layout.replica]
    numbered = [k for k, it in enumerate(iters) if _is_known(it) and it.extent > 1]
    for axis in dict.fromkeys(iters[k].axis for k in numbered):
        along = [k for k in numbered if iters[k].axis == axis]
        moves = [(iters[k].extent, iters[k].stride if counts(axis) else 0, k < len(layout.shard)) for k in along]
        if steps := _cancelling(moves):
            return _described(layout, filter(counts, layout.axes), dict(zip(along, steps, strict=True)))
    return None


def _is_known(it: Iter) -> bool:
    return as_int(it.extent) is not None and as_int(it.stride) is not None


def _described(layout: TileLayout, axes: Iterable[Axis], steps: dict[int, int]) -> Collision | None:
    """The elements whose digits are the positive and the negative steps; None where an extent is an expression."""
    iters = [*layout.shard, *layout.replica]
    place = {axis.name: layout.offset_on(axis) for axis in axes}
    for k, step in steps.items():
        if (name := iters[k].axis.name) in place:
            place[name] = plus(place[name], times(max(step, 0), iters[k].stride))
    first, second, inner = 0, 0, 1
    for k in reversed(range(len(layout.shard))):
        step = steps.get(k, 0)
        first, second = plus(first, times(max(step, 0), inner)), plus(second, times(max(-step, 0), inner))
        inner = times(inner, iters[k].extent)
    if as_int(first) is None or as_int(second) is None:
        return None
    return Collision(min(first, second), max(first, second), place)


def _cancelling(moves: Sequence[tuple[int, int, bool]]) -> Steps | None:
    """Steps, each smaller than its extent, whose distances add up to 0 and which are not all 0 on the shard iters.

    moves: extent, stride, and whether it is of the shard. The longest strides first, a sum is kept only while the
    iters that follow can take it back: it lies within their reach and has their common divisor.
    """
    order = sorted(range(len(moves)), key=lambda k: -abs(moves[k][1]))
    if _nest([moves[k] for k in order]):
        return None
    states: dict[tuple[int, bool], Steps] = {(0, False): []}
    for position, k in enumerate(order):
        extent, stride, is_shard = moves[k]
        rest = [moves[j] for j in order[position + 1 :]]
        reach = sum((n - 1) * abs(by) for n, by, _ in rest)
        common = gcd(*(by for _, by, _ in rest))
        after: dict[tuple[int, bool], Steps] = {}
        for (total, differs), steps in states.items():
            for step in _steps(total, extent, stride, reach, common):
                state = (total + step * stride, differs or (is_shard and step != 0))
                after.setdefault(state, [*steps, step])
                if len(after) > MOST_STATES:
                    break
        states = after
    chosen = states.get((0, True))
    return chosen and [step for _, step in sorted(zip(order, chosen, strict=True))]


def _nest(moves: Sequence[tuple[int, int, bool]]) -> bool:
    """Is each stride, longest first, longer than the reach of all that follow together, as in row-major order?"""
    reach = 0
    for extent, stride, _ in reversed(moves):
        if abs(stride) <= reach:
            return False
        reach += (extent - 1) * abs(stride)
    return True


def _steps(total: int, extent: int, stride: int, reach: int, common: int) -> Iterator[int]:
    """The steps of one digit after which the later iters, with this reach and common divisor, can make the sum 0."""
    if not stride:
        yield from (0, 1)
        return
    by, sign = abs(stride), 1 if stride > 0 else -1
    low = max(1 - extent, -((reach + total) // by)) if total else 0  # at a total of 0 a step and its negative are alike
    high = min(extent - 1, (reach - total) // by)
    shared = gcd(by, common)
    if total % shared:
        return
    every = common // shared or 1
    low += (-(total // shared) * pow(by // shared, -1, every) - low) % every if common else 0
    yield from (sign * step for step in range(low, high + 1, every))


# The table of a layout.


MOST_PLACES = 1 << 22
"""Elements times replicas up to which an answer may be looked up in a table."""

MOST_ENTRIES = 1 << 27
"""The most places of a table that a caller may ask for: 1 GB for each axis."""


def is_numeric(layout: TileLayout) -> bool:
    """Are all extents, strides and offsets numbers?"""
    values = [v for it in (*layout.shard, *layout.replica) for v in (it.extent, it.stride)]
    return all(as_int(v) is not None for v in (*values, *(term.value for term in layout.offset)))


def is_small(layout: TileLayout) -> bool:
    """Numbers alone, and few enough for a table?"""
    return is_numeric(layout) and prod(it.extent for it in (*layout.shard, *layout.replica)) <= MOST_PLACES


def same_places(a: Layout, b: Layout) -> bool:
    """Is each element in the same set of places? False where expressions or their number keep that from being seen."""
    tiles = [layout.parted([other.size()])[1] for layout, other in ((a, b), (b, a))]
    if not all(map(is_small, tiles)) or tiles[0].size() != tiles[1].size():
        return False
    size = tiles[0].size()
    tables = [layout.table([size]) for layout in (a, b)]
    copies = [max((values.shape[-1] for values in table.values()), default=1) for table in tables]
    if size * prod(copies) > MOST_PLACES:
        return False
    numbers: NDArray[np.int64] = np.zeros((size, sum(copies)), np.int64)  # one number for each place
    absent = np.zeros((1, 1), np.int64)
    for name in {name for table in tables for name in table}:
        columns = [np.broadcast_to(t.get(name, absent), (size, n)) for t, n in zip(tables, copies, strict=True)]
        values = np.unique(np.concatenate(columns, axis=1), return_inverse=True)[1].reshape(numbers.shape)
        numbers = np.unique(numbers * (values.max() + 1) + values, return_inverse=True)[1].reshape(numbers.shape)
    met = numbers[:, : copies[0], None] == numbers[:, None, copies[0] :]
    return bool(met.any(axis=1).all() and met.any(axis=2).all())


def table_of(layout: TileLayout, shape: Sequence[int]) -> Table:
    """See `TileLayout.table`."""
    if not is_numeric(layout):
        raise LayoutError(f"{layout} has no table", given="expressions", allowed="numbers in every iter and offset")
    size = prod(it.extent for it in layout.shard)
    if prod(shape) != size or min(shape, default=1) < 1:
        raise LayoutError(
            f"{layout} does not have the shape {listed(shape)}",
            given=f"{prod(shape)} elements in the shape",
            allowed=f"{size} elements",
        )
    entries = size * prod(it.extent for it in layout.replica)
    ends = (abs(end) for axis in layout.axes for end in layout.ends(axis))
    strides = (abs(it.stride) for it in (*layout.shard, *layout.replica))
    far = max((0, *ends, *strides))
    if entries > MOST_ENTRIES or far >= 1 << 63:
        raise LayoutError(
            f"{layout} has no table that memory holds",
            given=f"{entries} places" if entries > MOST_ENTRIES else f"a coordinate of {far}",
            allowed=f"{MOST_ENTRIES} places, in 64 bits",
            hint="apply(...) computes single places" if entries > MOST_ENTRIES else None,
        )
    return {axis.name: _on_axis(layout, axis, shape) for axis in layout.axes}


def _on_axis(layout: TileLayout, axis: Axis, shape: Sequence[int]) -> NDArray[np.int64]:
    elements = _sums(layout.shard, axis).reshape(*shape, 1)
    replicas = _sums(layout.replica, axis).reshape(-1)
    return elements + (replicas + np.int64(layout.offset_on(axis)))


def _sums(iters: Iters, axis: Axis) -> NDArray[np.int64]:
    """Digit times stride, summed over the iters of one axis, for all digits of all iters, flat."""
    total: NDArray[np.int64] = np.zeros(1, np.int64)
    for it in iters:
        step = it.stride if it.axis == axis else 0
        total = (total[:, None] + np.arange(it.extent, dtype=np.int64) * step).reshape(-1)
    return total
