"""Kernels of `pairs` in Triton's language, in the manner of its tutorials."""

import triton
import triton.language as tl


@triton.jit
def matmul_by_pointers(a, b, c, m, n, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
                       BAND: tl.constexpr):  # fmt: skip
    number, down, across = tl.program_id(0), tl.cdiv(m, ROWS), tl.cdiv(n, COLUMNS)
    band = number // (BAND * across)
    height = tl.minimum(down - band * BAND, BAND)
    inside = number % (BAND * across)
    row, column = band * BAND + inside % height, inside // height
    rows, columns = row * ROWS + tl.arange(0, ROWS), column * COLUMNS + tl.arange(0, COLUMNS)
    depth = tl.arange(0, DEPTH)
    left, right = a + rows[:, None] * k + depth[None, :], b + depth[:, None] * n + columns[None, :]
    sums = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for _ in range(0, tl.cdiv(k, DEPTH)):
        sums = tl.dot(tl.load(left), tl.load(right), sums)
        left += DEPTH
        right += DEPTH * n
    tl.store(c + rows[:, None] * n + columns[None, :], sums.to(c.dtype.element_ty))
