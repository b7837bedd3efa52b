"""Expressions: typing, folding, structural equality, hashing, and what they refuse."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from tilewright.dtypes import BOOL, HANDLE, INT32, dtype
from tilewright.errors import KernelError
from tilewright.ir import (
    Binary,
    Cast,
    Const,
    Expr,
    Select,
    Unary,
    Var,
    as_expr,
    cast,
    common_dtype,
    const_value,
    same,
    select,
    truth_is_an_error,
)
from tilewright.ir.build import binary, const, unary

INT8, INT64, UINT8, UINT32 = map(dtype, ("int8", "int64", "uint8", "uint32"))
FLOAT16, BFLOAT16, FLOAT32, FLOAT64 = map(dtype, ("float16", "bfloat16", "float32", "float64"))
E4M3 = dtype("float8_e4m3fn")
X, Y = Var("x"), Var("y")
P = Var("p", BOOL)
F, H = Var("f", FLOAT32), Var("h", FLOAT16)


# Typing


@pytest.mark.parametrize(
    ("op", "a", "b", "kind"),
    [
        ("+", Var("p", HANDLE), X, HANDLE),
        ("+", X, Var("p", HANDLE), HANDLE),
        ("-", Var("p", HANDLE), 16, HANDLE),
        ("-", Var("p", HANDLE), Var("q", HANDLE), INT64),
        ("%", Var("p", HANDLE), 16, INT64),
        ("//", Var("p", HANDLE), 4, INT64),
        ("&", Var("p", HANDLE), 15, INT64),
        ("==", Var("p", HANDLE), Var("q", HANDLE), BOOL),
    ],
)
def test_a_pointer_moved_is_a_pointer_and_other_arithmetic_on_it_a_number(
    op: str, a: Var | int, b: Var | int, kind: str
) -> None:
    assert binary(op, a, b).dtype == kind


@pytest.mark.parametrize(
    ("a", "b", "common"),
    [
        ("int32", "int32", "int32"),
        ("int8", "int32", "int32"),
        ("uint8", "int32", "int32"),
        ("int32", "uint32", "uint32"),
        ("int64", "uint32", "int64"),
        ("bool", "int8", "int8"),
        ("int64", "float16", "float16"),
        ("float16", "float32", "float32"),
        ("float32", "float64", "float64"),
        ("handle", "int32", "handle"),
    ],
)
def test_operands_are_brought_to_one_dtype(a: str, b: str, common: str) -> None:
    assert common_dtype(dtype(a), dtype(b)) == common_dtype(dtype(b), dtype(a)) == common
    assert (Var("a", dtype(a)) + Var("b", dtype(b))).dtype == common


def test_narrow_types_stay_narrow() -> None:
    assert (Var("a", INT8) + Var("b", INT8)).dtype == INT8


def test_a_bool_counts_as_an_int32_in_arithmetic() -> None:
    assert ((X < Y) + (Y < X)).dtype == INT32
    assert (-P).dtype == INT32
    assert (P & P).dtype == BOOL


def test_two_floats_of_one_width_have_no_common_dtype() -> None:
    with pytest.raises(KernelError, match="operands of float16 and bfloat16 have no common dtype"):
        H + Var("b", BFLOAT16)


def test_a_python_number_takes_the_dtype_of_the_other_side() -> None:
    assert const_value((H * 2).b) == 2.0  # type: ignore[attr-defined]  # a Binary
    assert (H * 2).dtype == FLOAT16
    assert (Var("u", UINT32) - 1).dtype == UINT32
    assert (F + 0.5).dtype == FLOAT32


def test_a_float_among_integers_is_a_float32() -> None:
    assert (X * 0.5).dtype == FLOAT32


def test_a_comparison_is_a_bool() -> None:
    assert (X < 3).dtype == (X == 3).dtype == (F >= 1.0).dtype == BOOL


def test_a_shift_has_the_dtype_of_its_left_side() -> None:
    assert (Var("a", UINT8) << X).dtype == UINT8


@pytest.mark.parametrize("operator", ["&", "|", "^", "<<", ">>"])
def test_bits_of_floats_are_refused(operator: str) -> None:
    with pytest.raises(KernelError, match="works on bits"):
        binary(operator, F, F)


def test_the_complement_of_a_float_is_refused() -> None:
    with pytest.raises(KernelError, match="`~` works on bits"):
        unary("~", F)


def test_integers_do_not_divide_with_a_slash() -> None:
    with pytest.raises(KernelError, match="`/` divides floats only") as error:
        binary("/", X, Y)
    assert "//" in str(error.value.hint)


def test_pointers_do_arithmetic_in_bytes() -> None:
    assert (Var("p", HANDLE) + 4).dtype == HANDLE


# Folding


@pytest.mark.parametrize(
    ("op", "a", "b", "value"),
    [
        ("+", 2**31 - 1, 1, -(2**31)),
        ("-", -(2**31), 1, 2**31 - 1),
        ("*", 65536, 65536, 0),
        ("//", -7, 2, -4),
        ("%", -7, 2, 1),
        ("%", 7, -2, -1),
        ("truncdiv", -7, 2, -3),
        ("truncdiv", 7, -2, -3),
        ("truncmod", -7, 2, -1),
        ("truncmod", 7, -2, 1),
        (">>", -8, 1, -4),
        ("<<", 1, 31, -(2**31)),
        ("min", -1, 1, -1),
        ("^", 5, 3, 6),
        ("<", 1, 2, True),
        ("!=", 1, 1, False),
    ],
)
def test_constants_fold_as_int32(op: str, a: int, b: int, value: int) -> None:
    assert const_value(binary(op, as_expr(a), as_expr(b))) == value


def test_unsigned_constants_wrap_into_their_range() -> None:
    assert const_value(const(3, UINT8) - 5) == 254
    assert const_value(const(-1, UINT32)) == 2**32 - 1
    assert const_value(const(255, INT8)) == -1


def test_what_has_no_value_is_left_to_run_time() -> None:
    for expr in (binary("//", as_expr(1), as_expr(0)), binary("<<", as_expr(1), as_expr(32)), binary(">>", X, -1)):
        assert isinstance(expr, Binary)


@pytest.mark.parametrize(
    ("value", "kind", "result"),
    [
        (300, UINT8, 44),
        (-1, UINT8, 255),
        (2.9, INT32, 2),
        (-2.9, INT32, -2),
        (1e20, INT32, 2**31 - 1),
        (-1.0, UINT8, 0),
        (float("nan"), INT32, 0),
        (0.1, FLOAT16, 0.0999755859375),
        (16777217, FLOAT32, 16777216.0),
        (2, BOOL, True),
    ],
)
def test_constants_convert_as_values_do_at_run_time(value: float, kind: str, result: float) -> None:
    assert const_value(cast(as_expr(value, FLOAT64 if isinstance(value, float) else INT64), dtype(kind))) == result


def test_a_float_constant_is_rounded_to_its_dtype() -> None:
    assert const_value(as_expr(0.1, FLOAT16)) == 0.0999755859375
    assert const_value(as_expr(16777217.0, FLOAT32)) == 16777216.0
    assert const_value(as_expr(0.1, FLOAT64)) == 0.1


def test_a_float_too_large_for_a_narrow_dtype_is_converted_at_run_time() -> None:
    assert isinstance(cast(const(1000.0, FLOAT32), E4M3), Cast)
    assert const_value(cast(const(8.0, FLOAT32), E4M3)) == 8.0


def test_each_float_operation_rounds_once() -> None:
    tiny = const(2.0**-24, FLOAT32)

    assert const_value(const(1.0, FLOAT32) + tiny) == 1.0
    assert const_value(const(1.0, FLOAT64) + const(2.0**-24, FLOAT64)) == 1.0 + 2.0**-24


@pytest.mark.parametrize("neutral", [X + 0, 0 + X, X - 0, X * 1, 1 * X, X // 1, X << 0, X >> 0, X | 0, X ^ 0])
def test_neutral_elements_of_integers_vanish(neutral: Expr) -> None:
    assert neutral is X


def test_floats_keep_their_zeros() -> None:
    assert isinstance(F + 0.0, Binary)
    assert isinstance(F * 0.0, Binary)


def test_logic_with_a_known_side() -> None:
    assert binary("and", P, True) is P
    assert const_value(binary("and", P, False)) is False
    assert binary("or", False, P) is P
    assert const_value(binary("or", P, True)) is True


def test_a_cast_to_the_same_dtype_is_nothing() -> None:
    assert cast(X, INT32) is X
    assert isinstance(cast(X, INT64), Cast)


def test_select_takes_the_side_that_is_known() -> None:
    assert select(True, X, Y) is X
    assert isinstance(select(P, X, Y), Select)
    assert select(P, X, 1.5).dtype == FLOAT32


# Equality and hash


def test_the_truth_of_an_equation_is_structural_equality() -> None:
    assert Var("x") + 1 == X + 1
    assert X + 1 != X + 2
    assert bool(X == Y) is False
    assert (Var("x"), Var("y") + 1) == (X, Y + 1)
    assert X + 1 in [Y, X + 1]


def test_dtype_and_node_count_in_equality() -> None:
    assert not same(Var("x"), Var("x", INT64))
    assert not same(X + Y, X - Y)
    assert not same(as_expr(1), as_expr(1, FLOAT32))
    assert not same(const(True, BOOL), const(1, INT32))


def test_zeros_of_different_sign_are_different_constants() -> None:
    assert not same(const(0.0, FLOAT32), const(-0.0, FLOAT32))
    assert same(const(float("nan"), FLOAT32), const(float("nan"), FLOAT32))


def test_equal_expressions_have_one_hash() -> None:
    table = {X + 1: "one", X + 2: "two"}

    assert table[Var("x") + 1] == "one"
    assert hash((X + Y) * 4) == hash((Var("x") + Var("y")) * 4)


def test_a_copy_is_equal_and_hashes_alike() -> None:
    expr = (X + Y) * 4
    hash(expr)

    for other in (copy.copy(expr), copy.deepcopy(expr), pickle.loads(pickle.dumps(expr))):
        assert same(other, expr)
        assert hash(other) == hash(expr)


def test_an_expression_differs_from_what_is_no_value() -> None:
    assert X != "x"
    assert bool(X == None) is False  # noqa: E711  # the operator itself is what is tested
    assert X != (1, 2)
    assert np.arange(3) != X


# Truth


def test_the_truth_of_an_inequality_is_an_error() -> None:
    with pytest.raises(KernelError, match="truth of `x < 3` is not known"):
        bool(X < 3)


def test_while_a_helper_runs_even_an_equation_has_no_truth() -> None:
    with truth_is_an_error(), pytest.raises(KernelError, match="not known while the kernel is parsed") as error:
        bool(X == 0)
    assert "T.select" in str(error.value.hint)


def test_constants_have_a_truth() -> None:
    assert const(True, BOOL)
    assert not as_expr(1) - 1


# NumPy


@pytest.mark.parametrize("scalar", [np.int32(3), np.int64(3), np.uint8(3), np.array(3)[()]])
def test_numpy_integers_are_numbers(scalar: Any) -> None:
    assert same(X + scalar, X + 3)
    assert same(scalar + X, as_expr(3) + X)
    assert (scalar == X).dtype == BOOL
    assert same(scalar == X, X == 3)


@pytest.mark.parametrize("scalar", [np.float32(0.5), np.float16(0.5), np.float64(0.5)])
def test_numpy_floats_are_numbers(scalar: Any) -> None:
    assert same(F * scalar, F * 0.5)
    assert same(scalar * F, 0.5 * F)
    assert isinstance(scalar == F, Binary)


def test_a_numpy_bool_is_a_bool() -> None:
    assert same(as_expr(np.True_), const(True, BOOL))  # type: ignore[arg-type]
    assert select(np.False_, X, Y) is Y  # type: ignore[arg-type]


def test_arrays_are_no_values() -> None:
    with pytest.raises(KernelError, match="is not a value of a kernel"):
        X + np.arange(3)  # type: ignore[operator]
    with pytest.raises(KernelError, match="is not a value of a kernel"):
        np.arange(3) + X  # type: ignore[operator]


def test_ufuncs_are_refused() -> None:
    with pytest.raises(TypeError, match="ufunc"):
        np.exp(F)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="ufunc"):
        np.maximum(F, 0.0)  # type: ignore[call-overload]


@pytest.mark.parametrize("value", ["x", None, [1], (1,), object()])
def test_other_objects_are_no_values(value: object) -> None:
    with pytest.raises(KernelError, match="is not a value of a kernel"):
        as_expr(value)  # type: ignore[arg-type]


# Nodes


def test_nodes_are_frozen() -> None:
    with pytest.raises(AttributeError, match="cannot assign to field"):
        X.name = "y"  # type: ignore[misc]


def test_unary_operators_build_nodes_or_fold() -> None:
    assert isinstance(-X, Unary)
    assert const_value(-as_expr(3)) == -3
    assert const_value(~as_expr(3)) == -4
    assert const_value(unary("not", True)) is False
    assert unary("not", X).dtype == BOOL


def test_const_value_knows_constants_and_numbers_only() -> None:
    assert const_value(as_expr(3)) == const_value(3) == 3
    assert const_value(X) is None
    assert isinstance(as_expr(3), Const)
