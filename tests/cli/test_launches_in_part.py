"""`tilewright check` of a whole .cu file: arrays that the launches before have set in part."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.test_host_code import checked
from tests.commands import ran

RANGES = """
__global__ void begins(const int* cell, int n, int* first) {
    int i = threadIdx.x;
    if (i < n && (i == 0 || cell[i] != cell[i - 1])) first[cell[i]] = i;
}
__global__ void empties(int* first, int cells) {
    if (threadIdx.x < cells) first[threadIdx.x] = 0;
}
__global__ void read(const int* first, int* out, int cells) {
    if (threadIdx.x < cells) out[threadIdx.x] = first[threadIdx.x] + 1;
}
int main() {
    int cell[64], *c, *f, *o;
    for (int i = 0; i < 64; i++) cell[i] = i / 8 * STEP;
    cudaMalloc(&c, 64 * sizeof(int));
    cudaMalloc(&f, 16 * sizeof(int));
    cudaMalloc(&o, 16 * sizeof(int));
    cudaMemcpy(c, cell, 64 * sizeof(int), cudaMemcpyHostToDevice);
    BEFORE
    begins<<<1, 64>>>(c, 64, f);
    read<<<1, 32>>>(f, o, 16);
    cudaDeviceSynchronize();
}
"""


def ranges(tmp_path: Path, before: str = "", step: int = 2) -> tuple[int, str]:
    return checked(RANGES.replace("BEFORE", before).replace("STEP", str(step)), tmp_path)


def test_the_rest_of_what_a_launch_sets_in_part_is_told_where_it_is_read(tmp_path: Path) -> None:
    code, out = ranges(tmp_path)

    assert code == 1
    assert "k.cu:10: first is set in part by the launches before, and what the rest of it holds decides" in out
    assert "8 of 16 elements that line 20 leaves as they are" in out
    assert "cudaMemset(f, 0, ...) before line 20" in out


@pytest.mark.parametrize("before", ["cudaMemset(f, 0, 16 * sizeof(int));", "empties<<<1, 32>>>(f, 16);", "more(f);"])
def test_what_is_set_before_is_whole(before: str, tmp_path: Path) -> None:
    code, out = ranges(tmp_path, before)

    assert (code, "set in part" in out) == (0, False), out


def test_a_launch_of_numbers_that_nobody_knows_says_nothing_of_the_rest(tmp_path: Path) -> None:
    text = RANGES.replace("cell[i] = i / 8 * STEP", 'fscanf(file, "%d", &cell[i])').replace("BEFORE", "")

    code, out = checked(text, tmp_path)

    assert (code, "set in part" in out) == (0, False), out


def test_contents_of_what_is_no_plain_name_are_those_of_the_host(tmp_path: Path) -> None:
    text = """
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
__global__ void count(const int* x, int* bins) { atomicAdd(&bins[x[threadIdx.x]], 1); }
int main() {
    thrust::host_vector<int> h(64);
    for (int i = 0; i < 64; i++) h[i] = i / 8;
    thrust::device_vector<int> x = h, bins(8, 0);
    count<<<1, 64>>>(thrust::raw_pointer_cast(x.data()), thrust::raw_pointer_cast(bins.data()));
}
"""
    code, out = checked(text, tmp_path)

    assert code == 0, out


@pytest.mark.parametrize(
    ("around", "is_told"), [("{}", True), ("for (int turn = 0; turn < 2; turn++) {}", False), ("{} more();", True)]
)
def test_a_launch_in_a_loop_may_set_the_rest_in_another_turn(around: str, is_told: bool, tmp_path: Path) -> None:
    launch = "begins<<<1, 64>>>(c, 64, f);"
    text = RANGES.replace(launch, around.format(launch))

    _, out = checked(text.replace("BEFORE", "").replace("STEP", "2"), tmp_path)

    assert ("set in part" in out) == is_told, out


REFUSED = """
#include <ATen/cuda/detail/TensorInfo.cuh>
__global__ void strange(at::cuda::detail::TensorInfo<float, int> info) { info.data[threadIdx.x] = 1; }
__global__ void bad(float* x) { x[0] = absent(); }
__global__ void race(float* x) { x[threadIdx.x] = x[63 - threadIdx.x]; }
void run(float* x, int n) {
    bad<<<1, 64>>>(x);
    strange<<<1, 64>>>(info_of(x, n));
    race<<<1, 64>>>(x);
}
"""


def test_a_kernel_that_cannot_be_run_is_refused_alone(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(REFUSED)

    _, out, _ = ran("check", tmp_path / "k.cu", "--json")

    verdicts = {verdict["kernel"]: verdict for verdict in json.loads(out)["verdicts"]}
    assert verdicts["race"]["status"] == "wrong"
    assert verdicts["bad"]["status"] == verdicts["strange"]["status"] == "refused"
    assert verdicts["bad"]["findings"][0]["given"] == 'identifier "absent" is undefined'
