"""Cross entropy: for each row of logits the logarithm of the sum of exponentials, less the logit of the target."""

from __future__ import annotations

from functools import cache

import tilewright as tw
from tilewright.kernels.arrays import INTEGERS, Array, contiguous, expect, kind_of, like, matrix, public
from tilewright.kernels.meeting import coming
from tilewright.kernels.online import Exponents, exponents, powers
from tilewright.kernels.operators import Arrays, Launches, TorchOperator
from tilewright.kernels.rows import Rows, dealt
from tilewright.lang import T

__all__ = ["cross_entropy"]


@cache
def forward(rows: Rows, kind: str, target_kind: str) -> tw.Executable:
    """loss = log(sum(exp(x - max(x)))) + max(x) - x[target]"""
    scope = rows.scope

    @T.prim_func
    def cross_entropy(x: T.handle, target: T.handle, loss: T.handle):
        m, n, x_pitch = T.int32(), T.int32(), T.int32()
        X = rows.matrix(x, (m, n), kind, x_pitch)
        Target = rows.numbers(target, m, target_kind)
        Loss = rows.numbers(loss, m, "float32")
        first: T.let = rows.first(rows.ctas(m), n)
        source = T.meta_var(coming(rows, X, first, (m, n)))
        tiles = T.meta_var(Exponents(rows, kind))
        wanted, out = rows.each(target_kind), rows.each()
        for turn in rows.following():
            row: T.let = first + turn
            if row < m:
                scope.copy(wanted, Target[rows.at(row)], fill=-1)
                at: T.let = wanted.local()[0]
                exponents(rows, tiles, source, row, n, turn)
                out.local()[0] = 0.0
                if (at >= 0) & (at < n):
                    mine: T.let = T.cast(X[rows.mine(row), T.cast(at, "int32")], "float32")
                    out.local()[0] = T.log(tiles.row_total.local()[0]) + tiles.row_most.local()[0] - mine
                if rows.speaks:
                    scope.copy(Loss[rows.at(row)], out, clip=True)

    return tw.compile(cross_entropy, fast_math=True)


@cache
def backward(rows: Rows, kind: str, target_kind: str) -> tw.Executable:
    """dx = (exp(x - max(x)) / sum(exp(x - max(x))) - (column == target)) * dloss"""
    scope = rows.scope

    @T.prim_func
    def cross_entropy_backward(x: T.handle, target: T.handle, dloss: T.handle, dx: T.handle):
        m, n, x_pitch, dx_pitch = T.int32(), T.int32(), T.int32(), T.int32()
        X = rows.matrix(x, (m, n), kind, x_pitch)
        DX = rows.matrix(dx, (m, n), kind, dx_pitch)
        Target = rows.numbers(target, m, target_kind)
        DLoss = rows.numbers(dloss, m, "float32")
        row = rows.first(rows.ctas(m), n)
        tiles = T.meta_var(Exponents(rows, kind))
        wanted, arrived = rows.each(target_kind), rows.each()
        if row < m:
            scope.copy(wanted, Target[rows.at(row)], fill=-1)
            scope.copy(arrived, DLoss[rows.at(row)], fill=0)
            at: T.let = T.cast(wanted.local()[0], "int32")
            exponents(rows, tiles, X, row, n)
            slope: T.let = T.select((at >= 0) & (at < n), arrived.local()[0], 0.0)
            scale: T.let = tiles.scale()
            for p in rows.parts(n):
                powers(rows, tiles, X, row, p)
                scope.mul(tiles.tile, tiles.tile, scale)
                scope.sub(tiles.tile, tiles.tile, lambda i, j: T.select(p * rows.part + j == at, 1.0, 0.0))  # noqa: B023  # parsed here
                scope.mul(DX[rows.at(row), rows.columns(p)], tiles.tile, slope)

    return tw.compile(cross_entropy_backward, fast_math=True)


def outputs(x: Array, target: Array) -> Arrays:
    expect("x", x)
    expect("target", target, INTEGERS, shape=x.shape[:-1])
    return (like(x, x.shape[:-1], "float32"),)


def run(results: Arrays, args: Arrays) -> Launches:
    x, target = matrix(args[0]), contiguous(args[1]).reshape(-1)
    rows = dealt(x, clusters=True, table="reduced")
    yield forward(rows, kind_of(x), kind_of(target)), (x, target, results[0].reshape(-1))


def gradient(args: Arrays, results: Arrays, gradients: Arrays) -> Arrays:
    return BACKWARD(*args, gradients[0]), None


def run_backward(results: Arrays, args: Arrays) -> Launches:
    x, dx = matrix(args[0]), matrix(results[0])
    target, dloss = (contiguous(array).reshape(-1) for array in args[1:])
    yield backward(dealt(x, dx), kind_of(x), kind_of(target)), (x, target, dloss, dx)


BACKWARD = TorchOperator(
    "cross_entropy_backward",
    "(Tensor x, Tensor target, Tensor dloss) -> Tensor",
    lambda x, target, dloss: (like(x),),
    run_backward,
)
FORWARD = TorchOperator("cross_entropy", "(Tensor x, Tensor target) -> Tensor", outputs, run, gradient)


@public.names
def cross_entropy(x: Array, target: Array) -> Array:
    """The loss of each row of logits, float32: log(sum(exp(x))) - x[target]; differentiable in torch.

    x: float32, float16 or bfloat16. target: int32 or int64, of the shape of x without its last dimension; where it is
    no column, as torch's -100, the loss is 0.
    """
    return FORWARD(x, target)
