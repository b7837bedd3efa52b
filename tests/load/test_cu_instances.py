"""Instances of kernels that host code chooses: by a variant, by a function that returns kernels, by types that it names
among the arguments of a macro; and kernels that a macro of the command line switches on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import ran
from tilewright.load.cu_host import switches
from tilewright.load.cu_launches import instances, launched

VISIT = """
template <typename I> struct Tag { using Type = I; };
template <typename I> __global__ void k(I* x) { x[threadIdx.x] = 1; }
void run(void* x, int kind) {
    VARIANT;
    std::visit([&](auto tag) {
        using index_t = typename decltype(tag)::Type;
        k<index_t><<<1, 32>>>((index_t*)x);
    }, GIVEN);
}
"""
PICKED = """
template <int N> __global__ void k(int* x) { x[threadIdx.x] = N; }
typedef void (*Kernel)(int*);
Kernel pick(int n) {
    if (n == 1) return k<1>;
    return &k<2>;
}
void run(int* x, int n) { Kernel kernel = pick(n); kernel<<<1, 32>>>(x); }
"""
SET_IN_BRANCHES = """
template <int N> __global__ void k(int* x) { x[threadIdx.x] = N; }
void run(int* x, int n) {
    auto kernel = k<1>;
    switch (n) {
        case 4: kernel = k<4>; break;
        default: if (n > 4) kernel = k<8>;
    }
    kernel<<<1, 32>>>(x);
}
"""
AMONG_ARGUMENTS = """
#define DISPATCH(TYPE, ...) if (TYPE == 0) { using scalar_t = float; __VA_ARGS__ }
template <typename T, typename U> __global__ void k(T* x) { x[threadIdx.x] = U(1); }
void run(void* x, int kind) {
    DISPATCH(kind,
        using wide_t = Wide<scalar_t>;
        k<scalar_t, wide_t><<<1, 32>>>((scalar_t*)x);
    );
}
"""
RECURSIVE = """
template <int N, typename T> __global__ void k(T* x) { x[threadIdx.x] = N; }
template <int N, typename T> void launch(T* x, int n) {
    if (n == N) k<N, T><<<1, 32>>>(x);
    else if constexpr (N < 16) launch<N + 1, T>(x, n);
}
void run(void* x, int n) {
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "launch", [&] {
        using kept_t = scalar_t;
        launch<1, kept_t>((kept_t*)x, n);
    });
}
"""


@pytest.mark.parametrize(("variant", "given"), [
    ("std::variant<Tag<short>, Tag<int>> which", "which"),
    ("auto which = choose<short, int>(kind)", "which"),
    ("", "choose<short, int>(kind)"),
])  # fmt: skip
def test_the_first_choice_of_a_variant_is_the_type(variant: str, given: str) -> None:
    assert instances(VISIT.replace("VARIANT", variant).replace("GIVEN", given)) == ["k<short>"]


def test_a_kernel_that_a_function_returns_is_launched() -> None:
    assert instances(PICKED) == ["k<1>"]


def test_a_kernel_that_branches_choose_is_the_first_one() -> None:
    assert instances(SET_IN_BRANCHES) == ["k<1>"]


def test_a_type_that_is_named_among_the_arguments_of_a_macro_is_known() -> None:
    assert instances(AMONG_ARGUMENTS) == ["k<float, Wide<float>>"]


def test_instances_of_a_function_that_calls_itself_have_the_types_of_its_first_call() -> None:
    assert instances(RECURSIVE)[0] == "k<1 + 1 + 1 + 1, float>"


SWITCHED = """#ifdef WITH_GPU
__global__ void k(int* x) { x[threadIdx.x] = 1; }
void run(int* x) { k<<<1, 32>>>(x); }
#endif
"""


def test_kernels_that_a_macro_switches_on_are_checked(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(SWITCHED)

    code, out, said = ran("check", tmp_path / "k.cu")

    assert code == 0, said
    assert "k: clean" in out
    assert "-D WITH_GPU, as all of its kernels ask for it" in said


def test_no_macro_is_switched_on_where_kernels_are_there() -> None:
    assert switches(SWITCHED + "__global__ void other() {}\n", "__global__", {}) == []
    assert switches(SWITCHED, "__global__", {"WITH_GPU": None}) == []


FUNCTOR = """
template <typename T, int D> __global__ void norms(const T* x, T* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    T total = 0;
    for (int d = 0; i < n && d < D; ++d) total += x[i * D + d] * x[i * D + d];
    if (i < n) y[i] = total;
}
template <typename T, int D> struct Norms {
    static void run(int blocks, int threads, const T* x, T* y, int n) {
        norms<T, D><<<blocks, threads>>>(x, y, n);
    }
};
const int LEAST = 1;
constexpr int MOST = 8;
void of(at::Tensor x, at::Tensor y, int n) {
    CALL
}
"""
BY_DISPATCH = """AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "norms", ([&] {
        dispatch<Norms, scalar_t, LEAST, MOST>(n, n / 32, 32, x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), n);
    }));"""


@pytest.mark.parametrize(
    ("call", "made"),
    [
        ("Norms<double, 2>::run(n / 32, 32, x.data_ptr<double>(), y.data_ptr<double>(), n);", ["norms<double, 2>"]),
        (BY_DISPATCH, ["norms<float, 3>"]),
        ("dispatch<Norms, float, 4>(n, n / 32, 32);", ["norms<float, 4>"]),
        ("dispatch(Norms{}, n, n / 32, 32);", ["norms<T, D>"]),
    ],
)
def test_a_class_whose_function_launches_is_made_as_it_is_named_or_handed_on(call: str, made: list[str]) -> None:
    assert instances(FUNCTOR.replace("CALL", call)) == made


FUNCTORS = """
enum Kind { SUM, MOST };
template <Kind K, typename T> struct Of { __device__ T of(T a, T b) const { return a + b; } };
template <typename T> struct Of<MOST, T> { __device__ T of(T a, T b) const { return a < b ? b : a; } };
template <Kind K, typename T> __global__ void join(const T* x, T* y, const Of<K, T> op) {
    y[threadIdx.x] = op.of(x[threadIdx.x], x[63 - threadIdx.x]);
}
void host(const float* x, float* y) { join<<<1, 64>>>(x, y, Of<MOST, float>()); }
"""


def test_a_template_has_the_arguments_of_the_function_object_that_it_is_passed(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(FUNCTORS)

    code, out, said = ran("check", tmp_path / "k.cu")

    assert instances(FUNCTORS) == ["join<MOST, float>"]
    assert (code, "join: clean" in out) == (0, True), said


OF_MACRO = """
template <int WARPS_M, int WARPS_N> __global__ void rows(float* x) { x[blockIdx.x * blockDim.x + threadIdx.x] = 1; }
#define LAUNCH(size) \\
  case (size): { \\
    constexpr int WARPS_N = size < 1024 ? 1 : (size / 1024) * 2; \\
    constexpr int WARPS_M = 4 / (WARPS_N > 4 ? 4 : WARPS_N); \\
    const int threads = WARPS_M * WARPS_N * 32; \\
    const dim3 grid((n + WARPS_M - 1) / WARPS_M); \\
    rows<WARPS_M, WARPS_N><<<grid, threads>>>(x); \\
  } break
void run(float* x) {
    int n = 9, size = 2048;
    switch (size) { LAUNCH(512); LAUNCH(2048); }
}
"""


def test_what_the_body_of_a_macro_declares_is_known_at_its_launch() -> None:
    assert instances(OF_MACRO) == ["rows<4, 1>", "rows<1, 4>"]
    assert [shape.block for shape in launched(OF_MACRO, "rows<1, 4>")] == [(128,)]
    assert [shape.grid for shape in launched(OF_MACRO, "rows<1, 4>")] == [(9,)]


def test_types_of_the_namespace_around_a_launch_are_known_outside(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("""#include <ATen/ATen.h>
#include <ATen/AccumulateType.h>
namespace at { namespace native { namespace {
template <typename T, typename acc_t> __global__ void twice(const T* x, T* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = static_cast<T>(acc_t(x[i]) * 2);
}
}
void run(const Tensor& x, Tensor& y) {
    int n = x.numel();
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "twice", [&] {
        using accscalar_t = acc_type<scalar_t, true>;
        twice<scalar_t, accscalar_t><<<(n + 127) / 128, 128>>>(x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), n);
    });
}
}}
""")

    code, out, said = ran("check", tmp_path / "k.cu")

    assert (code, "clean" in out) == (0, True), said


def test_launches_with_spaces_between_their_brackets_are_launches(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("""#include "k.cuh"
int main() { float* x; cudaMalloc(&x, 128); fill<float> << < 1, 32 >> > (x); later(x); }
""")
    (tmp_path / "k.cuh").write_text("""template <typename T> __global__ void fill(T* x) { x[threadIdx.x] = 1; }
__global__ void third(float* x) { x[threadIdx.x] = 3; }
static void later(float* x) { third << <1, 32>>> (x); }
""")

    _, out, said = ran("check", tmp_path / "k.cu")

    assert "k.cu:2: launched as here: grid (1,), block (32,)" in said
    assert "fill: clean" in out
    assert "third: clean" in out
