"""Range facts: what is proven of the integers of a kernel, and nothing else."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ir.exprs import conditions, environments, facts, integers
from tests.ir.test_simplify import evaluated, parsed
from tilewright.dtypes import BOOL, HANDLE, INT32, dtype
from tilewright.ir import (
    AllocBuffer,
    Assign,
    Assume,
    Bind,
    Body,
    Buffer,
    Expr,
    Kernel,
    Launch,
    Load,
    ScopeId,
    Var,
    as_expr,
    row_major,
)
from tilewright.ir.intervals import Interval, point, strided
from tilewright.ir.launch import special
from tilewright.ir.numbers import evaluate
from tilewright.ir.operators import OPERATORS, transfer
from tilewright.ir.ranges import RangeFacts

INT64, UINT8, FLOAT32 = map(dtype, ("int64", "uint8", "float32"))
INDEX, J, K, N, W, X, Y = (Var(name) for name in ("i", "j", "k", "n", "w", "x", "y"))
INT_MIN, INT_MAX = -(2**31), 2**31 - 1


# Ranges and congruences of each operator


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("i + j", (0, 70)),
        ("i - j", (-63, 7)),
        ("i * j", (0, 441)),
        ("k * k", (-55, 121)),
        ("k // 4", (-2, 2)),
        ("k % 4", (0, 3)),
        ("i % s", (0, 7)),
        ("j % s", (0, 8)),
        ("truncdiv(k, 4)", (-1, 2)),
        ("truncmod(k, 4)", (-3, 3)),
        ("min(i, j)", (0, 7)),
        ("max(i, k)", (0, 11)),
        ("j & 12", (0, 12)),
        ("i | j", (0, 63)),
        ("i ^ j", (0, 63)),
        ("k ^ 1", (-16, 15)),
        ("i << 2", (0, 28)),
        ("j >> 2", (0, 15)),
        ("-k", (-11, 5)),
        ("~k", (-12, 4)),
        ("i < 8", (1, 1)),
        ("i < 4", (0, 1)),
        ("select(i < 8, j, n)", (0, 63)),
        ("select(i < 4, j, k)", (-5, 63)),
        ("cast(i, 'int8')", (0, 7)),
        ("cast(x, 'int8')", (-128, 127)),
        ("cast(x, 'uint8')", (0, 255)),
        ("n + 1", (INT_MIN, INT_MAX)),  # it may wrap
        ("x // y", (INT_MIN, INT_MAX)),
        ("x", (INT_MIN, INT_MAX)),
    ],
)
def test_bounds(text: str, bounds: tuple[int, int]) -> None:
    assert facts().bounds(parsed(text)) == bounds


@pytest.mark.parametrize(
    ("text", "modulus"),
    [
        ("x * 8 + 3", (8, 3)),  # it wraps, but 8 divides what is lost
        ("x * 12", (4, 0)),  # of 12, only 4 does
        ("i * 12 + 5", (12, 5)),
        ("i * 12 + 5 - j * 8", (4, 1)),
        ("i * 12 % 8", (4, 0)),
        ("i * 24 // 4", (6, 0)),
        ("(x * 8) ^ (y * 16)", (8, 0)),
        ("x & 56", (8, 0)),
        ("x * 8 & 7", (0, 0)),
        ("select(x < 3, i * 4, j * 6 + 2)", (2, 0)),
        ("min(i * 4, j * 4 + 2)", (2, 0)),
        ("x << 4", (16, 0)),
        ("x", (1, 0)),
    ],
)
def test_modulus(text: str, modulus: tuple[int, int]) -> None:
    assert facts().modulus(parsed(text)) == modulus


def test_a_constant_is_known_exactly() -> None:
    assert facts().modulus(as_expr(5)) == (0, 5)
    assert facts().bounds(5) == (5, 5)


def test_a_float_has_no_bounds() -> None:
    assert facts().bounds(Var("f", FLOAT32)) == (None, None)


def test_a_narrow_dtype_bounds_what_is_loaded() -> None:
    buffer = Buffer("A", UINT8, (64,), "shared", row_major((64,)))

    assert facts().bounds(Load(buffer, (INDEX,))) == (0, 255)


@given(integers(), environments())
def test_every_value_lies_in_its_interval(expr: Expr, env: dict[str, int]) -> None:
    known = facts().interval(expr)

    value = evaluated(expr, env)

    assert value is None or holds(known, int(value))  # type: ignore[call-overload]


@given(conditions(), integers(leaves=6), st.lists(environments(), min_size=4))
def test_under_a_condition_every_value_lies_in_its_interval(
    cond: Expr, expr: Expr, samples: list[dict[str, int]]
) -> None:
    known = facts().with_condition(cond).interval(expr)

    for env in samples:
        if evaluated(cond, env) and (value := evaluated(expr, env)) is not None:
            assert holds(known, int(value))  # type: ignore[call-overload]


def holds(known: Interval, value: int) -> bool:
    on_step = value == known.residue if known.modulus == 0 else (value - known.residue) % known.modulus == 0
    return known.low <= value <= known.high and on_step


SMALL = sorted({strided(low, low + span, step, low) for low in (-5, -1, 0, 2, 4) for span, step in
                ((0, 1), (1, 1), (4, 1), (4, 4), (6, 2), (8, 8))})  # fmt: skip


@pytest.mark.parametrize("op", [row.symbol for row in OPERATORS.values() if row.ranges is not None])
def test_every_result_of_an_operator_lies_in_its_range(op: str) -> None:
    """Of all values of each two sets: a comparison of ends that is off by one is seen."""
    for a, b in product(SMALL, SMALL):
        if (reach := transfer(op, a, b, 32)) is not None:
            results = (int(OPERATORS[op].number(x, y)) for x in values_of(a) for y in values_of(b))
            assert {result for result in results if not holds(reach, result)} == set(), f"{a} {op} {b}: {reach}"


def values_of(of: Interval) -> range:
    return range(of.low, of.high + 1, of.modulus or 1)


def intervals() -> st.SearchStrategy[Interval]:
    small = st.integers(-40, 40)
    return st.builds(lambda a, b, m, r: strided(min(a, b), max(a, b), m, r), small, small, st.integers(1, 9), small)


@given(intervals(), intervals())
def test_meeting_keeps_exactly_the_common_values(a: Interval, b: Interval) -> None:
    common = [v for v in range(-50, 50) if holds(a, v) and holds(b, v)]

    met = a.meet(b)

    assert all(holds(met, value) for value in common)
    if common:
        assert met.low >= max(a.low, b.low)
        assert met.high <= min(a.high, b.high)


@given(intervals(), intervals())
def test_joining_keeps_the_values_of_both(a: Interval, b: Interval) -> None:
    assert all(holds(a.join(b), value) for value in range(-50, 50) if holds(a, value) or holds(b, value))


@given(intervals(), st.sampled_from(["int8", "uint8", "int32"]), st.integers(-300, 300))
def test_wrapping_keeps_what_the_width_leaves(a: Interval, kind: str, shift: int) -> None:
    moved = a.plus(point(shift))
    wrapped = moved.wrapped(dtype(kind))

    for value in (value for value in range(moved.low, moved.high + 1) if holds(moved, value)):
        assert holds(wrapped, int(evaluate(as_expr(value, dtype(kind)), {})))


# Overflow


def test_an_exact_sum_is_proven_not_to_wrap() -> None:
    assert facts().exact(INDEX * 64 + J)
    assert not facts().exact(N + 1)
    assert facts().exact((N - 8) + 7)  # a part may wrap where the whole does not


# The questions of layouts


def test_divides() -> None:
    known = facts().with_condition(N % 8 == 0)

    assert known.divides(8, N * 3 + 16)
    assert known.divides(4, N)
    assert not known.divides(16, N)
    assert not known.divides(8, X)
    assert known.divides(X, X)
    assert known.divides(3, 9)
    assert not known.divides(0, N)


def test_a_symbolic_divisor_divides_its_multiples() -> None:
    known = RangeFacts().with_range(N, 1, 1000).with_range(INDEX, 0, 99)

    assert known.divides(N, INDEX * N)
    assert known.divides(N, N * 4 + N * INDEX)
    assert not known.divides(N, N * 4 + INDEX)


def test_equal_means_equal_whatever_the_variables_are() -> None:
    assert facts().equal((X + 1) * N, N * X + N)
    assert facts().equal(X * 2 - X, X)
    assert facts().equal(X // 4 * 4 + X % 4, X)
    assert facts().equal(4, as_expr(4))
    assert not facts().equal(X, Y)
    assert not facts().equal(X // 4 * 4, X)


def test_equal_by_an_equation_that_was_assumed() -> None:
    assert RangeFacts().with_condition(X == Y).equal(X, Y)


def test_less() -> None:
    assert facts().less(INDEX, 8)
    assert not facts().less(INDEX, 7)
    assert facts().less(INDEX, INDEX + 1)
    assert not facts().less(X, X + 1)  # INT_MAX + 1 wraps
    assert facts().less(3, 4)


# Conditions


@pytest.mark.parametrize(
    ("cond", "of", "known"),
    [
        ("x < 8", "x", (INT_MIN, 7)),
        ("x >= 3", "x", (3, INT_MAX)),
        ("5 > x", "x", (INT_MIN, 4)),
        ("x == 4", "x", (4, 4)),
        ("i != 0", "i", (1, 7)),
        ("i != 7", "i", (0, 6)),
        ("no(x < 8)", "x", (8, INT_MAX)),
        ("both(x >= 0, x < 8)", "x", (0, 7)),
        ("no(either(x < 0, x >= 8))", "x", (0, 7)),
        ("i * 4 + 3 < 16", "i", (0, 3)),
        ("i + j == 3", "j", (0, 3)),
        ("i + j < 3", "j", (0, 2)),
        ("x + 1 < 8", "x", (INT_MIN, INT_MAX)),  # x + 1 may have wrapped
        ("x // 4 < 2", "x // 4", (-(2**29), 1)),
    ],
)
def test_a_condition_narrows_ranges(cond: str, of: str, known: tuple[int, int]) -> None:
    assert facts().with_condition(parsed(cond)).bounds(parsed(of)) == known


@pytest.mark.parametrize(
    ("cond", "modulus"),
    [
        ("n % 8 == 0", (8, 0)),
        ("(n & 7) == 0", (8, 0)),
        ("(n + 4) % 8 == 0", (8, 4)),
        ("n % 8 == 3", (8, 3)),
        ("both(n % 8 == 0, n % 12 == 0)", (24, 0)),
        ("n == i * 4", (4, 0)),
        ("n % 8 != 0", (1, 0)),
        ("(n * 3) % 9 == 0", (1, 0)),
    ],
)
def test_a_condition_gives_a_modulus(cond: str, modulus: tuple[int, int]) -> None:
    assert facts().with_condition(parsed(cond)).modulus(N) == modulus


def test_a_condition_holds_again_inside_itself() -> None:
    cond = X // 3 < Y

    known = RangeFacts().with_condition(cond)

    assert known.simplify(X // 3 < Y).value is True
    assert known.simplify(X // 3 >= Y).value is False


def test_orders_add_up() -> None:
    known = RangeFacts().with_condition(X < Y).with_condition(Y <= W)

    assert known.less(X, W)
    assert not known.less(W, X)


def test_conditions_that_may_change_teach_nothing() -> None:
    buffer = Buffer("A", INT32, (64,), "shared", row_major((64,)))
    known = RangeFacts(assigned=frozenset({"x"}))

    assert known.with_condition(X < 8).bounds(X) == (INT_MIN, INT_MAX)
    assert known.with_condition(Load(buffer, (INDEX,)) < 8).bounds(Load(buffer, (INDEX,))) == (INT_MIN, INT_MAX)


def test_contradictory_conditions_do_no_harm() -> None:
    known = RangeFacts().with_condition(X < 0).with_condition(X > 5)

    assert known.bounds(X + 1)


# Loops and bindings


def test_a_loop_variable_lies_between_its_ends() -> None:
    assert RangeFacts().with_loop(X, 0, 8).bounds(X) == (0, 7)
    assert RangeFacts().with_loop(X, 0, 30, 8).interval(X) == strided(0, 24, 8, 0)
    assert RangeFacts().with_loop(X, 10, 0, -3).interval(X) == strided(1, 10, 3, 1)
    assert facts().with_loop(X, INDEX, J).bounds(X) == (0, 62)


def test_a_loop_variable_is_below_a_symbolic_stop() -> None:
    known = facts().with_condition(N % 4 == 0).with_loop(X, 0, N, 4)

    assert known.less(X, N)
    assert known.divides(4, X)
    assert known.simplify(X < N).value is True
    assert known.equal(X % N, X)


def test_a_stop_that_is_assigned_to_orders_nothing() -> None:
    known = RangeFacts(assigned=frozenset({"y"})).with_loop(X, 0, Y)

    assert not known.less(X, Y)
    assert known.bounds(X) == (0, INT_MAX - 1)


def test_a_binding_has_the_range_of_its_value() -> None:
    known = facts().with_binding(X, INDEX * 4 + 1)

    assert known.interval(X) == strided(1, 29, 4, 1)
    assert known.equal(X, INDEX * 4 + 1)


def test_a_binding_that_is_assigned_to_later_is_not_known() -> None:
    assert RangeFacts(assigned=frozenset({"x"})).with_binding(X, as_expr(3)).bounds(X) == (INT_MIN, INT_MAX)


def test_facts_are_immutable() -> None:
    outside = facts()

    outside.with_condition(X < 8).with_loop(Y, 0, 4)

    assert outside.bounds(X) == outside.bounds(Y) == (INT_MIN, INT_MAX)


# A whole kernel


def kernel(*body: object, launch: Launch | None = None) -> Kernel:
    handle = Var("A_ptr", HANDLE)
    buffer = Buffer("A", FLOAT32, (N, 64), "global", row_major((N, 64)), data=handle)
    stmts: Body = body  # type: ignore[assignment]  # statements
    return Kernel("k", (handle, Var("m")), (buffer,), stmts, symbols=(N,), launch=launch)


def scope(kind: str, name: str, extent: object) -> ScopeId:
    return ScopeId(kind, (Var(name),), (extent,))  # type: ignore[arg-type]  # an int, an expression or None


def test_scope_ids_lie_below_their_extents() -> None:
    made = kernel(
        scope("cta_id", "bx", N // 4),
        scope("thread_id", "t", 96),
        scope("lane_id", "l", None),
        scope("warp_id", "w", None),
    )

    known = RangeFacts.of_kernel(made)

    assert [known.bounds(Var(name)) for name in "tlw"] == [(0, 95), (0, 31), (0, 2)]
    assert known.bounds(Var("bx")) == (0, INT_MAX // 4 - 1)


def test_special_registers_lie_in_the_launch() -> None:
    known = RangeFacts.of_kernel(kernel(launch=Launch((8, N, 1), 128, (2, 1, 1))))

    names = ("tid", "warpid", "laneid", "ntid", "ctaid.x", "ctaid.z", "nctaid.x", "cluster_ctaid.x", "clusterid.x")
    assert [known.bounds(special(name)) for name in names] == [
        (0, 127), (0, 3), (0, 31), (128, 128), (0, 7), (0, 0), (8, 8), (0, 1), (0, 3),
    ]  # fmt: skip
    assert known.less(special("ctaid.y"), N)


def test_without_a_launch_the_hardware_is_the_limit() -> None:
    known = RangeFacts()

    assert known.bounds(special("laneid")) == (0, 31)
    assert known.bounds(special("tid")) == (0, 1023)
    assert known.bounds(special("ctaid.y")) == (0, 65534)


def test_symbols_are_not_negative_and_parameters_may_be() -> None:
    known = RangeFacts.of_kernel(kernel())

    assert known.bounds(N) == (0, INT_MAX)
    assert known.bounds(Var("m")) == (INT_MIN, INT_MAX)


def test_assumptions_hold_everywhere() -> None:
    known = RangeFacts.of_kernel(kernel(Assume(N % 8 == 0), Assume(N < 100)))

    assert known.interval(N) == strided(0, 96, 8, 0)


def test_variables_that_are_assigned_to_are_found() -> None:
    x = Var("x")
    local = AllocBuffer(Buffer("R", FLOAT32, (4,), "local", row_major((4,))))

    known = RangeFacts.of_kernel(kernel(local, Bind(x, as_expr(0)), Assign(x, x + 1)))

    assert known.assigned == {"x"}


def test_a_bool_is_0_or_1() -> None:
    p = Var("p", BOOL)

    assert facts().bounds(p) == (0, 1)
    assert facts().with_condition(p).bounds(p) == (1, 1)
