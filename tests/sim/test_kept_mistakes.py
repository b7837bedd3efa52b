"""A and metadata in tensor memory, kept columns, collectors: right products are silent, and each mistake is told."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.kept_mistakes import BY_ANOTHER, MISTAKES, RIGHT, SAME, Kept, changed, kept
from tests.sim.tmem_kernels import refusal, simulate


@pytest.mark.parametrize("case", RIGHT.values(), ids=list(RIGHT))
def test_a_right_product_is_exact_and_without_a_word(case: Kept) -> None:
    *args, wanted = case.inputs()

    assert simulate(kept(case), *args) == []
    assert np.array_equal(args[-1], wanted)


@pytest.mark.parametrize("case", BY_ANOTHER.values(), ids=list(BY_ANOTHER))
def test_another_thread_may_bring_what_a_product_reads_there(case: Kept) -> None:
    *args, wanted = case.inputs()

    assert simulate(kept(case, "another thread"), *args) == []
    assert np.array_equal(args[-1], wanted)


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("wrong", "case", "said"), [(name, *row) for name, row in MISTAKES.items()], ids=list(MISTAKES)
)
def test_a_mistake_is_told(wrong: str, case: Kept, said: str) -> None:
    *args, _ = case.inputs()

    assert said in refusal(kept(case, wrong), *args).what


@pytest.mark.every(3)
@pytest.mark.parametrize(("case", "wrong"), SAME.values(), ids=list(SAME))
def test_a_mistake_is_told_in_another_kernel(case: Kept, wrong: str) -> None:
    *args, _ = case.inputs()

    assert "tensor memory" in refusal(kept(case, wrong), *args).what


def small() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-2, 3, (rows, 16)).astype("bfloat16") for rows in (128, 64))
    return a, b, np.zeros((128, 64), np.float32)


@pytest.mark.parametrize("how", ["shared", "tmem", "b1"])
def test_a_collector_is_filled_anew_after_its_matrix_has_changed(how: str) -> None:
    error = refusal(changed(how), *small())

    assert error.what.endswith("uses a collector whose matrix has changed since a product filled it")
    assert f"collector::{'b1' if how == 'b1' else 'a'}::lastuse" in str(error.given)
    assert simulate(changed(how, again=True), *small()) == []
