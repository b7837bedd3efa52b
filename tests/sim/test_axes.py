"""Over what variables vary: lanes that have left a loop need nothing of what it goes on with."""

from __future__ import annotations

import pytest

from tests.sim.build import lane
from tilewright.dtypes import BOOL, INT32
from tilewright.ir import Assign, Bind, Body, Break, Const, Continue, If, Kernel, Stmt, Var, While
from tilewright.ir.launch import LANE, UNIFORM
from tilewright.sim.codegen.axes import Axes

COUNTER, X = Var("i", INT32), Var("x", INT32)
ZERO = Const(0, INT32)


def axes(body: Body) -> int:
    """Over what the counter of a kernel varies."""
    return Axes(Kernel("k", (), (), body)).variables["i"]


def loop(*before: Stmt) -> While:
    return While(Const(True, BOOL), (*before, Assign(COUNTER, COUNTER + 1)))


def test_a_counter_is_one_number_though_lanes_leave_the_loop() -> None:
    assert axes((Bind(COUNTER, ZERO), loop(If(lane == COUNTER, (Break(),))))) == UNIFORM


@pytest.mark.parametrize(
    "body",
    [
        (Bind(COUNTER, ZERO), loop(If(lane == COUNTER, (Break(),))), Bind(X, COUNTER)),
        (Bind(COUNTER, ZERO), loop(If(lane == COUNTER, (Continue(),)))),
        (Bind(COUNTER, ZERO), loop(If(lane == COUNTER, (Continue(),))), Bind(X, COUNTER)),
        (Bind(COUNTER, ZERO), loop(If(lane == COUNTER, (Assign(COUNTER, COUNTER + 2),)))),
        (Bind(COUNTER, ZERO), While(Const(True, BOOL), (loop(If(lane == COUNTER, (Break(),))),))),
    ],
    ids=[
        "read behind the loop",
        "lanes go on with the next turn",
        "lanes go on, and it is read behind the loop",
        "given under a condition",
        "needed in another turn",
    ],
)
def test_a_counter_varies_where_lanes_need_what_it_was(body: Body) -> None:
    assert axes(body) == LANE


def test_a_value_is_asked_again_once_what_it_reads_varies_more() -> None:
    """In the first turn of a loop ``x`` is a copy of one number; the second gives the copy of a lane's."""
    body = (Bind(COUNTER, ZERO), Bind(X, ZERO), loop(Assign(X, COUNTER + 0), Assign(COUNTER, lane)))

    asked = Axes(Kernel("k", (), (), body))

    assert asked.variables["x"] == LANE
    assert asked.of(X + COUNTER) == LANE
