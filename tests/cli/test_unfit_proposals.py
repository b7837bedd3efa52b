"""Proposals that do not fit a kernel: what happens with them is no finding of it, but why it is not judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.commands import verdicts_on

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
