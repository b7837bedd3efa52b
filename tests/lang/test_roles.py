"""Rings of stages, roles and the barriers of `T.Pipeline`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import T, Tx
from tilewright.errors import KernelError, SimulationError

STAGES, STEPS = 2, 5


def ring(cluster: int = 1, *, drains: bool = True, releases: bool = True, consumers: int = 4) -> Any:
    """A warp loads rows of A, which four warps of another warpgroup add up; all CTAs of a cluster get the same."""

    everyone = 2**cluster - 1 if cluster > 1 else None

    @T.prim_func
    def added(A: T.Buffer((STEPS, 128), "float32"), B: T.Buffer((cluster, 128), "float32")):
        T.func_attr({"min_blocks": 1})
        rank = T.cta_id_in_cluster([cluster])
        T.cta_id([cluster])
        group, warp = T.warpgroup_id([2]), T.warp_id_in_wg([4])
        thread = T.thread_id_in_wg([128])
        pool = T.SMEMPool()
        stages = pool.alloc((STAGES, 128), "float32", align=128)
        handed = T.Pipeline(pool, STAGES, consumers=consumers, cluster=cluster)
        handed.ready()
        with T.WarpgroupRole(group, 0, 40):
            if warp == 0 and T.ptx.elect_sync():
                put = handed.producer(512)
                for i in range(STEPS):
                    put.acquire()
                    if rank == 0:
                        Tx.copy_async(stages[put.stage], A[i], mbar=put.full, cta_mask=everyone)
                    put.advance()
                if drains:
                    put.drain()
        with T.WarpgroupRole(group, 1, 232, increase=True):
            take = handed.consumer()
            total: T.float32 = 0
            for _ in range(STEPS):
                take.wait()
                total += stages[take.stage, thread]
                T.cuda.warp_sync()
                if releases:
                    take.release()
                take.advance()
            B[rank, thread] = total

    return added


@pytest.mark.parametrize("cluster", [1, 2])
def test_a_ring_goes_on_over_its_stages(cluster: int) -> None:
    a, b = np.arange(STEPS * 128, dtype=np.float32).reshape(STEPS, 128), np.zeros((cluster, 128), np.float32)
    tw.simulate(ring(cluster), a, b, target="sm_90a", check="all")
    assert (b == a.sum(axis=0)).all()


@pytest.mark.parametrize("wrong", [{"releases": False}, {"consumers": 5}])
def test_a_stage_that_is_not_released_by_all_blocks_the_producer(wrong: dict[str, Any]) -> None:
    a, b = np.ones((STEPS, 128), np.float32), np.zeros((1, 128), np.float32)
    with pytest.raises(SimulationError, match="deadlock"):
        tw.simulate(ring(**wrong), a, b, target="sm_90a")


def test_arrivals_follow_from_consumers_and_cluster() -> None:
    text = tw.compile(ring(2), target="sm_90a").source("lowered")
    assert "T.ptx.mbarrier.init" in text
    assert ", 8)" in text  # 4 warps of 2 CTAs


def test_an_arrival_at_a_stage_is_the_cheap_one() -> None:
    text = tw.compile(ring(2), target="sm_90a").source("cuda")
    assert "mbarrier.arrive.shared::cluster.b64 _" in text
    assert "arrive.release.cluster.shared" not in text


def test_a_kind_of_barrier_that_there_is_not_is_refused() -> None:
    with pytest.raises(KernelError, match="full= is no kind of barrier"):

        @T.prim_func
        def kernel(A: T.Buffer((1,), "float32")):
            T.thread_id([32])
            T.Pipeline(T.SMEMPool(), 2, full="tmb")


def test_barriers_of_tensor_cores_and_copies_are_accepted() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((1,), "float32")):
        T.cta_id([1])
        warp = T.warp_id([4])
        pool = T.SMEMPool()
        done, loaded = T.TCGen05Bar(pool, 2), T.TMABar(pool, 2)
        done.init(1)
        loaded.init(1)
        with T.WarpRole(warp, 1):
            if T.ptx.elect_sync():
                done.arrive(0)
                loaded.arrive(1, 64)

    text = tw.compile(kernel, target="sm_100a").source("ptx")
    assert "tcgen05.commit" in text
    assert "mbarrier.arrive.expect_tx" in text


def test_setmaxnreg_changes_nothing_on_the_simulator() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((128,), "float32")):
        T.cta_id([1])
        thread = T.thread_id([128])
        T.func_attr({"min_blocks": 1})
        T.ptx.setmaxnreg(False, 24)
        A[thread] = 1.0

    a = np.zeros(128, np.float32)
    tw.simulate(kernel, a, target="sm_90a")
    assert a.all()
