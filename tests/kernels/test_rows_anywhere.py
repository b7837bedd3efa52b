"""Rows that begin anywhere, in arrays that begin at 16 bytes: what is accessed, and that it is the row alone."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from tests.kernels.test_kernels import CASES, Array, close, loss_of, shifted_lines, wide
from tilewright import kernels
from tilewright.dtypes import dtype
from tilewright.kernels.rows import BIASED, PLAIN, READ, WEIGHTED, Rows, chosen, dealt, shifted, staged, wavefronts

GUARD = 64  # elements behind an array that nobody may touch
SHIFTED = {
    "a CTA": lambda vector: (Rows(64, 2, vector, False, shifted=True), 128 * vector - 9, 3),
    "a warp": lambda vector: (Rows(32, 2, vector, False, shifted=True), 64 * vector - vector + 1, 9),
    "96 threads": lambda vector: (Rows(96, 1, vector, False, shifted=True), 96 * vector - vector + 1, 9),
    "in turns": lambda vector: (Rows(64, 2, vector, False, shifted=True, turns=2, early=True), 128 * vector - 9, 19),
    "ahead": lambda vector: (
        Rows(64, 2, vector, False, shifted=True, turns=3, ahead=1, early=True), 128 * vector - 9, 19
    ),
    "a cluster": lambda vector: (
        Rows(64, 2, vector, False, shifted=True, turns=5, ahead=2, early=True, cluster=2), 256 * vector - 19, 43
    ),
    "weights near": lambda vector: (
        Rows(64, 2, vector, False, shifted=True, turns=3, ahead=1, early=True, near=True), 128 * vector - 9, 19
    ),
    "rows that begin on 16 bytes": lambda vector: (
        Rows(64, 2, vector, True, turns=3, ahead=2, early=True, near=True, cluster=2), 255 * vector, 7
    ),
    "whole lines": lambda vector: (Rows(64, 2, vector, False, shifted=True, grain=2), 126 * vector - 9, 7),
    "whole lines in turns": lambda vector: (
        Rows(64, 2, vector, False, shifted=True, grain=2, turns=2, ahead=1, early=True, near=True, cluster=2),
        254 * vector - 19, 37
    ),
    "clusters that stay": lambda vector: (
        Rows(64, 2, vector, False, shifted=True, stays=vector, ahead=1, early=True, near=True, cluster=2),
        256 * vector - 19, 5 * vector + 3
    ),
    "clusters that stay, lines": lambda vector: (
        Rows(64, 2, vector, False, shifted=True, grain=4, stays=vector, ahead=2, early=True, near=True, cluster=2),
        253 * vector - 19, 5 * vector + 3
    ),
    "part by part": lambda vector: (Rows(32, 1, vector, False, long=True, shifted=True), 104 * vector - 9, 9),
    "staged": lambda vector: (Rows(16, 10, 1, True, staged=151, early=True, turns=4), 151, 3),
    "staged, full": lambda vector: (Rows(8, 5, 1, True, staged=37, turns=2), 37, 75),
}  # fmt: skip


def aligned(rng: np.random.Generator, rows: int, columns: int, kind: str) -> Array:
    """An array without gaps that begins at 16 bytes, in front of others."""
    size = dtype(kind).bits // 8
    memory = np.full(rows * columns + GUARD + 16, 7, dtype(kind).numpy)
    begin = -memory.ctypes.data % 16 // size
    found = memory[begin : begin + rows * columns].reshape(rows, columns)
    found[:] = rng.uniform(-2, 2, found.shape)
    return found


@pytest.mark.every(7)
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("name", "way"),
    [(name, way) for name in ("softmax", "cross_entropy", "rms_norm", "layer_norm") for way in SHIFTED
     if way != "part by part" or "norm" not in name],
)  # fmt: skip
def test_rows_that_begin_anywhere_are_read_and_stored_alone(name: str, way: str, kind: str) -> None:
    rng = np.random.default_rng(0)
    rows, columns, many = SHIFTED[way](16 // (dtype(kind).bits // 8))
    x, y = aligned(rng, many, columns, kind), aligned(rng, many, columns, kind)
    v, w = (aligned(rng, 1, columns, kind)[0] for _ in range(2))
    target, loss = rng.integers(0, columns, many), np.zeros(many, np.float32)
    if rows.shifted:
        v_lines, w_lines = shifted_lines(rows, v, w)
    else:
        v_lines, w_lines = v, w
    args: dict[str, tuple[Any, ...]] = {
        "softmax": (x, y),
        "rms_norm": (x, v_lines, y, 1e-6),
        "layer_norm": (x, v_lines, w_lines, y, 1e-3),
        "cross_entropy": (x, target, loss, -100),
    }
    kinds = {"softmax": (kind,), "cross_entropy": (kind, "int64")}.get(name, (kind, kind))

    import_module(f"tilewright.kernels.{name}").forward(rows, *kinds).simulate(*args[name], check="all")

    if name == "cross_entropy":
        close(loss, loss_of(wide(x), target), "float32")
    else:
        close(y, CASES[name][1](*map(wide, (x, x, x, v, w))), kind)
    assert y.base is not None
    assert (y.base[-GUARD:] == 7).all()


@pytest.mark.parametrize("way", ["a CTA", "ahead", "a cluster"])
def test_accesses_to_rows_that_begin_anywhere_are_whole_vectors(way: str) -> None:
    rows, *_ = SHIFTED[way](8)

    text = import_module("tilewright.kernels.rms_norm").forward(rows, "bfloat16", "bfloat16").source("cuda")

    assert text.count("*(uint4*)(&Y[") >= 1
    assert "&W[" in text
    assert "= W[" not in text  # nowhere an element alone: the copies reach beyond the row
    assert "cp.async.cg" in text if rows.ahead else "*(const uint4*)(&X[" in text


@pytest.mark.parametrize("way", ["a CTA", "ahead"])
def test_reads_of_rows_that_begin_anywhere_are_whole_vectors_but_at_the_end_of_the_array(way: str) -> None:
    """Neighbours in a row of 16 bytes that another row ends or begins in are read with it, and left out afterwards."""
    rows, columns, many = SHIFTED[way](8)
    rng, kind = np.random.default_rng(1), "bfloat16"
    x, y = aligned(rng, many, columns, kind), aligned(rng, many, columns, kind)
    x[1], x[0, -1], x[2, 0] = -100, 100, 100  # what is beside the second row would be the largest

    import_module("tilewright.kernels.softmax").forward(rows, kind).simulate(x, y, check="all")

    close(y[1], np.full(columns, 1 / columns), kind)


def test_long_rows_that_are_only_read_take_no_cluster() -> None:
    arrays = {columns: np.zeros((300, columns), "bfloat16") for columns in (16384, 32003, 50264)}
    taken = {columns: dealt(x, clusters=True, use=READ) for columns, x in arrays.items()}
    assert {columns: (rows.cluster, rows.long) for columns, rows in taken.items()} == {
        16384: (1, False), 32003: (1, True), 50264: (1, True)
    }  # fmt: skip
    assert taken[32003].shifted
    assert dealt(arrays[50264], clusters=True).cluster > 1
    assert dealt(arrays[50264][:9], clusters=True, use=READ).cluster > 1  # so few that they are shared


@pytest.mark.parametrize("columns", [65536, 131072, 262144])
def test_rows_that_sixteen_ctas_share_are_compiled_for_a_hopper(columns: int) -> None:
    rows = chosen(columns, 8, item_bytes=2, clusters=True)
    exe = import_module("tilewright.kernels.softmax").forward(rows, "bfloat16")
    assert rows.cluster in (8, 16)
    assert exe.lowered.launch.non_portable_cluster is (rows.cluster > 8)


def test_clusters_that_stay_take_rows_whose_shifts_differ_by_whole_accesses() -> None:
    rows = shifted(50257, 4, True, BIASED, 132)

    assert (rows.stays % rows.vector, rows.stays % rows.spacing, rows.moves) == (0, 28, True)
    assert shifted(32003, 4, True, BIASED, 132).stays == 0  # short ones are taken in turns
    assert shifted(131071, 4, True, BIASED, 132).stays == 0  # long ones need more threads than fit beside each other


@pytest.mark.parametrize("columns", [2, 3, 37, 101, 127, 151, 191, 255])
@pytest.mark.parametrize("vector", [4, 8])
def test_threads_of_short_rows_have_elements_in_different_banks(columns: int, vector: int) -> None:
    for use in (PLAIN, WEIGHTED, BIASED, READ):
        rows = staged(columns, vector, use)

        assert wavefronts(columns, rows.threads, 16 // vector) <= 2
        assert rows.at_once * rows.turns % vector == 0, "the rows of a warp are whole accesses"
        assert rows.threads <= columns <= rows.threads * rows.runs


def test_rows_that_are_as_far_apart_as_banks_are_wide_have_more_threads() -> None:
    assert wavefronts(127, 4, 2) == 5
    assert (staged(127, 8, READ).threads, staged(151, 8, READ).threads) == (16, 4)


@pytest.mark.parametrize("columns", [2, 3])
def test_rows_of_two_or_three_elements_are_summed_up(columns: int) -> None:
    x = np.random.default_rng(0).uniform(-2, 2, (133, columns)).astype(np.float32)

    close(kernels.softmax(x), np.exp(x) / np.exp(x).sum(1, keepdims=True), "float32")
