"""Where a barrier is missing: in the function that makes both accesses, and not beside one that stands in a branch."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw

HELPERS = """
__device__ void put(float* s, const float* x) {
    s[threadIdx.x] = *x;
}
__device__ float pick(const float* s) {
    return s[63 - threadIdx.x];
}
"""


def hint(body: str) -> str:
    text = f"{HELPERS}__global__ void k(const float* x, float* y, int n) {{\n    __shared__ float s[64];\n{body}\n}}\n"
    found = tw.check(tw.load_cu(text)["k"], np.zeros(64, np.float32), np.zeros(64, np.float32), 2, grid=1, block=64)
    return str(found.findings[0].hint)


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ("put(s, x);\n y[threadIdx.x] = pick(s);", "__syncthreads() between line 10 and line 11"),
        ("s[threadIdx.x] = *x;\n y[threadIdx.x] = pick(s);", "__syncthreads() between line 10 and line 11"),
        ("put(s, x);\n y[threadIdx.x] = s[63 - threadIdx.x];", "__syncthreads() between line 10 and line 11"),
        (
            "for (int i = 0; i < n; i++) {\n s[threadIdx.x] = x[i];\n __syncthreads();\n y[threadIdx.x] += pick(s);\n}",
            "__syncthreads() behind line 13, at the end of each turn of the loop at line 10",
        ),
    ],
)
def test_a_barrier_of_two_functions_belongs_where_both_are_called(body: str, where: str) -> None:
    assert hint(body) == where


@pytest.mark.parametrize("condition", ["n > 9", "n > 9 && threadIdx.x < 128"])
def test_a_barrier_in_a_branch_is_named(condition: str) -> None:
    body = f"s[threadIdx.x] = *x;\n if ({condition}) {{\n __syncthreads();\n y[0] = 1; }}\n y[threadIdx.x] = pick(s);"

    assert hint(body.replace("pick(s)", "s[63 - threadIdx.x]")) == (
        "__syncthreads() outside of the `if` of line 11, in which that of line 12 stands"
    )


def test_a_barrier_between_two_lines_of_a_function_is_said_by_these() -> None:
    body = "s[threadIdx.x] = *x;\n y[threadIdx.x] = s[63 - threadIdx.x];"

    assert hint(body) == "__syncthreads() between line 10 and line 11"


def test_a_function_that_a_loop_calls_gets_its_barrier_in_the_loop() -> None:
    text = """
__device__ float total(float v, float* part) {
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    return part[0] + part[1];
}
__global__ void k(const float* x, float* y, int n) {
    __shared__ float part[2];
    for (int i = 0; i < n; i++) {
        y[threadIdx.x] += total(x[i], part);
    }
}
"""
    found = tw.check(tw.load_cu(text)["k"], np.zeros(64, np.float32), np.zeros(64, np.float32), 2, grid=1, block=64)

    assert found.findings[0].hint == "__syncthreads() behind line 10, at the end of each turn of the loop at line 9"
