"""The sum of two arrays and its RMS norm, in one pass, as between two layers of a transformer."""

from __future__ import annotations

from functools import cache

import tilewright as tw
from tilewright.kernels.arrays import Array, contiguous, expect, kind_of, like, matrix, public, same_shape
from tilewright.kernels.meeting import Weights
from tilewright.kernels.operators import Arrays, Launches, TorchOperator
from tilewright.kernels.rms_norm import BACKWARD
from tilewright.kernels.rows import SUMMED, Rows, dealt
from tilewright.lang import T, Tx


@cache
def forward(rows: Rows, kind: str, weight_kind: str) -> tw.Executable:
    """s = x + r, y = s / sqrt(mean(s * s) + eps) * w"""
    scope = rows.scope

    @T.prim_func
    def add_rms_norm(x: T.handle, r: T.handle, w: T.handle, y: T.handle, s: T.handle, eps: T.float32):
        m, n, x_pitch, r_pitch, y_pitch, s_pitch = T.int32(), T.int32(), T.int32(), T.int32(), T.int32(), T.int32()
        X = rows.matrix(x, (m, n), kind, x_pitch)
        Added = rows.matrix(r, (m, n), kind, r_pitch)
        W = rows.line(w, n, weight_kind)
        Y = rows.matrix(y, (m, n), kind, y_pitch)
        Sum = rows.matrix(s, (m, n), kind, s_pitch)
        row = rows.first(rows.ctas(m), n)
        read, added, tile = rows.tile(kind), rows.tile(kind), rows.tile()
        weights = T.meta_var(Weights(rows, W, row))
        total, row_total = rows.own(), rows.each()
        if row < m:
            total.local()[0] = 0.0
            for p in rows.parts(n):
                scope.copy(read, X[rows.at(row), rows.columns(p)], fill=0)
                scope.copy(added, Added[rows.at(row), rows.columns(p)], fill=0)
                scope.add(read, read, added)
                scope.copy(Sum[rows.at(row), rows.columns(p)], read, clip=True)
                scope.mul(tile, read, read)
                Tx.sum(total.local(), tile.local(), accum=True)
            scope.sum(row_total, total)
            scale: T.let = T.rsqrt(row_total.local()[0] / T.cast(n, "float32") + eps)
            for p in rows.parts(n):
                if rows.long:  # each thread reads what it has written
                    scope.copy(read, Sum[rows.at(row), rows.columns(p)], fill=0)
                scope.mul(tile, read, scale)
                scope.mul(Y[rows.at(row), rows.columns(p)], tile, weights.part(rows, p))

    return tw.compile(add_rms_norm, fast_math=True)


def outputs(x: Array, residual: Array, weight: Array, eps: float) -> Arrays:
    same_shape(x=x, residual=residual)
    expect("weight", weight, shape=x.shape[-1:])
    return like(x), like(x)


def run(results: Arrays, x: Array, residual: Array, weight: Array, eps: float) -> Launches:
    x, residual, y, total = map(matrix, (x, residual, *results))
    weight = contiguous(weight)
    rows = dealt(x, residual, weight, y, total, use=SUMMED)
    yield forward(rows, kind_of(x), kind_of(weight)), (x, residual, weight, y, total, eps)


def gradient(args: Arrays, results: Arrays, gradients: Arrays) -> Arrays:
    dx, dw = BACKWARD(results[1], args[2], gradients[0], args[3])
    both = dx + gradients[1]
    return both, both, dw, None


FORWARD = TorchOperator(
    "add_rms_norm", "(Tensor x, Tensor residual, Tensor weight, float eps) -> (Tensor, Tensor)", outputs, run, gradient
)


@public.names
def add_rms_norm(x: Array, residual: Array, weight: Array, eps: float = 1e-6) -> tuple[Array, Array]:
    """(`rms_norm` of x + residual, x + residual); the sum is rounded to its dtype first. Differentiable in torch.

    x, residual: float32, float16 or bfloat16, of one shape and dtype. weight: one for each column.
    """
    normed, total = FORWARD(x, residual, weight, eps)
    return normed, total
