"""`tilewright check` of a kernel whose variables the first launch leaves otherwise, with sizes that are proposed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import verdicts_on

TOTAL = """
__device__ unsigned int arrived = 0;
__global__ void total(const float* x, float* part, float* out, int n) {
    __shared__ float sum;
    __shared__ bool is_last;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&sum, x[i]);
    __syncthreads();
    if (threadIdx.x == 0) {
        part[blockIdx.x] = sum;
        __threadfence();
        is_last = COUNT == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (is_last && threadIdx.x == 0) {
        float all = 0;
        for (int k = 0; k < gridDim.x; k++) all += part[k];
        *out = all;
        LAST
    }
}
torch::Tensor host(torch::Tensor x) {
    int n = x.numel(), blocks = (n + 127) / 128;
    auto part = torch::empty({blocks}, x.options());
    auto out = torch::empty({1}, x.options());
    total<<<blocks, 128>>>(x.data_ptr<float>(), part.data_ptr<float>(), out.data_ptr<float>(), n);
    return out;
}
"""
ADD = "atomicAdd(&arrived, 1u)"
WRAP = "atomicInc(&arrived, gridDim.x - 1)"


def status(tmp_path: Path, count: str, last: str = "") -> tuple[str, list[str]]:
    text = TOTAL.replace("COUNT", count).replace("LAST", last)
    one = next(each for each in verdicts_on(text, tmp_path) if each["kernel"] == "total")
    return one["status"], [each["severity"] for each in one["findings"] if "comes again" in each["message"]]


@pytest.mark.parametrize(("count", "last"), [(ADD, ""), ("atomicInc(&arrived, gridDim.x)", "")])
def test_a_counter_that_nothing_can_set_back_is_wrong(count: str, last: str, tmp_path: Path) -> None:
    assert status(tmp_path, count, last) == ("wrong", ["error"])


@pytest.mark.parametrize(("count", "last"), [(ADD, "arrived = 0;"), (WRAP, "")])
def test_a_counter_that_the_kernel_sets_back_is_right(count: str, last: str, tmp_path: Path) -> None:
    assert status(tmp_path, count, last) == ("clean", [])


def test_a_counter_that_another_part_of_the_text_sets_is_a_warning(tmp_path: Path) -> None:
    _, severities = status(tmp_path, ADD, "if (n == 12345) arrived = 0;")

    assert severities == ["warning"]
