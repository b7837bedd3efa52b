"""Kernels with reductions, scans and permutations as people write them: simulated with all checks, and assembled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import T, Tx
from tilewright.errors import DispatchError
from tilewright.ir import Kernel
from tilewright.layout import S, TileLayout, laneid, tx


@T.prim_func
def row_sums(A_ptr: T.handle, B_ptr: T.handle):  # rows of any number and any length
    m, n = T.int32(), T.int32()
    A = T.match_buffer(A_ptr, (m, n), "float32")
    B = T.match_buffer(B_ptr, (m,), "float32")
    row = T.cta_id([m])
    T.thread_id([128])
    Tx.cta.sum(B[row : row + 1], A[row : row + 1, :])


@T.prim_func
def row_sums_of_fours(A_ptr: T.handle, B_ptr: T.handle):
    m, n = T.int32(), T.int32()
    A = T.match_buffer(A_ptr, (m, n), "float32")
    B = T.match_buffer(B_ptr, (m,), "float32")
    T.assume(n % 4 == 0)
    row = T.cta_id([m])
    T.thread_id([128])
    Tx.cta.sum(B[row : row + 1], A[row : row + 1, :])


@T.prim_func
def column_maxima(A_ptr: T.handle, B_ptr: T.handle):  # 64 columns at a time, fewer at the end
    m, n = T.int32(), T.int32()
    A = T.match_buffer(A_ptr, (m, n), "float32")
    B = T.match_buffer(B_ptr, (n,), "float32")
    bx = T.cta_id([(n + 63) // 64])
    T.thread_id([128])
    best = T.alloc_buffer((64,), "float32", scope="shared")
    Tx.cta.max(best, A[:, bx * 64 : bx * 64 + 64], axes=0)
    Tx.cta.max(B[bx * 64 : bx * 64 + 64], A[:, bx * 64 : bx * 64 + 64], axes=0)


@T.prim_func
def running_sums(A_ptr: T.handle, B_ptr: T.handle):
    m, n = T.int32(), T.int32()
    A = T.match_buffer(A_ptr, (m, n), "float32")
    B = T.match_buffer(B_ptr, (m, n), "float32")
    row = T.cta_id([m])
    T.thread_id([128])
    Tx.cta.scan(B[row : row + 1, :], A[row : row + 1, :])


def test_a_hint_names_the_fact_that_makes_loads_wider() -> None:
    hint = "T.assume(n % 4 == 0)"

    for made in (row_sums, running_sums):
        assert tw.compile(made, target="sm_90a").report.entries[0].hints == (hint,)
    assert "by 16 bytes" in tw.compile(row_sums_of_fours, target="sm_90a").report.entries[0].plan


SHAPES = [(3, 1), (2, 37), (3, 64), (2, 257), (1, 1000)]


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_of_lengths_that_only_the_run_knows_are_summed(shape: tuple[int, int]) -> None:
    a, b = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32), np.zeros(shape[0], np.float32)

    tw.simulate(row_sums, a, b, check="all")

    assert np.array_equal(b, a.sum(1))


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_outside_of_the_buffer_counts_nothing(shape: tuple[int, int]) -> None:
    a, b = -np.random.default_rng(0).random(shape, np.float32), np.zeros(shape[1], np.float32)

    tw.simulate(column_maxima, a, b, check="all")

    assert np.array_equal(b, a.max(0))


@pytest.mark.parametrize("shape", SHAPES)
def test_lines_of_lengths_that_only_the_run_knows_are_scanned(shape: tuple[int, int]) -> None:
    a, b = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32), np.zeros(shape, np.float32)

    tw.simulate(running_sums, a, b, check="all")

    assert np.array_equal(b, a.cumsum(1))


ROW = TileLayout(S[(4, 256) : (1, 1 @ tx)])


@T.prim_func
def row_in_registers(A: T.Buffer((1024,), "float32"), B: T.Buffer((3,), "float32"), C: T.Buffer((1024,), "float32")):
    T.cta_id([1])
    tid = T.thread_id([256])
    x = T.alloc_buffer((1024,), "float32", scope="local", layout=ROW)
    y = T.alloc_buffer((1024,), "float32", scope="local", layout=TileLayout(S[(256, 4) : (1 @ tx, 1)]))
    one = T.alloc_buffer((3,), "float32", scope="local")
    where = T.alloc_buffer((1,), "int32", scope="local")
    Tx.cta.copy(x, A)
    Tx.cta.sum(one[0:1], x)
    Tx.cta.max(one[1:2], x)
    Tx.cta.argmax(where, x)
    Tx.cta.permute_layout(y, x)
    Tx.cta.scan(y, y)
    Tx.cta.copy(C, y)
    one[2] = T.cast(where[0], "float32")
    if tid == 255:
        for i in range(3):
            B[i] = one[i]


def test_a_row_in_registers_is_summed_searched_turned_and_scanned() -> None:
    a = np.random.default_rng(1).integers(-9, 9, 1024).astype(np.float32)
    b, c = np.zeros(3, np.float32), np.zeros(1024, np.float32)

    tw.simulate(row_in_registers, a, b, c, check="all")

    assert b.tolist() == [a.sum(), a.max(), a.argmax()]
    assert np.array_equal(c, a.cumsum())


@T.prim_func
def narrow(A: T.Buffer((32, 8), "float16"), B: T.Buffer((8,), "float16"), C: T.Buffer((8,), "bool")):
    T.cta_id([1])
    T.warp_id([4])
    T.lane_id([32])
    r = T.alloc_buffer((32, 8), "float16", scope="local", layout=S[(32, 8) : (1 @ laneid, 1)])
    t = T.alloc_buffer((32, 8), "float16", scope="local", layout=S[(8, 4, 8) : (1, 1 @ laneid, 4 @ laneid)])
    n = T.alloc_buffer((32,), "int32", scope="local", layout=S[(32,) : (1 @ laneid,)])
    k = T.alloc_buffer((1,), "int32", scope="local")
    Tx.warp.copy(r, A)
    Tx.warp.permute_layout(t, r)
    Tx.warp.argmax(n, r, axes=1)
    Tx.warp.sum(k, n, axes=0)
    Tx.wg.prod(B, r, axes=0)
    Tx.wg.any(C, r, axes=0)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("kernel", [row_sums, column_maxima, running_sums, row_in_registers, narrow])
def test_their_text_assembles(kernel: Kernel, arch: str) -> None:
    assert tw.compile(kernel, target=arch).source("ptx")


def summed_in(count: int, scope: str = "shared") -> Any:
    @T.prim_func
    def summed(A: T.Buffer((256, 4), "float32"), B: T.Buffer((1,), "float32")):
        T.cta_id([1])
        T.thread_id([128])
        mine = T.alloc_buffer((count,), "float32", scope=scope)
        a, b = T.alloc_shared((256, 4), "float32"), T.alloc_shared((1,), "float32")
        Tx.cta.copy(a, A)
        T.cuda.cta_sync()
        Tx.cta.sum(b, a, axes=(0, 1), workspace={"scratch": mine})
        Tx.cta.copy(B, b)

    return summed


def test_a_call_takes_its_scratch_memory_from_the_workspace() -> None:
    b = np.zeros(1, np.float32)

    run = tw.simulate(summed_in(4), np.ones((256, 4), np.float32), b, check="all")

    assert b[0] == 1024
    assert "mine" in {line.buffer for line in run.counts.lines if line.write}


@pytest.mark.parametrize(
    ("count", "scope", "said"),
    [
        (3, "shared", "(?s)too small for sum.*mine of 12 bytes.*at least 16 bytes"),
        (4, "local", "workspace= offers none"),
    ],
)
def test_a_workspace_that_a_call_cannot_use_is_refused(count: int, scope: str, said: str) -> None:
    with pytest.raises(DispatchError, match=said):
        tw.compile(summed_in(count, scope))
