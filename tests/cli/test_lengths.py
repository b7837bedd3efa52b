"""How long `tilewright check` proposes arrays where a kernel's own accesses say it, and one of them reaches further."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import verdicts_on

BAGS = """
__global__ void bags(const float* values, const int* offsets, float* out, int n, int width) {
    int i = blockIdx.x * blockDim.y + threadIdx.y;
    if (i >= n) return;
    int begin = offsets[i], end = offsets[i + BEHIND];
    for (int d = threadIdx.x; d < width; d += blockDim.x) {
        float sum = 0;
        for (int k = begin; k < end; k++) sum += values[k * width + d];
        out[i * width + d] = sum;
    }
}
void host(const float* values, const int* offsets, float* out, int n, int width) {
    bags<<<(n + 7) / 8, dim3(32, 8)>>>(values, offsets, out, n, width);
}
"""
COUNTED = """
__global__ void counted(const float* values, const int* offsets, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = offsets[i + LAST] - offsets[i + 1] > 3 ? 1 : 0;
    for (int k = offsets[i]; k < offsets[i + 1]; k++) sum += values[k];
    out[i] = sum;
}
void host(const float* values, const int* offsets, float* out, int n) {
    counted<<<(n + 127) / 128, 128>>>(values, offsets, out, n);
}
"""
RESIZED = """
__global__ void resized(const float* in, float* out, int in_w, int in_h, int out_w, int out_h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= out_w || y >= out_h) return;
    float fx = fmaxf((x + 0.5f) * in_w / out_w - 0.5f, 0.f), fy = fmaxf((y + 0.5f) * in_h / out_h - 0.5f, 0.f);
    int x0 = (int)fx, y0 = (int)fy, x1 = min(x0 + 1, in_w - 1);
    int y1 = BELOW;
    float above = in[y0 * in_w + x0] + in[y0 * in_w + x1];
    out[y * out_w + x] = above + in[y1 * in_w + x0];
}
void host(const float* in, float* out, int in_w, int in_h, int out_w, int out_h) {
    dim3 block(16, 16), grid((out_w + 15) / 16, (out_h + 15) / 16);
    resized<<<grid, block>>>(in, out, in_w, in_h, out_w, out_h);
}
"""
TAKEN = """
struct Parts { const float* in; float* out; int rows, width; };
__global__ void halves(Parts p) {
    int n = p.rows * p.width;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i SIGN n; i += gridDim.x * blockDim.x) p.out[i] = p.in[i] / 2;
}
void host(const float* in, float* out, int rows, int width) {
    Parts p;
    p.in = in;
    p.out = out;
    p.rows = rows;
    p.width = width;
    halves<<<(rows * width + 255) / 256, 256>>>(p);
}
"""
BY_FOUR = """
__global__ void rows_of(const float* in, float* out, const int* rows, int n, int width) {
    if (blockIdx.x >= n) return;
    const float* from = in + rows[blockIdx.x] * width;
    float* to = out + blockIdx.x * width;
    int whole = width / 4;
    for (int i = threadIdx.x; i SIGN whole; i += blockDim.x) ((float4*)to)[i] = ((const float4*)from)[i];
    for (int i = 4 * whole + threadIdx.x; i < width; i += blockDim.x) to[i] = from[i];
}
"""
CHANGES = """
__global__ void changes(const int* sorted, int* ends, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (LAST sorted[i] != sorted[i + 1]) ends[i] = i + 1;
}
void host(const int* sorted, int* ends, int n) { changes<<<(n + 255) / 256, 256>>>(sorted, ends, n); }
"""


@pytest.mark.parametrize(
    ("text", "right", "wrong", "line"),
    [
        pytest.param(BAGS, ("BEHIND", "1"), ("BEHIND", "2"), 5, id="two behind, of n + 1"),
        pytest.param(COUNTED, ("LAST", "0"), ("LAST", "2"), 5, id="two behind, beside one behind"),
        pytest.param(RESIZED, ("BELOW", "min(y0 + 1, in_h - 1)"), ("BELOW", "y0 + 1"), 9, id="a clamp is lost"),
        pytest.param(TAKEN, ("SIGN", "<"), ("SIGN", "<="), 5, id="one too many, in a structure"),
        pytest.param(BY_FOUR, ("SIGN", "<"), ("SIGN", "<="), 7, id="one vector too many"),
        pytest.param(CHANGES, ("LAST", "i == n - 1 ||"), ("LAST", ""), 5, id="the last has no neighbour"),
    ],
)
def test_what_is_behind_a_length_that_other_accesses_say_is_told(
    text: str, right: tuple[str, str], wrong: tuple[str, str], line: int, tmp_path: Path
) -> None:
    (clean,) = verdicts_on(text.replace(*right), tmp_path)
    (told,) = verdicts_on(text.replace(*wrong), tmp_path)

    assert clean["status"] == "clean", clean["findings"]
    assert [finding["kind"] for finding in told["findings"]][:1] == ["bounds"]
    assert line in [finding["line"] for finding in told["findings"]]


LONGER = {
    "a window": "out[i] = in[i] + in[i + 1] + in[i + 2];",
    "a part of its own": "out[i] = in[i] + in[n * width + i % width];",
    "a row more": "for (int j = 0; j < width; j++) out[i * width + j] = in[(i + 1) * width + j];",
    "two behind each other": "out[i] = in[i] + in[n + i];",
}


@pytest.mark.parametrize("body", LONGER.values(), ids=LONGER)
def test_an_array_may_be_meant_to_be_longer_than_a_size(body: str, tmp_path: Path) -> None:
    text = """
__global__ void k(const float* in, float* out, int n, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { BODY }
}
void host(const float* in, float* out, int n, int width) { k<<<(n + 127) / 128, 128>>>(in, out, n, width); }
"""
    (verdict,) = verdicts_on(text.replace("BODY", body), tmp_path)

    assert verdict["status"] == "clean", verdict["findings"]


OFFSETS = """
__global__ void first(const float* targets, const int* offsets, float* out, int n, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = offsets[i] > 3 ? 1 / targets[offsets[i]] : 1;
    for (int k = 1; k < width; k++) sum += targets[offsets[i] + k];
    out[i] = sum;
}
void host(const float* targets, const int* offsets, float* out, int n, int width) {
    first<<<(n + 127) / 128, 128>>>(targets, offsets, out, n, width);
}
"""


def test_a_place_that_offsets_of_an_array_lead_to_says_no_length(tmp_path: Path) -> None:
    (verdict,) = verdicts_on(OFFSETS, tmp_path)

    assert verdict["status"] == "clean"
    assert "--arg 'offsets:i32[253]=ramp'" in verdict["proposed"]
