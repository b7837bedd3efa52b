"""`tilewright check` of host code whose launches may begin early, where sizes and arrays are proposed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.commands import ran, verdicts_on

WAIT = 'asm volatile("griddepcontrol.wait;" ::: "memory");'
KERNELS = """
__global__ void scales(const float* in, float* scale, int cols) {
    FIRST
    if (threadIdx.x == 0) scale[blockIdx.x] = in[blockIdx.x * cols] + 1;
    asm volatile("griddepcontrol.launch_dependents;");
}
__global__ void divide(const float* in, const float* by, const float* bias, float* out, int cols) {
    float add = bias[threadIdx.x];
    BEFORE
    WAIT
    float s = by[blockIdx.x];
    int i = blockIdx.x * cols + threadIdx.x;
    if (threadIdx.x < cols) out[i] = in[i] / s + add;
}
"""
PLAIN = """
void rows_divided(const float* in, float* tmp, const float* bias, float* out, int rows, int cols, cudaStream_t stream) {
    scales<<<rows, 64, 0, stream>>>(in, tmp, cols);
    divide<<<rows, 64, 0, stream>>>(in, tmp, bias, out, cols);
}
"""
HELPER = """
template <typename... Params, typename... Args>
void launch_early(void (*kernel)(Params...), int grid, int block, cudaStream_t stream, Args... args) {
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.stream = stream;
    cudaLaunchAttribute attributes[1];
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = 1;
    config.attrs = attributes;
    config.numAttrs = 1;
    cudaLaunchKernelEx(&config, kernel, args...);
}
void rows_divided(const float* in, float* tmp, const float* bias, float* out, int rows, int cols, cudaStream_t stream) {
    launch_early(scales, rows, 64, stream, in, tmp, cols);
    launch_early(divide, rows, 64, stream, in, tmp, bias, out, cols);
}
"""
EITHER = """
void rows_divided(const float* in, float* tmp, const float* bias, float* out, int rows, int cols, bool again) {
    if (again) {
        scales<<<rows, 64>>>(in, tmp, cols);
        return;
    }
    divide<<<rows, 64>>>(in, tmp, bias, out, cols);
}
"""
EARLY = "float t = by[blockIdx.x]; if (t == 1234.5f) add = 0;"


def told(tmp_path: Path, host: str, before: str, first: str = WAIT) -> dict[str, list[dict[str, Any]]]:
    text = (KERNELS + host).replace("FIRST", first).replace("BEFORE", before).replace("WAIT", WAIT)
    every = verdicts_on(text, tmp_path)
    return {each["kernel"]: [found for found in each["findings"] if found["severity"] == "error"] for each in every}


@pytest.mark.parametrize("host", [PLAIN, HELPER], ids=["plain", "helper"])
def test_what_the_launch_before_writes_is_read_too_early(host: str, tmp_path: Path) -> None:
    (one,) = told(tmp_path, host, EARLY)["divide"]

    assert one["line"] == 9
    assert "which the launch before, scales, may still have to write" in one["message"]


@pytest.mark.parametrize("host", [PLAIN, HELPER], ids=["plain", "helper"])
def test_behind_the_wait_it_is_right_and_so_is_what_no_launch_writes(host: str, tmp_path: Path) -> None:
    assert not any(told(tmp_path, host, "").values())


def test_a_launch_is_not_behind_that_of_another_branch(tmp_path: Path) -> None:
    assert not any(told(tmp_path, EITHER, EARLY).values())


def test_the_launch_behind_a_wrong_one_is_told_too(tmp_path: Path) -> None:
    findings = told(tmp_path, HELPER, EARLY, first="")

    assert [bool(found) for found in findings.values()] == [True, True]


def test_the_report_says_in_which_order(tmp_path: Path) -> None:
    file = tmp_path / "k.cu"
    file.write_text((KERNELS + PLAIN).replace("FIRST", WAIT).replace("BEFORE", EARLY).replace("WAIT", WAIT))

    code, out, _ = ran("check", file)

    assert code == 1
    assert "divide: wrong, launched in order: lines 17, 18" in out
