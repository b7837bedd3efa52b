"""Tensor maps that host code makes are read, and kernels are checked with them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.commands import ran
from tilewright.cli.argument_spec import argument_spec
from tilewright.errors import ArgumentError
from tilewright.host import TensorMap
from tilewright.load.cu_contents import map_of
from tilewright.load.cu_launches import launched
from tilewright.load.cu_tensor_maps import HostMap

TEXT = """
#include <cuda.h>
struct Both {{ CUtensorMap a; int n; }};
__global__ void k(const __grid_constant__ CUtensorMap m) {{}}
__global__ void both(const __grid_constant__ Both p) {{}}
void make(CUtensorMap* map, CUtensorMapDataType kind, void* p, int rows, int cols, int pitch) {{
    cuuint64_t dims[2] = {{(cuuint64_t)cols, (cuuint64_t)rows}}, strides[1] = {{pitch * sizeof(short)}};
    uint32_t box[] = {{64, 32}}, steps[] = {{1, 1}};
    CHECK(cuTensorMapEncodeTiled(map, kind, 2, p, dims, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
        CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
}}
int main(int argc, char** argv) {{
    short* x;
    cudaMalloc(&x, 96 * 128 * sizeof(short));
    {}
}}
"""
HALF = "CU_TENSOR_MAP_DATA_TYPE_FLOAT16"
BY_POINTER = f"""CUtensorMap m{{}};
    uint64_t size[2] = {{128, 96}}, stride[1] = {{256}};
    uint32_t box[2] = {{64, 32}}, el[2] = {{1, 1}};
    auto encode = reinterpret_cast<PFN_cuTensorMapEncodeTiled>(find());
    CUresult r = encode(&m, CUtensorMapDataType::{HALF}, 2, x, size, stride, box, el,
        CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE, CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
        CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);"""


def read(body: str, kernel: str, word: str) -> HostMap | None:
    """What host code makes of a word where it launches a kernel."""
    (launch,) = launched(TEXT.format(body), kernel)
    assert launch.host is not None
    return map_of(launch.host, word)


@pytest.mark.parametrize(
    ("body", "kernel", "word"),
    [
        (f"CUtensorMap m; make(&m, {HALF}, (void*)x, 96, 128, 128); k<<<1, 32>>>(m);", "k", "m"),
        (f"{BY_POINTER} k<<<1, 32>>>(m);", "k", "m"),
        (f"Both p; p.n = 3; make(&p.a, {HALF}, x, 96, 128, 128); both<<<1, 32>>>(p);", "both", "p.a"),
    ],
)
def test_a_map_is_read_where_host_code_makes_it(body: str, kernel: str, word: str) -> None:
    made = read(body, kernel, word)

    assert made is not None
    assert made.array is not None
    assert made.array.values.nbytes == 96 * 128 * 2
    assert (made.dtype, made.swizzle, made.oob) == ("float16", 3, "zero")
    assert (made.extents, made.strides, made.box) == ((96, 128), (128, 1), (32, 64))


def test_a_map_of_numbers_that_the_text_does_not_say_is_unknown() -> None:
    assert read(f"CUtensorMap m; make(&m, {HALF}, x, atoi(argv[1]), 128, 128); k<<<1, 32>>>(m);", "k", "m") is None


def test_a_map_on_the_command_line_has_its_array_box_and_swizzle() -> None:
    spec = argument_spec("m=map(f16[96,128]=ramp, box=32x64, swizzle=3, oob=nan)")
    name, made = spec.name, spec.made(np.random.default_rng(0))

    assert name == "m"
    assert isinstance(made, TensorMap)
    assert made.array.shape == (96, 128)
    assert (made.fields.box, made.fields.swizzle, made.fields.oob) == ((64, 32), 3, "nan")


def test_rows_of_a_map_may_be_apart() -> None:
    made = argument_spec("map(i32[4,8]=ramp, box=4x8, strides=12x1)").made(np.random.default_rng(0))

    assert made.array[:, 0].tolist() == [0, 12, 24, 36]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("m=map(f16[96,128], boxes=32x64)", "a tensor map has no boxes"),
        ("m=map(f16[96,128])", "a tensor map is of an array, by a box"),
        ("m=map(f16[96,128], box=32x999)", "tensor map: box"),
        ("m=map(x, box=32)", "a tensor map is of an array, by a box"),
    ],
)
def test_what_is_no_map_is_refused(text: str, what: str) -> None:
    with pytest.raises(ArgumentError, match=re.escape(what)):
        argument_spec(text).made(np.random.default_rng(0))


KERNEL = """
#include <cuda.h>
#include <stdint.h>
__device__ uint32_t at(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
__global__ void doubled(const __grid_constant__ CUtensorMap m, int* y) {
    __shared__ alignas(128) int tile[ROWS][32];
    __shared__ alignas(8) uint64_t bar;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(at(&bar)));
        asm volatile("fence.proxy.async.shared::cta;");
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(at(&bar)), "r"(16 * 32 * 4));
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
            "[%0], [%1, {%3, %4}], [%2];"
            :: "r"(at(tile)), "l"(&m), "r"(at(&bar)), "r"(0), "r"((int)blockIdx.x * 16) : "memory");
    }
    __syncthreads();
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra again; }"
        :: "r"(at(&bar)) : "memory");
    for (int row = 0; row < 16; ++row) y[(blockIdx.x * 16 + row) * 32 + threadIdx.x] = 2 * tile[row][threadIdx.x];
}
int main() {
    int h[64 * 32], *x, *y;
    for (int i = 0; i < 64 * 32; ++i) h[i] = i;
    cudaMalloc(&x, sizeof(h)); cudaMalloc(&y, sizeof(h));
    cudaMemcpy(x, h, sizeof(h), cudaMemcpyHostToDevice);
    CUtensorMap m;
    uint64_t size[2] = {32, 64}, stride[1] = {STRIDE};
    uint32_t box[2] = {32, 16}, el[2] = {1, 1};
    cuTensorMapEncodeTiled(&m, CU_TENSOR_MAP_DATA_TYPE_INT32, 2, x, size, stride, box, el,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    doubled<<<4, 32>>>(m, y);
}
"""


@pytest.mark.parametrize(
    ("rows", "stride", "code", "shown"),
    [
        ("16", "128", 0, "doubled: clean"),
        ("8", "128", 1, "cp.async.bulk.tensor.g2c writes outside of tile"),
        ("16", "120", 1, "this launch of doubled fails: tensor map: strides[0]"),
    ],
)
def test_a_kernel_is_checked_with_the_map_of_its_host_code(
    rows: str, stride: str, code: int, shown: str, tmp_path: Path
) -> None:
    (tmp_path / "k.cu").write_text(KERNEL.replace("ROWS", rows).replace("STRIDE", stride))

    ended, out, err = ran("check", tmp_path / "k.cu")

    assert ended == code
    assert shown in out + err
