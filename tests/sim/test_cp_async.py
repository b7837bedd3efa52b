"""cp.async in kernels: exact, waited for by group and by m-barrier, and reports name the missing step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tilewright as tw
from tests.sim.running import refusal, simulate
from tilewright import T

Array = NDArray[Any]
A = np.arange(1024, dtype=np.float32).reshape(2, 128, 4)


def pipeline(*left_out: str) -> Any:
    """Two groups of 16 bytes a thread; each is read by another warp."""
    has = {step: step not in left_out for step in ("commit", "wait", "barrier", "early")}

    @T.prim_func
    def k(a: T.Buffer((2, 128, 4), "float32"), b: T.Buffer((2, 128, 4), "float32")):
        T.cta_id([1])
        tid = T.thread_id([128])
        s = T.alloc_shared((2, 128, 4), "float32")
        for i in range(2):
            T.ptx.cp_async(s.ptr_to([i, tid, 0]), a.ptr_to([i, tid, 0]), 16)
            if has["commit"]:
                T.ptx.cp_async.commit_group()
        if not has["early"]:
            b[0, tid, 0] = s[0, tid, 0]
        for i in range(2):
            if has["wait"] and i == 0:
                T.ptx.cp_async.wait_group(1)
            if has["wait"] and i == 1:
                T.ptx.cp_async.wait_group(0)
            if has["barrier"]:
                T.cuda.cta_sync()
            for j in range(4):
                b[i, tid, j] = s[i, 127 - tid, j]

    return k


def test_groups_are_waited_for_from_the_oldest_on() -> None:
    b = np.zeros_like(A)

    assert simulate(pipeline(), A, b) == []
    assert np.array_equal(b, A[:, ::-1])


def test_a_copy_is_counted_where_it_reads_and_where_it_writes() -> None:
    counts = tw.simulate(pipeline(), A, np.zeros_like(A)).counts

    assert counts.instructions["ptx.cp_async"] == 8
    assert (counts.bytes_read["global"], counts.bytes_written["shared"]) == (A.nbytes, A.nbytes)


def test_what_nobody_waited_for_is_not_there() -> None:
    b = np.full_like(A, -1)

    tw.simulate(pipeline("wait"), A, b, check="none")

    assert not b.any()


@pytest.mark.parametrize(
    ("left_out", "what", "hint"),
    [
        ("wait", "load reads shared memory that cp_async may still be writing", "T.ptx.cp_async.wait_group(0)"),
        ("early", "load reads shared memory that cp_async may still be writing", "T.ptx.cp_async.wait_group(0)"),
        (
            "commit",
            "load reads shared memory that cp_async may still be writing",
            "T.ptx.cp_async.commit_group() after",
        ),
        ("barrier", "race: load reads s[", "T.cuda.cta_sync()"),
    ],
)
def test_a_missing_step_is_named(left_out: str, what: str, hint: str) -> None:
    error = refusal(pipeline(left_out), A, np.zeros_like(A))

    assert error.what.startswith(what)
    assert hint in str(error.hint)


# Which bytes are copied.


def copied(n: int, size: Array, **how: Any) -> Array:
    """The oracle: 0x55 where nothing is written; what is not read is zero."""
    source = np.arange(64 * 16, dtype=np.uint8).reshape(64, 16)
    found = np.full_like(source, 0x55)
    for thread in range(64):
        given = int(size[thread])
        count = {"src_size": given, "ignore_src": 0 if given else n, "predicate": n if given else 0}[how["by"]]
        if how["by"] == "predicate" and not given and not how["zero"]:
            continue
        found[thread, :n] = [source[thread, i] if i < count else 0 for i in range(n)]
    return found


def guarded(n: int, by: str, *, zero: bool) -> Any:
    fill_mode = "zero" if zero else ""

    @T.prim_func
    def k(a: T.Buffer((64, 16), "uint8"), size: T.Buffer((64,), "uint32"), b: T.Buffer((64, 16), "uint8")):
        T.cta_id([1])
        tid = T.thread_id([64])
        s = T.alloc_shared((64, 16), "uint8")
        for i in range(16):
            s[tid, i] = T.uint8(0x55)
        if by == "src_size":
            T.ptx.cp_async(s.ptr_to([tid, 0]), a.ptr_to([tid, 0]), n, src_size=size[tid])
        elif by == "ignore_src":
            T.ptx.cp_async(s.ptr_to([tid, 0]), a.ptr_to([tid, 0]), n, ignore_src=size[tid] != 0)
        else:
            T.ptx.cp_async(s.ptr_to([tid, 0]), a.ptr_to([tid, 0]), n, predicate=size[tid] != 0, fill_mode=fill_mode)
        T.ptx.cp_async.wait_all()
        for i in range(16):
            b[tid, i] = s[tid, i]

    return k


@pytest.mark.parametrize("n", [4, 8, 16])
@pytest.mark.parametrize(
    ("by", "zero"), [("src_size", False), ("ignore_src", False), ("predicate", False), ("predicate", True)]
)
def test_bytes_that_are_not_read_are_zero_or_left_alone(n: int, by: str, zero: bool) -> None:
    source = np.arange(64 * 16, dtype=np.uint8).reshape(64, 16)
    size, b = np.arange(64, dtype=np.uint32) % (n + 1 if by == "src_size" else 2), np.zeros_like(source)

    assert simulate(guarded(n, by, zero=zero), source, size, b) == []
    assert np.array_equal(b, copied(n, size, by=by, zero=zero))


def test_more_bytes_than_the_copy_has_cannot_be_read() -> None:
    size = np.full(64, 17, np.uint32)
    source = np.zeros((64, 16), np.uint8)

    assert refusal(guarded(16, "src_size", zero=False), source, size, source.copy()).what == (
        "src_size is at most the 16 bytes of the copy, not 17"
    )


def rows(beyond: int, size: int, *, shift: int = 0) -> Any:
    @T.prim_func
    def k(a: T.Buffer((1024,), "uint8"), b: T.Buffer((1024,), "uint8")):
        T.cta_id([1])
        tid = T.thread_id([64])
        s = T.alloc_shared((1024,), "uint8")
        count = T.select(tid * 16 + beyond < 1024, 16, size)
        T.ptx.cp_async(s.ptr_to([tid * 16]), a.ptr_to([tid * 16 + beyond + shift]), 16, src_size=count)  # the copy
        T.ptx.cp_async.wait_all()
        for i in range(16):
            b[tid * 16 + i] = s[tid * 16 + i]

    return k


def test_a_lane_that_reads_nothing_may_point_beyond_the_buffer() -> None:
    a, b = np.arange(1024, dtype=np.uint16).astype(np.uint8), np.ones(1024, np.uint8)

    assert simulate(rows(512, 0), a, b) == []
    assert np.array_equal(b, np.r_[a[512:], np.zeros(512, np.uint8)])


def test_each_lane_is_asked_for_its_own_bytes_at_its_own_address() -> None:
    a, b = np.arange(1024, dtype=np.uint16).astype(np.uint8), np.ones(1024, np.uint8)

    @T.prim_func
    def k(a: T.Buffer((1022,), "uint8"), b: T.Buffer((1024,), "uint8")):
        T.cta_id([1])
        tid = T.thread_id([64])
        s = T.alloc_shared((1024,), "uint8")
        T.ptx.cp_async(s.ptr_to([tid * 16]), a.ptr_to([tid * 16]), 16, src_size=T.select(tid == 63, 14, 16))
        T.ptx.cp_async.wait_all()
        for i in range(16):
            b[tid * 16 + i] = s[tid * 16 + i]

    assert simulate(k, a[:1022], b) == []
    assert np.array_equal(b, np.r_[a[:1022], 0, 0])


@pytest.mark.parametrize(
    ("kernel", "what"),
    [
        (rows(512, 1), "ptx.cp_async reads outside of a"),
        (rows(16, 0, shift=-12), "ptx.cp_async: a misaligned address in a"),
    ],
)
def test_a_wrong_address_is_told_when_the_copy_is_issued(kernel: Any, what: str) -> None:
    error = refusal(kernel, np.zeros(1024, np.uint8), np.zeros(1024, np.uint8))

    assert error.what == what
    assert error.at is not None


# Accesses that are errors meanwhile.


def meanwhile(step: str) -> Any:
    @T.prim_func
    def k(a: T.Buffer((128,), "float32"), b: T.Buffer((128,), "float32")):
        T.cta_id([1])
        tid = T.thread_id([128])
        s = T.alloc_shared((128,), "float32")
        T.ptx.cp_async(s.ptr_to([tid]), a.ptr_to([tid]), 4)
        if step == "source":
            a[tid] = T.float32(0)
        if step == "store":
            s[tid] = T.float32(0)
        if step == "twice":
            T.ptx.cp_async(s.ptr_to([tid]), a.ptr_to([tid]), 4)
        if step != "end":
            T.ptx.cp_async.wait_all()
        if step == "after":
            a[tid] = T.float32(0)
        b[tid] = T.float32(0) if step == "end" else s[tid]

    return k


@pytest.mark.parametrize(
    ("step", "what"),
    [
        ("source", "store overwrites global memory that cp_async may still be reading"),
        ("store", "store overwrites shared memory that cp_async may still be writing"),
        ("twice", "cp_async writes s[0], which cp_async may still not have written"),
        ("end", "the CTA ends while cp_async is under way"),
    ],
)
def test_source_and_destination_are_the_copys_until_it_is_waited_for(step: str, what: str) -> None:
    assert refusal(meanwhile(step), np.ones(128, np.float32), np.ones(128, np.float32)).what == what


def test_after_the_wait_both_are_the_threads_again() -> None:
    a, b = np.ones(128, np.float32), np.zeros(128, np.float32)

    assert simulate(meanwhile("after"), a, b) == []
    assert (b == 1).all()
    assert not a.any()


# By an m-barrier.


def signalled(*, noinc: bool, count: int, all_lanes: bool = True, wait: bool = True) -> Any:
    @T.prim_func
    def k(a: T.Buffer((128,), "float32"), b: T.Buffer((128,), "float32")):
        T.cta_id([1])
        tid = T.thread_id([128])
        s = T.alloc_shared((128,), "float32")
        bar = T.alloc_shared((1,), "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), count)
        T.cuda.cta_sync()
        T.ptx.cp_async(s.ptr_to([tid]), a.ptr_to([tid]), 4)
        if all_lanes or tid % 32 == 0:
            T.ptx.cp_async.mbarrier.arrive(bar.ptr_to([0]), noinc=noinc)
        if not noinc and tid == 0:
            T.ptx.mbarrier.arrive(bar.ptr_to([0]))
        if wait:
            T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        b[tid] = s[127 - tid]

    return k


@pytest.mark.parametrize(("noinc", "count"), [(True, 128), (False, 1)])
def test_a_phase_that_counts_copies_hands_them_to_all_who_wait(noinc: bool, count: int) -> None:
    a, b = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)

    assert simulate(signalled(noinc=noinc, count=count), a, b) == []
    assert np.array_equal(b, a[::-1])


@pytest.mark.parametrize("count", [127, 96, 1])
def test_a_phase_that_may_end_before_one_of_its_copies_is_complete_is_refused(count: int) -> None:
    error = refusal(signalled(noinc=True, count=count), np.zeros(128, np.float32), np.zeros(128, np.float32))

    what = "the phase of bar[0] may end before cp_async.mbarrier.arrive of some of its threads is complete"
    assert error.what == what
    assert str(error.given).startswith("CTA (0, 0, 0), warp ")


@pytest.mark.parametrize("how", [{"all_lanes": False, "count": 4}, {"wait": False, "count": 128}])
def test_a_copy_that_no_arrival_covers_is_in_flight(how: dict[str, Any]) -> None:
    error = refusal(signalled(noinc=True, **how), np.zeros(128, np.float32), np.zeros(128, np.float32))

    assert error.what == "load reads shared memory that cp_async may still be writing"


def test_the_wait_that_lacks_is_at_the_m_barrier_where_one_is_told() -> None:
    kernel = signalled(noinc=True, count=128, wait=False)
    error = refusal(kernel, np.zeros(128, np.float32), np.zeros(128, np.float32))

    assert str(error.hint).startswith("a wait for the phase (parity 0) of the m-barrier that the commit at ")


@pytest.mark.parametrize("barrier_first", [False, True])
def test_a_barrier_helps_behind_the_wait(barrier_first: bool) -> None:
    @T.prim_func
    def k(a: T.Buffer((64,), "uint32"), b: T.Buffer((64,), "uint32")):
        T.cta_id([1])
        tid = T.thread_id([64])
        s = T.alloc_shared((64,), "uint32")
        T.ptx.cp_async(s.ptr_to([tid]), a.ptr_to([tid]), 4)
        T.ptx.cp_async.commit_group()
        if barrier_first:
            T.cuda.cta_sync()
        T.ptx.cp_async.wait_group(0)
        b[tid] = s[63 - tid]

    error = refusal(k, np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32))

    assert error.at is not None
    read = error.at.line
    assert "by cp_async, waited for at " in str(error.given)
    assert error.hint == f"T.cuda.cta_sync() between line {read - 1} and line {read}"
