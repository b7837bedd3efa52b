"""What a helper uses twice in each of many steps: as many nodes as steps, not twice as many with each."""

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
