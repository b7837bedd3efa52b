"""Layer norm: each row less its mean, over its standard deviation, times a weight and plus a bias for each column.

The deviations are squared after the mean is known, so that nothing cancels out.
"""

from __future__ import annotations

from functools import cache

import tilewright as tw
from tilewright.kernels import norm_gradient
from tilewright.kernels.arrays import Array, contiguous, expect, kind_of, like, matrix, public
from tilewright.kernels.meeting import Meeting, Weights, coming, for_shifts, shifted
from tilewright.kernels.operators import Arrays, Launches, TorchOperator
from tilewright.kernels.rows import BIASED, Rows, dealt
from tilewright.lang import T, Tx


@T.inline
def meet(counts, means, squares, mean, variance, n):
    """The mean of a row and the sum of its squared deviations, from those of the warps that share it.

    A warp's deviations are from its own mean: how far that is from the mean of all is added.
    """
    sums = T.alloc_buffer(means.shape, "float32", scope="local", layout=means.layout)
    Tx.warp.mul(sums, means, counts)
    Tx.warp.sum(mean, sums)
    mean.local()[0] = mean.local()[0] / T.cast(n, "float32")
    Tx.warp.sub(means, means, mean.local()[0])
    Tx.warp.mul(means, means, means)
    Tx.warp.fma(squares, means, counts, squares)
    Tx.warp.sum(variance, squares)


@cache
def forward(rows: Rows, kind: str, weight_kind: str) -> tw.Executable:
    """y = (x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + eps) * w + b"""
    scope = rows.scope

    @T.prim_func
    def layer_norm(x: T.handle, w: T.handle, b: T.handle, y: T.handle, eps: T.float32):
        m, n, x_pitch, y_pitch = T.int32(), T.int32(), T.int32(), T.int32()
        X, Y = rows.matrix(x, (m, n), kind, x_pitch), rows.matrix(y, (m, n), kind, y_pitch)
        W, B = rows.line(w, n, weight_kind), rows.line(b, n, weight_kind)
        first: T.let = rows.first(rows.ctas(m), n)
        here = T.meta_var(rows.begun(first, x_pitch, m))
        source = T.meta_var(coming(here, X, first, (m, n)))
        weights, biases, meeting = T.meta_var((Weights(here, W, first), Weights(here, B, first), Meeting(here, 3)))
        read, tile, apart = here.tile(kind), here.tile(), here.tile()
        total, mean, variance, count = here.lanes(), here.each(), here.each(), here.each()
        for turn in here.following():
            row: T.let = first + turn * rows.step
            if row < m:
                now = T.meta_var(source.begin(row))
                total.local()[0], count.local()[0] = 0.0, 0.0
                for p in now.parts(n):
                    source.take(read, row, p)
                    scope.cast(tile, read)
                    Tx.sum(total.local(), tile.local(), accum=True)
                    count.local()[0] = count.local()[0] + T.cast(now.inside(p, n), "float32")
                Tx.warp.sum(mean, total)
                mean.local()[0], total.local()[0] = mean.local()[0] / T.max(count.local()[0], 1.0), 0.0
                for p in now.parts(n):
                    if now.long:
                        source.take(read, row, p)
                        scope.cast(tile, read)
                    now.clear_outside(tile, p, n, mean.local()[0])
                    scope.sub(apart, tile, mean.local()[0])
                    scope.mul(apart, apart, apart)
                    Tx.sum(total.local(), apart.local(), accum=True)
                Tx.warp.sum(variance, total)
                if not now.by_warps:
                    meet(*meeting.of(turn, count.local()[0], mean.local()[0], variance.local()[0]), mean, variance, n)
                scale: T.let = T.rsqrt(variance.local()[0] / T.cast(n, "float32") + eps)
                for p in now.parts(n):
                    if now.long:
                        source.take(read, row, p)
                        scope.cast(tile, read)
                    scope.sub(tile, tile, mean.local()[0])
                    scope.mul(tile, tile, scale)
                    scope.fma(source.place(Y, row, p, tile), tile, weights.part(now, p), biases.part(now, p))
                    source.put(Y, row, p, tile)
        source.end(Y)

    return tw.compile(layer_norm, fast_math=True)


def outputs(x: Array, weight: Array, bias: Array, eps: float) -> Arrays:
    expect("x", x)
    expect("weight", weight, shape=x.shape[-1:])
    expect("bias", bias, (kind_of(weight),), shape=x.shape[-1:])
    return (like(x),)


def run(results: Arrays, x: Array, weight: Array, bias: Array, eps: float) -> Launches:
    x, y, weight, bias = matrix(x), matrix(results[0]), contiguous(weight), contiguous(bias)
    rows = dealt(x, y, weight, bias, clusters=True, use=BIASED)
    lines = for_shifts(rows, weight, bias)
    yield from shifted(rows, (weight, bias), lines)
    yield forward(rows, kind_of(x), kind_of(weight)), (x, *lines, y, eps)


def gradient(args: Arrays, results: Arrays, gradients: Arrays) -> Arrays:
    x, weight, _, eps = args
    return (*BACKWARD(x, weight, gradients[0], eps), None)


def outputs_backward(x: Array, weight: Array, dy: Array, eps: float) -> Arrays:
    return like(x), like(weight), like(weight)


BACKWARD = TorchOperator(
    "layer_norm_backward",
    "(Tensor x, Tensor weight, Tensor dy, float eps) -> (Tensor, Tensor, Tensor)",
    outputs_backward,
    norm_gradient.run,
)
FORWARD = TorchOperator(
    "layer_norm", "(Tensor x, Tensor weight, Tensor bias, float eps) -> Tensor", outputs, run, gradient
)


@public.names
def layer_norm(x: Array, weight: Array, bias: Array, eps: float = 1e-5) -> Array:
    """(x - mean(x)) / sqrt(var(x) + eps) * weight + bias along the last dimension; differentiable in torch.

    x: float32, float16 or bfloat16, of any shape and strides. weight, bias: one for each column, both of one of these
    dtypes.
    """
    return FORWARD(x, weight, bias, eps)
