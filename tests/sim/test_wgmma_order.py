"""The order that wgmma needs, for which `tests.model` has no words: its sources overwritten, or copied by cp.async."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.sim.wgmma_kernels import TILE
from tilewright import T, Tx
from tilewright.errors import SimulationError
from tilewright.layout import SwizzleMode, mma_shared_layout, wgmma_fragment


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


def brought(waits: int) -> Any:
    """TMA load s, mb ||c the first warps of a warpgroup wait; wgmma s."""

    @T.prim_func
    def multiplied(a: T.Buffer((64, 64), "bfloat16"), c: T.Buffer((64, 64), "float32")):
        T.cta_id([1])
        warp = T.warp_id([8])
        lane = T.lane_id([32])
        A = T.alloc_shared((64, 64), "bfloat16", layout=TILE, align=1024)
        bar = T.alloc_shared((1,), "uint64")
        D = T.alloc_local((64, 64), "float32", layout=wgmma_fragment(64, 64))
        if warp == 4 and lane == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        T.cuda.cta_sync()
        if warp == 4 and lane == 0:
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 64 * 64 * 2)
            Tx.copy_async(A, a, mbar=bar.ptr_to([0]))
        if warp < waits or warp >= 4:
            T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        if warp < 4:
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

    with pytest.raises(SimulationError, match="without a proxy fence"):
        run(fetched(fenced=False))


@pytest.mark.parametrize("waits", [1, 2, 4])
def test_each_warp_of_a_group_waits_for_what_a_copy_brings_it(waits: int) -> None:
    if waits == 4:
        assert run(brought(waits)) == []
        return
    with pytest.raises(SimulationError, match=r"wgmma\.mma_async\.ss reads A\[0, 0\], which .* may still not"):
        run(brought(waits))


def with_held_scalar(changes: str) -> Any:
    """A product whose A is a scalar in registers, or an array; changed before or after the wait."""

    @T.prim_func
    def k(b: T.Buffer((8, 64), "bfloat16"), c: T.Buffer((128, 4), "float32")):
        T.cta_id([1])
        tid = T.thread_id([128])
        rows = mma_shared_layout("bfloat16", SwizzleMode.SWIZZLE_128B_ATOM, (8, 64))
        B = T.alloc_shared((8, 64), "bfloat16", layout=rows, align=1024)
        D = T.alloc_local((4,), "float32")
        x: T.uint32 = 0
        y = T.alloc_local((1,), "uint32")
        desc = T.alloc_local((1,), "uint64")
        Tx.cta.copy(B, b)
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cta_sync()
        T.ptx.wgmma.encode_matrix_descriptor(desc.ptr_to([0]), B.ptr_to([0, 0]), 1, 64, 3)
        x = T.uint32(tid)
        y[0] = tid
        for i in T.unroll(4):
            D[i] = 0.0
        T.ptx.wgmma.fence()
        T.ptx.wgmma.mma_async.rs(desc[0], x, x, y[0], y[0], D[0], D[1], D[2], D[3], N=8, K=16, in_dtype="bfloat16")
        T.ptx.wgmma.commit_group()
        if changes == "x":
            x = T.uint32(0)
        if changes == "y":
            y[0] = 0
        T.ptx.wgmma.wait_group(0)
        x = x + y[0]
        for i in T.unroll(4):
            c[tid, i] = D[i] + T.cast(x, "float32")

    return k


@pytest.mark.parametrize("changes", ["x", "y", "after the wait"])
def test_a_scalar_that_an_operation_holds_keeps_its_value_until_the_wait(changes: str) -> None:
    arrays = np.ones((8, 64), ml_dtypes.bfloat16), np.zeros((128, 4), np.float32)
    if changes == "after the wait":
        assert not tw.simulate(with_held_scalar(changes), *arrays, target="sm_90a", check="all").warnings
        return
    with pytest.raises(SimulationError, match=f"{changes} is used while wgmma.mma_async.rs may not have read it"):
        tw.simulate(with_held_scalar(changes), *arrays, target="sm_90a", check="all")
