"""Thread axes: how they compose into wider ones, split into narrower ones, and number the threads of a scope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import LayoutError, choices
from tilewright.layout.axes import AXES, COMPOSITIONS, SCOPES, Axis, Composition, OnAxis
from tilewright.layout.facts import INTS, Facts, Value, plus, public, times
from tilewright.layout.iters import Iter, Iters, moved

if TYPE_CHECKING:
    from tilewright.layout.base import Table
    from tilewright.layout.tile import TileLayout

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
