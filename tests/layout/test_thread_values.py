"""Register layouts as CuTe's thread-value layouts, both ways."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.layout.strategies import held, same, splits
from tilewright.errors import LayoutError
from tilewright.layout import (
    ComposeLayout,
    Iter,
    R,
    S,
    SwizzleLayout,
    TCol,
    TileLayout,
    cute_shape,
    from_cute,
    laneid,
    m,
    to_cute,
    warpid,
    wid_in_wg,
)


@st.composite
def register_layouts(draw):
    """Layouts whose lanes and registers have no gaps, elements in several of both among them."""
    dims = draw(st.lists(st.tuples(st.sampled_from([1, 2, 2, 3, 4]), st.sampled_from([laneid, m])), max_size=5))
    copied = draw(st.lists(st.sampled_from([laneid, m]), max_size=2))
    count = len(dims) + len(copied)
    iters: dict[int, Iter] = {}
    reached = {laneid: 1, m: 1}
    for k in draw(st.permutations(range(count))):
        extent, axis = dims[k] if k < len(dims) else (2, copied[k - len(dims)])
        iters[k] = Iter(extent, reached[axis], axis)
        reached[axis] *= extent
    ordered = [iters[k] for k in range(count)]
    return TileLayout([*ordered[: len(dims)], Iter(1, 1, laneid)], ordered[len(dims) :])


@given(st.data())
def test_thread_values_read_back(data):
    layout = data.draw(register_layouts())
    shape = data.draw(splits(layout))
    text = to_cute(layout, shape)
    assert same(held(from_cute(text, threads="laneid", shape=shape), shape), held(layout, shape))


@given(st.data())
def test_thread_values_lead_to_the_element_as_cute_does(data):
    layout = data.draw(register_layouts())
    shape = data.draw(splits(layout))
    there = from_cute(to_cute(layout, shape)).table(cute_shape(to_cute(layout, shape)))["m"][..., 0]
    for index, places in np.ndenumerate(held(layout, shape)):
        for place in map(dict, places):
            column_major = np.ravel_multi_index(index, shape, order="F")
            assert there[place.get("laneid", 0), place.get("m", 0)] == column_major


@pytest.mark.parametrize(
    ("layout", "shape", "text"),
    [  # the first two as CUTLASS has them: SM80_8x8_Row, SM80_16x8_Row
        (S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)], (8, 8), "((4,8),2):((16,1),8)"),
        (S[(2, 8, 4, 2) : (2, 4 @ laneid, 1 @ laneid, 1)], (16, 8), "((4,8),(2,2)):((32,1),(16,8))"),
        (S[(4, 2) : (1 @ laneid, 1)] + R[8 : 4 @ laneid], (4, 2), "((4,8),2):((1,0),4)"),
        (S[(4, 32, 2) : (1 @ wid_in_wg, 1 @ laneid, 1)], (128, 2), "(128,2):(1,128)"),
        (S[8 : 1 @ laneid], None, "(8,1):(1,0)"),
    ],
)
def test_thread_value_strings(layout, shape, text):
    assert to_cute(layout, shape) == text
    axis = next(axis for axis in layout.canonicalize().axes if axis != m)
    assert from_cute(text, threads=axis, shape=shape).equivalent(layout)


@pytest.mark.parametrize(
    ("text", "threads", "shape", "what"),
    [
        ("8:1", laneid, None, "has two modes"),
        ("(8,2):(1,8)", m, None, "has two modes"),
        ("(8,2):(1,1)", laneid, None, "none of a tile of"),
        ("(8,2):(1,8)", laneid, (4, 3), "none of a tile of"),
        ("(6,2):(1,6)", laneid, (4, 3), "none of a tile of"),
        ("(8,2):(-1,8)", laneid, (16,), "none of a tile of"),
        ("(8,2):(1,8)", "lane", None, "unknown axis"),
    ],
)
def test_from_cute_refuses_what_is_no_thread_value_layout(text, threads, shape, what):
    with pytest.raises(LayoutError, match=what):
        from_cute(text, threads=threads, shape=shape)


def test_negative_strides_are_written_and_read():
    assert to_cute(S[8:-1] + 7) == "7 o 8:-1"
    assert from_cute("7 o 8:-1") == S[8:-1] + 7


@pytest.mark.parametrize(
    "layout",
    [
        S[8 : 2 @ laneid],
        S[8:1] + R[2:8],
        S[8:1] + 1 @ warpid,
        S[(8, 4) : (1 @ laneid, 1 @ warpid)],
        S[(8, 4) : (1 @ laneid, 1 @ TCol)],
        S[(8, 4) : (1 @ laneid, 2)],
        ComposeLayout(SwizzleLayout(0, 1, 1), S[(8, 4) : (1 @ laneid, 1)]),
    ],
)
def test_to_cute_refuses_what_cute_has_not(layout):
    with pytest.raises(LayoutError, match="has no CuTe string"):
        to_cute(layout)
