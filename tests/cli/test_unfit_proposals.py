"""Proposals that do not fit a kernel: what happens with them is no finding of it, but why it is not judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.commands import ran, verdicts_on

TILES = """
__global__ void tiles(const float* x, float* y, int k) {
    int many = k / 128;
    y[threadIdx.x] = x[(threadIdx.x + blockIdx.x) % many];
}
void host(const float* x, float* y, int k, int rows) { tiles<<<ROWS, 32>>>(x, y, k); }
"""
# A block of another instance of the template: the launches differ in constants alone.
INSTANCES = """
template <int THREADS, bool SQUARED>
__global__ void __launch_bounds__(THREADS) scaled(const float* x, float* y, int n) {
    int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n) y[i] = SQUARED ? x[i] * x[i] : 2 * x[i];
}
constexpr int FEW = 64, MANY = 256;
void host(const float* x, float* y, int n) {
    scaled<MANY, true><<<(n + MANY - 1) / MANY, MANY>>>(x, y, n);
    scaled<FEW, false><<<(n + FEW - 1) / FEW, FEW>>>(x, y, n);
}
"""
SLOW = """
__global__ void sums(const float* x, float* y, int n, int turns) {
    extern __shared__ float row[];
    float sum = 0;
    for (int turn = 0; turn < turns; turn++) {
        row[threadIdx.x] = x[(threadIdx.x + turn) % n];
        __syncthreads();
        sum += row[blockDim.x - 1 - threadIdx.x];
        __syncthreads();
    }
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
void host(const float* x, float* y, int n, int turns, int rows, int shared_bytes) {
    sums<<<rows, 256, shared_bytes>>>(x, y, n, turns);
}
"""


def test_a_division_by_0_of_proposed_sizes_is_no_finding(tmp_path: Path) -> None:
    (only,) = verdicts_on(TILES.replace("ROWS", "rows"), tmp_path)

    assert only["status"] == "refused"
    assert "divides by 0 with the sizes that are proposed" in str(only["findings"])


def test_a_division_by_0_of_given_sizes_is_told(tmp_path: Path) -> None:
    arguments = ("--arg", "x:f32[64]=random", "--arg", "y:f32[64]", "--arg", "k=64", "--size", "rows=2")
    (only,) = verdicts_on(TILES.replace("ROWS", "rows"), tmp_path, *arguments)

    assert only["status"] == "wrong"
    assert "arithmetic" in [finding["kind"] for finding in only["findings"]]


def test_an_instance_has_the_launch_of_its_constants(tmp_path: Path) -> None:
    found = verdicts_on(INSTANCES, tmp_path)

    assert [only["status"] for only in found] == ["clean", "clean"], found


def test_shared_memory_stays_where_a_run_takes_long(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("tilewright.cli.proposing.SECONDS", 1e-6)
    (only,) = verdicts_on(SLOW, tmp_path)

    assert only["status"] == "clean", only


GATHERED = """
__global__ void gathered(const int64_t* places, float* out, int many) {
    const float* x = VALUE;
    for (int i = threadIdx.x; i < many; i += blockDim.x) out[blockIdx.x * many + i] = x[i];
}
void host(const int64_t* places, float* out, int rows, int many) { gathered<<<rows, 64>>>(places, out, many); }
"""


BY_CASTS = ["(const float*)places[blockIdx.x]", "reinterpret_cast<const float*>(places[blockIdx.x])"]


@pytest.mark.parametrize("value", BY_CASTS)
def test_addresses_in_an_array_of_integers_are_asked_for(value: str, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(GATHERED.replace("VALUE", value))
    code, _, error = ran("check", tmp_path / "k.cu")

    assert code == 2
    assert "not judged: gathered takes addresses from places" in error


def test_other_integers_of_64_bits_are_proposed(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(GATHERED.replace("VALUE", "out + places[blockIdx.x]"))

    assert ran("check", tmp_path / "k.cu")[0] != 2


FAR = """
__global__ void last(const float* x, float* y, int a, int b, int c, int d, int e) {
    long long i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < a) y[i] = x[((i * b + b - 1) * c + c - 1) * d * e + d * e - 1];
}
void host(const float* x, float* y, int a, int b, int c, int d, int e) {
    last<<<(a + 63) / 64, 64>>>(x, y, a, b, c, d, e);
}
"""


def test_sizes_are_smaller_where_no_array_has_room_for_them(tmp_path: Path) -> None:
    (one,) = verdicts_on(FAR, tmp_path)

    assert one["status"] == "clean", one
    assert {"--size b=4", "--size e=4"} <= {*one["proposed"]}


CLAMPED = """
#include <cuda_fp16.h>
template <typename T>
__global__ void clamped(const T* x, T* y, int n, T low, T high) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] < low ? low : x[i] > high ? high : x[i];
}
template <typename T> void host(const T* x, T* y, int n, float eps) {
    clamped<T><<<(n + 255) / 256, 256>>>(x, y, n, (T)eps, (T)1.0);
}
template void host<float>(const float*, float*, int, float);
template void host<__half>(const __half*, __half*, int, float);
"""


def test_instances_for_a_number_and_for_a_structure_share_their_arguments(tmp_path: Path) -> None:
    verdicts = verdicts_on(CLAMPED, tmp_path)

    assert [verdict["status"] for verdict in verdicts] == ["clean", "clean"], verdicts


CUBES = """
#include <torch/extension.h>
__global__ void spread(const float* x, float* cube, int n, int scale, int corners) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * corners) atomicAdd(&cube[i % (scale * scale * scale)], x[i / corners]);
}
void host(torch::Tensor x, int scale, int many) {
    int n = x.size(0), corners = many * many * many * 8;
    auto cube = torch::zeros({n, scale, scale, scale, scale}, x.options());
    spread<<<(n * corners + 255) / 256, 256>>>(x.data_ptr<float>(), cube.data_ptr<float>(), n, scale, corners);
}
"""


def test_sizes_are_smaller_where_they_make_an_array_larger_than_memory(tmp_path: Path) -> None:
    (verdict,) = verdicts_on(CUBES, tmp_path)

    assert verdict["status"] == "clean", verdict


SHIFTED = """
__global__ void shifted(const float* x, float* y, int n, int shift) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int from = i - shift;
    WRAPPED
    y[i] = x[from];
}
void host(const float* x, float* y, int n, int shift) { shifted<<<(n + 127) / 128, 128>>>(x, y, n, shift); }
"""


@pytest.mark.parametrize(("wrapped", "status"), [("if (from < 0) from += n;", "clean"), ("", "wrong")])
def test_a_shift_that_has_to_be_less_than_a_size_is_1(wrapped: str, status: str, tmp_path: Path) -> None:
    text = SHIFTED.replace("WRAPPED", wrapped).replace("(n + 127) / 128, 128", "(n + 7) / 8, 8")
    (verdict,) = verdicts_on(text, tmp_path, "--size", "n=21")

    assert verdict["status"] == status, verdict
    assert ("--size shift=1" in verdict["proposed"]) == (status == "clean")


ALLOCATED = """
__global__ void halved(float* x, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i GUARD n; i += gridDim.x * blockDim.x) x[i] /= 2;
}
void host(size_t nbytes, int rows, int columns) {
    float* x;
    cudaMalloc(&x, ROOM);
    cudaMemset(x, 0, ROOM);
    halved<<<8, 128>>>(x, rows * columns);
}
"""


@pytest.mark.parametrize(
    ("room", "guard", "status"),
    [
        ("nbytes", "<", "clean"),
        ("rows * columns * sizeof(float)", "<", "clean"),
        ("rows * columns * sizeof(float)", "<=", "wrong"),
        ("rows * sizeof(float)", "<", "wrong"),
    ],
)
def test_an_array_of_a_size_that_nothing_else_has_is_as_long_as_is_reached(
    room: str, guard: str, status: str, tmp_path: Path
) -> None:
    (verdict,) = verdicts_on(ALLOCATED.replace("ROOM", room).replace("GUARD", guard), tmp_path)

    assert verdict["status"] == status, verdict
