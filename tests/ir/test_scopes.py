"""Registers bound where their values live."""

from __future__ import annotations

from tilewright.dtypes import BOOL, INT32
from tilewright.ir import Assign, Bind, Body, Break, Const, If, Var, While, statements
from tilewright.ir.structure import bound

X, Y, P = Var("x", INT32), Var("y", INT32), Var("p", BOOL)
ONE = Const(1, INT32)


def binds(body: Body, undefined: frozenset[str] = frozenset()) -> Body:
    return bound(body, undefined)


def test_the_first_assignment_binds_a_register() -> None:
    assert binds((Assign(X, ONE), Assign(X, X + 1), Assign(Y, X))) == (Bind(X, ONE), Assign(X, X + 1), Bind(Y, X))


def test_a_register_of_one_side_is_bound_there() -> None:
    (branch,) = binds((If(P, (Assign(X, ONE), Assign(Y, X))),))

    assert branch == If(P, (Bind(X, ONE), Bind(Y, X)))


def test_a_register_that_both_sides_give_a_value_is_bound_before_them() -> None:
    both = If(P, (Assign(X, ONE),), (Assign(X, Const(2, INT32)),))

    assert binds((both, Assign(Y, X))) == (Bind(X, Const(0, INT32)), both, Bind(Y, X))


def test_the_counter_of_a_loop_is_bound_before_it_and_the_value_of_a_turn_in_it() -> None:
    turn = (Assign(Y, X * 2), If(Y == 8, (Break(),)), Assign(X, X + 1))

    first, loop = binds((Assign(X, ONE), While(P, turn)))

    assert first == Bind(X, ONE)
    assert loop == While(P, (Bind(Y, X * 2), *turn[1:]))


def test_a_register_that_may_have_no_value_is_bound_nowhere() -> None:
    """Its value of an earlier turn is the first that it has."""
    body = (While(P, (Assign(Y, X), Assign(X, ONE))),)

    made = binds(body, frozenset(("x",)))

    assert [stmt.var.name for stmt in statements(made) if isinstance(stmt, Bind)] == ["y"]


def test_what_is_bound_already_stays() -> None:
    body = (Bind(X, ONE), If(P, (Assign(X, X + 1),)))

    assert binds(body) == body
