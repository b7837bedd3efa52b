"""ld, st, atom and red: required arguments, and use in the language, in both back ends, across CTAs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilewright as tw
from tilewright import T
from tilewright.errors import InstructionError
from tilewright.ir import Buffer, Expr
from tilewright.lang import parse_script

SHARED = Buffer("s", tw.dtypes.dtype("float32"), (4,), "shared", None)
GLOBAL = Buffer("g", tw.dtypes.dtype("uint32"), (4,), "global", None)
REFUSED: dict[str, tuple[Callable[[], Expr], str]] = {
    "relaxed without a scope": (lambda: T.ptx.ld(GLOBAL.ptr_to([0]), sem="relaxed"), "has no form"),
    "a weak load with a scope": (lambda: T.ptx.ld(GLOBAL.ptr_to([0]), scope="gpu"), "has no form"),
    "a load that releases": (lambda: T.ptx.ld(GLOBAL.ptr_to([0]), sem="release", scope="gpu"), "has no form"),
    "a red that acquires": (lambda: T.ptx.red.add(GLOBAL.ptr_to([0]), 1, sem="acquire"), "has no form"),
    "mmio in shared memory": (lambda: T.ptx.ld(SHARED.ptr_to([0]), sem="mmio", space="shared"), "has no form"),
    "another space": (lambda: T.ptx.ld(SHARED.ptr_to([0]), space="global"), "a pointer into shared memory"),
    "a global pointer": (lambda: T.ptx.st(GLOBAL.ptr_to([0]), 1, space="shared::cta"), "into global memory"),
    "a short address": (lambda: T.ptx.ld(T.uint32(0), type="s32"), "an address of 64 bits"),
    "an address of nothing": (lambda: T.ptx.ld(T.uint64(0)), "does not say what it points to"),
    "a sum of shorts": (lambda: T.ptx.atom.add(T.uint64(0), T.int16(1)), "has no form"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_call_says_what_it_lacks(name: str) -> None:
    call, message = REFUSED[name]

    with pytest.raises(InstructionError, match=message):
        call()


@T.prim_func
def exchanged(A: T.Buffer((2, 32), "float32"), B: T.Buffer((2, 32), "float32"), N: T.Buffer((2,), "uint32")):
    """Each CTA of a pair reads what the other keeps in its shared memory, by an address of the cluster's window."""
    T.cluster_id([1])
    rank = T.cta_id_in_cluster([2])
    lane = T.lane_id([32])
    s = T.alloc_shared((32,), "float32")
    n = T.alloc_shared((1,), "uint32")
    s[lane] = A[rank, lane]
    if lane == 0:
        n[0] = 0
    T.cuda.cluster_sync()
    B[rank, lane] = T.ptx.ld(T.ptx.mapa(s.ptr_to([lane]), 1 - rank), space="shared::cluster", type="f32")
    T.ptx.red.inc(T.ptx.mapa(n.ptr_to([0]), 1 - rank), T.uint32(9), scope="cluster", space="shared::cluster")
    T.cuda.cluster_sync()
    if lane == 0:
        N[rank] = n[0]


def test_strong_accesses_reach_into_other_ctas() -> None:
    a = np.arange(64, dtype=np.float32).reshape(2, 32)
    b, n = np.zeros_like(a), np.zeros(2, np.uint32)

    tw.simulate(exchanged, a, b, n)

    assert (b == a[::-1]).all()
    assert (n == 32 % 10).all()


@T.prim_func
def published(A: T.Buffer((2,), "int32"), F: T.Buffer((1,), "uint32"), B: T.Buffer((2,), "bfloat16")):
    cta, tid = T.cta_id([2]), T.thread_id([32])
    if tid == 0:
        if cta == 0:
            A[0] = 7
            T.ptx.st(F.ptr_to([0]), 1, sem="release", scope="gpu")
        else:
            while T.ptx.ld(F.ptr_to([0]), sem="acquire", scope="gpu", space="global") == 0:
                pass
            A[1] = A[0]
            T.ptx.st(B.ptr_to([1]), T.ptx.ld(B.ptr_to([0])))


def test_a_flag_is_waited_for_and_its_kernel_prints_parses_and_becomes_cuda() -> None:
    a, f, b = np.zeros(2, np.int32), np.zeros(1, np.uint32), np.array([3, 0]).astype(tw.dtypes.dtype("bfloat16").numpy)

    tw.simulate(published, a, f, b, check="none")

    assert (a == 7).all()
    assert b[1] == 3
    assert parse_script(str(published)) == published
    source = tw.compile(published, target="sm_90a").source("cuda")
    assert all(text in source for text in ("st.release.gpu.u32", "ld.acquire.gpu.global.u32", "ld.b16"))


@T.prim_func
def swapped(A: T.Buffer((2,), "uint64"), B: T.Buffer((3, 2), "uint64")):
    T.cta_id([1])
    T.thread_id([1])
    old = T.alloc_local((2,), "uint64")
    T.ptx.atom.exch.b128(A.ptr_to([0]), T.uint64(1), T.uint64(2), old[0], old[1])
    for i in range(2):
        B[0, i] = old[i]
    T.ptx.atom.cas.b128(A.ptr_to([0]), T.uint64(1), T.uint64(2), T.uint64(3), T.uint64(4), old[0], old[1])
    for i in range(2):
        B[1, i] = old[i]
    T.ptx.atom.cas.b128(A.ptr_to([0]), T.uint64(3), T.uint64(2), T.uint64(9), T.uint64(9), old[0], old[1])
    for i in range(2):
        B[2, i] = old[i]


def test_16_bytes_are_exchanged_and_compared_as_one() -> None:
    a, b = np.array([10, 11], np.uint64), np.zeros((3, 2), np.uint64)

    tw.simulate(swapped, a, b, check="all")

    assert a.tolist() == [3, 4]
    assert b.tolist() == [[10, 11], [1, 2], [3, 4]]
