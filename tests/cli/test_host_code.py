"""`tilewright check` of a whole .cu file: what its host code lacks around a launch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import ran

HISTOGRAM = """
__global__ void histogram(const unsigned char* data, int n, unsigned* bins) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&bins[data[i]], 1u);
}
int main() {
    unsigned char* d;
    unsigned* b;
    cudaMalloc(&d, 256);
    cudaMalloc(&b, 256 * sizeof(unsigned));
    cudaMemcpy(d, h, 256, cudaMemcpyHostToDevice);
    BEFORE
    LOOP histogram<<<4, 64>>>(d, 256, b);
    cudaMemcpy(out, b, 1024, cudaMemcpyDeviceToHost);
}
"""
CLEARED = "cudaMemset(b, 0, 256 * sizeof(unsigned));"
LOOP = "for (int i = 0; i < 10; ++i)"
WORKERS = """
__global__ void worker(const float* x, float* y, int n, int* next) {
    __shared__ int tile;
    for (;;) {
        if (threadIdx.x == 0) tile = atomicAdd(next, 1);
        __syncthreads();
        int i = tile * 32 + threadIdx.x;
        __syncthreads();
        if (i - threadIdx.x >= n) break;
        if (i < n) y[i] = 2 * x[i];
    }
    END
}
int main() {
    float *x, *y;
    int* next;
    cudaMalloc(&x, 400);
    cudaMalloc(&y, 400);
    cudaMalloc(&next, 4);
    cudaMemcpy(x, h, 400, cudaMemcpyHostToDevice);
    cudaMemset(next, 0, 4);
    for (int i = 0; i < 10; ++i) {
        BEFORE
        worker<<<2, 32>>>(x, y, 100, next);
    }
}
"""


def checked(text: str, tmp_path: Path, *options: str) -> tuple[int, str]:
    (tmp_path / "k.cu").write_text(text)
    code, out, _ = ran("check", tmp_path / "k.cu", *options)
    return code, out


@pytest.mark.parametrize("options", [(), ("--sequence",)])
def test_a_histogram_that_nobody_clears_is_told(options: tuple[str, ...], tmp_path: Path) -> None:
    text = HISTOGRAM.replace("LOOP", "")

    code, out = checked(text.replace("BEFORE", ""), tmp_path, *options)
    cleared, _ = checked(text.replace("BEFORE", CLEARED), tmp_path, *options)

    assert (code, cleared) == (1, 0)
    assert "k.cu:4: bins is not set before the launch, and what it holds decides the results [poison]" in out
    assert "allocated in line 10, launched in line 13" in out
    assert "try:     cudaMemset(b, 0, ...) before line 13" in out


@pytest.mark.parametrize(
    ("array", "whole", "part", "shown"),
    [
        ("data", "(d, h, 256,", "(d, h, 64,", "sets 64 of 256"),
        ("bins", "0, 256 * sizeof(unsigned)", "0, 256", "sets 256 of 1024"),
    ],
)  # fmt: skip
def test_an_array_of_which_a_quarter_is_set_is_told(
    array: str, whole: str, part: str, shown: str, tmp_path: Path
) -> None:
    text = HISTOGRAM.replace("BEFORE", CLEARED).replace("LOOP", "")

    code, out = checked(text.replace(whole, part), tmp_path)

    assert code == 1
    assert f"{array} is not set as a whole before the launch, and what its end holds decides the results" in out
    assert f"{shown} bytes; bins[" in out


def test_a_member_of_which_a_quarter_is_set_is_told(tmp_path: Path) -> None:
    text = """
struct P { const float* x; float* y; };
__global__ void k(P p) { p.y[threadIdx.x] = 2 * p.x[threadIdx.x]; }
int main() {
    float h[64];
    P p;
    for (int i = 0; i < 64; ++i) h[i] = i;
    cudaMalloc(&p.x, sizeof(h));
    cudaMalloc(&p.y, sizeof(h));
    cudaMemcpy((void*)p.x, h, 64, cudaMemcpyHostToDevice);
    k<<<1, 64>>>(p);
}
"""

    code, out = checked(text, tmp_path)

    assert code == 1
    assert "p.x is not set as a whole before the launch, and what its end holds decides the results" in out


def test_the_end_of_an_array_that_a_kernel_does_not_read_may_be_anything(
    tmp_path: Path,
) -> None:
    text = HISTOGRAM.replace("BEFORE", CLEARED).replace("LOOP", "")

    code, out = checked(text.replace("cudaMalloc(&d, 256)", "cudaMalloc(&d, 512)"), tmp_path)

    assert (code, out.splitlines()[0]) == (0, "histogram: clean")


def test_an_output_that_is_only_written_needs_no_value(tmp_path: Path) -> None:
    text = HISTOGRAM.replace("atomicAdd(&bins[data[i]], 1u)", "bins[i] = data[i]")

    code, out = checked(text.replace("BEFORE", "").replace("LOOP", ""), tmp_path)

    assert (code, out.splitlines()[0]) == (0, "histogram: clean")


def test_an_input_that_nobody_sets_is_a_warning(tmp_path: Path) -> None:
    text = HISTOGRAM.replace("cudaMemcpy(d, h, 256, cudaMemcpyHostToDevice);", "").replace("LOOP", "")

    code, out = checked(text.replace("BEFORE", CLEARED), tmp_path)

    assert (code, out.splitlines()[0]) == (0, "histogram: clean but for 1 warning")
    assert "warning: k.cu:4: reads data, which nothing sets between its allocation in line 9 and the launch" in out


def test_a_sum_that_a_loop_of_the_host_goes_on_adding_to_is_a_warning(tmp_path: Path) -> None:
    once = HISTOGRAM.replace("BEFORE", CLEARED)

    code, out = checked(once.replace("LOOP", LOOP), tmp_path)
    in_turns = HISTOGRAM.replace("BEFORE", f"{LOOP} {{ {CLEARED}").replace("LOOP", "").replace("256, b);", "256, b); }")
    _, cleared = checked(in_turns, tmp_path)

    assert code == 0
    assert "warning: k.cu:4: each turn of the loop at line 13 adds to what the last has left in bins" in out
    assert cleared.startswith("histogram: clean\n")


@pytest.mark.parametrize(
    ("before", "end", "code"),
    [("", "", 1), ("cudaMemset(next, 0, 4);", "", 0)],
)
def test_a_counter_that_a_loop_of_the_host_does_not_set_back_is_told(
    before: str, end: str, code: int, tmp_path: Path
) -> None:
    left, out = checked(WORKERS.replace("BEFORE", before).replace("END", end), tmp_path)

    assert left == code
    assert ("each turn of the loop at line 22 finds next as the last has left it" in out) is bool(code)


INTEGERS = """
__global__ void k(const int* x, int* m, int n) {
    int i = threadIdx.x;
    if (i < n && x[i] > *m) *m = x[i];
}
int main() {
    int *x, *m;
    cudaMalloc(&x, 256);
    cudaMalloc(&m, 4);
    cudaMemcpy(x, h, 256, cudaMemcpyHostToDevice);
    cudaMemset(m, 0, 4);
    k<<<1, 64>>>(x, m, 64);
}
"""


def test_integers_that_host_code_copies_are_not_all_zeros(tmp_path: Path) -> None:
    code, out = checked(INTEGERS, tmp_path)

    assert code == 1
    assert "atomicMax(m, x[i]) in place of line 4" in out


def test_integers_that_lead_out_of_an_array_are_zeros(tmp_path: Path) -> None:
    text = INTEGERS.replace("if (i < n && x[i] > *m) *m = x[i];", "if (i < n) atomicAdd(&m[x[i] * 8], 1);")

    code, out = checked(text, tmp_path)

    assert (code, out.splitlines()[0]) == (0, "k: clean")


def test_too_little_shared_memory_is_told_at_the_launch(tmp_path: Path) -> None:
    text = """
__global__ void k(int* x) {
    extern __shared__ int s[];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    x[threadIdx.x] = s[63 - threadIdx.x];
}
int main() {
    int* x;
    cudaMalloc(&x, 256);
    k<<<1, 64, 128>>>(x);
}
"""
    code, out = checked(text, tmp_path)

    assert code == 1
    assert "try:     256 bytes of dynamic shared memory in the launch of line 11" in out


def test_a_histogram_without_atomics_is_told_where_integers_are_equal(
    tmp_path: Path,
) -> None:
    text = HISTOGRAM.replace("BEFORE", CLEARED).replace("LOOP", "")

    plain, out = checked(text.replace("atomicAdd(&bins[data[i]], 1u)", "bins[data[i]]++"), tmp_path)
    permuted, _ = checked(text.replace("atomicAdd(&bins[data[i]], 1u)", "bins[data[i]] = i"), tmp_path)

    assert (plain, permuted) == (1, 0)
    assert "atomicAdd(&bins[data[i]], 1) in place of line 4" in out


SEEN = """
__global__ void k(const int* parents, int* out) {
    out[threadIdx.x] = parents[threadIdx.x] < 0 ? 0 : threadIdx.x;
    if (parents[threadIdx.x] < 0) out[0] = threadIdx.x;
}
int main() {
    int *p, *o;
    cudaMalloc(&p, 256);
    cudaMalloc(&o, 256);
    cudaMemset(p, BYTE, 256);
    AGAIN
    k<<<1, 64>>>(p, o);
}
"""


@pytest.mark.parametrize(
    ("byte", "again", "code"),
    [("0xff", "", 1), ("-1", "", 1), ("0", "", 0), ("0xff", "cudaMemcpy(p, h, 256, cudaMemcpyHostToDevice);", 0)],
)
def test_an_array_holds_what_host_code_fills_it_with(byte: str, again: str, code: int, tmp_path: Path) -> None:
    got, _ = checked(SEEN.replace("BYTE", byte).replace("AGAIN", again), tmp_path)

    assert got == code


SURFACES = """
__global__ void fetch(cudaSurfaceObject_t t, float* out) { out[threadIdx.x] = surf1Dread<float>(t, threadIdx.x); }
__global__ void fill(float* out) { out[threadIdx.x] = 1; }
int main() {
    float* o;
    cudaSurfaceObject_t t = 0;
    cudaMalloc(&o, 128);
    fill<<<1, 32>>>(o);
    fetch<<<1, 32>>>(t, o);
}
"""


def test_what_nobody_can_run_is_refused_by_name_and_no_mistake(tmp_path: Path) -> None:
    code, out = checked(SURFACES, tmp_path)

    assert code == 2
    assert "fill: clean" in out
    assert "fetch: refused" in out
    assert "given:   surfaces" in out


TWICE = """
__global__ void smooth(float* out, const float* in, int n) {
    int i = threadIdx.x;
    out[i] = 0.5f * (in[i] + in[(i + 1) % n]);
}
int main() {
    float *x, *y;
    cudaMalloc(&x, 512);
    cudaMalloc(&y, 512);
    smooth<<<1, 128>>>(x, SECOND, 128);
}
"""


@pytest.mark.parametrize(("second", "options", "code"), [
    ("x", (), 1), ("y", (), 0), ("x", ("--arg", "x:f32[128]=random"), 1), ("x", ("--arg", "in:f32[128]=random"), 0),
])  # fmt: skip
def test_an_array_that_host_code_passes_twice_is_one(
    second: str, options: tuple[str, ...], code: int, tmp_path: Path
) -> None:
    assert checked(TWICE.replace("SECOND", second), tmp_path, *options)[0] == code


LACKING = """
template <typename T, bool SCALED>
__global__ void norm(const T* x, T* y, const int cols, const float eps, const int stride) {
    __shared__ float s[32];
    const T* row = x + blockIdx.x * stride;
    float sum = 0;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) sum += (float)row[i];
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, o);
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int w = 0; w < blockDim.x / 32; ++w) sum += s[w];
    for (int i = threadIdx.x; i < cols; i += blockDim.x)
        y[blockIdx.x * cols + i] = SCALED ? row[i] : row[i] - sum * eps;
}
#define DISPATCH(TYPE, NAME, ...) \\
    switch (TYPE) { \\
        case 0: { using scalar_t = double; __VA_ARGS__(); break; } \\
        default: { using scalar_t = float; __VA_ARGS__(); } \\
    }
template <typename T> void run(T* x, T* y, int rows, int cols, int stride, bool scaled) {
    int threads = cols;
    threads = std::min(threads, 256);
    if (scaled) norm<T, true><<<rows, threads>>>(x, y, cols, 1e-5f, stride);
    else norm<T, false><<<rows, threads>>>(x, y, cols, 1e-5f, stride);
}
void forward(Tensor x, Tensor y) {
    DISPATCH(x.type(), "norm", [&] {
        run<scalar_t>(x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), x.size(0), x.size(1), x.stride(0), x.defined());
    });
}
"""


def test_what_is_proposed_can_be_pasted_and_makes_no_mistake(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(LACKING)

    code, _, asked = ran("check", tmp_path / "k.cu", "--no-propose")
    options = asked.partition("try:")[2].split("\n")[0].split()
    pasted, out, _ = ran("check", tmp_path / "k.cu", *options)

    assert (code, pasted) == (2, 0)
    assert options[:4] == ["--arg", "x:f32[262144]=random", "--arg", "y:f32[262144]=random"]
    assert {"cols=128", "rows=4", "stride=64"} <= set(options)
    assert asked.count("no value of const float* x") == 1  # both instances lack it
    assert [line for line in out.split("\n") if line.endswith(": clean")] == [
        "norm<float, true>: clean",
        "norm<float, false>: clean",
    ]


STRUCTURES = """
struct Slot { double weight; int key; };
__global__ void weigh(const Slot* s, double* out) { out[threadIdx.x] = s[threadIdx.x].weight; }
int main() {
    Slot *d, h[10];
    double* out;
    cudaMalloc(&d, sizeof(h));
    cudaMalloc(&out, 10 * sizeof(double));
    cudaMemcpy(d, h, sizeof(h), cudaMemcpyHostToDevice);
    weigh<<<1, 10>>>(d, out);
}
"""


def test_structures_that_host_code_copies_are_as_many_as_it_allocates(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(STRUCTURES)

    code, out, told = ran("check", tmp_path / "k.cu")

    assert (code, out.partition("\n")[0]) == (0, "weigh: clean")
    assert "s:b8[160] " in told


def test_structures_that_no_host_code_sets_are_asked_for_as_many_as_it_allocates(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(STRUCTURES.replace("cudaMemcpy(d, h,", "(0, h,"))

    code, _, asked = ran("check", tmp_path / "k.cu", "--no-propose")

    assert code == 2
    assert "--arg s:b8[160]" in asked


def test_a_structure_that_a_sequence_lacks_is_asked_for_by_its_fields(tmp_path: Path) -> None:
    text = "struct Graph { int n; const int* row; };\n__global__ void walk(Graph g) {}\n"
    (tmp_path / "k.cu").write_text(f"{text}void run(Graph graph) {{ walk<<<1, 32>>>(graph); }}\n")

    code, _, asked = ran("check", tmp_path / "k.cu", "--sequence")

    assert code == 2
    assert "--arg 'graph={7, i32[1024]}'" in asked


@pytest.mark.parametrize(("word", "value"), [("true", 1), ("false", 0)])
def test_a_truth_is_an_argument(word: str, value: int, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text('#include <cstdio>\n__global__ void k(bool up) { printf("up %d", up); }\n')

    code, out, _ = ran("check", tmp_path / "k.cu", "--block", "1", "--arg", f"up={word}")

    assert code == 0
    assert f"up {value}" in out


LIST = """
struct List { int* items; int* count; };
__global__ void keep(const int* x, List list, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] % 2) list.items[ADD] = x[i];
}
int main() {
    int* x;
    List list;
    cudaMalloc(&x, 400);
    cudaMemcpy(x, h, 400, cudaMemcpyHostToDevice);
    cudaMalloc(&list.items, 400);
    cudaMalloc(&list.count, sizeof(int));
    BEFORE
    keep<<<1, 128>>>(x, list, 100);
}
"""


@pytest.mark.parametrize(
    ("before", "add", "code"),
    [("", "atomicAdd(list.count, 1)", 1), ("cudaMemset(list.count, 0, 4);", "(*list.count)++", 1),
     ("cudaMemset(list.count, 0, 4);", "atomicAdd(list.count, 1)", 0)],
)  # fmt: skip
def test_a_counter_in_a_structure_is_held_to_what_host_code_sets(
    before: str, add: str, code: int, tmp_path: Path
) -> None:
    left, out = checked(LIST.replace("BEFORE", before).replace("ADD", add), tmp_path)

    assert left == code
    assert ("list.count is not set before the launch" in out) is not bool(before)


ROWS = """
__global__ void sum(const int* ptr, const int* idx, const float* x, float* y, int rows) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float s = 0;
    for (int e = ptr[row]; e END ptr[row + 1]; ++e) s += x[idx[e]];
    y[row] = s;
}
int main() {
    const int rows = 100, many = 3 * rows;
    std::vector<int> ptr(rows + 1), idx(many);
    for (int i = 0; i <= rows; ++i) ptr[i] = 3 * i;
    for (int e = 0; e < many; ++e) idx[e] = rand() % rows;
    int *p, *q;
    float *x, *y;
    cudaMalloc(&p, (rows + 1) * sizeof(int));
    cudaMalloc(&q, many * sizeof(int));
    cudaMalloc(&x, rows * sizeof(float));
    cudaMalloc(&y, rows * sizeof(float));
    cudaMemcpy(p, ptr.data(), (rows + 1) * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(q, idx.data(), many * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(x, hx, rows * sizeof(float), cudaMemcpyHostToDevice);
    sum<<<1, 128>>>(p, q, x, y, rows);
}
"""


@pytest.mark.parametrize(("end", "code"), [("<=", 1), ("<", 0)])
def test_offsets_are_those_that_a_loop_of_the_host_makes(end: str, code: int, tmp_path: Path) -> None:
    left, out = checked(ROWS.replace("END", end), tmp_path)

    assert left == code
    assert ("k.cu:6: load reads outside of idx" in out) is bool(code)


TWO = """
__global__ void count(const int* x, int* where, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) where[i] = x[i] + SHIFT;
}
__global__ void move(const int* where, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[where[i]] = x[i];
}
void first(const int* in, int* out, int n) { count<<<1, 128>>>(in, out, n); }
int main() {
    const int n = 100;
    int h[n], *x, *where;
    float *a, *b;
    for (int i = 0; i < n; ++i) h[i] = CONTENTS;
    cudaMalloc(&x, n * sizeof(int));
    cudaMalloc(&where, n * sizeof(int));
    cudaMalloc(&a, n * sizeof(float));
    cudaMalloc(&b, n * sizeof(float));
    cudaMemcpy(x, h, n * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(a, g, n * sizeof(float), cudaMemcpyHostToDevice);
    first(x, where, n);
    move<<<1, 128>>>(where, a, b, n);
}
"""


@pytest.mark.parametrize(
    ("contents", "shift", "code"),
    [("i", "0", 0), ("i", "1", 1), ("i / 2", "0", 1), ("read()", "1", 0)],
    ids=["a permutation", "one beyond the end", "two for one place", "what nobody knows leads out"],
)
def test_a_launch_finds_what_the_one_before_has_left(contents: str, shift: str, code: int, tmp_path: Path) -> None:
    left, out = checked(TWO.replace("CONTENTS", contents).replace("SHIFT", shift), tmp_path)

    assert left == code
    assert ("k.cu:8:" in out) is bool(code)


PAIRS = """
#include <torch/extension.h>
#include <cuda_fp16.h>
template <typename T> struct Vector { static constexpr int N = 1; using Type = T; };
template <> struct Vector<at::Half> { static constexpr int N = 2; using Type = __half2; };
template <typename scalar_t> __global__ void copy(const scalar_t* x, scalar_t* y, int n) {
    using V = typename Vector<scalar_t>::Type;
    constexpr int N = Vector<scalar_t>::N;
    for (int i = threadIdx.x; i < COUNT; i += blockDim.x) ((V*)y)[i] = ((const V*)x)[i];
}
torch::Tensor copied(torch::Tensor x, int n) {
    auto y = torch::empty_like(x);
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "copied", [&] {
        copy<scalar_t><<<1, 64>>>(x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), n);
    });
    return y;
}
"""


@pytest.mark.parametrize(("count", "half"), [("(n + N - 1) / N", "wrong"), ("n / N", "clean")])
def test_the_instance_of_16_bits_is_checked_where_it_has_code_of_its_own(count: str, half: str, tmp_path: Path) -> None:
    args = ["--size", "n=33", "--arg", "x:f32[33]=random", "--arg", "y:f32[33]"]

    code, out = checked(PAIRS.replace("COUNT", count), tmp_path, *args)

    assert code == int(half == "wrong")
    assert "copy<float>: clean" in out
    assert f"copy<at::Half>: {half}" in out


SAMPLED = """
__device__ float at(cudaTextureObject_t image, float x, float y) { return tex2D<float>(image, x, y); }
__global__ void shift(float* out, cudaTextureObject_t picture, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] = at(picture, i + 0.25f, 3.0f);
}
int main() {
    float* o;
    cudaTextureObject_t t = 0;
    cudaTextureDesc how = {};
    how.filterMode = cudaFilterModeLinear;
    how.addressMode[0] = cudaAddressModeBorder;
    cudaCreateTextureObject(&t, &where, &how, 0);
    cudaMalloc(&o, 128);
    shift<<<1, 32>>>(o, t, 32);
}
"""


def test_a_texture_that_host_code_makes_is_proposed_as_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(SAMPLED)

    code, _, said = ran("check", tmp_path / "k.cu")

    assert code == 0
    assert "picture=texture(f32[64,64]=random, filter=linear, address=border)" in said
