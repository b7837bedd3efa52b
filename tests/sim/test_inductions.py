"""Registers of compiled code that go on by a step are their start and a multiple of it, wherever they are used."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.sim.build import get, lane
from tests.sim.graphs import ByHand
from tilewright.dtypes import dtype
from tilewright.ir import Buffer, Expr, Var, cast
from tilewright.sim import Program, parse_checks

INT, UINT = dtype("int32"), dtype("uint32")
ROWS, ROW = 9, 128  # of shared memory, each a word for each lane; bytes from one to the next


def word(offset: Expr) -> Buffer:
    """The word at an offset in shared memory."""
    return Buffer("*uint32", UINT, (1,), "shared", None, data=offset)


def rows(turn: Callable[[ByHand, Var, Var], None], *, first: int = 0, leaves: Callable[[Var], Expr]) -> ByHand:
    """A loop in which a turn goes on with a register that begins at each lane's own word of a row."""
    k = ByHand(threads=32)
    k.shared("s", "uint32", ROWS * 32)
    out = k.array("out", "uint32", ROWS * 32)
    own, offset, i = Var("own", UINT), Var("offset", UINT), Var("i", INT)
    k.block("entry")
    k.let(own, cast(lane, UINT) * 4)
    for row in range(ROWS):
        k.store(word(own + ROW * row), 0, 0)
    k.let(offset, own + ROW * first)
    k.let(i, 0)
    k.jump("head")
    k.block("head")
    turn(k, offset, i)
    k.let(i, i + 1)
    k.branch(leaves(i), "end", "head")
    k.block("end")
    for row in range(ROWS):
        k.store(out, row * 32 + lane, get(word(own + ROW * row), 0))
    k.exit()
    return k


def written(k: ByHand) -> np.ndarray:
    found = np.zeros(ROWS * 32, np.uint32)
    k.run(out=found)
    return found.reshape(ROWS, 32)


@pytest.mark.parametrize(("first", "step"), [(0, ROW), (8, -ROW)])
def test_a_register_goes_on_in_each_turn(first: int, step: int) -> None:
    def turn(k: ByHand, offset: Var, i: Var) -> None:
        k.store(word(offset), 0, cast(i + 1, UINT))
        k.let(offset, offset + step % 2**32)

    k = rows(turn, first=first, leaves=lambda i: i == 8)

    assert written(k)[:, 5].tolist() == ([*range(1, 9), 0] if step > 0 else [0, *range(8, 0, -1)])
    assert "offset__turn" in Program(k.kernel(), parse_checks("none")).compiled.source


def test_what_is_computed_from_it_is_what_it_was_then() -> None:
    """The word below is found before the register goes on, and written after that."""

    def turn(k: ByHand, offset: Var, i: Var) -> None:
        below, following = Var("below", UINT), Var("following", UINT)
        k.let(below, offset + ROW)
        k.let(following, offset + ROW)
        k.let(offset, following)
        k.store(word(below), 0, cast(i + 1, UINT))

    assert written(rows(turn, leaves=lambda i: i == 8))[:, 7].tolist() == [0, *range(1, 9)]


def test_lanes_leave_at_turns_of_their_own() -> None:
    def turn(k: ByHand, offset: Var, i: Var) -> None:
        k.store(word(offset), 0, cast(i + 1, UINT))
        k.let(offset, offset + ROW)

    found = written(rows(turn, leaves=lambda i: i > lane % 8))

    assert all(found[:, t].tolist() == [r + 1 if r <= t % 8 else 0 for r in range(ROWS)] for t in range(32))


def test_lanes_go_on_under_a_condition() -> None:
    def turn(k: ByHand, offset: Var, i: Var) -> None:
        k.store(word(offset), 0, cast(i + 1, UINT))
        k.branch((i + lane) % 2 == 0, "on", "stay")
        k.block("on")
        k.let(offset, offset + ROW)
        k.jump("stay")
        k.block("stay")

    found = written(rows(turn, leaves=lambda i: i == 8))

    for t in range(32):
        expected, row = [0] * ROWS, 0
        for i in range(8):
            expected[row] = i + 1
            row += (i + t) % 2 == 0
        assert found[:, t].tolist() == expected
