"""Runs in other orders: threads that began together see what one of them does before the others go on."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import T
from tilewright.errors import SimulationError
from tilewright.sim.machine.precedence import FORWARDS, NEVER, Late, Made, Precedence, others


def counters(n=1):
    return np.zeros(n, np.uint32)


def initialised_once(first: str, published: str):
    @T.prim_func
    def kernel(
        x: T.Buffer((1,), "uint32"),
        lock: T.Buffer((1,), "uint32"),
        made: T.Buffer((1,), "uint32"),
        out: T.Buffer((2,), "uint32"),
    ):
        cta = T.cta_id([2])
        lane = T.lane_id([32])
        if lane == 0:
            if T.ptx.ld(made.ptr_to([0]), sem=first, scope="gpu") == 0:
                while T.ptx.atom.cas(lock.ptr_to([0]), 0, 1, sem="acquire", scope="gpu") != 0:
                    pass
                if T.ptx.ld(made.ptr_to([0]), sem="relaxed", scope="gpu") == 0:
                    x[0] = T.uint32(7)
                    T.ptx.st(made.ptr_to([0]), 1, sem=published, scope="gpu")
                T.ptx.st(lock.ptr_to([0]), 0, sem="release", scope="gpu")
            out[cta] = x[0]

    out = counters(2)
    tw.simulate(kernel, counters(), counters(), counters(), out, check="all")
    return out.tolist()


def test_initialisation_that_is_checked_twice_hands_on_what_it_made():
    assert initialised_once("acquire", "release") == [7, 7]


@pytest.mark.parametrize(("first", "published"), [("relaxed", "release"), ("acquire", "relaxed")])
def test_initialisation_that_is_checked_twice_needs_a_release_and_an_acquire(first, published):
    with pytest.raises(SimulationError, match=r"race: load reads x\[0\]"):
        initialised_once(first, published)


def met(ctas: int, awaited: int):
    @T.prim_func
    def kernel(x: T.Buffer((ctas,), "uint32"), count: T.Buffer((1,), "uint32"), out: T.Buffer((ctas,), "uint32")):
        cta = T.cta_id([ctas])
        lane = T.lane_id([32])
        if lane == 0:
            x[cta] = T.cast(cta, "uint32") + T.uint32(1)
            T.ptx.red.add(count.ptr_to([0]), 1, sem="release", scope="gpu")
            while T.ptx.ld(count.ptr_to([0]), sem="acquire", scope="gpu") < T.uint32(awaited):
                pass
            out[cta] = x[ctas - 1 - cta]

    out = counters(ctas)
    tw.simulate(kernel, counters(ctas), counters(), out, check="all")
    return out.tolist()


@pytest.mark.parametrize("ctas", [3, 9])
def test_a_barrier_of_the_grid_waits_for_every_cta(ctas):
    assert met(ctas, ctas) == list(range(ctas, 0, -1))
    with pytest.raises(SimulationError, match="race: "):
        met(ctas, ctas - 1)


def test_a_lock_that_is_handed_on_costs_one_look_for_each_lane():
    lanes = 24

    @T.prim_func
    def kernel(lock: T.Buffer((1,), "uint32"), count: T.Buffer((1,), "uint32")):
        T.cta_id([1])
        T.thread_id([lanes])
        while T.ptx.atom.cas(lock.ptr_to([0]), 0, 1, sem="acquire", scope="cta") != 0:
            pass
        count[0] = count[0] + T.uint32(1)
        T.ptx.st(lock.ptr_to([0]), 0, sem="release", scope="cta")

    count = counters()
    run = tw.simulate(kernel, counters(), count, check="all")

    assert count[0] == lanes
    assert run.counts.instructions["ptx.atom.cas"] < 1.5 * lanes  # warps that have looked


def met_twice(ctas: int, *, released_first: bool):
    @T.prim_func
    def kernel(count: T.Buffer((1,), "uint32"), turn: T.Buffer((1,), "uint32")):
        T.cta_id([ctas])
        lane = T.lane_id([32])
        if lane == 0:
            for _ in range(2):
                now = T.ptx.ld(turn.ptr_to([0]), sem="relaxed", scope="gpu")
                if T.ptx.atom.add(count.ptr_to([0]), 1, sem="acq_rel", scope="gpu") == T.uint32(ctas - 1):
                    if released_first:
                        T.ptx.st(turn.ptr_to([0]), now + T.uint32(1), sem="release", scope="gpu")
                    T.ptx.st(count.ptr_to([0]), 0, sem="relaxed", scope="gpu")
                    if not released_first:
                        T.ptx.st(turn.ptr_to([0]), now + T.uint32(1), sem="release", scope="gpu")
                else:
                    while T.ptx.ld(turn.ptr_to([0]), sem="acquire", scope="gpu") == now:
                        pass

    turn = counters()
    tw.simulate(kernel, counters(), turn, check="all")
    return turn.item()


def test_a_counter_that_is_reset_after_the_release_of_others_may_lose_one_that_has_come_again():
    assert met_twice(3, released_first=False) == 2
    with pytest.raises(SimulationError, match="livelock"):
        met_twice(3, released_first=True)


def let_in(ctas: int, given_back: int):
    @T.prim_func
    def kernel(permits: T.Buffer((1,), "uint32"), count: T.Buffer((1,), "uint32")):
        T.cta_id([ctas])
        lane = T.lane_id([32])
        if lane == 0:
            while True:
                left = T.ptx.ld(permits.ptr_to([0]), sem="relaxed", scope="gpu")
                if left != 0:
                    found = T.ptx.atom.cas(permits.ptr_to([0]), left, left - T.uint32(1), sem="acquire", scope="gpu")
                    if found == left:
                        break
            count[0] = count[0] + T.uint32(1)
            T.ptx.red.add(permits.ptr_to([0]), given_back, sem="release", scope="gpu")

    count = counters()
    tw.simulate(kernel, np.ones(1, np.uint32), count, check="all")
    return count.item()


def test_two_that_a_semaphore_lets_in_at_once_race():
    assert let_in(3, given_back=1) == 3
    with pytest.raises(SimulationError, match=r"race: .* count\[0\]"):
        let_in(3, given_back=2)


@pytest.mark.parametrize("threads", [(2, 1), (1, 64), (1, 2)])  # of two CTAs, of two warps, of one warp
def test_a_value_that_is_taken_for_made_while_it_is_made_races(threads):
    ctas, lanes = threads

    @T.prim_func
    def kernel(x: T.Buffer((1,), "uint32"), state: T.Buffer((1,), "uint32"), out: T.Buffer((64,), "uint32")):
        cta = T.cta_id([ctas])
        thread = T.thread_id([lanes])
        if thread % 32 < 2 and (lanes < 64 or thread % 32 == 0):
            if T.ptx.ld(state.ptr_to([0]), sem="acquire", scope="gpu") == 0:
                if T.ptx.atom.cas(state.ptr_to([0]), 0, 1, sem="relaxed", scope="gpu") == 0:
                    x[0] = T.uint32(7)
                    T.ptx.st(state.ptr_to([0]), 2, sem="release", scope="gpu")
                else:
                    while T.ptx.ld(state.ptr_to([0]), sem="acquire", scope="gpu") != 2:
                        pass
            out[cta * lanes + thread] = x[0]  # though the state may be 1

    with pytest.raises(SimulationError, match=r"race: load reads x\[0\]"):
        tw.simulate(kernel, counters(), counters(), counters(64), check="all")


def test_a_wave_begins_with_the_threads_before_a_late_one_and_ends_with_those_behind_it():
    there = np.ones((3, 2, 32), np.bool_)
    for together, thread, sizes in ((64, 70, [64, 64, 64]), (32, 70, [64, 32, 96]), (1, 70, [70, 1, 121])):
        parts = Precedence(late=Late(thread, together, nth=1)).parts(0, there)
        assert [part.sum() for part in parts] == sizes
    *_, last = Precedence(late=Late(70, 64, nth=0)).parts(0, there)
    assert last[1].all()
    first, others = Precedence(late=Late(191, 64, nth=1)).parts(0, there)
    assert first[2].all()
    assert (first ^ others).all()
    assert len(FORWARDS.parts(0, there)) == len(Precedence(backwards=True).parts(0, there)) == 1


def tried(counts, made=(), steps=1):
    found = others({0: np.array(counts).reshape(1, 1, -1)}, made, steps)
    return [(one.late.thread, one.late.nth) if one.late else "backwards" for one in found]


def test_runs_that_would_repeat_another_one_are_left_out():
    assert tried([0, 5]) == []
    assert tried([1, 1]) == ["backwards"]
    assert tried([1, 1, 1]) == ["backwards", (1, 0)]  # backwards the first is the last
    every = tried([4, 0, 4])
    assert every[:3] == ["backwards", (0, 2), (2, 1)]
    assert {nth for thread, nth in every[1:] if thread == 0} == {1, 2, 3, 4, NEVER}
    less = tried([4, 0, 4], [Made(Late(0, 1, 2), first=4, steps=9)])
    assert {nth for thread, nth in less[1:] if thread == 0} == {1, 2, NEVER}


def test_the_longer_a_run_the_fewer_have_late_threads():
    made = [Made(Late(0, 1, 2), first=2, steps=50)]
    assert len(tried([4, 4], made, steps=50)) > 3
    assert tried([4, 4], made * 15, steps=50) == ["backwards"]
    assert tried([4, 4], steps=201) == ["backwards"]


def asked_once(after: str):
    """A warp asks once whether another one's phase is over. after: "nothing", what it then does without regard to the
    answer, "no", what it does only where it is not over, "yes", only where it is, or "waits" where it is not.
    """

    @T.prim_func
    def kernel(out: T.Buffer((32,), "uint32")):
        T.cta_id([1])
        warp, lane = T.warp_id([2]), T.lane_id([32])
        s = T.alloc_shared((32,), "uint32")
        b = T.alloc_shared((1,), "uint64")
        if warp == 0:
            s[lane] = T.uint32(0)
            if lane == 0:
                T.ptx.mbarrier.init(b.ptr_to([0]), 32)
        T.cuda.cta_sync()
        if warp == 0:
            s[lane] = T.uint32(1)
            T.ptx.mbarrier.arrive(b.ptr_to([0]))
        else:
            over = T.ptx.mbarrier.test_wait.parity(b.ptr_to([0]), T.uint32(0))
            if after == "waits" and not over:
                T.ptx.mbarrier.try_wait(b.ptr_to([0]), T.uint32(0))
            if after in ("nothing", "waits") or over == (after == "yes"):
                out[lane] = s[31 - lane]

    out = counters(32)
    assert not tw.simulate(kernel, out, check="all", target="sm_90a").warnings
    return out.tolist()


@pytest.mark.parametrize("after", ["nothing", "no"])
def test_an_answer_of_an_m_barrier_that_nobody_looks_at_orders_nothing(after):
    with pytest.raises(SimulationError, match="race"):
        asked_once(after)


@pytest.mark.parametrize("after", ["yes", "waits"])
def test_an_answer_of_an_m_barrier_orders_what_is_done_where_it_is_yes(after):
    assert asked_once(after) == [1] * 32
