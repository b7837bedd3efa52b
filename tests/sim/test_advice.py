"""The hint of a race report: a barrier that can stand there, and with which the kernel is free of races."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.sim.build import Lowered, at, cta, get, lane, tid, warp
from tilewright import T, Tx
from tilewright.errors import SimulationError
from tilewright.ir import as_expr
from tilewright.ir.build import binary
from tilewright.isa import call

APART = (
    "as two statements: what it reads into a variable, T.cuda.cta_sync(), then the rest; or another array to write to"
)
ATOMIC = "it reads and writes at once; a barrier would not keep two threads apart"


def hint(k: Lowered, **arrays: Any) -> str | None:
    given = {"out": np.zeros(256, np.int32)} | arrays
    with pytest.raises(SimulationError, match="race") as error:
        k.run("races", **given)
    return error.value.hint


def kernel(threads: int = 64, grid: int = 1) -> tuple[Lowered, Any, Any]:
    k = Lowered(threads=threads, grid=grid)
    return k, k.array("out", "int32", 256), k.shared("s", "int32", 256)  # s is declared at line 1


def test_a_barrier_between_two_lines() -> None:
    k, out, s = kernel()
    k.store(s, tid, tid)
    k.store(out, tid, get(s, 63 - tid))

    assert hint(k) == "T.cuda.cta_sync() between line 2 and line 3"


def test_a_barrier_comes_after_the_whole_condition() -> None:
    k, out, s = kernel()
    with k.when(tid == 0):
        k.store(s, 0, 1)
        k.store(s, 1, 1)
    with k.when(tid > 32):
        k.store(out, tid, get(s, 0))

    assert hint(k) == "T.cuda.cta_sync() between line 4 and line 5"


def test_where_a_condition_parts_the_threads_it_is_cut_in_two() -> None:
    k, out, s = kernel(threads=96)
    with k.when(tid < 64):
        k.store(s, tid, tid)
        k.store(out, tid, get(s, 63 - tid))

    assert hint(k) == "the `if` of line 2 twice, up to line 3 and from line 4, T.cuda.cta_sync() between them"


def test_a_condition_that_all_threads_share_parts_nobody() -> None:
    k, out, s = kernel()
    with k.when(as_expr(cta) == 0):
        k.store(s, tid, tid)
        k.store(out, tid, get(s, 63 - tid))

    assert hint(k) == "T.cuda.cta_sync() between line 3 and line 4"


def test_within_a_warp_its_own_barrier_is_enough() -> None:
    k, out, s = kernel()
    with k.when(warp == 0):
        k.store(s, lane, lane)
        k.store(out, lane, get(s, 31 - lane))

    assert hint(k) == "T.cuda.warp_sync() between line 3 and line 4"


def test_a_loop_whose_turns_race_gets_its_barrier_between_them() -> None:
    k, out, s = kernel()
    k.store(s, tid, tid)
    k.do("cuda.cta_sync")
    with k.loop("i", 0, 4):
        k.store(out, tid, get(s, 63 - tid))
        k.do("cuda.cta_sync")
        k.store(s, tid, tid)

    assert hint(k) == "T.cuda.cta_sync() at the end of each turn of the loop at line 4"


def test_a_tree_of_sums_gets_its_barrier_behind_its_branch() -> None:
    k, _, s = kernel()
    k.store(s, tid, tid)
    k.do("cuda.cta_sync")
    with k.loop("i", 0, 6), k.when(tid < 32):
        k.store(s, tid, get(s, tid) + get(s, tid + 1))

    assert hint(k) == (
        "line 6 as two statements: what it reads into a variable, T.cuda.warp_sync() behind the `if` of line 5, "
        "then the store under that condition; or another array to write to; "
        "and T.cuda.warp_sync() at the end of each turn of the loop at line 4, behind the `if` of line 5"
    )


def test_one_statement_that_reads_and_writes_is_taken_apart() -> None:
    k, _, s = kernel()
    k.store(s, tid, tid)
    k.do("cuda.cta_sync")
    k.store(s, tid, get(s, 63 - tid))

    assert hint(k) == f"line 4 {APART}"


def test_of_all_racing_pairs_the_farthest_apart_are_told_as_their_barrier_orders_all() -> None:
    k, _, s = kernel()
    k.store(s, tid, tid)
    k.do("cuda.cta_sync")
    k.store(s, tid + 1, get(s, tid))

    with pytest.raises(SimulationError, match="race") as error:
        k.run("races", out=np.zeros(256, np.int32))

    assert "warp 0, lane 31" in str(error.value.given)
    assert "warp 1, lane 0" in str(error.value.given)
    assert error.value.hint == f"line 4 {APART}"


def test_a_barrier_at_the_end_of_the_turn_is_not_advised_where_one_stands() -> None:
    k, _, s = kernel()
    k.store(s, tid, tid)
    k.do("cuda.cta_sync")
    with k.loop("i", 0, 4):
        k.store(s, tid + 1, get(s, tid))
        k.do("cuda.cta_sync")

    assert hint(k) == f"line 5 {APART}"


def test_threads_that_change_one_place_are_told_the_atomic_that_does_it() -> None:
    k, out, _ = kernel()
    k.store(out, tid % 8, get(out, tid % 8) + 1)

    assert hint(k) == f"T.cuda.atomic_add(out.ptr_to([...]), value) in place of line 2: {ATOMIC}"


def test_a_change_of_one_place_over_two_lines_is_the_same() -> None:
    k, out, _ = kernel()
    r = k.local("r", "int32", 1)
    k.store(r, 0, get(out, tid % 8))
    k.store(out, tid % 8, binary("min", get(r, 0), tid))

    assert hint(k) == f"T.cuda.atomic_min(out.ptr_to([...]), value) in place of lines 3 and 4: {ATOMIC}"


def test_what_no_atomic_does_gets_a_place_for_each_thread() -> None:
    k, out, _ = kernel()
    k.store(out, tid % 8, get(out, tid % 8) * 3)

    assert str(hint(k)).startswith("a place of its own for each thread")


def test_threads_that_all_read_what_one_overwrites_are_no_update() -> None:
    k, out, s = kernel()
    with k.when(tid == 0):
        k.store(s, 0, 1)
    k.do("cuda.cta_sync")
    k.store(out, tid, get(s, 0))
    with k.when(tid == 0):
        k.store(s, 0, 2)

    assert hint(k) == "T.cuda.cta_sync() between line 5 and line 6"


def test_across_ctas_a_second_array_is_advised_where_one_reads() -> None:
    k, out, _ = kernel(grid=2)
    k.store(out, cta * 64 + tid + 1, get(out, cta * 64 + tid))

    assert str(hint(k)).startswith("no barrier orders CTAs: write to a second array")


def test_an_m_barrier_that_all_threads_begin_is_left_to_one() -> None:
    k, _, _ = kernel()
    bar = k.shared("bar", "uint64", 1)
    k.do("ptx.mbarrier.init", at(bar, 0), 64)

    assert hint(k) == "if T.thread_id() == 0: ..."


def test_lanes_of_one_store_are_told_no_barrier() -> None:
    k, _, s = kernel()
    k.store(s, 0, tid)

    assert hint(k) == "different places for the lanes of this statement, or atomics"


def test_under_a_loop_that_parts_the_threads_no_barrier_is_advised() -> None:
    k, out, s = kernel()
    with k.loop("i", 0, tid):
        k.store(s, tid, tid)
        k.store(out, tid, get(s, 63 - tid))

    assert hint(k) is None


def test_where_an_m_barrier_is_told_a_wait_is_advised() -> None:
    k, out, s = kernel()
    bar = k.shared("bar", "uint64", 1)
    with k.when(tid == 0):
        k.do("ptx.mbarrier.init", at(bar, 0), 32)
    k.do("cuda.cta_sync")
    with k.when(warp == 0):
        k.store(s, lane, lane)
        k.do("ptx.mbarrier.arrive", at(bar, 0))
    with k.when(warp == 1):
        k.store(out, lane, get(s, lane))

    assert hint(k) == "a wait for the phase of the m-barrier that line 8 arrives at, before line 10"


def told(*, parity: int, early: bool = False) -> Lowered:
    """Warp 0 waits for a parity and reads what warp 1 stores before, or after, it arrives."""
    k, out, s = kernel()
    bar = k.shared("bar", "uint64", 1)
    with k.when(tid == 0):
        k.do("ptx.mbarrier.init", at(bar, 0), 32)
    k.do("cuda.cta_sync")
    with k.when(warp == 0):
        k.do("ptx.mbarrier.try_wait", at(bar, 0), parity)
        k.store(out, lane, get(s, lane))
    with k.when(warp == 1):
        if early:
            k.do("ptx.mbarrier.arrive", at(bar, 0))
        k.store(s, lane, lane)
        if not early:
            k.do("ptx.mbarrier.arrive", at(bar, 0))
    return k


def test_a_wait_for_the_other_parity_is_told_as_one_that_lets_pass_at_once() -> None:
    assert hint(told(parity=1)) == (
        "a wait for parity 0 of bar[0], of the phase that line 11 arrives at, before line 8: "
        "the wait of line 7 is for parity 1, of a phase that counts as over"
    )
    told(parity=0).run("all", out=np.zeros(256, np.int32))


def test_an_arrival_before_the_access_that_it_is_to_cover_is_told() -> None:
    assert hint(told(parity=0, early=True)) == (
        "the arrival of line 10 at bar[0] behind line 11: "
        "a wait covers what comes before an arrival, not what comes after it"
    )


def test_no_wait_is_advised_for_what_is_told_later() -> None:
    k, out, s = kernel()
    bar = k.shared("bar", "uint64", 1)
    with k.when(tid == 0):
        k.do("ptx.mbarrier.init", at(bar, 0), 64)
    k.do("cuda.cta_sync")
    k.store(s, tid, tid)
    k.store(out, tid, get(s, 63 - tid))
    k.do("ptx.mbarrier.arrive", at(bar, 0))

    assert hint(k) == "T.cuda.cta_sync() between line 6 and line 7"


def locked(*, fenced: bool) -> Lowered:
    k = Lowered(grid=2)
    lock, total = k.array("lock", "int32", 1), k.array("total", "int32", 1)
    with k.when(tid == 0):
        with k.repeat(call("cuda.atomic_cas", at(lock, 0), 0, 1) != 0):
            k.do("cuda.nanosleep", 10)
        if fenced:
            k.do("cuda.thread_fence")
        k.store(total, 0, get(total, 0) + 1)
        if fenced:
            k.do("cuda.thread_fence")
        k.do("cuda.atomic_exch", at(lock, 0), 0)
    return k


def test_while_a_lock_is_held_a_fence_is_advised_and_helps() -> None:
    arrays = {"lock": np.zeros(1, np.int32), "total": np.zeros(1, np.int32)}

    found = hint(locked(fenced=False), out=np.zeros(0, np.int32), **arrays)
    arrays = {"lock": np.zeros(1, np.int32), "total": np.zeros(1, np.int32)}
    locked(fenced=True).run("all", **arrays)

    assert arrays["total"] == 2
    assert found is not None
    assert found.startswith("T.cuda.thread_fence() after the loop at line 2, and again before line 5")


def test_of_a_lock_only_the_fence_that_is_missing_is_advised() -> None:
    k = Lowered(grid=2)
    lock, total = k.array("lock", "int32", 1), k.array("total", "int32", 1)
    with k.when(tid == 0):
        with k.repeat(call("cuda.atomic_cas", at(lock, 0), 0, 1) != 0):
            k.do("cuda.nanosleep", 10)
        k.do("cuda.thread_fence")
        k.store(total, 0, get(total, 0) + 1)
        k.do("cuda.atomic_exch", at(lock, 0), 0)

    found = hint(k, out=np.zeros(0, np.int32), lock=np.zeros(1, np.int32), total=np.zeros(1, np.int32))
    assert found == "T.cuda.thread_fence() before line 6: no barrier can stand where a lock is held"


def test_a_collective_of_the_own_warp_is_no_other_thread() -> None:
    k, out, s = kernel(threads=32)
    r = k.local("r", "uint32", 4)
    with k.loop("i", 0, 8) as i:
        k.store(s, i * 32 + lane, lane)
    k.do("cuda.warp_sync")
    k.do("ptx.ldmatrix", False, 4, ".b16", at(s, lane * 4), *[at(r, j) for j in range(4)])
    k.store(s, lane, get(r, 0))
    k.store(out, lane, get(r, 0))

    with pytest.raises(SimulationError, match="which its warp has read"):
        k.run("races", out=np.zeros(256, np.int32))


@T.prim_func
def guarded(d: T.Buffer((1,), "uint32")):
    cta, own = T.cta_id([2]), T.thread_id([64])
    if d[0] < T.cast(cta * 64 + own, "uint32"):
        T.cuda.atomic_max(d.ptr_to([0]), T.cast(cta * 64 + own, "uint32"))


@T.prim_func
def guarded_by_a_strong_read(d: T.Buffer((1,), "uint32")):
    cta, own = T.cta_id([2]), T.thread_id([64])
    if T.ptx.ld(d.ptr_to([0]), sem="relaxed", scope="gpu", type="u32") < T.cast(cta * 64 + own, "uint32"):
        T.cuda.atomic_max(d.ptr_to([0]), T.cast(cta * 64 + own, "uint32"))


def test_a_plain_guard_of_an_atomic_is_told_a_relaxed_read() -> None:
    with pytest.raises(SimulationError) as error:
        tw.compile(guarded).simulate(np.zeros(1, np.uint32), check="races")

    assert str(error.value.hint).startswith("T.ptx.ld(..., sem='relaxed', scope='gpu')")
    d = np.zeros(1, np.uint32)
    tw.compile(guarded_by_a_strong_read).simulate(d, check="all")
    assert d[0] == 127


@T.prim_func
def overlapping(x: T.Buffer((128,), "float32")):
    T.cta_id([1])
    tid = T.thread_id([64])
    pool = T.SMEMPool()
    a = pool.alloc((64,), "float32")
    pool.move_base_to(0)
    b = pool.alloc((64,), "float32")
    pool.commit()
    a[tid] = x[tid]
    b[63 - tid] = x[64 + tid]
    T.cuda.cta_sync()
    x[tid] = a[tid] + b[63 - tid]


def test_arrays_of_a_pool_that_overlap_are_told_another_place() -> None:
    with pytest.raises(SimulationError) as error:
        tw.compile(overlapping).simulate(np.arange(128, dtype=np.float32), check="races")

    assert str(error.value.hint).startswith("another place for b than for a: both hold byte ")


@T.prim_func
def without_columns(A: T.Buffer((128, 16), "float32")):
    T.cta_id([1])
    T.thread_id([128])
    pool = T.SMEMPool()
    columns = T.TMEMPool(pool, 64)
    first = columns.alloc((128, 16), "float32")
    pool.commit()
    T.cuda.cta_sync()
    r = T.wg_reg_tile(16)
    Tx.wg.copy(r, A)
    Tx.wg.copy_async(first[:, 0:16], r)


def test_columns_that_nobody_has_asked_for_are_told_the_commit_of_their_pool() -> None:
    with pytest.raises(SimulationError) as error:
        tw.compile(without_columns, "sm_100a").simulate(np.zeros((128, 16), np.float32), check="all")

    assert "columns.commit() of a T.TMEMPool, and T.cuda.cta_sync() behind it, before line" in str(error.value.hint)
