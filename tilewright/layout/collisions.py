"""Do two elements of a layout share a place? Decided on extents and strides, without a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

from tilewright.layout.axes import Axis
from tilewright.layout.facts import Value, as_int, plus, times
from tilewright.layout.iters import Iter

if TYPE_CHECKING:
    from tilewright.layout.tile import TileLayout

__all__ = ["Collision", "find_collision"]

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
    known = [k for k, it in enumerate(iters) if _is_known(it) and it.extent > 1]
    for axis in dict.fromkeys(iters[k].axis for k in known):
        along = [k for k in known if iters[k].axis == axis]
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
    found = states.get((0, True))
    return found and [step for _, step in sorted(zip(order, found, strict=True))]


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
