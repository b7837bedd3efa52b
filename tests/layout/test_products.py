"""Tiling and direct sums against outer sums of tables, and their inverses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.layout.strategies import held, same, splits, tiles
from tilewright.errors import LayoutError
from tilewright.layout import R, S, TileLayout, TLane, laneid, m

SMALL = {"extents": st.sampled_from([1, 2, 2, 3, 4]), "strides": st.integers(0, 9), "replicas": 1}


@st.composite
def pairs(draw):
    """Two layouts with shapes of equal rank."""
    outer, inner = draw(tiles(**SMALL)), draw(tiles(**SMALL))
    shapes = [draw(splits(layout)) for layout in (outer, inner)]
    rank = max(map(len, shapes))
    return outer, inner, *((*[1] * (rank - len(shape)), *shape) for shape in shapes)


def outer_sum(outer, inner, outer_shape, inner_shape, scaled):
    """Element o * inner_shape + i at inner(i) + scale * outer(o), summed set by set."""
    far, near = held(outer, outer_shape), held(inner, inner_shape)
    out = np.empty([a * b for a, b in zip(outer_shape, inner_shape, strict=True)], object)
    for o in np.ndindex(*outer_shape):
        for i in np.ndindex(*inner_shape):
            where = tuple(a * n + b for a, b, n in zip(o, i, inner_shape, strict=True))
            out[where] = frozenset(added(inner, x, y, scaled) for x in far[o] for y in near[i])
    return out


def added(inner, x, y, scaled):
    total = dict(y)
    for axis, value in x:
        total[axis] = total.get(axis, 0) + value * (inner.span(axis) if scaled else 1)
    return frozenset((axis, value) for axis, value in total.items() if value)


@given(pairs())
def test_tile_repeats_the_inner_table_by_whole_spans(pair):
    outer, inner, outer_shape, inner_shape = pair
    found = inner.tile(outer, outer_shape, inner_shape)
    shape = tuple(a * b for a, b in zip(outer_shape, inner_shape, strict=True))
    assert same(held(found, shape), outer_sum(outer, inner, outer_shape, inner_shape, scaled=True))


@given(pairs())
def test_direct_sum_adds_tables(pair):
    left, right, left_shape, right_shape = pair
    found = right.direct_sum(left, left_shape, right_shape)
    shape = tuple(a * b for a, b in zip(left_shape, right_shape, strict=True))
    assert same(held(found, shape), outer_sum(left, right, left_shape, right_shape, scaled=False))


@given(pairs())
def test_is_tile_inner_finds_the_outer_layout(pair):
    outer, inner, outer_shape, inner_shape = pair
    tiled = inner.tile(outer, outer_shape, inner_shape)
    shape = tuple(a * b for a, b in zip(outer_shape, inner_shape, strict=True))
    found = inner.is_tile_inner(tiled, shape, inner_shape)
    assert found is not None
    assert inner.tile(found, outer_shape, inner_shape).equivalent(tiled)


@given(pairs())
def test_is_tile_outer_finds_the_inner_layout(pair):
    outer, inner, outer_shape, inner_shape = pair
    tiled = inner.tile(outer, outer_shape, inner_shape)
    shape = tuple(a * b for a, b in zip(outer_shape, inner_shape, strict=True))
    found = outer.is_tile_outer(tiled, shape, outer_shape)
    assert found is not None
    assert found.tile(outer, outer_shape, inner_shape).equivalent(tiled)


@given(pairs())
def test_direct_sum_sides_find_each_other(pair):
    left, right, left_shape, right_shape = pair
    total = right.direct_sum(left, left_shape, right_shape)
    shape = tuple(a * b for a, b in zip(left_shape, right_shape, strict=True))
    other_left = right.is_direct_sum_right(total, shape, right_shape)
    other_right = left.is_direct_sum_left(total, shape, left_shape)
    assert other_left is not None
    assert right.direct_sum(other_left, left_shape, right_shape).equivalent(total)
    assert other_right is not None
    assert other_right.direct_sum(left, left_shape, right_shape).equivalent(total)


@given(pairs(), tiles(**SMALL))
def test_what_is_found_is_right_or_nothing_is_found(pair, other):
    outer, inner, outer_shape, inner_shape = pair
    tiled = inner.tile(outer, outer_shape, inner_shape)
    assume(other.size() == inner.size())
    shape = tuple(a * b for a, b in zip(outer_shape, inner_shape, strict=True))
    try:
        found = other.is_tile_inner(tiled, shape, inner_shape)
    except LayoutError:
        return
    assert found is None or other.tile(found, outer_shape, inner_shape).equivalent(tiled)


def test_another_tile_is_no_inner_layout():
    tiled = S[4, 4].tile(S[2, 2], (2, 2), (4, 4))
    assert S[(4, 4) : (1, 4)].is_tile_inner(tiled, (8, 8), (4, 4)) is None
    assert S[4, 4].is_tile_inner(tiled, (8, 8), (3, 4)) is None
    assert S[(2, 2) : (1, 2)].is_tile_outer(tiled, (8, 8), (2, 2)) is None
    assert S[2, 3].is_tile_outer(tiled, (8, 8), (2, 3)) is None


def test_tile_scales_each_axis_by_its_own_span():
    inner = S[(8, 4) : (4 @ laneid, 1 @ laneid)] + R[4 : 32 @ TLane]
    assert inner.tile(S[(2, 1) : (1 @ laneid, 0)], (2, 1), (8, 4)) == (
        TileLayout([*S[2 : 32 @ laneid].shard, *S[8 : 4 @ laneid].shard, *S[1 : 0 @ m].shard, *S[4 : 1 @ laneid].shard])
        + R[4 : 32 @ TLane]
    )


@given(st.data())
def test_tile_to_repeats_in_row_major_order(data):
    inner = data.draw(tiles(**SMALL, offsets=False))
    inner_shape = data.draw(splits(inner))
    grid = tuple(data.draw(st.integers(1, 3)) for _ in inner_shape)
    shape = tuple(a * b for a, b in zip(grid, inner_shape, strict=True))
    found = inner.tile_to(shape, inner_shape)
    assert found.equivalent(inner.tile(S[grid], grid, inner_shape))


def test_tile_to_refuses_what_tiles_do_not_fill():
    with pytest.raises(LayoutError, match=r"tiles of \(4, 4\) do not fill \(6, 8\)"):
        S[4, 4].tile_to((6, 8), (4, 4))


def test_tile_refuses_shapes_of_different_rank():
    with pytest.raises(LayoutError, match="shapes of different rank"):
        S[4, 4].tile(S[2], (2,), (4, 4))


@given(st.data())
def test_broadcast_is_that_of_numpy(data):
    layout = data.draw(tiles())
    shape = data.draw(splits(layout))
    to_shape = (data.draw(st.integers(1, 3)), *(data.draw(st.integers(1, 3)) if n == 1 else n for n in shape))
    found = layout.broadcast(shape, to_shape)
    assert same(held(found, to_shape), np.broadcast_to(held(layout, shape), to_shape))


@pytest.mark.parametrize("to_shape", [(4, 8), (8,), (8, 5)])
def test_broadcast_refuses_what_numpy_refuses(to_shape):
    with pytest.raises(LayoutError, match=r"shape \(8, 4\) does not broadcast to"):
        S[8, 4].broadcast((8, 4), to_shape)
