"""Runs in other orders: threads that began together see what one of them does before the others go on."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import T
from tilewright.errors import SimulationError
from tilewright.sim.machine.precedence import FORWARDS, OTHERS, Precedence


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
    lanes = 40

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


def test_a_wave_begins_in_at_most_four_parts():
    halved = Precedence(halved=True)
    for ctas, warps, parts in ((1, 1, 1), (1, 3, 3), (2, 2, 4), (2, 3, 2), (9, 8, 4), (1, 32, 4)):
        found = halved.parts(ctas, warps)
        covered = np.zeros((ctas, warps), int)
        for part in found:
            covered[part] += 1
        assert (len(found), covered.min(), covered.max()) == (parts, 1, 1)
    assert len(FORWARDS.parts(9, 8)) == len(OTHERS[0].parts(9, 8)) == 1


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
