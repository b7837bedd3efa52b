"""SwizzleLayout and ComposeLayout against the definition, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.layout.strategies import (
    SWIZZLES,
    Sym,
    composed,
    held,
    permutations,
    places,
    same,
    shapes_of,
    splits,
    xored,
)
from tilewright.errors import LayoutError
from tilewright.layout import ComposeLayout, R, S, SwizzleLayout, TCol, TileLayout, laneid, m, warpid


@given(SWIZZLES, st.integers(0, 4000))
def test_swizzle_is_the_xor_of_its_bits(swizzle, address):
    assert swizzle.apply(address) == {"m": xored(swizzle, address)}
    assert swizzle.address(Sym("x")).value(x=address) == xored(swizzle, address) if swizzle.swizzle_len else True


@given(SWIZZLES)
def test_swizzle_permutes_its_period_and_undoes_itself(swizzle):
    there = swizzle.table((swizzle.size(),))["m"][:, 0]
    assert np.array_equal(np.sort(there), np.arange(swizzle.period))
    assert np.array_equal(swizzle.inverse().address(there), np.arange(swizzle.period))
    assert np.array_equal(there // swizzle.block, np.arange(swizzle.period) // swizzle.block)
    assert swizzle.address(swizzle.period * 3) == swizzle.period * 3
    assert swizzle.span() == swizzle.cosize() == swizzle.period


def test_swizzle_of_128_bytes_is_that_of_the_hardware():
    address = np.arange(1 << 14)
    assert np.array_equal(SwizzleLayout(4, 3, 3).address(address), address ^ ((address >> 3) & 0x70))


@pytest.mark.parametrize("fields", [(3, 3, 2), (0, 1, 0)])
def test_swizzle_refuses_overlapping_bits(fields):
    with pytest.raises(LayoutError, match=r"atom_len \d < swizzle_len \d"):
        SwizzleLayout(*fields)


def test_swizzle_refuses_negative_fields():
    with pytest.raises(LayoutError, match="per_element of a swizzle is -1"):
        SwizzleLayout(-1, 3, 3)


def test_swizzle_is_of_a_row_major_shape():
    assert SwizzleLayout(3, 3, 3).apply(1, 8, shape=(8, 64)) == {"m": 64}


@given(st.data())
def test_compose_table_says_what_the_definition_says(data):
    layout = data.draw(composed())
    shape = data.draw(shapes_of(layout))
    assert same(held(layout, shape), places(layout, shape))


@given(st.data())
def test_compose_apply_is_the_table(data):
    layout = data.draw(composed())
    shape = data.draw(splits(layout.tile))
    index = tuple(data.draw(st.integers(0, extent - 1)) for extent in shape)
    expected = {axis: int(values[(*index, 0)]) for axis, values in layout.table(shape).items()}
    assert layout.apply(*index, shape=shape) == expected


@given(composed())
def test_compose_span_and_cosize_are_those_of_the_table(layout):
    for axis, values in layout.table((layout.size(),)).items():
        assert layout.span(axis) == values.max() - values.min() + 1
        assert layout.cosize(axis) == values.max() + 1


def test_compose_span_of_expressions_counts_whole_blocks():
    layout = ComposeLayout(SwizzleLayout(3, 3, 3), S[(Sym("n"), 64) : (64, 1)])
    assert layout.span().value(n=3) == 192
    assert layout.cosize().value(n=3) == 192


@given(composed())
def test_compose_canonicalize_keeps_the_meaning(layout):
    size = (layout.size(),)
    assert layout.equivalent(layout.canonicalize())
    assert same(held(layout.canonicalize(), size), held(layout, size))


def test_a_swizzle_that_reads_no_bit_is_dropped():
    assert ComposeLayout(SwizzleLayout(3, 3, 3), S[1, 64]).canonicalize() == S[64:1]
    assert ComposeLayout(SwizzleLayout(3, 0, 3), S[8, 64]).canonicalize() == S[512:1]
    assert ComposeLayout(SwizzleLayout(3, 3, 3), S[1, 64]).is_trivial()


@given(composed(), composed())
def test_equivalence_is_equality_of_places(a, b):
    equal = a.size() == b.size() and same(held(a, (a.size(),)), held(b, (b.size(),)))
    assert a.equivalent(b) == equal


def test_a_swizzle_is_a_compose_over_rows():
    swizzle = SwizzleLayout(3, 3, 3)
    rows = ComposeLayout(swizzle, S[8, 64])
    assert swizzle.equivalent(rows)
    assert rows.equivalent(swizzle)
    assert not swizzle.equivalent(S[512])
    assert not S[512].equivalent(swizzle)
    assert swizzle.equivalent(SwizzleLayout(3, 3, 3))
    assert SwizzleLayout(3, 0, 3).is_trivial()
    assert SwizzleLayout(3, 0, 3).canonicalize() == SwizzleLayout(0, 0, 0)


def test_an_xor_may_be_a_plain_layout():
    assert ComposeLayout(SwizzleLayout(0, 1, 1), S[2:3]).equivalent(S[2:2])


@given(st.data())
def test_compose_permutes_and_groups_below_the_swizzle(data):
    layout = data.draw(composed())
    shape = data.draw(splits(layout.tile))
    grouped, separators = layout.group(shape)
    perm = data.draw(st.permutations(range(len(shape))))
    result = grouped.permute_by_groups(separators, perm)
    assert same(held(result, tuple(shape[k] for k in perm)), held(layout, shape).transpose(perm))


def test_compose_delegates_geometry_to_the_tile_layout():
    tile = S[(4, 8, 4, 2) : (64, 4 @ laneid, 1 @ laneid, 1)] + R[2:32]
    layout = ComposeLayout(SwizzleLayout(1, 2, 2), tile)
    assert layout.storage().tile == tile.storage()
    assert layout.get_scope() == ("thread", "warp")
    assert layout.verify_well_formed()
    assert layout.permute_dims((3, 2, 1, 0)).tile == tile.permute_dims((3, 2, 1, 0))
    assert layout.broadcast((256,), (2, 256)).tile == tile.broadcast((256,), (2, 256))
    assert layout.expand_threads().tile == tile.expand_threads()
    assert layout.span("laneid") == layout.cosize("laneid") == 32


@given(SWIZZLES)
def test_tile_to_of_whole_periods_repeats_the_swizzled_tile(swizzle):
    period = swizzle.period
    found = swizzle.tile_to((2 * period,), (period,)).table((2, period))["m"][..., 0]
    one = swizzle.table((period,))["m"][..., 0]
    assert np.array_equal(found, np.stack([one, one + period]))


def test_storage_of_a_swizzle_is_itself():
    swizzle = SwizzleLayout(3, 3, 3)
    assert swizzle.storage() == swizzle
    assert swizzle.axes == ComposeLayout(swizzle, S[64]).axes == S[64].axes
    assert swizzle.get_scope() == ("thread", "thread")
    assert swizzle.verify_well_formed()
    assert SwizzleLayout(3, 3, 3).size("laneid") == 1
    assert TileLayout().size() == 1


def swizzled(places, swizzle):
    """Places with axis m moved, bit by bit."""
    out = np.empty(places.shape, object)
    for index, found in np.ndenumerate(places):
        out[index] = frozenset(_moved(place, swizzle) for place in found)
    return out


def _moved(place, swizzle):
    where = dict(place)
    where["m"] = xored(swizzle, where.get("m", 0))
    return frozenset((axis, value) for axis, value in where.items() if value)


GRIDS = st.builds(lambda n, by: S[n:by], st.integers(1, 3), st.integers(0, 5))


@given(composed(), GRIDS)
def test_tiles_and_sums_happen_below_the_swizzle(layout, outer):
    shapes, whole = ((outer.size(),), (layout.size(),)), (outer.size() * layout.size(),)
    for name, plain in (("tile_with", layout.tile.tile), ("direct_sum", layout.tile.direct_sum)):
        found = getattr(layout, name)(outer, *shapes)
        assert same(held(found, whole), swizzled(held(plain(outer, *shapes), whole), layout.swizzle))


@given(composed(), GRIDS)
def test_swizzled_tiles_and_sums_are_undone(layout, outer):
    shapes, whole = ((outer.size(),), (layout.size(),)), (outer.size() * layout.size(),)
    tiled, total = layout.tile_with(outer, *shapes), layout.direct_sum(outer, *shapes)
    for found, again, question in (
        (tiled, layout.tile_with, layout.is_tile_inner),
        (total, layout.direct_sum, layout.is_direct_sum_right),
    ):
        left = question(found, whole, shapes[1])
        assert left is not None
        assert again(left, *shapes).equivalent(found)
    assert outer.is_tile_outer(tiled, whole, shapes[0]).tile_with(outer, *shapes).equivalent(tiled)
    assert outer.is_direct_sum_left(total, whole, shapes[0]).direct_sum(outer, *shapes).equivalent(total)


def test_a_layout_of_another_swizzle_is_no_tile():
    tiled = SwizzleLayout(3, 3, 3).over((16, 64))
    assert SwizzleLayout(3, 2, 3).is_tile_inner(tiled, (16, 64), (8, 64)) is None
    assert S[8, 64].is_tile_inner(tiled, (16, 64), (8, 64)) is None
    assert S[8, 64].is_direct_sum_right(tiled, (16, 64), (8, 64)) is None
    assert SwizzleLayout(3, 3, 3).is_tile_inner(tiled, (16, 64), (8, 64)) == S[(2, 1) : (1, 0)]


@given(SWIZZLES, st.data())
def test_a_bare_swizzle_is_one_over_rows_of_the_shape_given(swizzle, data):
    shape = data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=2))
    rows, grid = swizzle.over(shape), S[2, 3]
    assert swizzle.group(shape) == rows.group(shape)
    assert swizzle.tile(grid, (2, 3), shape) == rows.tile_with(grid, (2, 3), shape)
    assert swizzle.direct_sum(grid, (2, 3), shape) == rows.direct_sum(grid, (2, 3), shape)
    assert swizzle.broadcast(shape, (5, *shape)) == rows.broadcast(shape, (5, *shape))
    assert swizzle.part(shape, [(0, 1), (0, 1)]) == rows.slice(shape, [(0, 1), (0, 1)])
    assert swizzle.expand_threads() == swizzle.storage() == swizzle


@given(composed(axes=st.sampled_from([m, m, laneid])), st.sampled_from([2, 4]))
def test_a_swizzled_pack_is_n_neighbours_of_the_table(layout, n):
    wide = layout.unpack(n)
    before, after = layout.table((layout.size(),)), wide.table((layout.size(), n))
    assert wide.pack(n).equivalent(layout)
    for name, values in before.items():
        scale, neighbours = (n, np.arange(n)[None, :, None]) if name == "m" else (1, 0)
        assert np.array_equal(after[name], np.broadcast_to(values[:, None] * scale + neighbours, after[name].shape))


@given(SWIZZLES, st.data())
def test_the_inverse_of_a_swizzled_permutation_leads_back(swizzle, data):
    layout = swizzle.after(data.draw(permutations(6)))
    size = layout.size()
    try:
        back = layout.inverse()
    except LayoutError:
        return
    there, again = (each.table((size,)).get("m", np.zeros((1, 1), int))[:, 0] for each in (layout, back))
    assert np.array_equal(again[there], np.arange(size))


def test_whole_periods_may_be_moved_and_are_moved_back():
    layout = SwizzleLayout(3, 3, 3).after(S[(2, 3, 512) : (512, 1024, 1)])
    there = layout.table((3072,))["m"][:, 0]
    assert np.array_equal(layout.inverse().table((3072,))["m"][there, 0], np.arange(3072))


def test_an_inverse_that_no_swizzle_ends_is_refused():
    with pytest.raises(LayoutError, match="no inverse that is a swizzle after a tile layout"):
        SwizzleLayout(3, 3, 3).after(S[(3, 512) : (1, 3)]).inverse()


@pytest.mark.parametrize(
    ("what", "operation"),
    [
        ("outer layout of a tile has no swizzle", lambda s: S[8, 64].tile(s, (8, 64), (8, 64))),
        ("outer layout of a tile has no swizzle", lambda s: s.is_tile_outer(S[16, 64], (16, 64), (2, 1))),
        ("left part of a direct sum has no swizzle", lambda s: S[8, 64].direct_sum(s.over((8, 64)), (8, 64), (8, 64))),
        ("left part of a direct sum has no swizzle", lambda s: s.is_direct_sum_left(S[16, 64], (16, 64), (2, 1))),
        ("has no extents, and so nothing to permute", lambda s: s.permute_dims((0,))),
        ("has no extents, and so nothing to permute", lambda s: s.permute_by_groups((0, 1), (0,))),
        ("has no extents, and so nothing to move", lambda s: s + 64),
        ("has no extents, and so nothing to move", lambda s: 2 @ warpid + s),
        ("is a layout, and not called", lambda s: s.over((8, 64)).tile(S[2, 2], (2, 2), (8, 64))),
        ("an offset must be an integer", lambda s: S[8, 64] + s),
        ("does not take this other", lambda s: s.equivalent("S[512]")),
        ("does not take this other", lambda s: s.over((8, 64)).equivalent(512)),
        ("cannot unpack", lambda s: s.after(S[8:1] + R[2 : 8 @ TCol]).permute_dims((0,)).unpack(0)),
        ("cannot unpack", lambda s: s.after(S[(8, 2) : (1, 1 @ TCol)]).unpack(2)),
        ("does not take this n", lambda s: s.pack(1.5)),
        ("cannot unpack", lambda s: s.unpack(1 << 60)),
        ("a swizzle of 80 address bits", lambda s: SwizzleLayout(40, 20, 20)),
    ],
)
def test_what_a_swizzle_has_not_is_refused_with_the_reason(what, operation):
    with pytest.raises(LayoutError, match=what) as caught:
        operation(SwizzleLayout(3, 3, 3))
    assert caught.value.allowed


@given(composed())
def test_an_offset_moves_the_address_below_the_swizzle(layout):
    moved, size = layout + 8 + 2 @ warpid, (layout.size(),)
    assert same(held(moved, size), swizzled(held(layout.tile + 8 + 2 @ warpid, size), layout.swizzle))
    assert 2 @ warpid + layout == layout + 2 @ warpid


def test_large_swizzled_layouts_need_no_table():
    layout = SwizzleLayout(3, 3, 3).over((40000, 65536))
    assert layout.cosize() == layout.span() == 40000 * 65536
    assert layout.equivalent(SwizzleLayout(3, 3, 3).over((65536, 40000)))
    assert layout.inverse().equivalent(layout)
    assert not layout.equivalent(S[40000, 65536])


@pytest.mark.parametrize("shape", [(0, 4), (-1, 4), (1 << 40,), (1 << 20, 1 << 20)])
def test_a_table_that_no_memory_holds_is_refused(shape):
    for layout in (SwizzleLayout(3, 3, 3), S[1 << 40 : 1]):
        with pytest.raises(LayoutError):
            layout.table(shape)


@pytest.mark.parametrize("layout", [SwizzleLayout(3, 3, 3), SwizzleLayout(3, 3, 3).over((8, 64)), S[8, 64]])
def test_a_question_about_no_layout_is_refused(layout):
    for question in (layout.is_tile_inner, layout.is_direct_sum_right, S[8, 64].is_tile_outer):
        with pytest.raises(LayoutError, match=r"does not take this|not a layout"):
            question(512, (8, 64), (8, 64))  # type: ignore[arg-type]  # no layout
