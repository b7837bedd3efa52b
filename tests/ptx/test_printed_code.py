"""The printer's text assembles to the same code as the original: NVRTC's PTX, in both dialects."""

from __future__ import annotations

import pytest

from tests.ptx.assembling import assembled, has_linker
from tilewright.load.cu_compile import compile_cu
from tilewright.ptx import parse, script

KERNEL = r"""
struct Sizes { int n; float by[3]; };
__constant__ float table[4] = {1.f, 2.f, 3.f, 4.f};
__device__ __noinline__ int factorial(int n) { return n < 2 ? 1 : n * factorial(n - 1); }
__global__ void k(const float* x, float* y, Sizes sizes) {
    extern __shared__ float dyn[];
    __shared__ float sums[32];
    float v = x[threadIdx.x] * table[threadIdx.x & 3] + sizes.by[threadIdx.x % 3];
    for (int step = 16; step; step /= 2) v += __shfl_xor_sync(0xffffffff, v, step);
    sums[threadIdx.x / 32] = v;
    dyn[threadIdx.x] = __expf(v);
    __syncthreads();
    if (threadIdx.x == 0) { printf("%d %f\n", factorial(sizes.n), sums[1]); y[0] = dyn[3] / sums[0]; }
    switch (sizes.n) { case 0: y[1] = 1; break; case 1: y[2] = 3; break; case 7: y[3] = 9; break; default: y[4] = 2; }
}
"""


@pytest.mark.skipif(not has_linker(), reason="nvJitLink is not installed")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_printed_text_assembles_to_the_same_code(arch: str) -> None:
    made = compile_cu(KERNEL, "k.cu", arch, defines={}, include=(), names=()).ptx

    printed = script(parse(made))

    assert printed != made
    assert assembled(printed, arch) == assembled(made, arch)
