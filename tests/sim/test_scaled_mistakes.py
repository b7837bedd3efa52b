"""Products with scales, metadata and collectors, and of pairs: right ones are silent, and each mistake is told."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.scaled_mistakes import (
    COLLECTED,
    COLLECTED_RIGHT,
    SPARSE,
    STEPS,
    WARNED,
    collected,
    collected_inputs,
    scaled_inputs,
    scaled_steps,
    scaled_wanted,
    sparse,
    sparse_inputs,
)
from tests.sim.tmem_kernels import refusal, simulate
from tests.tile.scaled_kernels import ScaledCase, of_a_pair

PAIR = ScaledCase(256, 64, 128)
IN_A_PAIR = {
    "both issue": "tcgen05.cp touches tensor memory that tcgen05.cp may still not have written",
    "alone": "tensor memory is given back that tcgen05.ld may still not have read",
    "peer refills": "store overwrites shared memory that tcgen05.mma.block_scale may still be reading",
    "peer scales": "a value is uninitialised",
    "early": "tensor memory that is not allocated",
}


@pytest.mark.every(2)
@pytest.mark.parametrize("turns", [1, 2, 3])
@pytest.mark.parametrize("how", ["", "other thread", "stored", "twice"])
def test_scales_may_come_by_any_way_that_is_waited_for(how: str, turns: int) -> None:
    args = scaled_inputs(turns)

    assert simulate(scaled_steps("", turns, how), *args) == []
    assert np.array_equal(args[-1], scaled_wanted(*args[:4]))


@pytest.mark.every(3)
@pytest.mark.parametrize(("wrong", "said"), STEPS.items(), ids=list(STEPS))
def test_a_step_of_a_product_with_scales_that_is_wrong_is_told(wrong: str, said: str) -> None:
    assert said in refusal(scaled_steps(wrong), *scaled_inputs(2)).what


def test_a_product_reads_tiles_behind_a_proxy_fence() -> None:
    error = refusal(scaled_steps("no proxy fence"), *scaled_inputs(2))

    assert error.what == "tcgen05.mma.block_scale reads A, stored by warp 0 without a proxy fence"


@pytest.mark.parametrize(("wrong", "said"), WARNED.items(), ids=list(WARNED))
def test_a_fence_that_is_missing_is_a_warning(wrong: str, said: str) -> None:
    warnings = simulate(scaled_steps(wrong), *scaled_inputs(2))

    assert any(said in one for one in warnings)


@pytest.mark.parametrize(("family", "steps", "said"), COLLECTED.values(), ids=list(COLLECTED))
def test_a_collector_is_used_for_what_it_holds(family: str, steps: tuple[str, ...], said: str) -> None:
    a, b, c, _ = collected_inputs(family, steps)

    assert said in refusal(collected(family, steps), a, b, c).what


@pytest.mark.parametrize(("family", "steps"), COLLECTED_RIGHT.values(), ids=list(COLLECTED_RIGHT))
def test_a_collector_changes_no_value(family: str, steps: tuple[str, ...]) -> None:
    a, b, c, wanted = collected_inputs(family, steps)

    assert simulate(collected(family, steps), a, b, c) == []
    assert np.array_equal(c, wanted)


def test_a_matrix_in_a_collector_stays_as_it_is_until_all_its_products_are_over() -> None:
    steps = ("0 a::fill", "0 a::use")
    a, b, c, _ = collected_inputs("", steps)

    assert "overwrites shared memory that tcgen05.mma" in refusal(collected("", steps, "while used"), a, b, c).what


def test_a_sparse_product_by_its_metadata_is_exact() -> None:
    a, b, c, wanted = sparse_inputs()

    assert simulate(sparse(), a, b, c) == []
    assert np.array_equal(c, wanted)


@pytest.mark.every(3)
@pytest.mark.parametrize(("wrong", "said"), SPARSE.items(), ids=list(SPARSE))
def test_a_step_of_a_sparse_product_that_is_wrong_is_told(wrong: str, said: str) -> None:
    a, b, c, _ = sparse_inputs()

    assert said in refusal(sparse(wrong), a, b, c).what


@pytest.mark.parametrize(("wrong", "said"), IN_A_PAIR.items(), ids=list(IN_A_PAIR))
def test_a_pair_whose_ctas_do_not_agree_is_told(wrong: str, said: str) -> None:
    assert said in refusal(of_a_pair(128, PAIR, wrong), *PAIR.inputs()).what


def test_the_other_cta_of_a_pair_fences_its_tiles() -> None:
    error = refusal(of_a_pair(128, PAIR, "peer fence"), *PAIR.inputs())

    assert error.what == "tcgen05.mma.block_scale reads A, stored by warp 0 without a proxy fence"
