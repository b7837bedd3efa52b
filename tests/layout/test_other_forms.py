"""Forms of layouts that kernels elsewhere use: names as strides, ends, offsets by axis, parts of a sum."""

from __future__ import annotations

import pytest

from tilewright.errors import LayoutError
from tilewright.layout import Axis, ComposeLayout, Layout, R, S, SwizzleLayout, laneid, m, parse_layout, warpid
from tilewright.layout.tile import Distances

SWIZZLE = SwizzleLayout(3, 3, 3)


def test_a_stride_may_be_a_name() -> None:
    assert S[8:"laneid"] == S[8 : 1 @ laneid]
    assert S[(8,) : ((4, "laneid"),)] == S[8 : 4 @ laneid]
    assert parse_layout('S[(8, 2) : ("laneid", 1)]') == S[(8, 2) : (1 @ laneid, 1)]
    with pytest.raises(LayoutError, match="unknown axis 'lane'"):
        S[8:"lane"]


def test_of_several_replicas_the_last_counts() -> None:
    assert S[8:1] + R[2:8] + R[4:16] == S[8:1] + R[4:16]


def test_an_axis_has_the_name_that_others_write() -> None:
    assert Axis.Bank == Axis.get("Bank") == Axis.bank


def test_slice_takes_ends_and_gives_none_where_nothing_fits() -> None:
    rows = S[8, 64]

    assert rows.slice((8, 64), [(2, 6), range(16, 32)]) == rows.part((8, 64), [(2, 4), (16, 16)])
    assert rows.slice((8, 64), [(2, 9), (0, 64)]) is None
    assert S[(4, 8) : (100, 2)].slice((32,), [(5, 13)]) is None
    assert SWIZZLE.slice((8, 64), [(0, 2), (0, 64)]) == SWIZZLE.after(S[2, 64])
    with pytest.raises(LayoutError, match="does not take this region"):
        rows.slice((8, 64), [3, 4])  # type: ignore[list-item]  # ends are pairs or ranges


def test_offsets_are_a_mapping_by_axis() -> None:
    layout = S[8:1] + 5 @ warpid + 3

    offset = layout.offset
    assert isinstance(offset, Distances)
    assert (offset[warpid], offset["m"], offset.get(laneid)) == (5, 3, None)
    assert dict(offset) == {m: 3, warpid: 5}
    assert warpid in offset  # type: ignore[comparison-overlap]  # it is a mapping by axis, too
    with pytest.raises(KeyError):
        offset[laneid]


def same_layout(found: Layout | None, wanted: Layout) -> bool:
    return found is not None and found.equivalent(wanted)


def test_the_span_of_all_memory_counts_offsets_and_replicas() -> None:
    assert (S[(4, 8) : (16, 1)] + R[2:100] + 7).span() == 1 + 48 + 7 + 100 + 7
    assert SWIZZLE.span() == SWIZZLE.size() == 512


def test_one_coordinate_is_linear_whatever_the_shape() -> None:
    assert S[(8, 64) : (1, 8)].apply(65, shape=(8, 64)) == {"m": 9}


def test_the_shape_of_a_sum_may_be_that_of_its_parts_in_turn() -> None:
    left, right = S[(4, 2) : (2, 100)], S[(2, 3) : (1, 8)]
    total = right.direct_sum(left, (4, 2), (2, 3))

    for shape in ([4, 2, 2, 3], (8, 6)):
        assert same_layout(right.is_direct_sum_right(total, shape, (2, 3)), left)
    assert same_layout(left.is_direct_sum_left(total, [4, 2, 2, 3], (4, 2)), right)
    with pytest.raises(LayoutError, match="for the right part"):
        right.is_direct_sum_right(total, [4, 3, 2, 2], (2, 3))


def test_a_swizzle_of_one_period_of_rows_is_canonically_the_swizzle() -> None:
    composed = ComposeLayout(layout_A=SWIZZLE, layout_B=S[8, 64])

    assert (composed.swizzle, composed.tile_layout) == (SWIZZLE, S[8, 64])
    assert composed.canonicalize() == SWIZZLE
    assert ComposeLayout(SWIZZLE, S[16, 64]).canonicalize() == ComposeLayout(SWIZZLE, S[1024:1])
