"""Strides that nobody gives: rows that do not meet, so that no race is told which no caller has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.commands import verdicts_on

# Rows of two planes by their strides, as arguments of their own or as fields of a structure.
PLAIN = """
__global__ void scaled(const float* x, float* y, int n, int sr, int sp, int dr, int dp) {
    int i = threadIdx.x, r = blockIdx.x, p = blockIdx.y;
    if (i < n) y[p * dp + r * dr + TO] = 2 * x[p * sp + r * sr + i];
}
void host(const float* x, float* y, int n, int rows, int planes, int sr, int sp, int dr, int dp) {
    scaled<<<dim3(rows, planes), 128>>>(x, y, n, sr, sp, dr, dp);
}
"""
BYTES = """
__global__ void scaled(const char* x, char* y, int n, long nb0, long nb1, long mb0, long mb1) {
    int i = threadIdx.x, r = blockIdx.x;
    if (i < n) *(float*)(y + r * mb1 + TO * mb0) = 2 * *(const float*)(x + r * nb1 + i * nb0);
}
void host(const char* x, char* y, int n, int rows, long nb0, long nb1, long mb0, long mb1) {
    scaled<<<rows, 128>>>(x, y, n, nb0, nb1, mb0, mb1);
}
"""
IN_A_LOOP = """
__global__ void sums(const float* x, float* y, int nb1, int nb2, int many) {
    const float* from = (const float*)((const char*)x + blockIdx.x * nb2) + blockIdx.y * 64;
    float* to = (float*)((char*)y + blockIdx.x * nb2) + blockIdx.y * 64;
    int i = threadIdx.x, stride = nb1 / sizeof(float);
    float sum = 0;
    for (int row = 0; row < many; row++) to[row * stride + TO] = sum += from[row * stride + i];
}
void host(const float* x, float* y, int nb1, int nb2, int many, int blocks, int width) {
    sums<<<dim3(blocks, width / 64), 64>>>(x, y, nb1, nb2, many);
}
"""
FIELDS = """
struct Params { const float* x; float* y; int n, rows; long x_row, y_row; };
__global__ void scaled(Params p) {
    int i = threadIdx.x;
    if (i < p.n) p.y[blockIdx.x * p.y_row + TO] = 2 * p.x[blockIdx.x * p.x_row + i];
}
void host(const Params& p, int rows) { scaled<<<rows, 128>>>(p); }
"""
TABLE = """
struct Shape { int extents[4]; };
__global__ void ones(float* y, Shape shape, int dim) {
    if (threadIdx.x < shape.extents[dim]) y[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}
void host(float* y, const Shape& shape, int dim, int n) { ones<<<n, 128>>>(y, shape, dim); }
"""


def verdict(text: str, tmp_path: Path) -> dict[str, Any]:
    """The only verdict of a file that is checked without any option."""
    (only,) = verdicts_on(text, tmp_path)
    return only


@pytest.mark.parametrize("text", [PLAIN, BYTES, IN_A_LOOP, FIELDS], ids=["plain", "bytes", "in a loop", "fields"])
def test_rows_do_not_meet(text: str, tmp_path: Path) -> None:
    found = verdict(text.replace("TO", "i"), tmp_path)

    assert found["status"] == "clean", found


@pytest.mark.parametrize("text", [PLAIN, IN_A_LOOP, FIELDS], ids=["plain", "in a loop", "fields"])
def test_threads_of_a_row_that_write_to_one_place_are_told(text: str, tmp_path: Path) -> None:
    found = verdict(text.replace("TO", "i / 2"), tmp_path)

    assert [finding["kind"] for finding in found["findings"]][:1] == ["races"]


def test_strides_are_told_with_what_is_proposed(tmp_path: Path) -> None:
    proposed = " ".join(verdict(PLAIN.replace("TO", "i"), tmp_path)["proposed"])
    sizes = {name: int(value) for name, value in re.findall(r"--size (\w+)=(\d+)", proposed)}

    assert sizes["sr"] >= sizes["n"]
    assert sizes["sp"] >= sizes["rows"] * sizes["sr"]
    assert sizes["dp"] >= sizes["rows"] * sizes["dr"]


def test_an_index_of_a_small_array_is_within_it(tmp_path: Path) -> None:
    assert verdict(TABLE, tmp_path)["status"] == "clean"
