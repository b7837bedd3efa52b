"""CuTe's thread-value layouts: from (thread, register) to the element, which is the way back of a register layout.

The first mode counts threads, the second the registers of one; both lead to the element's index in its tile, first
dimension fastest. Elements that several threads hold have stride 0 there, and are replicas here.
Source: CUTLASS documentation, "CuTe's support for Matrix Multiply-Accumulate instructions".
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from tilewright.errors import LayoutError
from tilewright.layout.axes import Axis, m
from tilewright.layout.facts import listed
from tilewright.layout.iters import Iter, Iters, fuse, regroup
from tilewright.layout.tables import is_numeric
from tilewright.layout.thread_axes import compose_threads
from tilewright.layout.tile import TileLayout

if TYPE_CHECKING:
    from tilewright.layout.base import Layout


class Leaf(NamedTuple):
    """``extent`` steps: of ``place`` threads or registers on ``axis``, and of ``element`` elements in the tile."""

    axis: Axis
    place: int
    extent: int
    element: int


def thread_values(layout: Layout, shape: Sequence[int] | None) -> list[Iters]:
    """The two modes of a register layout, threads and values, fastest iter first, strides being those of the index.

    Raises LayoutError for a swizzle, offsets, several thread axes that do not compose to one, and for a thread or a
    register that holds nothing.
    """
    if not isinstance(layout, TileLayout) or layout.offset or not is_numeric(layout):
        raise _without_text(layout, "a swizzle, an offset or an expression")
    plain = compose_threads(layout)
    counted = [axis for axis in plain.axes if axis != m]
    if len(counted) != 1 or not counted[0].is_thread():
        raise _without_text(layout, f"axes {', '.join(map(str, plain.axes))}")
    leaves = [Leaf(it.axis, it.stride, it.extent, 0) for it in plain.replica]
    inner = 1
    for iters in regroup(plain.shard, layout.counted(1) if shape is None else shape):
        for it in reversed(iters):
            leaves.append(Leaf(it.axis, it.stride, it.extent, inner))
            inner *= it.extent
    return [_mode(layout, axis, leaves) for axis in (counted[0], m)]


def _mode(layout: TileLayout, axis: Axis, leaves: Sequence[Leaf]) -> Iters:
    mode = sorted((leaf for leaf in leaves if leaf.axis == axis and leaf.extent > 1), key=lambda leaf: leaf.place)
    reached = 1
    for leaf in mode:
        if leaf.place != reached:
            raise _without_text(layout, f"a step of {leaf.place} on axis {axis} after the first {reached}")
        reached *= leaf.extent
    iters = [Iter(leaf.extent, leaf.element) for leaf in reversed(mode)]
    return tuple(reversed(fuse(iters))) or (Iter(1, 0),)


def _without_text(layout: Layout, given: str) -> LayoutError:
    return LayoutError(
        f"{layout} has no CuTe string",
        given=given,
        allowed="threads and registers: one thread axis, or axes that compose to one, and m, both without gaps from 0",
    )


def from_thread_values(modes: Sequence[Iters], threads: str | Axis, shape: Sequence[int] | None) -> TileLayout:
    """The register layout of two modes, fastest iter last, that lead to the index in a tile of ``shape``.

    Raises LayoutError where an element is missing or occurs at two places that are no replicas.
    """
    axis = Axis.get(threads)
    if len(modes) != 2 or not axis.is_thread():
        raise LayoutError(
            "a thread-value layout has two modes, and its threads an axis",
            given=f"{len(modes)} modes, axis {axis}",
            allowed="((threads), (values)) : (strides), and threads=laneid or another thread axis",
        )
    leaves = [*_leaves(modes[0], axis), *_leaves(modes[1], m)]
    elements = prod(leaf.extent for leaf in leaves if leaf.element)
    extents = (elements,) if shape is None else tuple(shape)
    if prod(extents) != elements:
        raise LayoutError(
            f"a thread-value layout of {elements} elements is none of a tile of {listed(extents)}",
            given=listed(extents),
            allowed=f"{elements} elements",
        )
    shard = [it for dim in range(len(extents)) for it in _dimension(leaves, extents, dim)]
    return TileLayout(shard, [Iter(leaf.extent, leaf.place, leaf.axis) for leaf in leaves if not leaf.element])


def _leaves(mode: Iters, axis: Axis) -> list[Leaf]:
    place, out = 1, []
    for it in reversed(mode):
        if it.extent > 1:
            out.append(Leaf(axis, place, it.extent, it.stride))
        place *= it.extent
    return out


def _dimension(leaves: Sequence[Leaf], extents: Sequence[int], dim: int) -> list[Iter]:
    """The iters of one dimension, slowest first: the parts of leaves that step along this dimension."""
    unit, parts = prod(extents[:dim]), list[Leaf]()
    for leaf in leaves:
        # The first steps of a leaf that begins in an earlier dimension belong to that one.
        skipped = max(1, -(-unit // leaf.element)) if leaf.element else leaf.extent
        if skipped < leaf.extent and skipped * leaf.element < unit * extents[dim]:
            here = min(leaf.extent // skipped, unit * extents[dim] // (leaf.element * skipped))
            parts.append(Leaf(leaf.axis, leaf.place * skipped, here, leaf.element * skipped))
    parts.sort(key=lambda leaf: leaf.element)
    reached = unit
    for part in parts:
        if part.element != reached:
            break
        reached *= part.extent
    if reached != unit * extents[dim]:
        raise LayoutError(
            f"the thread-value layout is none of a tile of {listed(extents)}",
            given=f"steps {', '.join(str(part.element) for part in parts)} in dimension {dim}",
            allowed=f"each multiple of {unit} below {unit * extents[dim]} once",
        )
    return [Iter(part.extent, part.place, part.axis) for part in reversed(parts)]
