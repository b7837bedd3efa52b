"""Operators of integers and bools on tiles, and chains of comparisons."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import T, Tx
from tilewright.dtypes import dtype
from tilewright.errors import TilewrightError

N = 64


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "int64"])
def test_operators_of_integers_are_those_of_numpy(kind: str) -> None:
    @T.prim_func
    def bits(a: T.handle, b: T.handle, c: T.handle, o: T.handle):
        A, B, C = (T.match_buffer(each, (N,), kind) for each in (a, b, c))
        Out = T.match_buffer(o, (6, N), kind)
        T.cta_id([1])
        T.thread_id([32])
        with Tx.cta:
            Out[0, :] = A // B
            Out[1, :] = A % B
            Out[2, :] = (A << C) >> 1
            Out[3, :] = A >> C
            Out[4, :] = ~(A & B) ^ C
            Out[5, :] = A | 4

    random, to = np.random.default_rng(0), dtype(kind).numpy
    a = random.integers(-100 if kind != "uint8" else 0, 100, N).astype(to)
    b = random.choice([-7, -2, 3, 9] if kind != "uint8" else [2, 3, 7, 9], N).astype(to)
    c, found = random.integers(0, 7, N).astype(to), np.zeros((6, N), to)
    tw.compile(bits, target="sm_90a").simulate(a, b, c, found)

    assert np.array_equal(found, np.stack([a // b, a % b, (a << c) >> 1, a >> c, ~(a & b) ^ c, a | 4]))


@T.prim_func
def between(a: T.handle, o: T.handle, k: T.handle):
    A, Out, K = T.match_buffer(a, (N,), "float32"), T.match_buffer(o, (N,), "bool"), T.match_buffer(k, (N,), "float32")
    T.cta_id([1])
    T.thread_id([32])
    with Tx.cta:
        Out[:] = ~(-0.5 < A <= 0.5)
        K[:] = T.select((A < -0.5) | (A > 0.5), 0.0, A)


def test_comparisons_chain_and_bools_join() -> None:
    a = np.random.default_rng(1).uniform(-1, 1, N).astype(np.float32)
    outside, kept = np.zeros(N, bool), np.zeros(N, np.float32)
    tw.compile(between, target="sm_90a").simulate(a, outside, kept)

    expected = ~((a > -0.5) & (a <= 0.5))
    assert np.array_equal(outside, expected)
    assert np.array_equal(kept, np.where((a < -0.5) | (a > 0.5), 0, a))


def test_bits_of_floats_are_refused() -> None:
    @T.prim_func
    def kernel(a: T.handle):
        A = T.match_buffer(a, (N,), "float32")
        T.thread_id([32])
        Tx.warp.bitand(A, A, A)

    with pytest.raises(TilewrightError, match="bitand is of integers"):
        tw.compile(kernel, target="sm_90a")


@T.prim_func
def of_bools(p: T.handle, s: T.handle, c: T.handle, m: T.handle, w: T.handle, u: T.handle):
    P, C, U = T.match_buffer(p, (8, N), "bool"), T.match_buffer(c, (8, N), "int32"), T.match_buffer(u, (8, N), "bool")
    s_, m_, w_ = T.match_buffer(s, (8,), "int32"), T.match_buffer(m, (8,), "bool"), T.match_buffer(w, (8,), "int32")
    T.cta_id([1])
    T.thread_id([32])
    Tx.warp.sum(s_, P)
    Tx.warp.scan(C, P)
    Tx.warp.min(m_, P)
    Tx.warp.argmax(w_, P)
    Tx.warp.scan(U, P, op="max")


def test_bools_are_counted_and_ordered() -> None:
    p = np.random.default_rng(2).random((8, N)) < 0.9
    p[3] = True
    p[5, :40] = False
    sums, counts, least = np.zeros(8, np.int32), np.zeros((8, N), np.int32), np.zeros(8, bool)
    where, up = np.zeros(8, np.int32), np.zeros((8, N), bool)
    tw.compile(of_bools, target="sm_90a").simulate(p, sums, counts, least, where, up, check="all")

    assert np.array_equal(sums, p.sum(1))
    assert np.array_equal(counts, p.cumsum(1))
    assert np.array_equal(least, p.min(1))
    assert np.array_equal(where, p.argmax(1))
    assert np.array_equal(up, np.maximum.accumulate(p, axis=1))
