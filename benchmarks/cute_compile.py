"""From Python source to a cubin for sm_90a: an ldmatrix copy of one 8x16 float16 tile, against CuTe DSL.

Nothing is kept between calls: each assembles again.
"""

from __future__ import annotations

import tilewright as tw
from benchmarks.kernels.tile_copy import build
from benchmarks.measure import Table, Target, Times, alternately, median_ms, peer_times
from tilewright.cuda.nvrtc import assemble

OURS = "tilewright, from source"
ALONE = "NVRTC alone, on an equal text"

# The work of both kernels as CUDA text without headers: the part of the time that NVRTC takes.
EQUAL_TEXT = """\
extern "C" __global__ void __launch_bounds__(32) copy_tile(const uint2* a, unsigned int* b) {
    __shared__ __align__(16) uint2 tile[32];
    tile[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    unsigned int r[2];
    unsigned int row = threadIdx.x % 8 * 32 + threadIdx.x / 8 % 2 * 16;
    unsigned int p = (unsigned int)__cvta_generic_to_shared(tile) + row;
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(p) : "memory");
    b[threadIdx.x / 4 * 8 + threadIdx.x % 4] = r[0];
    b[threadIdx.x / 4 * 8 + threadIdx.x % 4 + 4] = r[1];
}
"""


def cubin() -> Times:
    parsed = build()
    return {
        OURS: median_ms(lambda: assembled(build()), repeats=15),
        "tilewright, compile again": median_ms(lambda: assembled(parsed), repeats=15),
        ALONE: median_ms(lambda: assemble(EQUAL_TEXT, "sm_90a"), repeats=15),
    }


def assembled(kernel: object) -> bytes:
    """The cubin; past `Executable.cubin`, which may take it from the cache on disk."""
    return assemble(tw.compile(kernel, "sm_90a").source("cuda"), "sm_90a").cubin


def run() -> Table:
    ours, peers = alternately(cubin, lambda: peer_times("cute"), rounds=5)
    targets = (Target(OURS, 0.75, of=peers[0].name), Target(OURS, 1.4, of=ALONE))
    return Table("Python source to cubin for sm_90a, one ldmatrix copy, warm", ours, peers, targets)
