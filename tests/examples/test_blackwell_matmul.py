"""The example of a product on a Blackwell: exact, no word from any check, CUDA that assembles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.examples.compute import module
from tests.examples.test_examples import without
from tilewright.errors import SimulationError
from tilewright.ir import Call, Evaluate, Kernel, statements

EXAMPLE = module("blackwell_matmul")


def run(kernel: Any) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """C, what it must be, and the warnings."""
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-2, 3, (rows, EXAMPLE.K)).astype(np.float32) for rows in (EXAMPLE.M, EXAMPLE.N))
    c = np.zeros((EXAMPLE.M, EXAMPLE.N), np.float32)
    made = tw.compile(kernel, target="sm_100a")
    warnings = made.simulate(a.astype("bfloat16"), b.astype("bfloat16"), c, check="all").warnings
    return c, a @ b.T, warnings


def test_the_product_is_exact_and_its_text_assembles() -> None:
    c, wanted, warnings = run(EXAMPLE.blackwell_matmul)

    assert np.array_equal(c, wanted)
    assert warnings == []
    assert "tcgen05.mma.cta_group::1.kind::f16" in tw.compile(EXAMPLE.blackwell_matmul, "sm_100a").source("ptx")


def calls(kernel: Kernel, word: str) -> list[Evaluate]:
    """The statements that call an instruction."""
    found = (stmt for stmt in statements(kernel.body) if isinstance(stmt, Evaluate) and isinstance(stmt.value, Call))
    return [stmt for stmt in found if isinstance(stmt.value, Call) and stmt.value.op.endswith(word)]


@pytest.mark.parametrize(
    ("word", "number", "what"),
    [
        ("commit", 0, "deadlock"),
        ("commit", 1, "deadlock"),
        ("try_wait", 0, "more arrivals than its phase waited for"),
        ("try_wait", 1, "may still not have written"),
        ("try_wait", 2, "which tcgen05.mma has not written yet"),
        ("wait.ld", 0, "is used while tcgen05.ld may not have filled it"),
        ("expect_tx", 0, "deadlock"),
    ],
)
def test_no_step_can_be_left_out(word: str, number: int, what: str) -> None:
    kernel = EXAMPLE.blackwell_matmul
    step = calls(kernel, word)[number]

    with pytest.raises(SimulationError) as error:
        run(without(kernel, step))

    assert what in error.value.what


def test_a_fence_that_lacks_behind_a_wait_is_a_warning() -> None:
    kernel = EXAMPLE.blackwell_matmul

    c, wanted, warnings = run(without(kernel, calls(kernel, "after_thread_sync")[1]))

    assert np.array_equal(c, wanted)
    assert [
        "without a fence between their threads: T.ptx.tcgen05.fence.after_thread_sync()" in each for each in warnings
    ] == [True]
