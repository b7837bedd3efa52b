"""Structures that a kernel of the same text makes, as host code would."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

import tilewright as tw
from tilewright.cli.app import app
from tilewright.errors import ArgumentError

SCALE = """
struct Base { const float* p; int n; };
struct Params : Base { float factor; union { float* out; long long other; }; };
__global__ void scale(const __grid_constant__ Params q, int first) {
    int i = first + threadIdx.x;
    if (i < q.n) q.out[i] = q.factor * q.p[i];
}
__global__ void arguments(Params* q, int* first, const float* x, float* out, int n, int from) {
    Params made; made.p = x + from; made.n = n; made.factor = 2; made.out = out;
    *q = made;
    *first = 0;
}
"""
ODD = """
struct Base { int first, second; };
struct Params : Base { int rest[3]; };
__global__ void fill(const __grid_constant__ Params q, float* out) {
    out[0] = q.first; out[1] = q.second;
    for (int i = 0; i < 3; ++i) out[2 + i] = q.rest[i];
}
__global__ void arguments(Params* q, float** to, float* out) {
    q->first = 1; q->second = 2;
    for (int i = 0; i < 3; ++i) q->rest[i] = 3 + i;
    *to = out;
}
"""
TENSOR = """
#include <cuda.h>
template <class T> struct Source { CUtensorMap map; T* p; };
struct Params : Source<float> { float* out; };
template <class K> __global__ void rows(const __grid_constant__ typename K::Params q) {
    __shared__ alignas(128) float tile[16 * 16];
    __shared__ alignas(8) unsigned long long bar;
    unsigned b = __cvta_generic_to_shared(&bar), s = __cvta_generic_to_shared(tile);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(b));
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 1024;" :: "r"(b) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}],"
                     " [%4];" :: "r"(s), "l"(&q.map), "r"(16), "r"(0), "r"(b) : "memory");
    }
    __syncthreads();
    asm volatile("{.reg .pred P; L: mbarrier.try_wait.parity.shared.b64 P, [%0], 0; @!P bra L;}" :: "r"(b) : "memory");
    q.out[threadIdx.x] = tile[threadIdx.x * 16 + 3];
}
struct Kernel { using Params = ::Params; };
__global__ void arguments(Params* q, float* x, float* out) {
    cuuint64_t extents[2] = {32, 16}, strides[1] = {128};
    cuuint32_t box[2] = {16, 16}, steps[2] = {1, 1};
    Params made{};
    made.p = x;
    made.out = out;
    cuTensorMapEncodeTiled(&made.map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, x, extents, strides, box, steps,
                           CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                           CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    *q = made;
}
"""


def arrays() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    return np.arange(64, dtype=np.float32), np.zeros(64, np.float32)


def test_a_structure_with_a_base_and_a_union_is_made_by_a_kernel() -> None:
    module, (x, out) = tw.load_cu(SCALE), arrays()

    args = module["scale"].arguments_by(module["arguments"], x, out, 60, 4)
    module["scale"].simulate(*args, grid=1, block=64)

    assert (out[:60] == 2 * x[4:]).all()
    assert not out[60:].any()


def test_what_a_pointer_in_a_made_structure_leads_to_has_its_bounds_and_name() -> None:
    module, (x, out) = tw.load_cu(SCALE), arrays()

    args = module["scale"].arguments_by(module["arguments"], x, out, 64, 1)
    verdict = tw.check(module["scale"], *args, grid=1, block=64)

    assert [(each.kind, each.buffer) for each in verdict.findings] == [("bounds", "q.x")]
    assert not out.any(), "a check works on copies, of arrays in structures, too"


def test_tensor_maps_in_a_made_structure_are_of_its_arrays() -> None:
    module = tw.load_cu(TENSOR, kernels=["rows<Kernel>", "arguments"])
    x, out = np.random.default_rng(0).random((16, 32), np.float32), np.zeros(16, np.float32)

    args = module["rows<Kernel>"].arguments_by(module["arguments"], x, out)

    assert tw.check(module["rows<Kernel>"], *args, grid=1, block=16).status == "clean"
    module["rows<Kernel>"].simulate(*args, grid=1, block=16)
    assert (out == x[:, 19]).all()


def test_a_structure_whose_bytes_are_no_whole_words_keeps_its_size() -> None:
    module, (x, _) = tw.load_cu(ODD), arrays()

    args = module["fill"].arguments_by(module["arguments"], x)
    module["fill"].simulate(*args, grid=1, block=1)

    assert x[:5].tolist() == [1, 2, 3, 4, 5]


def test_arguments_are_made_by_a_kernel_alone() -> None:
    module = tw.load_cu(SCALE)

    with pytest.raises(ArgumentError, match="arguments are made by a kernel of the same text"):
        module["scale"].arguments_by("arguments")


@pytest.mark.parametrize(("n", "code"), [(60, 0), (61, 1)])
def test_the_command_line_has_arguments_made(tmp_path: Path, n: int, code: int) -> None:
    file = tmp_path / "scale.cu"
    file.write_text(SCALE)
    options = ["--kernel", "scale", "--made-by", "arguments", "--block", "64", "--arg", "x:f32[60]=random"]

    result = CliRunner().invoke(
        app, ["check", str(file), *options, "--arg", "out:f32[60]", "--arg", f"n={n}", "--arg", "from=0"]
    )

    assert result.exit_code == code, result.output
