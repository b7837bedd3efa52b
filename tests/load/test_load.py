"""Loading kernels that others wrote, and the arguments of their calls."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import ArgumentError, InstructionError, KernelError, SimulationError

VADD = """
extern "C" __global__ void vadd(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""
PTX = """
.version 8.0
.target sm_90
.address_size 64
.global .align 4 .u32 table[4] = {1, 2, 3, 4};
.global .align 8 .u64 pointer = table;
.visible .entry k(.param .u64 out, .param .u32 n)
.reqntid 32
{
    .reg .b32 %r<6>; .reg .b64 %rd<6>; .reg .pred p;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    setp.ge.u32 p, %r2, %r1;
@p  bra DONE;
    ld.global.u64 %rd2, [pointer];
    { .reg .b32 %r<2>; and.b32 %r1, %r2, 3; mul.wide.u32 %rd3, %r1, 4; bra DONE; DONE: }
    add.s64 %rd4, %rd2, %rd3;
    ld.u32 %r3, [%rd4];
    mul.wide.u32 %rd3, %r2, 4;
    add.s64 %rd5, %rd1, %rd3;
    st.global.u32 [%rd5], %r3;
DONE:
    ret;
}
"""


def vadd(n: int = 100) -> list[np.ndarray]:
    a = np.arange(n, dtype=np.float32)
    return [a, 2 * a, np.zeros_like(a)]


def test_a_cu_text_is_loaded_and_run() -> None:
    a, b, c = vadd()

    tw.load_cu(VADD)["vadd"].simulate(a, b, c, 100, grid=4, block=32)

    assert (c == a + b).all()


def test_an_access_outside_of_an_array_is_told_at_the_line_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "vadd.cu"
    path.write_text(VADD.replace("<", "<="))

    with pytest.raises(SimulationError, match="load reads outside of b") as raised:
        tw.load_cu(path)["vadd"].simulate(*vadd(), 100, grid=4, block=32)

    assert str(raised.value.at) == "vadd.cu:4"


def test_ptx_scopes_its_names_and_its_variables_hold_addresses() -> None:
    module = tw.load_ptx(PTX)
    out = np.zeros(32, np.uint32)

    module["k"].simulate(out, 20)

    assert out.tolist() == [1, 2, 3, 4] * 5 + [0] * 12


def test_a_vector_of_one_is_a_register_as_triton_writes_it() -> None:
    out = np.zeros(32, np.uint32)

    text = PTX.replace("ld.u32 %r3, [%rd4];", "ld.b32 {%r3}, [%rd4];").replace("[%rd5], %r3;", "[%rd5], {%r3};")
    tw.load_ptx(text)["k"].simulate(out, 3)

    assert out.tolist() == [1, 2, 3] + [0] * 29


def test_globals_are_arrays_that_callers_set() -> None:
    module = tw.load_ptx(PTX)
    out = np.zeros(4, np.uint32)

    module.globals["table"][:] = [9, 8, 7, 6]
    module["k"].simulate(out, 4)

    assert out.tolist() == [9, 8, 7, 6]


def test_what_a_kernel_leaves_in_a_global_the_next_one_finds() -> None:
    module = tw.load_cu("__device__ int count = 5;\n__global__ void up(int* out) { *out = count; count += 1; }\n")
    out = np.zeros(1, np.int32)

    for expected in (5, 6, 7):
        module["up"].simulate(out, grid=1, block=1)
        assert out[0] == expected


@pytest.mark.parametrize("value", [b"\x02\0\0\0\0\0\x40\x40", np.array((2, 3.0), "i4,f4"), None])
def test_structures_come_as_bytes_records_or_ctypes(value: object) -> None:
    class Pair(ctypes.Structure):
        _fields_ = (("n", ctypes.c_int), ("x", ctypes.c_float))

    module = tw.load_cu("struct P { int n; float x; };\n__global__ void k(P p, float* out) { *out = p.n * p.x; }\n")
    out = np.zeros(1, np.float32)

    module["k"].simulate(Pair(2, 3.0) if value is None else value, out, grid=1, block=1)

    assert out[0] == 6


GRAPH = """struct Size { int x, y; };
typedef struct Graph { double scale; Size size; float weights[2]; int* next; const float* values; } Graph;
template <class V> struct Any { V* data; int n; };
__global__ void walk(Graph g, float* out) {
    int v = threadIdx.x;
    if (v < g.size.x * g.size.y) out[v] = g.scale * g.weights[v % 2] * g.values[g.next[v]];
}
__global__ void fill(Any<float> any) { if (threadIdx.x < any.n) any.data[threadIdx.x] = 1; }
__global__ void copy(float** to, float** from) { to[blockIdx.x][threadIdx.x] = from[blockIdx.x][threadIdx.x]; }
"""


def test_a_structure_is_given_by_its_fields_with_arrays_for_pointers() -> None:
    kernel, out = tw.load_cu(GRAPH)["walk"], np.zeros(8, np.float32)
    following, values = np.arange(8, dtype=np.int32)[::-1].copy(), np.arange(8, dtype=np.float32)
    fields = {"scale": 2.0, "size": (2, 4), "weights": [1.0, 10.0], "next": following, "values": values}

    for given in (fields, tuple(fields.values())):
        out[:] = 0
        kernel.simulate(given, out, block=8)
        assert out.tolist() == [14, 120, 10, 80, 6, 40, 2, 0]
    with pytest.raises(SimulationError, match=r"load reads outside of g\.values"):
        kernel.simulate(fields | {"values": values[:5].copy()}, out, block=8)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"size": 8}, r"g.size is no value of its field.*\(x, y\)"),
        ({"next": 3}, "g.next is no value of its field.*an array or None"),
        ({"weights": [1.0, 2.0, 3.0]}, "g.weights has 2 elements"),
        ({"more": 1}, "g has other fields.*scale, size"),
    ],
)
def test_what_is_no_field_is_told_by_its_name(change: dict[str, object], words: str) -> None:
    fields = {"scale": 2.0, "size": (2, 4), "weights": [1.0, 10.0], "next": None, "values": None}

    with pytest.raises(ArgumentError, match=f"(?s){words}"):
        tw.load_cu(GRAPH)["walk"].simulate(fields | change, np.zeros(8, np.float32), block=8)


def test_numbers_of_a_structure_that_nobody_declares_plainly_are_numpys() -> None:
    kernel, data = tw.load_cu(GRAPH.replace("V* data;", "virtual ~Any() {} V* data;"))["fill"], np.zeros(4, np.float32)

    with pytest.raises(ArgumentError, match=r"(?s)any.1 is no value.*np.int32\(7\)"):
        kernel.simulate((data, 3), block=4)


def test_an_instance_of_a_template_is_given_by_its_fields() -> None:
    kernel, data = tw.load_cu(GRAPH)["fill"], np.zeros(4, np.float32)

    kernel.simulate((data, 3), block=4)

    assert data.tolist() == [1, 1, 1, 0]


def test_a_table_of_pointers_is_its_arrays() -> None:
    to, source = [np.zeros(4, np.float32) for _ in range(2)], [np.full(4, k, np.float32) for k in (5, 6)]

    tw.load_cu(GRAPH)["copy"].simulate(to, source, grid=2, block=4)

    assert [array.tolist() for array in to] == [[5] * 4, [6] * 4]


LARGE = "__global__ void k(float* o) { __shared__ float s[N]; s[threadIdx.x] = *o; __syncthreads(); *o = s[0]; }\n"


@pytest.mark.parametrize(
    ("floats", "launch", "error", "words"),
    [
        (12289, {}, KernelError, "k has too much static shared memory"),
        (1024, {"shared_bytes": 228 << 10}, KernelError, "k has too much shared memory"),
        (1024, {"grid": (1, 1 << 16)}, ArgumentError, "grid is larger than a launch takes"),
        (1024, {"block": (1, 1, 65)}, ArgumentError, "block is larger than a launch takes"),
    ],
)
def test_what_no_gpu_launches_is_refused(
    floats: int, launch: dict[str, object], error: type[Exception], words: str
) -> None:
    kernel = tw.load_cu(LARGE, defines={"N": floats})["k"]

    with pytest.raises(error, match=words):
        kernel.simulate(np.zeros(1, np.float32), **{"block": 1, **launch})  # type: ignore[arg-type]


def test_instances_of_templates_are_named_as_they_are_launched() -> None:
    module = tw.load_cu("template <int K> __global__ void k(int* out) { *out = K; }\n", kernels=["k<3>", "k<4>"])
    out = np.zeros(1, np.int32)

    module["k<4>"].simulate(out, grid=1, block=1)

    assert out[0] == 4
    assert sorted(module.kernels) == ["k<3>", "k<4>"]
    with pytest.raises(ArgumentError, match="several kernels"):
        module["k"]


@pytest.mark.parametrize(
    ("args", "launch", "words"),
    [
        ((), {"block": 32}, "takes 4 arguments"),
        ((*vadd(), vadd()[0]), {"block": 32}, "argument n is a number"),
        ((*vadd(), 1 << 40), {"block": 32}, "argument n has 32 bits"),
        ((*vadd(), 1.5), {"block": 32}, "argument n is a number"),
        ((*vadd(), 100), {}, "does not say how many threads"),
        ((*vadd(), 100), {"block": 2048}, "too many threads"),
        ((*vadd(), 100), {"block": (0, 1)}, "block is one to three numbers"),
        ((*vadd(), 100), {"block": 32, "grid": 3, "cluster": 2}, "whole clusters"),
        ((*vadd()[:2], 3, 100), {"block": 32}, "argument c is a pointer"),
        ((*vadd(), 100), {"block": 32, "n": 3}, "argument n of vadd is given twice"),
    ],
)
def test_a_wrong_call_says_what_is_allowed(args: tuple[object, ...], launch: dict[str, object], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        tw.load_cu(VADD)["vadd"].simulate(*args, **launch)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "nearest"), [("gird", "grid"), ("checks", "check"), ("m", "n")])
def test_a_name_that_no_argument_has_gets_the_nearest_one(name: str, nearest: str) -> None:
    with pytest.raises(ArgumentError, match=f"vadd has no parameter '{name}'") as raised:
        tw.load_cu(VADD)["vadd"].simulate(*vadd(), block=32, **dict[str, Any]({name: 4}))

    assert str(raised.value.allowed).endswith(f"(did you mean {nearest!r}?)") or name == "m"


def test_a_wrong_call_is_told_in_the_names_and_types_of_the_file() -> None:
    file = "template <int K> __global__ void scaled(const float* __restrict__ rows, unsigned int n, double f [3]) {}\n"

    with pytest.raises(ArgumentError, match=r"^scaled takes 3 arguments") as raised:
        tw.load_cu(file, kernels=["scaled<3>"])["scaled<3>"].simulate(block=32)

    assert raised.value.allowed == "rows: const float*, n: unsigned int, f: double*"


def test_arguments_may_come_by_the_names_of_the_file() -> None:
    a, b, c = vadd()

    tw.load_cu(VADD)["vadd"].simulate(n=100, c=c, a=a, b=b, grid=4, block=32)

    assert (c == a + b).all()


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("sust.b.1d.b32.trap [t, {%r1}], {%r1};", KernelError, "surfaces"),
        ("call.uni (r), malloc, (%rd1);", KernelError, "heap on the device"),
        ("bra NOWHERE;", KernelError, "there is no label NOWHERE"),
        ("mov.u32 %r1, nothing;", KernelError, "nothing is declared nowhere"),
        ("frobnicate.u32 %r1, %r1;", InstructionError, "no instruction is spelled"),
        ("add.u32 %r1, %r1;", InstructionError, "lacks its operand"),
    ],
)
def test_what_is_not_supported_is_an_error_before_anything_runs(text: str, error: type[Exception], words: str) -> None:
    ptx = PTX.replace("mov.u32 %r2, %tid.x;", f".extern .func (.param .b64 r) malloc (.param .b64 n);\n{text}"
                      if "malloc" in text else text)  # fmt: skip
    ptx = ptx.replace(".extern .func (.param .b64 r) malloc (.param .b64 n);\n", "")

    with pytest.raises(error, match=words) as raised:
        tw.load_ptx(ptx)["k"].lowered(np.zeros(4, np.uint32), 4)

    assert raised.value.at.line == 13  # type: ignore[attr-defined]


def test_clocks_go_on_so_that_whoever_waits_comes_to_an_end() -> None:
    text = "__global__ void k(long long* out) { long long t = clock64(); while (clock64() - t < 100) {} *out = 1; }\n"
    out = np.zeros(1, np.int64)

    tw.load_cu(text)["k"].simulate(out, grid=1, block=1, limit_steps=1000)

    assert out[0] == 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [("1 + threadIdx.x * 1e-6f", "rounding alone"), ("7", ""), ("threadIdx.x", "race"), ("1 - threadIdx.x", "race")],
)
def test_lanes_of_one_store_may_differ_by_rounding_alone(value: str, expected: str) -> None:
    module = tw.load_cu(
        f"__global__ void k(float* out) {{ __shared__ float s; s = {value};\n__syncthreads(); *out = s; }}\n"
    )
    out = np.zeros(1, np.float32)

    try:
        told = " ".join(module["k"].simulate(out, grid=1, block=32).warnings)
    except SimulationError as error:
        told = error.what

    assert expected in told
    assert bool(told) == bool(expected)


def test_local_memory_has_addresses_of_32_bits_too() -> None:
    text = """
.version 8.8
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
.reqntid 32
{
    .local .align 8 .b8 depot[16]; .reg .b32 %SPL, %r<4>; .reg .b64 %rd<4>;
    mov.b32 %SPL, depot;
    mov.u32 %r1, %tid.x;
    st.local.b32 [%SPL+4], %r1;
    add.u32 %r2, %SPL, 4;
    cvt.u64.u32 %rd1, %r2;
    cvta.local.u64 %rd2, %rd1;
    ld.b32 %r3, [%rd2];
    ld.param.u64 %rd3, [out];
    mad.wide.u32 %rd3, %r1, 4, %rd3;
    st.global.b32 [%rd3], %r3;
    ret;
}
"""
    out = np.zeros(32, np.uint32)

    tw.load_ptx(text)["k"].simulate(out)

    assert out.tolist() == list(range(32))


TWICE = "__global__ void twice(const float* x, float* y, unsigned* n) { y[threadIdx.x] = 2 * x[threadIdx.x]; }\n"


def test_an_array_has_the_elements_that_its_parameter_points_to() -> None:
    kernel, y, n = tw.load_cu(TWICE)["twice"], np.zeros(32, np.float32), np.zeros(1, np.int32)

    with pytest.raises(ArgumentError, match=r"(?s)argument x points to float32.*float64.*x.astype\('float32'\)"):
        kernel.simulate(np.ones(32), y, n, block=32)

    kernel.simulate(np.ones(32, np.float32), y, n, block=32)  # signed or not is the same bits
    kernel.simulate(np.ones(32, np.float32).view(np.uint8), y, n, block=32)

    assert (y == 2).all()


def test_an_array_that_is_read_only_may_be_read_and_not_written() -> None:
    kernel, n = tw.load_cu(TWICE)["twice"], np.zeros(1, np.uint32)
    x, y = np.broadcast_to(np.float32(3), (32,)), np.zeros(32, np.float32)

    kernel.simulate(x, y, n, block=32)
    y.flags.writeable = False

    assert (y == 6).all()
    kernel.simulate(x, y, n, block=32)  # stores what is there already
    with pytest.raises(ArgumentError, match=r"(?s)argument y is written.*read-only.*y.copy\(\)"):
        kernel.simulate(np.zeros(32, np.float32), y, n, block=32)


def test_an_array_that_goes_backwards_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"(?s)argument x begins at its last element.*x.copy\(\)"):
        tw.load_cu(TWICE)["twice"].simulate(
            np.ones(32, np.float32)[::-1], np.zeros(32, np.float32), np.zeros(1, np.uint32), block=32
        )
