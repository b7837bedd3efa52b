"""m-barriers of another CTA: whoever signals them comes after mbarrier.init there, and before that CTA ends."""

# ruff: noqa: C901, PLR0915, SIM102  # kernels with a branch for each way, which Python takes while it parses
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.sim.tmem_kernels import meet
from tilewright import T, Tx
from tilewright.errors import SimulationError

ANNOUNCED = {"st_async": 4, "red_async": 4, "complete_tx": 4, "s2c": 128, "multicast load": 1024}
THREADS = ("arrive", "arrive.expect_tx", "expect_tx", "complete_tx", "store")
UNITS = ("st_async", "red_async", "s2c", "multicast load", "commit")
MAY_HAVE_ENDED = "the shared memory of another CTA is touched, which may have ended by then"


def signalling(way: str, end: str, *, casts: int = 2, again: bool = False) -> Any:
    """CTA 0 of two signals the m-barrier of CTA 1. end: who waits for it, and how the CTAs meet at the end.

    casts: the mask of a commit, after which CTA 0 waits too where it has bit 0; again: a commit to another m-barrier,
    for which both wait.
    """

    @T.prim_func
    def kernel(a: T.Buffer((8, 32), "float32")):
        rank = T.cta_id_in_cluster([2])
        T.cta_id([2])
        warp = T.warp_id([4])
        tid = T.thread_id([128])
        tile = T.alloc_shared((8, 32), "float32", align=1024)
        word = T.alloc_shared((32,), "uint32", align=16)
        bar = T.alloc_shared((2,), "uint64")
        addr = T.alloc_shared((1,), "uint32")
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.mbarrier.init(bar.ptr_to([1]), 1)
            T.ptx.fence.mbarrier_init()
            if way in ANNOUNCED:
                T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), ANNOUNCED[way])
        if warp == 1:
            word[tid % 32] = 0
            T.ptx.fence.proxy_async("shared::cta")
        if way == "commit":
            if warp == 0:
                T.ptx.tcgen05.alloc(T.address_of(addr), n_cols=32, cta_group=1)
            meet()
        T.cuda.cluster_sync()
        if tid == 0:
            if rank == 0:
                there = T.ptx.mapa(bar.ptr_to([0]), 1)
                far = T.ptx.mapa(word.ptr_to([0]), 1)
                if way == "arrive":
                    T.ptx.mbarrier.arrive(there, space="shared::cluster")
                elif way == "arrive.expect_tx":
                    T.ptx.mbarrier.arrive.expect_tx(there, 0, space="shared::cluster")
                elif way == "expect_tx":
                    T.ptx.mbarrier.expect_tx(there, 16, space="shared::cluster")
                elif way == "complete_tx":
                    T.ptx.mbarrier.complete_tx(there, 4, space="shared::cluster")
                elif way == "store":
                    T.ptx.st(far, T.uint32(7), space="shared::cluster")
                elif way == "st_async":
                    T.ptx.st_async(far, T.uint32(7), there)
                elif way == "red_async":
                    T.ptx.red_async.add(far, T.uint32(7), there)
                elif way == "s2c":
                    T.ptx.cp_async.bulk.s2c(far, word.ptr_to([0]), 128, there)
                elif way == "multicast load":
                    Tx.copy_async(tile, a, mbar=bar.ptr_to([0]), cta_mask=2)
                elif way == "commit":
                    T.ptx.tcgen05.commit(bar.ptr_to([0]), cta_group=1, cta_mask=casts)
                    if again:
                        T.ptx.tcgen05.commit(bar.ptr_to([1]), cta_group=1, cta_mask=3)
        if "waits" in end:
            if rank == 1:
                T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        if casts & 1:
            if rank == 0:
                T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        if again:
            T.ptx.mbarrier.try_wait(bar.ptr_to([1]), 0)
        if way == "commit":
            meet()
            if warp == 0:
                T.ptx.tcgen05.dealloc(addr[0], n_cols=32, cta_group=1)
        if "met" in end:
            T.cuda.cluster_sync()
        if "met relaxed" in end:
            T.ptx.barrier.cluster.arrive(sem="relaxed")
            T.ptx.barrier.cluster.wait()

    return kernel


def found(kernel: Any, target: str = "sm_90a") -> tuple[str, str]:
    """The error and its hint, or the warnings."""
    try:
        return "".join(tw.simulate(kernel, np.zeros((8, 32), np.float32), target=target, check="all").warnings), ""
    except SimulationError as error:
        return error.what, str(error.hint)


@pytest.mark.parametrize("way", THREADS)
def test_a_cta_ends_after_what_threads_of_others_do_there(way: str) -> None:
    assert found(signalling(way, "at once"))[0] == MAY_HAVE_ENDED
    assert found(signalling(way, "met"))[0] == ""


@pytest.mark.parametrize("way", ["arrive", "arrive.expect_tx", "complete_tx"])
def test_a_cta_that_waits_for_the_phase_has_not_ended(way: str) -> None:
    assert found(signalling(way, "peer waits"))[0] == ""


@pytest.mark.parametrize("way", UNITS)
@pytest.mark.parametrize("end", ["at once", "met", "met relaxed"])
def test_a_cta_ends_after_operations_that_signal_its_m_barrier(way: str, end: str) -> None:
    said, hint = found(signalling(way, end), "sm_100a" if way == "commit" else "sm_90a")

    assert said.startswith("the CTA ends while ")
    assert said.endswith(" is under way")
    assert hint.startswith("a wait for the phase of bar[0] in CTA (1, 0, 0) that the ")
    assert hint.endswith(", before the end of the kernel")


@pytest.mark.parametrize("way", UNITS)
def test_a_cta_that_waits_for_the_operations_has_not_ended(way: str) -> None:
    end = "peer waits, met" if way == "s2c" else "peer waits"

    assert found(signalling(way, end), "sm_100a" if way == "commit" else "sm_90a")[0] == ""


def test_a_cta_whose_memory_is_read_ends_after_the_peer_has_told_it() -> None:
    said, hint = found(signalling("s2c", "peer waits"))

    assert said == "the CTA ends while cp_async.bulk.s2c is under way"
    assert "of bar[0] in CTA (1, 0, 0)" in hint
    assert hint.endswith("and T.cuda.cluster_sync() behind it, before the end of the kernel")


def test_a_wait_for_its_own_arrival_does_not_keep_the_peer_of_a_commit_alive() -> None:
    said, hint = found(signalling("commit", "met", casts=3), "sm_100a")

    assert said == "the CTA may end while tcgen05.commit is under way"
    assert hint.startswith("a wait for the phase of bar[0] in CTA (1, 0, 0)")
    assert found(signalling("commit", "peer waits", casts=3), "sm_100a")[0] == ""


def test_commits_of_one_thread_arrive_in_their_order() -> None:
    assert found(signalling("commit", "at once", casts=3, again=True), "sm_100a")[0] == ""


def made(*, first: str = "", then: str = "mine", last: str = "", arrives: str = "release") -> Any:
    """CTA 1 makes an m-barrier, CTA 0 has its unit signal it. first, then, last: who fences before mbarrier.init,
    behind it, and behind the meeting; arrives: the order of the meeting.
    """

    @T.prim_func
    def kernel(a: T.Buffer((8, 32), "float32")):
        rank = T.cta_id_in_cluster([2])
        T.cta_id([2])
        warp = T.warp_id([2])
        lane = T.lane_id([32])
        tile = T.alloc_shared((8, 32), "float32", align=1024)
        bar = T.alloc_shared((1,), "uint64")
        if first and warp == 0 and lane == 0:
            T.ptx.fence.mbarrier_init()
        if warp == 0 and lane == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 1024)
            if then == "mine":
                T.ptx.fence.mbarrier_init()
        if "met" in then:
            T.cuda.cta_sync()
        if "another lane" in then and warp == 0 and lane == 1:
            T.ptx.fence.mbarrier_init()
        if "another warp" in then and warp == 1:
            if "full" in then:
                T.ptx.fence("acq_rel", "cluster")
            else:
                T.ptx.fence.mbarrier_init()
        T.ptx.barrier.cluster.arrive(sem=arrives)
        T.ptx.barrier.cluster.wait()
        if last and warp == 0 and lane == 0:
            T.ptx.fence.mbarrier_init()
        if rank == 0 and warp == 0 and lane == 0:
            Tx.copy_async(tile, a, mbar=bar.ptr_to([0]), cta_mask=3)
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        T.cuda.cluster_sync()

    return kernel


UNKNOWN = "bar[0] of another CTA, which may not have initialised it"


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({}, ""),
        ({"arrives": "relaxed"}, ""),
        ({"then": ""}, ""),  # an arrival that releases publishes what threads have made as what they have stored
        ({"then": "", "arrives": "relaxed"}, UNKNOWN),
        ({"first": "mine", "then": "", "arrives": "relaxed"}, UNKNOWN),
        ({"then": "", "last": "mine", "arrives": "relaxed"}, UNKNOWN),
        ({"then": "another lane", "arrives": "relaxed"}, UNKNOWN),
        ({"then": "another warp, full", "arrives": "relaxed"}, UNKNOWN),
        ({"then": "another warp, full, met", "arrives": "relaxed"}, ""),
        ({"then": "another warp, met", "arrives": "relaxed"}, UNKNOWN),  # a fence of inits is about the thread's own
    ],
)
def test_a_relaxed_meeting_publishes_an_m_barrier_behind_a_fence_of_mbarrier_init(
    how: dict[str, str], says: str
) -> None:
    said, _ = found(made(**how))

    assert says in said
    assert bool(says) == bool(said)


def test_an_arrival_between_the_cluster_s_arrive_and_wait_may_come_before_mbarrier_init() -> None:
    """That the CTA of the m-barrier waits already, in this schedule, says nothing about the other CTA."""

    @T.prim_func
    def kernel(a: T.Buffer((64,), "float32")):
        rank = T.cta_id_in_cluster([2])
        T.cta_id([2])
        tid = T.thread_id([64])
        bar = T.alloc_shared((1,), "uint64")
        T.cuda.cluster_sync()
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init()
        T.ptx.barrier.cluster.arrive(sem="relaxed")
        if rank == 1 and tid == 32:
            T.ptx.mbarrier.arrive(T.ptx.mapa(bar.ptr_to([0]), 0), space="shared::cluster")
        T.ptx.barrier.cluster.wait()
        T.cuda.cluster_sync()

    with pytest.raises(SimulationError, match="of another CTA, which may not have initialised it"):
        tw.simulate(kernel, np.zeros(64, np.float32), check="all")


@T.prim_func
def overwritten(a: T.Buffer((8, 32), "float32")):
    """CTA 0 of two stores a number where CTA 1 has an m-barrier."""
    rank = T.cta_id_in_cluster([2])
    T.cta_id([2])
    tid = T.thread_id([32])
    bar = T.alloc_shared((1,), "uint64")
    if tid == 0:
        T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
    T.cuda.cluster_sync()
    if tid == 0:
        if rank == 0:
            T.ptx.st(T.ptx.mapa(bar.ptr_to([0]), 1), T.uint64(7), space="shared::cluster")
    T.cuda.cluster_sync()


def test_a_store_to_the_m_barrier_of_another_cta_is_told_as_one_to_the_own() -> None:
    assert found(overwritten)[0] == "ptx.st overwrites bar[0], which is an m-barrier"
