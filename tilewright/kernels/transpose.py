"""A matrix with rows for columns: each CTA turns a square tile over in shared memory.

Rows of the tile come in and go out by accesses of up to 16 bytes. In between, the threads read columns of shared
memory, whose rows are padded so that they begin in different banks.
"""

from __future__ import annotations

from functools import cache

import tilewright as tw
from tilewright.dtypes import dtype
from tilewright.errors import ArgumentError
from tilewright.kernels.arrays import Array, expect, kind_of, like, matrix, public
from tilewright.kernels.operators import Arrays, Launches, TorchOperator
from tilewright.kernels.rows import ACCESS_BYTES, common_vector
from tilewright.lang import T, Tx
from tilewright.layout import S, TileLayout, tx

SIDE, THREADS = 64, 256  # elements along a side of a tile


@cache
def forward(vector: int, kind: str) -> tw.Executable:
    """y[j, i] = x[i, j]"""
    wide = ACCESS_BYTES * 8 // dtype(kind).bits  # elements of the longest access
    across = SIDE // wide  # threads along a row
    rounds = SIDE * across // THREADS
    held = TileLayout(S[(rounds, THREADS // across, across, wide) : (wide, across @ tx, 1 @ tx, 1)])
    padded = TileLayout(S[(SIDE, SIDE) : (SIDE + 32 // dtype(kind).bits, 1)])
    align = vector * dtype(kind).bits // 8

    @T.prim_func
    def transpose(x: T.handle, y: T.handle):
        m, n, x_pitch, y_pitch = T.int32(), T.int32(), T.int32(), T.int32()
        X = T.match_buffer(x, (m, n), kind, strides=(x_pitch, 1), align=align)
        Y = T.match_buffer(y, (n, m), kind, strides=(y_pitch, 1), align=align)
        T.assume(x_pitch % vector == 0)
        T.assume(y_pitch % vector == 0)
        right, down = T.cta_id([T.ceildiv(n, SIDE), T.ceildiv(m, SIDE)])
        T.thread_id([THREADS])
        tile = T.alloc_buffer((SIDE, SIDE), kind, scope="shared", layout=padded)
        turned = T.alloc_buffer((SIDE, SIDE), kind, scope="local", layout=held)
        i: T.let = down * SIDE
        j: T.let = right * SIDE
        Tx.cta.copy(turned, X[i : i + SIDE, j : j + SIDE], fill=0)
        Tx.cta.copy(tile, turned)
        T.cuda.cta_sync()
        Tx.cta.copy(turned, tile.permute(1, 0)[:, :])
        Tx.cta.copy(Y[j : j + SIDE, i : i + SIDE], turned, clip=True)

    return tw.compile(transpose)


def outputs(x: Array) -> Arrays:
    expect("x", x)
    if len(x.shape) != 2:
        raise ArgumentError("x is no matrix", given=f"shape {tuple(x.shape)}", allowed="two dimensions")
    return (like(x, (x.shape[1], x.shape[0])),)


def run(results: Arrays, x: Array) -> Launches:
    x, y = matrix(x), results[0]
    yield forward(common_vector([x, y]), kind_of(x)), (x, y)


FORWARD = TorchOperator(
    "transpose", "(Tensor x) -> Tensor", outputs, run, lambda args, results, slopes: (transpose(*slopes),)
)


@public.names
def transpose(x: Array) -> Array:
    """The matrix x with rows for columns, in new memory; differentiable in torch.

    x: a matrix of float32, float16 or bfloat16 with any strides.
    """
    return FORWARD(x)
