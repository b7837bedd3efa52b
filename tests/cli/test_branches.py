"""Kernels that host code launches in branches which proposed sizes do not take."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import verdicts_on

NORMS = """
template <int THREADS>
__global__ void norms(const float* x, float* out, int cols) {
    __shared__ float sums[32];
    float sum = 0;
    for (int i = threadIdx.x; i < cols; i += THREADS) sum += x[blockIdx.x * cols + i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    BARRIER
    if (threadIdx.x == 0) {
        for (int i = 1; i < THREADS / 32; i++) sum += sums[i];
        out[blockIdx.x] = sum;
    }
}
void host(const float* x, float* out, int rows, int cols) {
    if (cols < LIMIT) norms<32><<<rows, 32>>>(x, out, cols);
    else if (cols < 2 * LIMIT) norms<64><<<rows, 64>>>(x, out, cols);
    else norms<256><<<rows, 256>>>(x, out, cols);
}
"""


@pytest.mark.parametrize("limit", ["1024", "MOST_OF_A_WARP"])
def test_an_instance_for_larger_sizes_is_checked_too(limit: str, tmp_path: Path) -> None:
    text = "constexpr int MOST_OF_A_WARP = 512;" + NORMS.replace("LIMIT", limit)

    clean = verdicts_on(text.replace("BARRIER", "__syncthreads();"), tmp_path)
    told = verdicts_on(text.replace("BARRIER", ""), tmp_path)

    assert [verdict["kernel"] for verdict in clean] == ["norms<32>", "norms<256>"]
    assert [verdict["status"] for verdict in clean] == ["clean", "clean"]
    assert [verdict["status"] for verdict in told] == ["clean", "wrong"]
    assert any(option.startswith("--size cols=") for option in told[1]["proposed"])


def test_a_kernel_that_no_size_leads_to_stays_left_out(tmp_path: Path) -> None:
    text = NORMS.replace("cols < LIMIT", "cols != 0").replace("LIMIT", "1024")

    (verdict,) = verdicts_on(text.replace("BARRIER", "__syncthreads();"), tmp_path)

    assert verdict["kernel"] == "norms<32>"
