"""Warps and CTAs that hold the same: which they are, and their grid."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.sim.machine.registers import Registers
from tilewright.sim.machine.team import Look, Team
from tilewright.sim.machine.uniform import Uniform, grid_of

EIGHT = [Uniform(o, s, 8 // o // s) for o in (1, 2, 4, 8) for s in (1, 2, 4, 8) if o * s <= 8]
CTAS, ALL = 3, (3, 8, 32)
EACH = Uniform.nobody(CTAS)  # no CTA is like another one
LOOK = Look(None, slice(0, CTAS, 1), slice(0, 8, 1), ALL)  # type: ignore[arg-type]  # no wave is asked
TEAM = Team(LOOK)


def words(alike: Uniform, count: int) -> np.ndarray:
    """Registers of those warps that differ, (CTAs, outer * inner, count, 32)."""
    shape = (CTAS, alike.outer * alike.inner, count, 32)
    return np.arange(np.prod(shape), dtype=np.uint32).reshape(shape)


def for_all(alike: Uniform, once: np.ndarray) -> np.ndarray:
    """The same for every warp, by the words of the docstring: digits of the warp's number."""
    first = [w // (alike.same * alike.inner) * alike.inner + w % alike.inner for w in range(8)]
    return once[:, first]


@pytest.mark.parametrize("alike", EIGHT, ids=str)
def test_warps_with_the_same_values_are_found_and_kept_once(alike: Uniform) -> None:
    once = words(alike, 1)
    values = for_all(alike, once)

    found = Uniform.of_rows(values[0, :, 0])

    assert found.same == alike.same
    np.testing.assert_array_equal(found.once(values), once)


@pytest.mark.parametrize("alike", EIGHT, ids=str)
def test_rows_that_are_equal_are_found(alike: Uniform) -> None:
    rows = for_all(alike, words(alike, 1)[:1])[0, :, 0]

    found = Uniform.of_rows(rows)

    assert found.same == alike.same
    np.testing.assert_array_equal(found.once(rows[None])[0], np.unique(rows, axis=0))


@pytest.mark.parametrize("column", range(32))
def test_one_other_word_makes_a_row_another(column: int) -> None:
    rows = np.zeros((8, 32), np.uint32)
    rows[5, column] = 1

    assert Uniform.of_rows(rows) == Uniform.nobody(8)


@pytest.mark.parametrize("ctas", [Uniform(3, 1, 1), Uniform(1, 3, 1)], ids=str)
@pytest.mark.parametrize("unit", [4, 8])
def test_registers_give_each_cta_its_words(ctas: Uniform, unit: int) -> None:
    warps, registers = Uniform(2, 4, 1), Registers(CTAS, 8, 32, unit)
    once = words(warps, 4)[: ctas.outer]
    whole = np.broadcast_to(for_all(warps, once), (CTAS, 8, 4, 32))

    registers.store_words(TEAM, 8, once, (ctas, warps))

    some, first = registers.uniform(LOOK, frozenset(range(2, 6)), range(1, CTAS), range(0, 8, 4))
    if unit == 4:
        np.testing.assert_array_equal(some, whole[1:, ::4].reshape(2, 2, -1))
        assert first == 2 * 32
    np.testing.assert_array_equal(registers.words(LOOK, 8, 4), whole)
    assert registers.alike(LOOK, range(2, 6)) == (ctas, warps)


def test_a_row_of_a_grid_is_alike_on_the_left_and_a_column_on_the_right() -> None:
    grids = [(left, right, grid) for left in EIGHT for right in EIGHT if (grid := grid_of(8, left, right)) is not None]
    assert len(grids) > len(EIGHT)

    for left, right, grid in grids:
        across, down = (for_all(one, words(one, 1)).reshape(CTAS, *grid, 1, 32) for one in (left, right))
        assert (across == across[:, :, :1]).all(), (left, right)
        assert (down == down[:, :1]).all(), (left, right)


@pytest.mark.parametrize(
    ("left", "right", "grid"),
    [
        (Uniform(2, 4, 1), Uniform(1, 2, 4), (2, 4)),  # the usual one: rows share A, columns share B
        (Uniform(1, 4, 2), Uniform(2, 2, 2), None),  # shared in a way that no grid shows
        (Uniform(1, 8, 1), Uniform(4, 2, 1), (1, 8)),  # all warps have the same A
        (Uniform.nobody(8), Uniform.nobody(8), None),
    ],
)
def test_there_is_a_grid_where_rows_and_columns_share(
    left: Uniform, right: Uniform, grid: tuple[int, int] | None
) -> None:
    assert grid_of(8, left, right) == grid


@pytest.mark.parametrize("unit", [4, 8, 16])
@pytest.mark.parametrize("alike", EIGHT, ids=str)
def test_registers_give_each_warp_its_words(alike: Uniform, unit: int) -> None:
    registers = Registers(CTAS, 8, 32, unit)
    once = words(alike, 4)

    registers.store_words(TEAM, 8, once, (EACH, alike))

    some, first = registers.uniform(LOOK, frozenset(range(2, 6)), range(CTAS), range(0, 8, 3))
    if unit == 4:
        np.testing.assert_array_equal(some, for_all(alike, once)[:, ::3].reshape(CTAS, 3, -1))
        assert first == 2 * 32
    np.testing.assert_array_equal(registers.words(LOOK, 8, 4), for_all(alike, once))
    assert registers.alike(LOOK, range(2, 6)) == (EACH, alike)


def test_registers_forget_who_is_alike_when_they_are_written() -> None:
    alike, nobody = Uniform(2, 4, 1), Uniform.nobody(8)
    registers = Registers(CTAS, 8, 32, 4)
    registers.store_words(TEAM, 0, words(alike, 8), (EACH, alike))

    registers.store_words(TEAM, 8, np.zeros((CTAS, 8, 1, 32), np.uint32))

    assert registers.alike(LOOK, range(2)) == registers.alike(LOOK, range(3, 8)) == (EACH, alike)
    assert registers.alike(LOOK, [2]) == registers.alike(LOOK, range(8)) == (EACH, nobody)


def test_who_is_alike_holds_for_the_warps_that_loaded() -> None:
    registers = Registers(CTAS, 8, 32, 4)
    registers.store_words(TEAM, 0, words(Uniform(1, 8, 1), 1), (EACH, Uniform(1, 8, 1)))
    four = Look(None, slice(0, CTAS, 1), slice(0, 4, 1), (CTAS, 4, 32))  # type: ignore[arg-type]

    assert registers.alike(four, [0]) == (EACH, Uniform.nobody(4))


def test_words_that_are_stored_again_are_those_that_are_there() -> None:
    alike, registers = Uniform(2, 4, 1), Registers(CTAS, 8, 32, 4)
    for _ in range(2):
        registers.store_words(TEAM, 0, words(alike, 4), (EACH, alike))
    registers.store_words(TEAM, 8, words(Uniform(1, 8, 1), 4) + 7, (EACH, Uniform(1, 8, 1)))

    found = registers.words(LOOK, 0, 6)

    np.testing.assert_array_equal(found[:, :, :2], for_all(alike, words(alike, 4))[:, :, :2])
    np.testing.assert_array_equal(found[:, :, 2:], for_all(Uniform(1, 8, 1), words(Uniform(1, 8, 1), 4) + 7))
