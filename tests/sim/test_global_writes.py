"""Operations that write one place of global memory: each waits for the other, unless both combine."""

# kernels with a branch for each way, which Python takes while it parses
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import T
from tilewright.errors import SimulationError


def of_two(who: str, *, apart: int = 0, adds: str = "") -> Any:
    """Two CTAs, or two warps, write 32 words each, at once. adds: whose copies add, "both" or "first"."""
    ctas = 2 if who == "ctas" else 1

    @T.prim_func
    def k(out: T.Buffer((64,), "float32")):
        cta = T.cta_id([ctas])
        tid = T.thread_id([64])
        s = T.alloc_shared((64,), "float32", align=16)
        s[tid] = T.float32(1)
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cta_sync()
        number = cta if who == "ctas" else tid // 32
        if tid == 0 or (who == "warps" and tid == 32):
            if adds == "both":
                T.ptx.cp_reduce_async.bulk.s2g(out.ptr_to([number * apart]), s.ptr_to([0]), 128, "add", "float32")
            elif adds == "first":
                if number == 0:
                    T.ptx.cp_reduce_async.bulk.s2g(out.ptr_to([0]), s.ptr_to([0]), 128, "add", "float32")
                else:
                    T.ptx.cp_async.bulk.s2g(out.ptr_to([0]), s.ptr_to([0]), 128)
            else:
                T.ptx.cp_async.bulk.s2g(out.ptr_to([number * apart]), s.ptr_to([0]), 128)
            T.ptx.cp_async.bulk.commit_group()
            T.ptx.cp_async.bulk.wait_group(0, read=False)

    return k


def in_turns(between: str) -> Any:
    """A thread writes, and it or one of another warp writes there again."""

    @T.prim_func
    def k(out: T.Buffer((64,), "float32")):
        T.cta_id([1])
        tid = T.thread_id([64])
        s = T.alloc_shared((64,), "float32", align=16)
        s[tid] = T.float32(1)
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cta_sync()
        if tid == 0:
            T.ptx.cp_async.bulk.s2g(out.ptr_to([0]), s.ptr_to([0]), 128)
            T.ptx.cp_async.bulk.commit_group()
            if "wait" in between:
                T.ptx.cp_async.bulk.wait_group(0, read="for reads" in between)
        if "barrier" in between:
            T.cuda.cta_sync()
        if tid == (32 if "barrier" in between else 0):
            T.ptx.cp_async.bulk.s2g(out.ptr_to([0]), s.ptr_to([0]), 128)
            T.ptx.cp_async.bulk.commit_group()
            T.ptx.cp_async.bulk.wait_group(0, read=False)
        if tid == 0:
            T.ptx.cp_async.bulk.wait_group(0, read=False)

    return k


def simulate(kernel: Any) -> list[str]:
    return tw.simulate(kernel, np.zeros(64, np.float32), target="sm_90a", check="all").warnings


def refused(kernel: Any) -> SimulationError:
    with pytest.raises(SimulationError, match=r"s2g writes out, which .*s2g may still not have written") as error:
        simulate(kernel)
    return error.value


@pytest.mark.parametrize("who", ["ctas", "warps"])
def test_copies_that_write_one_place_at_once_are_refused_unless_both_add(who: str) -> None:
    assert simulate(of_two(who, apart=32)) == []
    assert simulate(of_two(who, adds="both")) == []
    refused(of_two(who))
    refused(of_two(who, apart=28))
    refused(of_two(who, adds="first"))


WAIT = "T.ptx.cp_async.bulk.wait_group(0, read=False)"


@pytest.mark.parametrize("between", ["wait", "wait, barrier"])
def test_a_copy_may_write_where_one_has_that_was_waited_for(between: str) -> None:
    assert simulate(in_turns(between)) == []


@pytest.mark.parametrize(
    ("between", "hint"),
    [
        ("", f"{WAIT} between line"),
        ("wait for reads", f"{WAIT} in place of the wait of line"),
        ("barrier", f"{WAIT} by the thread that issued it, and a barrier"),
    ],
)
def test_a_copy_that_writes_where_another_has_waits_for_it(between: str, hint: str) -> None:
    assert str(refused(in_turns(between)).hint).startswith(hint)


@pytest.mark.parametrize(
    ("then", "hint"),
    [
        ("relaxed", "sem='release' at line "),
        ("release", ""),
        ("a thread's atomic", "atomics of threads alone at one place, or reductions of units alone"),
    ],
)
def test_a_sum_of_a_unit_is_told_of_by_a_release_and_is_no_atomic_of_threads(then: str, hint: str) -> None:
    order = "release" if then == "release" else "relaxed"

    @T.prim_func
    def k(out: T.Buffer((64,), "uint32"), f: T.Buffer((1,), "uint32"), seen: T.Buffer((1,), "uint32")):
        cta = T.cta_id([2])
        tid = T.thread_id([32])
        s = T.alloc_shared((32,), "uint32", align=16)
        s[tid] = 1
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cta_sync()
        if tid == 0 and cta == 0:
            T.ptx.cp_reduce_async.bulk.s2g(out.ptr_to([0]), s.ptr_to([0]), 128, "add", "uint32")
            T.ptx.cp_async.bulk.commit_group()
            T.ptx.cp_async.bulk.wait_group(0, read=False)
            T.ptx.st(f.ptr_to([0]), T.uint32(1), sem=order, scope="gpu")
        if tid == 0 and cta == 1:
            if then == "a thread's atomic":
                T.ptx.red.add(out.ptr_to([0]), T.uint32(1), sem="relaxed", scope="gpu")
            else:
                while T.ptx.ld(f.ptr_to([0]), sem="acquire", scope="gpu") == 0:
                    pass
                seen[0] = out[0]

    arrays = np.zeros(64, np.uint32), np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    if not hint:
        assert not tw.simulate(k, *arrays, target="sm_90a").warnings
        return
    with pytest.raises(SimulationError, match="race: ") as caught:
        tw.simulate(k, *arrays, target="sm_90a")
    assert str(caught.value.hint).startswith(hint)


def of_a_warp(step: int) -> Any:
    """The lanes of a warp begin a copy each, to one place, from places so many words apart."""

    @T.prim_func
    def k(out: T.Buffer((64,), "float32")):
        T.cta_id([1])
        tid = T.thread_id([32])
        s = T.alloc_shared((256,), "float32", align=16)
        for i in range(8):
            s[tid + 32 * i] = T.float32(1)
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cta_sync()
        T.ptx.cp_async.bulk.s2g(out.ptr_to([0]), s.ptr_to([tid * step]), 64)
        T.ptx.cp_async.bulk.commit_group()
        T.ptx.cp_async.bulk.wait_group(0, read=False)

    return k


def test_lanes_that_begin_the_same_copy_write_the_same() -> None:
    (warning,) = simulate(of_a_warp(0))

    assert "begin the same cp_async.bulk.s2g, unordered; one is enough" in warning


def test_lanes_that_copy_other_bytes_to_one_place_are_in_each_others_way() -> None:
    refused(of_a_warp(4))
