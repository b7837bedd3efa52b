"""Proposed sizes and numbers with which a kernel comes to what is wrong: rings, rests of vectors, marks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import verdicts_on

RING = """
#include <cuda_pipeline.h>
constexpr int TILE = 128;
__global__ void __launch_bounds__(32) dots(const float* a, float* out, int k) {
    __shared__ __align__(16) float tile[2][TILE];
    const float* row = a + blockIdx.x * k;
    auto load = [&](int t) {
        __pipeline_memcpy_async(&tile[t % 2][threadIdx.x * 4], row + t * TILE + threadIdx.x * 4, 16);
        __pipeline_commit();
    };
    load(0);
    float sum = 0;
    for (int t = 0; t < k / TILE; t++) {
        if (t + 1 < k / TILE) { load(t + 1); __pipeline_wait_prior(PENDING); } else __pipeline_wait_prior(0);
        __syncthreads();
        for (int i = threadIdx.x; i < TILE; i += 32) sum += tile[t % 2][i * 5 % TILE];
        __syncthreads();
    }
    out[blockIdx.x * 32 + threadIdx.x] = sum;
}
void host(const float* a, float* out, int rows, int k) { dots<<<rows, 32>>>(a, out, k); }
"""
BY_FOUR = """
__global__ void sums(const float* a, const float* b, float* c, int n) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (LAST < n) {
        float4 x = *(const float4*)(a + i), y = *(const float4*)(b + i);
        *(float4*)(c + i) = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
    } else for (int j = i; j < n; j++) c[j] = a[j] + b[j];
}
void host(const float* a, const float* b, float* c, int n) {
    sums<<<((n + 3) / 4 + 127) / 128, 128>>>(a, b, c, n);
}
"""
GATED = """
#include <torch/extension.h>
__global__ void gated(const float* in, float* out, int half, int64_t n) {
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i SIGN n) return;
    int64_t row = i / half, column = i % half;
    out[i] = in[row * 2 * half + column] * in[row * 2 * half + half + column];
}
void host(torch::Tensor& out, torch::Tensor& in) {
    int half = in.size(-1) / 2;
    int64_t n = in.numel() / 2;
    gated<<<(n + 255) / 256, 256>>>(in.data_ptr<float>(), out.data_ptr<float>(), half, n);
}
"""
VISITS = """
__global__ void visits(const int* first, const int* next, const int* nodes, int n, int* level, int* queue, int* count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (int k = first[nodes[i]]; k < first[nodes[i] + 1]; k++) {
        int node = next[k];
        if (CLAIMS) queue[atomicAdd(count, 1)] = node;
    }
}
void host(const int* first, const int* next, const int* nodes, int n, int* level, int* queue, int* count) {
    cudaMemset(count, 0, sizeof(int));
    visits<<<(n + 127) / 128, 128>>>(first, next, nodes, n, level, queue, count);
}
"""
NEAREST = """
__global__ void nearest(const float* points, const float* centres, int* labels, int n, int many, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    GUARD
    float best = 3e38f;
    for (int c = 0; c < many; c++) {
        float sum = 0;
        for (int j = 0; j < width; j++) sum += points[i * width + j] * centres[c * width + j];
        if (sum < best) { best = sum; labels[i] = c; }
    }
}
"""


@pytest.mark.parametrize(
    ("text", "right", "wrong", "kind"),
    [
        pytest.param(RING, ("PENDING", "1"), ("PENDING", "2"), "races", id="a ring that waits for too few"),
        pytest.param(BY_FOUR, ("LAST", "i + 3"), ("LAST", "i"), "bounds", id="a part of a vector"),
        pytest.param(GATED, ("SIGN", ">="), ("SIGN", ">"), "bounds", id="rows of two halves"),
        pytest.param(
            VISITS, ("CLAIMS", "atomicCAS(&level[node], -1, 1) == -1"),
            ("CLAIMS", "level[node] == -1 && (level[node] = 1)"), "races", id="nodes that nobody has been to",
        ),
        pytest.param(NEAREST, ("GUARD", "if (i >= n) return;"), ("GUARD", ""), "bounds", id="a guard is forgotten"),
    ],
)  # fmt: skip
def test_what_only_some_sizes_and_numbers_show_is_told(
    text: str, right: tuple[str, str], wrong: tuple[str, str], kind: str, tmp_path: Path
) -> None:
    (clean,) = verdicts_on(text.replace(*right), tmp_path)
    (told,) = verdicts_on(text.replace(*wrong), tmp_path)

    assert clean["status"] == "clean", clean["findings"]
    assert told["status"] == "wrong"
    assert {finding["kind"] for finding in told["findings"]} == {kind}


def test_a_kernel_whose_rows_are_whole_vectors_is_for_such(tmp_path: Path) -> None:
    text = """
__global__ void rows_of(const float* x, float* out, int width) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i < width) *(float4*)(out + blockIdx.y * width + i) = *(const float4*)(x + blockIdx.y * width + i);
}
void host(const float* x, float* out, int rows, int width) {
    rows_of<<<dim3((width + 511) / 512, rows), 128>>>(x, out, width);
}
"""
    (verdict,) = verdicts_on(text, tmp_path)

    assert verdict["status"] == "clean", verdict["findings"]


WIDE = """
__global__ void gathered(const float* table, const long long* ids, float* out, long long n, long long width) {
    INDEX
    if (i >= n * width) return;
    out[i] = table[ids[i / width] * width + i % width];
}
void host(const float* table, const long long* ids, float* out, long long n, long long width) {
    gathered<<<(n * width + 255) / 256, 256>>>(table, ids, out, n, width);
}
"""
NARROW, ENOUGH = "int i = blockIdx.x * 256 + threadIdx.x;", "long long i = blockIdx.x * 256ll + threadIdx.x;"


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        pytest.param(WIDE.replace("INDEX", NARROW), 1, id="of 32 bits"),
        pytest.param(WIDE.replace("INDEX", ENOUGH), 0, id="of 64 bits"),
        pytest.param(WIDE.replace("INDEX", NARROW) + "// n * width < INT_MAX", 0, id="the text bounds them"),
        pytest.param(WIDE.replace("INDEX", NARROW).replace("long long n, long long width", "int n, int width"), 0,
                     id="sizes of 32 bits"),
    ],
)  # fmt: skip
def test_an_index_of_32_bits_for_sizes_of_64_is_a_warning(text: str, warnings: int, tmp_path: Path) -> None:
    (verdict,) = verdicts_on(text, tmp_path)

    assert verdict["status"] == "clean"
    said = [finding["message"] for finding in verdict["findings"] if finding["severity"] == "warning"]
    assert len(said) == warnings
    assert all("an index has 32 bits, and the sizes have 64" in message for message in said)


SCALED = """
__global__ void scaled(float* x, int rows, int cols) {
    int i = blockIdx.x * 256 + threadIdx.x;
    GUARD x[i] *= 2;
}
void host(float* x, int rows, int cols) { CHECK scaled<<<CTAS, 256>>>(x, rows, cols); }
"""
GUARD, DOWN = ("GUARD", "if (i < rows * cols)"), ("CTAS", "rows * cols / 256")


@pytest.mark.parametrize(
    ("pairs", "warnings"),
    [
        pytest.param([GUARD, DOWN, ("CHECK", "")], 1, id="down"),
        pytest.param([GUARD, ("CTAS", "(rows * cols + 255) / 256"), ("CHECK", "")], 0, id="up"),
        pytest.param([("GUARD", ""), DOWN, ("CHECK", "")], 0, id="a kernel for multiples"),
        pytest.param([GUARD, DOWN, ("CHECK", "if (rows % 4 != 0 || cols % 64 != 0) return;")], 0, id="host code asks"),
    ],
)
def test_a_grid_that_is_rounded_down_for_a_kernel_with_a_guard_is_a_warning(
    pairs: list[tuple[str, str]], warnings: int, tmp_path: Path
) -> None:
    text = SCALED
    for pair in pairs:
        text = text.replace(*pair)
    (verdict,) = verdicts_on(text, tmp_path)

    assert verdict["status"] == "clean"
    said = [finding for finding in verdict["findings"] if finding["severity"] == "warning"]
    assert len(said) == warnings
    assert all("leaves out the last part of" in finding["message"] and finding["line"] == 6 for finding in said)
