"""The notation evaluates back, and says what it cannot read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright.layout
from tests.layout.strategies import SWIZZLES, Sym, composed, tiles
from tilewright.errors import LayoutError
from tilewright.layout import (
    Axis,
    ComposeLayout,
    Iter,
    R,
    S,
    SwizzleLayout,
    TileLayout,
    TLane,
    laneid,
    parse_layout,
    warpid,
)

NAMES = {name: getattr(tilewright.layout, name) for name in tilewright.layout.__all__}


@given(st.one_of(tiles(), SWIZZLES, composed()))
def test_printing_evaluates_back(layout):
    assert eval(str(layout), NAMES) == layout
    assert eval(repr(layout), NAMES) == layout
    assert parse_layout(str(layout)) == layout


def test_printing_of_expressions_evaluates_back():
    layout = S[(Sym("n"), 8) : (Sym("(8 * k)") @ laneid, 1)] + Sym("(k + 1)") + Sym("k") @ warpid
    assert str(layout) == "S[(n, 8):(((8 * k))@laneid, 1)] + ((k + 1)) + k@warpid"
    assert eval(str(layout), {**NAMES, "n": Sym("n"), "k": Sym("k")}) == layout


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (S[(8, 4, 2, 2) : (4 @ laneid, 1 @ laneid, 2, 1)], "S[(8, 4, 2, 2):(4@laneid, 1@laneid, 2, 1)]"),
        (S[8:1] + R[4 : 32 @ TLane] + 5 @ warpid, "S[8:1] + R[4:32@TLane] + 5@warpid"),
        (S[8, 8] + 64, "S[(8, 8):(8, 1)] + 64"),
        (S[8:1] + -1 @ laneid, "S[8:1] + -1@laneid"),
        (S[()], "S[()]"),
    ],
)
def test_printing(layout, text):
    assert str(layout) == repr(layout) == text
    assert eval(text, NAMES) == layout


def test_parts_add_in_any_order():
    whole = S[8, 4] + R[4 : 32 @ TLane] + 2 @ warpid + 64
    assert 64 + S[8, 4] + 2 @ warpid + R[4 : 32 @ TLane] == whole
    assert 2 @ warpid + R[4 : 32 @ TLane] + (64 + S[8, 4]) == whole
    assert 2 @ warpid + (S[8, 4] + R[4 : 32 @ TLane] + 64) == whole
    assert R[4 : 32 @ TLane] + 32 + S[8, 4] + 32 + 2 @ warpid == whole
    assert 2 @ warpid + 64 + S[8, 4] + R[4 : 32 @ TLane] == whole
    assert 64 + 2 @ warpid + S[8, 4] + R[4 : 32 @ TLane] == whole


def test_row_major_forms():
    assert S[8, 4] == S[(8, 4)] == S[[8, 4]] == S[(8, 4) : (4, 1)]
    assert S[8] == S[8:1] == S[(8,) : (1,)]
    assert TileLayout(S[8, 4]) == S[8, 4]


def test_strides_add_up_across_the_colon_only_in_pairs():
    with pytest.raises(LayoutError, match=r"(?s)3 extents and 2 strides.*iter 2 \(2\) has no stride"):
        _ = S[(8, 4, 2) : (4 @ laneid, 1)]
    with pytest.raises(LayoutError, match=r"(?s)1 extents and 2 strides.*iter 1 \(1\) has no extent"):
        _ = R[4 : (2, 1)]


def test_a_colon_needs_parentheses_around_it():
    with pytest.raises(LayoutError, match=r"a colon inside S"):
        _ = S[8, 4:1, 2]
    with pytest.raises(LayoutError, match=r"two colons"):
        _ = S[8:1:2]


def test_a_replica_needs_strides():
    with pytest.raises(LayoutError, match=r"R\[4\] has no strides"):
        _ = R[4]  # type: ignore[index]  # extents without strides


def test_an_offset_is_an_integer():
    with pytest.raises(LayoutError, match="an offset must be an integer"):
        _ = S[4] + "x"


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("S[(8,4,2,2):(4@laneid,1@laneid,2,1)]", S[(8, 4, 2, 2) : (4 @ laneid, 1 @ laneid, 2, 1)]),
        (" TileLayout(S[2**3, 2*4 - 4]) ", S[8, 4]),
        ("SwizzleLayout(3, 3, atom_len=3, swizzle_inner=False)", SwizzleLayout(3, 3, 3, False)),
        ("ComposeLayout(SwizzleLayout(3,3,3), S[8, 64])", ComposeLayout(SwizzleLayout(3, 3, 3), S[8, 64])),
        ("S[128//16]", S[8]),
    ],
)
def test_parse_reads_what_python_reads(text, layout):
    assert parse_layout(text) == layout


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("S[(8,4)", "cannot read the layout"),
        ("S[8, lane]", "unknown name 'lane'"),
        ("__import__('os')", "cannot read the layout"),
        ("S.__class__", "cannot read the layout"),
        ("8 + 8", "is not a layout"),
        ("laneid + laneid", "cannot read the layout"),
        ("1@laneid + 1@laneid", "is not a layout"),
        ("S[8 // 0]", "cannot read the layout"),
        ("S[2 ** 2 ** 100]", "cannot read the layout"),
        ("SwizzleLayout(3, 3)", "cannot build SwizzleLayout"),
        ("SwizzleLayout(3, 3, 1)", "atom_len 1 < swizzle_len 3"),
        ("S[(8, 4):(4, 1, 2)]", "2 extents and 3 strides"),
        ("T[8]", "cannot read the layout"),
        ("S[(8, 4):(4@laneed, 1)]", "did you mean 'laneid'"),
        ("ComposeLayout(S[8], 3)", "a compose layout is a swizzle and a tile layout"),
    ],
)
def test_parse_refuses_anything_else(text, problem):
    with pytest.raises(LayoutError, match=problem):
        parse_layout(text)


def test_iters_print_as_they_are_built():
    assert eval(repr(Iter(8, 4, laneid)), NAMES) == Iter(8, 4, laneid)
    assert str(Iter(np.int64(8), 4, Axis.get("laneid"))) == "8:4@laneid"


def test_nested_extents_are_told_flat_and_as_cute_has_them() -> None:
    with pytest.raises(LayoutError, match="nested extents in S") as error:
        S[((4, 4), 8) : ((1, 32), 4)]
    flat, cute = "S[(4, 4, 8) : (1, 32, 4)], in which the last extent is the fastest", '"((4,4),8):((1,32),4)"'
    assert error.value.hint == f"{flat}; as CuTe has it: from_cute({cute})"
    with pytest.raises(LayoutError) as error:
        S[(4, (2, 2))]
    assert error.value.hint == "S[(4, 2, 2)], in which the last extent is the fastest"
