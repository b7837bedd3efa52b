"""Operations that all CTAs of a wave issue alike are checked once; a CTA that differs is found all the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.recording import results_of
from tilewright import T, Tx
from tilewright.errors import SimulationError
from tilewright.layout import mma_shared_layout, wgmma_fragment
from tilewright.sim.run.execution import Execution

CTAS, WRONG = 4, 2


def fetched(mistake: str, at: Any) -> Any:
    """Each CTA loads a tile of its own, multiplies it by itself, and loads the next one."""
    tiles = mma_shared_layout("bfloat16", 3, (64, 64))

    @T.prim_func
    def kernel(A: T.Buffer((64 * CTAS, 128), "bfloat16"), C: T.Buffer((64 * CTAS, 64), "float32")):
        cta = T.cta_id([CTAS])
        tid = T.thread_id([128])
        a = T.alloc_shared((64, 64), "bfloat16", layout=tiles, align=1024)
        bar = T.alloc_shared((1,), "uint64")
        empty = T.alloc_shared((1,), "uint64")
        sums = T.alloc_local((64, 64), "float32", layout=wgmma_fragment(64, 64))
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.mbarrier.init(empty.ptr_to([0]), 4)
            T.ptx.fence.mbarrier_init()
        T.cuda.cta_sync()
        for i in range(2):
            if tid == 0:
                T.ptx.mbarrier.try_wait(empty.ptr_to([0]), 1 - i)
                T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 64 * 128)
                Tx.copy_async(a, A[64 * cta : 64 * cta + 64, 64 * i : 64 * i + 64], mbar=bar.ptr_to([0]))
            if mistake != "wait" or not at(cta):
                T.ptx.mbarrier.try_wait(bar.ptr_to([0]), i)
            T.ptx.wgmma.fence()
            Tx.wg.gemm_async(sums, a, a, i != 0)
            T.ptx.wgmma.commit_group()
            if mistake != "wait_group" or not at(cta):
                T.ptx.wgmma.wait_group(0)
            if tid % 32 == 0:
                T.ptx.mbarrier.arrive(empty.ptr_to([0]))
        T.ptx.wgmma.wait_group(0)
        Tx.wg.copy(C[64 * cta : 64 * cta + 64, :], sums)

    return kernel


def run(kernel: Any) -> list[str]:
    a = np.random.default_rng(0).integers(-2, 3, (64 * CTAS, 128)).astype(np.float32)
    c = np.zeros((64 * CTAS, 64), np.float32)
    warnings = tw.simulate(kernel, a.astype("bfloat16"), c, check="all", target="sm_90a").warnings
    each = a.reshape(CTAS, 64, 128)
    assert np.array_equal(c.reshape(CTAS, 64, 64), each @ each.swapaxes(1, 2))
    return warnings


def test_ctas_that_do_the_same_get_each_its_own_values() -> None:
    assert run(fetched("", lambda cta: cta >= 0)) == []


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize(
    ("mistake", "what"),
    [("wait", "may still not have written"), ("wait_group", "may still not have read")],
)
def test_an_operation_too_early_is_told_of_one_cta_and_of_all(mistake: str, what: str, *, alike: bool) -> None:
    kernel = fetched(mistake, lambda cta: cta >= 0 if alike else cta == WRONG)

    with pytest.raises(SimulationError, match=what) as raised:
        run(kernel)

    assert f"CTA ({0 if alike else WRONG}, 0, 0)" in str(raised.value)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A kernel whose threads may be late for a phase is run in another order as well."""
    return results_of(monkeypatch, Execution, "__init__")


def test_lanes_that_executed_an_instruction_together_have_all_looked_at_the_phase(runs: list[Any]) -> None:
    run(fetched("", lambda cta: cta >= 0))

    assert len(runs) == 1


@pytest.mark.parametrize("sem", ["release", "relaxed"])
def test_an_arrival_tells_nothing_of_a_wait_by_a_warp_that_arrives_elsewhere(sem: str, runs: list[Any]) -> None:
    @T.prim_func
    def kernel(out: T.Buffer((2,), "uint32")):
        T.cta_id([1])
        warp, lane = T.warp_id([2]), T.lane_id([32])
        bar = T.alloc_shared((2,), "uint64")
        if warp == 0 and lane == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.mbarrier.init(bar.ptr_to([1]), 1)
        T.cuda.cta_sync()
        if lane == 0:
            if warp == 1:
                T.ptx.mbarrier.arrive(bar.ptr_to([1]))
            T.ptx.mbarrier.try_wait(bar.ptr_to([1]), 0)
            T.ptx.fence("acq_rel", "cta")
            T.ptx.mbarrier.arrive(bar.ptr_to([warp]), sem=sem, scope="cta")  # warp 0 may still look for phase 0 of 1
            out[warp] = T.uint32(1)

    tw.simulate(kernel, np.zeros(2, np.uint32), target="sm_90", check="all")

    assert len(runs) == 2


def stored(*, meets: bool) -> Any:
    """In the last CTA of a cluster one warp writes a tile that another one has stored to an array."""

    @T.prim_func
    def kernel(out: T.Buffer((8, 32), "float32")):
        rank = T.cta_id_in_cluster([2])
        T.cta_id([2])
        warp = T.warp_id([2])
        lane = T.lane_id([32])
        tile = T.alloc_shared((8, 32), "float32", align=128)
        if rank == 1 and warp == 0:
            for i in range(8):
                tile[i, lane] = T.float32(1)
            T.ptx.fence.proxy_async("shared::cta")
        if meets:
            T.cuda.cta_sync()
        if rank == 1 and warp == 1 and lane == 0:
            Tx.copy_async(out, tile)
            T.ptx.cp_async.bulk.commit_group()
            T.ptx.cp_async.bulk.wait_group(0)

    return kernel


def test_an_operation_of_one_cta_of_a_cluster_is_held_against_what_its_threads_did() -> None:
    tw.simulate(stored(meets=True), np.zeros((8, 32), np.float32), target="sm_90a", check="all")

    with pytest.raises(SimulationError, match="race"):
        tw.simulate(stored(meets=False), np.zeros((8, 32), np.float32), target="sm_90a", check="all")
