"""Warps that hold the same: which they are, and their grid."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.sim.machine.batch import Look
from tilewright.sim.machine.masks import Mask
from tilewright.sim.machine.registers import Registers
from tilewright.sim.machine.uniform import UniformWarps, grid_of

EIGHT = [UniformWarps(o, s, 8 // o // s) for o in (1, 2, 4, 8) for s in (1, 2, 4, 8) if o * s <= 8]
CTAS, ALL = 3, (3, 8, 32)
LOOK, MASK = Look(None, slice(0, CTAS, 1), slice(0, 8, 1), ALL), Mask(ALL)  # type: ignore[arg-type]  # no wave is asked


def words(alike: UniformWarps, count: int) -> np.ndarray:
    """Registers of those warps that differ, (CTAs, outer * inner, count, 32)."""
    shape = (CTAS, alike.outer * alike.inner, count, 32)
    return np.arange(np.prod(shape), dtype=np.uint32).reshape(shape)


def for_all(alike: UniformWarps, once: np.ndarray) -> np.ndarray:
    """The same for every warp, by the words of the docstring: digits of the warp's number."""
    first = [w // (alike.same * alike.inner) * alike.inner + w % alike.inner for w in range(8)]
    return once[:, first]


@pytest.mark.parametrize("alike", EIGHT, ids=str)
def test_warps_with_the_same_values_are_found_and_kept_once(alike: UniformWarps) -> None:
    once = words(alike, 1)
    values = for_all(alike, once)

    found = UniformWarps.among(values)

    assert found.same == alike.same
    np.testing.assert_array_equal(found.once(values), once)


def test_one_other_lane_makes_a_warp_another() -> None:
    values = for_all(UniformWarps(1, 8, 1), words(UniformWarps(1, 8, 1), 1)).copy()
    values[2, 5, 0, 31] += 1

    assert UniformWarps.among(values) == UniformWarps.nobody(8)


@pytest.mark.parametrize("left", EIGHT, ids=str)
@pytest.mark.parametrize("right", EIGHT, ids=str)
def test_a_row_of_a_grid_is_alike_on_the_left_and_a_column_on_the_right(
    left: UniformWarps, right: UniformWarps
) -> None:
    grid = grid_of(8, left, right)

    if grid is not None:
        across, down = (for_all(one, words(one, 1)).reshape(CTAS, *grid, 1, 32) for one in (left, right))
        assert (across == across[:, :, :1]).all()
        assert (down == down[:, :1]).all()


@pytest.mark.parametrize(
    ("left", "right", "grid"),
    [
        (UniformWarps(2, 4, 1), UniformWarps(1, 2, 4), (2, 4)),  # the usual one: rows share A, columns share B
        (UniformWarps(1, 4, 2), UniformWarps(2, 2, 2), None),  # shared in a way that no grid shows
        (UniformWarps(1, 8, 1), UniformWarps(4, 2, 1), (1, 8)),  # all warps have the same A
        (UniformWarps.nobody(8), UniformWarps.nobody(8), None),
    ],
)
def test_there_is_a_grid_where_rows_and_columns_share(
    left: UniformWarps, right: UniformWarps, grid: tuple[int, int] | None
) -> None:
    assert grid_of(8, left, right) == grid


@pytest.mark.parametrize("unit", [4, 8, 16])
@pytest.mark.parametrize("alike", EIGHT, ids=str)
def test_registers_give_each_warp_its_words(alike: UniformWarps, unit: int) -> None:
    registers = Registers(CTAS, 8, 32, unit)
    once = words(alike, 4)

    registers.store_words(LOOK, 8, once, MASK, alike)

    some, first = registers.uniform(LOOK, frozenset(range(2, 6)), range(0, 8, 3))
    if unit == 4:
        np.testing.assert_array_equal(some, for_all(alike, once)[:, ::3].reshape(CTAS, 3, -1))
        assert first == 2 * 32
    np.testing.assert_array_equal(registers.words(LOOK, 8, 4), for_all(alike, once))
    assert registers.alike(LOOK, range(2, 6)) == alike


def test_registers_forget_who_is_alike_when_they_are_written() -> None:
    alike, nobody = UniformWarps(2, 4, 1), UniformWarps.nobody(8)
    registers = Registers(CTAS, 8, 32, 4)
    registers.store_words(LOOK, 0, words(alike, 8), MASK, alike)

    registers.store_words(LOOK, 8, np.zeros((CTAS, 8, 1, 32), np.uint32), MASK)

    assert registers.alike(LOOK, range(2)) == registers.alike(LOOK, range(3, 8)) == alike
    assert registers.alike(LOOK, [2]) == registers.alike(LOOK, range(8)) == nobody


def test_who_is_alike_holds_for_the_warps_that_loaded() -> None:
    registers = Registers(CTAS, 8, 32, 4)
    registers.store_words(LOOK, 0, words(UniformWarps(1, 8, 1), 1), MASK, UniformWarps(1, 8, 1))
    four = Look(None, slice(0, CTAS, 1), slice(0, 4, 1), (CTAS, 4, 32))  # type: ignore[arg-type]

    assert registers.alike(four, [0]) == UniformWarps.nobody(4)


def test_words_that_are_stored_again_are_those_that_are_there() -> None:
    alike, registers = UniformWarps(2, 4, 1), Registers(CTAS, 8, 32, 4)
    for _ in range(2):
        registers.store_words(LOOK, 0, words(alike, 4), MASK, alike)
    registers.store_words(LOOK, 8, words(UniformWarps(1, 8, 1), 4) + 7, MASK, UniformWarps(1, 8, 1))

    found = registers.words(LOOK, 0, 6)

    np.testing.assert_array_equal(found[:, :, :2], for_all(alike, words(alike, 4))[:, :, :2])
    np.testing.assert_array_equal(found[:, :, 2:], for_all(UniformWarps(1, 8, 1), words(UniformWarps(1, 8, 1), 4) + 7))
