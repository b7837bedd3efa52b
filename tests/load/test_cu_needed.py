"""What device code names stays, of a file and of its headers, and what was left out is told where it is missed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tilewright.errors import ToolError
from tilewright.load import LoadedModule, load_cu


def of_files(folder: Path, kernel: str, **headers: str) -> LoadedModule:
    for name, text in headers.items():
        (folder / f"{name}.h").write_text(text)
    (folder / "k.cu").write_text(kernel)
    return load_cu(folder / "k.cu", include=[folder])


def result(module: LoadedModule, kernel: str = "k") -> list[float]:
    x = np.arange(32, dtype=np.float32)
    module[kernel].simulate(x, grid=1, block=32)
    return [float(value) for value in x[:4]]


HOST = "void run(float* x) { k<<<1, 32>>>(x); }\n"
ODD = {
    "a constructor outside of its class": (
        "#include <thrust/device_ptr.h>\nstruct Step { __device__ Step(float b); float by; };\n"
        "Step::Step(float b) : by(b) {}\n__global__ void k(float* x) { x[threadIdx.x] += Step(2).by; }\n"
    ),
    "the largest of a list": (
        "#include <algorithm>\nconstexpr int most(std::initializer_list<int> all) { return std::max(all); }\n"
        "template <int N> struct Room { static constexpr int size = most({1, N}) + std::min({3, N, 0}); };\n"
        "__global__ void k(float* x) { x[threadIdx.x] += Room<2>::size; }\n"
    ),
    "bits that are counted at compile time": (
        "constexpr int log2_of(unsigned n) { return 31 - __builtin_clz(n) + __builtin_ctzll(1); }\n"
        "__global__ void k(float* x) { x[threadIdx.x] += log2_of(4); }\n"
    ),
    "a reference that nothing else refers to": (
        "template <class T> struct Pair { T a, b; };\ntemplate <class T> __device__ __inline__ T sum(\n"
        "    Pair<T>& __restrict__ p, const Pair<T>& __restrict__ q, int) {\n  return p.a + q.b;\n}\n"
        "__global__ void k(float* x) { Pair<float> p{1, 1}; x[threadIdx.x] += sum(p, p, 0); }\n"
    ),
    "a function of the host in what both may run": (
        "void complain(const char* what) { throw what; }\n"
        "__host__ __device__ inline float two(bool ok) { if (!ok) complain(\"no\"); return 2; }\n"
        "__global__ void k(float* x) { x[threadIdx.x] += two(true); }\n"
    ),
    "a name that a macro pastes together": (
        "#define OF(kind) two_of_##kind\n__device__ float two_of_floats() { return 2; }\n"
        "__global__ void k(float* x) { x[threadIdx.x] += OF(floats)(); }\n"
    ),
    "constants of math.h": (
        "#include <cmath>\n__global__ void k(float* x) { x[threadIdx.x] += M_LOG2E * M_LN2 + M_LOG10E * M_LN10; }\n"
    ),
    "an operator of a type": (
        "struct V { float x; };\n__device__ V operator+(V a, V b) { return {a.x + b.x}; }\n"
        "__global__ void k(float* x) { V v{1}; x[threadIdx.x] += (v + v).x; }\n"
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
def test_what_kernels_name_stays_beside_host_code(text: str, tmp_path: Path) -> None:
    assert result(of_files(tmp_path, text + HOST)) == [2, 3, 4, 5]


SPACES = """#pragma once
#ifndef BEGIN_LIB
#  define BEGIN_LIB \\
    namespace lib {  \\
    inline namespace v2 {
#  define END_LIB \\
    }              \\
    }
#endif
#define LIB_API
BEGIN_LIB
LIB_API void complain(const char* what);
struct Two {
    float by;
    constexpr operator float() const { if (by < 0) complain("negative"); return by; }
};
template <int N> __global__ void k(float* x) { x[threadIdx.x] += Two{N}; }
END_LIB
"""


def test_namespaces_that_macros_open_are_namespaces(tmp_path: Path) -> None:
    text = '#include "lib.h"\nvoid run(float* x) { using namespace lib; k<2><<<1, 32>>>(x); }\n'

    module = of_files(tmp_path, text, lib=SPACES)

    assert module.kernels == ["k<2>"]
    assert result(module, "k<2>") == [2, 3, 4, 5]


def test_what_is_missed_is_told_with_why_it_was_left_out() -> None:
    text = (
        "constexpr int room(int n) { return absent(n); }\n"
        "template <int N> struct Traits { static constexpr int size = room(N) + N; };\n"
        "__global__ void k(float* x) { x[threadIdx.x] += Traits<2>::size; }\n"
    )

    with pytest.raises(ToolError) as raised:
        load_cu(text, kernels=["k"])

    assert 'room, kernel.cu:1, left out: identifier "absent" is undefined' in str(raised.value)


TYPES = """struct Bare { float x; };
template <typename T> __device__ T twice(T a) { return a + a; }
template <typename T> __global__ void k(T* x) { x[threadIdx.x] = twice(x[threadIdx.x]); }
void run(float* x, Bare* b) { k<float><<<1, 32>>>(x); k<Bare><<<1, 32>>>(b); }
"""


def test_an_instance_whose_type_lacks_an_operator_is_refused_alone() -> None:
    module = load_cu(TYPES)

    assert module.kernels == ["k<float>"]
    assert 'no operator "+" matches' in str(module.refused["k<Bare>"])
    assert module.refused["k<Bare>"].at is not None


def test_a_kernel_that_does_not_compile_is_refused_beside_others() -> None:
    text = "__global__ void bad(float* x) { x[0] = absent(); }\n__global__ void k(float* x) { x[threadIdx.x] += 2; }\n"

    module = load_cu(text + "void run(float* x) { bad<<<1, 32>>>(x); k<<<1, 32>>>(x); }\n")

    assert list(module.refused) == ["bad"]
    assert result(module) == [2, 3, 4, 5]


def test_the_head_of_a_template_before_a_condition_stays_with_its_function(tmp_path: Path) -> None:
    text = (
        "template <typename T> struct V { T x; __device__ V(T a); };\ntemplate <typename T>\n#ifdef OTHER_ORDER\n"
        "__device__ V<T>::V(T b)\n#else\n__device__ V<T>::V(T a)\n#endif\n    : x(a) {}\n"
        "__global__ void k(float* x) { x[threadIdx.x] += V<float>(2).x; }\n"
    )

    assert result(of_files(tmp_path, text + HOST)) == [2, 3, 4, 5]
