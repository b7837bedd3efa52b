"""T.rand, T.randint, T.hash32: numbers that a seed and a counter decide, also in functions of the places of a tile."""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import T, Tx
from tilewright.isa.arith import hashed, philox, uniform
from tilewright.layout import S, tx

PLACES = np.arange(128 * 8).reshape(128, 8)


def test_the_first_words_are_those_of_the_paper() -> None:
    def words(seed: int, offset: int) -> list[int]:
        return [int(philox(np.array([seed], np.uint64), np.array([offset], np.uint64), word)[0]) for word in range(4)]

    assert words(0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert words(1, 0) != words(0, 1) != words(0, 1 << 32)


def test_numbers_are_uniform_and_hashes_collide_no_more_than_chance_has_it() -> None:
    numbers = uniform(np.full(1 << 16, 7), np.arange(1 << 16))

    assert 0 <= numbers.min() < 1e-3 < 1 - 1e-3 < numbers.max() < 1
    assert abs(numbers.mean() - 0.5) < 5e-3
    assert abs(numbers.var() - 1 / 12) < 2e-3
    assert len(np.unique(hashed(np.arange(1 << 16)))) == 1 << 16, "it is one to one"


@T.prim_func
def dropped(A: T.Buffer((128, 8), "float32"), W: T.Buffer((128,), "uint32"), H: T.Buffer((128,), "uint32"),
            seed: T.int64):  # fmt: skip
    T.cta_id([1])
    tid = T.thread_id([128])
    x = T.alloc_buffer((128, 8), "float32", scope="local", layout=S[(128, 8) : (1 @ tx, 1)])
    Tx.cta.copy(x, A)
    Tx.cta.select(x, x, 0.0, lambda i, j: T.rand(seed, i * 8 + j) >= 0.25)
    Tx.cta.copy(A, x)
    W[tid] = T.randint(seed, tid, word=3)
    H[tid] = T.hash32(tid)


def test_a_dropout_has_the_same_bits_whatever_threads_do() -> None:
    a, seed = np.ones((128, 8), np.float32), -(1 << 40) - 5
    words, hashes = np.zeros(128, np.uint32), np.zeros(128, np.uint32)
    tw.compile(dropped, target="sm_90a").simulate(a, words, hashes, seed, check="all")

    seeds = np.full_like(PLACES, seed)
    assert np.array_equal(a, uniform(seeds, PLACES) >= 0.25)
    assert np.array_equal(words, philox(seeds[:, 0], np.arange(128), 3))
    assert np.array_equal(hashes, hashed(np.arange(128)))
