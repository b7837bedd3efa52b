"""Launches of kernels that no text launches: what a kernel's own text says of its CTAs and threads."""

from __future__ import annotations

import re

import pytest

from tilewright.load.cu_launcher import instances_of_templates, launcher

HEAD = "__global__ void k(const float* a, float* b, int n, int m) {{ {body} }}"
INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
BOTH = "int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;"
TILES = "__shared__ float t[16][17]; t[threadIdx.y][threadIdx.x] = a[threadIdx.x];"
HALO = "#define BLOCK 256\n"


def extents(text: str, kernel: str = "k") -> tuple[str, str, str]:
    """The grid, the block and the bytes of shared memory of the launch that is written for it."""
    said = re.search(r"<<<dim3\((.*)\), dim3\((.*)\), (\w+)>>>", launcher((text,), kernel))
    assert said is not None
    return said[1], said[2], said[3]


@pytest.mark.parametrize(
    ("body", "grid", "block"),
    [
        (f"{INDEX} if (i < n) b[i] = a[i];", "((n) + threads - 1) / threads, 1, 1", "threads, 1, 1"),
        (f"{INDEX} if (i >= n) return; b[i] = a[i];", "((n) + threads - 1) / threads, 1, 1", "threads, 1, 1"),
        (f"{INDEX} if (i < n * m) b[i] = a[i];", "((n * m) + threads - 1) / threads, 1, 1", "threads, 1, 1"),
        ("int bid = blockIdx.x; for (int i = bid * blockDim.x + threadIdx.x; i < n; i += 64) b[i] = 0;",
         "((n) + threads - 1) / threads, 1, 1", "threads, 1, 1"),
        ("int row = blockIdx.x; if (row < n) b[row * m + threadIdx.x] = 0;", "n, 1, 1", "threads, 1, 1"),
        ("b[blockIdx.x * n + threadIdx.x] = 0;", "ctas, 1, 1", "threads, 1, 1"),
        (f"{INDEX} b[i] = a[i];", "ctas, 1, 1", "threads, 1, 1"),
        (f"{INDEX} for (; i < n; i += blockDim.x * gridDim.x) b[i] = 0;",  # two turns
         "((n) + (2 * threads) - 1) / (2 * threads), 1, 1", "threads, 1, 1"),
        ("for (int row = blockIdx.x; row < n; row += gridDim.x) b[row] = 0;", "((n) + 1) / 2, 1, 1", "threads, 1, 1"),
        (f"{BOTH} if (row < m && col < n) b[row * n + col] = 0;",
         "((n) + threads - 1) / threads, ((m) + threads_y - 1) / threads_y, 1", "threads, threads_y, 1"),
        (f"{BOTH} b[row * n + col] = 0;", "(n) / threads, ctas_y, 1", "threads, threads_y, 1"),
        (f"{TILES} b[threadIdx.x] = t[threadIdx.x][threadIdx.y];", "ctas, 1, 1", "16, 16, 1"),
        ("__shared__ float s[128]; int t = threadIdx.x; s[t] = a[t]; b[t] = s[127 - t];", "ctas, 1, 1", "128, 1, 1"),
        ("__shared__ float s[32]; s[threadIdx.x / 32] = 1; b[0] = s[threadIdx.x];", "ctas, 1, 1", "threads, 1, 1"),
        ("__shared__ float s[33]; s[threadIdx.x] = 1;", "ctas, 1, 1", "32, 1, 1"),  # one more in each row
        ("constexpr int T = 64; __shared__ float s[T]; s[threadIdx.x] = 1;", "ctas, 1, 1", "64, 1, 1"),
        ("const int T = 32, R = 8; __shared__ float t[T][T + 1]; for (int j = 0; j < T; j += R) "
         "t[threadIdx.y + j][threadIdx.x] = a[j];", "ctas, 1, 1", "32, 8, 1"),
        ("int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32; if (warp < n) b[warp] = 0;",
         "((n) * 32 + threads - 1) / threads, 1, 1", "threads, 1, 1"),
        ("int row = (blockIdx.x * blockDim.x + threadIdx.x) * 4; if (row >= n) return; b[row + 3] = 0;",  # whole tiles
         "(n) / threads, 1, 1", "threads, 1, 1"),
        ("int row = blockIdx.x * 4 + (threadIdx.x >> 5); if (row >= n) return; b[row] = 0;",
         "((n) * 32 + threads - 1) / threads, 1, 1", "threads, 1, 1"),
    ],
)  # fmt: skip
def test_guards_and_shared_arrays_say_how_many_ctas_and_threads_there_are(body: str, grid: str, block: str) -> None:
    assert extents(HEAD.format(body=body)) == (grid, block, "0")


def test_bounds_constants_and_dynamic_shared_memory_count() -> None:
    bounded = HEAD.format(body="extern __shared__ float s[]; s[0] = a[0];").replace(
        "void", "void __launch_bounds__(96)"
    )
    assert extents(bounded) == ("ctas, 1, 1", "96, 1, 1", "shared_bytes")

    halo = HALO + HEAD.format(body="__shared__ float s[BLOCK + 2]; s[threadIdx.x] = a[threadIdx.x];")
    assert extents(halo) == ("ctas, 1, 1", "BLOCK, 1, 1", "0")

    template = "template <typename T, int THREADS> " + HEAD.format(
        body="for (int i = threadIdx.x; i < n; i += THREADS) ;"
    )
    assert extents(template, "k<float, 64>") == ("ctas, 1, 1", "64, 1, 1", "0")


def test_a_launcher_stands_in_the_line_of_its_kernel_and_passes_on_what_it_is_given() -> None:
    text = "\n\n" + HEAD.format(body="int threads = 4; b[threads] = 0;").replace("int n", "int threads")

    assert launcher((text,), "k") == (
        "\n\nvoid launch_k(const float* a, float* b, int threads, int m, int ctas, int threads_of_launch) "
        "{ k<<<dim3(ctas, 1, 1), dim3(threads_of_launch, 1, 1), 0>>>(a, b, threads, m); }"
    )
    assert launcher((text,), "other") == ""


@pytest.mark.parametrize(
    ("parameters", "instances"),
    [
        ("typename T", ["k<float>"]),
        ("class scalar_t, int BLOCK_SIZE, bool CAUSAL", ["k<float, 128, true>"]),
        ("typename T, typename index_t", ["k<float, int>"]),
        ("typename T, typename I", ["k<float, int>"]),
        ("typename T, int VECTOR", []),  # 128 elements are no vector
        ("typename Functor", []),
    ],
)
def test_templates_of_types_and_threads_have_an_instance(parameters: str, instances: list[str]) -> None:
    assert instances_of_templates((f"template <{parameters}> __global__ void k(int n) {{}}",)) == instances
