"""Types that kernels take have functions of the host, which allocate and copy back: these are left out, and the types
stay; and instances of templates are found by what host code says elsewhere."""

from __future__ import annotations

import pytest

from tilewright.load.cu_compile import compile_cu
from tilewright.load.cu_launches import instances
from tilewright.load.cu_tree import example_of, parameters

GRID = """
#include <cstdio>
#include <vector>
struct Grid {
    int n; float* x;
    «Grid(int n) : n(n) { cudaMalloc(&x, n * sizeof(float)); }
    ~Grid() { cudaFree(x); }
    void print() const { std::vector<float> h(n); printf("%f", h[0]); }
    __host__ int blocks() const { return (n + 255) / 256; }
    »__host__ __device__ int size() const { return n; }
    __device__ float& at(int i) { return x[i]; }
};
template <typename T> struct Buffer {
    T* p; int n;
    «__host__ void alloc(int m);
    »__device__ T& operator[](int i) { return p[i]; }
};
«template <typename T> void Buffer<T>::alloc(int m) { n = m; cudaMalloc(&p, m * sizeof(T)); }»
__global__ void k(Grid g, Buffer<float> b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < g.size()) g.at(i) += b[i];
}
"""


def ptx(text: str) -> str:
    return compile_cu(text, "k.cu", "sm_90a", defines={}, include=(), names=()).ptx


def entry(text: str) -> str:
    """The kernel's code, without the lines that it is from."""
    lines = text[text.index(".entry") :].splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith((".loc", "$L__", "//")))


def test_functions_of_the_host_in_types_are_left_out_and_the_types_stay() -> None:
    without = "".join(part.partition("»")[2] if number else part for number, part in enumerate(GRID.split("«")))

    assert entry(ptx(GRID.replace("«", "").replace("»", ""))) == entry(ptx(without))


def test_what_device_code_calls_of_a_type_stays() -> None:
    text = GRID.replace("«", "").replace("»", "").replace("__host__ __device__ int size", "int size")

    with pytest.raises(Exception, match="size"):  # as nvcc says: a function of the host
        ptx(text)


LAUNCH = """
template <typename T, int Bits> __global__ void wide(T* y, int n) { if (threadIdx.x < n) y[threadIdx.x] = Bits; }
template <typename T> void launch(T* y, int n) { wide<T, 8><<<1, 64>>>(y, n); }
"""
DISPATCHED = """
#include <torch/all.h>
template <typename T> __global__ void twice(const T* x, T* y, int n) { if (threadIdx.x < n) y[threadIdx.x] = x[0]; }
void run(torch::Tensor x, torch::Tensor y) {
    int n = x.size(0);
    AT_DISPATCH_FLOATING_TYPES(x.type(), "twice", ([&] { «» }));
}
"""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (LAUNCH + "template void launch(float* y, int n);\n", ["wide<float, 8>"]),
        (LAUNCH + "template void launch(float* y);\n", ["wide<float, 8>"]),
        (
            LAUNCH
            + "template <typename T> void all(void* y, int n) {\n#define RUN(U) launch<U>((U*)y, n)\n  RUN(T);\n}\n"
            + "void f(void* y) { all<int>(y, 64); }\n",
            ["wide<int, 8>"],
        ),
        (
            LAUNCH
            + "void f(float* y, bool odd) { auto k = odd ? &wide<float, 3> : &wide<float, 4>; k<<<1, 64>>>(y, 9); }\n"
            + "template void launch(double* y, int n);\n",
            ["wide<double, 8>", "wide<float, 3>"],
        ),
        (
            DISPATCHED.replace("«»", "using U = scalar_t; twice<U><<<1, 64>>>(x.data_ptr<U>(), y, n);"),
            ["twice<float>"],
        ),
        (
            DISPATCHED.replace("«»", "twice<<<1, 64>>>(x.data<scalar_t>(), y.data<scalar_t>(), n);"),
            ["twice<float>"],
        ),
    ],
)  # fmt: skip
def test_instances_follow_from_what_host_code_says_elsewhere(text: str, names: list[str]) -> None:
    assert sorted({*instances(text, (text,))} - {"wide<T, 8>"}) == names


def test_a_parameter_of_a_template_that_is_a_function_leaves_the_kernel_its_own() -> None:
    text = """template <typename T> __device__ T twice(const T& x) { return x + x; }
template <typename T, T (*ACT)(const T&)> __global__ void gated(const T* x, T* y, int n) { y[n] = ACT(x[n]); }
void run(const float* x, float* y) { gated<float, twice<float>><<<1, 64>>>(x, y, 3); }
"""

    assert instances(text, (text,)) == ["gated<float, twice<float>>"]
    assert [param.name for param in parameters(text)["gated"]] == ["x", "y", "n"]
    assert example_of("gated", (text,)) == "gated<float, ACT>"
