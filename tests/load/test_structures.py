"""Structures of .cu files as arguments, records for pointers to them, and what a first run of a file meets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.commands import ran
from tilewright.errors import ArgumentError, SimulationError
from tilewright.load import LoadedModule

STRUCTURES = """
struct Plain { int n; float f; __device__ float times() const { return n * f; } };
struct alignas(16) Vec { float x = 0, y, z; __device__ Vec operator+(const Vec& o) const { return {x + o.x, y, z}; } };
class Made {
public:
    Made() = default;
    __host__ __device__ Made(int n) : n(n), f{1} {}
    float get() const;
    int n;
    float f;
};
typedef struct __align__(8) { char c; alignas(16) float f; float4 v[2]; dim3 d; } Mixed;
struct Node { int key; float value; double weight; static const int COUNT = 3; using T = int; };
struct Base { int n; };
struct Derived : Base { int m; };
struct Virtual { __device__ virtual int f() { return 1; } int n; };
struct Bits { int low : 3; int n; };
template <class T> struct Of { T n; };
template <class T> struct Of<T*> { int m; T* n; };

__global__ void plain(Plain p, Vec v, Made m, float* out) { out[0] = p.times() + v.z + m.f; out[1] = sizeof(Vec); }
__global__ void mixed(Mixed m, float* out) { out[0] = m.f + m.c; out[1] = m.v[1].w; out[2] = m.d.y; }
__global__ void nodes(const Node* all, float* out) {
    const Node& one = all[threadIdx.x];
    out[threadIdx.x] = one.key * one.value + float(one.weight);
}
__global__ void derived(Derived s, float* out) { *out = s.m; }
__global__ void with_virtual(Virtual s, float* out) { *out = s.n; }
__global__ void bits(Bits s, float* out) { *out = s.n; }
__global__ void instance(Of<int> s, float* out) { *out = s.n; }
"""
NODE = np.dtype([("key", "i4"), ("value", "f4"), ("weight", "f8")])
SPIN = """
__global__ void spin(int* flag, int* out) { if (threadIdx.x == 0) { while (*flag == 0) {} *out = 1; } }
__global__ void grows(float* out) {
    extern __shared__ float s[];
    for (int i = 0; i < 8; i++) s[i * 64 + threadIdx.x] = i;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x + 448];
}
"""


@pytest.fixture(scope="module")
def structures() -> LoadedModule:
    return tw.load_cu(STRUCTURES)


@pytest.fixture(scope="module")
def spin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cu") / "spin.cu"
    path.write_text(SPIN)
    return path


def test_functions_of_a_structure_leave_its_layout_alone(structures: LoadedModule) -> None:
    out = np.zeros(2, np.float32)

    structures["plain"].simulate((3, 2.0), (1.0, 2.0, 5.0), {"n": 1, "f": 0.5}, out, block=1)

    assert out.tolist() == [11.5, 16]


def test_alignments_and_vectors_of_cuda_lie_as_the_compiler_lays_them(structures: LoadedModule) -> None:
    out = np.zeros(3, np.float32)

    structures["mixed"].simulate((7, 2.0, [(1.0,) * 4, (2.0, 3.0, 4.0, 5.0)], (8, 9, 10)), out, block=1)

    assert out.tolist() == [9, 5, 9]


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        ("derived", "Derived has a base, Base"),
        ("with_virtual", "Virtual has virtual functions"),
        ("bits", "Bits has bit-fields"),
        ("instance", "it is an instance of a template that has specialisations"),
    ],
)
def test_a_structure_that_is_no_plain_one_is_told_why(structures: LoadedModule, kernel: str, why: str) -> None:
    with pytest.raises(ArgumentError) as error:
        structures[kernel].simulate((1, 2), np.zeros(1, np.float32), block=1)

    assert why in str(error.value.hint)


def test_a_pointer_to_structures_takes_numpy_records(structures: LoadedModule) -> None:
    records, out = np.zeros(8, NODE), np.zeros(8, np.float32)
    records["key"], records["value"], records["weight"] = np.arange(8), 2, 0.5

    structures["nodes"].simulate(records, out, block=8)

    assert out.tolist() == [2 * k + 0.5 for k in range(8)]
    with pytest.raises(SimulationError, match="load reads outside of all"):
        structures["nodes"].simulate(records[:5].copy(), out, block=8)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (lambda records: records[["key", "value"]].astype([("key", "i4"), ("value", "f4")]), "structures of 16 bytes"),
        (lambda records: records[::2], "has gaps between its records"),
    ],
)
def test_records_of_another_size_or_with_gaps_are_refused(
    structures: LoadedModule, changed: Callable[[Any], Any], words: str
) -> None:
    with pytest.raises(ArgumentError, match=words):
        structures["nodes"].simulate(changed(np.zeros(8, NODE)), np.zeros(8, np.float32), block=4)


def test_a_load_that_the_compiler_took_out_of_a_loop_is_told_under_the_kernels_own_name(spin: Path) -> None:
    code, out, _ = ran("check", f"{spin}:spin", "--block", "32", "--arg", "flag:i32[1]", "--arg", "out:i32[1]")

    assert (code, out.splitlines()[0]) == (1, "spin: wrong")
    assert "livelock: a loop goes on for ever" in out
    assert "the compiler has taken a plain load out of the loop" in out


def test_a_limit_names_the_kernel_as_its_author_does(spin: Path) -> None:
    with pytest.raises(SimulationError, match=": grows is stopped at its limit"):
        tw.load_cu(spin)["grows"].simulate(np.zeros(64, np.float32), block=64, shared_bytes=2048, limit_steps=1)


def test_shared_memory_that_grows_turn_by_turn_is_asked_for_at_once(spin: Path) -> None:
    args = [f"{spin}:grows", "--block", "64", "--arg", "out:f32[64]"]

    hint = ran("check", *args)[1].partition("try:")[2].split()

    assert hint == ["--smem", "2048"]
    assert ran("check", *args, *hint)[0] == 0


HISTOGRAM = """
__global__ void counted(const int* x, int* counts) {
    __shared__ int own[16];
    if (threadIdx.x < 16) own[threadIdx.x] = 0;
    __syncthreads();
    own[x[threadIdx.x] & 15] += 1;
    __syncthreads();
    if (threadIdx.x < 16) counts[threadIdx.x] = own[threadIdx.x];
}
__global__ void smoothed(float* x) { x[threadIdx.x + 1] = x[threadIdx.x] + x[threadIdx.x + 2]; }
"""


def test_hints_for_cuda_name_its_atomic_and_take_one_line_apart() -> None:
    module = tw.load_cu(HISTOGRAM)

    with pytest.raises(SimulationError, match="race") as counted:
        module["counted"].simulate(np.arange(64, dtype=np.int32), np.zeros(16, np.int32), block=64)
    with pytest.raises(SimulationError, match="race") as smoothed:
        module["smoothed"].simulate(np.zeros(66, np.float32), block=64)

    assert "atomicAdd(&own[x[threadIdx.x] & 15], 1) in place of line 6" in str(counted.value.hint)
    assert "line 10 as two statements: what it reads into a variable, __syncthreads()" in str(smoothed.value.hint)


def test_a_pointer_in_an_array_of_a_structure_is_named_by_its_place() -> None:
    text = "struct Q { float* p[5]; int n; };\n__global__ void k(Q q) { q.p[4][q.n] = 1; }\n"
    arrays = [np.zeros(4, np.float32) for _ in range(5)]

    with pytest.raises(SimulationError, match=r"outside of q\.p\[4\]"):
        tw.load_cu(text)["k"].simulate((arrays, 7), block=1)


LISTS = """
constexpr int most[5] = {8, 6, 4, 3, 2};
constexpr int blocks() { return 16; }
typedef enum { KEPT = 0, MORE = 1 } Mode;
using count_t = int;
template <int n> struct Lists {
    void* addresses[n][most[n - 1]];
    count_t sizes[most[n - 1]];
    unsigned char array_of[blocks()];
    Mode mode;
};
template <typename T> struct Scaled {
    __device__ void operator()(int chunk, const Lists<2>& lists, const float by, Mode mode) {
        int at = lists.array_of[blockIdx.x];
        const T* x = (const T*)lists.addresses[0][at];
        T* y = (T*)lists.addresses[1][at];
        for (int i = threadIdx.x; i < lists.sizes[at] && i < chunk; i += blockDim.x) y[i] = x[i] * by + mode;
    }
};
template <typename L, typename U, typename... Args> __global__ void apply(int chunk, L lists, U call, Args... args) {
    call(chunk, lists, args...);
}
"""


def test_lists_of_arrays_functors_and_packs_are_arguments() -> None:
    """Extents are constants of the text, or depend on the template; what is not said of an array is zero, as in C."""
    name = "apply<Lists<2>, Scaled<float>, float, Mode>"
    kernel = tw.load_cu(LISTS, kernels=[name])[name]
    (x, more), (y, twice) = [[np.arange(count, dtype=np.float32) for count in (9, 5)] for _ in range(2)]
    lists = (((x, more), (y, twice)), (9, 4), (0, 1), 0)

    kernel.simulate(chunk=64, lists=lists, call=(), args_0=2.0, args_1=1, grid=2, block=32)

    assert [param.name for param in kernel.written] == ["chunk", "lists", "call", "args_0", "args_1"]
    assert y.tolist() == (2 * x + 1).tolist()
    assert twice.tolist() == [1, 3, 5, 7, 4]


def test_more_elements_than_an_array_of_a_structure_has_are_refused() -> None:
    name = "apply<Lists<2>, Scaled<float>, float, Mode>"
    kernel = tw.load_cu(LISTS, kernels=[name])[name]

    with pytest.raises(ArgumentError, match=r"argument lists\.sizes has 6 elements\n  given:   7"):
        kernel.simulate(1, ((), range(7), (), 0), (), 2.0, 1, grid=1, block=32)


def test_a_number_that_its_field_cannot_hold_is_refused() -> None:
    text = "struct Sizes { float* x; int n[2]; }; __global__ void k(Sizes s) { s.x[0] = s.n[0]; }"

    with pytest.raises(ArgumentError, match=r"argument s.n\[0\] is no value of its field") as told:
        tw.load_cu(text)["k"].simulate((np.zeros(1, np.float32), (2**31,)), grid=1, block=1)

    assert (told.value.given, told.value.allowed) == ("2147483648", "int32")


def test_a_number_stands_for_a_structure_of_one() -> None:
    text = """
    #include <cuda_fp16.h>
    __global__ void scaled(__half* x, const __half by) { x[threadIdx.x] = __hmul(x[threadIdx.x], by); }
    """
    x = np.arange(4, dtype=np.float16)

    tw.load_cu(text)["scaled"].simulate(x, 2.5, grid=1, block=4)

    assert x.tolist() == [0, 2.5, 5, 7.5]


FUNCTORS = """
template <typename T> struct Plus { __device__ T operator()(T a, T b) const { return a + b; } };
struct Twice { __device__ float operator()(float a) const { return 2 * a; } };
struct Times { float factor; __device__ float operator()(float a) const { return factor * a; } };
template <typename Op, typename F> __global__ void k(const float* x, Op op, float* y, F f) {
    y[threadIdx.x] = f(op(x[threadIdx.x], 1.0f));
}
template __global__ void k<Plus<float>, Twice>(const float*, Plus<float>, float*, Twice);
template __global__ void k<Plus<float>, Times>(const float*, Plus<float>, float*, Times);
"""


def test_a_functor_without_fields_need_not_be_given() -> None:
    module, x, y = tw.load_cu(FUNCTORS), np.arange(32, dtype=np.float32), np.zeros(32, np.float32)

    module["k<Plus<float>, Twice>"].simulate(x=x, y=y, grid=1, block=32)
    assert (y == 2 * (x + 1)).all()

    with pytest.raises(ArgumentError, match="takes 4 arguments") as raised:
        module["k<Plus<float>, Times>"].simulate(x=x, y=y, grid=1, block=32)
    assert raised.value.given == "no f"


@pytest.mark.parametrize("alias", ["typedef float hist_t;", "using hist_t = float;"])
def test_a_pointer_to_another_name_of_a_number_has_its_dtype(alias: str) -> None:
    text = f"{alias}\n__global__ void k(const hist_t* __restrict__ x, hist_t* const y) {{ *y = *x; }}\n"

    written = tw.load_cu(text)["k"].written

    assert [param.element for param in written] == ["float32", "float32"]


def test_a_structure_that_lies_in_memory_has_its_authors_name_in_reports() -> None:
    text = """
struct Box { int side[8]; };
__global__ void k(int* out, const Box box) { out[threadIdx.x] = box.side[threadIdx.x]; }
"""
    out = np.zeros(32, np.int32)

    with pytest.raises(SimulationError) as raised:
        tw.load_cu(text)["k"].simulate(out, (list(range(8)),), grid=1, block=32)

    assert "box" in str(raised.value)
    assert "param" not in str(raised.value)


@pytest.mark.parametrize(
    ("define", "kind", "element"), [("float", "float", "float32"), ("long long", "long long", "int64")]
)
def test_a_type_that_a_macro_stands_for_is_a_plain_number(define: str, kind: str, element: str) -> None:
    text = f"""
#ifndef DTYPE
#define DTYPE {define}
#endif
__global__ void scale(DTYPE* x, const DTYPE* y, DTYPE by) {{ x[threadIdx.x] = y[threadIdx.x] * by; }}
"""
    written = tw.load_cu(text)["scale"].written

    assert [param.type for param in written] == [f"{kind}*", f"const {kind}*", kind]
    assert [param.element for param in written] == [element, element, ""]
