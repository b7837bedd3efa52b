"""A value that a helper uses twice in each of many steps: nodes grow with the steps, and do not double."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import T

STEPS = 30


def chosen(x):
    for _ in range(STEPS):
        x = T.select(x > 3, x, x + 1)
    return x


def squared(x):
    for _ in range(STEPS):
        x = x * x
    return x


def doubled(x):
    for _ in range(STEPS):
        x = x + x
    return x


@pytest.mark.parametrize(
    ("helper", "expected"),
    [(chosen, np.arange(32).clip(4)), (squared, np.arange(32) % 2), (doubled, np.arange(32) % 4 * 2**30)],
)
def test_a_helper_that_uses_its_argument_twice_in_each_of_thirty_steps(helper, expected) -> None:
    @T.prim_func
    def kernel(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
        T.cta_id([1])
        lane = T.thread_id([32])
        B[lane] = helper(A[lane])

    made = tw.compile(kernel, "sm_90a")
    a, b = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    a = a % 2 if helper is squared else a
    made.simulate(a, b)

    assert np.array_equal(b, expected.astype(np.int64).astype(np.uint32).view(np.int32))
    assert len(made.source("cuda")) < 16_000


IN_ONE_ARM = {  # a step on x: lanes whose y is not over 3 do not divide, shift or load
    "divides": (lambda x, y, A: T.select(y > 3, (x ^ (x >> 1)) // y, 7), lambda x, y, a: (x ^ x >> 1) // y, 7),
    "shifts": (lambda x, y, A: T.select(y > 3, (x ^ (x + 3)) << (y & 1), 7), lambda x, y, a: (x ^ x + 3) << (y & 1), 7),
    "loads": (lambda x, y, A: T.select(y > 3, A[(x ^ (x >> 1)) % 32], 7), lambda x, y, a: a[(x ^ x >> 1) % 32], 7),
    "else": (lambda x, y, A: T.select(y <= 3, 7, (x ^ (x >> 1)) // y), lambda x, y, a: (x ^ x >> 1) // y, 7),
    "nested": (
        lambda x, y, A: T.select(y > 3, T.select(y > 4, (x ^ (x >> 1)) // y, x + x // y), 7),
        lambda x, y, a: (x ^ x >> 1) // y if y > 4 else x + x // y,
        7,
    ),
}


@pytest.mark.parametrize("steps", [3, 30])
@pytest.mark.parametrize("name", IN_ONE_ARM)
def test_what_one_arm_of_a_choice_shares_is_computed_once_and_only_where_that_arm_is_taken(name: str, steps) -> None:
    step, plain, otherwise = IN_ONE_ARM[name]

    def helper(x, y, A):
        for _ in range(steps):
            x = step(x, y, A)
        return x

    @T.prim_func
    def kernel(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
        T.cta_id([1])
        lane = T.thread_id([32])
        B[lane] = helper(lane + 100, A[lane], A)

    a, b = np.arange(32, dtype=np.int32) % 7, np.zeros(32, np.int32)
    tw.simulate(kernel, a, b, check="all")

    expected = []
    for lane, y in enumerate(a.tolist()):
        x = lane + 100
        for _ in range(steps):
            x = (plain(x, y, a.tolist()) + 2**31) % 2**32 - 2**31 if y > 3 else otherwise
        expected.append(x)
    assert b.tolist() == expected
    assert len(tw.compile(kernel, "sm_90a").source("cuda")) < 45_000
