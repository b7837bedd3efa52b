"""SwizzleLayout and ComposeLayout against the definition, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.layout.strategies import SWIZZLES, Sym, composed, held, places, same, shapes_of, splits, xored
from tilewright.errors import LayoutError
from tilewright.layout import ComposeLayout, R, S, SwizzleLayout, TileLayout, laneid


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
    assert layout.get_scope() == ("warp", "thread")
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
