"""Kernels whose code is a control-flow graph run as their structured twins do, however their lanes part and meet."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.build import Lowered, at, cta, get, lane, tid, warp
from tests.sim.graphs import ByHand, Random, both, taken_apart
from tilewright.dtypes import dtype
from tilewright.errors import KernelError, SimulationError
from tilewright.host import Limits
from tilewright.ir import Block, Buffer, Graph, Jump, Var
from tilewright.ir.launch import LANE, WARP
from tilewright.isa import call
from tilewright.sim import Program, parse_checks

INT, UINT = dtype("int32"), dtype("uint32")


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**9))
def test_a_kernel_taken_apart_leaves_the_same_bytes(seed: int) -> None:
    made = Random(seed).k.kernel()

    (_, plain), (_, apart) = both(made, out=np.zeros(128, np.int32), n=seed % 7)

    assert plain["out_ptr"].tolist() == apart["out_ptr"].tolist()


def test_a_loop_that_is_left_at_two_places() -> None:
    k = ByHand(threads=64)
    out = k.array("out", "int32", 64)
    i, x = Var("i", INT), Var("x", INT)
    k.block("entry")
    k.let(i, 0)
    k.let(x, tid)
    k.jump("head")
    k.block("behind")  # as compilers put what is rarely reached behind the rest
    k.let(x, x + 1000)
    k.jump("store")
    k.block("head")
    k.branch(i >= tid % 9, "store", "inside")
    k.block("inside")
    k.let(x, x * 3)
    k.branch(x > 500, "behind", "latch")
    k.block("latch")
    k.let(i, i + 1)
    k.jump("head")
    k.block("store")
    k.store(out, tid, x + i)
    k.exit()
    array = np.zeros(64, np.int32)

    k.run(out=array)

    def expected(t: int) -> int:
        x = t
        for i in range(t % 9):
            x *= 3
            if x > 500:
                return x + 1000 + i
        return x + t % 9

    assert array.tolist() == [expected(t) for t in range(64)]


def test_a_loop_with_two_entries_runs() -> None:
    k = ByHand(threads=32)
    out = k.array("out", "int32", 32)
    i = Var("i", INT)
    k.block("entry")
    k.let(i, lane)
    k.branch(lane % 2 == 0, "a", "b")
    k.block("a")
    k.let(i, i + 5)
    k.branch(i > 60, "end", "b")
    k.block("b")
    k.let(i, i * 2)
    k.branch(i > 50, "end", "a")
    k.block("end")
    k.store(out, lane, i)
    k.exit()
    array = np.zeros(32, np.int32)

    k.run(out=array)

    def expected(t: int) -> int:
        at_a, i = t % 2 == 0, t
        while True:
            i = i + 5 if at_a else i * 2
            if i > (60 if at_a else 50):
                return i
            at_a = not at_a

    assert array[1:].tolist() == [expected(t) for t in range(1, 32)]


def test_threads_that_have_ended_are_not_waited_for_at_a_barrier() -> None:
    k = ByHand(threads=64)
    out, s = k.array("out", "int32", 32), k.shared("s", "int32", 64)
    k.block("entry")
    k.branch(warp == 1, "gone", "stay")
    k.block("gone")
    k.exit()
    k.block("stay")
    k.store(s, tid, tid)
    k.call("cuda.cta_sync")
    k.store(out, tid, get(s, 31 - tid))
    k.exit()
    array = np.zeros(32, np.int32)

    k.run(out=array)

    assert array.tolist() == list(range(31, -1, -1))


@pytest.mark.parametrize("turns", [1, 5])
def test_a_barrier_in_a_loop_between_a_branch_and_its_join(turns: int) -> None:
    k = Lowered(threads=64)
    out, s = k.array("out", "int32", 64), k.shared("s", "int32", 64)
    x = k.bind("x", tid)
    with k.loop("i", 0, turns):
        with k.when(warp == 0):
            k.store(s, tid, x)
            k.do("cuda.cta_sync")
            k.assign(x, get(s, 63 - tid) + 1)
        with k.otherwise():
            k.store(s, tid, x * 2)
            k.do("cuda.cta_sync")
            k.assign(x, get(s, 63 - tid))
        k.do("cuda.cta_sync")

    k.store(out, tid, x)

    (_, plain), (_, apart) = both(k.kernel(), out=np.zeros(64, np.int32))

    assert plain["out_ptr"].tolist() == apart["out_ptr"].tolist()
    assert len(set(apart["out_ptr"].tolist())) > 1


def test_the_holder_of_a_lock_may_wait_for_lanes_that_spin() -> None:
    """Every lane takes the lock in turn; lanes that have had it wait where all lanes meet again."""
    k = ByHand(threads=64, grid=2)
    out, lock = k.array("out", "int32", 1), k.array("lock", "int32", 1)
    old = Var("old", INT)
    k.block("entry")
    k.jump("try")
    k.block("try")
    k.let(old, call("cuda.atomic_cas", at(lock), 0, 1))
    k.branch(old != 0, "try", "held")
    k.block("held")
    k.call("cuda.thread_fence")
    k.store(out, 0, get(out, 0) + 1)
    k.call("cuda.thread_fence")
    k.call("cuda.atomic_exch", at(lock), 0)
    k.jump("end")
    k.block("end")
    k.exit()
    array = np.zeros(1, np.int32)

    k.run("bounds", out=array, lock=np.zeros(1, np.int32))

    assert array[0] == 128


def test_a_counter_stays_one_number_though_some_lanes_leave_the_loop_or_have_ended() -> None:
    k = ByHand(threads=64)
    out = k.array("out", "int32", 64)
    i, x = Var("i", INT), Var("x", INT)
    k.block("entry")
    k.branch(tid > 40, "gone", "go")
    k.block("gone")
    k.exit()
    k.block("go")
    k.let(i, 0)
    k.let(x, 0)
    k.jump("head")
    k.block("head")
    k.let(x, x + i)
    k.branch(x > tid, "end", "latch")
    k.block("latch")
    k.let(i, i + 1)
    k.branch(i < 100, "head", "end")
    k.block("end")
    k.store(out, tid, x)
    k.exit()
    program = Program(k.kernel(), parse_checks("none"))

    assert program.compiled.axes.variables["i"] == 0
    assert program.compiled.axes.variables["x"] == LANE | WARP


@pytest.mark.parametrize(("to", "why"), [(0, "which is entered first"), (2, "no block")])
def test_ends_must_lead_to_blocks_that_may_be_entered(to: int, why: str) -> None:
    with pytest.raises(KernelError, match=f"block 1 goes on with {to}, {why}"):
        Graph((Block((), Jump(1)), Block((), Jump(to))))


def test_nobody_goes_on_where_a_loop_never_ends() -> None:
    k = ByHand(threads=32)
    k.block("entry")
    k.jump("turn")
    k.block("turn")
    k.jump("turn")

    with pytest.raises(SimulationError, match="livelock: a loop goes on for ever"):
        Program(k.kernel(), parse_checks("all")).run({}, {})


def test_a_loop_ends_whose_condition_a_turn_changes() -> None:
    k = ByHand(threads=32)
    n = Var("n", INT)
    k.block("entry")
    k.let(n, 0)
    k.jump("turn")
    k.block("turn")
    k.let(n, n + 1)
    k.branch(n < 10, "turn", "end")
    k.block("end")
    k.exit()

    Program(k.kernel(), parse_checks("all")).run({}, {}, limits=Limits(None, 1000, None))


def test_a_kernel_taken_apart_counts_what_it_did_before() -> None:
    k = Lowered(threads=64, grid=2)
    out = k.array("out", "int32", 128)
    with k.loop("i", 0, 3) as i, k.when(i * tid % 3 == 1):
        k.store(out, cta * 64 + tid, i)

    (plain, _), (apart, _) = both(k.kernel(), out=np.zeros(128, np.int32))

    assert plain.counts.bytes_written == apart.counts.bytes_written
    assert taken_apart(k.kernel()).compiled


# Lanes of a warp that are apart


def test_lanes_that_are_apart_meet_by_the_masks_that_they_name() -> None:
    """Each half of the warp goes its way, and shuffles among itself; a mask in a register says who that is."""
    k = ByHand(threads=32)
    out = k.array("out", "int32", 32)
    mask, x = Var("mask", UINT), Var("x", INT)
    k.block("entry")
    k.let(mask, 0xFFFF)
    k.branch(lane < 16, "low", "high")
    k.block("low")
    k.let(x, call("cuda.shfl_xor_sync", mask, lane, 1))
    k.jump("join")
    k.block("high")
    k.let(mask, 0xFFFF0000)
    k.let(x, call("cuda.shfl_xor_sync", mask, lane, 2))
    k.jump("join")
    k.block("join")
    k.call("ptx.bar.warp.sync", 0xFFFFFFFF)
    k.store(out, lane, x)
    k.exit()
    array = np.zeros(32, np.int32)

    k.run(out=array)

    assert array.tolist() == [t ^ (1 if t < 16 else 2) for t in range(32)]


def test_one_collective_is_met_by_lanes_that_come_to_it_in_different_turns() -> None:
    k = ByHand(threads=32)
    out = k.array("out", "uint32", 32)
    i, x = Var("i", INT), Var("x", UINT)
    k.block("entry")
    k.let(i, 0)
    k.jump("head")
    k.block("head")
    k.branch(i >= lane % 4, "meet", "latch")
    k.block("latch")
    k.let(i, i + 1)
    k.jump("head")
    k.block("meet")
    k.let(x, call("cuda.ballot_sync", 0xFFFFFFFF, i == 2))
    k.store(out, lane, x)
    k.exit()
    array = np.zeros(32, np.uint32)

    k.run(out=array)

    assert array.tolist() == [0x44444444] * 32


def test_a_vote_does_not_wait_for_lanes_that_have_ended() -> None:
    k = ByHand(threads=32)
    out = k.array("out", "uint32", 32)
    x = Var("x", UINT)
    k.block("entry")
    k.branch(lane >= 20, "gone", "go")
    k.block("gone")
    k.exit()
    k.block("go")
    k.let(x, call("cuda.ballot_sync", 0xFFFFFFFF, lane % 2 == 0))
    k.store(out, lane, x)
    k.exit()
    array = np.zeros(32, np.uint32)

    k.run(out=array)

    assert array[:20].tolist() == [0x55555] * 20


def test_a_collective_that_lacks_a_lane_of_its_mask_is_an_error() -> None:
    k = ByHand(threads=32)
    out = k.array("out", "uint32", 32)
    x = Var("x", UINT)
    k.block("entry")
    k.let(x, 0)
    k.branch(lane < 16, "vote", "others")
    k.block("others")
    k.call("ptx.bar.sync", 1, 64)
    k.jump("end")
    k.block("vote")
    k.let(x, call("cuda.ballot_sync", 0xFFFFFFFF, lane % 2 == 0))
    k.jump("end")
    k.block("end")
    k.store(out, lane, x)
    k.exit()

    with pytest.raises(SimulationError, match=r"divergence: cuda.ballot_sync without lanes 16..31"):
        k.run(out=np.zeros(32, np.uint32))


# Uninitialised bits


def shared_word(k: ByHand, name: str = "x") -> Var:
    """A word of shared memory of which only the low half is written."""
    s = k.shared("s", "uint32", 32)
    half = k.view("half", "uint16", 64, at(s), "shared")
    word = Var(name, UINT)
    k.block("entry")
    k.store(half, lane * 2, lane)
    k.let(word, get(s, lane))
    return word


def test_unknown_bits_may_be_moved_and_masked_away() -> None:
    k = ByHand(threads=32)
    out = k.array("out", "uint32", 32)
    x, y = shared_word(k), Var("y", UINT)
    k.let(y, (x << 16) + (x & 0xFFFF) * 2)
    k.let(y, y >> 16)
    k.store(out, lane, y)
    k.exit()
    array = np.zeros(32, np.uint32)

    k.run(out=array)

    assert array.tolist() == list(range(32))


@pytest.mark.parametrize("use", ["a store to out", "a condition", "an address"])
def test_unknown_bits_that_somebody_can_see_are_an_error(use: str) -> None:
    k = ByHand(threads=32)
    out = k.array("out", "uint32", 64)
    x, y = shared_word(k), Var("y", UINT)
    k.let(y, (x + 1) ^ 5)
    if use == "a condition":
        k.branch(y > 3, "end", "end2")
        k.block("end2")
    else:
        k.store(out, (y >> 16) % 64 if use == "an address" else lane, lane if use == "an address" else y)
    k.jump("end")
    k.block("end")
    k.exit()

    with pytest.raises(SimulationError, match="uninitialised") as raised:
        k.run(out=np.zeros(64, np.uint32))

    assert use in str(raised.value)


def test_a_register_that_nobody_wrote_may_be_copied_and_not_stored() -> None:
    k = ByHand(threads=32)
    out = k.array("out", "uint32", 32)
    never, x = Var("never", UINT), Var("x", UINT)
    k.block("entry")
    k.let(x, never + 1)
    k.branch(lane < 32, "known", "end")
    k.block("known")
    k.let(x, lane)
    k.jump("end")
    k.block("end")
    k.store(out, lane, x)
    k.exit()
    array = np.zeros(32, np.uint32)
    k.run(out=array)
    assert array.tolist() == list(range(32))

    k.blocks.ended[0] = replace(k.blocks.ended[0], end=Jump(k.number("end")))
    with pytest.raises(SimulationError, match="`x` is uninitialised"):
        k.run(out=array)


def test_an_offset_in_shared_memory_may_be_computed() -> None:
    k = ByHand(threads=32)
    out = k.array("out", "uint32", 32)
    s, offset = k.shared("s", "uint32", 32), Var("offset", UINT)
    place = Buffer("*uint32", UINT, (1,), "shared", None, data=offset)
    k.block("entry")
    k.let(offset, lane * 4)
    k.store(place, 0, lane + 7)
    k.let(offset, offset ^ 4)
    k.call("ptx.bar.warp.sync", 0xFFFFFFFF)
    k.store(out, lane, get(place, 0))
    k.exit()
    array = np.zeros(32, np.uint32)

    k.run(out=array)

    assert s.name == "s"
    assert array.tolist() == [(t ^ 1) + 7 for t in range(32)]


def test_a_loop_whose_branch_leads_out_of_its_function_is_entered_again() -> None:
    """Warps part at the branch on the way to an atomic, whose order the race check looks at."""
    k = ByHand(threads=64, grid=2)
    out, i = k.array("out", "int32", 4), Var("i", INT)
    k.block("entry")
    k.let(i, tid + cta)
    k.jump("head")
    k.block("head")
    k.call("cuda.atomic_add", at(out, i % 4), 1)
    k.let(i, i + 60)
    k.branch(i < 200, "head", "end")
    k.block("end")
    k.exit()
    array = np.zeros(4, np.int32)

    k.run(out=array)

    ends = [i for c in range(2) for t in range(64) for i in range(t + c, max(200, t + c + 1), 60)]
    assert array.tolist() == np.bincount(np.array(ends) % 4).tolist()
