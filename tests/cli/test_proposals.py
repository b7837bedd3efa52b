"""`tilewright check` of a .cu file that does not say its numbers: what is asked for, and what is proposed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.commands import ran

ROWS = """
__global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * n + threadIdx.x;
    if (threadIdx.x < n) y[i] = 2 * x[i];
}
void host(const float* x, float* y, int n, int rows) {
    int threads = 32;
    while (threads < n && threads < 1024) threads *= 2;
    twice<<<rows, threads>>>(x, y, n);
}
"""
WINDOWS = """
__global__ void columns(int n, const float* image, int height, int width, int ksize, int pad, int stride, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x = i % width * stride - pad, y = i / width % height * stride - pad, channel = i / width / height;
    for (int k = 0; k < ksize * ksize; k++) {
        int h = y + k / ksize, w = x + k % ksize;
        bool is_inside = h >= 0 && w >= 0 && h < height && w < width;
        out[(channel * ksize * ksize + k) * width * height + i % (width * height)]
            = is_inside ? image[(channel * height + h) * width + w] : 0;
    }
}
void host(float* image, int channels, int height, int width, int ksize, int pad, int stride, float* out) {
    int n = channels * height * width;
    columns<<<(n + 255) / 256, 256>>>(n, image, height, width, ksize, pad, stride, out);
}
"""


def proposed(text: str, tmp_path: Path) -> list[str]:
    (tmp_path / "k.cu").write_text(text)
    code, _, error = ran("check", tmp_path / "k.cu")
    assert code == 2, error
    return re.findall(r"--\w+ \S+", error[error.index("try:") :])


@pytest.mark.parametrize("text", [ROWS, WINDOWS], ids=["rows", "windows"])
def test_what_is_proposed_leads_to_no_mistake(text: str, tmp_path: Path) -> None:
    options = proposed(text, tmp_path)

    code, out, _ = ran("check", tmp_path / "k.cu", *(word for option in options for word in option.split()))

    assert code == 0, out


def test_a_number_that_follows_from_others_is_not_asked_for(tmp_path: Path) -> None:
    options = proposed(ROWS, tmp_path)

    assert [option for option in options if "size" in option] == ["--size n=64", "--size rows=4"]


def test_a_window_is_small_and_its_steps_are_1(tmp_path: Path) -> None:
    options = proposed(WINDOWS, tmp_path)

    assert {"--size ksize=3", "--size pad=1", "--size stride=1", "--size height=64"} <= {*options}


SEGMENTS = """
__global__ void sums(const float* x, const int* begin, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    for (int k = begin[i]; k < begin[i + 1]; k++) sum += x[k];
    y[i] = sum;
}
void host(const float* x, const int* begin, float* y, int n) { sums<<<(n + 127) / 128, 128>>>(x, begin, y, n); }
"""
OF_TENSORS = """
template <typename scalar_t> __global__ void twice(const scalar_t* x, scalar_t* y, int n) {
    if (threadIdx.x < n) y[threadIdx.x] = 2 * x[threadIdx.x];
}
void host(torch::Tensor x, torch::Tensor y) {
    AT_DISPATCH_FLOATING_TYPES(x.type(), "twice", ([&] {
        twice<<<1, 128>>>(x.data<scalar_t>(), y.data<scalar_t>(), x.size(0));
    }));
}
"""


def test_the_begins_of_ranges_are_one_more_and_grow(tmp_path: Path) -> None:
    options = proposed(SEGMENTS, tmp_path)
    code, out, _ = ran("check", tmp_path / "k.cu", *(word for option in options for word in option.split()))

    assert "--arg begin:i32[1025]=ramp" in options
    assert code == 0, out


def test_a_tensor_s_data_decides_the_instance(tmp_path: Path) -> None:
    options = proposed(OF_TENSORS, tmp_path)

    assert "--arg x:f32[" in " ".join(options)
