"""Device code of .cu files: host code is removed, lines stay, includes stay within their folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tilewright.checking import check
from tilewright.errors import ArgumentError, SimulationError, ToolError
from tilewright.load import cu_headers, load_cu
from tilewright.load.cu_compile import compile_cu
from tilewright.load.cu_cut import blanked
from tilewright.load.cu_launches import instances, launched, launches
from tilewright.load.cu_tree import kernels, pieces

MIXED = r"""#include <vector>
#include <cstdio>
#include <cuda_runtime.h>
#include <stdint.h>
#include "helper_cuda.h"
#define N 128
#define CHECK(x) do { cudaError_t e = x; if (e) { printf("%s", "}"); exit(1); } } while (0)
static const int M = 4;
struct Host { std::vector<float> v; };
struct Pair { float a, b; __device__ float sum() const { return a + b; } };
namespace mine {
__device__ inline uint32_t twice(uint32_t x) { return 2 * x; }
template <typename T, int K> __global__ void scale(T* p, T s) {
    int i = blockIdx.x * K + threadIdx.x;  // "quotes" in a comment {
    if (i < N) p[i] = s * p[i] + (T)mine::twice(M);
}
}
extern "C" __global__ void __launch_bounds__(128) plain(int* p) { p[threadIdx.x] = R"(})"[0]; }
int helper(int x) { return x + 1; }
int main(int argc, char** argv) {
    std::vector<float> h(N, 1.0f);
    float* d;
    CHECK(cudaMalloc(&d, N * sizeof(float)));
    mine::scale<float, 128><<<1, 128>>>(d, 2.0f);
    return 0;
}
"""


def test_host_functions_are_chunks_without_a_device() -> None:
    host = [MIXED[one.start : one.stop] for one in pieces(MIXED) if not one.device]

    assert [part.strip().partition("(")[0] for part in host] == ["int helper", "int main"]


def test_blanked_text_keeps_its_lines() -> None:
    host = [one for one in pieces(MIXED) if not one.device]

    made = blanked(MIXED, host)

    assert made.count("\n") == MIXED.count("\n")
    assert "cudaMalloc(&d" not in made
    assert "twice" in made


def test_kernels_and_the_instances_that_the_file_launches_are_found() -> None:
    assert kernels(MIXED) == ["scale", "plain"]
    assert instances(MIXED) == ["mine::scale<float, 128>"]


def test_a_file_with_host_code_compiles_to_the_ptx_of_its_kernels() -> None:
    made = compile_cu(MIXED, "mixed.cu", "sm_90a", defines={}, include=(), names=())

    assert made.names == {"mine::scale<float, 128>": "_ZN4mine5scaleIfLi128EEEvPT_S1_"}
    assert ".entry plain(" in made.ptx
    assert '/mixed.cu"' in made.ptx.rpartition(".file")[2]


def test_a_mistake_in_a_kernel_is_told_at_its_line() -> None:
    with pytest.raises(ToolError, match="NVRTC refuses") as raised:
        compile_cu("#include <vector>\n__global__ void k(int* p) {\n    *p = nothing;\n}\n", "k.cu", "sm_90a",
                   defines={}, include=(), names=())  # fmt: skip

    assert raised.value.at is not None
    assert raised.value.at.line == 3
    assert "nothing" in str(raised.value.given)


def test_macros_that_make_kernels_are_device_code() -> None:
    text = """#define KERNEL static __global__ void
#define MAKE(name, op) __global__ void name(int* p) { *p = *p op 2; }
KERNEL one(int* p) { *p = 1; }
MAKE(plus, +)
MAKE(times, *)
int main() { one<<<1, 1>>>(nullptr); }
"""

    made = compile_cu(text, "k.cu", "sm_90a", defines={}, include=(), names=())

    assert [name for name in ("3one", "4plus", "5times") if f"{name}Pi(" in made.ptx] == ["3one", "4plus", "5times"]


def test_instances_that_a_file_makes_are_found() -> None:
    text = "template <int N> __global__ void k(int* p) { *p = N; }\ntemplate __global__ void k<7>(int*);\n"

    assert instances(text) == ["k<7>"]


HOST_HEADER = """#include <vector>
#include "../sizes.h"
static void die(const char* s) { fprintf(stderr, "%s", s); exit(1); }
__device__ int twice(int v) {
    return N * v;
}
int main() { std::vector<int> v(3); cudaMalloc(&v, 4); return 0; }
"""


EXPORTED = """#ifdef _WIN32
#define API __declspec(dllexport)
#else
#define API __attribute__((weak))
#endif
#define SIZE 4
int first(std::string name) { return SIZE; }
#define BODY __device__ int
int second(std::string name) { return SIZE; }
__global__ void k(int* x) { *x = SIZE; }
"""


def test_directives_are_no_pieces_and_stay() -> None:
    made = blanked(EXPORTED, [one for one in pieces(EXPORTED) if not one.device])

    assert [line for line in made.splitlines() if line.strip()] == [
        line for line in EXPORTED.splitlines() if "std::string" not in line
    ]
    assert load_cu(EXPORTED)["k"].parameters == ("x",)


def test_host_code_of_a_files_own_headers_is_left_out(tmp_path: Path) -> None:
    for folder in ("src", "common"):
        (tmp_path / folder).mkdir()
    (tmp_path / "common" / "host.h").write_text(HOST_HEADER)
    (tmp_path / "sizes.h").write_text("#define N 2\n")
    file = tmp_path / "src" / "k.cu"
    text = '#include "../common/host.h"\n__global__ void k(int* p) { *p = twice(*p); }\n'

    made = compile_cu(text, str(file), "sm_90a", defines={}, include=(tmp_path,), names=())
    with pytest.raises(ToolError, match="leads out of the folders") as raised:
        compile_cu(text, str(file), "sm_90a", defines={}, include=(file.parent,), names=())

    assert f'"{tmp_path}/common/host.h"' in made.ptx
    assert "twice" in made.text
    assert raised.value.hint == f"include=['{tmp_path}/common'], or -I {tmp_path}/common"


def test_a_header_above_the_file_that_is_nowhere_is_left_out_as_any_other(tmp_path: Path) -> None:
    text = '#include "../utils.h"\n__global__ void k(int* p) { *p = 1; }\n'

    made = compile_cu(text, str(tmp_path / "k.cu"), "sm_90a", defines={}, include=(tmp_path,), names=())

    assert ".entry" in made.ptx


def test_what_is_missing_of_a_header_names_the_header() -> None:
    with pytest.raises(ToolError, match=r"k\.cu:2: there is no header mine\.h") as raised:
        compile_cu("#include <vector>\n#include <mine.h>\n__global__ void k(int* p) { *p = MINE; }\n", "k.cu", "sm_90a",
                   defines={}, include=(), names=())  # fmt: skip

    assert raised.value.given == 'without it:\nline 3: identifier "MINE" is undefined'
    assert str(raised.value.hint).startswith("include=[FOLDER], or -I FOLDER, with mine.h")


def test_a_header_that_is_not_reached_is_not_missing() -> None:
    text = "#ifdef NEVER\n#include <mine.h>\n#endif\n__global__ void k(int* p) { *p = MINE; }\n"

    with pytest.raises(ToolError, match="NVRTC refuses the device code"):
        load_cu(text)


@pytest.mark.parametrize("header", ["thrust/sort.h", "cub/device/device_radix_sort.cuh", "iosfwd", "xlocale.h"])
def test_headers_of_what_the_host_calls_are_the_hosts(header: str) -> None:
    text = f"#include <{header}>\n" + "__global__ void k(int* p) { *p = 1; }\nint main() { thrust::sort(0, 0); }\n"

    assert ".entry _Z1kPi(" in compile_cu(text, "k.cu", "sm_90a", defines={}, include=(), names=()).ptx


def test_c_and_cpp_headers_have_what_kernels_use_of_them() -> None:
    text = """#include <algorithm>
#include <cmath>
#include <cfloat>
#include <math_constants.h>
__global__ void k(float* p) { *p = std::max(std::sqrt(*p), CUDART_PI_F * CUDART_SQRT_TWO_F) + std::abs(-FLT_DIG); }
"""

    assert "sqrt" in compile_cu(text, "k.cu", "sm_90a", defines={}, include=(), names=()).ptx


def test_headers_of_the_host_are_none_that_lack() -> None:
    text = """#include <ciso646>
#include <complex>
#include <numbers>
#include <dlfcn.h>
#include <torch/all.h>
__global__ void k(float* p) {
    int zero;
    std::memset(&zero, 0, sizeof zero);
    *p = std::complex<float>(1, zero).real();
}
"""

    assert ".entry _Z1kPf(" in compile_cu(text, "k.cu", "sm_90a", defines={}, include=(), names=()).ptx


@pytest.mark.parametrize("name", ['"/etc/passwd"', "<../secret.h>", "TO(PATH)", '"a/../../b.h"'])
@pytest.mark.parametrize("word", ["include", "include_next"])
def test_an_include_outside_of_the_folders_is_refused(word: str, name: str) -> None:
    with pytest.raises(ToolError, match="leads out of the folders"):
        compile_cu(f"#{word} {name}\n", "k.cu", "sm_90a", defines={}, include=(), names=())


@pytest.mark.parametrize(
    "define",
    [
        '#define PATH "/etc/passwd"',
        '#define PATH X\n#define X "/etc/passwd"',
        '#def\\\nine PATH X\n#define X "/etc/passwd"',
        '#define PATH "/etc/passwd"\n#include PATH\n#undef PATH\n#define PATH <cmath>',
        '/**/#define PATH X\n#define X "/etc/passwd"',
        "%:define PATH <../secret.h>",
        '#define PATH <ok.h>\n#define PATH "/etc/passwd"',
    ],
)
def test_an_include_of_a_word_that_leads_outside_is_refused(define: str) -> None:
    with pytest.raises(ToolError, match=r"leads out of the folders"):
        compile_cu(f"{define}\n#include PATH\n", "k.cu", "sm_90a", defines={}, include=(), names=())


def test_headers_that_a_word_stands_for_are_included(tmp_path: Path) -> None:
    (tmp_path / "choice.h").write_text("#define NUMBERS <numbers.h>\n")
    (tmp_path / "numbers.h").write_text("#define SEVEN 7\n")
    text = ('#include "choice.h"\n#include NUMBERS\n#if defined MINE\n#include MINE\n#endif\n'
            "__global__ void k(int* p) { *p = SEVEN; }\n")  # fmt: skip

    made = compile_cu(text, "k.cu", "sm_90a", defines={}, include=(tmp_path,), names=())

    assert ".entry _Z1kPi(" in made.ptx


def test_a_refused_kernel_is_told_with_the_alias_that_was_left_out_before() -> None:
    text = "struct A { static const int n = 1; };\nusing Rows = A::Missing;\n__global__ void k(Rows* p) { *p = 1; }\n"

    with pytest.raises(ToolError) as raised:
        load_cu(text, kernels=["k"])

    assert 'line 3: identifier "Rows" is undefined' in str(raised.value)
    assert 'Rows, kernel.cu:2, left out: class "A" has no member "Missing"' in str(raised.value)


def test_kernels_that_nobody_asks_for_may_be_wrong() -> None:
    text = "__global__ void wrong(Missing* p) { *p = 1; }\ntemplate <int N> __global__ void k(int* p) { *p = N; }\n"

    assert "k" in load_cu(text, kernels=["k<3>"])["k<3>"].name
    with pytest.raises(ToolError, match="NVRTC refuses the device code"):
        load_cu(text)


@pytest.mark.skipif(
    not cu_headers.wheel_folders(), reason="NVIDIA's headers are not installed: pip install tilewright[cu]"
)
def test_names_that_cub_had_before_are_there() -> None:
    text = """
    #include <cub/cub.cuh>
    __global__ void k(float* p) {
        __shared__ typename cub::BlockReduce<float, 64>::TempStorage s;
        float most = cub::BlockReduce<float, 64>(s).Reduce(p[threadIdx.x], cub::Max());
        cub::CTA_SYNC();
        if (threadIdx.x == 0) p[0] = cub::Sum()(most, cub::LaneId());
    }
    """
    p = np.arange(64, dtype=np.float32)

    load_cu(text)["k"].simulate(p, grid=1, block=64)

    assert p[0] == 63


def test_headers_of_named_folders_are_included_with_their_own_includes(tmp_path: Path) -> None:
    (tmp_path / "sizes.h").write_text('#pragma once\n#include "more.h"\n#define N MORE\n')
    (tmp_path / "more.h").write_text("#define MORE 7\n")

    made = compile_cu('#include "sizes.h"\n__global__ void k(int* p) { *p = N * X; }\n', "k.cu", "sm_90a",
                      defines={"X": 3}, include=(tmp_path,), names=())  # fmt: skip

    assert ", 21;" in made.ptx


def test_a_header_whose_name_a_macro_makes_is_included() -> None:
    text = "#define STD_HEADER(name) <cuda/std/name>\n#include STD_HEADER(cstdint)\n"
    kernel = "__global__ void k(cuda::std::int32_t* p) { *p = 1; }\n"

    assert ".entry _Z1kPi(" in compile_cu(text + kernel, "k.cu", "sm_90a", defines={}, include=(), names=()).ptx


def test_functions_of_the_device_by_a_macro_of_a_header_are_kept(tmp_path: Path) -> None:
    (tmp_path / "words.h").write_text("#define OF_DEVICE __forceinline__ __device__\n#define HOT OF_DEVICE\n")
    text = '#include "words.h"\nHOT int twice(int v) { return 2 * v; }\n__global__ void k(int* p) { *p = twice(*p); }\n'
    host = "int main() { std::vector<int> v; k<<<1, 1>>>(nullptr); }\n"

    made = compile_cu(text + host, "k.cu", "sm_90a", defines={}, include=(tmp_path,), names=())

    assert ".entry _Z1kPi(" in made.ptx


def test_options_reach_the_compiler() -> None:
    text = "__global__ void k(unsigned long long* p) { *p = (unsigned long long)(((__int128)*p * *p) >> 64); }\n"

    with pytest.raises(ToolError, match="128"):
        compile_cu(text, "k.cu", "sm_90a", defines={}, include=(), names=())
    made = compile_cu(text, "k.cu", "sm_90a", defines={}, include=(), names=(), options=["--device-int128"])

    assert "mul.hi.u64" in made.ptx


@pytest.mark.parametrize("option", ["-arch=sm_80", "--gpu-architecture=compute_80", "-DX", "x.cu"])
def test_options_that_have_an_argument_of_their_own_are_refused(option: str) -> None:
    with pytest.raises(ArgumentError, match="does not hand this option on"):
        load_cu("__global__ void k() {}\n", options=[option])


def test_parts_of_cub_come_with_its_header_of_everything() -> None:
    text = """#include <cub/cub.cuh>
struct Less { __device__ bool operator()(int a, int b) const { return a < b; } };
struct Minus { __device__ int operator()(int a, int b) const { return a - b; } };
__global__ void k(int* p) {
  typedef cub::BlockMergeSort<int, 32, 2> Sort;
  typedef cub::BlockAdjacentDifference<int, 32> Steps;
  __shared__ union { typename Sort::TempStorage sort; typename Steps::TempStorage steps; } s;
  int mine[2] = {p[threadIdx.x * 2], p[threadIdx.x * 2 + 1]}, apart[2];
  Sort(s.sort).Sort(mine, Less());
  __syncthreads();
  Steps(s.steps).SubtractLeft(mine, apart, Minus());
  p[threadIdx.x * 2] = apart[0]; p[threadIdx.x * 2 + 1] = apart[1];
}
"""
    given = np.random.default_rng(0).permutation(64).astype(np.int32) * 3
    found = given.copy()

    load_cu(text)["k"].simulate(found, block=32)

    assert found.tolist() == [0, *[3] * 63]


def test_launches_of_the_host_are_read_with_their_lines() -> None:
    text = "template <int N> __global__ void k(int*);\nvoid f(int* p) {\n  k<4><<<dim3(2, 3), 128, 4 * 32>>>(p);\n}\n"

    (found,) = launches(text)

    assert (found.kernel, found.words, found.line) == ("k<4>", ("dim3(2, 3)", "128", "4 * 32"), 3)


@pytest.mark.parametrize(
    ("launch", "shape"),
    [
        ("k<<<4, 128>>>(p);", ((4,), (128,), 0)),
        ("const int n = 1 << 10; k<<<(n + 255) / 256, 256, 4 * 32>>>(p);", ((4,), (256,), 128)),
        ("dim3 grid(N / 16, 2), block{16, 16}; k<<<grid, block>>>(p);", ((4, 2), (16, 16), 0)),
        ("k<<<dim3(2, 3, 4), 32u>>>(p);", ((2, 3, 4), (32,), 0)),
        ("int n = 4; n = atoi(argv[1]); k<<<n, 32>>>(p);", None),
        ("k<<<blocks, 32>>>(p);", None),
        ("k<<<1 / 0, 32>>>(p);", None),
        ("other<<<4, 128>>>(p);", None),
    ],
)
def test_a_launch_of_the_file_is_read_where_its_numbers_are_constants(
    launch: str, shape: tuple[tuple[int, ...], tuple[int, ...], int] | None
) -> None:
    text = f"#define N 64\n__global__ void k(int*);\nint main(int argc, char** argv) {{\n{launch}\n}}\n"

    found = [(each.grid, each.block, each.shared_bytes) for each in launched(text, "k") if not each.lacks]

    assert found == ([] if shape is None else [shape])


OF_ONE_FILE = """static __device__ int first[2];
namespace mine {
namespace {
__device__ int second[2];
template <int N> __global__ void k(int* p) { *p = ++first[0] + second[0] + N; }
}
void host(int* p) { k<3><<<1, 1>>>(p); }
}
"""


def test_kernels_of_a_namespace_without_a_name_have_both_builds_and_their_variables() -> None:
    module, out = load_cu(OF_ONE_FILE), np.zeros(1, np.int32)

    verdict = check(module["mine::k<3>"], out, grid=1, block=1)

    assert verdict.builds == ("optimised", "unoptimised")
    assert sorted(module.globals) == ["first", "second"]


OF_BOTH = """#pragma once
#ifdef __cplusplus
extern "C" {
#endif
#define OLD(what, hint) what __attribute__((deprecated(hint)))
OLD(struct row * add(struct row * a, float b, float c), "use sum, (or others)");
struct row { float x[4]; };
void print_rows(FILE * file);
#ifdef ON_GPU
#define TABLE(type, name, size) static const __device__ type name[size] = {
#else
#define TABLE(type, name, size) static const type name[size] = {
#endif
#define TABLE_END() };
TABLE(int, weights, 3)
    1, 2, 3
TABLE_END()
typedef struct { __extension__ union { struct { int a, b; }; long long both; }; } pair_of;
#ifdef  __cplusplus
}
#endif
"""


def test_a_header_for_c_with_tables_and_wrapped_declarations_is_read(tmp_path: Path) -> None:
    (tmp_path / "both.h").write_text(OF_BOTH)
    (tmp_path / "k.cu").write_text(
        '#define ON_GPU\n#include "both.h"\n__global__ void k(row* r, pair_of p) { r->x[0] = weights[2] + p.b; }\n'
        "void run() { k<<<1, 1>>>(nullptr, {}); }\n"
    )
    ptx = compile_cu((tmp_path / "k.cu").read_text(), str(tmp_path / "k.cu"), "sm_90a", defines={},
                     include=[tmp_path], names=[])  # fmt: skip
    assert ".entry" in ptx.ptx
    wrapped = [piece for piece in pieces(OF_BOTH) if "add(" in OF_BOTH[piece.start : piece.stop]]
    assert [piece.device for piece in wrapped] == [False]
    assert not any("row {" in OF_BOTH[piece.start : piece.stop] for piece in wrapped)


def test_directives_inside_of_what_is_left_out_stay() -> None:
    text = "void host(\n#ifdef A\n  int\n#else\n  long\n#endif\n  n) {}\n"
    assert blanked(text, pieces(text)).split() == ["#ifdef", "A", "#else", "#endif"]


def test_a_header_of_two_names_is_one(tmp_path: Path) -> None:
    (tmp_path / "gpu").mkdir()
    (tmp_path / "gpu" / "common.cuh").write_text("#pragma once\n__device__ int twice(int a) { return 2 * a; }\n")
    (tmp_path / "gpu" / "k.cuh").write_text('#include "common.cuh"\n')
    text = '#include "gpu/common.cuh"\n#include "k.cuh"\n__global__ void k(int* p) { *p = twice(*p); }\n'
    (tmp_path / "gpu" / "k.cu").write_text(f"{text}void run() {{ k<<<1, 1>>>(nullptr); }}\n")

    assert load_cu(tmp_path / "gpu" / "k.cu", include=[tmp_path]).kernels == ["k"]


def test_the_header_of_an_extra_is_its_own_where_that_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "#include <curand.h>\n#include <cuda_runtime.h>\n"
    monkeypatch.setattr(cu_headers, "wheel_folders", lambda: (tmp_path,))
    assert {"curand.h", "cuda_runtime.h"} <= cu_headers.headers(text, tmp_path, [])[1].keys()

    for name in ("curand.h", "cuda_runtime.h"):
        (tmp_path / name).write_text("")
    stand_ins = cu_headers.headers(text, tmp_path, [])[1]
    assert "curand.h" not in stand_ins
    assert "cuda_runtime.h" in stand_ins


def test_a_variable_by_the_name_of_a_parameter_is_not_the_parameter() -> None:
    text = """
__global__ void k(float* out) {
    auto put = [&](int i) { out[i] = 1; };
    put(threadIdx.x);
}
"""
    verdict = check(load_cu(text)["k"], np.zeros(32, np.float32), grid=1, block=32)

    assert verdict.findings == ()


def test_a_report_has_no_names_of_registers() -> None:
    text = """
__global__ void k(float* out) {
    int own[4];
    own[threadIdx.x % 4] = 3;
    if (own[0] == 3) out[threadIdx.x] = 1;
}
"""
    with pytest.raises(SimulationError, match=r"kernel.cu:5: a value is uninitialised"):
        load_cu(text)["k"].simulate(np.zeros(32, np.float32), block=32, check="all")


def test_a_store_through_a_pointer_is_one_to_memory() -> None:
    text = """
__global__ void k(const float* x, float* y) {
    float w;
    if (x[threadIdx.x] > 1) w = __shfl_xor_sync(0xffffffff, x[threadIdx.x], 1);
    if (x[threadIdx.x] > 0) y[threadIdx.x] = w;
}
"""
    found = check(load_cu(text)["k"], np.ones(32, np.float32), np.zeros(32, np.float32), grid=1, block=32)

    (first, *_) = found.findings
    assert first.given is not None
    assert first.given.startswith(("a store to memory", "a store to y"))


def test_instances_of_templates_of_one_name_have_the_parameters_of_their_own() -> None:
    text = """
template <typename T, int N> __global__ void scale(T* x) { x[threadIdx.x] *= N; }
template <typename T> __global__ void scale(const T* from, T* to) { to[threadIdx.x] = from[threadIdx.x]; }
"""
    names = ["scale<float, 4>", "scale<int, 2>", "scale<double>"]
    module = load_cu(text, kernels=names)

    assert [[(each.name, each.element) for each in module[name].written] for name in names] == [
        [("x", "float32")], [("x", "int32")], [("from", "float64"), ("to", "float64")],
    ]  # fmt: skip
    assert [module[name].title for name in names] == names
    assert load_cu(text, kernels=names[:1])["scale"].title == "scale"


def test_a_brace_that_one_of_two_conditions_closes_leaves_the_rest_of_the_kernel() -> None:
    text = """
__global__ void k(const float* x, float* out, int n) {
    float v = 0;
    if (threadIdx.x < n) {
        v = x[threadIdx.x];
#ifdef TOGETHER
    }
#endif
    v += __shfl_xor_sync(0xffffffff, v, 1);
#ifndef TOGETHER
    }
#endif
    out[threadIdx.x] = v;
}
void run(const float* x, float* out) { k<<<1, 32>>>(x, out, 20); }
"""
    for defines in ({}, {"TOGETHER": "1"}):
        x, out = np.ones(32, np.float32), np.zeros(32, np.float32)
        load_cu(text, defines=defines)["k"].simulate(x, out, 20, grid=1, block=32)
        assert out.tolist() == [2.0] * 20 + [0.0] * 12


def test_instances_of_templates_that_share_a_name_are_told_apart_by_what_they_take() -> None:
    text = """
template <typename T> __global__ void scale(T* out, const signed char* in, int rows, int cols) { out[rows] = in[cols]; }
__global__ void scale(float* out, const signed char* in, unsigned n) { out[n] = 0; }
template <typename T> __global__ void scale(T* to, const signed char* from, unsigned n) { to[n] = 2 * from[n]; }
"""
    names = ["scale<float>(float*, const signed char*, unsigned)", "scale<float>(float*, const signed char*, int, int)"]
    module = load_cu(text, kernels=names)
    one, two = (module[name] for name in names)
    out, values = np.zeros(4, np.float32), np.array([1, 2, 3, 4], np.int8)

    assert [[each.name for each in kernel.written] for kernel in (one, two)] == [
        ["to", "from", "n"], ["out", "in", "rows", "cols"]]  # fmt: skip
    one.simulate(out, values, 1, grid=1, block=1)
    two.simulate(out, values, 2, 3, grid=1, block=1)
    assert out.tolist() == [0, 4, 4, 0]
    with pytest.raises(ToolError, match="which instance of overloaded function"):
        load_cu(text, kernels=["scale<float>"])


def test_what_a_constructor_initialises_may_depend_on_macros() -> None:
    """Between its head and its body, which are one function, as in GLM."""
    text = """
#define GPU __host__ __device__
#if __cplusplus > 201000
#define HAS_LISTS 1
#endif
template <int N, typename T> struct Vector {
    T value[N];
    GPU constexpr Vector(T a, T b);
};
template <int N, typename T>
GPU constexpr Vector<N, T>::Vector(T a, T b)
#   if HAS_LISTS
        : value{a, b}
#   endif
{
#   if !HAS_LISTS
        value[0] = a;
        value[1] = b;
#   endif
}
__global__ void k(float* x) { Vector<2, float> v(x[0], 3); x[1] = v.value[0] + v.value[1]; }
void run(float* x) { k<<<1, 1>>>(x); }
"""
    x = np.ones(2, np.float32)
    load_cu(text)["k"].simulate(x, grid=1, block=1)

    assert x.tolist() == [1, 4]


def test_functions_of_the_host_that_kept_code_calls_stay_declared() -> None:
    """As those that tell of an error in a `constexpr` function, which a kernel's configuration needs."""
    text = """
#include <string>
[[noreturn]] void fail(const char* what, int line);
std::string unknown(int a);
constexpr int most(int a) {
    if (a > 64) { fail("too many", __LINE__); }
    return a;
}
template <int N> struct Config { static constexpr int n = most(N); };
__global__ void k(int* p) { *p = Config<8>::n; }
void run(int* p) { k<<<1, 1>>>(p); }
"""
    p = np.zeros(1, np.int32)
    load_cu(text)["k"].simulate(p, grid=1, block=1)

    assert p[0] == 8


def test_declarations_that_macros_make_of_instances_of_host_functions_are_left_out_whole() -> None:
    text = """
struct Context;
template <int N> __global__ void k(int* p) { *p = N; }
template <int N> void run(Context& c, int* p) { k<N><<<1, 1>>>(p); }
#define CASE(N) \\
    template void run<N>(Context& c, int* p)
#define CASES(N)     \\
    extern CASE(N);  \\
    extern CASE(N + 1); \\

CASES(2)
CASES(4)

// and few
extern CASE(16);
extern CASE(17);
extern CASE(18);
"""
    p = np.zeros(1, np.int32)
    load_cu(text, kernels=["k<3>"])["k<3>"].simulate(p, grid=1, block=1)

    assert p[0] == 3


@pytest.mark.parametrize("words", ["__device__", "__host__ __device__", "ON_GPU", ""])
def test_lambdas_of_device_code_may_say_where_they_run(words: str) -> None:
    """nvcc takes that, NVRTC does not."""
    text = f"""
#define ON_GPU __host__ __device__ __forceinline__
template <class F> __device__ void each(F step) {{ step(threadIdx.x); }}
__global__ void k(float* x) {{
    each([=] {words} (int i) {{ x[i] += 1; }});
    auto twice = [&] {words} (auto n) -> float {{ return 2 * n; }};
    x[threadIdx.x] = twice(x[threadIdx.x]);
}}
void run(float* x) {{ k<<<1, 32>>>(x); }}
"""
    x = np.ones(32, np.float32)
    load_cu(text)["k"].simulate(x, grid=1, block=32)

    assert x.tolist() == [4.0] * 32


def test_blocks_that_each_branch_of_a_condition_opens_are_read_once() -> None:
    """As `if (a) {` here, `if (b) {` there, and one brace that closes both."""
    text = """namespace {
__global__ void k(int* p) {
#if __CUDA_ARCH__ >= 800
    if (*p > 1) {
#else
    if (*p > 2) {
#endif
        *p = 0;
    }
}
}
void host(int* p) {
    k<<<1, 1>>>(
#if defined(SOMEWHERE) && \\
    (ELSE > 1)
        p + 1);
#else
        p);
#endif
}
void of_the_host(int* p,
#ifdef SOMEWHERE
                 Unknown p = 0);
#else
                 Other p = 0);
#endif
int main() { int* p; cudaMalloc(&p, 4); host(p); }
"""

    p = np.array([2], np.int32)
    load_cu(text)["k"].simulate(p, grid=1, block=1)

    assert p[0] == 0
    heads = [text[piece.start : piece.stop].strip().partition("(")[0] for piece in pieces(text)]
    assert [head.rpartition("\n")[2] for head in heads] == [
        "__global__ void k", "void host", "void of_the_host", "int main"]  # fmt: skip


PASSED_BY = """
__global__ void k(int* p) {
    p[threadIdx.x] = 1;
    BODY
}
"""


@pytest.mark.parametrize(
    "body",
    ["if (threadIdx.x < 40) __syncthreads();", "if (threadIdx.x < 32) { __syncthreads(); }",
     "for (int i = threadIdx.x; i < 80; i += 64)\n        __syncthreads();"],
)  # fmt: skip
def test_a_barrier_that_threads_pass_by_on_their_way_to_the_end_is_a_warning(body: str) -> None:
    verdict = check(load_cu(PASSED_BY.replace("BODY", body))["k"], np.zeros(64, np.int32), grid=1, block=64)

    (finding,) = verdict.findings
    assert verdict
    assert (finding.severity, finding.kind, finding.line) == ("warning", "divergence", 4 + body.count("\n"))
    assert finding.message.startswith("__syncthreads in line")


def test_a_barrier_behind_a_return_is_met_by_the_others() -> None:
    early = "if (threadIdx.x >= 40) return;\n    __syncthreads();"
    in_a_loop = "for (int i = 0; i < 3; ++i) { __syncthreads(); if (threadIdx.x >= 40) return; }"
    for body in (early, in_a_loop, "__syncthreads();"):
        verdict = check(load_cu(PASSED_BY.replace("BODY", body))["k"], np.zeros(64, np.int32), grid=1, block=64)
        assert not verdict.findings


def test_a_macro_by_a_name_of_nvidias_headers_is_told() -> None:
    with pytest.raises(ToolError, match="NVRTC refuses") as raised:
        load_cu(
            "#include <cooperative_groups.h>\n__global__ void k(int* p) { *p = 1; }\n", defines={"thread_rank": "3"}
        )

    assert raised.value.hint == "another name than -D thread_rank: these headers use it for something else"


@pytest.mark.parametrize("both", [False, True])
def test_an_uninitialised_value_names_the_shared_array_it_comes_from(both: bool) -> None:
    text = """__global__ void k(float* out, const float* in) {
    __shared__ float s[33], t[32];
    s[threadIdx.x] = t[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    float v = s[threadIdx.x + 1] + t[threadIdx.x];
    out[threadIdx.x] = v;
}
"""
    arrays = [np.zeros(32, np.float32) for _ in range(2)]

    verdict = check(load_cu(text)["k"], *arrays, grid=1, block=32, both=both)

    (finding,) = verdict.findings
    assert str(finding.given).endswith("lane 31; s[32], read in line 5, has no value")


REMARKS = """
int twice(int x) {
/* A remark:
# a line of it that looks like a directive
*/
#define HALF 2 /* of a whole,
  and no more */
#define NAME "a // b"
    return x * HALF;
}
"""


def test_lines_of_a_comment_are_no_directives_where_host_code_is_left_out() -> None:
    made = blanked(REMARKS, [one for one in pieces(REMARKS) if not one.device])
    assert made.split() == ["#define", "HALF", "2", "#define", "NAME", '"a', "//", 'b"']
    assert made.count("\n") == REMARKS.count("\n")
