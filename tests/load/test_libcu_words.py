"""Findings of kernels that use libcu++ name its own functions; its copies need no fence of proxies."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.load.cu_headers import wheel_folders
from tilewright.verdict import Verdict

pytestmark = pytest.mark.skipif(not wheel_folders(), reason="the wheels of CUDA's headers")

ROWS = """
#include <cuda/barrier>
__global__ void rows(const int* in, int* out) {
    __shared__ alignas(16) int row[64];
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    if (threadIdx.x == 0) init(&bar, COUNT);
    __syncthreads();
    for (int r = 0; r < 3; r++) {
        if (threadIdx.x == 0) cuda::memcpy_async(row, in + r * 64, cuda::aligned_size_t<16>(256), bar);
        WAIT
        out[r * 64 + threadIdx.x] = row[63 - threadIdx.x];
        BEHIND
    }
}
"""
STAGES = """
#include <cuda/pipeline>
__global__ void stages(const int* in, int* out) {
    __shared__ int stage[2][64];
    auto pipe = cuda::make_pipeline();
    for (int t = 0; t < 3; t++) {
        if (t == 0) { pipe.producer_acquire();
            cuda::memcpy_async(&stage[0][threadIdx.x], in + threadIdx.x, 4, pipe);
            pipe.producer_commit(); }
        if (t < 2) { pipe.producer_acquire();
            cuda::memcpy_async(&stage[(t + 1) & 1][threadIdx.x], in + (t + 1) * 64 + threadIdx.x, 4, pipe);
            pipe.producer_commit(); }
        WAIT
        out[t * 64 + threadIdx.x] = stage[t & 1][threadIdx.x];
        pipe.consumer_release();
    }
}
"""


LATE = "cuda::pipeline_consumer_wait_prior<2>(pipe);"


def verdict(text: str, **words: str) -> Verdict:
    for word, value in words.items():
        text = text.replace(word, value)
    (kernel,) = (module := tw.load_cu(text)).kernels
    arrays = np.arange(192, dtype=np.int32), np.zeros(192, np.int32)
    return tw.check(module[kernel], *arrays, grid=1, block=64, both=False)


def hints(found: Verdict) -> str:
    return " ".join(finding.hint or "" for finding in found.findings)


def test_a_copy_of_a_barrier_needs_no_proxy_fence() -> None:
    found = verdict(ROWS, COUNT="64", WAIT="bar.arrive_and_wait();", BEHIND="__syncthreads();")

    assert (found.status, found.findings) == ("clean", ())


def test_a_barrier_that_counts_too_few_is_told_by_init() -> None:
    found = verdict(ROWS, COUNT="63", WAIT="bar.arrive_and_wait();", BEHIND="__syncthreads();")

    assert not found
    assert "init(&bar, ...) with as many arrivals" in hints(found)
    assert "mbarrier" not in hints(found)


def test_a_copy_that_nobody_waits_for_names_the_barrier() -> None:
    found = verdict(ROWS, COUNT="64", WAIT="", BEHIND="bar.arrive_and_wait();")

    assert not found
    assert "bar.arrive_and_wait() between line 9 and line 11" in hints(found)


def test_a_copy_over_what_is_still_read_names_the_barrier() -> None:
    found = verdict(ROWS, COUNT="64", WAIT="bar.arrive_and_wait();", BEHIND="")

    assert not found
    assert "bar.arrive_and_wait(), or another barrier of all that read, between line 11 and line 9" in hints(found)


def test_a_pipeline_that_waits_too_late_names_its_wait() -> None:
    right, wrong = (verdict(STAGES, WAIT=wait) for wait in ("pipe.consumer_wait();", LATE))

    assert (right.status, right.findings) == ("clean", ())
    assert not wrong
    assert "pipeline_consumer_wait_prior<1>(pipe) in place of the wait of line 13" in hints(wrong)
    assert "cp.async" not in hints(wrong)
