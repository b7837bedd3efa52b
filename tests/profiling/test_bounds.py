"""Lower bounds of a run on a GPU: bytes once, passes of shared memory, flops of tensor cores; and occupancy."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.examples.test_examples import module
from tilewright import T
from tilewright.errors import ArgumentError
from tilewright.profiling import GPUS, gpu


@T.prim_func
def scaled(A: T.Buffer((8192,), "float32"), B: T.Buffer((8192,), "float32")):
    bx = T.cta_id([64])
    tid = T.thread_id([128])
    B[bx * 128 + tid] = A[bx * 128 + tid] * T.float32(2) + A[tid]


def test_bytes_of_memory_count_once_and_sectors_count_each_time() -> None:
    found = tw.compile(scaled, "sm_90a").profile(gpu="H200")

    assert found.read_bytes == found.written_bytes == 8192 * 4
    assert found.l2_bytes == 3 * 8192 * 4
    assert found.bounds["HBM"] == pytest.approx(8192 * 4 / 4.8e12)  # what is written may stay in the cache
    assert found.ctas == 64


def test_more_rows_scale_every_unit() -> None:
    found = tw.compile(scaled, "sm_90a").profile()

    assert found.scaled(10).bounds["HBM"] == pytest.approx(10 * found.bounds["HBM"])
    assert found.scaled(1000).bounds["L2"] == pytest.approx(1000 * 64 / 132 * found.bounds["L2"])  # on all SMs


def test_flops_of_matrix_products_are_those_of_the_problem() -> None:
    example = module("matmul_mma")
    (kernel,) = {id(value): value for value in vars(example).values() if isinstance(value, tw.ir.Kernel)}.values()
    found = tw.compile(kernel, "sm_90a").profile()
    m, k = (int(str(extent)) for extent in kernel.buffers[0].shape)
    n = int(str(kernel.buffers[-1].shape[1]))

    assert found.flops == {16: 2 * m * n * k}


def test_occupancy_is_what_the_scarcest_thing_allows() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((128,), "float32")):
        T.cta_id([1])
        tid = T.thread_id([128])
        s = T.alloc_shared((16384,), "float32")
        s[tid] = A[tid]
        A[tid] = s[tid]

    found = tw.compile(kernel, "sm_90a").profile().occupancy

    assert found.limit == "shared memory"
    assert found.ctas == 228 * 1024 // (65536 + 1024)


def test_every_gpu_says_where_its_figures_are_from() -> None:
    assert all(each.source and each.tensor[16] * each.sms * each.clock > 1e14 for each in GPUS.values())
    with pytest.raises(ArgumentError, match="unknown GPU 'H10'"):
        gpu("H10")


def test_arguments_are_left_alone() -> None:
    a, b = np.ones(8192, np.float32), np.zeros(8192, np.float32)

    tw.compile(scaled).profile(a, b)

    assert not b.any()
