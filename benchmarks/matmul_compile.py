"""From Python source to a cubin for sm_90a: the product of `kernels.matmul`, 128 x 256 tiles, against CuTe and Triton.

Nothing is kept between calls: each parses, lowers and assembles again.
"""

from __future__ import annotations

from benchmarks.measure import Table, Target, Times, alternately, median_ms, peer_times
from tilewright.cuda.nvrtc import assemble
from tilewright.kernels.forms import MatmulKind, Tiles
from tilewright.kernels.matmul import product

OURS, CUTE, TRITON = "tilewright, kernels.matmul from source", "CuTe DSL, from source", "Triton, from source"


def cubin() -> Times:
    return {OURS: median_ms(assembled, repeats=3)}


def assembled() -> bytes:
    """The cubin; past `Executable.cubin`, which may take it from the cache on disk."""
    form = MatmulKind("bfloat16", "bfloat16", "bfloat16")
    return assemble(product.__wrapped__(Tiles(), form).source("cuda"), "sm_90a").cubin


def run() -> Table:
    ours, triton, cute = alternately(
        cubin, lambda: peer_times("triton_matmul"), lambda: peer_times("cute_matmul"), rounds=5
    )
    targets = (Target(OURS, 0.8, of=CUTE), Target(OURS, 0.5, of=TRITON))
    return Table("Python source to cubin for sm_90a, a matrix product, warm", ours, (*triton, *cute), targets)
