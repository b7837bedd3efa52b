"""Variables of a .cu file: their dtypes are their author's, their names those of C++, wherever namespaces put them."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.checking import check
from tilewright.errors import ArgumentError, SimulationError
from tilewright.load import LoadedModule, load_cu, load_ptx
from tilewright.ptx import script
from tilewright.ptx.mangled import plain_name, qualified_name

SIGNED = """#include <cstdint>
#define DEV __device__
typedef int16_t i16;
using Small = signed char;
using Tiny = Small;
__device__ signed char a8[4] = {-1, -2, 3, -128};
__device__ short a16[3] = {-1, 2, -32768};
__device__ unsigned short u16 = 65535;
__device__ int a32[2] = {-1, 5}, b32 = -9;
static __device__ int c32(-4);
__constant__ long int unsigned k64[2] = {3, 4};
volatile __device__ long long int m64 = -1;
__device__ int m2[2][2] = {{-1, 2}, {3, -4}};
__align__(16) __device__ short al[2] = {-1, 1};
DEV int macro = -3;
__device__ i16 t16 = -2;
__device__ std::int8_t t8 = -2;
namespace { __managed__ Tiny hidden = -6; }
extern "C" { __device__ int in_c = -1; }
namespace a { __device__ int twice = -1; namespace b { __constant__ short inner = -6; } }
namespace x::y { __device__ unsigned twice = 4000000000u; }
__device__ int negative(int a) { return -a; }
__global__ void k(int* o) {
    o[0] = a8[3] + a16[2] + u16 + a32[0] + b32 + c32 + (int)k64[1] + m64 + m2[1][1] + al[0] + macro + t16 + t8 + hidden
         + in_c + a::twice + a::b::inner + (x::y::twice == 4000000000u) + negative(1);
    a8[0] = -100; a16[0] = -300; a32[1] = -77; m64 = -1ll << 40;
}
"""
DTYPES = {
    "a8": "int8", "a16": "int16", "u16": "uint16", "a32": "int32", "b32": "int32", "c32": "int32", "k64": "uint64",
    "m64": "int64", "m2": "int32", "al": "int16", "macro": "int32", "t16": "int16", "t8": "int8", "hidden": "int8",
    "in_c": "int32", "a::twice": "int32", "x::y::twice": "uint32", "inner": "int16",
}  # fmt: skip


@pytest.fixture(scope="module")
def signed() -> LoadedModule:
    return load_cu(SIGNED)


def test_signed_variables_of_a_file_have_negative_values(signed: LoadedModule) -> None:
    assert {name: str(array.dtype) for name, array in signed.globals.items()} == DTYPES
    assert signed.globals["a16"].tolist() == [-1, 2, -32768]
    assert signed.globals["inner"].tolist() == signed.globals["a::b::inner"].tolist() == [-6]


NAMED = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
enum Plain { LEAST = -1, MOST };
enum class Small : signed char { LEAST = -3 };
enum class Long : long long;
typedef enum { LOW = -5 } Typed;
using Again = Small;
__device__ Plain plain = LEAST;
__device__ Small small[2] = {Small::LEAST};
__device__ Long wide = (Long)-4;
__device__ Typed typed = LOW;
__constant__ Again again = Small::LEAST;
extern "C" __device__ short in_c = -15;
extern "C" __constant__ signed char bytes_in_c[3] = {-1, -2, -3};
__device__ __half half_of[2];
__device__ __nv_bfloat16 brain;
template <int N> __device__ short of_template = -40;
__global__ void k(int* o) {
    o[0] = plain + (int)small[o[1]] + (int)wide + typed + (int)again + in_c + bytes_in_c[o[1]]
         + (int)__half2float(half_of[o[1]]) + (int)__bfloat162float(brain) + of_template<3>;
}
"""


def test_variables_of_enumerations_of_halves_and_with_the_linkage_of_c_have_their_own_dtypes() -> None:
    values = load_cu(NAMED).globals

    assert {name: str(array.dtype) for name, array in values.items()} == {
        "plain": "int32", "small": "int8", "wide": "int64", "typed": "int32", "again": "int8", "in_c": "int16",
        "bytes_in_c": "int8", "half_of": "float16", "brain": "bfloat16", "of_template": "int16",
    }  # fmt: skip
    assert values["small"].tolist() == [-3, 0]
    assert values["in_c"].tolist() == [-15]


def test_signed_variables_are_written_by_callers_and_read_after_a_run(signed: LoadedModule) -> None:
    module, o = load_cu(SIGNED), np.zeros(1, np.int32)

    module.globals["macro"][:] = -1000
    module.globals["a::twice"][:] = -2000
    module["k"].simulate(o, block=1)

    terms = [-128, -32768, 65535, -1, -9, -4, 4, -1, -4, -1, -1000, -2, -2, -6, -1, -2000, -6, 1, -1]
    assert o[0] == sum(terms)
    assert [module.globals[name].flat[0] for name in ("a8", "a16", "m64")] == [-100, -300, -1 << 40]
    assert module.globals["a32"][1] == -77


def test_a_name_that_several_variables_have_is_told_with_their_namespaces(signed: LoadedModule) -> None:
    with pytest.raises(ArgumentError, match="twice is the name of several variables") as raised:
        _ = signed.globals["twice"]

    assert "a::twice" in str(raised.value.allowed)


DYNAMIC = """
#define BODY(s) s[threadIdx.x] = threadIdx.x; __syncthreads(); o[threadIdx.x] = s[31 - threadIdx.x];
namespace a { extern __shared__ float s[]; __shared__ char odd[3]; __global__ void in_namespace(float* o) { BODY(s) } }
namespace { extern __shared__ float hidden[]; }
__global__ void anonymous(float* o) { BODY(hidden) }
namespace b { extern __shared__ int s[]; namespace c { extern __shared__ __align__(1024) double wide[]; } }
__global__ void several(float* o) {
    a::odd[threadIdx.x % 3] = 1;
    __syncwarp();
    a::s[threadIdx.x] = threadIdx.x + a::odd[0] - 1;
    __syncthreads();
    o[threadIdx.x] = __int_as_float(b::s[31 - threadIdx.x]) + ((float*)b::c::wide)[0];
}
namespace a { __global__ void inside(float* o) { extern __shared__ float own[]; BODY(own) } }
template <class T> struct Of { static __device__ T* get() { extern __shared__ T s[]; return s; } };
__global__ void of_a_member(float* o) { float* s = Of<float>::get(); BODY(s) }
namespace a { extern __shared__ float o[]; __global__ void like_a_parameter(float* o) { BODY(a::o) } }
"""


@pytest.fixture(scope="module")
def dynamic() -> LoadedModule:
    return load_cu(DYNAMIC)


@pytest.mark.parametrize(
    "kernel", ["in_namespace", "anonymous", "several", "inside", "of_a_member", "like_a_parameter"]
)
def test_dynamic_shared_memory_in_any_namespace_lies_behind_the_static(dynamic: LoadedModule, kernel: str) -> None:
    o = np.zeros(32, np.float32)

    dynamic[kernel].simulate(o, block=32, shared_bytes=128, check="bounds")
    with pytest.raises(SimulationError, match="outside of shared memory") as raised:
        dynamic[kernel].simulate(o, block=32, shared_bytes=64)

    assert (o == np.arange(32)[::-1]).all()
    assert raised.value.hint == "shared_bytes=128"


NAMES = """
namespace a { __device__ int table[4]; __shared__ int tile[4]; }
namespace b { __device__ int table[4]; __shared__ int tile[4]; }
template <class T> __global__ void k(T* o, int n) {
    a::tile[n & 3] = 1;
    if (n == 4) b::tile[n] = n;
    o[0] = a::table[n & 3] + b::table[n] + a::tile[n & 1] + b::tile[n & 1];
}
template __global__ void k<float>(float*, int);
template __global__ void k<int>(int*, int);
"""


def test_reports_on_ptx_have_no_mangled_names() -> None:
    module = load_cu(NAMES)
    from_ptx = load_ptx(script(module.module))

    assert from_ptx.kernels == ["k<float>", "k<int>"]
    for loaded in (module, from_ptx):
        for n, name in ((4, "b::tile"), (9, "b::table")):
            with pytest.raises(SimulationError, match=f"outside of {name}") as raised:
                loaded["k<int>"].simulate(np.zeros(1, np.int32), n, block=1)
            assert "_Z" not in str(raised.value)
    with pytest.raises(ArgumentError, match="k is the name of several kernels") as told:
        from_ptx["k"]
    assert told.value.allowed == "k<float>, k<int>"


OVERLOADED = """
__global__ void k(float* x, int n) { if (threadIdx.x <= n) x[threadIdx.x] = 1; }
namespace a { __global__ void k(const double* in, double* __restrict__ out, unsigned m) { out[threadIdx.x] = in[m]; } }
__global__ void k(const double* in, double* __restrict__ out, long m) { out[threadIdx.x] = in[m]; }
void host(float* x, double* y, double* z) { k<<<2, 64>>>(x, 7); k<<<3, 32>>>(y, z, 9); }
"""


def test_kernels_that_share_a_name_are_told_apart_by_what_they_take() -> None:
    module = load_cu(OVERLOADED)

    assert sorted(module.kernels) == ["a::k", "k(double const*, double*, long)", "k(float*, int)"]
    assert module["k(float *, int)"].parameters == ("x", "n")
    assert module["a::k"].parameters == module["k(const double *, double* __restrict__, unsigned int)"].parameters
    assert module["k(double const*, double*, int64_t)"].parameters == ("in", "out", "m")
    with pytest.raises(ArgumentError, match=r"k\(float\*\) is no kernel of this module"):
        module["k(float*)"]
    found = check(module["k(float*, int)"], np.zeros(4, np.float32), 3, grid=1, block=32)
    assert found.kernel == "k(float*, int)"


@pytest.mark.parametrize(
    ("symbol", "plain", "qualified"),
    [
        ("_ZN1a1bIN1c1dIiEEE1fIS3_EEvT_S3_", "f", "a::b<c::d<int>>::f<c::d<int>>"),
        ("_Z1kIJifdLj3ELb1ELin7EEEvv", "k", "k<int, float, double, 3u, true, -7>"),
        ("_ZZN2ShIfE1gEPKcPFviEE1s_0", "s", "Sh<float>::g::s"),
        ("_ZNK1A3getEv", "get", "A::get"),
        ("_ZN12_GLOBAL__N_13tabE", "tab", "tab"),
        ("_Z1hI6__halfSt4pairIPKfRA3_iEEvPT_", "h", "h<__half, std::pair<float const*, int[3]&>>"),
        ("_Z4foldIXadL_Z3fooiEEEvv", "fold", "fold<...>"),
        ("_Zebra", "_Zebra", "_Zebra"),
        ("_ZN9", "_ZN9", "_ZN9"),
        ("main", "main", "main"),
    ],
)
def test_symbols_are_read_as_names(symbol: str, plain: str, qualified: str) -> None:
    assert (plain_name(symbol), qualified_name(symbol)) == (plain, qualified)


NULL = """typedef int (*F)(int);
__device__ int one(int a) { return a + 1; }
__device__ F table[2] = {one, nullptr};
__global__ void k(int* o, int n) {
    o[0] = table[n](n);
}
"""


def test_a_call_of_a_null_function_pointer_is_told_at_the_users_line_without_inner_frames() -> None:
    module, o = load_cu(NULL), np.zeros(1, np.int32)
    module["k"].simulate(o, 0, block=1)
    assert o[0] == 1

    with pytest.raises(SimulationError, match="pointer to nowhere") as raised:
        module["k"].simulate(o, 1, block=1)

    assert raised.value.given == "address 0x0"
    places = [str(entry.path).rpartition("/")[2] for entry in raised.traceback]
    assert places == ["test_variables.py", "public.py", "kernel.cu"]


def test_a_kernel_and_the_variables_show_what_they_are(signed: LoadedModule) -> None:
    assert repr(signed["k"]) == "<LoadedKernel: k, of o>"
    assert repr(signed.globals).startswith("<variables: ")
    assert "a::twice, x::y::twice" in repr(signed.globals)
