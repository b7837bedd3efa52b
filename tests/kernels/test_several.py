"""The kernels of several GPUs on the simulator: every kind, call after call, without a word."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tilewright.kernels.forms import MatmulKind, Tiles
from tilewright.kernels.shots import MOST_CTAS, PACKETS, one_shot, two_shot, two_shot_packets
from tilewright.kernels.spread_matmul import gathered_product, scattered_product

KINDS = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
SHARE = 64  # words


def zeros(ranks, shape, kind):
    return [np.zeros(shape, kind) for _ in range(ranks)]


def rooms(name, ranks):
    if name == "one_shot":
        return [zeros(ranks, (2, ranks, MOST_CTAS, PACKETS), np.uint64)]
    if name == "two_shot":
        boxes = [zeros(ranks, (ranks, MOST_CTAS, SHARE), np.uint32) for _ in range(2)]
        return [*boxes, zeros(ranks, (2, MOST_CTAS, ranks), np.uint32)]
    return [zeros(ranks, (2, ranks, MOST_CTAS, PACKETS), np.uint64) for _ in range(2)]


def kernel_of(name, ranks, kind):
    if name == "two_shot":
        return two_shot(ranks, kind, 32, SHARE)
    return one_shot(ranks, kind) if name == "one_shot" else two_shot_packets(ranks, kind, 32)


@pytest.mark.parametrize(
    ("name", "ranks", "kind"),
    [
        ("one_shot", 2, "bfloat16"),
        pytest.param("one_shot", 3, "float32", marks=pytest.mark.long),
        ("two_shot", 2, "float16"),
        ("two_shot_packets", 2, "bfloat16"),
        pytest.param("two_shot_packets", 3, "float32", marks=pytest.mark.long),
    ],
)
def test_an_all_reduce_adds_in_the_order_of_ranks(name, ranks, kind):
    rng = np.random.default_rng(0)
    exe, calls, more = kernel_of(name, ranks, kind), zeros(ranks, MOST_CTAS, np.uint32), rooms(name, ranks)
    for turn in range(2):  # places are used again
        x = [rng.standard_normal(328 - 8 * turn).astype(KINDS[kind]) for _ in range(ranks)]
        y = [np.zeros_like(part) for part in x]
        words = [[part.view(np.uint32) for part in parts] for parts in (x, y)]
        assert not exe.simulate(*words, calls, *more, 2, ranks=ranks).warnings
        total = np.zeros(len(x[0]), np.float32)
        for part in x:
            total = total + part.astype(np.float32)
        assert all((part == total.astype(KINDS[kind])).all() for part in y)


RANKS, M, N, K = 2, 128, 128, 64
TILES, FORM = Tiles(128, 128, 1), MatmulKind("bfloat16", "bfloat16", "bfloat16")


def numbers(*shape):
    rng = np.random.default_rng(len(shape))
    return [rng.integers(-4, 5, shape).astype(ml_dtypes.bfloat16) for _ in range(RANKS)]


def counts(*sizes):
    return [zeros(RANKS, size, np.uint32) for size in sizes]


def test_an_all_gather_product_multiplies_the_rows_of_all_ranks():
    a, b, c, near = numbers(M, K), numbers(N, K), numbers(M * RANKS, N), numbers(M * RANKS, K)
    exe, signals = gathered_product(TILES, FORM, RANKS), counts(RANKS, 1, RANKS, 1)
    rows = np.concatenate(a).astype(np.float32)
    for _ in range(2):
        assert not exe.simulate(a, b, c, near, *signals, 2, ranks=RANKS).warnings
        for own, part in zip(b, c, strict=True):
            assert (part == (rows @ own.astype(np.float32).T).astype(ml_dtypes.bfloat16)).all()


def test_a_product_with_reduce_scatter_keeps_the_own_rows_of_the_sum():
    a, b, c, room = numbers(M * RANKS, K), numbers(N, K), numbers(M, N), numbers(M * RANKS, N)
    exe, signals = scattered_product(TILES, FORM, RANKS), counts(1, 1, 1)
    parts = [one.astype(np.float32) @ other.astype(np.float32).T for one, other in zip(a, b, strict=True)]
    total = sum(part.astype(ml_dtypes.bfloat16).astype(np.float32) for part in parts)
    assert not exe.simulate(a, b, c, room, *signals, 2, ranks=RANKS).warnings
    for rank, part in enumerate(c):
        assert (part == total[rank * M : rank * M + M].astype(ml_dtypes.bfloat16)).all()


def test_no_kernel_keeps_registers_in_memory():
    large = Tiles(128, 256, 2)
    for exe in (gathered_product(large, FORM, 4), scattered_product(large, FORM, 4), one_shot(4, "bfloat16")):
        assert exe.resources.local_bytes == 0
