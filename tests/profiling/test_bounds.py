"""Lower bounds of a run on a GPU: bytes once, passes of shared memory, flops of tensor cores; and occupancy."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from benchmarks.gpu.restrict_kernels import stencil
from tests.examples.compute import module
from tilewright import T
from tilewright.errors import ArgumentError
from tilewright.profiling import GPUS, gpu, profile


@T.prim_func
def scaled(A: T.Buffer((8192,), "float32"), B: T.Buffer((8192,), "float32")):
    bx = T.cta_id([64])
    tid = T.thread_id([128])
    B[bx * 128 + tid] = A[bx * 128 + tid] * T.float32(2) + A[tid]


def test_bytes_of_memory_count_once_as_do_sectors_that_an_sm_may_keep() -> None:
    found = tw.compile(scaled, "sm_90a").profile(gpu="H200")

    assert found.read_bytes == found.written_bytes == 8192 * 4
    assert found.l2_bytes == 2 * 8192 * 4  # A[tid] comes with A
    assert found.bounds["HBM"] == pytest.approx(8192 * 4 / 4.8e12)  # what is written may stay in the cache
    assert found.ctas == 64


def test_a_store_of_every_fourth_element_takes_its_sectors_each_time() -> None:
    found = profile(tw.compile(stencil(4096), "sm_90a"), (), gpu("H200"), {}, 0)

    read, written = 4096 * 4, 4 * 4096 * 4
    assert found.l2_bytes == read + written
    assert (found.read_bytes, found.written_bytes) == (read, read)


def test_more_rows_scale_every_unit() -> None:
    found = tw.compile(scaled, "sm_90a").profile()

    assert found.scaled(10).bounds["HBM"] == pytest.approx(10 * found.bounds["HBM"])
    assert found.scaled(1000).bounds["L2"] == pytest.approx(1000 * 64 / 132 * found.bounds["L2"])  # on all SMs


def waves(ctas: int, *, ragged: bool = False):
    @T.prim_func
    def kernel(A: T.Buffer((ctas, 128), "float32")):
        bx = T.cta_id([ctas])
        tid = T.thread_id([128])
        s = T.alloc_shared((128,), "float32")
        for i in range(20):
            if ragged:
                if bx < 7:
                    s[tid] = s[tid] * T.float32(2) if i else A[bx, tid]
            else:
                s[tid] = s[tid] * T.float32(2) if i else A[bx, tid]
        A[bx, tid] = s[tid]

    return tw.compile(kernel, "sm_90a").profile(gpu="H200")


def test_a_cta_more_than_there_are_multiprocessors_takes_a_second_wave() -> None:
    one, all_of_them, one_more = (waves(ctas).bounds["issue"] for ctas in (1, 132, 133))

    assert one == pytest.approx(all_of_them)
    assert one_more == pytest.approx(2 * all_of_them)


def test_where_ctas_may_differ_the_bound_is_that_of_the_mean() -> None:
    assert waves(133).alike
    uneven = waves(133, ragged=True)

    assert not uneven.alike
    assert "latency" not in uneven.bounds
    work = sum(uneven.counts.instructions.values())
    assert uneven.bounds["issue"] == pytest.approx(work / 4 / 132 / 1.98e9)


def test_ctas_that_tell_each_other_may_differ() -> None:
    @T.prim_func
    def last(A: T.Buffer((1,), "int32")):
        T.cta_id([133])
        T.thread_id([32])
        old = T.cuda.atomic_add(A.ptr_to([0]), T.int32(1))
        if old == 132:
            A[0] = 0

    assert not tw.compile(last, "sm_90a").profile(np.zeros(1, np.int32)).alike


def test_ctas_that_do_not_fit_wait_for_a_whole_cta() -> None:
    few, many = waves(132), waves(132 * 17)  # of 4 warps 16 fit
    of_a_warp = sum(few.counts.instructions.values()) / 132 / 4

    assert many.occupancy.ctas == 16
    assert few.bounds["latency"] == pytest.approx(of_a_warp / 1.98e9)
    assert many.bounds["latency"] == pytest.approx(2 * few.bounds["latency"])


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
    assert all(each.source and each.tensor[16] * each.sms * each.clock > 6e13 for each in GPUS.values())
    with pytest.raises(ArgumentError, match="unknown GPU 'H10'"):
        gpu("H10")


@pytest.mark.parametrize(("name", "sms"), [("T4", 40), ("a10", 72), ("RTX3090", 82), ("4090", 128), ("rtx 5090", 170)])
def test_gpus_of_desks_and_clouds_are_known(name: str, sms: int) -> None:
    assert gpu(name).sms == sms


def test_arguments_are_left_alone() -> None:
    a, b = np.ones(8192, np.float32), np.zeros(8192, np.float32)

    tw.compile(scaled).profile(a, b)

    assert not b.any()
