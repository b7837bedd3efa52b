"""Products into tensor memory by the rows of the memory model: right pipelines, and each with a step left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sim.tmem_kernels import refusal, simulate
from tests.sim.umma_kernels import K, operands, pair, product, ring, through_tmem, two_accumulators, two_pairs

OVERWRITES = "overwrites shared memory that tcgen05.mma may still be reading"
MMA_OVER_MMA = "tcgen05.mma touches tensor memory that tcgen05.mma may still not have written"


def zeros(*more: int) -> np.ndarray:
    return np.zeros((*more, 128, 32), np.float32)


def error_of(kernel: Any, turns: int, c: np.ndarray) -> Any:
    a, b, _ = operands(turns)
    return refusal(kernel, a, b, c)


def test_a_product_of_several_tiles_is_exact_and_without_warnings() -> None:
    a, b, wanted = operands(3)
    c = zeros()

    assert simulate(product(turns=3), a, b, c) == []
    assert np.array_equal(c, wanted)


def test_a_warp_knows_what_each_of_its_lanes_has_waited_for() -> None:
    a, b, wanted = operands(2)
    c = zeros()

    assert simulate(product(parted=True), a, b, c) == []
    assert np.array_equal(c, wanted)


@pytest.mark.parametrize("wrong", ["no proxy fence", "proxy fence too early", "proxy fence of one warp"])
def test_stores_need_a_proxy_fence_before_a_product_reads_them(wrong: str) -> None:
    a, b, _ = operands(2)

    error = refusal(product(wrong), a, b, zeros())

    first = int(wrong == "proxy fence of one warp")
    assert error.what == f"tcgen05.mma reads A, stored by warp {first} without a proxy fence"
    assert str(error.hint).startswith("T.ptx.fence.proxy_async()")


@pytest.mark.parametrize(
    ("wrong", "what", "hint"),
    [
        ("no barrier", "race: tcgen05.mma reads A", "T.cuda.cta_sync() between line"),
        ("no commit", "deadlock: no thread can go on", "T.ptx.tcgen05.commit(...) after the tcgen05.mma at"),
        ("no wait", OVERWRITES, "a wait for the phase (parity 0)"),
        ("no wait for the sources", OVERWRITES, "a wait for the phase (parity 0)"),
        ("D from nowhere", "a value is uninitialised", ""),
        ("given back too early", "tensor memory that is not allocated: lanes 0..31, columns 0..31, given back at", ""),
        ("another accumulator overlaps", MMA_OVER_MMA, "T.ptx.tcgen05.commit(...) after the tcgen05.mma"),
        ("another shape", MMA_OVER_MMA, "T.ptx.tcgen05.commit(...) after the tcgen05.mma"),
        ("wrong descriptor", "instruction descriptor: reserved bits is 0x08880490, which sets bits 23", ""),
    ],
)  # fmt: skip
def test_a_step_that_is_missing_is_named(wrong: str, what: str, hint: str) -> None:
    error = error_of(product(wrong), 2, zeros())

    assert what in error.what
    assert str(error.hint or "").find(hint) >= 0


def test_without_a_wait_for_the_last_product_its_result_is_not_there() -> None:
    error = error_of(product("no wait", turns=1), 1, zeros())

    assert error.what == "tcgen05.ld touches tensor memory that tcgen05.mma may still not have written"
    assert "a wait for the phase (parity 0) of the m-barrier that the commit at" in error.hint


def test_one_accumulator_is_read_while_the_other_is_computed() -> None:
    a, b, _ = operands(4)
    c = zeros(4)

    assert simulate(two_accumulators(), a, b, c) == []
    for turn in range(4):
        here = slice(turn * K, turn * K + K)
        assert np.array_equal(c[turn], a[:, here].astype(np.float32) @ b[:, here].astype(np.float32).T)


def test_a_result_that_is_loaded_behind_a_wait_without_a_fence_is_a_warning() -> None:
    a, b, wanted = operands(2)
    c = zeros()

    (warning,) = simulate(product("no fence after the wait"), a, b, c)

    assert "tcgen05.ld touches tensor memory that the tcgen05.mma at" in warning
    assert "T.ptx.tcgen05.fence.after_thread_sync() after the wait" in warning
    assert np.array_equal(c, wanted)


def test_an_accumulator_is_computed_anew_once_its_loads_are_over() -> None:
    error = error_of(two_accumulators("wait::ld"), 4, zeros(4))

    assert error.what == "tcgen05.mma touches tensor memory that tcgen05.ld may still not have read"
    assert "a barrier after T.ptx.tcgen05.wait.ld() by the warp that issued it" in error.hint


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ("before", "T.ptx.tcgen05.fence.before_thread_sync() by the warp that has waited"),
        ("after", "T.ptx.tcgen05.fence.after_thread_sync() after the wait or the barrier"),
    ],
)
def test_loads_that_are_over_for_all_but_the_fences_are_a_warning(wrong: str, hint: str) -> None:
    a, b, _ = operands(4)

    said = simulate(two_accumulators(wrong), a, b, zeros(4))

    (warning,) = (one for one in said if "tcgen05.mma touches tensor memory that the tcgen05.ld at" in one)
    assert hint in warning


def test_a_full_accumulator_is_waited_for() -> None:
    error = error_of(two_accumulators("empty"), 4, zeros(4))

    assert error.what.startswith("tcgen05.")
    assert "may still not have" in error.what


def test_a_ring_of_stages_by_tma_is_handed_back_by_commits() -> None:
    a, b, wanted = operands(5)
    c = zeros()

    assert simulate(ring(turns=5), a, b, c) == []
    assert np.array_equal(c, wanted)


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ("no wait for TMA", "tcgen05.mma reads A[0, 0, 0], which cp_async.bulk.tensor.g2c may still not have written"),
        ("stage handed back too early", "writes A[0, 0, 0], which tcgen05.mma may still not have read"),
        ("stage never waited for", "the m-barrier got more arrivals than its phase waited for"),
        ("few bytes", "deadlock: no thread can go on"),
    ],
)
def test_each_wait_of_the_ring_is_needed(wrong: str, what: str) -> None:
    error = error_of(ring(wrong), 4, zeros())

    assert what in error.what


@pytest.mark.parametrize("how", ["copied", "crosses", "stored"])
def test_a_may_come_through_tensor_memory(how: str) -> None:
    """A copy and the product after it keep their order by themselves; across threads two fences and a meeting do."""
    a, b, wanted = operands(1)
    c = zeros()

    assert simulate(through_tmem(how), a, b, c) == []
    assert np.array_equal(c, wanted)


@pytest.mark.parametrize(
    ("how", "wrong", "hint"),
    [
        ("crosses", "before", "T.ptx.tcgen05.fence.before_thread_sync() by the thread that issued it, and a barrier"),
        ("crosses", "after", "T.ptx.tcgen05.fence.after_thread_sync() after the wait or the barrier"),
        ("stored", "wait::st", "T.ptx.tcgen05.wait.st() between line"),
    ],
)
def test_what_brings_a_there_comes_before_the_product(how: str, wrong: str, hint: str) -> None:
    error = error_of(through_tmem(how, wrong), 1, zeros())

    did = "st" if how == "stored" else "cp"
    assert error.what == f"tcgen05.mma touches tensor memory that tcgen05.{did} may still not have written"
    assert hint in error.hint


# Two CTAs together


def operands_of_pair(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(rows)
    a, b = (rng.integers(-2, 3, (n, K)).astype(np.float32) for n in (rows, 32))
    return a.astype("bfloat16"), b.astype("bfloat16"), a @ b.T


@pytest.mark.parametrize("rows", [128, 256])
def test_a_pair_of_ctas_multiplies_together(rows: int) -> None:
    a, b, wanted = operands_of_pair(rows)
    c = np.zeros((rows, 32), np.float32)

    assert simulate(pair(rows), a, b, c) == []
    assert np.array_equal(c, wanted)


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ("meeting", "race: tcgen05.mma reads A"),
        ("multicast", "deadlock: no thread can go on"),
    ],
)
def test_a_pair_needs_to_meet_and_to_be_told(wrong: str, what: str) -> None:
    a, b, _ = operands_of_pair(256)

    assert what in refusal(pair(256, wrong), a, b, np.zeros((256, 32), np.float32)).what


def test_the_other_cta_of_a_pair_fences_its_own_stores() -> None:
    a, b, _ = operands_of_pair(256)

    error = refusal(pair(256, "proxy fence"), a, b, np.zeros((256, 32), np.float32))

    assert "tcgen05.mma reads A, stored by warp 0 without a proxy fence" in error.what


@pytest.mark.parametrize("lazy", range(4))
def test_what_a_pair_lacks_is_told_of_the_cta_that_issued_its_product(lazy: int) -> None:
    a, b, _ = operands_of_pair(128)

    error = refusal(two_pairs(lazy), a, b[:16])

    assert error.what == "a value is uninitialised"
    assert error.given == f"a, an operand of tcgen05.mma, issued by CTA ({lazy // 2 * 2}, 0, 0), warp 0, lane 0"
