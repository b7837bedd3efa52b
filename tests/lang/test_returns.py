"""Early returns: under conditions, in loops of every kind, in inline functions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilewright as tw
from tilewright import T
from tilewright.errors import KernelError


@T.inline
def up_to(limit, out, i):
    for step in range(5):
        if out[i] >= limit:
            return
        out[i] += 1.0 + step
    out[i] += 100.0


@T.prim_func
def in_a_loop(Y: T.Buffer((32,), "float32")):
    t = T.thread_id([32])
    for i in range(10):
        if i == t:
            return
        Y[t] += 1.0
    Y[t] = -1.0


@T.prim_func
def in_both_arms(Y: T.Buffer((32,), "float32")):
    t = T.thread_id([32])
    if t < 8:
        if t < 4:
            Y[t] = 1.0
            return
        Y[t] = 2.0
    elif t < 16:
        return
    else:
        Y[t] = 3.0
    Y[t] += 10.0


@T.prim_func
def in_nested_loops(Y: T.Buffer((32,), "float32")):
    t = T.thread_id([32])
    for a in (1, 2):
        for b in range(4):
            for c in T.unroll(2):
                if a * b * c == t:
                    return
                Y[t] += 1.0
        Y[t] += 100.0


@T.prim_func
def in_a_grid_and_a_while(Y: T.Buffer((32,), "float32")):
    t = T.thread_id([32])
    for i, j in T.grid(4, 4):
        if i * j == t:
            return
        Y[t] += 1.0
    while True:
        Y[t] += 1.0
        if Y[t] > 30.0:
            return


@T.prim_func
def in_a_helper(Y: T.Buffer((32,), "float32")):
    t = T.thread_id([32])
    up_to(1.0 * t, Y, t)
    Y[t] += 0.5


def looped(t: int) -> float:
    return float(t) if t < 10 else -1.0


def armed(t: int) -> float:
    return 1.0 if t < 4 else 12.0 if t < 8 else 0.0 if t < 16 else 13.0


def nested(t: int) -> float:
    total = 0.0
    for a in (1, 2):
        for b in range(4):
            for c in range(2):
                if a * b * c == t:
                    return total
                total += 1
        total += 100
    return total


def grid_and_while(t: int) -> float:
    total = 0.0
    for i in range(4):
        for j in range(4):
            if i * j == t:
                return total
            total += 1
    return 31.0


def helped(t: int) -> float:
    total = 0.0
    for step in range(5):
        if total >= t:
            return total + 0.5
        total += 1 + step
    return total + 100.5


CASES = [(in_a_loop, looped), (in_both_arms, armed), (in_nested_loops, nested),
         (in_a_grid_and_a_while, grid_and_while), (in_a_helper, helped)]  # fmt: skip


@pytest.mark.parametrize(("kernel", "wanted"), CASES, ids=[kernel.name for kernel, _ in CASES])
def test_a_return_ends_the_thread_wherever_it_stands(kernel: object, wanted: Callable[[int], float]) -> None:
    y = np.zeros(32, np.float32)

    tw.simulate(kernel, y, check="all")

    assert y.tolist() == [wanted(t) for t in range(32)]
    assert tw.compile(kernel, target="sm_90a").source("cuda")


def test_a_barrier_after_a_return_waits_for_those_that_are_left() -> None:
    @T.prim_func
    def left(Y: T.Buffer((32,), "float32")):
        t = T.thread_id([64])
        if t >= 32:
            return
        shared = T.alloc_shared((32,), "float32")
        shared[t] = 1.0 * t
        T.cuda.cta_sync()
        Y[t] = shared[31 - t]

    y = np.zeros(32, np.float32)

    tw.simulate(left, y, check="all")

    assert y.tolist() == list(range(31, -1, -1))


def test_a_return_that_is_no_early_one_changes_nothing() -> None:
    @T.prim_func
    def last(Y: T.Buffer((32,), "float32")):
        t = T.thread_id([32])
        if t >= 16:
            return
        Y[t] = 1.0
        return

    assert "returned" not in str(last)


def test_an_early_return_of_a_value_says_how_it_is_written() -> None:
    @T.inline
    def sign(x):
        if x < 0.0:
            return -1.0
        return 1.0

    with pytest.raises(KernelError, match="`return` of a value under run-time control flow") as refused:

        @T.prim_func
        def values(Y: T.Buffer((32,), "float32")):
            t = T.thread_id([32])
            Y[t] = sign(Y[t])

    assert refused.value.hint == (
        "`result: T.float32 = 0` first, `result = ...` in each arm, `return result` as the last statement; "
        "or a value that chooses: T.select(cond, a, b)"
    )
