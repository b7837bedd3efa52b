"""Walks: from a table of numbers to an expression that computes them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.ir import Var
from tilewright.ir.ranges import RangeFacts
from tilewright.layout import S
from tilewright.tile.walks import Walk, apart, linear, quotient, separated, walk_of

DIGITS = st.lists(st.tuples(st.sampled_from([1, 2, 3, 4, 5]), st.integers(-9, 99)), max_size=4)


def table(digits: list[tuple[int, int]], start: int = 0) -> np.ndarray:
    total = np.full(1, start)
    for extent, stride in digits:
        total = np.add.outer(total, np.arange(extent) * stride).reshape(-1)
    return total


@given(DIGITS, st.integers(-50, 50))
def test_digits_times_strides_are_found_again(digits: list[tuple[int, int]], start: int) -> None:
    values = table(digits, start)

    walk = walk_of(values, listed=False)

    assert walk is not None
    assert [walk.at(index) for index in range(len(values))] == values.tolist()


@given(st.lists(st.integers(-100, 100), min_size=1, max_size=32))
def test_a_few_numbers_without_a_pattern_are_listed(numbers: list[int]) -> None:
    walk = walk_of(np.array(numbers))

    assert walk is not None
    assert [walk.at(index) for index in range(len(numbers))] == numbers


def test_many_numbers_without_a_pattern_have_no_walk() -> None:
    assert walk_of(np.arange(64) ** 2) is None
    assert walk_of(np.arange(8) ** 2, listed=False) is None


@pytest.mark.parametrize(
    ("digits", "text"),
    [
        ([(32, 1)], "i"),
        ([(8, 4), (4, 1)], "i"),
        ([(8, 64), (4, 2)], "i // 4 * 64 + i % 4 * 2"),
        ([(2, 0), (2, 8), (8, 16)], "i // 8 % 2 * 8 + i % 8 * 16"),
        ([(4, 0)], "0"),
    ],
)
def test_the_expression_has_one_term_for_each_digit(digits: list[tuple[int, int]], text: str) -> None:
    walk = walk_of(table(digits))

    assert walk is not None
    assert str(walk.at(Var("i"))) == text


def test_listed_values_are_chosen_by_index() -> None:
    assert str(Walk(listed=(5, 9, 6)).at(Var("i"))) == "T.select(i == 0, 5, T.select(i == 1, 9, 6))"


@given(DIGITS, DIGITS)
def test_sums_along_axes_come_apart(rows: list[tuple[int, int]], columns: list[tuple[int, int]]) -> None:
    values = np.add.outer(table(rows, 7), table(columns))

    parts = separated(values)

    assert parts is not None
    assert np.array_equal(np.add.outer(*parts), values)
    assert linear(values, [3 % len(values), 0]) == values[3 % len(values), 0]


def test_a_product_is_no_sum() -> None:
    assert separated(np.multiply.outer(np.arange(4), np.arange(4))) is None
    assert linear(np.multiply.outer(np.arange(4), np.arange(4)), [0, 0]) is None


def test_a_walk_is_what_a_layout_does_to_an_index() -> None:
    layout = S[(3, 4, 2) : (100, 2, 1)]
    walk = walk_of(layout.table((24,))["m"][:, 0])

    assert walk == Walk(0, ((3, 100), (8, 1)))


@pytest.mark.parametrize(
    ("whole", "low"),
    [("k * 1024", "i * 8 + 3"), ("k * 512 + n * 4096", "i * 64"), (0, "k * 256 + i"), (0, "k * 1024 + n * 512")],
)
def test_what_a_swizzle_leaves_alone_is_taken_out_of_it(whole: str | int, low: str) -> None:
    names = {"k": Var("k"), "n": Var("n"), "i": Var("i")}
    total = eval(low, names) if whole == 0 else eval(str(whole), names) + eval(low, names)

    assert tuple(map(str, apart(total, 512, RangeFacts({})))) == (str(whole), low)


def test_a_quotient_divides_each_term_where_it_can() -> None:
    k, n = Var("k"), Var("n")
    facts = RangeFacts({}).with_condition(n % 4 == 0)

    assert str(quotient(k * 128 + 64, 32, facts)) == "k * 4 + 2"
    assert str(quotient(n * 8, 32, facts)) == "n * 8 // 32"
    assert quotient(96, 32, facts) == 3
