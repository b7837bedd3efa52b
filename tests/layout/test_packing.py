"""Wider and narrower elements."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.layout.strategies import SWIZZLES, held, same, tiles
from tilewright.errors import LayoutError
from tilewright.layout import ComposeLayout, R, S, SwizzleLayout, TileLayout, laneid


@given(tiles(), st.sampled_from([1, 2, 3, 4]))
def test_pack_undoes_unpack(layout, n):
    back = layout.unpack(n).pack(n)
    size = (layout.size(),)
    assert same(held(back, size), held(layout, size))


@given(tiles(), st.sampled_from([2, 4]))
def test_pack_is_every_nth_element_of_the_table(layout, n):
    try:
        found = layout.pack(n)
    except LayoutError:
        return
    axis = (found.shard[-1].axis if found.shard else None) or "m"
    whole, packs = layout.table((layout.size() // n, n)), found.table((layout.size() // n,))
    for name, values in whole.items():
        if name == str(axis):
            assert np.array_equal(values - values[:, :1], np.broadcast_to(np.arange(n)[None, :, None], values.shape))
            assert np.array_equal(values[:, 0], packs[name] * n)
        else:
            assert np.array_equal(values[:, 0], packs[name])


def test_pack_fuses_a_contiguous_tail():
    assert S[4, 2, 2].pack(4).equivalent(S[4:1])
    assert S[4, 8, 1].pack(4) == S[(4, 2) : (2, 1)]


@pytest.mark.parametrize(
    "layout",
    [
        S[(8, 4) : (1, 8)],
        S[(4, 3) : (4, 1)],
        S[(4, 4) : (5, 1)],
        S[4, 4] + 1,
        S[4, 4] + R[2:17],
        S[(4, 4) : (1, 1 @ laneid)],
    ],
)
def test_pack_refuses_a_cut_run(layout):
    with pytest.raises(LayoutError, match=r"cannot pack .* by 2"):
        layout.pack(2)


def test_unpack_refuses_zero():
    with pytest.raises(LayoutError, match="cannot unpack"):
        S[4].unpack(0)


@given(SWIZZLES, st.sampled_from([1, 2, 4]))
def test_swizzled_pack_undoes_unpack(swizzle, n):
    layout = ComposeLayout(swizzle, S[8, 16])
    assert swizzle.unpack(n).pack(n) == swizzle
    assert layout.unpack(n).pack(n).equivalent(layout)


@given(SWIZZLES, st.sampled_from([1, 2, 4]))
def test_swizzled_unpack_moves_whole_elements(swizzle, n):
    layout = ComposeLayout(swizzle, S[8, 16])
    narrow = layout.unpack(n).table((128, n))["m"][..., 0]
    assert np.array_equal(narrow, layout.table((128,))["m"] * n + np.arange(n))


def test_pack_refuses_to_cut_the_runs_of_a_swizzle():
    with pytest.raises(LayoutError, match="cannot pack SwizzleLayout"):
        SwizzleLayout(1, 3, 3).pack(4)
    with pytest.raises(LayoutError, match="cannot pack ComposeLayout"):
        ComposeLayout(SwizzleLayout(3, 3, 3), TileLayout(S[4 : 1 @ laneid])).pack(2)
    with pytest.raises(LayoutError, match="cannot unpack SwizzleLayout"):
        SwizzleLayout(1, 3, 3).unpack(3)
