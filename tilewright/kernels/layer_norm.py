"""Layer norm: each row less its mean, over its standard deviation, times a weight and plus a bias for each column.

The deviations are squared after the mean is known, so that nothing cancels out.
"""

from __future__ import annotations

from functools import cache

import tilewright as tw
from tilewright.kernels import norm_gradient
from tilewright.kernels.arrays import Array, contiguous, expect, kind_of, like, matrix
from tilewright.kernels.operators import Arrays, Operator
from tilewright.kernels.rows import Rows, coming, dealt
from tilewright.lang import T, Tx

__all__ = ["layer_norm"]


@T.inline
def join(rows, row, total, squares, n):
    """The sum of the row, and that of its squared deviations, from those of the shares of CTAs."""
    if rows.cluster > 1:
        shares = T.meta_var(rows.exchanged(row, total[0], squares[0]))
        total[0] = sum([part for part, _ in shares])
        middle: T.let = total[0] / T.cast(n, "float32")
        counted = T.meta_var(zip(shares, rows.shares(n), strict=True))
        squares[0] = sum([deviations(*share, count, middle) for share, count in counted])


def deviations(total, squares, columns, middle):
    """Of a share of a row, from the mean of all: its squares from its own mean, and how far the means are apart."""
    count = T.cast(columns, "float32")
    apart = total / T.max(count, 1.0) - middle
    return squares + count * apart * apart


@cache
def forward(rows: Rows, kind: str, weight_kind: str) -> tw.Executable:
    """y = (x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + eps) * w + b"""
    scope = rows.scope

    @T.prim_func
    def layer_norm(x: T.handle, w: T.handle, b: T.handle, y: T.handle, eps: T.float32):
        m, n, x_pitch, y_pitch = T.int32(), T.int32(), T.int32(), T.int32()
        X = rows.matrix(x, (m, n), kind, x_pitch)
        Y = rows.matrix(y, (m, n), kind, y_pitch)
        W, B = rows.line(w, n, weight_kind), rows.line(b, n, weight_kind)
        first: T.let = rows.first(rows.ctas(m), n)
        source = T.meta_var(coming(rows, X, first, (m, n)))
        read, tile = rows.tile(kind), rows.tile()
        total, mean, variance = rows.own(), rows.each(), rows.each()
        for turn in rows.following():
            row: T.let = first + turn
            if row < m:
                total.local()[0] = 0.0
                for p in rows.parts(n):
                    rows.take(read, source, row, p)
                    Tx.sum(total.local(), read.local(), accum=True)
                scope.sum(mean, total)
                middle: T.let = mean.local()[0] / T.cast(T.max(rows.share(n), 1), "float32")
                total.local()[0] = 0.0
                for p in rows.parts(n):
                    if rows.long:
                        rows.take(read, source, row, p)
                    scope.sub(tile, read, middle)
                    rows.clear_outside(tile, p, n)
                    scope.mul(tile, tile, tile)
                    Tx.sum(total.local(), tile.local(), accum=True)
                scope.sum(variance, total)
                join(rows, row, mean.local(), variance.local(), n)
                scale: T.let = T.rsqrt(variance.local()[0] / T.cast(n, "float32") + eps)
                centre: T.let = mean.local()[0] / T.cast(n, "float32")
                for p in rows.parts(n):
                    if rows.long:
                        rows.take(read, source, row, p)
                    scope.sub(tile, read, centre)
                    scope.mul(tile, tile, scale)
                    scope.fma(Y[rows.at(row), rows.columns(p)], tile, W[rows.columns(p)], B[rows.columns(p)])

    return tw.compile(layer_norm, fast_math=True)


def outputs(x: Array, weight: Array, bias: Array, eps: float) -> Arrays:
    expect("x", x)
    expect("weight", weight, shape=x.shape[-1:])
    expect("bias", bias, (kind_of(weight),), shape=x.shape[-1:])
    return (like(x),)


def run(results: Arrays, args: Arrays) -> None:
    x, y, weight, bias = matrix(args[0]), matrix(results[0]), contiguous(args[1]), contiguous(args[2])
    forward(dealt(x, y, weight, bias, clusters=True, table="weighted"), kind_of(x), kind_of(weight))(
        x, weight, bias, y, args[3]
    )


def gradient(args: Arrays, results: Arrays, gradients: Arrays) -> Arrays:
    x, weight, _, eps = args
    return (*BACKWARD(x, weight, gradients[0], eps), None)


def outputs_backward(x: Array, weight: Array, dy: Array, eps: float) -> Arrays:
    return like(x), like(weight), like(weight)


def run_backward(results: Arrays, args: Arrays) -> None:
    results[1][:], results[2][:] = norm_gradient.run(*args, results[0], centred=True)


BACKWARD = Operator(
    "layer_norm_backward",
    "(Tensor x, Tensor weight, Tensor dy, float eps) -> (Tensor, Tensor, Tensor)",
    outputs_backward,
    run_backward,
)
FORWARD = Operator("layer_norm", "(Tensor x, Tensor weight, Tensor bias, float eps) -> Tensor", outputs, run, gradient)


def layer_norm(x: Array, weight: Array, bias: Array, eps: float = 1e-5) -> Array:
    """(x - mean(x)) / sqrt(var(x) + eps) * weight + bias along the last dimension; differentiable in torch.

    x: float32, float16 or bfloat16, of any shape and strides. weight, bias: one for each column, both of one of these
    dtypes.
    """
    return FORWARD(x, weight, bias, eps)
