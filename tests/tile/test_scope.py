"""The threads of a tile call: scopes narrowed by control flow, and collectives that a condition splits."""

from __future__ import annotations

import pytest

from tests.tile.checking import resolved
from tests.tile.kernels import AT, BX, LANE, TID, WARP, buffer, copy, kernel
from tilewright import isa, tile
from tilewright.errors import DispatchError, Span
from tilewright.ir import (
    COORDINATES,
    Assign,
    Bind,
    Break,
    Continue,
    Evaluate,
    Expr,
    For,
    If,
    Load,
    Stmt,
    Var,
    While,
    as_expr,
    binary,
    unary,
)
from tilewright.layout import AXES, S, laneid, tid_in_wg, tx

K, N, X = Var("k"), Var("n"), Var("x")
LINE = Span("stage.py", 20)
FLAG = buffer("flag", "shared", (4,), None, "int32")
MINE = buffer("mine", "local", (4,), None, "int32")
ELECTED = isa.call("ptx.elect.sync", out="p")

WIDTH = {"thread": 1, "warp": 32, "warpgroup": 128, "cta": 256}
AXIS = {"warp": laneid, "warpgroup": tid_in_wg, "cta": tx}


def call(scope: str) -> Stmt:
    layout = S[(WIDTH[scope], 8) : (1 @ AXIS[scope], 1)] if scope in AXIS else None
    return copy(buffer("R", "local", (WIDTH[scope], 8), layout), buffer("A", "shared", (WIDTH[scope], 8)), scope=scope)


def under(cond: Expr, *body: Stmt, orelse: tuple[Stmt, ...] = ()) -> Stmt:
    return If(cond, body, orelse, at=LINE)


def both(a: Expr, b: Expr) -> Expr:
    return binary("and", a, b)


def either(a: Expr, b: Expr) -> Expr:
    return binary("or", a, b)


WHOLE_WARPS = [
    WARP == 0,
    WARP < 3,
    WARP % 2 == 0,
    TID < 64,
    TID >= 32,
    TID // 32 == 1,
    either(WARP == 0, WARP == 3),
    both(WARP == 0, BX == 0),
    unary("not", TID < 32),
    K > 3,
    WARP == K,
    both(TID < 64, K == 0),
]
SPLIT_WARPS = [
    LANE < 16,
    LANE == 0,
    TID == 0,
    TID < 40,
    (TID % 2) == 0,
    both(WARP == 0, LANE == 0),
    either(WARP == 1, LANE == 0),
    either(TID == 0, K > 3),
    TID == K,
    ELECTED,
    Load(MINE, (as_expr(0),)) > 0,
    Load(FLAG, (LANE % 4,)) > 0,
]


@pytest.mark.parametrize("cond", WHOLE_WARPS, ids=str)
def test_a_warp_copies_under_a_condition_that_keeps_its_lanes_together(cond: Expr) -> None:
    resolved(For(K, as_expr(0), as_expr(8), (under(cond, call("warp")),)), threads=256)


@pytest.mark.parametrize("cond", SPLIT_WARPS, ids=str)
def test_a_condition_that_splits_a_warp_is_refused_at_its_line(cond: Expr) -> None:
    with pytest.raises(DispatchError, match=r"Tx\.warp\.copy needs all threads of its warp") as refused:
        resolved(For(K, as_expr(0), as_expr(8), (under(cond, call("warp")),)), threads=256)

    assert refused.value.at == LINE
    assert f"if {cond}" in str(refused.value.given)


@pytest.mark.parametrize("cond", [*WHOLE_WARPS, *SPLIT_WARPS], ids=str)
def test_a_thread_copies_under_any_condition(cond: Expr) -> None:
    resolved(For(K, as_expr(0), as_expr(8), (under(cond, call("thread")),)), threads=256)


@pytest.mark.parametrize(
    ("scope", "cond", "left"),
    [
        ("cta", WARP == 0, "leaves 32 of the 256 threads of a CTA"),
        ("cta", TID < 128, "leaves 128 of the 256 threads of a CTA"),
        ("cta", WARP == N, "may differ between the threads of a CTA"),
        ("warpgroup", WARP == 0, "leaves 32 of the 128 threads of a warpgroup"),
        ("warpgroup", WARP == N, "may differ between the threads of a warpgroup"),
        ("warp", TID < 40, "leaves 8 of the 32 threads of a warp"),
    ],
)
def test_the_refusal_counts_who_is_left(scope: str, cond: Expr, left: str) -> None:
    with pytest.raises(DispatchError, match="needs all threads of its") as refused:
        resolved(under(cond, call(scope)), threads=256, symbols=(N,))

    assert left in str(refused.value.given)


@pytest.mark.parametrize(
    ("scope", "cond"),
    [("cta", BX == 0), ("cta", N > 4), ("warpgroup", WARP < 4), ("warpgroup", TID // 128 == 1), ("warpgroup", N > 4),
     ("cta", Load(FLAG, (as_expr(0),)) > 0)],
    ids=str,
)  # fmt: skip
def test_a_condition_that_keeps_each_scope_whole_is_no_matter(scope: str, cond: Expr) -> None:
    resolved(under(cond, call(scope)), threads=256, symbols=(N,))


def test_the_else_branch_has_the_other_threads() -> None:
    resolved(under(TID < 64, orelse=(call("warp"),)), threads=256)
    with pytest.raises(DispatchError, match="needs all threads") as refused:
        resolved(under(TID == 0, orelse=(call("warp"),)), threads=256)
    assert str(refused.value.given) == "the else of `if thread_id == 0` leaves 31 of the 32 threads of a warp"


def test_nested_conditions_add_up() -> None:
    resolved(under(TID < 64, under(WARP == 1, call("warp"))), threads=256)
    with pytest.raises(DispatchError, match="needs all threads") as refused:
        resolved(under(WARP == 1, under(TID < 40, call("warp"))), threads=256)
    assert "if thread_id < 40" in str(refused.value.given)


def test_a_loop_that_only_some_lanes_take_is_refused() -> None:
    resolved(For(K, WARP, as_expr(8), (call("warp"),), at=LINE), threads=256)
    with pytest.raises(DispatchError, match="needs all threads") as refused:
        resolved(For(K, LANE, as_expr(8), (call("warp"),), at=LINE), threads=256)
    assert refused.value.at == LINE
    with pytest.raises(DispatchError, match="needs all threads"):
        resolved(For(K, WARP, as_expr(8), (call("cta"),), at=LINE), threads=256)
    with pytest.raises(DispatchError, match="needs all threads"):
        resolved(While(Load(MINE, (as_expr(0),)) > 0, (call("warp"),), at=LINE), threads=256)


def test_who_leaves_a_loop_is_missing_from_the_next_round() -> None:
    leaving = under(LANE == 3, Break())
    with pytest.raises(DispatchError, match="needs all threads") as refused:
        resolved(For(K, as_expr(0), as_expr(8), (call("warp"), leaving)), threads=256)
    assert refused.value.at == LINE  # of the condition, not of the loop
    assert str(refused.value.given).startswith("`if lane_id == 3` with its break, which may differ")
    with pytest.raises(DispatchError, match="needs all threads"):
        resolved(For(K, as_expr(0), as_expr(8), (leaving, call("warp"))), threads=256)
    resolved(For(K, as_expr(0), as_expr(8), (under(WARP == 3, Break()), call("warp"))), threads=256)
    resolved(For(K, as_expr(0), as_expr(8), (leaving,)), call("warp"), threads=256)


def test_who_goes_on_to_the_next_round_misses_the_rest_of_this_one() -> None:
    going_on = under(LANE == 3, Continue())
    resolved(For(K, as_expr(0), as_expr(8), (call("warp"), going_on)), threads=256)
    with pytest.raises(DispatchError, match="needs all threads") as refused:
        resolved(For(K, as_expr(0), as_expr(8), (going_on, call("warp"))), threads=256)
    assert "leaves 31 of the 32" in str(refused.value.given)


def test_a_name_for_a_condition_is_seen_through() -> None:
    leader = Bind(X, TID == 0, mutable=False)
    with pytest.raises(DispatchError, match="needs all threads"):
        resolved(leader, under(X, call("warp")), threads=256)


@pytest.mark.parametrize(
    ("start", "step", "fine"),
    [(as_expr(0), as_expr(1), True), (WARP, as_expr(1), True), (LANE, as_expr(1), False), (as_expr(0), LANE, False)],
)
def test_a_variable_varies_as_what_is_assigned_to_it(start: Expr, step: Expr, fine: bool) -> None:
    loop = For(K, as_expr(0), as_expr(8), (under(X == 2, call("warp")), Assign(X, X + step)))
    if fine:
        resolved(Bind(X, start), loop, threads=256)
        return
    with pytest.raises(DispatchError, match="needs all threads"):
        resolved(Bind(X, start), loop, threads=256)


def test_a_variable_assigned_by_some_lanes_varies_between_lanes() -> None:
    with pytest.raises(DispatchError, match="needs all threads"):
        resolved(Bind(X, as_expr(0)), under(LANE == 0, Assign(X, as_expr(1))), under(X == 1, call("warp")), threads=256)


def test_a_variable_assigned_behind_a_continue_of_some_lanes_varies_between_lanes() -> None:
    loop = For(K, as_expr(0), as_expr(8), (under(LANE == 0, Continue()), Assign(X, as_expr(1))))
    with pytest.raises(DispatchError, match="needs all threads"):
        resolved(Bind(X, as_expr(0)), loop, under(X == 1, call("warp")), threads=256)


@pytest.mark.parametrize(("scope", "threads"), [("warp", 16), ("warpgroup", 96), ("warpgroup", 192)])
def test_a_collective_needs_whole_groups_of_threads(scope: str, threads: int) -> None:
    with pytest.raises(DispatchError, match="needs whole") as refused:
        tile.resolve(kernel(call(scope), threads=threads), "sm_90a")

    assert refused.value.at == AT
    assert f"{threads} threads per CTA" in str(refused.value.given)


def test_a_vote_is_the_same_in_all_lanes() -> None:
    vote = isa.call("cuda.ballot_sync", as_expr(-1), LANE == 0)
    resolved(Evaluate(vote), under(binary("!=", vote, 0), call("warp")), threads=256)
    with pytest.raises(DispatchError, match="needs all threads"):
        resolved(under(binary("!=", vote, 0), call("cta")), threads=256)


def test_a_thread_knows_its_number_on_every_thread_axis() -> None:
    assert set(COORDINATES) == {name for name, axis in AXES.items() if axis.is_thread()}
