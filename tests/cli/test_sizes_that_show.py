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
CHUNKS = """
__global__ void totals(const float* x, float* y, int columns) {
    __shared__ float chunk[256], before;
    if (threadIdx.x == 0) before = 0;
    for (int from = 0; from < columns; from += 256) {
        int i = from + threadIdx.x;
        chunk[threadIdx.x] = i < columns ? x[blockIdx.x * columns + i] : 0;
        __syncthreads();
        if (i < columns) y[blockIdx.x * columns + i] = before + chunk[threadIdx.x ^ 1];
        MEETS
        if (threadIdx.x == 0) before += chunk[0];
        __syncthreads();
    }
}
void host(torch::Tensor x, torch::Tensor y) {
    totals<<<x.size(0), 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
}
"""
PIXELS = """
template <int Tile> __global__ void nearest(const float* points, float* out, int n, int width, int height) {
    __shared__ float tile[Tile];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    float least = 3e38f;
    for (int from = 0; from < n; from += Tile) {
        int many = min(Tile, n - from), at = threadIdx.y * 16 + threadIdx.x;
        if (at < many) tile[at] = points[from + at];
        __syncthreads();
        for (int i = 0; i < many; i++) least = min(least, abs(tile[i] - x) + abs(tile[i] - y));
        MEETS
    }
    if (x < width && y < height) out[y * width + x] = least;
}
int main(int argc, char** argv) {
    int n = atoi(argv[1]), width = atoi(argv[2]), height = atoi(argv[3]);
    float *points, *out;
    cudaMalloc(&points, n * sizeof(float));
    cudaMalloc(&out, width * height * sizeof(float));
    nearest<256><<<dim3((width + 15) / 16, (height + 15) / 16), dim3(16, 16)>>>(points, out, n, width, height);
}
"""
GROUPS = """
__global__ void picked(const int* first, const int* ids, const float* x, float* y, int groups) {
    __shared__ int kept[64];
    for (int group = blockIdx.x; group < groups; group += gridDim.x)
        for (int from = first[group + 0]; from < first[group + 1]; from += 64) {
            kept[threadIdx.x] = from + threadIdx.x < first[group + 1] ? ids[from + threadIdx.x] : -1;
            __syncthreads();
            int id = kept[threadIdx.x ^ 32];
            if (id >= 0 && from + (threadIdx.x ^ 32) < first[group + 1]) y[from + (threadIdx.x ^ 32)] = x[id];
            MEETS
        }
}
void host(const int* first, const int* ids, const float* x, float* y, int groups) {
    picked<<<2, 64>>>(first, ids, x, y, groups);
}
"""
ROWS = """
__global__ void sums(const float* x, float* y, int columns) {
    const float* row = x + blockIdx.x * columns;
    const float4* row4 = (const float4*)row;
    float sum = 0;
    int many = WHOLE;
    for (int i = threadIdx.x; i < many; i += 32) sum += row4[i].x + row4[i].y + row4[i].z + row4[i].w;
    for (int i = many * 4 + threadIdx.x; i < columns; i += 32) sum += row[i];
    atomicAdd(&y[blockIdx.x], sum);
}
void host(torch::Tensor x, torch::Tensor y) {
    y.zero_();
    sums<<<x.size(0), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
}
"""
COUNTED = """
__global__ void firsts(const float* x, const int* many, float* y) {
    __shared__ float s[64];
    if (blockIdx.x * 64 >= *many) return;
    s[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
    MEETS
    y[blockIdx.x * 64 + threadIdx.x] = s[threadIdx.x ^ 32];
}
void host(const float* x, const int* many, float* y) { firsts<<<4, 64>>>(x, many, y); }
"""
IN_STEPS = """
__global__ void halved(float* x, int from, int n) {
    int i = from + threadIdx.x;
    if (GUARD) x[i] *= 0.5f;
}
int main() {
    const int n = 100;
    float* x;
    cudaMalloc(&x, n * sizeof(float));
    cudaMemset(x, 0, n * sizeof(float));
    for (int from = 0; from < n; from += 32) halved<<<1, 32>>>(x, from, n);
}
"""
PARTS = """
__global__ void products(const float* a, const float* b, float* c, int n, int k) {
    int i = blockIdx.x * 64 + threadIdx.x, from = blockIdx.y * 64;
    if (CLEARS) c[i] = 0;
    __syncthreads();
    float sum = 0;
    for (int j = from; j < from + 64; j++) sum += a[j] * b[j * n + i];
    atomicAdd(&c[i], sum);
}
void host(torch::Tensor a, torch::Tensor b, torch::Tensor c) {
    int n = b.size(1), k = b.size(0);
    TORCH_CHECK(k % 64 == 0 && n % 64 == 0);
    c.zero_();
    products<<<dim3(n / 64, k / 64), 64>>>(a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), n, k);
}
"""
MEETS = "MEETS", "__syncthreads();"


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
        pytest.param(CHUNKS, MEETS, ("MEETS", ""), "races", id="rows of more than one turn"),
        pytest.param(PIXELS, MEETS, ("MEETS", ""), "races", id="more than one tile for each of many pixels"),
        pytest.param(GROUPS, MEETS, ("MEETS", ""), "races", id="ranges of more than one turn"),
        pytest.param(
            ROWS, ("WHOLE", "(size_t)row % 16 ? 0 : columns / 4"), ("WHOLE", "columns / 4"), "alignment",
            id="rows of vectors and a rest",
        ),
        pytest.param(COUNTED, MEETS, ("MEETS", ""), "races", id="as many as another one has counted"),
        pytest.param(IN_STEPS, ("GUARD", "i < n"), ("GUARD", "from < n"), "bounds", id="the last turn of host code"),
        pytest.param(
            PARTS, ("CLEARS", "false"), ("CLEARS", "blockIdx.y == 0"), "races", id="one part clears what all add to",
        ),
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
