"""Barriers, and threads that can never go on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.sim.build import Lowered, at, cta, get, lane, tid, warp
from tilewright import T
from tilewright.dtypes import BOOL, dtype
from tilewright.errors import SimulationError
from tilewright.ir import Const, binary, cast
from tilewright.isa import call


def test_a_barrier_in_one_branch_of_warps_may_be_met_in_another() -> None:
    """Warps count at barrier 0 wherever they stand, as the hardware counts them."""
    k = Lowered(threads=64)
    out, s = k.array("out", "int32", 64), k.shared("s", "int32", 64)
    k.store(s, tid, tid)
    with k.when(warp == 0):
        k.do("cuda.cta_sync")
    with k.otherwise():
        k.do("cuda.cta_sync")
    k.store(out, tid, get(s, 63 - tid))
    array = np.zeros(64, np.int32)

    k.run(out=array)

    assert array.tolist() == list(range(63, -1, -1))


def test_a_warp_that_never_comes_is_a_deadlock() -> None:
    k = Lowered(threads=96)
    with k.when(warp < 2):
        k.do("ptx.bar.sync", 0, 96)

    with pytest.raises(SimulationError, match="deadlock") as raised:
        k.run("none")

    text = str(raised.value)
    assert "kernel.py:2: ptx.bar.sync: CTA (0, 0, 0), warps 0..1, all lanes" in text
    assert "96 threads at barrier 0; 64 have arrived" in text


def test_the_many_warps_of_a_deadlock_are_told_as_ranges() -> None:
    k = Lowered(threads=1024)
    with k.when(warp != 3):
        k.do("ptx.bar.sync", 0, 1024)

    with pytest.raises(SimulationError, match=r"CTA \(0, 0, 0\), warps 0\.\.2, 4\.\.31, all lanes"):
        k.run("none")


@pytest.mark.parametrize("barrier", ["cuda.cta_sync", "cuda.cluster_sync"])
def test_barriers_without_a_count_wait_for_no_warp_that_has_ended(barrier: str) -> None:
    k = Lowered(threads=96, grid=4, cluster=2)
    out = k.array("out", "int32", 8)
    s = k.shared("s", "int32", 96)
    with k.when(warp < 2):
        k.store(s, tid, tid)
        k.do(barrier)
        with k.when(lane == 0):
            k.store(out, cta * 2 + warp, get(s, 63 - tid))

    array = np.zeros(8, np.int32)

    k.run(out=array)

    assert array.tolist() == [63, 31] * 4


def test_a_barrier_waits_for_a_warp_that_waits_elsewhere() -> None:
    k = Lowered(threads=96)
    with k.when(warp < 2):
        k.do("cuda.cta_sync")
    with k.when(warp == 2):
        k.do("ptx.bar.sync", 1, 64)

    with pytest.raises(SimulationError, match="deadlock"):
        k.run("none")


def test_what_a_warp_did_before_it_ended_is_told_to_nobody() -> None:
    k = Lowered(threads=96)
    out = k.array("out", "int32", 64)
    s = k.shared("s", "int32", 96)
    k.store(s, tid, tid)
    with k.when(warp < 2):
        k.do("cuda.cta_sync")
        k.store(out, tid, get(s, 95 - tid))

    with pytest.raises(SimulationError, match="race"):
        k.run("races", out=np.zeros(64, np.int32))


def test_warps_in_a_ring_pass_on_a_token() -> None:
    """Warp w waits at barrier w+1 and then arrives at the next one's: each step lets one warp of a batch go."""
    warps = 8
    k = Lowered(threads=32 * warps)
    out, s = k.array("out", "int32", warps), k.shared("s", "int32", 1)
    with k.when(warp == 0):
        with k.when(lane == 0):
            k.store(s, 0, 1)
        k.do("ptx.bar.arrive", 2, 64)
    with k.when(warp > 0):
        k.do("ptx.bar.sync", warp + 1, 64)
        with k.when(lane == 0):
            k.store(s, 0, get(s, 0) * 2)
            k.store(out, warp, get(s, 0))
        with k.when(warp < warps - 1):
            k.do("ptx.bar.arrive", warp + 2, 64)
    array = np.zeros(warps, np.int32)

    k.run(out=array)

    assert array.tolist() == [0, 2, 4, 8, 16, 32, 64, 128]


def test_a_warp_that_waits_inside_an_if_is_not_waited_for_after_it() -> None:
    k = Lowered(threads=64)
    out = k.array("out", "int32", 1)
    with k.when(warp == 0):
        k.do("ptx.bar.sync", 1, 64)
        with k.when(lane == 0):
            k.store(out, 0, 7)
    with k.when(warp == 1):
        k.do("ptx.bar.arrive", 1, 64)
    array = np.zeros(1, np.int32)

    k.run(out=array)

    assert array[0] == 7


def test_loops_with_barriers_may_end_at_different_turns_of_different_ctas() -> None:
    k = Lowered(threads=64, grid=5)
    out, s = k.array("out", "int32", 5 * 64), k.shared("s", "int32", 64)
    k.store(s, tid, 0)
    k.do("cuda.cta_sync")
    with k.loop("i", 0, cta + 1):
        k.bind("x", get(s, (tid + 1) % 64))
        x = k.bind("y", get(s, (tid + 1) % 64) + 1)
        k.do("cuda.cta_sync")
        k.store(s, tid, x)
        k.do("cuda.cta_sync")
    k.store(out, cta * 64 + tid, get(s, tid))
    array = np.zeros(5 * 64, np.int32)

    k.run(out=array)

    assert array.reshape(5, 64).tolist() == [[c + 1] * 64 for c in range(5)]


def test_a_warpgroup_meets_at_its_own_barrier() -> None:
    k = Lowered(threads=256)
    out, s = k.array("out", "int32", 256), k.shared("s", "int32", 256)
    k.store(s, tid, tid)
    k.do("cuda.warpgroup_sync", warp // 4 + 1)
    k.store(out, tid, get(s, warp // 4 * 128 + (127 - tid % 128)))
    array = np.zeros(256, np.int32)

    k.run(out=array)

    assert array[128] == 255


def test_lanes_that_part_meet_again_at_warp_sync() -> None:
    k = Lowered()
    out, s = k.array("out", "int32", 32), k.shared("s", "int32", 32)
    with k.when(lane < 16):
        k.store(s, lane, lane)
        k.do("cuda.warp_sync")
    with k.otherwise():
        k.store(s, lane, lane)
        k.do("cuda.warp_sync")
    k.store(out, lane, 0)

    with pytest.raises(SimulationError, match="divergence"):
        k.run(out=np.zeros(32, np.int32))


def test_a_collective_after_a_split_gathers_its_warp() -> None:
    """The lanes part at a place that may wait, and come together at the shuffle."""
    k = Lowered(threads=64)
    out = k.array("out", "int32", 64)
    x = k.bind("x", lane)
    flag = k.shared("flag", "int32", 2)
    with k.when(lane < 16):
        with k.repeat(call("cuda.atomic_add", at(flag, warp), 0) > 0):
            k.assign(x, 0)
        k.assign(x, x + 100)
    k.store(out, tid, call("cuda.shfl_xor_sync", 0xFFFFFFFF, x, 16))
    array = np.zeros(64, np.int32)

    k.run("bounds", out=array)

    assert array[:32].tolist() == [*range(16, 32), *range(100, 116)]


@pytest.mark.parametrize("name", ["ldmatrix", "shuffle"])
def test_a_collective_without_all_of_its_lanes_names_them(name: str) -> None:
    k = Lowered()
    s, r = k.shared("s", "float16", 256), k.local("r", "float16", 8)
    with k.when(lane < 20):
        if name == "ldmatrix":
            k.do("ptx.ldmatrix", False, 4, ".b16", at(s, lane * 8), *(get(r, 2 * m) for m in range(4)))
        else:
            k.do("cuda.shfl_xor_sync", 0xFFFFFFFF, lane, 1)

    with pytest.raises(SimulationError, match=r"divergence: .* without lanes 20\.\.31") as raised:
        k.run("none")

    assert "lanes 0..19" in str(raised.value)


def test_a_collective_may_leave_out_whole_warps() -> None:
    k = Lowered(threads=64)
    s, r = k.shared("s", "float16", 256), k.local("r", "float16", 8)
    with k.when(warp == 1):
        k.do("ptx.ldmatrix", False, 4, ".b16", at(s, lane * 8), *(get(r, 2 * m) for m in range(4)))

    k.run()


def test_a_flag_that_a_later_cta_sets_is_waited_for() -> None:
    """CTA 0 polls; the CTA that answers is in another wave of the grid."""
    k = Lowered(threads=1024, grid=100)
    flag, out = k.array("flag", "int32", 1), k.array("out", "int32", 1)
    with k.when(cta == 0), k.when(tid == 0):
        with k.repeat(call("cuda.atomic_add", at(flag, 0), 0) < 1):
            k.do("cuda.nanosleep", 10)
        k.store(out, 0, 5)
    with k.when(cta == 99), k.when(tid == 0):
        k.do("cuda.atomic_add", at(flag, 0), 1)
    array = np.zeros(1, np.int32)

    k.run("default", flag=np.zeros(1, np.int32), out=array)

    assert array[0] == 5


def test_a_poll_that_nobody_answers_is_a_livelock() -> None:
    k = Lowered()
    flag = k.array("flag", "int32", 1)
    with k.repeat(call("cuda.atomic_add", at(flag, 0), 0) < 1):
        k.do("cuda.nanosleep", 10)

    with pytest.raises(SimulationError, match="livelock") as raised:
        k.run("none", flag=np.zeros(1, np.int32))

    assert "CTA (0, 0, 0), warp 0, all lanes" in str(raised.value)


def test_a_spin_lock_lets_one_lane_after_the_other_in() -> None:
    k = Lowered(threads=64)
    lock, total = k.array("lock", "int32", 1), k.array("total", "int32", 1)
    done = k.bind("done", Const(False, BOOL), "bool")
    with k.repeat(done == Const(False, BOOL)), k.when(call("cuda.atomic_cas", at(lock, 0), 0, 1) == 0):
        k.store(total, 0, get(total, 0) + 1)
        k.do("cuda.atomic_exch", at(lock, 0), 0)
        k.assign(done, Const(True, BOOL))
    array = np.zeros(1, np.int32)

    k.run("default", lock=np.zeros(1, np.int32), total=array)

    assert array[0] == 64


@pytest.mark.parametrize(("number", "threads"), [(16, 64), (1, 48), (1, 0)])
def test_a_barrier_has_a_number_below_16_and_whole_warps(number: int, threads: int) -> None:
    k = Lowered(threads=64)
    k.do("ptx.bar.sync", number, threads)

    with pytest.raises(SimulationError, match="barrier"):
        k.run()


def test_too_many_threads_at_a_barrier_are_an_error() -> None:
    k = Lowered(threads=96)
    k.do("ptx.bar.arrive", 1, 64)

    with pytest.raises(SimulationError, match="more threads than barrier 1 is for"):
        k.run()


def test_a_loop_that_changes_nothing_is_a_livelock() -> None:
    k = Lowered()
    x = k.bind("x", lane)
    with k.repeat(x < 40):
        k.assign(x, x * 1)

    with pytest.raises(SimulationError, match="livelock: a loop goes on for ever"):
        k.run("none")


def test_a_flag_may_be_read_through_a_variable() -> None:
    """Warp 1 asks a plain place of shared memory until warp 0 has written there."""
    k = Lowered(threads=64)
    s, out = k.shared("s", "int32", 1), k.array("out", "int32", 32)
    with k.when(tid == 0):
        k.store(s, 0, 0)
    k.do("cuda.cta_sync")
    with k.when(warp == 1):
        seen = k.bind("seen", 0)
        with k.repeat(seen == 0):
            k.assign(seen, get(s, 0))
        k.store(out, lane, seen)
    with k.when(tid == 0):
        k.store(s, 0, 4)
    array = np.zeros(32, np.int32)

    k.run("default", out=array)

    assert (array == 4).all()


def test_a_search_in_memory_is_no_poll() -> None:
    k = Lowered(threads=64)
    a, out = k.array("a", "int32", 100), k.array("out", "int32", 64)
    i = k.bind("i", 0)
    with k.repeat(get(a, i) < tid):
        k.assign(i, i + 1)
    k.store(out, tid, i)
    array = np.zeros(64, np.int32)

    k.run(a=np.arange(100, dtype=np.int32) * 2, out=array)

    assert array.tolist() == [-(-t // 2) for t in range(64)]


@pytest.mark.parametrize(
    ("mask", "lanes"),
    [
        (0xFFFF, r"lanes 16\.\.31"),
        (0, "all lanes"),
        (binary("<<", T.uint32(1), cast(lane // 2, dtype("uint32"))), "lanes 1"),
    ],
)
@pytest.mark.parametrize("name", ["cuda.shfl_sync", "cuda.ballot_sync"])
def test_a_lane_that_its_own_mask_leaves_out_is_found(name: str, mask: Any, lanes: str) -> None:
    k = Lowered()
    k.do(name, mask, *((lane, 0) if "shfl" in name else (lane > 3,)))

    with pytest.raises(SimulationError, match=f"(?s){name}: lanes that .* its mask does not name.*{lanes}"):
        k.run("none")


def test_lanes_with_masks_of_their_own_group_need_each_other_only() -> None:
    """Two groups of lanes, each with its mask: both meet; a mask that reaches into the other group does not."""
    low, high = T.uint32(0x0000FFFF), T.uint32(0xFFFF0000)
    k = Lowered()
    k.do("cuda.ballot_sync", T.select(lane < 16, low, high), lane > 3)
    k.run("none")

    k = Lowered()
    k.do("cuda.ballot_sync", T.select(lane < 16, low, T.uint32(0xFFFF8000)), lane > 3)
    with pytest.raises(SimulationError, match=r"cuda\.ballot_sync: masks that differ between the lanes that they name"):
        k.run("none")


def test_lanes_of_a_warp_name_one_barrier() -> None:
    k = Lowered(threads=64)
    k.do("ptx.bar.sync", lane + 1, 64)

    with pytest.raises(SimulationError, match="lanes of a warp name different numbers") as raised:
        k.run()

    assert raised.value.given == "1 and 2 in warp 0"


def test_there_are_sixteen_barriers() -> None:
    k = Lowered(threads=64)
    k.do("ptx.bar.sync", warp * 16, 32)

    with pytest.raises(SimulationError, match="there is no barrier 16"):
        k.run()


def test_a_loop_goes_on_for_the_whole_warp_while_one_of_its_lanes_says_so() -> None:
    @T.prim_func
    def count(a: T.Buffer((64,), "int32")):
        T.cta_id([1])
        tid = T.thread_id([64])
        left: T.int32 = tid % 7 + tid // 32
        turns: T.int32 = 0
        while T.cuda.any_sync(T.uint32(0xFFFFFFFF), left > 0):
            left = left - 1
            turns = turns + 1
        a[tid] = turns

    array = np.zeros(64, np.int32)

    tw.simulate(count, array, check="all")

    assert array.tolist() == [6] * 32 + [7] * 32


@pytest.mark.parametrize("width", [2, 8])
@pytest.mark.parametrize("by", ["cuda", "ptx"])
def test_lanes_that_meet_by_masks_of_their_own_meet_those_of_their_mask_alone(width: int, by: str) -> None:
    def kernel(reach: int) -> Any:
        @T.prim_func
        def k(b: T.Buffer((64,), "int32")):
            T.cta_id([1])
            tid = T.thread_id([64])
            lane = T.lane_id([32])
            s = T.alloc_shared((64,), "int32")
            s[tid] = tid
            mask: T.uint32 = T.uint32((1 << width) - 1) << T.cast(lane // width * width, "uint32")
            if by == "cuda":
                T.cuda.warp_sync(mask)
            else:
                T.ptx.bar.warp.sync(mask)
            b[tid] = s[tid ^ reach]

        return k

    b = np.zeros(64, np.int32)

    assert tw.simulate(kernel(width - 1), b, check="all").warnings == []
    with pytest.raises(SimulationError, match="race: load reads s"):
        tw.simulate(kernel(width), b, check="all")
