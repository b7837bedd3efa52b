"""Walks: every expression is visited, and only changed nodes are rebuilt."""

from __future__ import annotations

from tilewright.dtypes import HANDLE, INT32, dtype
from tilewright.ir import (
    AddressOf,
    Assign,
    Bind,
    Body,
    Buffer,
    Call,
    Evaluate,
    Expr,
    For,
    If,
    Load,
    Region,
    Stmt,
    Store,
    TileCallStmt,
    Var,
    While,
    as_expr,
    expressions,
    map_body,
    rewrite,
    rewrite_values,
    row_major,
    same,
    select,
    statements,
    walk,
)

X, Y, N, POINTER = Var("x"), Var("y"), Var("n"), Var("p", HANDLE)
FLOAT32 = dtype("float32")
A = Buffer("A", FLOAT32, (N, 64), "global", row_major((N, 64)), data=POINTER)
V = Buffer("V", FLOAT32, (64,), "global", row_major((64,)), data=AddressOf(A, (X, as_expr(0))), elem_offset=Y)


def names(node: object) -> set[str]:
    return {part.name for part in walk(node) if isinstance(part, Var)}


def x_to_y(node: Expr) -> Expr | None:
    return Y if same(node, X) else None


def test_a_walk_meets_each_part_after_its_whole() -> None:
    expr = (X + Y) * 2

    assert [type(node).__name__ for node in walk(expr)] == ["Binary", "Binary", "Var", "Var", "Const"]


def test_a_walk_goes_into_indices_arguments_and_regions() -> None:
    assert names(Load(A, (X, Y))) >= {"x", "y"}
    assert names(Call("exp", (X, (Y, 3), "text"), (("key", N),), INT32)) == {"x", "y", "n"}
    assert names(Region(A, ((X, 8), (0, N)))) >= {"x", "n"}
    assert names(select(X < 1, Y, N)) == {"x", "y", "n"}


def test_a_walk_follows_a_view_to_what_it_views() -> None:
    assert names(Load(V, (as_expr(0),))) == {"x", "y", "n", "p"}


def test_rewriting_replaces_inside_out() -> None:
    assert same(rewrite(X + X * 2, x_to_y), Y + Y * 2)
    assert same(rewrite(Load(A, (X, X)), x_to_y), Load(A, (Y, Y)))
    assert same(rewrite(X, lambda node: X + 1), X + 1)  # what was put in is not rewritten again


def test_rewriting_keeps_what_does_not_change() -> None:
    left, right = Y * 2, X + 1
    expr = left * right

    result = rewrite(expr, x_to_y)

    assert result.a is left  # type: ignore[attr-defined]  # a Binary
    assert rewrite(left, x_to_y) is left


def test_rewriting_goes_through_a_view() -> None:
    load = rewrite(Load(V, (as_expr(0),)), x_to_y)

    assert names(load) == {"y", "n", "p"}


def body() -> Body:
    store = Store(Load(A, (X, as_expr(0))), as_expr(0, FLOAT32))
    return (
        Bind(X, as_expr(0)),
        For(Var("i"), as_expr(0), X, (store, While(X < 4, (Assign(X, X + 1),)))),
        If(X < 2, (store,), (Evaluate(Call("cuda.cta_sync", (), (), dtype("void"))),)),
    )


def test_statements_come_in_the_order_of_the_text() -> None:
    kinds = [type(stmt).__name__ for stmt in statements(body())]

    assert kinds == ["Bind", "For", "Store", "While", "Assign", "If", "Store", "Evaluate"]


def test_the_expressions_of_a_statement_are_its_own() -> None:
    loop = body()[1]

    assert {node.name for node in expressions(loop) if isinstance(node, Var)} == {"i", "x"}


def test_the_values_of_a_statement_are_rewritten_without_its_body() -> None:
    loop = body()[1]

    result = rewrite_values(loop, x_to_y)

    assert isinstance(loop, For)
    assert isinstance(result, For)
    assert same(result.stop, Y)
    assert result.body is loop.body


def test_a_region_of_a_tile_call_is_rewritten() -> None:
    call = TileCallStmt("copy", "warp", (Region(A, ((X, 8), (0, 64))), Region(A, ((0, 8), (0, 64)))))

    result = rewrite_values(call, x_to_y)

    assert isinstance(result, TileCallStmt)
    assert result.args[0] == Region(A, ((Y, 8), (0, 64)))
    assert result.args[1] is call.args[1]


def test_map_body_replaces_drops_and_goes_inside() -> None:
    def without_stores(stmt: Stmt) -> Body | None:
        return () if isinstance(stmt, Store) else None

    result = map_body(body(), without_stores)

    assert [type(stmt).__name__ for stmt in statements(result)] == ["Bind", "For", "While", "Assign", "If", "Evaluate"]
    assert map_body(body(), lambda stmt: (stmt, stmt))[:2] == (body()[0], body()[0])
