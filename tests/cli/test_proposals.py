"""`tilewright check` of a .cu file that does not say its numbers: what is asked for, and what is proposed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.commands import ran, verdicts_on
from tilewright.cli import main
from tilewright.load import load_cu

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
    code, _, error = ran("check", tmp_path / "k.cu", "--no-propose")
    assert code == 2, error
    return re.findall(r"--\w+ \S+", error[error.index("try:") :])


@pytest.mark.parametrize("text", [ROWS, WINDOWS], ids=["rows", "windows"])
def test_what_is_proposed_leads_to_no_mistake(text: str, tmp_path: Path) -> None:
    options = proposed(text, tmp_path)

    code, out, _ = ran("check", tmp_path / "k.cu", *(word for option in options for word in option.split()))

    assert code == 0, out


def test_a_number_that_follows_from_others_is_not_asked_for(tmp_path: Path) -> None:
    options = proposed(ROWS, tmp_path)

    assert [option for option in options if "size" in option] == ["--size n=128", "--size rows=4"]


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

    assert "--arg begin:i32[1025]=steps(4)" in options
    assert code == 0, out


def test_a_tensor_s_data_decides_the_instance(tmp_path: Path) -> None:
    options = proposed(OF_TENSORS, tmp_path)

    assert "--arg x:f32[" in " ".join(options)


POINTS = """
__global__ void norms(const float* xyz, float* out, int b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    GUARD
    const float* p = xyz + (blockIdx.y * n + i) * 3;
    out[blockIdx.y * n + i] = p[0] * p[0] + p[1] * p[1] + p[2] * p[2];
}
void launcher(const float* xyz, float* out, int b, int n) {
    dim3 grid((n + 127) / 128, b);
    norms<<<grid, 128>>>(xyz, out, b, n);
}
"""
GUARD = "if (i >= n) return;"


def verdict(text: str, tmp_path: Path) -> dict[str, Any]:
    """The only verdict of a file that is checked without any option."""
    (only,) = verdicts_on(text, tmp_path)
    return only


def test_an_array_that_nobody_gives_is_as_long_as_the_kernel_reaches(tmp_path: Path) -> None:
    points = verdict(POINTS.replace("GUARD", GUARD), tmp_path)
    assert points["status"] == "clean", points
    assert {"--size b=64", "--size n=253", f"--arg 'xyz:f32[{64 * 253 * 3}]=random'"} <= {*points["proposed"]}


OTHER = """
__global__ void sums(float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] += 1;
}
"""
WITHOUT = {
    "some accesses": ("", "out[blockIdx.y * n + i] = p[0]", "out[blockIdx.y * n + i] = (i < n ? 1 : 2) + p[0]"),
    "one too many": ("if (i > n) return;", "", ""),
    "in vain": ("", "blockIdx.y * n + i", "blockIdx.y * gridDim.x * 128 + i"),
}


@pytest.mark.parametrize("what", WITHOUT)
def test_a_size_that_host_code_rounds_up_shows_the_missing_guard(what: str, tmp_path: Path) -> None:
    guard, word, instead = WITHOUT[what]
    (tmp_path / "k.cu").write_text(POINTS.replace("GUARD", guard).replace(word or "GUARD", instead))
    code, out, _ = ran("check", tmp_path / "k.cu")

    assert code == 1, out
    assert "k.cu:6: load reads outside of xyz" in out
    assert "proposed, as the text does not say it: --size b=64 --size n=253" in out
    assert "what is outside of an array is so with these sizes" in out


def test_a_kernel_that_compares_a_size_nowhere_gets_a_multiple_and_a_warning(tmp_path: Path) -> None:
    points = verdict(POINTS.replace("GUARD", ""), tmp_path)
    (warning,) = points["findings"]

    assert (points["status"], warning["severity"], warning["line"]) == ("clean", "warning", 6)
    (multiple,) = re.findall(r"--size n=(\d+)", " ".join(points["proposed"]))
    assert int(multiple) % 128 == 0
    needs = f"where n = {int(multiple) - 3}: it needs n to be a multiple of 128, and compares it with nothing"
    assert needs in warning["message"]


def test_a_size_that_another_kernel_guards_is_no_multiple_by_agreement(tmp_path: Path) -> None:
    text = POINTS.replace("GUARD", "").replace(
        "out, b, n);\n}", "out, b, n);\n    sums<<<(n + 127) / 128, 128>>>(out, n);\n}"
    )
    (tmp_path / "k.cu").write_text(OTHER + text)
    code, out, _ = ran("check", tmp_path / "k.cu")

    assert code == 1, out
    assert "norms: wrong" in out
    assert "sums: clean" in out


def test_a_size_that_is_asked_to_be_a_multiple_stays_one(tmp_path: Path) -> None:
    text = POINTS.replace("GUARD", "").replace("dim3 grid", "if (n % 128 != 0) return;\n    dim3 grid")
    assert verdict(text, tmp_path)["status"] == "clean"


TENSORS = """
#include <torch/extension.h>
template <typename scalar_t> __global__ void scale(const scalar_t* x, scalar_t* y, int n, int c) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) for (int k = 0; k < c; k++) y[i * c + k] = 2 * x[i * c + k];
}
torch::Tensor host(torch::Tensor x) {
    const int c = x.size(-1), n = x.numel() / c;
    auto y = torch::empty({n, c}, x.options());
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "scale", ([&] {
        scale<scalar_t><<<(n + 255) / 256, 256>>>(x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), n, c);
    }));
    return y;
}
"""


def test_the_extents_of_tensors_are_proposed_and_those_made_of_them_follow(tmp_path: Path) -> None:
    scaled = verdict(TENSORS, tmp_path)

    assert scaled["status"] == "clean", scaled
    assert "--size 'x.size(1)=64'" in scaled["proposed"]
    assert scaled["inputs"]["y"] == scaled["inputs"]["x"] == "float32 of shape (32576,)"


def test_a_tensor_that_is_too_short_is_told(tmp_path: Path) -> None:
    short = verdict(TENSORS.replace("torch::empty({n, c}", "torch::empty({n}"), tmp_path)
    assert (short["status"], short["findings"][0]["buffer"]) == ("wrong", "y")


def test_continuous_integration_makes_nothing_up(tmp_path: Path, capfd: pytest.CaptureFixture[str],
                                                 monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    (tmp_path / "k.cu").write_text(POINTS.replace("GUARD", ""))
    monkeypatch.setattr("sys.argv", ["tilewright", "ci", str(tmp_path)])
    with pytest.raises(SystemExit):
        main()
    assert "k.cu does not say all that its launches take" in capfd.readouterr().err


SCATTERED = """
__global__ void scatter(const float* x, const int* where, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[where[i]] STORES x[i];
}
void launcher(const float* x, const int* where, float* out, int n) {
    scatter<<<(n + 127) / 128, 128>>>(x, where, out, n);
}
"""


def test_places_that_are_proposed_alike_make_no_race(tmp_path: Path) -> None:
    assert verdict(SCATTERED.replace("STORES", "="), tmp_path)["status"] == "clean"


def test_an_update_without_an_atomic_is_told_all_the_same(tmp_path: Path) -> None:
    assert verdict(SCATTERED.replace("STORES", "+="), tmp_path)["status"] == "wrong"


def test_proposed_ranges_have_elements_and_code_that_is_not_reached_is_told(
    tmp_path: Path,
) -> None:
    sums = verdict(
        SEGMENTS.replace("y[i] = sum;", "y[i] = sum; if (n == 7) for (int k = 0; k < i; k++) y[k] = begin[k];"),
        tmp_path,
    )

    assert sums["status"] == "clean"
    assert any("begin:i32[" in option and "=steps(4)" in option for option in sums["proposed"])
    assert 7 in sums["coverage"]["lines_not_reached"]


TILED = """
#define TILE 64
__global__ void tiles(const float* x, float* y, int n) {
    for (int i = threadIdx.x; i < TILE; i += blockDim.x) y[blockIdx.x * TILE + i] = x[blockIdx.x * TILE + i];
}
void launcher(const float* x, float* y, int n) { tiles<<<(n + TILE - 1) / TILE, 32>>>(x, y, n); }
"""


def test_a_size_that_is_rounded_up_to_tiles_is_a_multiple_of_them(tmp_path: Path) -> None:
    assert verdict(TILED, tmp_path)["status"] == "clean"


def test_a_size_with_which_the_launch_fails_is_not_proposed(tmp_path: Path) -> None:
    text = POINTS.replace("GUARD", GUARD).replace("norms<<<grid, 128>>>", "norms<<<grid, 32 * b>>>")
    assert verdict(text, tmp_path)["status"] == "clean"


def test_shared_memory_that_host_code_does_not_say_is_enough(tmp_path: Path) -> None:
    text = """
__global__ void reversed(const float* x, float* y, int n) {
    extern __shared__ float s[];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}
void launcher(const float* x, float* y, int n) {
    int nbytes = bytes_that_another_file_says(n), room = (n + 31) & ~31;
    reversed<<<1, room, nbytes>>>(x, y, n);
}
"""
    assert verdict(text, tmp_path)["status"] == "clean"


def test_sizes_are_smaller_where_a_run_takes_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.cli.proposing.SECONDS", 1e-6)
    assert "--size b=4" in verdict(POINTS.replace("GUARD", GUARD), tmp_path)["proposed"]


SWITCHED = (
    """
template <int Threads, int Rows, bool Even, typename T> struct Traits {
    using type = T;
    static constexpr int threads = Threads, rows = Rows;
    static constexpr bool even = Even;
};
#define BOOL_SWITCH(COND, NAME, ...)                                     \\
    [&] {                                                                \\
        if (COND) { constexpr bool NAME = true; return __VA_ARGS__(); }  \\
        else { constexpr bool NAME = false; return __VA_ARGS__(); }      \\
    }()
template <typename K> __global__ void scan(float* x, int n) {
    int i = blockIdx.x * K::threads + threadIdx.x;
    if (K::even || i < n) x[i] *= K::rows;
}
template <int Threads, typename T> void launch(T* x, int n) {
    constexpr int kRows = 1;
    BOOL_SWITCH(n % Threads == 0, kEven, [&] {
        using K = Traits<Threads, kRows, kEven, T>;
        auto kernel = &scan<K>;
        kernel<<<(n + Threads - 1) / Threads, Threads>>>(x, n);
    });
}
template <typename T> void run(T* x, int n) { launch<32, T>(x, n); }
template void run<float>(float* x, int n);
""",
    "scan<Traits<32, 1, true, float>>",
)
IN_MACROS = (
    """
template <typename T, int N> __global__ void scan(T* x) { x[threadIdx.x] *= N; }
#define LAUNCH(n)                                      \\
    do {                                               \\
        constexpr int kN = n;                          \\
        scan<T, kN><<<1, 32>>>(x);                     \\
    } while (0)
template <typename T> void run(T* x) { LAUNCH(4); }
template void run<float>(float* x);
""",
    "scan<float, 4>",
)


@pytest.mark.parametrize(("text", "kernel"), [SWITCHED, IN_MACROS], ids=["function", "macro"])
def test_constants_around_a_launch_are_arguments_of_its_template(text: str, kernel: str, tmp_path: Path) -> None:
    scan = verdict(text, tmp_path)

    assert scan["status"] == "clean", scan
    assert kernel in load_cu(tmp_path / "k.cu").kernels


LOCAL = """
__global__ void sums(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float part[4], other[4];
    for (int j = 0; j < 4; ++j) { part[j] = x[i] * j; other[j] = j; }
    float sum = 0;
    for (int j = 0; j <= 4; ++j) sum += part[j];
    y[i] = sum + other[i % 4] * 0;
}
void run(const float* x, float* y, int n) { sums<<<(n + 127) / 128, 128>>>(x, y, n); }
"""


def test_an_access_outside_of_a_local_array_is_told_though_arguments_are_proposed(tmp_path: Path) -> None:
    (finding,) = verdict(LOCAL, tmp_path)["findings"]

    assert (finding["kind"], finding["buffer"], finding["line"]) == ("bounds", "part", 8)


ONE_MORE = """
__global__ void axpy(const float* x, float* y, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    GUARD y[i] = a * x[i] + y[i];
}
void host(const float* x, float* y, float a, int n) { axpy<<<n / 256 + 1, 256>>>(x, y, a, n); }
"""
OFFSETS = """
__global__ void offsets(const int* many, int* begin, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > n) return;
    int sum = 0;
    for (int k = 0; k < i; k++) sum += many[k];
    begin[i] = sum;
}
void host(const int* many, int* begin, int n) { offsets<<<n / 256 + 1, 256>>>(many, begin, n); }
"""


@pytest.mark.parametrize("guard", ["if (i <= n)", "if (i > n) return;", "if (n >= i)", ""])
def test_one_place_more_than_a_size_is_outside_though_the_grid_has_a_cta_more(guard: str, tmp_path: Path) -> None:
    (finding, *_) = verdict(ONE_MORE.replace("GUARD", guard), tmp_path)["findings"]

    assert (finding["kind"], finding["severity"], finding["line"]) == ("bounds", "error", 4)


@pytest.mark.parametrize("text", [
    ONE_MORE.replace("GUARD", "if (i < n)"),
    ONE_MORE.replace("GUARD", "if (i <= n)").replace("void host", "// x and y have n + 1 elements\nvoid host"),
    OFFSETS,
])  # fmt: skip
def test_where_one_more_may_be_meant_it_is_right(text: str, tmp_path: Path) -> None:
    assert verdict(text, tmp_path)["status"] == "clean"


TURNED = """
__global__ void turned(const float* in, float* out, int w, int h) {
    __shared__ float tile[16][17];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x < w && y < h) tile[threadIdx.y][threadIdx.x] = in[y * w + x];
    __syncthreads();
    x = blockIdx.y * 16 + threadIdx.x, y = blockIdx.x * 16 + threadIdx.y;
    if (GUARD) out[y * h + x] = tile[threadIdx.x][threadIdx.y];
}
void host(const float* in, float* out, int w, int h) {
    turned<<<dim3((w + 15) / 16, (h + 15) / 16), dim3(16, 16)>>>(in, out, w, h);
}
"""
FLAT = """
__global__ void doubled(const float* x, float* y, int64_t rows, int64_t cols) {
    int64_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (GUARD) y[i] = 2 * x[i];
}
torch::Tensor host(torch::Tensor x) {
    auto y = torch::empty_like(x);
    auto rows = x.size(0), cols = x.size(1);
    doubled<<<(rows * cols + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, cols);
    return y;
}
"""


@pytest.mark.parametrize(("text", "right", "wrong"), [
    (TURNED, "x < h && y < w", "x < w && y < h"), (FLAT, "i < rows * cols", "i <= rows * cols"),
], ids=["one axis for the other", "a product of sizes"])  # fmt: skip
def test_sizes_differ_and_their_products_are_no_multiples(text: str, right: str, wrong: str, tmp_path: Path) -> None:
    assert verdict(text.replace("GUARD", right), tmp_path)["status"] == "clean"
    assert verdict(text.replace("GUARD", wrong), tmp_path)["status"] == "wrong"


RARE = """
__global__ void marked(const float* x, const float* y, int* rare, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (GUARD && fabsf(x[i] - y[i]) < 0.01f) rare[i] = 1;
}
void host(const float* x, const float* y, int* rare, int n) { marked<<<(n + 127) / 128, 128>>>(x, y, rare, n); }
"""


def test_an_array_that_numbers_reach_by_chance_has_room_for_others(tmp_path: Path) -> None:
    assert verdict(RARE.replace("GUARD", "i < n"), tmp_path)["status"] == "clean"


def test_where_every_run_goes_too_far_it_is_told(tmp_path: Path) -> None:
    found = verdict(RARE.replace("GUARD", "i <= n"), tmp_path)

    assert found["status"] == "wrong"
    assert found["findings"][0]["buffer"] in ("x", "y")


ALONE = """
template <typename T>
__global__ void sums(const T* x, T* y, int rows, int n) {
    __shared__ T part[64];
    int row = blockIdx.x;
    T sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[row * n + i];
    part[threadIdx.x] = sum;
    __syncthreads();  // all parts
    for (int s = 32; s > 0; s /= 2) {
        if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
        __syncthreads();
    }
    if (row < rows && threadIdx.x == 0) y[row] = part[0];
}
__global__ void scaled(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
__global__ void tiled(const float* x, float* y, int n) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    y[row * n + column] = x[column * n + row];
}
"""


@pytest.mark.parametrize(
    ("kernel", "change", "line"),
    [
        ("scaled", ("", ""), None),
        ("scaled", ("i < n", "i <= n"), 18),
        ("tiled", ("", ""), None),
    ],
)
def test_a_kernel_that_nothing_launches_is_launched_as_its_guards_say(
    kernel: str, change: tuple[str, str], line: int | None, tmp_path: Path
) -> None:
    text = ALONE.replace(*change) if change[0] else ALONE
    (verdict,) = [verdict for verdict in verdicts_on(text, tmp_path) if verdict["kernel"] == kernel]

    errors = [finding["line"] for finding in verdict["findings"] if finding["severity"] == "error"]
    assert errors[:1] == [line] * bool(line)


@pytest.mark.parametrize("is_right", [True, False])
def test_a_template_alone_in_its_file_is_judged_in_an_instance(is_right: bool, tmp_path: Path) -> None:
    text = ALONE.partition("__global__ void scaled")[0]
    (tmp_path / "k.cu").write_text(text if is_right else text.replace("__syncthreads();  // all parts", ""))

    code, out, error = ran("check", tmp_path / "k.cu")

    assert (code, "race: load reads part" in out) == ((0, False) if is_right else (1, True))
    assert "block (64, 1, 1)" in error
    assert "a launch is proposed" in error


def test_a_launch_that_nothing_says_is_asked_for_where_nothing_is_proposed(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(ALONE)
    code, _, error = ran("check", tmp_path / "k.cu", "--kernel", "scaled", "--no-propose")

    assert code == 2
    assert "scaled is not launched" in error
    assert "--grid 4 --block 256" in error


COUNTS = """
__global__ void counts(const int* ids, int* many, int n, int vocabulary) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && ids[i] >= 0 && ids[i] < vocabulary) atomicAdd(&many[ids[i]], 1);
}
"""
CAUSAL = """
#define BLOCK 128
__global__ void causal(const float* x, const float* w, float* y, int n) {
    __shared__ float tile[BLOCK + 3];
    int i = blockIdx.x * BLOCK + threadIdx.x, t = threadIdx.x;
    if (t < 3) tile[t] = i >= 3 && i - 3 < n ? x[i - 3] : 0.f;
    tile[t + 3] = i < n ? x[i] : 0.f;
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < 4; k++) sum += w[k] * tile[t + k];
    if (i < n) y[i] = sum;
}
"""


@pytest.mark.parametrize(("text", "right", "wrong", "kind"), [
    (COUNTS, "atomicAdd(&many[ids[i]], 1)", "many[ids[i]] += 1", "races"),
    (CAUSAL, "i >= 3 && i - 3 < n", "i - 3 < n", "bounds"),
], ids=["equal numbers in an array", "in front of an array"])  # fmt: skip
def test_what_longer_arrays_and_other_numbers_do_not_mend_is_told(
    text: str, right: str, wrong: str, kind: str, tmp_path: Path
) -> None:
    assert verdict(text, tmp_path)["status"] == "clean"

    told = verdict(text.replace(right, wrong), tmp_path)
    assert (told["status"], told["findings"][0]["kind"]) == ("wrong", kind)


HALVES = """
__global__ void halves(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.y == 0) x[i] = x[i + n / 2];
}
void host(float* x, int n, int rows) { halves<<<n / 32 / 2, dim3(32, rows)>>>(x, n); }
"""


def test_threads_alone_are_fewer_where_a_gpu_takes_not_so_many(tmp_path: Path) -> None:
    """With one number for all sizes there is no CTA, or there are too many threads."""
    points = verdict(HALVES, tmp_path)

    assert points["status"] == "clean", points["findings"]
    assert "--size rows=32" in points["proposed"]


POINTERS = """
__global__ void copies(const float* const* from, float** to, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[blockIdx.y][i] = from[blockIdx.y][i];
}
"""


def test_lists_of_pointers_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(POINTERS)
    code, _, error = ran("check", tmp_path / "k.cu")
    assert code == 2
    assert "copies takes addresses from from" in error
    assert "--arg 'from={f32[1024], f32[1024]}'" in error

    lists = "--arg", "from={f32[64]=random, f32[64]=random}", "--arg", "to={f32[64], f32[64]}", "--arg", "n=64"
    assert ran("check", tmp_path / "k.cu", "--grid", "1,2", "--block", "128", *lists)[0] == 0


GROUPS = """
#define GROUP 128
__global__ void scales(const float* x, float* y, int rows, int columns) {
    int row = blockIdx.x;
    if (row >= rows) return;
    for (int g = 0; g < columns / GROUP; g++) {
        __shared__ float most[GROUP];
        most[threadIdx.x] = fabsf(x[row * columns + g * GROUP + threadIdx.x]);
        __syncthreads();
        for (int s = GROUP / 2; s > 0; s /= 2) {
            if (threadIdx.x < s) most[threadIdx.x] = fmaxf(most[threadIdx.x], most[threadIdx.x + s]);
            __syncthreads();
        }
        if (threadIdx.x == 1) y[row * (columns / GROUP) + g] = most[0];
        __syncthreads();  // before the next group
    }
}
"""


@pytest.mark.parametrize("barrier", ["__syncthreads();  // before the next group", ""])
def test_sizes_are_larger_where_small_ones_reach_little(barrier: str, tmp_path: Path) -> None:
    """A row of 64 columns has no whole group, and nothing would run; the next group is written before all have read."""
    points = verdict(GROUPS.replace("__syncthreads();  // before the next group", barrier), tmp_path)

    assert "--size columns=256" in points["proposed"]
    assert points["status"] == ("clean" if barrier else "wrong")


STRIDES = """
__global__ void scaled(float* x, float a, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) x[i] *= a;
}
"""


@pytest.mark.parametrize("is_right", [True, False])
def test_a_loop_over_all_ctas_that_takes_one_place_more_is_told(is_right: bool, tmp_path: Path) -> None:
    points = verdict(STRIDES if is_right else STRIDES.replace("i < n", "i <= n"), tmp_path)

    assert points["status"] == ("clean" if is_right else "wrong")


LESS_A_WINDOW = """
__global__ void blocks(const float* x, float* y, int across) { y[blockIdx.y * across + blockIdx.x] = x[blockIdx.x]; }
void host(const float* x, float* y, int stride, int height, int width) {
    int across = (width - 16 + stride) / stride, down = (height - 16 + 4) / 4;
    blocks<<<dim3(across, down), 1>>>(x, y, across);
}
"""


def test_sizes_of_an_image_less_a_window_leave_a_grid(tmp_path: Path) -> None:
    (verdict,) = verdicts_on(LESS_A_WINDOW, tmp_path)

    assert verdict["status"] == "clean"
