"""Instances of kernels that host code chooses: by a variant, by a function that returns kernels, by types that it names
among the arguments of a macro; and kernels that a macro of the command line switches on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import ran
from tilewright.load.cu_host import switches
from tilewright.load.cu_launches import instances

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
