"""Assignments: scalars, lets, elements, several targets at once."""

# ruff: noqa: F841, F842, RUF059  the names of a kernel are read by its parser
from __future__ import annotations

import numpy as np
import pytest

from tests.lang.kernels import body, statement, text
from tilewright.errors import KernelError
from tilewright.ir import Bind
from tilewright.lang import T

DTYPES = [
    "bool",
    "int8",
    "uint16",
    "int32",
    "uint64",
    "float16",
    "bfloat16",
    "float64",
    "float8_e4m3fn",
    "float4_e2m1fn",
]


def test_an_expression_makes_a_scalar_that_changes() -> None:
    @T.prim_func
    def k():
        tid = T.thread_id([32])
        x = tid * 2
        x = x + 1
        y = 1.5
        z = tid > 3

    assert body(k) == text("""
        tid = T.thread_id([32])
        x: T.int32 = tid * 2
        x = x + 1
        y: T.float32 = 1.5
        z: T.bool = tid > 3
    """)


@pytest.mark.parametrize("kind", DTYPES)
def test_an_annotation_gives_the_dtype(kind: str) -> None:
    @T.prim_func
    def k():
        x: getattr(T, kind) = 1
        y: getattr(T, kind)

    bind = statement(k, 0, Bind)
    assert bind.var.dtype == bind.value.dtype == kind
    assert body(k).startswith(f"x: T.{kind} = ")


def test_an_assignment_converts_to_the_scalars_dtype() -> None:
    @T.prim_func
    def k(s: T.int32):
        x: T.float32 = 0
        x = s
        u: T.uint8 = T.cast(300, "uint8")

    assert body(k) == 'x: T.float32 = 0.0\nx = T.cast(s, "float32")\nu: T.uint8 = 44'


def test_a_scalar_may_begin_as_a_scope_id() -> None:
    @T.prim_func
    def k():
        x: T.int32 = T.lane_id([32])
        x += 1

    assert body(k) == "lane_id = T.lane_id([32])\nx: T.int32 = lane_id\nx = x + 1"


def test_a_second_definition_is_another_scalar() -> None:
    @T.prim_func
    def k():
        x: T.int32 = 0
        x: T.float32 = 1  # type: ignore[no-redef]  # what it is about
        x = 2

    assert body(k) == "x: T.int32 = 0\nx_1: T.float32 = 1.0\nx_1 = 2.0"


def test_augmented_assignments() -> None:
    @T.prim_func
    def k(A: T.Buffer((4,), "float32")):
        x = 7
        x += 1
        x -= 2
        x *= 3
        x //= 4
        x %= 5
        x <<= 1
        x >>= 1
        x &= 7
        x |= 8
        x ^= 9
        A[x] += 1
        A[0] /= 2

    assert body(k).splitlines()[1:] == [
        "x = x + 1", "x = x - 2", "x = x * 3", "x = x // 4", "x = x % 5", "x = x << 1", "x = x >> 1", "x = x & 7",
        "x = x | 8", "x = x ^ 9", "A[x] = A[x] + 1.0", "A[0] = A[0] / 2.0",
    ]  # fmt: skip


def test_let_binds_a_value_for_good() -> None:
    @T.prim_func
    def k():
        tid = T.thread_id([32])
        x: T.let = tid * 2
        y: T.let[T.int64] = x

    assert [statement(k, place, Bind).mutable for place in (1, 2)] == [False, False]
    assert body(k).splitlines()[1:] == ["x: T.let = tid * 2", 'y: T.let = T.cast(x, "int64")']


def test_meta_var_makes_no_scalar() -> None:
    @T.prim_func
    def k(A: T.Buffer((16,), "float32")):
        tid = T.thread_id([8])
        n = T.meta_var(4)
        twice = T.meta_var(tid * 2)
        a, b = T.meta_var((tid + 1, 3))
        n += 1
        A[twice] = n
        A[a] = b

    assert body(k) == "tid = T.thread_id([8])\nA[tid * 2] = 5.0\nA[tid + 1] = 3.0"


def test_numbers_of_numpy_are_numbers() -> None:
    size, scale = np.int64(4), np.float32(0.5)

    @T.prim_func
    def k(A: T.Buffer((size, 2), "float32")):
        i = T.lane_id()
        x = size
        A[size - 1, 0] = scale * A[i % size, 1]
        y = i < size

    assert k.buffers[0].shape == (4, 2)
    assert body(k).splitlines()[1:] == [
        "x: T.int32 = 4",
        "A[3, 0] = 0.5 * A[i % 4, 1]",
        "y: T.bool = i < 4",
    ]


def test_python_objects_are_bound_as_they_are() -> None:
    @T.prim_func
    def k(A: T.Buffer((16,), "float16")):
        kind = "float16"
        shape = (2, 3)
        parts = [A[0], A[1]]
        where = slice(0, 2)
        A[0] = T.cast(shape[1], kind) + parts[1]

    assert body(k) == "A[0] = 3.0 + A[1]"


def test_several_targets() -> None:
    def split(value):
        return value // 4, value % 4

    @T.prim_func
    def k():
        tid = T.thread_id([32])
        row, column = split(tid)
        a = b = tid
        first, *rest = (1, 2, 3)
        (c, d), e = (tid, 1), 2

    assert body(k).splitlines()[1:] == [
        "row: T.int32 = tid // 4", "column: T.int32 = tid % 4", "a: T.int32 = tid", "b: T.int32 = tid",
        "first: T.int32 = 1", "c: T.int32 = tid", "d: T.int32 = 1", "e: T.int32 = 2",
    ]  # fmt: skip


def test_values_are_exchanged_as_python_does() -> None:
    @T.prim_func
    def k(A: T.Buffer((4,), "float32")):
        x, y = 1, 2
        x, y = y, x
        A[0], A[1] = A[1], A[0]

    assert body(k) == text("""
        x: T.int32 = 1
        y: T.int32 = 2
        old: T.let = x
        x = y
        y = old
        old_1: T.let = A[0]
        A[0] = A[1]
        A[1] = old_1
    """)


def test_elements_are_stored_in_the_buffers_dtype() -> None:
    @T.prim_func
    def k(A: T.Buffer((4, 2), "float16")):
        i = T.lane_id()
        A[i % 4, 1] = i
        A[0, 0] = 1
        A[1, 0] = True

    assert body(k).splitlines()[1:] == ['A[i % 4, 1] = T.cast(i, "float16")', "A[0, 0] = 1.0", "A[1, 0] = 1.0"]


def test_a_symbolic_extent_that_should_be_a_scalar_is_told_so() -> None:
    """`acc = T.float32()` was called a scope id."""
    with pytest.raises(KernelError, match="acc is a symbolic extent: it cannot be assigned here") as raised:

        @T.prim_func
        def k(A: T.Buffer((4,), "float32")):
            acc = T.float32()
            for i in range(4):
                acc += A[i]

    assert raised.value.hint == "acc: T.float32 = 0"


def test_a_list_stored_to_an_element_is_shown_as_it_is_written() -> None:
    with pytest.raises(KernelError, match="an element of A is a number") as raised:

        @T.prim_func
        def k(A: T.Buffer((4,), "float32")):
            A[0] = [A[1], "a"]

    assert raised.value.given == "[A[1], a]"
