"""The rows of the memory model that need wgmma: overwriting its sources, and sources copied by cp.async."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.sim.wgmma_kernels import TILE
from tilewright import T, Tx
from tilewright.errors import SimulationError
from tilewright.layout import wgmma_fragment


def overwritten(arrives: str) -> Any:
    """px-wgmma-war: wgmma s; wait_group 0; arrive ||c wait; W s. arrives: "each", "first" or "one" for all four."""

    @T.prim_func
    def consumed(a: T.Buffer((64, 64), "bfloat16"), c: T.Buffer((64, 64), "float32")):
        T.cta_id([1])
        warp = T.warp_id([8])
        lane = T.lane_id([32])
        A = T.alloc_shared((64, 64), "bfloat16", layout=TILE)
        bar = T.alloc_shared((1,), "uint64")
        D = T.alloc_local((64, 64), "float32", layout=wgmma_fragment(64, 64))
        if warp == 4 and lane == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1 if arrives == "one" else 4)
        Tx.cta.copy(A, a)
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cta_sync()
        if warp < 4:
            T.ptx.wgmma.fence()
            Tx.wg.gemm_async(D, A, A)
            T.ptx.wgmma.commit_group()
            if arrives == "first" and lane == 0:
                T.ptx.mbarrier.arrive(bar.ptr_to([0]))
            T.ptx.wgmma.wait_group(0)
            if lane == 0 and (arrives == "each" or (arrives == "one" and warp == 0)):
                T.ptx.mbarrier.arrive(bar.ptr_to([0]))
            Tx.wg.copy(c, D)
        elif warp == 4:
            T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
            A[lane, 0] = T.bfloat16(0.0)

    return consumed


def fetched(*, fenced: bool) -> Any:
    """cpa, with wgmma s for R s: cp.async s; wait_group 0; (FPA;) bar; wgmma s."""

    @T.prim_func
    def multiplied(a: T.Buffer((64, 64), "bfloat16"), c: T.Buffer((64, 64), "float32")):
        T.cta_id([1])
        tid = T.thread_id([128])
        A = T.alloc_shared((64, 64), "bfloat16", layout=TILE)
        D = T.alloc_local((64, 64), "float32", layout=wgmma_fragment(64, 64))
        for i in T.unroll(4):
            row, part = tid // 2, tid % 2 * 4 + i
            T.ptx.cp_async(A.ptr_to([row, part * 8]), a.ptr_to([row, part * 8]), 16)
        T.ptx.cp_async.commit_group()
        T.ptx.cp_async.wait_group(0)
        if fenced:
            T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cta_sync()
        Tx.wg.gemm_async(D, A, A, sync=True)
        Tx.wg.copy(c, D)

    return multiplied


def run(kernel: Any) -> list[str]:
    a = np.random.default_rng(0).integers(-2, 3, (64, 64)).astype(np.float32)
    c = np.zeros((64, 64), np.float32)
    warnings = tw.simulate(kernel, a.astype("bfloat16"), c, check="all").warnings
    assert np.array_equal(c, a @ a.T)
    return warnings


def test_an_arrival_of_each_warp_after_its_wait_frees_what_was_read() -> None:
    assert run(overwritten("each")) == []


@pytest.mark.parametrize("arrives", ["first", "one"])
def test_a_wait_speaks_for_the_warp_that_waits_and_for_what_came_before(arrives: str) -> None:
    with pytest.raises(SimulationError, match=r"store overwrites shared memory that wgmma.mma_async.ss may still be"):
        run(overwritten(arrives))


def test_what_a_copy_has_brought_needs_a_proxy_fence_before_a_product_reads_it() -> None:
    assert run(fetched(fenced=True)) == []
    assert any("without a proxy fence" in warning for warning in run(fetched(fenced=False)))
