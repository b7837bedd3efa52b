"""Laws of TileLayout against the table, and the table against the definition."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.layout.strategies import STRIDES, THREADED, Sym, held, permutations, places, same, shapes_of, splits, tiles
from tilewright.errors import LayoutError
from tilewright.layout import (
    Axis,
    Iter,
    R,
    S,
    TCol,
    TileLayout,
    TLane,
    laneid,
    m,
    tid_in_wg,
    tx,
    warpid,
    wgid,
    wid_in_wg,
)


@given(st.data())
def test_table_says_what_the_definition_says(data):
    layout = data.draw(tiles())
    shape = data.draw(shapes_of(layout))
    assert same(held(layout, shape), places(layout, shape))


@given(st.data())
def test_apply_is_the_first_replica_of_the_table(data):
    layout = data.draw(tiles())
    shape = data.draw(st.one_of(splits(layout), shapes_of(layout)))
    table = layout.table(shape)
    index = tuple(data.draw(st.integers(0, extent - 1)) for extent in shape)
    expected = {axis: int(values[(*index, 0)]) for axis, values in table.items()}
    assert layout.apply(*index, shape=shape) == expected
    assert layout.apply_to_shape(index, shape) == expected
    assert layout.apply(int(np.ravel_multi_index(index, shape))) == expected


@given(tiles())
def test_apply_takes_arrays(layout):
    found = layout.apply(np.arange(layout.size()))
    for axis, values in layout.table((layout.size(),)).items():
        assert np.array_equal(np.broadcast_to(found[axis], layout.size()), values[:, 0])


@given(st.data())
def test_apply_takes_expressions(data):
    layout = data.draw(tiles())
    shape = data.draw(splits(layout))
    index = [data.draw(st.integers(0, extent - 1)) for extent in shape]
    names = [f"x{k}" for k in range(len(shape))]
    found = layout.apply(*map(Sym, names), shape=shape)
    known = dict(zip(names, index, strict=True))
    values = {axis: v.value(**known) if isinstance(v, Sym) else v for axis, v in found.items()}
    assert values == layout.apply(*index, shape=shape)


def test_apply_refuses_a_coordinate_of_another_rank():
    with pytest.raises(LayoutError, match=r"coordinate of rank 2 in a shape of rank 3"):
        S[2, 3, 4].apply(1, 2)


def test_apply_refuses_a_shape_of_another_size():
    with pytest.raises(LayoutError, match=r"does not have the shape \(4, 4\)"):
        S[2, 3].apply(1, 2, shape=(4, 4))


def test_apply_takes_a_shape_that_cuts_iters():
    assert S[(6, 4) : (100, 1)].apply(1, 0, shape=(4, 6)) == {"m": 102}


def test_table_refuses_expressions():
    with pytest.raises(LayoutError, match="has no table"):
        S[Sym("n"), 4].table((4, 4))


def test_table_refuses_a_shape_of_another_size():
    with pytest.raises(LayoutError, match=r"does not have the shape"):
        S[2, 3].table((4, 4))


@given(tiles())
def test_size_span_and_cosize_are_those_of_the_table(layout):
    table = layout.table((layout.size(),))
    assert layout.size() == places(layout, -1).size
    for axis, values in table.items():
        assert layout.span(axis) == values.max() - values.min() + 1
        assert layout.cosize(axis) == values.max() + 1
    memory = [axis for axis in table if Axis.get(axis).is_memory()]
    assert layout.span() == 1 + sum(layout.span(axis) - 1 + layout.offset.get(axis, 0) for axis in memory)


def test_size_of_an_axis_counts_its_iters():
    assert S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)].size("laneid") == 32


@given(tiles(axes=THREADED, strides=st.one_of(STRIDES, st.sampled_from([32, 1, 4]))))
def test_canonicalize_keeps_the_meaning_and_is_stable(layout):
    canonical = layout.canonicalize()
    assert canonical.canonicalize() == canonical
    assert layout.equivalent(canonical)
    size = (layout.size(),)
    assert same(_numbered(held(canonical, size)), _numbered(held(layout, size)))


def _numbered(sets):
    """Places with wid_in_wg and laneid read as tid_in_wg where both occur."""
    worth = {"wid_in_wg": ("tid", 32), "laneid": ("tid", 1), "tid_in_wg": ("tid", 1), "warpid": ("tid", 32)}

    def number(place):
        total: dict[str, int] = {}
        for axis, value in place:
            name, factor = worth.get(axis, (axis, 1))
            total[name] = total.get(name, 0) + factor * value
        return frozenset(total.items())

    return np.array([frozenset(map(number, held)) for held in sets.ravel()] + [None], dtype=object)[:-1]


@given(tiles(offsets=False, replicas=0, axes=st.just(m)), st.data())
def test_layouts_of_equal_tables_have_equal_canonical_forms(layout, data):
    shape = data.draw(splits(layout))
    other = layout.group(shape)[0]
    assert other.canonicalize() == layout.canonicalize()


@given(*[tiles(extents=st.sampled_from([1, 2, 3]), strides=st.integers(0, 3), replicas=0, axes=st.just(m))] * 2)
def test_equivalence_is_equality_of_places(a, b):
    size = (a.size(),)
    assert a.equivalent(b) == (a.size() == b.size() and same(held(a, size), held(b, size)))


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        (S[(4, 32) : (1 @ wid_in_wg, 1 @ laneid)], S[128 : 1 @ tid_in_wg]),
        (S[(8, 32) : (1 @ warpid, 1 @ laneid)], S[256 : 1 @ tx]),
        (S[(2, 128) : (1 @ wgid, 1 @ tid_in_wg)], S[256 : 1 @ tx]),
        (S[(2, 4, 32) : (1 @ wgid, 1 @ wid_in_wg, 1 @ laneid)], S[256 : 1 @ tx]),
        (S[(2, 4) : (1 @ wgid, 1 @ wid_in_wg)], S[8 : 1 @ warpid]),
        (S[(4, 8, 4, 2) : (1 @ wid_in_wg, 4 @ laneid, 1 @ laneid, 1)], S[(128, 2) : (1 @ tid_in_wg, 1)]),
        (S[32 : 1 @ laneid] + 2 @ warpid, S[32 : 1 @ tx] + 64 @ tx),
        (S[32 : 1 @ laneid] + R[4 : 1 @ wid_in_wg], S[32 : 1 @ tid_in_wg] + R[4 : 32 @ tid_in_wg]),
    ],
)
def test_canonicalize_fuses_thread_axes_across_scopes(parts, whole):
    assert parts.canonicalize() == whole
    assert parts.equivalent(whole)


def test_canonicalize_leaves_lanes_that_leave_their_warp():
    layout = S[(4, 64) : (1 @ wid_in_wg, 1 @ laneid)]
    assert layout.canonicalize() == layout


def test_a_lane_alone_is_not_a_thread_of_a_warpgroup():
    assert not S[32 : 1 @ laneid].equivalent(S[32 : 1 @ tid_in_wg])


def test_canonicalize_sorts_replicas_and_drops_those_that_stay():
    assert (S[2:1] + R[(2, 3, 2) : (8, 0, 16)]).canonicalize() == S[2:1] + R[4:8]


@given(st.data())
def test_group_keeps_the_table_and_fills_each_entry(data):
    layout = data.draw(tiles())
    shape = data.draw(shapes_of(layout))
    try:
        grouped, separators = layout.group(shape)
    except LayoutError:
        assume(False)
    groups = [grouped.shard[a:b] for a, b in pairwise(separators)]
    assert [int(np.prod([it.extent for it in group])) for group in groups] == list(shape)
    assert all(groups)
    assert same(held(grouped, shape), held(layout, shape))


@given(st.data())
def test_group_finds_every_split_and_fusion(data):
    layout = data.draw(tiles())
    shape = data.draw(splits(layout))
    assert len(layout.group(shape)[1]) == len(shape) + 1


def test_group_fuses_contiguous_iters_where_it_must():
    assert S[6, 4].group((4, 6))[0] == S[4, 6]


def test_group_of_document_fragment():
    layout, separators = S[(8, 4, 2, 2) : (4 @ laneid, 1 @ laneid, 2, 1)].group((1, 8, 4, 1, 2, 2))
    assert separators == (0, 1, 2, 3, 4, 5, 6)
    assert layout.extents == (1, 8, 4, 1, 2, 2)


def test_group_refuses_to_cut_an_iter():
    with pytest.raises(LayoutError, match=r"shape \(4, 6\): entry 1 cuts iter 4:1"):
        S[(6, 4) : (8, 1)].group((4, 6))


def test_group_refuses_a_shape_of_another_size():
    with pytest.raises(LayoutError, match=r"does not have the shape \(4, 5\)"):
        S[(6, 4) : (8, 1)].group((4, 5))


def test_group_of_symbolic_extents_names_the_missing_fact():
    n = Sym("n")
    assert S[n, 8].group((n, 2, 4))[1] == (0, 1, 2, 3)
    with pytest.raises(LayoutError, match=r"n % 16 == 0"):
        S[(n, 8) : (16, 1)].group((Sym("k"), 16 * 8))


@given(st.data())
def test_permute_by_groups_transposes_the_table(data):
    layout = data.draw(tiles())
    shape = data.draw(splits(layout))
    grouped, separators = layout.group(shape)
    perm = data.draw(st.permutations(range(len(shape))))
    result = grouped.permute_by_groups(separators, perm)
    assert same(held(result, tuple(shape[k] for k in perm)), held(layout, shape).transpose(perm))


@given(st.data())
def test_permute_dims_transposes_the_table(data):
    layout = data.draw(tiles())
    perm = data.draw(st.permutations(range(len(layout.shard))))
    result = layout.permute_dims(perm)
    assert same(held(result, result.extents), held(layout, layout.extents).transpose(perm))


def test_permute_refuses_what_is_no_permutation():
    with pytest.raises(LayoutError, match=r"\(0, 0\) is no permutation of 2 groups"):
        S[2, 3].permute_dims((0, 0))


def test_permute_refuses_separators_that_do_not_fit():
    with pytest.raises(LayoutError, match=r"has no groups \(0, 1\)"):
        S[2, 3].permute_by_groups((0, 1), (0,))


@given(tiles(axes=THREADED))
def test_storage_has_no_thread_axes_and_the_memory_of_the_layout(layout):
    storage = layout.storage()
    assert all(axis.is_memory() for axis in storage.axes)
    assert storage.size() == layout.size() // layout.size("laneid") // layout.size("wid_in_wg") // layout.size(
        tid_in_wg
    )
    kept, whole = storage.table((storage.size(),)), layout.table((layout.size(),))
    assert all(set(kept[axis].ravel()) == set(whole[axis].ravel()) for axis in kept)


@given(permutations())
def test_inverse_leads_back(layout):
    there = layout.table((layout.size(),)).get("m", np.zeros((1, 1), int))[:, 0]
    back = layout.inverse().table((layout.size(),)).get("m", np.zeros((1, 1), int))[:, 0]
    assert np.array_equal(back[there], np.arange(layout.size()))
    assert layout.inverse().inverse().equivalent(layout)


def test_inverse_refuses_a_layout_with_gaps():
    with pytest.raises(LayoutError, match="has no inverse layout"):
        S[(4, 8) : (16, 1)].inverse()


@given(tiles())
def test_trivial_is_the_identity(layout):
    size = (layout.size(),)
    assert layout.is_trivial() == same(held(layout, size), held(S[size], size))


def test_row_major_is_trivial():
    assert S[4, 1, 8].is_trivial()
    assert not S[(4, 8) : (1, 4)].is_trivial()
    assert not (S[4, 8] + 1).is_trivial()


@pytest.mark.parametrize(
    ("layout", "scope"),
    [
        (S[4, 4], ("thread", "thread")),
        (S[(32, 4) : (1 @ laneid, 1)], ("thread", "warp")),
        (S[(4, 32) : (1 @ wid_in_wg, 1 @ laneid)], ("thread", "warpgroup")),
        (S[(4, 32) : (1 @ warpid, 1 @ laneid)], ("thread", "cta")),
        (S[4 : 1 @ warpid], ("warp", "cta")),
    ],
)
def test_scope_is_the_narrowest_and_the_widest(layout, scope):
    assert tuple(one.name for one in layout.get_scope()) == scope


def test_thread_axes_with_a_gap_have_no_scope():
    with pytest.raises(LayoutError, match="leave a gap"):
        S[(2, 32) : (1 @ wgid, 1 @ laneid)].get_scope()


def test_well_formed_layouts_pass():
    assert S[(4, 8, 4, 2) : (1 @ warpid, 4 @ laneid, 1 @ laneid, 1)].verify_well_formed()
    assert (S[(32, 16) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane]).verify_well_formed()


@pytest.mark.parametrize(
    ("layout", "problem"),
    [
        (S[(4, 32) : (1 @ wgid, 1 @ laneid)], "wgid and laneid leave a gap"),
        (S[(4, 32) : (1 @ tid_in_wg, 1 @ laneid)], "overlap"),
        (S[64 : 1 @ laneid], "leaves axis laneid"),
        (S[32 : 1 @ laneid] + 1 @ laneid, "leaves axis laneid"),
        (S[128 : 1 @ TLane] + R[2 : 32 @ TLane], "leaves axis TLane"),
    ],
)
def test_ill_formed_layouts_are_refused(layout, problem):
    with pytest.raises(LayoutError, match=problem):
        layout.verify_well_formed()


def test_an_iter_needs_an_extent_of_at_least_one():
    with pytest.raises(LayoutError, match=r"iter 0:1 has extent 0"):
        Iter(0, 1)


def test_a_float_is_no_extent():
    with pytest.raises(LayoutError, match="an extent must be an integer"):
        S[2.5, 4]


def test_numpy_integers_are_integers():
    assert S[(np.int64(8), 4) : (np.int32(4) @ laneid, 1)] == S[(8, 4) : (4 @ laneid, 1)]


def test_layouts_hash_and_compare_by_value():
    assert {S[8, 4]: 1}[S[(8, 4) : (4, 1)]] == 1
    assert S[8, 4] != S[32]


def test_from_iters_takes_a_mapping_of_offsets():
    offset: dict[Axis | str, int] = {warpid: 2, "m": 64}
    layout = TileLayout.from_iters([Iter(8, 1)], [Iter(4, 32, TLane)], offset)
    assert layout == S[8:1] + R[4 : 32 @ TLane] + 2 @ warpid + 64


def test_a_spec_is_a_layout():
    assert TileLayout(S[8, 4] + R[2:64]) == S[8, 4] + R[2:64]


def test_a_layout_is_made_of_iters():
    with pytest.raises(LayoutError, match="made of iters"):
        TileLayout((8, 4))  # type: ignore[arg-type]  # extents alone
