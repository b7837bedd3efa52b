"""`tilewright check` of a .cu file that does not say its numbers: what is asked for, and what is proposed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.test_check import run

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


def proposed(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    (tmp_path / "k.cu").write_text(text)
    code, _, error = run(monkeypatch, tmp_path / "k.cu")
    assert code == 2, error
    return re.findall(r"--\w+ \S+", error[error.index("try:") :])


@pytest.mark.parametrize("text", [ROWS, WINDOWS], ids=["rows", "windows"])
def test_what_is_proposed_leads_to_no_mistake(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = proposed(text, tmp_path, monkeypatch)

    code, out, _ = run(monkeypatch, tmp_path / "k.cu", *(word for option in options for word in option.split()))

    assert code == 0, out


def test_a_number_that_follows_from_others_is_not_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = proposed(ROWS, tmp_path, monkeypatch)

    assert [option for option in options if "size" in option] == ["--size n=64", "--size rows=4"]


def test_a_window_is_small_and_its_steps_are_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = proposed(WINDOWS, tmp_path, monkeypatch)

    assert {"--size ksize=3", "--size pad=1", "--size stride=1", "--size height=64"} <= {*options}
