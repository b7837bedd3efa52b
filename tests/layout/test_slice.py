"""Slicing: the table of a slice is the slice of the table, with known and with symbolic starts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.layout.strategies import (
    Sampled,
    Sym,
    composed,
    filled,
    held,
    regions_of,
    same,
    shapes_of,
    splits,
    tiles,
)
from tilewright.errors import LayoutError
from tilewright.layout import ComposeLayout, Iter, R, S, SwizzleLayout, TileLayout, TLane, laneid, warpid

K = Sampled((("k", range(6)),))


def cut(layout, shape, region):
    return held(layout, shape)[tuple(slice(start, start + extent) for start, extent in region)]


@given(st.data())
def test_slice_is_the_slice_of_the_table_or_no_layout_is(data):
    layout = data.draw(tiles())
    shape = data.draw(splits(layout))
    region = data.draw(regions_of(shape))
    extents = tuple(extent for _, extent in region)
    try:
        found = layout.part(shape, region)
    except LayoutError:
        assert not any_layout_holds(layout, shape, region)
    else:
        assert same(held(found, extents), cut(layout, shape, region))


def any_layout_holds(layout, shape, region):
    """Does a tile layout describe the region? Searched dimension by dimension over all mixed radices of its extent."""
    base = TileLayout(layout.shard)
    for dim in range(len(shape)):
        line = [(start, extent if d == dim else 1) for d, (start, extent) in enumerate(region)]
        values = base.table(shape)
        window = tuple(slice(start, start + extent) for start, extent in line)
        moves = np.stack([values[axis][window].ravel() for axis in values]) if values else np.zeros((1, 1), int)
        if not described(moves - moves[:, :1]):
            return False
    return True


def described(moves):
    count = moves.shape[1]
    if count == 1:
        return True
    for inner in (d for d in range(1, count) if count % d == 0):
        digit = moves[:, inner][:, None] * np.arange(count // inner)[None]
        if np.count_nonzero(moves[:, inner]) < 2:
            tiled = (digit[:, :, None] + moves[:, None, :inner]).reshape(len(moves), -1)
            if np.array_equal(tiled, moves) and described(moves[:, :inner]):
                return True
            for middle in (d for d in range(2, count // inner) if count // inner % d == 0):
                head = inner * middle
                tiled = (digit[:, :middle, None] + moves[:, None, :inner]).reshape(len(moves), -1)
                rest = moves[:, ::head]
                if (
                    np.array_equal(tiled, moves[:, :head])
                    and np.array_equal((rest[:, :, None] + moves[:, None, :head]).reshape(len(moves), -1), moves)
                    and described(moves[:, :inner])
                    and described(rest)
                ):
                    return True
    return False


@given(st.data())
def test_slice_of_a_swizzled_layout_swizzles_absolute_addresses(data):
    layout = data.draw(composed())
    shape = data.draw(splits(layout.tile))
    region = data.draw(regions_of(shape))
    try:
        found = layout.part(shape, region)
    except LayoutError:
        return
    assert isinstance(found, ComposeLayout)
    assert same(held(found, tuple(extent for _, extent in region)), cut(layout, shape, region))


@given(st.data())
def test_slice_with_a_symbolic_start_is_right_for_every_value(data):
    layout = data.draw(tiles())
    shape = data.draw(splits(layout))
    region = data.draw(regions_of(shape))
    steps = [data.draw(st.integers(0, 3)) for _ in shape]
    symbolic = [
        (Sym(f"(k * {step} + {start})") if step else start, extent)
        for (start, extent), step in zip(region, steps, strict=True)
    ]
    room = min((n - s - e) // step for n, (s, e), step in zip(shape, region, steps, strict=True) if step) if any(
        steps) else 0  # fmt: skip
    facts = Sampled((("k", range(room + 1)),))
    try:
        found = layout.part(shape, symbolic, facts)
    except LayoutError:
        return
    for k in range(room + 1):
        known = [(start + k * step, extent) for (start, extent), step in zip(region, steps, strict=True)]
        assert same(held(filled(found, k=k), tuple(e for _, e in region)), cut(layout, shape, known))


@given(st.data())
def test_slice_of_aligned_symbolic_tiles_needs_no_other_fact(data):
    layout = data.draw(tiles())
    shape = data.draw(splits(layout))
    extents = [data.draw(st.sampled_from([d for d in range(1, n + 1) if n % d == 0])) for n in shape]
    groups = layout.group(shape)
    ends_inside = all(
        any(extent == int(np.prod([it.extent for it in group[k:]])) for k in range(len(group) + 1))
        for extent, group in zip(extents, [groups[0].shard[a:b] for a, b in _pairs(groups[1])], strict=True)
    )
    names = [f"k{d}" for d in range(len(shape))]
    known = Sampled(tuple((name, range(n // e)) for name, n, e in zip(names, shape, extents, strict=True)))
    region = [(Sym(f"({name} * {e})"), e) for name, e in zip(names, extents, strict=True)]
    if ends_inside:
        found = layout.part(shape, region, known)
        last = {name: n // e - 1 for name, n, e in zip(names, shape, extents, strict=True)}
        where = [(last[name] * e, e) for name, e in zip(names, extents, strict=True)]
        assert same(held(filled(found, **last), tuple(extents)), cut(layout, shape, where))


def _pairs(separators):
    return list(pairwise(separators))


def test_slice_of_rows_with_a_symbolic_extent():
    found = S[Sym("n"), 64].part((Sym("n"), 64), [(Sym("(k * 16)"), 16), (0, 64)])
    assert found == S[16, 64] + Sym("((k * 16) * 64)")


def test_slice_keeps_replicas_and_offsets():
    layout = S[(8, 8) : (8, 1)] + R[4 : 32 @ TLane] + 5 @ warpid
    assert layout.part((8, 8), [(2, 2), (0, 8)]) == S[2, 8] + R[4 : 32 @ TLane] + 5 @ warpid + 16


def test_slice_inside_one_run_needs_no_alignment():
    layout = S[(8, 4, 16) : (4 @ laneid, 1 @ laneid, 1)]
    assert layout.part((8, 64), [(3, 1), (19, 5)]) == S[5:1] + 3 + 13 @ laneid


def test_slice_of_the_middle_halves_of_two_runs_is_a_layout():
    assert S[(4, 8) : (100, 2)].part((32,), [(4, 8)]) == S[(2, 4) : (92, 2)] + 8


def test_slice_of_a_known_remainder_crosses_a_run():
    facts = Sampled((("k", range(4)),))
    layout = S[(4, 2, 8) : (1000, 100, 2)]
    found = layout.part((64,), [(Sym("(16 * k + 4)"), 8)], facts)
    assert same(held(filled(found, k=2), (8,)), cut(layout, (64,), [(36, 8)]))


def test_slice_across_symbolic_strides_is_read_off_the_digits():
    n = Sym("n")
    found = S[(4, 8) : (n, 1)].part((32,), [(4, 8)])
    assert same(held(filled(found, n=50), (8,)), cut(S[(4, 8) : (50, 1)], (32,), [(4, 8)]))


def test_slice_refuses_a_cut_that_no_layout_describes():
    with pytest.raises(LayoutError, match=r"dimension 0: the region cuts iter 8:2 in a way that no layout describes"):
        S[(4, 8) : (100, 2)].part((32,), [(5, 8)])


def test_slice_refuses_halves_on_two_axes():
    with pytest.raises(LayoutError, match="no layout describes"):
        S[(2, 4) : (1 @ laneid, 1)].part((8,), [(2, 4)])


def test_slice_with_an_unknown_start_names_the_missing_fact():
    with pytest.raises(LayoutError, match=r"a fact: k % 8 == 0, or k % 8 \+ 8 <= 8"):
        S[(4, 8) : (100, 2)].part((32,), [(Sym("k"), 8)])


def test_slice_with_an_unknown_start_inside_one_iter_needs_no_fact():
    assert S[4, 8].part((32,), [(Sym("k"), 8)]) == S[8:1] + Sym("k")


@pytest.mark.parametrize("region", [[(4, 5), (0, 8)], [(-1, 2), (0, 8)], [(0, 0), (0, 8)]])
def test_slice_refuses_a_region_outside(region):
    with pytest.raises(LayoutError, match=r"dimension 0: region from .* lies outside"):
        S[8, 8].part((8, 8), region)


def test_slice_refuses_a_region_of_another_rank():
    with pytest.raises(LayoutError, match="a region of 1 dimensions in a shape of 2"):
        S[8, 8].part((8, 8), [(0, 8)])


def test_slice_refuses_a_shape_that_cuts_an_iter():
    with pytest.raises(LayoutError, match="cuts iter"):
        S[(6, 4) : (8, 1)].part((4, 6), [(0, 4), (0, 6)])


def test_slice_of_a_swizzle_is_over_rows():
    swizzle = SwizzleLayout(3, 3, 3)
    found = swizzle.part((8, 64), [(2, 4), (16, 32)])
    assert found == ComposeLayout(swizzle, S[(4, 32) : (64, 1)] + 144)
    assert same(held(found, (4, 32)), held(ComposeLayout(swizzle, S[8, 64]), (8, 64))[2:6, 16:48])


def test_slice_takes_one_element_from_anywhere():
    layout = TileLayout([Iter(3, 7), Iter(2, 5, laneid), Iter(3, 1)])
    found = layout.part((18,), [(Sym("k"), 1)])
    assert filled(found, k=10).apply(0) == layout.apply(10)


def test_slice_of_the_first_lane_still_says_that_it_is_a_lane():
    assert S[(32, 8) : (1 @ laneid, 1)].part((32, 8), [(0, 1), (0, 8)]).apply(0, 3, shape=(1, 8)) == {
        "laneid": 0,
        "m": 3,
    }


@given(st.data())
def test_slice_of_any_admitted_shape(data):
    layout = data.draw(tiles(offsets=False))
    shape = data.draw(shapes_of(layout))
    try:
        layout.group(shape)
    except LayoutError:
        return
    assert same(held(layout.part(shape, [(0, n) for n in shape]), shape), held(layout, shape))
