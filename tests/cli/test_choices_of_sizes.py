"""What `tilewright check` proposes for numbers that are no extents: axes and modes, and counts that divide others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import verdicts_on

ALONG = """
__global__ void sums(const float* x, float* out, int rows, int cols, int along) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (along == 1) {
        if (i >= rows) return;
        for (int k = 1; k < cols; k++) out[i * cols + k] = x[i * cols + k] + x[i * cols + k - 1];
    } else {
        if (i >= cols) return;
        for (int k = 1; k < rows; k++) out[k * cols + i] = x[k * cols + i] + USED;
    }
}
void host(const float* x, float* out, int rows, int cols, int along) {
    sums<<<((along == 1 ? rows : cols) + 127) / 128, 128>>>(x, out, rows, cols, along);
}
"""
CHANNELS = """
__global__ void mixed(const float* x, float* out, int n, int channels, int groups, int side) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i GUARD n * channels * side) return;
    int c = i / side % channels, b = i / side / channels, many = channels / groups;
    out[(b * channels + c % many * groups + c / many) * side + i % side] = x[i];
}
void host(const float* x, float* out, int n, int channels, int groups, int side) {
    mixed<<<(n * channels * side + 255) / 256, 256>>>(x, out, n, channels, groups, side);
}
"""


def sizes(text: str, tmp_path: Path) -> tuple[str, dict[str, int]]:
    (one,) = verdicts_on(text, tmp_path)
    said = [option.split()[1].strip("'").split("=") for option in one["proposed"] if option.startswith("--size")]
    return one["status"], {name: int(value) for name, value in said}


@pytest.mark.parametrize(("used", "along"), [("x[i]", 1), ("along", 64)])
def test_a_number_that_is_only_compared_with_constants_is_one_of_these(used: str, along: int, tmp_path: Path) -> None:
    assert sizes(ALONG.replace("USED", used), tmp_path)[1]["along"] == along


def test_groups_divide_what_they_are_of_and_other_sizes_are_odd(tmp_path: Path) -> None:
    status, numbers = sizes(CHANNELS.replace("GUARD", ">="), tmp_path)

    assert status == "clean"
    assert (numbers["groups"], numbers["channels"] % numbers["groups"]) == (4, 0)
    assert numbers["n"] * numbers["channels"] * numbers["side"] % 256


def test_one_too_many_of_a_product_is_told(tmp_path: Path) -> None:
    assert sizes(CHANNELS.replace("GUARD", ">"), tmp_path)[0] == "wrong"


ROWS = """
__device__ float most(float v) {
    for (int step = 16; step > 0; step /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, step));
    return v;
}
__global__ void maxima(const float* x, float* out, int rows, int cols) {
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    float v = 0;
    for (int c = threadIdx.x; c < cols; c += 32) TURN
    v = most(v);
    if (threadIdx.x == 0) out[row] = v;
}
void host(const float* x, float* out, int rows, int cols) {
    CHECK
    maxima<<<(rows + 3) / 4, dim3(32, 4)>>>(x, out, rows, cols);
}
"""
IN_TURNS = "v = most(fmaxf(v, x[row * cols + c]));"


@pytest.mark.parametrize(
    ("turn", "check", "many"),
    [
        (IN_TURNS, "", 1),
        ("v = fmaxf(v, x[row * cols + c]);", "", 0),
        (IN_TURNS, "if (cols % 32 != 0) return;", 0),  # it is meant for multiples, and says so
    ],
)
def test_lanes_that_do_not_meet_in_the_last_turn_are_a_warning(
    turn: str, check: str, many: int, tmp_path: Path
) -> None:
    (one,) = verdicts_on(ROWS.replace("TURN", turn).replace("CHECK", check), tmp_path)

    warnings = [each["message"] for each in one["findings"] if "where cols = 61, not 64" in each["message"]]
    assert (one["status"], len(warnings)) == ("clean", many)


HANDED = """
#include <torch/extension.h>
__global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i GUARD n) y[i] = 2 * x[i];
}
template <typename Kernel, typename... Args>
void launch(Kernel kernel, dim3 grid, dim3 block, cudaStream_t stream, Args... args) {
    kernel<<<grid, block, 0, stream>>>(args...);
}
void host(torch::Tensor x, torch::Tensor y) {
    int n = x.numel();
    launch(twice, dim3((n + 127) / 128), dim3(128), 0, x.data_ptr<float>(), y.data_ptr<float>(), n);
}
void launcher(const float* x, float* y, int n) { twice<<<(n + 127) / 128, 128>>>(x, y, n); }
"""


@pytest.mark.parametrize(("guard", "status"), [("<", "clean"), ("<=", "wrong")])
def test_the_extents_of_a_kernel_that_is_handed_on_follow_from_its_caller_s_sizes(
    guard: str, status: str, tmp_path: Path
) -> None:
    found, numbers = sizes(HANDED.replace("GUARD", guard), tmp_path)

    assert (found, numbers) == (status, {"x.size(0)": 1021})


def test_a_function_that_launches_a_kernel_itself_has_sizes_of_its_own(tmp_path: Path) -> None:
    text = HANDED.replace("GUARD", "<")
    start = text.index("template"), text.index("void launcher")
    text = text[: start[0]] + text[start[1] :] + "void host(float* a, float* b, int m) { launcher(a, b, 2 * m); }"

    assert sizes(text, tmp_path) == ("clean", {"n": 1021})
