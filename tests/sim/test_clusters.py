"""CTAs of a cluster: their barrier, commits that reach several of them, and pairs that copy together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sim.tensor_kernels import IN_EVERY_QUARTER, TILE, line, refusal, simulate
from tilewright import T, Tx

WORDS = TILE.view(np.uint32)

# The barrier of a cluster


def relayed(*left_out: str, sem: str = "release") -> Any:
    """The CTA of rank 0 stores to global memory, that of rank 1 reads it behind the cluster's barrier."""
    has = {step: step not in left_out for step in ("arrive of rank 0", "wait")}

    @T.prim_func
    def relay(A: T.Buffer((2, 64), "int32"), B: T.Buffer((2, 64), "int32")):
        T.cta_id([4])
        cluster_id = T.cluster_id([2])
        rank = T.cta_id_in_cluster([2])
        tid = T.thread_id([64])
        if rank == 0:
            A[cluster_id, tid] = tid + 1000 * cluster_id  # stores
            if has["arrive of rank 0"]:
                T.ptx.barrier.cluster.arrive(sem=sem)
        else:
            T.ptx.barrier.cluster.arrive()
        if has["wait"]:
            T.ptx.barrier.cluster.wait()  # waits
        if rank == 1:
            B[cluster_id, tid] = A[cluster_id, 63 - tid]  # loads

    return relay


def rows() -> tuple[np.ndarray, np.ndarray]:
    return np.zeros((2, 64), np.int32), np.zeros((2, 64), np.int32)


def test_a_cluster_arrives_and_waits_in_two_steps() -> None:
    a, b = rows()

    simulate(relayed(), a, b, check="bounds,poison")
    assert np.array_equal(b, a[:, ::-1])


def test_a_cta_that_does_not_arrive_keeps_the_others_waiting() -> None:
    error = refusal(relayed("arrive of rank 0"), *rows())

    assert error.what.startswith("deadlock: ")
    assert f"{line('waits')}: ptx.barrier.cluster.wait" in str(error.given)
    assert "128 threads" in str(error.allowed)
    assert "64 have arrived" in str(error.allowed)


# Commits that reach several CTAs, and copies of a pair


def copied_in_pairs(*, mask: int | None = 3, group: int = 2) -> Any:
    """One thread of each cluster copies for both of its CTAs, or for its own; the commit tells those of the mask."""

    @T.prim_func
    def copy_in_pairs(A: T.Buffer((4, 32, 16), "uint8"), B: T.Buffer((4, 4, 32, 4), "uint32")):
        cta_id = T.cta_id([4])
        rank = T.cta_id_in_cluster([2])
        warp_id, lane_id, tid = T.warp_id([4]), T.lane_id([32]), T.thread_id([128])
        source = T.alloc_buffer((32, 16), "uint8", scope="shared", align=128)
        addr = T.alloc_shared([1], "uint32")
        done = T.alloc_shared([1], "uint64")
        words = T.alloc_local((4,), "uint32")
        if tid == 0:
            T.ptx.mbarrier.init(done.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        Tx.cta.copy(source[:, :], A[cta_id, :, :])
        T.ptx.fence.proxy_async("shared::cta")
        if warp_id == 0:
            T.ptx.tcgen05.alloc(T.address_of(addr), n_cols=32, cta_group=group)
        T.ptx.tcgen05.fence.before_thread_sync()
        T.cuda.cluster_sync()
        T.ptx.tcgen05.fence.after_thread_sync()
        tmem = T.decl_buffer((32, 16), "uint8", scope="tmem", allocated_addr=addr[0], layout=IN_EVERY_QUARTER)
        if tid == 0 and (rank == 0 or group == 1):
            Tx.copy_async(tmem[:, :], source[:, :], cta_group=group)  # copies
            if mask is None:
                T.ptx.tcgen05.commit(done.ptr_to([0]), cta_group=group)
            else:
                T.ptx.tcgen05.commit(done.ptr_to([0]), cta_group=group, cta_mask=mask)  # commits
        T.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)  # sees
        T.ptx.tcgen05.fence.after_thread_sync()
        T.ptx.tcgen05.ld(addr[0], *[words[i] for i in range(4)], shape="32x32b", num=4, row=warp_id * 32)
        T.ptx.tcgen05.wait.ld()
        for i in range(4):
            B[cta_id, warp_id, lane_id, i] = words[i]
        T.ptx.tcgen05.fence.before_thread_sync()
        T.cuda.cluster_sync()
        T.ptx.tcgen05.fence.after_thread_sync()
        if warp_id == 0:
            T.ptx.tcgen05.dealloc(addr[0], n_cols=32, cta_group=group)

    return copy_in_pairs


def four_tiles() -> tuple[np.ndarray, np.ndarray]:
    tiles = TILE[None] ^ np.arange(4, dtype=np.uint8)[:, None, None]
    return tiles, np.zeros((4, 4, 32, 4), np.uint32)


@pytest.mark.parametrize(("group", "mask"), [(2, 3), (1, None)])
def test_a_pair_copies_each_from_its_own_shared_memory(group: int, mask: int | None) -> None:
    a, b = four_tiles()

    assert simulate(copied_in_pairs(group=group, mask=mask), a, b) == []
    assert all(np.array_equal(b[cta, quarter], a[cta].view(np.uint32)) for cta in range(4) for quarter in range(4))


@pytest.mark.parametrize("mask", [None, 1])
def test_a_cta_that_the_commit_does_not_tell_waits_in_vain(mask: int | None) -> None:
    error = refusal(copied_in_pairs(mask=mask), *four_tiles())

    assert error.what == "deadlock: no thread can go on"
    assert f"{line('sees')}: ptx.mbarrier.try_wait: CTA (1, 0, 0)" in str(error.given)
    assert "1 of 1 arrivals are missing" in str(error.allowed)


def test_a_commit_tells_at_least_one_cta() -> None:
    error = refusal(copied_in_pairs(mask=0), *four_tiles())

    assert error.what == "cta_mask has a bit for each CTA of the cluster that is told, and none is set"
    assert str(error.at) == line("commits")
