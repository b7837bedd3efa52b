"""Control flow: statements that stay in the kernel, and those that Python decides while the kernel is parsed."""

# ruff: noqa: B007, F841, PERF102, SIM201  the names of a kernel are read by its parser
from __future__ import annotations

import pytest

from tests.lang.kernels import body, text
from tilewright.ir import For, While
from tilewright.lang import T


def test_range_is_a_loop_of_run_time() -> None:
    @T.prim_func
    def k(A: T.Buffer((16,), "float32"), n: T.int32):
        for i in range(16):
            A[i] = 0
        for i in range(2, n):
            A[i] = 1
        for i in range(8, 0, -2):
            A[i] = 2

    assert body(k) == text("""
        for i in range(16):
            A[i] = 0.0
        for i_1 in range(2, n):
            A[i_1] = 1.0
        for i_2 in range(8, 0, -2):
            A[i_2] = 2.0
    """)


def test_a_range_from_outside_is_a_loop_too() -> None:
    rounds = range(1, 9, 4)

    @T.prim_func
    def k(A: T.Buffer((16,), "float32")):
        for i in rounds:
            A[i] = 0

    assert body(k) == "for i in range(1, 9, 4):\n    A[i] = 0.0"


def test_loops_of_other_kinds() -> None:
    @T.prim_func
    def k(A: T.Buffer((16,), "float32")):
        for i in T.serial(4, unroll=2):
            A[i] = 0
        for i in T.serial(2, 8, step=3):
            A[i] = 1
        for i in T.unroll(4):
            A[i] = 2
        for i in T.vectorized(1, 4):
            A[i] = 3

    assert body(k) == text("""
        for i in T.serial(4, annotations={"unroll": 2}):
            A[i] = 0.0
        for i_1 in range(2, 8, 3):
            A[i_1] = 1.0
        for i_2 in T.unroll(4):
            A[i_2] = 2.0
        for i_3 in T.vectorized(1, 4):
            A[i_3] = 3.0
    """)


def test_a_grid_is_nested_loops() -> None:
    @T.prim_func
    def k(A: T.Buffer((4, 8), "float32")):
        for i, j in T.grid(4, 8):
            A[i, j] = i + j

    assert body(k) == text("""
        for i in range(4):
            for j in range(8):
                A[i, j] = T.cast(i + j, "float32")
    """)


def test_a_counter_has_the_dtype_of_its_bounds() -> None:
    @T.prim_func
    def k(A: T.Buffer((16,), "float32"), n: T.int64):
        for i in range(n):
            A[i] = 0

    loop = k.body[0]
    assert isinstance(loop, For)
    assert (loop.var.dtype, loop.start.dtype, loop.stop.dtype) == ("int64", "int64", "int64")
    assert body(k).startswith("for i in range(n):")


def test_python_values_are_gone_through_while_parsing() -> None:
    columns = {"a": 0, "b": 3}

    @T.prim_func
    def k(A: T.Buffer((16,), "float32")):
        for i in (1, 2):
            A[i] = i
        for n, (_, j) in enumerate(zip("xy", [4, 5], strict=True)):
            A[j] = n
        for name, j in columns.items():
            A[j] = 0
        for i in [k * 2 for k in range(6) if k > 4]:
            A[i] = 7

    assert body(k) == text("""
        A[1] = 1.0
        A[2] = 2.0
        A[4] = 0.0
        A[5] = 1.0
        A[0] = 0.0
        A[3] = 0.0
        A[10] = 7.0
    """)


def test_a_loop_over_python_values_may_be_left() -> None:
    @T.prim_func
    def k(A: T.Buffer((16,), "float32")):
        for i in (1, 2, 3, 4):
            if i == 2:
                continue
            if i == 4:
                break
            A[i] = i

    assert body(k) == "A[1] = 1.0\nA[3] = 3.0"


def test_a_scalar_lives_through_a_loop_over_python_values() -> None:
    @T.prim_func
    def k():
        for i in (1, 2):
            x = i
        x += 1

    assert body(k) == "x: T.int32 = 1\nx = 2\nx = x + 1"


def test_while_break_continue() -> None:
    @T.prim_func
    def k(A: T.Buffer((16,), "float32")):
        x = 0
        while x < 16:
            x += 1
            if A[x] < 0:
                continue
            if x == 7:
                break
        while True:
            break
        while False:
            x = 0

    assert body(k) == text("""
        x: T.int32 = 0
        while x < 16:
            x = x + 1
            if A[x] < 0.0:
                continue
            if x == 7:
                break
        while True:
            break
    """)
    assert isinstance(k.body[2], While)


def test_if_elif_else() -> None:
    @T.prim_func
    def k(A: T.Buffer((16,), "float32")):
        tid = T.thread_id([32])
        if tid == 0:
            A[0] = 0
        elif tid < 4 and not tid == 2:
            pass
        elif tid:
            A[1] = 1
        else:
            A[2] = 2

    assert body(k) == text("""
        tid = T.thread_id([32])
        if tid == 0:
            A[0] = 0.0
        elif tid < 4 and not tid == 2:
            pass
        elif T.cast(tid, "bool"):
            A[1] = 1.0
        else:
            A[2] = 2.0
    """)


@pytest.mark.parametrize(("flag", "expected"), [(True, "A[0] = 1.0"), (False, "A[0] = 2.0\nx: T.int32 = 3")])
def test_python_decides_on_python_values(flag: bool, expected: str) -> None:
    @T.prim_func
    def k(A: T.Buffer((16,), "float32")):
        if flag and len(A.shape) == 1:
            A[0] = 1
        else:
            A[0] = 2
            x = 3

    assert body(k) == expected


def test_a_constant_condition_is_decided() -> None:
    @T.prim_func
    def k(A: T.Buffer((16,), "float32")):
        if T.int32(3) > 2:
            A[0] = 1
        A[1] = 5 if T.bool(False) else 6

    assert body(k) == "A[0] = 1.0\nA[1] = 6.0"


def test_names_of_a_block_end_with_it() -> None:
    @T.prim_func
    def k(A: T.Buffer((16,), "float32")):
        for i in range(4):
            x = i
            A[i] = x
        for i in range(4):
            x = 2 * i
            A[i] = x

    assert body(k) == text("""
        for i in range(4):
            x: T.int32 = i
            A[i] = T.cast(x, "float32")
        for i_1 in range(4):
            x_1: T.int32 = 2 * i_1
            A[i_1] = T.cast(x_1, "float32")
    """)
