"""Generic addresses of another CTA's shared memory, as `map_shared_rank` gives them, work wherever a pointer does."""

# ruff: noqa: C901  # kernels with a branch for each way, which Python takes while it parses
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import T

WAYS = ("load", "volatile load", "store", "strong store", "atom", "red", "atomic_add", "view", "vector")


def peer(way: str, *, written: bool = True, first: bool = True, then: bool = True, beyond: int = 0) -> Any:
    """Each CTA of a cluster of two accesses the other one's shared memory; first, then: the cluster's barriers."""

    @T.prim_func
    def kernel(out: T.Buffer((2, 32), "int32")):
        rank = T.cta_id_in_cluster([2])
        T.cta_id([2])
        lane = T.lane_id([32])
        s = T.alloc_shared((32,), "int32", align=16)
        if written:
            s[lane] = 100 * rank + lane
        if first:
            T.cuda.cluster_sync()
        far = T.cuda.map_shared_rank(s.ptr_to([lane]), 1 - rank) + T.uint64(beyond)
        got: T.int32 = 0
        if way == "load":
            got = T.ptx.ld(far, type="s32")
        elif way == "volatile load":
            got = T.ptx.ld(far, sem="volatile", type="s32")
        elif way == "store":
            T.ptx.st(far, 7 + lane)
        elif way == "strong store":
            T.ptx.st(far, 7 + lane, sem="relaxed", scope="cluster")
        elif way == "atom":
            got = T.ptx.atom.add(far, T.int32(5), scope="cluster")
        elif way == "red":
            T.ptx.red.add(far, T.int32(5), scope="cluster")
        elif way == "atomic_add":
            got = T.cuda.atomic_add(far, 5)
        elif way == "view":
            there = T.decl_buffer((1,), "int32", data=far, scope="shared")
            got = there[0]
        else:
            four = T.alloc_local((4,), "int32")
            row = T.cuda.map_shared_rank(s.ptr_to([lane // 4 * 4]), 1 - rank)
            T.cuda.copy_bytes(four.ptr_to([0]), row, 16)
            got = four[lane % 4]
        if then:
            T.cuda.cluster_sync()
        out[rank, lane] = s[lane] * 1000 + got

    return kernel


def found(kernel: Any) -> Any:
    (finding,) = [one for one in tw.check(kernel, target="sm_90a").findings if one.severity == "error"]
    return finding


@pytest.mark.parametrize("way", WAYS)
def test_a_pointer_into_another_cta_is_followed_by_every_access(way: str) -> None:
    out = np.zeros((2, 32), np.int32)

    assert tw.simulate(peer(way), out, target="sm_90a").warnings == []

    lane, rank = np.arange(32), np.arange(2)[:, None]
    own, theirs = 100 * rank + lane, 100 * (1 - rank) + lane
    after = {"store": 7 + lane + 0 * rank, "strong store": 7 + lane + 0 * rank} | dict.fromkeys(
        ("atom", "red", "atomic_add"), own + 5
    )
    got = 0 if "store" in way or way == "red" else theirs
    assert np.array_equal(out, after.get(way, own) * 1000 + got)


@pytest.mark.parametrize("way", ["load", "store", "view"])
def test_an_access_there_races_without_the_clusters_barrier(way: str) -> None:
    finding = found(peer(way, first=False))

    assert finding.kind == "races"
    assert "T.cuda.cluster_sync()" in str(finding.hint)


def test_what_nobody_has_written_there_is_uninitialised() -> None:
    findings = tw.check(peer("load", written=False), target="sm_90a").findings

    assert [finding.message for finding in findings] == ["s[0] is uninitialised", "`got` is uninitialised"]


def test_what_is_stored_there_is_initialised() -> None:
    assert tw.check(peer("store", written=False), target="sm_90a")


def test_an_access_beyond_that_memory_is_told() -> None:
    finding = found(peer("load", beyond=64))

    assert finding.message == "ptx.ld reads outside of s"


def test_a_cta_that_may_have_ended_is_not_touched() -> None:
    assert "which may have ended" in found(peer("load", then=False)).message


@pytest.mark.parametrize("way", ["store", "strong store", "atom", "red", "atomic_add"])
def test_a_cta_that_may_not_have_begun_is_not_touched(way: str) -> None:
    finding = found(peer(way, written=False, first=False))

    assert "which may not have begun" in finding.message
    assert str(finding.hint) == "T.cuda.cluster_sync() by all threads before it"


def after(meeting: str) -> Any:
    """Each CTA stores to its peer, after a meeting of the cluster that may be relaxed, or of one warp of two only."""

    @T.prim_func
    def kernel(out: T.Buffer((2, 64), "int32")):
        rank = T.cta_id_in_cluster([2])
        T.cta_id([2])
        tid = T.thread_id([64])
        s = T.alloc_shared((64,), "int32")
        if meeting != "none":
            T.ptx.barrier.cluster.arrive(sem="relaxed")
            if meeting == "of all" or tid < 32:
                T.ptx.barrier.cluster.wait()
            if meeting == "handed on":
                T.cuda.cta_sync()
        T.ptx.st(T.cuda.map_shared_rank(s.ptr_to([tid]), 1 - rank), tid + rank)
        if meeting != "of all" and meeting != "none" and tid >= 32:
            T.ptx.barrier.cluster.wait()
        T.cuda.cluster_sync()
        out[rank, tid] = s[tid]

    return kernel


@pytest.mark.parametrize("meeting", ["of all", "handed on"])
def test_a_relaxed_meeting_tells_that_all_have_begun(meeting: str) -> None:
    out = np.zeros((2, 64), np.int32)

    tw.simulate(after(meeting), out, target="sm_90a")

    assert np.array_equal(out, np.arange(64) + np.array([[1], [0]]))


@pytest.mark.parametrize("meeting", ["none", "of one warp"])
def test_a_warp_that_has_only_arrived_does_not_know_that_others_have_begun(meeting: str) -> None:
    assert "which may not have begun" in found(after(meeting)).message


@T.prim_func
def flagged(flag: T.Buffer((1,), "uint32"), out: T.Buffer((32,), "int32")):
    rank = T.cta_id_in_cluster([2])
    T.cta_id([2])
    lane = T.lane_id([32])
    s = T.alloc_shared((32,), "int32")
    if rank == 1:
        if lane == 0:
            T.ptx.st(flag.ptr_to([0]), T.uint32(1), sem="release", scope="gpu")
    else:
        while T.ptx.ld(flag.ptr_to([0]), sem="acquire", scope="gpu") == 0:
            pass
        T.ptx.st(T.cuda.map_shared_rank(s.ptr_to([lane]), 1), lane)
    T.cuda.cluster_sync()
    if rank == 1:
        out[lane] = s[lane]


def test_whoever_comes_after_a_thread_of_a_cta_knows_that_it_has_begun() -> None:
    out = np.zeros(32, np.int32)

    tw.simulate(flagged, np.zeros(1, np.uint32), out, target="sm_90a")

    assert np.array_equal(out, np.arange(32))


@T.prim_func
def told_before_the_meeting(out: T.Buffer((2,), "uint32")):
    rank = T.cta_id_in_cluster([2])
    T.cta_id([2])
    tid = T.thread_id([64])
    word = T.alloc_shared((1,), "uint32")
    bar = T.alloc_shared((1,), "uint64")
    if tid == 0:
        T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 4)
    T.ptx.barrier.cluster.arrive()
    if tid < 32:
        T.ptx.barrier.cluster.wait()
    if tid == 32:
        T.ptx.st_async(T.ptx.mapa(word.ptr_to([0]), 1 - rank), rank, T.ptx.mapa(bar.ptr_to([0]), 1 - rank))
    if tid >= 32:
        T.ptx.barrier.cluster.wait()
    if tid == 0:
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        out[rank] = word[0]
    T.cuda.cluster_sync()


def test_an_operation_touches_no_cta_that_may_not_have_begun() -> None:
    assert "which may not have begun" in found(told_before_the_meeting).message


@T.prim_func
def everywhere(A: T.Buffer((32,), "int32"), out: T.Buffer((2, 32), "int32")):
    rank = T.cta_id_in_cluster([2])
    T.cta_id([2])
    lane = T.lane_id([32])
    s = T.alloc_shared((32,), "int32")
    s[lane] = 100 * rank + lane
    T.cuda.cluster_sync()
    near = T.cuda.map_shared_rank(s.ptr_to([lane]), rank)
    far = T.cuda.map_shared_rank(s.ptr_to([lane]), 1 - rank)
    inside = T.select(lane % 3 == 0, near, far)
    place = T.select(lane % 3 == 2, T.reinterpret("uint64", A.ptr_to([lane])), inside)
    out[rank, lane] = T.ptx.ld(place, type="s32")
    T.cuda.cluster_sync()


def test_lanes_may_point_into_the_own_cta_another_one_and_global_memory_at_once() -> None:
    a, out = np.arange(1000, 1032, dtype=np.int32), np.zeros((2, 32), np.int32)

    tw.simulate(everywhere, a, out, target="sm_90a")

    lane, rank = np.arange(32), np.arange(2)[:, None]
    expected = np.where(lane % 3 == 0, 100 * rank + lane, 100 * (1 - rank) + lane)
    assert np.array_equal(out, np.where(lane % 3 == 2, 1000 + lane, expected))


@pytest.mark.parametrize("asks", [0, 1])
def test_a_cta_that_asks_alone_finds_what_the_other_one_has(asks: int) -> None:
    @T.prim_func
    def kernel(out: T.Buffer((32,), "uint32")):
        rank = T.cta_id_in_cluster([2])
        T.cta_id([2])
        lane = T.lane_id([32])
        s = T.alloc_shared((32,), "uint32")
        s[lane] = 100 * rank + lane
        T.cuda.cluster_sync()
        if rank == asks:
            out[lane] = T.ptx.ld(T.ptx.mapa(s.ptr_to([lane]), 1 - rank), space="shared::cluster", type="u32")
            T.ptx.barrier.cluster.arrive()
            T.ptx.barrier.cluster.wait()
        else:
            T.ptx.barrier.cluster.arrive()
            T.ptx.barrier.cluster.wait()

    out = np.zeros(32, np.uint32)
    assert tw.simulate(kernel, out, target="sm_90a", check="all").warnings == []

    assert np.array_equal(out, 100 * (1 - asks) + np.arange(32))
