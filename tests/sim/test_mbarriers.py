"""m-barriers at work: threads arrive, wait, and hand over data, phase after phase."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sim.tmem_kernels import line, refusal, simulate
from tilewright import T

ROUNDS = 5


def pipeline(  # noqa: C901  branches of Python, decided while it is parsed
    *left_out: str, stages: int = 1, ctas: int = 1, everyone: bool = False, sem: str = "release"
) -> Any:
    """Warp 0 fills a ring of buffers, warp 1 empties it; each waits for the other at m-barriers, by parity.

    everyone: all lanes arrive and wait; otherwise one lane does, for its warp.
    """
    assert {"wait for full", "wait for empty", "warp sync"}.issuperset(left_out)
    has = {step: step not in left_out for step in ("wait for full", "wait for empty", "warp sync")}

    @T.inline
    def wait(bar, parity, lane_id):
        if everyone or lane_id == 0:
            T.ptx.mbarrier.try_wait(bar, parity)
        if has["warp sync"]:
            T.cuda.warp_sync()

    @T.inline
    def arrive(bar, lane_id):
        if has["warp sync"]:
            T.cuda.warp_sync()
        if everyone or lane_id == 0:
            T.ptx.mbarrier.arrive(bar, sem=sem)

    @T.prim_func
    def ring(A: T.Buffer((ROUNDS, 32), "int32"), B: T.Buffer((ctas, ROUNDS, 32), "int32")):
        cta_id = T.cta_id([ctas])
        warp_id, lane_id, tid = T.warp_id([2]), T.lane_id([32]), T.thread_id([64])
        buffer = T.alloc_shared((stages, 32), "int32")
        full, empty = T.alloc_shared([stages], "uint64"), T.alloc_shared([stages], "uint64")
        if tid == 0:
            for stage in range(stages):
                T.ptx.mbarrier.init(full.ptr_to([stage]), 32 if everyone else 1)
                T.ptx.mbarrier.init(empty.ptr_to([stage]), 32 if everyone else 1)
        T.cuda.cta_sync()
        if warp_id == 0:
            for i in range(ROUNDS):
                if has["wait for empty"]:
                    wait(empty.ptr_to([i % stages]), (i // stages + 1) % 2, lane_id)  # parity 1 first: nothing to empty
                buffer[i % stages, lane_id] = A[i, lane_id] + cta_id  # fill
                arrive(full.ptr_to([i % stages]), lane_id)
        else:
            for i in range(ROUNDS):
                if has["wait for full"]:
                    wait(full.ptr_to([i % stages]), i // stages % 2, lane_id)
                B[cta_id, i, lane_id] = buffer[i % stages, 31 - lane_id]  # use
                arrive(empty.ptr_to([i % stages]), lane_id)

    return ring


def rounds(ctas: int = 1) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(ROUNDS * 32, dtype=np.int32).reshape(ROUNDS, 32), np.zeros((ctas, ROUNDS, 32), np.int32)


@pytest.mark.parametrize("everyone", [True, False])
@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("ctas", [1, 5])
def test_a_producer_and_a_consumer_go_round_a_ring_of_buffers(ctas: int, stages: int, everyone: bool) -> None:
    a, b = rounds(ctas)

    assert simulate(pipeline(stages=stages, ctas=ctas, everyone=everyone), a, b) == []
    assert all(np.array_equal(b[cta], a[:, ::-1] + cta) for cta in range(ctas))


@pytest.mark.parametrize("everyone", [True, False])
def test_a_consumer_that_does_not_wait_races(everyone: bool) -> None:
    error = refusal(pipeline("wait for full", everyone=everyone), *rounds(), check="races")

    assert error.what.startswith("race: load reads buffer[0, ")
    assert error.what.endswith("], which another thread has written")
    assert f"{line('use')}: CTA (0, 0, 0), warp 1" in str(error.given)
    assert f"written at {line('fill')}: CTA (0, 0, 0), warp 0" in str(error.given)


def test_a_producer_that_does_not_wait_leaves_the_consumer_behind() -> None:
    """It ends all phases before the consumer has seen the first; waiting by parity then means another phase."""
    error = refusal(pipeline("wait for empty"), *rounds(), check="races")

    assert error.what == "an arrival at full[0] for its next phase, and nobody has seen the last one over"
    assert refusal(pipeline("wait for empty"), *rounds(), check="default").what == "deadlock: no thread can go on"


def test_when_one_lane_arrives_or_waits_the_others_meet_it() -> None:
    error = refusal(pipeline("warp sync"), *rounds(), check="races")

    assert error.what.startswith("race: ")


def test_a_relaxed_arrival_publishes_nothing() -> None:
    error = refusal(pipeline(sem="relaxed"), *rounds())

    assert error.what.startswith("race: load reads buffer")
    assert f"written at {line('fill')}" in str(error.given)


# Threads that wait


@pytest.mark.parametrize("how", ["try_wait", "try_wait.state", "poll", "poll and sleep", "test_wait", "test by state"])
@pytest.mark.parametrize("threads", ["all lanes", "odd lanes", "one lane"])
def test_every_way_to_wait_sees_what_was_published(how: str, threads: str) -> None:  # noqa: C901  branches of Python, decided while it is parsed
    @T.inline
    def wait(bar, state):
        if how == "try_wait":
            T.ptx.mbarrier.try_wait(bar, 0)
        elif how == "try_wait.state":
            T.ptx.mbarrier.try_wait.state(bar, state)
        elif how == "poll":
            while not T.ptx.mbarrier.try_wait_once(bar, 0):
                pass
        elif how == "poll and sleep":
            while not T.ptx.mbarrier.try_wait_once(bar, 0, ns=100):
                T.cuda.nanosleep(20)
        elif how == "test_wait":
            while not T.ptx.mbarrier.test_wait.parity(bar, 0):
                pass
        else:
            while not T.ptx.mbarrier.test_wait(bar, state):
                pass

    @T.prim_func
    def hand_over(B: T.Buffer((32,), "int32")):
        T.cta_id([1])
        warp_id, lane_id = T.warp_id([2]), T.lane_id([32])
        value = T.alloc_shared([1], "int32")
        bar = T.alloc_shared([1], "uint64")
        if warp_id == 1 and lane_id == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 33)
        T.cuda.cta_sync()
        if warp_id == 1:
            state = T.ptx.mbarrier.arrive(bar.ptr_to([0]))
            if threads == "all lanes" or (lane_id % 2 == 1 if threads == "odd lanes" else lane_id == 7):
                wait(bar.ptr_to([0]), state)
                B[lane_id] = value[0]
        elif lane_id == 0:
            value[0] = 42
            T.ptx.mbarrier.arrive(bar.ptr_to([0]))

    b = np.zeros(32, np.int32)

    assert simulate(hand_over, b) == []
    assert (
        np.flatnonzero(b == 42).tolist()
        == {
            "all lanes": list(range(32)),
            "odd lanes": list(range(1, 32, 2)),
            "one lane": [7],
        }[threads]
    )


def test_a_fresh_m_barrier_is_past_parity_1_and_not_past_parity_0() -> None:
    @T.prim_func
    def ask(B: T.Buffer((2, 32), "int32")):
        T.cta_id([1])
        lane_id = T.lane_id([32])
        bar = T.alloc_shared([1], "uint64")
        if lane_id == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        T.cuda.warp_sync()
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 1)
        for parity in range(2):
            B[parity, lane_id] = T.cast(T.ptx.mbarrier.test_wait.parity(bar.ptr_to([0]), parity), "int32")

    b = np.zeros((2, 32), np.int32)

    assert simulate(ask, b) == []
    assert b.tolist() == [[0] * 32, [1] * 32]


@pytest.mark.parametrize("parity", [-1, 3, 0x7FFFFFFF])
def test_a_wait_for_an_odd_number_is_one_for_parity_1(parity: int) -> None:
    @T.prim_func
    def ask(B: T.Buffer((32,), "int32"), wanted: T.int32):
        T.cta_id([1])
        lane_id = T.lane_id([32])
        bar = T.alloc_shared([1], "uint64")
        if lane_id == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        T.cuda.warp_sync()
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), parity)
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), wanted)
        B[lane_id] = T.cast(T.ptx.mbarrier.test_wait.parity(bar.ptr_to([0]), wanted - 1), "int32")

    b = np.ones(32, np.int32)

    assert simulate(ask, b, parity) == []
    assert b.tolist() == [0] * 32


def test_lanes_of_a_warp_wait_for_each_other() -> None:
    """Lane 31 goes first; each lane waits at the m-barrier of the lane above it, then arrives at its own."""

    @T.prim_func
    def relay(B: T.Buffer((32,), "int32")):
        T.cta_id([1])
        lane_id = T.lane_id([32])
        bars = T.alloc_shared([32], "uint64")
        order = T.alloc_shared([33], "int32")
        T.ptx.mbarrier.init(bars.ptr_to([lane_id]), 1)
        if lane_id == 0:
            order[32] = 0
        T.cuda.warp_sync()
        if lane_id < 31:
            T.ptx.mbarrier.try_wait(bars.ptr_to([lane_id + 1]), 0)
        order[lane_id] = order[lane_id + 1] + 1
        T.ptx.mbarrier.arrive(bars.ptr_to([lane_id]))
        B[lane_id] = order[lane_id]

    b = np.zeros(32, np.int32)

    assert simulate(relay, b) == []
    assert b.tolist() == list(range(32, 0, -1))


def test_warps_wait_in_different_branches_for_different_phases() -> None:
    @T.prim_func
    def branches(B: T.Buffer((96,), "int32")):
        T.cta_id([1])
        warp_id, lane_id, tid = T.warp_id([3]), T.lane_id([32]), T.thread_id([96])
        bar = T.alloc_shared([1], "uint64")
        value = T.alloc_shared([2], "int32")
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 2)
        T.cuda.cta_sync()
        if warp_id == 0:
            T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
            if lane_id == 3:
                value[1] = value[0] + 1
                T.ptx.mbarrier.arrive(bar.ptr_to([0]))
        elif warp_id == 1:
            T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
            if lane_id == 31:
                T.ptx.mbarrier.arrive(bar.ptr_to([0]))
            T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 1)
            B[tid] = value[1]
        elif lane_id == 0:
            value[0] = 10
            T.ptx.mbarrier.arrive(bar.ptr_to([0]), count=2)

    b = np.zeros(96, np.int32)

    assert simulate(branches, b) == []
    assert b[32:64].tolist() == [11] * 32


# Bytes


@pytest.mark.parametrize("nbytes", [48, 64])
def test_a_phase_waits_for_the_bytes_that_were_announced(nbytes: int) -> None:
    @T.prim_func
    def announce(B: T.Buffer((32,), "int32")):
        T.cta_id([1])
        warp_id, lane_id = T.warp_id([2]), T.lane_id([32])
        bar = T.alloc_shared([1], "uint64")
        if warp_id == 0 and lane_id == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 64)
        T.cuda.cta_sync()
        if warp_id == 0:
            T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)  # for the bytes
            B[lane_id] = 1
        elif lane_id == 0:
            T.ptx.mbarrier.complete_tx(bar.ptr_to([0]), 16)
            T.ptx.mbarrier.complete_tx(bar.ptr_to([0]), nbytes - 16)

    b = np.zeros(32, np.int32)
    if nbytes == 64:
        assert simulate(announce, b) == []
        assert b.tolist() == [1] * 32
        return
    error = refusal(announce, b)

    assert error.what == "deadlock: no thread can go on"
    assert str(error.at) == line("for the bytes")
    assert "0 of 1 arrivals are missing, 16 bytes to come; the running phase has parity 0" in str(error.allowed)


# Threads that can never go on


def waits_for_ever(how: str, count: int = 3, *, one: bool = False) -> Any:
    @T.prim_func
    def wait():
        T.cta_id([2])
        warp_id, lane_id = T.warp_id([2]), T.lane_id([32])
        bar = T.alloc_shared([1], "uint64")
        if warp_id == 0 and lane_id == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), count)
        T.cuda.cta_sync()
        if lane_id == 0:
            T.ptx.mbarrier.arrive(bar.ptr_to([0]))
        if warp_id == 1:
            if not one or lane_id == 5:
                if how == "waits":
                    T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)  # waits
                else:
                    while not T.ptx.mbarrier.try_wait_once(bar.ptr_to([0]), 0):  # polls
                        pass
            T.cuda.warp_sync()  # the others of its warp

    return wait


@pytest.mark.parametrize(("how", "what"), [("waits", "deadlock: "), ("polls", "livelock: ")])
def test_a_report_of_who_waits_for_ever_tells_the_state_of_the_m_barrier(how: str, what: str) -> None:
    error = refusal(waits_for_ever(how), check="none")

    assert error.what.startswith(what)
    assert str(error.at) == line(how)
    assert "CTA (0, 0, 0) and 1 more CTAs, warp 1, all lanes" in str(error.given)
    assert "1 of 3 arrivals are missing; the running phase has parity 0" in str(error.allowed)


@pytest.mark.parametrize(("how", "what"), [("waits", "deadlock: "), ("polls", "livelock: ")])
def test_when_one_lane_waits_for_its_warp_that_is_what_the_report_tells(how: str, what: str) -> None:
    error = refusal(waits_for_ever(how, one=True))

    assert error.what.startswith(what)
    assert str(error.at) == line(how)
    assert "CTA (0, 0, 0) and 1 more CTAs, warp 1, lane 5" in str(error.given)
    assert f"{line('the others of its warp')}: cuda.warp_sync" in str(error.given)
    assert "1 of 3 arrivals are missing" in str(error.allowed)


@pytest.mark.parametrize("how", ["waits", "polls"])
def test_with_one_arrival_less_to_wait_for_everyone_goes_on(how: str) -> None:
    simulate(waits_for_ever(how, count=2))


# Addresses without an m-barrier


def misused(how: str) -> Any:
    @T.prim_func
    def misuse():
        T.cta_id([1])
        lane_id = T.lane_id([32])
        bar = T.alloc_shared([1], "uint64")
        if lane_id == 0:
            if how == "zeros":
                bar[0] = T.uint64(0)
            elif how != "nothing":
                T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            if how == "invalidated":
                T.ptx.mbarrier.inval(bar.ptr_to([0]))
            if how == "twice":
                T.ptx.mbarrier.arrive(bar.ptr_to([0]), count=2)  # twice
            else:
                T.ptx.mbarrier.arrive(bar.ptr_to([0]))  # arrives
            if how == "again":
                T.ptx.mbarrier.inval(bar.ptr_to([0]))
                T.ptx.mbarrier.init(bar.ptr_to([0]), 2)
                T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 1)

    return misuse


@pytest.mark.parametrize(
    ("how", "check", "what"),
    [
        ("nothing", "all", "bar[0] is uninitialised"),
        ("nothing", "none", "the m-barrier was never initialised"),
        ("zeros", "all", "the m-barrier was never initialised"),
        ("invalidated", "all", "the m-barrier was invalidated"),
        ("twice", "all", "the m-barrier got more arrivals than its phase waited for"),
    ],
)
def test_what_was_not_made_an_m_barrier_is_none(how: str, check: str, what: str) -> None:
    error = refusal(misused(how), check=check)

    assert error.what == what
    assert str(error.at) == line("twice" if how == "twice" else "arrives")


def test_one_that_nobody_has_made_is_told_what_makes_it() -> None:
    error = refusal(misused("nothing"))

    number = line("arrives").split(":")[1]
    assert error.hint == f"T.ptx.mbarrier.init(...) by one thread, and a barrier, before line {number}"


def test_an_m_barrier_may_be_ended_and_made_again() -> None:
    assert simulate(misused("again")) == []


def ended(meets: bool, then: str) -> Any:
    """A thread arrives, another warp waits; the thread ends the m-barrier, and uses its place once more."""

    @T.prim_func
    def kernel(out: T.Buffer((64,), "uint32")):
        T.cta_id([1])
        warp = T.warp_id([2])
        tid = T.thread_id([64])
        bar = T.alloc_shared((1,), "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        T.cuda.cta_sync()
        if tid == 0:
            T.ptx.mbarrier.arrive(bar.ptr_to([0]))
        if warp == 1:
            T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        if meets:
            T.cuda.cta_sync()
        if then != "data at once" and tid == 0:
            T.ptx.mbarrier.inval(bar.ptr_to([0]))
        if then == "init" and tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        if "data" in then and tid == 0:
            bar[0] = T.uint64(7)
        T.cuda.cta_sync()
        if then == "data":
            out[tid] = T.cast(bar[0], "uint32")

    return kernel


@pytest.mark.parametrize(
    ("meets", "then", "what"),
    [
        (True, "", ""),
        (True, "init", ""),
        (True, "data", ""),
        (False, "", "bar[0] is ended while a thread may still wait there"),
        (False, "init", "bar[0] is ended while a thread may still wait there"),
        (True, "data at once", "store overwrites bar[0], which is an m-barrier"),
    ],
)
def test_an_m_barrier_is_ended_after_its_last_wait_and_before_its_place_is_used(
    meets: bool, then: str, what: str
) -> None:
    out = np.zeros(64, np.uint32)

    if what:
        assert refusal(ended(meets, then), out).what == what
    else:
        assert simulate(ended(meets, then), out) == []


# Across a cluster


def told_from_afar(*, initialised: bool = True, meets: bool = True) -> Any:
    """The CTA of rank 0 waits until each CTA of its cluster has arrived at its m-barrier."""

    @T.prim_func
    def tell(B: T.Buffer((4, 32), "int32")):
        cta_id = T.cta_id([4])
        rank = T.cta_id_in_cluster([2])
        lane_id = T.lane_id([32])
        bar = T.alloc_shared([1], "uint64")
        if lane_id == 0 and initialised:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 2)
        T.ptx.fence.mbarrier_init()
        if meets:
            T.ptx.barrier.cluster.arrive()
            T.ptx.barrier.cluster.wait()
        if lane_id == 0:
            T.ptx.mbarrier.arrive(T.ptx.mapa(bar.ptr_to([0]), 0), space="shared::cluster")  # from afar
        if rank == 0:
            T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0, scope="cluster")  # at home
            B[cta_id, lane_id] = 1

    return tell


def test_a_cta_arrives_at_the_m_barrier_of_another_of_its_cluster() -> None:
    b = np.zeros((4, 32), np.int32)

    assert simulate(told_from_afar(), b) == []
    assert b[:, 0].tolist() == [1, 0, 1, 0]


def test_there_it_must_be_initialised_too() -> None:
    error = refusal(told_from_afar(initialised=False), np.zeros((4, 32), np.int32), check="bounds")

    assert error.what == "the m-barrier was never initialised"
    assert str(error.at) == line("from afar")


def told_without_saying_where(rank: int, *, waits: bool = False) -> Any:
    """Forms for the own CTA, on an address of the cluster's window."""

    @T.prim_func
    def tell(B: T.Buffer((4, 32), "int32")):
        cta_id = T.cta_id([4])
        T.cta_id_in_cluster([2])
        lane_id = T.lane_id([32])
        bar = T.alloc_shared([1], "uint64")
        if lane_id == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 32)
        T.ptx.fence.mbarrier_init()
        T.cuda.cluster_sync()
        mapped: T.let = T.ptx.mapa(bar.ptr_to([0]), rank)
        if cta_id % 2 == 0:
            if waits:
                T.ptx.mbarrier.arrive(bar.ptr_to([0]))
                T.ptx.mbarrier.try_wait(mapped, 0)  # asks
            else:
                T.ptx.mbarrier.arrive(mapped)  # tells
                T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
            B[cta_id, lane_id] = 1
        T.cuda.cluster_sync()

    return tell


@pytest.mark.parametrize("waits", [False, True])
def test_an_address_of_the_cluster_may_be_that_of_the_own_cta(waits: bool) -> None:
    b = np.zeros((4, 32), np.int32)

    assert simulate(told_without_saying_where(0, waits=waits), b) == []
    assert b[:, 0].tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("check", ["none", "all"])
@pytest.mark.parametrize("waits", [False, True])
def test_the_m_barrier_of_another_cta_wants_the_form_that_reaches_it(waits: bool, check: str) -> None:
    error = refusal(told_without_saying_where(1, waits=waits), np.zeros((4, 32), np.int32), check=check)

    assert "reaches the shared memory of its own CTA, and this is an address of another" in error.what
    assert str(error.at) == line("asks" if waits else "tells")
