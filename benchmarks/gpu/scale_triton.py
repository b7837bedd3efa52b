"""The same kernel in Triton."""

import triton
import triton.language as tl


@triton.jit
def scale(a, b, s, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(b + i, tl.load(a + i, mask=i < n) * s, mask=i < n)
