"""Cross entropy: for each row of logits the logarithm of the sum of exponentials, less the logit of the target."""

from __future__ import annotations

from functools import cache

import numpy as np

import tilewright as tw
from tilewright.errors import ArgumentError
from tilewright.host import device_of
from tilewright.kernels.arrays import INTEGERS, Array, contiguous, expect, expect_columns, kind_of, like, matrix, public
from tilewright.kernels.meeting import Direct, Numbers, coming
from tilewright.kernels.operators import Arrays, Launches, TorchOperator
from tilewright.kernels.rows import READ, Rows, dealt
from tilewright.kernels.softmax import Exponents, exponents, powers
from tilewright.lang import T

NAN = float("nan")


@cache
def forward(rows: Rows, kind: str, target_kind: str) -> tw.Executable:
    """loss = log(sum(exp(x - max(x)))) + max(x) - x[target]; 0 for ``ignore_index``, NaN where it is no column."""
    scope = rows.scope

    @T.prim_func
    def cross_entropy(x: T.handle, target: T.handle, loss: T.handle, ignore_index: T.int64):
        m, n, x_pitch = T.int32(), T.int32(), T.int32()
        X = rows.matrix(x, (m, n), kind, x_pitch)
        Target = rows.numbers(target, m, target_kind)
        Loss = rows.numbers(loss, m, "float32")
        first: T.let = rows.first(rows.ctas(m), n)
        here = T.meta_var(rows.begun(first, x_pitch, m))
        targets = T.meta_var(Numbers(here, Target, first, m))
        source = T.meta_var(coming(here, X, first, (m, n)))
        tiles = T.meta_var(Exponents(here, kind))
        out = here.each()
        for turn in here.following():
            row: T.let = first + turn * rows.step
            if row < m:
                now = T.meta_var(source.begin(row))
                at: T.let = T.cast(targets.of(row), "int64")
                exponents(now, tiles, source, row, n, turn)
                out.local()[0] = T.select(at == ignore_index, 0.0, NAN)
                if (at != ignore_index) & (at >= 0) & (at < n):
                    mine: T.let = T.cast(source.element(row, T.cast(at, "int32")), "float32")
                    out.local()[0] = T.log(tiles.row_total.local()[0]) + tiles.row_most.local()[0] - mine
                if now.speaks:
                    scope.copy(Loss[now.at(row)], out, clip=True)

    return tw.compile(cross_entropy, fast_math=True)


@cache
def backward(rows: Rows, kind: str, target_kind: str) -> tw.Executable:
    """dx = (exp(x - max(x)) / sum(exp(x - max(x))) - (column == target)) * dloss"""
    scope = rows.scope

    @T.prim_func
    def cross_entropy_backward(x: T.handle, target: T.handle, dloss: T.handle, dx: T.handle, ignore_index: T.int64):
        m, n, x_pitch, dx_pitch = T.int32(), T.int32(), T.int32(), T.int32()
        X = rows.matrix(x, (m, n), kind, x_pitch)
        DX = rows.matrix(dx, (m, n), kind, dx_pitch)
        Target = rows.numbers(target, m, target_kind)
        DLoss = rows.numbers(dloss, m, "float32")
        row = rows.first(rows.ctas(m), n)
        tiles = T.meta_var(Exponents(rows, kind))
        source = T.meta_var(Direct(rows, X, row, (m, n)))
        wanted, arrived = rows.each(target_kind), rows.each()
        if row < m:
            scope.copy(wanted, Target[rows.at(row)], fill=-1)
            scope.copy(arrived, DLoss[rows.at(row)], fill=0)
            at: T.let = T.cast(wanted.local()[0], "int64")
            exponents(rows, tiles, source, row, n)
            counted: T.let = T.select((at >= 0) & (at < n), arrived.local()[0], NAN)
            slope: T.let = T.select(at == ignore_index, 0.0, counted)
            scale: T.let = tiles.scale()
            for p in rows.parts(n):
                powers(rows, tiles, source, row, p)
                scope.mul(tiles.tile, tiles.tile, scale)
                scope.sub(tiles.tile, tiles.tile, lambda i, j: T.select(rows.begin(p) + j == at, 1.0, 0.0))  # noqa: B023  # parsed here
                scope.mul(DX[rows.at(row), rows.columns(p)], tiles.tile, slope)

    return tw.compile(cross_entropy_backward, fast_math=True)


def check_columns(x: Array, target: Array, ignore_index: int) -> None:
    """Raises ArgumentError for targets in host memory that are no columns; on a GPU those have a loss of NaN."""
    if device_of(target) != "cpu":
        return
    numbers, n = np.asarray(target), x.shape[-1]
    wrong = np.argwhere((numbers != ignore_index) & ((numbers < 0) | (numbers >= n)))
    if len(wrong):
        place = tuple(map(int, wrong[0]))
        where = f"target[{', '.join(map(str, place))}]" if place else "target"
        raise ArgumentError(
            f"{where} is no column of x",
            given=int(numbers[place]),
            allowed=f"0..{n - 1}, or ignore_index, {ignore_index}" if n else f"ignore_index, {ignore_index}",
            hint=f"ignore_index={int(numbers[place])}, if such rows are to be left out",
        )


def outputs(x: Array, target: Array, ignore_index: int) -> Arrays:
    expect("x", x)
    expect_columns(x)
    expect("target", target, INTEGERS, shape=x.shape[:-1])
    return (like(x, x.shape[:-1], "float32"),)


def run(results: Arrays, x: Array, target: Array, ignore_index: int) -> Launches:
    check_columns(x, target, ignore_index)
    x, target = matrix(x), contiguous(target).reshape(-1)
    rows = dealt(x, clusters=True, use=READ)
    yield forward(rows, kind_of(x), kind_of(target)), (x, target, results[0].reshape(-1), ignore_index)


def gradient(args: Arrays, results: Arrays, gradients: Arrays) -> Arrays:
    return BACKWARD(*args, gradients[0]), None, None


def run_backward(results: Arrays, x: Array, target: Array, ignore_index: int, dloss: Array) -> Launches:
    check_columns(x, target, ignore_index)
    x, dx = matrix(x), matrix(results[0])
    target, dloss = (contiguous(array).reshape(-1) for array in (target, dloss))
    yield backward(dealt(x, dx), kind_of(x), kind_of(target)), (x, target, dloss, dx, ignore_index)


BACKWARD = TorchOperator(
    "cross_entropy_backward",
    "(Tensor x, Tensor target, int ignore_index, Tensor dloss) -> Tensor",
    lambda x, target, ignore_index, dloss: (like(x),),
    run_backward,
)
FORWARD = TorchOperator(
    "cross_entropy", "(Tensor x, Tensor target, int ignore_index) -> Tensor", outputs, run, gradient
)


@public.names
def cross_entropy(x: Array, target: Array, ignore_index: int = -100) -> Array:
    """The loss of each row of logits, float32: log(sum(exp(x))) - x[target]; differentiable in torch.

    x: float32, float16 or bfloat16. target: int32 or int64, of the shape of x without its last dimension. Rows whose
    target is ``ignore_index`` have a loss of 0 and no gradient. Any other target that is no column is an ArgumentError
    for arrays in host memory; on a GPU the row's loss and its gradient are NaN.
    """
    return FORWARD(x, target, ignore_index)
