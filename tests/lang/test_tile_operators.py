"""Operators on tiles: each form is a tile call; operators without a meaning for tiles are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.tile.elementwise import Operand, judged
from tests.tile.kernels import buffer
from tilewright import T, Tx
from tilewright.errors import DispatchError, KernelError
from tilewright.ir import Kernel, TileCallStmt, as_expr, statements
from tilewright.lang import parse_script
from tilewright.layout import R, S, TileLayout, laneid, tid_in_wg, tx
from tilewright.primitives.elementwise import formula_of

ROWS = TileLayout(S[(8, 4, 8) : (4 @ laneid, 1 @ laneid, 1)])
ONE = TileLayout(S[(8,) : (4 @ laneid,)] + R[4 : 1 @ laneid])
RANDOM = np.random.default_rng(0)
X, Y = (RANDOM.standard_normal((8, 32)).astype(np.float32) for _ in range(2))


def kernel(body: Callable[..., None]) -> Kernel:
    """A warp with x and y in registers, m for their rows, and a result."""

    @T.prim_func
    def k(A: T.Buffer((8, 32)), B: T.Buffer((8, 32)), C: T.Buffer((8, 32)), D: T.Buffer((8,))):
        T.cta_id([1])
        T.lane_id([32])
        x = T.alloc_buffer((8, 32), scope="local", layout=ROWS)
        y = T.alloc_buffer((8, 32), scope="local", layout=ROWS)
        m = T.alloc_buffer((8,), scope="local", layout=ONE)
        x[:] = A
        y[:] = B
        m[:] = 0
        body(x, y, m, A, B, C, D)
        C[:] = x
        D[:] = m

    return k


def said(made: Kernel) -> list[str]:
    """The calls of a kernel after the first three, but for the last two."""
    calls = [stmt for stmt in statements(made.body) if isinstance(stmt, TileCallStmt)][3:-2]
    return [f"{call.scope}.{call.primitive}" for call in calls]


def results(made: Kernel) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    c, d = np.zeros((8, 32), np.float32), np.zeros(8, np.float32)
    tw.simulate(made, X, Y, c, d, check="all")
    return c, d


@T.inline
def fills(x, y, m, A, B, C, D):
    x[:] = 3


@T.inline
def adds(x, y, m, A, B, C, D):
    x[:, :] += y


@T.inline
def fuses(x, y, m, A, B, C, D):
    x[:] = T.exp(x * 0.5 - y) / 2 + abs(-B)


@T.inline
def takes_rows(x, y, m, A, B, C, D):
    m[:] = T.max(x, axis=1)
    x[:] = x - m[:, None]


@T.inline
def accumulates(x, y, m, A, B, C, D):
    m[:] += T.sum(x, axis=1)
    m[:] = T.max(m, T.max(y, axis=1))


@T.inline
def chooses(x, y, m, A, B, C, D):
    x[:] = T.select(x < y, x, 2 * y)


@T.inline
def chooses_by_place(x, y, m, A, B, C, D):
    x[:] = T.select(lambda i, j: j <= i, x, 0)


@T.inline
def names_results(x, y, m, A, B, C, D):
    e = T.exp(x)
    m[:] = T.sum(e, axis=1)
    x[:] = e / T.sum(e, axis=1, keepdims=True)


@T.inline
def compares(x, y, m, A, B, C, D):
    x[:] = x == x


@T.inline
def rounds_to_half(x, y, m, A, B, C, D):
    x[:] = T.cast(x, "float16") + T.float16(y)


@T.inline
def squares(x, y, m, A, B, C, D):
    x[...] = x**2 + T.max(x, y, 0) * T.min(x, 1)


EXP = np.exp(X)
FORMS: dict[str, tuple[Any, list[str], Any, Any]] = {
    "a number fills": (fills, ["fill"], np.full_like(X, 3), 0),
    "an operator before the sign": (adds, ["add"], X + Y, 0),
    "several operators are one call": (fuses, ["compute"], np.exp(X * 0.5 - Y) / 2 + abs(Y), 0),
    "None broadcasts": (takes_rows, ["max", "sub"], X - X.max(1)[:, None], X.max(1)),
    "a reduction joins what is there": (accumulates, ["sum", "max"], X, np.maximum(X.sum(1), Y.max(1))),
    "a choice": (chooses, ["compute"], np.where(X < Y, X, 2 * Y), 0),
    "a choice by place": (chooses_by_place, ["select"], np.where(np.arange(32) <= np.arange(8)[:, None], X, 0), 0),
    "a name is a tile": (names_results, ["exp", "sum", "sum", "fdiv"], EXP / EXP.sum(1, keepdims=True), EXP.sum(1)),
    "a comparison": (compares, ["eq"], np.ones_like(X), 0),
    "a cast within": (rounds_to_half, ["compute"], X.astype(np.float16).astype(np.float32) + Y.astype(np.float16), 0),
    "powers and extremes": (squares, ["compute"], X * X + np.maximum(np.maximum(X, Y), 0) * np.minimum(X, 1), 0),
}  # fmt: skip


@pytest.mark.parametrize("what", FORMS)
def test_a_form_is_the_call_that_it_reads_as(what: str) -> None:
    body, calls, c, d = FORMS[what]
    made = kernel(body)

    assert said(made) == [f"warp.{name}" for name in calls]
    found = results(made)
    np.testing.assert_allclose(found[0], c, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[1], np.broadcast_to(d, 8), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("what", FORMS)
def test_a_form_prints_as_a_call_that_parses_back(what: str) -> None:
    made = kernel(FORMS[what][0])

    assert str(parse_script(str(made))) == str(made)
    assert tw.compile(made).source("tile") == tw.compile(parse_script(str(made))).source("tile")


def test_one_pass_loads_each_source_once_and_stores_once() -> None:
    @T.prim_func
    def k(A: T.Buffer((1024,)), B: T.Buffer((1024,)), C: T.Buffer((1024,))):
        T.cta_id([1])
        T.thread_id([128])
        with Tx.cta:
            C[:] = T.exp(A * B) + A * A - B

    (entry,) = tw.compile(k).report.entries
    run = tw.simulate(k, *np.ones((2, 1024), np.float32), np.zeros(1024, np.float32))

    assert entry.primitive == "compute"
    assert "exp(a * b) + a * a - b" in entry.plan
    assert str(tw.compile(k).source("lowered")).count("copy_bytes") == 3, run


# Who computes


@pytest.mark.parametrize(
    ("layout", "scope"),
    [
        (TileLayout(S[(32, 4) : (1 @ laneid, 1)]), "warp"),
        (TileLayout(S[(128,) : (1 @ tid_in_wg,)]), "warpgroup"),
        (TileLayout(S[(128,) : (1 @ tx,)]), "cta"),
        (None, "thread"),
    ],
)
def test_registers_say_the_scope(layout: TileLayout | None, scope: str) -> None:
    @T.prim_func
    def k():
        T.cta_id([1])
        T.thread_id([128])
        x = T.alloc_buffer((128,), scope="local", layout=layout)
        x[:] = 0

    (call,) = (stmt for stmt in statements(k.body) if isinstance(stmt, TileCallStmt))
    assert call.scope == scope


def test_tiles_in_memory_do_not_say_the_scope() -> None:
    with pytest.raises(KernelError, match="not said which threads compute") as raised:

        @T.prim_func
        def k(A: T.Buffer((128,)), B: T.Buffer((128,))):
            T.cta_id([1])
            T.thread_id([128])
            B[:] = A + 1

    assert "with Tx.cta:" in str(raised.value)


def test_with_says_the_scope_and_ends() -> None:
    @T.prim_func
    def k(A: T.Buffer((128,)), B: T.Buffer((128,))):
        T.cta_id([1])
        T.thread_id([128])
        x = T.alloc_buffer((128,), scope="local", layout=TileLayout(S[(128,) : (1 @ tx,)]))
        with Tx.cta:
            B[:] = A + 1
            with Tx.thread:
                B[0:4] = A[0:4]
            B[:] = 0
        x[:] = 0

    assert [s.scope for s in statements(k.body) if isinstance(s, TileCallStmt)] == ["cta", "thread", "cta", "cta"]


def test_a_bare_call_within_a_scope_is_refused() -> None:
    with pytest.raises(KernelError, match="one thread's, inside of `with Tx"):

        @T.prim_func
        def k(A: T.Buffer((128,)), B: T.Buffer((128,))):
            T.cta_id([1])
            T.thread_id([128])
            with Tx.cta:
                Tx.copy(A, B)


# Copies, indices


def test_a_copy_leaves_alone_what_is_outside_and_a_cast_converts() -> None:
    @T.prim_func
    def k(a: T.handle, b: T.handle):
        n = T.int32()
        A, B = T.match_buffer(a, (n,)), T.match_buffer(b, (n,), "float16")
        T.cta_id([1])
        T.thread_id([64])
        x = T.alloc_buffer((128,), scope="local", layout=TileLayout(S[(64, 2) : (1 @ tx, 1)]))
        x[:] = 5
        x[:] = A[0:128]
        B[0:128] = x

    a, b = np.arange(77, dtype=np.float32), np.zeros(77, np.float16)
    tw.simulate(k, a, b, check="all")

    assert np.array_equal(b, a)
    assert [entry.primitive for entry in tw.compile(k).report.entries] == ["fill", "copy", "cast"]


def test_a_slice_may_have_a_step() -> None:
    @T.prim_func
    def k(A: T.Buffer((4, 64)), B: T.Buffer((4, 32)), C: T.Buffer((2, 64))):
        T.cta_id([1])
        T.thread_id([32])
        with Tx.cta:
            B[:] = A[:, ::2] - A[:, 1::2]
            C[:] = A[1:4:2] * 2

    a, b, c = np.arange(256, dtype=np.float32).reshape(4, 64) ** 2, np.zeros((4, 32), np.float32), np.zeros((2, 64))
    c = c.astype(np.float32)
    tw.simulate(k, a, b, c, check="all")

    assert np.array_equal(b, a[:, ::2] - a[:, 1::2])
    assert np.array_equal(c, a[1:4:2] * 2)


def test_an_element_takes_a_reduction_and_a_row_broadcasts() -> None:
    @T.prim_func
    def k(A: T.Buffer((4, 64)), W: T.Buffer((64,)), B: T.Buffer((4, 64)), C: T.Buffer((4,))):
        row, _ = T.cta_id([4]), T.thread_id([32])
        with Tx.cta:
            C[row] = T.sum(A[row])
            B[row] = A[row] * W + A[row, 0]

    a, w, b, c = X[:4].repeat(2, 1), X[5].repeat(2), np.zeros((4, 64), np.float32), np.zeros(4, np.float32)
    tw.simulate(k, a, w, b, c, check="all")

    np.testing.assert_allclose(c, a.sum(1), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(b, a * w + a[:, :1], rtol=1e-6)


# What is refused


@T.inline
def remainder(x, y, m, A, B, C, D):
    x[:] = x % 2


@T.inline
def truth(x, y, m, A, B, C, D):
    if x < y:
        x[:] = 0


@T.inline
def inverted(x, y, m, A, B, C, D):
    x[:] = ~x


@T.inline
def place_of_memory(x, y, m, A, B, C, D):
    x[0:1] = T.sum(A + B)


@T.inline
def unknown_keyword(x, y, m, A, B, C, D):
    m[:] = T.max(x, dim=1)


@T.inline
def no_axis(x, y, m, A, B, C, D):
    m[:] = T.max(x, axis=2)


@T.inline
def two_steps(x, y, m, A, B, C, D):
    x[:, 0:4] = A[:, ::5]


@T.inline
def gelu_of_value(x, y, m, A, B, C, D):
    m[:] = T.gelu(1.0)


@T.inline
def a_function(x, y, m, A, B, C, D):
    x[:] = lambda i, j: i + j


@T.inline
def other_extents(x, y, m, A, B, C, D):
    x[:] = x + m


REFUSED: dict[str, tuple[Any, str]] = {
    "an operator without a meaning": (remainder, "% is of integers"),
    "a tile as a condition": (truth, "answer for each element"),
    "bits of tiles": (inverted, "invert is of integers"),
    "a result of memory without a place": (place_of_memory, "has no place"),
    "a keyword of others": (unknown_keyword, "no keyword 'dim'"),
    "an axis that is not there": (no_axis, "2 dimensions"),
    "a step that does not divide": (two_steps, "with step 5"),
    "a function of tiles only": (gelu_of_value, "T.gelu is of tiles"),
    "a function as a value": (a_function, "what x.* gets"),
    "extents that do not broadcast": (other_extents, "extents differ"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_means_nothing_is_refused_at_its_line(what: str) -> None:
    body, message = REFUSED[what]
    with pytest.raises((KernelError, DispatchError), match=message) as raised:
        tw.compile(kernel(body)).report  # noqa: B018  made here

    assert "test_tile_operators.py" in str(raised.value)


# The formula of a call


@st.composite
def formulas(draw: st.DrawFn, depth: int = 3) -> str:
    """Expressions over three sources."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(["a", "b", "c", "2", "0.5"]))
    parts = [draw(formulas(depth - 1)) for _ in range(3)]
    shape = draw(st.sampled_from([
        "({} + {})", "({} - {})", "({} * {})", "maximum({}, {})", "minimum({}, {}, nan='number')", "(-{})", "abs({})",
        "({0} if {1} < {2} else {1})", "({} >= {})", "cast({}, 'float16')", "fma({}, {}, {})", "relu({})",
    ]))  # fmt: skip
    return shape.format(*parts)


@settings(max_examples=25, deadline=None)
@given(formulas(), st.sampled_from(["float16", "float32", "int32"]), st.sampled_from(["local", "global"]))
def test_a_formula_computes_what_its_steps_do(text: str, kind: str, space: str) -> None:
    text = f"({text} + a)"  # some source is a tile
    layout = TileLayout(S[(32, 2) : (1 @ laneid, 1)]) if space == "local" else None
    sources = [Operand(buffer(name, space, (64,), layout, kind).region()) for name in ("A", "B")]
    dst = Operand(buffer("D", space, (64,), layout, "float32").region())

    judged("compute", dst, [*sources, as_expr(1.5)], "warp", formula=text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a +", "expression over sources"),
        ("sum(a)", "no elementwise primitive"),
        ("exp(a, b, c, d, e)", "exp takes src"),
        ("z + 1", "made of elementwise primitives"),
        ("gelu(a, approximate='erf')", "gelu has no approximate"),
        ("a + b + d", "asks for d"),
        ("__import__('os')", "no elementwise primitive"),
    ],
)
def test_a_formula_that_means_nothing_is_refused(text: str, message: str) -> None:
    @T.prim_func
    def k(A: T.Buffer((64,)), B: T.Buffer((64,)), C: T.Buffer((64,))):
        T.cta_id([1])
        T.thread_id([32])
        Tx.cta.compute(C, A, B, formula=text)

    with pytest.raises(DispatchError, match=message):
        tw.compile(k).report  # noqa: B018  made here


def test_a_formula_is_written_without_parentheses_that_change_nothing() -> None:
    assert str(formula_of("((a * b) + (exp((c))))")) == "a * b + exp(c)"
    assert str(formula_of("a - (b - c)")) == "a - (b - c)"


def test_tiles_of_a_list_have_the_names_that_it_is_assigned_to() -> None:
    @T.prim_func
    def k():
        T.cta_id([1])
        T.thread_id([32])
        x, y = [T.alloc_local((4,)) for _ in range(2)]
        ring = [T.alloc_local((4,)) for _ in range(2)]
        x[:], y[:], ring[0][:], ring[1][:] = 0, 0, 0, 0

    made = [str(stmt.written[0]) for stmt in statements(k.body) if isinstance(stmt, TileCallStmt)]
    assert made == ["x[0:4]", "y[0:4]", "ring[0:4]", "ring_1[0:4]"]
