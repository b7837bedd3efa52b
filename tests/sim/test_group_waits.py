"""A wait for a group that leaves too much under way: the report names its line, and the wait that does."""

# ruff: noqa: C901, SIM102  # kernels with a branch for each way, which Python takes while it parses
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import T, Tx
from tilewright.errors import SimulationError


def copying(n: int, *, commits: int = 4, slot: int = 2, last: str = "waits") -> Any:
    """Four copies of a thread, the first ones in groups of their own; it waits for all but n, and reads one."""

    @T.prim_func
    def kernel(x: T.Buffer((4, 32), "uint32"), out: T.Buffer((32,), "uint32")):
        T.cta_id([1])
        tid = T.thread_id([32])
        s = T.alloc_shared((4, 32), "uint32", align=16)
        for i in range(4):
            T.ptx.cp_async(s.ptr_to([i, tid]), x.ptr_to([i, tid]), 4)  # the copy
            if i < commits:
                T.ptx.cp_async.commit_group()
        T.ptx.cp_async.wait_group(n)  # the wait
        out[tid] = s[slot, tid]
        if last == "waits":
            T.ptx.cp_async.wait_all()

    return kernel


def storing(n: int, *, read: bool = True, another: bool = False, last: str = "wait") -> Any:
    """A thread stores a tile three times, waits for all but n groups, and reads the second."""

    @T.prim_func
    def kernel(out: T.Buffer((3, 8, 32), "float32"), back: T.Buffer((1,), "float32")):
        T.cta_id([1])
        lane = T.thread_id([64])
        s = T.alloc_shared((8, 32), "float32", align=128)
        for i in range(4):
            s[i + lane // 32 * 4, lane % 32] = T.float32(1)
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cta_sync()
        if lane == 0:
            for i in range(3):
                Tx.copy_async(out[i, :, :], s)  # the store
                if i < 2 or last != "uncommitted":
                    T.ptx.cp_async.bulk.commit_group()
            T.ptx.cp_async.bulk.wait_group(n, read=read)  # the wait
        if another:
            if lane == 32:
                back[0] = out[1, 0, 0]
        if lane == 0:
            if not another:
                back[0] = out[1, 0, 0]
            if last == "wait":
                T.ptx.cp_async.bulk.wait_group(0)

    return kernel


def line(made: Any, part: str) -> int:
    """The line of this file, in a function, with a comment."""
    text = Path(__file__).read_text().splitlines()
    first = made.__code__.co_firstlineno
    return next(k for k, one in enumerate(text, 1) if k >= first and f"# {part}" in one)


def hint(kernel: Any, *arrays: Any) -> str:
    try:
        run = tw.simulate(kernel, *arrays, target="sm_90a", check="all")
    except SimulationError as error:
        return str(error.hint)
    assert run.warnings == []
    return ""


def copied(kernel: Any) -> str:
    return hint(kernel, np.zeros((4, 32), np.uint32), np.zeros(32, np.uint32))


def stored(kernel: Any) -> str:
    return hint(kernel, np.zeros((3, 8, 32), np.float32), np.zeros(1, np.float32))


@pytest.mark.parametrize(
    ("n", "slot", "right"), [(2, 2, 1), (9, 2, 1), (1, 3, 0), (4, 0, 3), (1, 2, None), (0, 3, None)]
)
def test_a_wait_that_leaves_a_group_under_way_is_named_with_the_number_that_does(
    n: int, slot: int, right: int | None
) -> None:
    found = copied(copying(n, slot=slot))

    wait = f"T.ptx.cp_async.wait_group({right}) in place of the wait of line {line(copying, 'the wait')}"
    assert found.startswith(f"{wait}, which leaves {n} groups under way") if right is not None else not found


def test_a_copy_that_no_group_has_lacks_its_commit() -> None:
    found = copied(copying(1, commits=2))

    assert found.startswith("T.ptx.cp_async.commit_group() after the cp_async at test_group_waits.py")
    assert "then T.ptx.cp_async.wait_group(0)" in found


@pytest.mark.parametrize(
    ("n", "read", "wait"),
    [
        (2, False, "wait_group(1, read=False) in place of the wait of line {}, which leaves 2 groups under way"),
        (0, True, "wait_group(0, read=False) in place of the wait of line {}, which waits for the sources alone"),
        (1, True, "wait_group(1, read=False) in place of the wait of line {}, which waits for the sources alone"),
        (1, False, ""),
    ],
)
def test_a_wait_for_the_sources_does_not_do_for_what_is_written(n: int, read: bool, wait: str) -> None:
    found = stored(storing(n, read=read))

    assert found.startswith(f"T.ptx.cp_async.bulk.{wait.format(line(storing, 'the wait'))}" if wait else "")
    assert bool(found) == bool(wait)


def test_what_another_thread_reads_needs_a_barrier_behind_the_right_wait() -> None:
    found = stored(storing(2, read=False, another=True))

    assert "wait_group(1, read=False) in place of the wait of line" in found
    assert "by the thread that issued it, and a barrier" in found


@pytest.mark.parametrize(
    ("kernel", "wait"),
    [
        (copying(1, slot=2, last=""), "T.ptx.cp_async.wait_group(0) by the thread that issued it"),
        (
            copying(0, commits=3, last=""),
            "T.ptx.cp_async.commit_group() behind line {}, then T.ptx.cp_async.wait_group(0)",
        ),
    ],
)
def test_a_copy_that_outlives_its_cta_is_told_with_the_wait_that_fits(kernel: Any, wait: str) -> None:
    found = copied(kernel)

    assert found.startswith(wait.format(line(copying, "the copy")))
    assert found.endswith(", before the end of the kernel")


@pytest.mark.parametrize(
    ("last", "wait"),
    [
        ("", "T.ptx.cp_async.bulk.wait_group(0) by the thread that issued it"),
        ("uncommitted", "T.ptx.cp_async.bulk.commit_group() behind line {}, then T.ptx.cp_async.bulk.wait_group(0)"),
    ],
)
def test_a_store_that_outlives_its_cta_is_told_with_the_wait_that_fits(last: str, wait: str) -> None:
    found = stored(storing(0 if last else 1, read=False, last=last))

    assert found.startswith(wait.format(line(storing, "the store")))
    assert found.endswith(", before the end of the kernel")


@pytest.mark.parametrize(
    ("first", "second", "says"), [(True, True, ""), (False, True, "bar[0]"), (True, False, "bar[1]")]
)
def test_a_load_that_nobody_waits_for_is_told_though_a_later_one_is_complete(
    first: bool, second: bool, says: str
) -> None:
    waits = (first, second)

    @T.prim_func
    def kernel(a: T.Buffer((8, 32), "float32")):
        T.cta_id([1])
        lane = T.thread_id([32])
        s = T.alloc_shared((2, 8, 32), "float32", align=128)
        bar = T.alloc_shared((2,), "uint64")
        if lane == 0:
            for i in range(2):
                T.ptx.mbarrier.init(bar.ptr_to([i]), 1)
                T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([i]), 1024)
            T.ptx.fence.mbarrier_init()
        T.cuda.cta_sync()
        if lane == 0:
            for i in range(2):
                Tx.copy_async(s[i, :, :], a, mbar=bar.ptr_to([i]))
        for i in (0, 1):
            if waits[i]:
                T.ptx.mbarrier.try_wait(bar.ptr_to([i]), 0)

    found = hint(kernel, np.zeros((8, 32), np.float32))

    assert found.startswith(f"a wait for the phase of {says} that the cp_async.bulk.tensor.g2c" if says else "")
    assert bool(found) == bool(says)
