"""CTAs of a cluster: their barrier, commits that reach several of them, and pairs that copy together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.keywords import CtaGroup
from tests.sim.tmem_kernels import IN_EVERY_QUARTER, TILE, line, refusal, simulate
from tilewright import T, Tx
from tilewright.errors import InstructionError

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

    assert simulate(relayed(), a, b) == []
    assert np.array_equal(b, a[:, ::-1])


def test_ctas_of_a_cluster_that_do_not_meet_race() -> None:
    error = refusal(relayed("wait"), *rows(), check="races")

    assert error.what.startswith("race: load reads A[0, ")
    assert str(error.at) == line("loads")
    assert f"written at {line('stores')}: CTA (0, 0, 0), warp 1" in str(error.given)
    assert str(error.hint).startswith("T.cuda.cluster_sync() between line ")


def test_who_arrives_relaxed_publishes_nothing() -> None:
    error = refusal(relayed(sem="relaxed"), *rows(), check="races")

    assert error.what.startswith("race: load reads A[0, ")


def gathered(*, meets: bool) -> Any:
    """The first lanes of a warp store to a CTA each."""

    @T.prim_func
    def gather(B: T.Buffer((4, 4), "int32")):
        T.cluster_id([1])
        rank, lane = T.cta_id_in_cluster([4]), T.lane_id([32])
        slots = T.alloc_shared((4,), "int32")
        T.cuda.cluster_sync()
        if lane < 4:
            T.ptx.st(T.ptx.mapa(slots.ptr_to([rank]), lane), 10 * rank + lane, space="shared::cluster")  # visits
        if meets:
            T.cuda.cluster_sync()
            if lane < 4:
                B[rank, lane] = slots[lane]

    return gather


def test_lanes_of_a_warp_may_store_to_several_ctas() -> None:
    b = np.zeros((4, 4), np.int32)

    assert simulate(gathered(meets=True), b) == []
    assert np.array_equal(b, np.add.outer(np.arange(4), 10 * np.arange(4)))


def test_each_cta_that_a_warp_stores_to_must_still_be_there() -> None:
    error = refusal(gathered(meets=False), np.zeros((4, 4), np.int32))

    assert error.what == "the shared memory of another CTA is touched, which may have ended by then"
    assert str(error.at) == line("visits")


def handed_round(*, sem: str = "release", size: int = 4) -> Any:
    """Each CTA of a cluster signals the next one's m-barrier, once the one before has signalled its own."""

    @T.prim_func
    def hand_round(A: T.Buffer((8, 64), "int32"), B: T.Buffer((8, 64), "int32")):
        cta_id = T.cta_id([8])
        T.cluster_id([8 // size])
        rank = T.cta_id_in_cluster([size])
        tid = T.thread_id([64])
        bar = T.alloc_shared([1], "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 64)
        T.ptx.fence.mbarrier_init()
        T.cuda.cluster_sync()
        A[cta_id, tid] = cta_id * 100 + tid  # everyone
        if rank > 0:
            T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0, scope="cluster")
        if rank + 1 < size:
            next: T.let = T.ptx.mapa(bar.ptr_to([0]), rank + 1)
            T.ptx.mbarrier.arrive(next, sem=sem, scope="cluster", space="shared::cluster")
        else:
            B[cta_id, tid] = A[cta_id - rank, 63 - tid]  # the last of the first
        T.cuda.cluster_sync()

    return hand_round


@pytest.mark.parametrize("size", [2, 4, 8])
def test_m_barriers_hand_on_what_their_cta_has_heard(size: int) -> None:
    a, b = np.zeros((8, 64), np.int32), np.zeros((8, 64), np.int32)

    assert simulate(handed_round(size=size), a, b) == []
    for last in range(size - 1, 8, size):
        assert np.array_equal(b[last], a[last - size + 1, ::-1])


def test_a_relaxed_arrival_hands_nothing_on() -> None:
    a, b = np.zeros((8, 64), np.int32), np.zeros((8, 64), np.int32)

    error = refusal(handed_round(sem="relaxed"), a, b, check="races")

    assert error.what.startswith("race: load reads A[0, ")
    assert f"written at {line('everyone')}: CTA (0, 0, 0)" in str(error.given)


def test_a_cta_that_waits_has_arrived() -> None:
    error = refusal(relayed("arrive of rank 0"), *rows())

    assert error.what == "ptx.barrier.cluster.wait: a warp waits and has not arrived at the cluster's barrier"
    assert str(error.at) == line("waits")
    assert "CTA (0, 0, 0), warp 0" in str(error.given)


def test_a_warp_may_wait_for_one_meeting_while_others_arrive_at_the_next() -> None:
    @T.prim_func
    def ahead(A: T.Buffer((2, 128), "int32"), B: T.Buffer((2, 32), "int32")):
        cta_id = T.cta_id([2])
        T.cta_id_in_cluster([2])
        warp_id, lane_id, tid = T.warp_id([4]), T.lane_id([32]), T.thread_id([128])
        A[cta_id, tid] = tid + 1
        T.ptx.barrier.cluster.arrive()
        if warp_id != 2:
            T.ptx.barrier.cluster.wait()
            T.ptx.barrier.cluster.arrive()
        else:
            T.ptx.barrier.cluster.wait()
            B[cta_id, lane_id] = A[1 - cta_id, 127 - lane_id]
            T.ptx.barrier.cluster.arrive()
        T.ptx.barrier.cluster.wait()

    a, b = np.zeros((2, 128), np.int32), np.zeros((2, 32), np.int32)

    assert simulate(ahead, a, b) == []
    assert b.tolist() == [list(range(128, 96, -1))] * 2


# Commits that reach several CTAs, and copies of a pair


def copied_in_pairs(*, mask: int | None = 3, group: CtaGroup = 2) -> Any:
    """One thread of each cluster copies for both CTAs, or for its own; the commit arrives at those of the mask."""

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
def test_a_pair_copies_each_from_its_own_shared_memory(group: CtaGroup, mask: int | None) -> None:
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
    with pytest.raises(InstructionError, match="cta_mask"):
        refusal(copied_in_pairs(mask=0), *four_tiles())


@pytest.mark.parametrize(("mask", "bit"), [(4, 2), (7, 2), (0x8003, 15)])
def test_a_commit_tells_only_ctas_that_the_cluster_has(mask: int, bit: int) -> None:
    error = refusal(copied_in_pairs(mask=mask), *four_tiles())

    assert error.what == f"cta_mask has bit {bit}, but the ranks of the cluster's CTAs are 0..1"
    assert str(error.at) == line("commits")


# A pipeline of pairs


ROUNDS = 6


@T.inline
def meet_the_pair():
    """All threads of the pair meet, with the fences of tensor memory."""
    T.ptx.tcgen05.fence.before_thread_sync()
    T.cuda.cluster_sync()
    T.ptx.tcgen05.fence.after_thread_sync()


@T.inline
def make(bars, count, tid):
    """Two m-barriers."""
    if tid == 0:
        for place in range(2):
            T.ptx.mbarrier.init(bars.ptr_to([place]), count)
    T.ptx.fence.mbarrier_init()


@T.inline
def stage(source, place, A, cta_id, i, lane_id):
    """A warp writes a tile."""
    for c in range(16):
        source[place, lane_id, c] = A[cta_id, i, lane_id, c]
    T.ptx.fence.proxy_async("shared::cta")
    T.cuda.warp_sync()


@T.inline
def tell(bars, place, rank, lane_id):
    """A warp arrives at the m-barrier of a CTA of the cluster."""
    T.cuda.warp_sync()
    if lane_id == 0:
        T.ptx.mbarrier.arrive(T.ptx.mapa(bars.ptr_to([place]), rank), space="shared::cluster")


def pair_ring(*left_out: str, clusters: int = 1) -> Any:  # noqa: C901  branches of Python, decided while it is parsed
    """Warp 4 of each CTA stages tiles; a thread of rank 0 has both copied, in turn to two places; warps 0 to 3 of both
    load them, and arrive at rank 0's own m-barrier once the place is empty.
    """
    ctas = 2 * clusters
    has = {step: step not in left_out for step in ("remote arrive", "whole mask", "wait for the load", "before")}

    @T.prim_func
    def ring(A: T.Buffer((ctas, ROUNDS, 32, 16), "uint8"), B: T.Buffer((ctas, ROUNDS, 4, 32, 4), "uint32")):  # noqa: C901  branches of Python, decided while it is parsed
        cta_id, rank = T.cta_id([ctas]), T.cta_id_in_cluster([2])
        warp_id, lane_id, tid = T.warp_id([5]), T.lane_id([32]), T.thread_id([160])
        source = T.alloc_buffer((2, 32, 16), "uint8", scope="shared", align=128)
        addr = T.alloc_shared([1], "uint32")
        full, empty = T.alloc_shared([2], "uint64"), T.alloc_shared([2], "uint64")
        staged = T.alloc_shared([2], "uint64")
        words = T.alloc_local((4,), "uint32")
        make(full, 1, tid)
        make(empty, 8, tid)
        make(staged, 2, tid)
        if warp_id == 0:
            T.ptx.tcgen05.alloc(T.address_of(addr), n_cols=32, cta_group=2)
        meet_the_pair()
        if warp_id == 4:
            for i in T.serial(ROUNDS):
                place = i % 2
                column = T.cast(4 * place, "uint32")
                tmem = T.decl_buffer(
                    (32, 16), "uint8", scope="tmem", allocated_addr=addr[0] + column, layout=IN_EVERY_QUARTER
                )
                if i >= 2:
                    T.ptx.mbarrier.try_wait(full.ptr_to([place]), (i // 2 + 1) % 2)  # the source is read
                stage(source, place, A, cta_id, i, lane_id)
                tell(staged, place, 0, lane_id)
                if rank == 0:
                    T.ptx.mbarrier.try_wait(staged.ptr_to([place]), i // 2 % 2, scope="cluster")
                    T.ptx.mbarrier.try_wait(empty.ptr_to([place]), (i // 2 + 1) % 2, scope="cluster")
                    T.ptx.tcgen05.fence.after_thread_sync()
                    if T.ptx.elect_sync():
                        Tx.copy_async(tmem[:, :], source[place, :, :], cta_group=2)  # copies for both
                        mask = 3 if has["whole mask"] else 1
                        T.ptx.tcgen05.commit(full.ptr_to([place]), cta_group=2, cta_mask=mask)
        else:
            for i in T.serial(ROUNDS):
                place = i % 2
                T.ptx.mbarrier.try_wait(full.ptr_to([place]), i // 2 % 2, scope="cluster")  # waits for full
                T.ptx.tcgen05.fence.after_thread_sync()
                column = T.cast(4 * place, "uint32")
                T.ptx.tcgen05.ld(
                    addr[0] + column, *[words[j] for j in range(4)], shape="32x32b", num=4, row=warp_id % 4 * 32
                )
                if has["wait for the load"]:
                    T.ptx.tcgen05.wait.ld()
                if has["before"]:
                    T.ptx.tcgen05.fence.before_thread_sync()
                tell(empty, place, 0 if has["remote arrive"] else rank, lane_id)
                T.ptx.tcgen05.wait.ld()
                for j in range(4):
                    B[cta_id, i, warp_id % 4, lane_id, j] = words[j]
        meet_the_pair()
        if warp_id == 0:
            T.ptx.tcgen05.dealloc(addr[0], n_cols=32, cta_group=2)

    return ring


def staged_tiles(clusters: int = 1) -> tuple[np.ndarray, np.ndarray]:
    a = np.random.default_rng(0).integers(0, 256, (2 * clusters, ROUNDS, 32, 16), np.uint8)
    return a, np.zeros((2 * clusters, ROUNDS, 4, 32, 4), np.uint32)


@pytest.mark.parametrize("clusters", [1, 3, 17])
def test_pairs_go_round_a_ring_together(clusters: int) -> None:
    a, b = staged_tiles(clusters)

    assert simulate(pair_ring(clusters=clusters), a, b) == []
    assert (b == a.view(np.uint32)[:, :, None]).all()


@pytest.mark.parametrize("left_out", ["remote arrive", "whole mask"])
def test_whoever_is_not_told_waits_in_vain(left_out: str) -> None:
    error = refusal(pair_ring(left_out), *staged_tiles())

    assert error.what == "deadlock: no thread can go on"
    assert line("waits for full") in str(error.given)
    assert "of the m-barrier full[0] of CTA " in str(error.allowed)


def test_a_place_is_empty_once_its_load_is_complete() -> None:
    error = refusal(pair_ring("wait for the load"), *staged_tiles())

    assert error.what == "tcgen05.cp touches tensor memory that tcgen05.ld may still not have read"
    assert line("copies for both") in str(error.given)
    assert "a barrier after T.ptx.tcgen05.wait.ld() by the warp that issued it" in str(error.hint)


def test_a_place_whose_load_is_complete_and_not_fenced_is_a_warning() -> None:
    (warning,) = simulate(pair_ring("before"), *staged_tiles())

    assert "without a fence between their threads: T.ptx.tcgen05.fence.before_thread_sync()" in warning
