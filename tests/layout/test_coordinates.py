"""A coordinate is inside of what it counts in, or the layout says which one is not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.layout.strategies import Sampled, Sym, composed, splits, tiles
from tilewright.errors import LayoutError
from tilewright.layout import S, SwizzleLayout, laneid

FRAGMENT = S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)]


def test_apply_beyond_the_extents_is_refused():
    with pytest.raises(LayoutError, match=r"\(9, 0\) is outside of \(8, 4\)") as caught:
        S[8, 4].apply(9, 0)
    assert (caught.value.given, caught.value.allowed) == ("9 in dimension 0", "0 to 7")


@given(st.data())
def test_every_element_has_a_place_and_its_neighbours_outside_have_none(data):
    layout = data.draw(st.one_of(tiles(), composed()))
    shape = data.draw(splits(layout.parted(())[1]))
    inside = [data.draw(st.integers(0, extent - 1)) for extent in shape]
    layout.apply(*inside, shape=shape)
    dim = data.draw(st.integers(0, len(shape) - 1))
    inside[dim] = data.draw(st.sampled_from([-1, -100, shape[dim], shape[dim] + 100]))
    with pytest.raises(LayoutError, match="outside of"):
        layout.apply(*inside, shape=shape)


@pytest.mark.parametrize("index", [64, -1, np.array([0, 64]), np.array([[3], [-1]])])
def test_a_row_major_index_is_below_the_size(index):
    assert FRAGMENT.apply(63) == {"laneid": 31, "m": 1}
    with pytest.raises(LayoutError, match="outside of"):
        FRAGMENT.apply(index)


def test_an_array_says_how_far_it_reaches():
    with pytest.raises(LayoutError, match="outside of") as caught:
        S[8, 4].apply(np.arange(12), 0)
    assert caught.value.given == "0 to 11 in dimension 0"
    assert S[8, 4].apply(np.array([], int), 0)["m"].size == 0


def test_an_expression_is_refused_where_it_is_proven_outside():
    facts = Sampled((("i", range(8, 16)),))
    with pytest.raises(LayoutError, match=r"\(i, 0\) is outside of \(8, 4\)"):
        S[8, 4].apply(Sym("i"), 0, facts=facts)
    assert S[8, 4].apply(Sym("i"), 0)["m"] == Sym("(i * 4)")
    assert S[16, 4].apply(Sym("i"), 0, facts=facts)


def test_a_swizzle_has_no_last_address():
    assert SwizzleLayout(3, 3, 3).apply(512 + 64) == {"m": 512 + 72}
    with pytest.raises(LayoutError, match="negative"):
        SwizzleLayout(3, 3, 3).apply(-1)
    with pytest.raises(LayoutError, match=r"outside of \(8, 64\)"):
        SwizzleLayout(3, 3, 3).apply(8, 0, shape=(8, 64))


def test_place_goes_on_beyond_the_extents():
    assert S[8, 4].place(9, 0) == {"m": 36}


@pytest.mark.parametrize("index", [1.0, "1", None, [1], np.float32(1), np.array([1.0]), 1j, np.bool_(True)])
def test_a_coordinate_is_an_integer(index):
    with pytest.raises(LayoutError, match=r"does not take this coord|must be an integer"):
        S[8, 4].apply(index, 0)


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.int16, np.uint64])
def test_numpys_integers_count_without_wrapping(kind):
    seven, sixty, eight, sixteen = (kind(number) for number in (7, 60, 8, 16))
    assert S[8, 64].apply(seven, sixty) == {"m": 508}
    assert S[8, 64].apply(np.array([seven]), np.array([sixty]))["m"].tolist() == [508]
    assert SwizzleLayout(3, 3, 3).over((8, 64)).apply(seven, sixty) == SwizzleLayout(3, 3, 3).over((8, 64)).apply(7, 60)
    assert S[16, 16].slice((sixteen, sixteen), [(kind(0), eight), (kind(0), sixteen)]) == S[8, 16]
    assert S[8:-1].apply(np.array([seven]))["m"].tolist() == [-7]


def test_an_array_of_numbers_beyond_64_bits_is_refused():
    with pytest.raises(LayoutError, match="does not take this"):
        S[8, 64].apply(np.array([2**63], np.uint64), 0)
