"""A persistent matrix product in Triton's language, by tensor descriptors: the design of Triton's own tutorial.

As many programs as multiprocessors walk over the tiles of C in bands. Two loops are flattened into one, or warps are
specialised. A tile is stored in two halves, or at once.
"""

from __future__ import annotations

from collections.abc import Callable

import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

# Rows, columns and depth of a tile, stages, warps, are halves stored, are warps specialised?
CONFIGS = [
    (128, 256, 64, 3, 8, True, False),
    (128, 256, 64, 4, 8, True, False),
    (128, 256, 64, 3, 8, False, False),
    (128, 256, 64, 3, 8, True, True),
    (128, 128, 64, 4, 4, True, False),
    (128, 128, 64, 4, 8, True, False),
]


@triton.jit
def place(tile, rows, columns, BAND: tl.constexpr):
    band = tile // (BAND * columns)
    height = tl.minimum(rows - band * BAND, BAND)
    inside = tile % (BAND * columns)
    return band * BAND + inside % height, inside // height


@triton.jit
def matmul_kernel(a, b, c, m, n, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
                  PROGRAMS: tl.constexpr, HALVES: tl.constexpr, SPECIAL: tl.constexpr):  # fmt: skip
    down, across, steps = tl.cdiv(m, ROWS), tl.cdiv(n, COLUMNS), tl.cdiv(k, DEPTH)
    begun = tl.program_id(0)
    stored = begun - PROGRAMS  # on its own, so that the next tile's loads do not wait for this one's place
    for tile in tl.range(begun, down * across, PROGRAMS, flatten=not SPECIAL, warp_specialize=SPECIAL):
        row, column = place(tile, down, across, 8)
        sums = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        for step in range(steps):
            left = a.load([row * ROWS, step * DEPTH])
            right = b.load([column * COLUMNS, step * DEPTH])
            sums = tl.dot(left, right.T, sums)
        stored += PROGRAMS
        row, column = place(stored, down, across, 8)
        if HALVES:
            first, second = tl.split(tl.permute(tl.reshape(sums, (ROWS, 2, COLUMNS // 2)), (0, 2, 1)))
            c.store([row * ROWS, column * COLUMNS], first.to(c.dtype))
            c.store([row * ROWS, column * COLUMNS + COLUMNS // 2], second.to(c.dtype))
        else:
            c.store([row * ROWS, column * COLUMNS], sums.to(c.dtype))


def configured(config: tuple[int, ...]) -> Callable[..., object]:
    """The product with one of the configurations, of A, (M, K), and B, (K, N) with K contiguous."""
    import torch

    rows, columns, depth, stages, warps, halves, special = config
    programs = torch.cuda.get_device_properties(0).multi_processor_count

    def call(a, b):
        (m, k), n = a.shape, b.shape[1]
        c = torch.empty(m, n, device=a.device, dtype=a.dtype)
        boxes = (a, (rows, depth)), (b.T, (columns, depth)), (c, (rows, columns // 2 if halves else columns))
        descriptors = [TensorDescriptor.from_tensor(array, list(box)) for array, box in boxes]
        grid = (min(programs, -(-m // rows) * -(-n // columns)),)
        matmul_kernel[grid](*descriptors, m, n, k, rows, columns, depth, programs, halves, special,
                            num_stages=stages, num_warps=warps)  # fmt: skip
        return c

    return call
