"""Names are values: a name, tuple or parameter holds the value that its expression had where it was written."""

# ruff: noqa: F841  the names of a kernel are read by its parser
from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.lang.kernels import body, text
from tests.texts import imported
from tilewright.errors import KernelError
from tilewright.lang import T


def test_a_call_passed_to_a_helper_that_uses_it_twice_happens_once() -> None:
    def square(v):
        return v * v

    @T.prim_func
    def k(A: T.Buffer((2,), "int32")):
        T.cta_id([1])
        T.thread_id([1])
        A[1] = square(T.cuda.atomic_add(A.ptr_to([0]), 1))

    a = np.array([3, 0], np.int32)
    tw.simulate(k, a)

    assert a.tolist() == [4, 9]
    assert body(k).count("atomic_add(") == 1


def test_a_parameter_holds_what_an_element_was_at_the_call() -> None:
    @T.inline
    def publish(s, v):
        s[0] = 7
        T.cuda.cta_sync()
        s[1] = v

    @T.prim_func
    def k():
        s = T.alloc_shared((2,), "int32")
        publish(s, s[0])

    assert body(k).splitlines()[1:] == ["v: T.let = s[0]", "s[0] = 7", "T.cuda.cta_sync()", "s[1] = v"]


def test_a_tuple_and_a_list_hold_what_their_members_were() -> None:
    @T.prim_func
    def k(s: T.Buffer((4,), "int32")):
        x = 1
        z = (s[0], 5)
        y = [x, s[1]]
        s[0] = 2
        x = 3
        s[2] = z[0] + y[0]

    assert body(k) == text("""
        x: T.int32 = 1
        old_1: T.let = x
        old: T.let = s[0]
        s[0] = 2
        x = 3
        s[2] = old + old_1
    """).replace("old_1: T.let = x\nold: T.let = s[0]", "old: T.let = s[0]\nold_1: T.let = x")


def test_a_value_that_nothing_changes_stays_an_expression() -> None:
    @T.prim_func
    def k(s: T.Buffer((4,), "int32")):
        z = (s[0], s[1])
        s[2] = z[0] + z[1]

    assert body(k) == "s[2] = s[0] + s[1]"


def test_a_value_from_before_a_loop_is_kept_where_a_round_changes_it() -> None:
    @T.prim_func
    def k(s: T.Buffer((4,), "int32")):
        z = (s[0],)
        w = (s[1],)
        for _i in range(3):
            s[0] = s[0] + z[0]

    assert body(k).splitlines()[0] == "old: T.let = s[0]"


def test_the_bounds_of_a_loop_are_evaluated_once() -> None:
    @T.prim_func
    def k(A: T.Buffer((1,), "int32")):
        T.cta_id([1])
        T.thread_id([1])
        n = 4
        for _i in range(n):
            n = n - 1
            A[0] += 1

    a = np.zeros(1, np.int32)
    tw.simulate(k, a)

    assert a[0] == 4


def test_a_condition_with_statements_is_evaluated_in_each_round() -> None:
    @T.inline
    def step(A):
        A[0] += 1
        return A[0]

    @T.prim_func
    def k(A: T.Buffer((2,), "int32")):
        T.cta_id([1])
        T.thread_id([1])
        while step(A) < 5:
            A[1] += 1

    a = np.zeros(2, np.int32)
    tw.simulate(k, a)

    assert a.tolist() == [5, 4]


def test_the_arm_that_is_not_taken_does_nothing() -> None:
    @T.inline
    def bump(A, i):
        A[i] += 1
        return A[i]

    @T.prim_func
    def k(A: T.Buffer((4,), "int32"), c: T.int32):
        T.cta_id([1])
        T.thread_id([1])
        A[3] = bump(A, 0) if c > 0 else bump(A, 1)
        if c > 0 and bump(A, 2) > 5:
            A[3] = 9

    a = np.zeros(4, np.int32)
    tw.simulate(k, a, 0)

    assert a.tolist() == [0, 1, 0, 1]


def test_an_index_of_an_augmented_assignment_is_evaluated_once() -> None:
    @T.prim_func
    def k(A: T.Buffer((4,), "int32")):
        T.cta_id([1])
        T.thread_id([1])
        A[T.cuda.atomic_add(A.ptr_to([0]), 1) + 1] += 5
        a = b = T.cuda.atomic_add(A.ptr_to([0]), 1)

    a = np.zeros(4, np.int32)
    tw.simulate(k, a)

    assert a.tolist() == [2, 5, 0, 0]


def test_a_call_that_nobody_uses_is_a_statement() -> None:
    @T.prim_func
    def k(A: T.Buffer((4,), "int32")):
        z = (T.cuda.atomic_add(A.ptr_to([0]), 1), 5)
        A[1] = z[1]

    assert body(k) == "T.cuda.atomic_add(T.address_of(A[0]), 1)\nA[1] = 5"


def test_and_and_or_of_numbers_are_pythons() -> None:
    @T.prim_func
    def k(A: T.Buffer((4, 2), "int32")):
        T.cta_id([1])
        tid = T.thread_id([2])
        A[0, tid] = 7 and tid
        A[1, tid] = tid or 7
        A[2, tid] = tid and 7
        A[3, tid] = 0 or tid

    a = np.zeros((4, 2), np.int32)
    tw.simulate(k, a)

    assert a.tolist() == [[7 and t for t in (0, 1)], [t or 7 for t in (0, 1)], [t and 7 for t in (0, 1)], [0, 1]]


@pytest.mark.parametrize(
    "line", ["if T.cuda.cta_sync():\n        pass", "x: T.int32 = T.cuda.cta_sync()", "x = (T.cuda.cta_sync(), 1)",
             "A[0] = T.cuda.cta_sync()", "A[0] = T.max(T.cuda.cta_sync(), 1)", "while T.cuda.cta_sync():\n        pass"]
)  # fmt: skip
def test_a_call_without_a_value_is_no_value(tmp_path, line: str) -> None:
    with pytest.raises(KernelError, match="has no value"):
        parsed(tmp_path, line)


@pytest.mark.parametrize(
    ("line", "wrong", "hint"),  # the hint is written in place of what is wrong
    [
        ("acc = 0\n    acc += 0.5", "acc = 0", "acc = T.float32(0)"),
        ("acc = lane\n    acc = acc * 0.5", "acc = lane", 'acc = T.cast(lane, "float32")'),
        ("n = 1\n    n = n + T.int64(A[0])", "n = 1", "n = T.int64(1)"),
        ("acc: T.int32 = 0.7", "0.7", 'T.cast(0.7, "int32")'),
        ("x = 3000000000", "3000000000", "T.int64(3000000000)"),
        ("x = 1 << 40", "1 << 40", "T.int64(1099511627776)"),
        ("u: T.uint8 = 300", "300", 'T.cast(300, "uint8")'),
        ("u: T.uint8 = -1", "-1", 'T.cast(-1, "uint8")'),
        ("h: T.float16 = 1e6", "1e6", 'T.cast(1000000.0, "float16")'),
        ("A[0] = 2**31", "2**31", 'T.cast(2147483648, "int32")'),
        ("A[0] = T.int64(A[1]) * 2", "T.int64(A[1]) * 2", 'T.cast(T.cast(A[1], "int64") * 2, "int32")'),
        ("x = A[0] + 3000000000", "3000000000", "T.int64(3000000000)"),
        ("A[0] = 0.5", "0.5", 'T.cast(0.5, "int32")'),
        ("A[0] = lane * 0.5", "lane * 0.5", 'T.cast(T.cast(lane, "float32") * 0.5, "int32")'),
        ("u = T.uint8(3)\n    u = A[0]", "u = T.uint8(3)", "u = T.int32(3)"),
    ],
)
def test_narrowing_is_refused_with_the_explicit_form(tmp_path, line: str, wrong: str, hint: str) -> None:
    with pytest.raises(KernelError) as raised:
        parsed(tmp_path, line)

    assert raised.value.hint == hint
    tw.simulate(parsed(tmp_path, line.replace(wrong, hint, 1)), np.ones(4, np.int32), check="bounds")


@pytest.mark.parametrize(
    "line",
    [
        "B = T.alloc_local((1,), 'int8')\n    B[0] = lane",
        "B = T.alloc_local((1,), 'uint8')\n    for i in range(256):\n        B[0] = i",
        "B = T.alloc_local((1,), 'int8')\n    for i in range(127, -129, -1):\n        B[0] = i",
        "B = T.alloc_local((1,), 'int8')\n    for i, j in T.grid(4, 32):\n        B[0] = i * 32 + j",
    ],
)
def test_an_id_or_counter_goes_where_all_its_values_fit(tmp_path, line: str) -> None:
    tw.simulate(parsed(tmp_path, line), np.zeros(4, np.int32), check="bounds")


@pytest.mark.parametrize("bounds", ["range(257)", "range(-1, 3)", "range(A[0])"])
def test_a_counter_that_may_not_fit_is_refused(tmp_path, bounds: str) -> None:
    with pytest.raises(KernelError, match="an element of B is uint8"):
        parsed(tmp_path, f"B = T.alloc_local((1,), 'uint8')\n    for i in {bounds}:\n        B[0] = i")


def test_a_condition_that_is_an_array_is_refused(tmp_path) -> None:
    with pytest.raises(KernelError, match="neither true nor false"):
        parsed(tmp_path, "if np.arange(4):\n        pass")


@pytest.mark.parametrize(
    "line",
    [
        "A[0] = " + " + ".join(["lane"] * 900),
        "A[0] = " + " else ".join(f"A[{i % 4}] if lane == {i}" for i in range(400)) + " else 7",
        "if " + " and ".join(f"lane != {i + 100}" for i in range(900)) + ":\n        A[0] = 1",
        "x = T.meta_var(lane)\n    for i in (0,) * 900:\n        x = T.meta_var(T.max(x, lane) + 1)\n    A[0] = x",
        "if lane == 0:\n        A[0] = 1\n" + "    elif lane == 5:\n        A[0] = 5\n" * 400,
    ],
    ids=["sum", "choices", "and", "helper", "elif"],
)
def test_deep_expressions_are_computed_in_steps(tmp_path, line: str) -> None:
    kernel = parsed(tmp_path, line)
    tw.simulate(kernel, np.zeros(4, np.int32), check="bounds")

    assert tw.compile(kernel).source("cuda")


def parsed(folder, line: str):
    """A kernel of these lines, from a file of its own."""

    file = folder / "kernel_text.py"
    file.write_text(
        "import numpy as np\nfrom tilewright import T\n\n\n@T.prim_func\ndef k(A: T.Buffer((4,), 'int32')):\n"
        f"    T.cta_id([1])\n    lane = T.lane_id([32])\n    {line}\n"
    )
    return imported(file).k


def test_a_choice_in_the_index_of_a_load_is_bound_before_it() -> None:
    """The choice is heard of after the load, and takes place before."""

    @T.prim_func
    def k(A: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32"), p: T.int32):
        T.cta_id([1])
        tid = T.thread_id([64])
        T.cuda.atomic_add(C.ptr_to([0]), A[T.select(tid > 3, p, A[0])])

    a, c = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    a[0] = 9
    tw.simulate(k, a, c, 5)
    assert c[0] == 4 * 9 + 60 * 5
