"""The kernels in Triton's language."""

import triton
import triton.language as tl


@triton.jit
def transpose(a, b, n, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tile = tl.load(a + rows[:, None] * n + columns[None, :])
    tl.store(b + columns[:, None] * n + rows[None, :], tl.trans(tile))


@triton.jit
def scale(x, y, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at) * factor)


@triton.jit
def softmax(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at)
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + at, powers / tl.sum(powers, axis=0))


@triton.jit
def rms_norm(x, weight, y, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    at = tl.program_id(0) * BLOCK + columns
    values = tl.load(x + at)
    scale = 1 / tl.sqrt(tl.sum(values * values, axis=0) / BLOCK + 1e-6)
    tl.store(y + at, values * scale * tl.load(weight + columns))


@triton.jit
def row_sum(x, sums, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    tl.store(sums + row, tl.sum(tl.load(x + row * BLOCK + tl.arange(0, BLOCK)), axis=0))


@triton.jit
def gemm(a, b, d, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(1) * M + tl.arange(0, M)
    columns = tl.program_id(0) * N + tl.arange(0, N)
    sums = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        along = start + tl.arange(0, K)
        left = tl.load(a + rows[:, None] * k + along[None, :])
        right = tl.load(b + columns[None, :] * k + along[:, None])
        sums += tl.dot(left, right)
    tl.store(d + rows[:, None] * n + columns[None, :], sums.to(tl.float16))
