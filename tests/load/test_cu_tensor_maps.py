"""Tensor maps as arguments of .cu kernels, and grids that depend on others, with or without CUDA's own headers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw

BODY = """
__device__ unsigned shared(void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void fetch(const void* map, float* to, unsigned long long* bar, int x, int y) {
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared(bar)));
        asm volatile("fence.proxy.async;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 512;" ::"r"(shared(bar)) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                     " [%0], [%1, {%2, %3}], [%4];"
                     ::"r"(shared(to)), "l"(map), "r"(x), "r"(y), "r"(shared(bar)) : "memory");
    }
    __syncthreads();
    asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra W; }"
                 ::"r"(shared(bar)) : "memory");
}
__global__ void k(PARAMETERS) {
    __shared__ alignas(128) float tile[128];
    __shared__ unsigned long long bar;
    cudaGridDependencySynchronize();
    fetch(MAP, tile, &bar, 16, 8);
    OUT[threadIdx.x] = tile[threadIdx.x];
    cudaTriggerProgrammaticLaunchCompletion();
}
"""
OWN = "struct alignas(64) CUtensorMap { unsigned long long o[16]; };\n"
HOST = "#include <cuda.h>\n#include <cudaTypedefs.h>\n#include <vector>\n"
MAIN = "int main() { std::vector<int> v; CUtensorMap m; cuTensorMapEncodeTiled(&m); k<<<1, 1>>>(m, 0); }\n"


def text(parameters: str = "const __grid_constant__ CUtensorMap m, float* o", at: str = "&m", out: str = "o") -> str:
    return BODY.replace("PARAMETERS", parameters).replace("MAP", at).replace("OUT", out)


STRUCT = "#include <cuda.h>\nstruct P { CUtensorMap m[2]; float* o; int n; };\n" + text(
    "const __grid_constant__ P p", "&p.m[1]", "p.o"
)
TEXTS = {
    "alone": text(),
    "beside host code": HOST + text() + MAIN,
    "with a structure of its own": OWN + text(),
    "with a structure of its own beside host code": "#include <vector>\n" + OWN + text() + MAIN,
    "with the runtime's header": "#include <cuda_runtime.h>\n#include <cuda_device_runtime_api.h>\n" + text(),
    "with the runtime's header beside host code": HOST + "#include <cuda_device_runtime_api.h>\n" + text() + MAIN,
    "by a pointer": text("const CUtensorMap* m, float* o", "m"),
}


def boxes(source: str, *order: str) -> None:
    a, o = np.arange(64 * 64, dtype=np.float32).reshape(64, 64), np.zeros(128, np.float32)
    m = tw.TensorMap(a, box=(8, 16))
    given: dict[str, tuple[Any, ...]] = {
        "": (m, o), "tuple": (([m, m], o, 3),), "dict": ({"m": (m, m), "o": o, "n": 3},)
    }  # fmt: skip

    run = tw.load_cu(source)["k"].simulate(*given["".join(order)], block=128)

    assert (o.reshape(8, 16) == a[8:16, 16:32]).all()
    assert not run.warnings


@pytest.mark.parametrize("name", TEXTS)
def test_a_tensor_map_is_an_argument_of_a_cu_kernel(name: str) -> None:
    boxes(TEXTS[name])


@pytest.mark.parametrize("way", ["tuple", "dict"])
def test_tensor_maps_are_fields_of_a_structure(way: str) -> None:
    boxes(STRUCT, way)


def test_grids_that_depend_on_others_are_no_instructions_before_sm_90() -> None:
    source = """__global__ void k(float* o) {
    cudaGridDependencySynchronize();
    o[threadIdx.x] = threadIdx.x;
    cudaTriggerProgrammaticLaunchCompletion();
}
"""
    o = np.zeros(32, np.float32)

    run = tw.load_cu(source, "sm_80")["k"].simulate(o, block=32)

    assert (o == np.arange(32)).all()
    assert not run.warnings
