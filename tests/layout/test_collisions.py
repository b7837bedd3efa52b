"""Two elements in one place, against every pair of elements."""

from __future__ import annotations

from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.layout.strategies import composed, held, tiles
from tilewright.layout import ComposeLayout, Iter, P, R, S, SwizzleLayout, TileLayout, laneid, m


def shared_places(layout):
    """The places that two elements have, each with its elements, from the table alone."""
    holders: dict[frozenset[tuple[str, int]], set[int]] = {}
    for element, places in enumerate(held(layout, (layout.size(),))):
        for place in places:
            holders.setdefault(place, set()).add(element)
    return {place: elements for place, elements in holders.items() if len(elements) > 1}


@given(st.one_of(tiles(), tiles(strides=st.integers(0, 8)), composed()))
def test_a_collision_is_found_where_there_is_one(layout):
    found, expected = layout.collision(), shared_places(layout)
    assert bool(found) == bool(expected)
    if found:
        place = frozenset((axis, value) for axis, value in found.place.items() if value)
        assert found.first < found.second
        assert {found.first, found.second} <= expected[place]


def test_two_elements_in_one_register_slot_collide():
    found = S[(8, 2, 4, 2) : (4 @ laneid, 1, 1 @ laneid, 1)].collision()
    assert found == (1, 8, {"laneid": 0, "m": 1})


def test_copies_of_one_element_do_not_collide():
    assert (S[4:1] + R[2:0]).collision() is None
    assert (S[4:2] + R[2:1]).collision() is None
    assert (S[4:1] + R[2:1]).collision() is not None


def test_an_axis_that_does_not_count_tells_nothing_apart():
    layout = S[(4, 2) : (1 @ P, 1)]
    assert layout.collision() is None
    assert layout.collision(lambda axis: axis == m) == (0, 2, {"m": 0})


def test_a_swizzle_moves_no_two_addresses_to_one():
    swizzle = SwizzleLayout(1, 2, 2)
    assert [layout.collision() for layout in (swizzle, swizzle.over((8, 64)))] == [None, None]
    assert ComposeLayout(swizzle, S[(2, 2) : (8, 8)]).collision() == (1, 2, {"m": swizzle.address(8)})


@pytest.mark.parametrize(
    ("layout", "collides"),
    [
        (S[(1 << 40, 1 << 20) : (1 << 20, 1)], False),
        (S[(1 << 40, 1 << 20) : ((1 << 20) - 1, 1)], True),
        (S[(1000003, 999983) : (999983, 1000003)], False),
        (S[(1000, 1000, 1000) : (997, 1009, 1013)], True),
        (S[(10**6, 10**6) : (1, 1)], True),
        (TileLayout([Iter(2, 1 << bit) for bit in range(60)]), False),
        (TileLayout([Iter(2, 1 << bit) for bit in (*range(60), 30)]), True),
    ],
)
def test_large_layouts_need_no_table(layout, collides):
    start = perf_counter()
    assert bool(layout.collision()) == collides
    assert perf_counter() - start < 5
