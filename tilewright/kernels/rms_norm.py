"""RMS norm: each row over the root of the mean of its squares, times a weight for each column.

The squares are summed while the row is read; `norm_gradient` has the gradient.
"""

from __future__ import annotations

from functools import cache

import tilewright as tw
from tilewright.kernels import norm_gradient
from tilewright.kernels.arrays import Array, contiguous, expect, kind_of, like, matrix, public
from tilewright.kernels.meeting import Meeting, Weights, coming, for_shifts, shifted
from tilewright.kernels.operators import Arrays, Launches, TorchOperator
from tilewright.kernels.rows import WEIGHTED, Rows, dealt
from tilewright.lang import T, Tx


@cache
def forward(rows: Rows, kind: str, weight_kind: str) -> tw.Executable:
    """y = x / sqrt(mean(x * x) + eps) * w"""
    scope = rows.scope

    @T.prim_func
    def rms_norm(x: T.handle, w: T.handle, y: T.handle, eps: T.float32):
        m, n, x_pitch, y_pitch = T.int32(), T.int32(), T.int32(), T.int32()
        X = rows.matrix(x, (m, n), kind, x_pitch)
        Y = rows.matrix(y, (m, n), kind, y_pitch)
        W = rows.line(w, n, weight_kind)
        first: T.let = rows.first(rows.ctas(m), n)
        here = T.meta_var(rows.begun(first, x_pitch, m))
        source = T.meta_var(coming(here, X, first, (m, n)))
        weights = T.meta_var(Weights(here, W, first))
        meeting = T.meta_var(Meeting(here, 1))
        read, tile = here.tile(kind), here.tile()
        total, row_total = here.lanes(), here.each()
        for turn in here.following():
            row: T.let = first + turn * rows.step
            if row < m:
                now = T.meta_var(source.begin(row))
                total.local()[0] = 0.0
                for p in now.parts(n):
                    source.take(read, row, p)
                    scope.mul(tile, read, read)
                    Tx.sum(total.local(), tile.local(), accum=True)
                Tx.warp.sum(row_total, total)
                if not now.by_warps:
                    Tx.warp.sum(row_total, *meeting.of(turn, row_total.local()[0]))
                scale: T.let = T.rsqrt(row_total.local()[0] / T.cast(n, "float32") + eps)
                for p in now.parts(n):
                    if now.long:
                        source.take(read, row, p)
                    scope.mul(tile, read, scale)
                    scope.mul(source.place(Y, row, p, tile), tile, weights.part(now, p))
                    source.put(Y, row, p, tile)
        source.end(Y)

    return tw.compile(rms_norm, fast_math=True)


def outputs(x: Array, weight: Array, eps: float) -> Arrays:
    expect("x", x)
    expect("weight", weight, shape=x.shape[-1:])
    return (like(x),)


def run(results: Arrays, x: Array, weight: Array, eps: float) -> Launches:
    x, y, weight = matrix(x), matrix(results[0]), contiguous(weight)
    rows = dealt(x, y, weight, clusters=True, use=WEIGHTED)
    lines = for_shifts(rows, weight)
    yield from shifted(rows, (weight,), lines)
    yield forward(rows, kind_of(x), kind_of(weight)), (x, *lines, y, eps)


def gradient(args: Arrays, results: Arrays, gradients: Arrays) -> Arrays:
    return (*BACKWARD(args[0], args[1], gradients[0], args[2]), None)


def outputs_backward(x: Array, weight: Array, dy: Array, eps: float) -> Arrays:
    return like(x), like(weight)


BACKWARD = TorchOperator(
    "rms_norm_backward",
    "(Tensor x, Tensor weight, Tensor dy, float eps) -> (Tensor, Tensor)",
    outputs_backward,
    norm_gradient.run,
)
FORWARD = TorchOperator("rms_norm", "(Tensor x, Tensor weight, float eps) -> Tensor", outputs, run, gradient)


@public.names
def rms_norm(x: Array, weight: Array, eps: float = 1e-6) -> Array:
    """x / sqrt(mean(x * x) + eps) * weight along the last dimension, computed in float32; differentiable in torch.

    x: float32, float16 or bfloat16, of any shape and strides. weight: one for each column, of any of these dtypes.
    """
    return FORWARD(x, weight, eps)
