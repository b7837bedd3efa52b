"""softmax: each row becomes positive numbers that sum to one.

The maximum and the sum are found in one pass, as for cross entropy. A row that stays in registers is read once, a
longer one twice.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import tilewright as tw
from tilewright.kernels.arrays import Array, expect, kind_of, like, matrix, public
from tilewright.kernels.meeting import Meeting, coming
from tilewright.kernels.operators import Arrays, Launches, TorchOperator
from tilewright.kernels.rows import Rows, dealt
from tilewright.lang import T, Tx

# The maximum of a row and the sum of its exponentials, in one pass over the row.
#
# Each thread sums the exponentials of its elements, less its own maximum, and scales the sum whenever that maximum
# grows; the row's threads then agree on both, and the CTAs of a cluster likewise.


LOWEST = float(np.finfo(np.float32).min)  # no infinity: the difference of two would be NaN


class Exponents:
    """A thread's part of a row, in registers: elements as they lie in memory, exponentials, maxima and sums."""

    def __init__(self, rows: Rows, kind: str) -> None:
        self.read, self.tile = rows.tile(kind), rows.tile()
        self.most, self.total = rows.lanes(), rows.lanes()
        self.row_most, self.row_total = rows.each(), rows.each()
        self.meeting = Meeting(rows, 2)
        self.nothing = -T.infinity(kind)  # stands for elements beyond the end of the row

    def scale(self) -> Any:
        """The factor of the thread's powers with which the row sums to one. `Any`: an expression."""
        return T.exp(self.most.local()[0] - self.row_most.local()[0]) / self.row_total.local()[0]


@T.inline
def exponents(rows, tiles, source, row, n, turn=0):
    """Find the maximum and the sum of the row."""
    most, total = tiles.most.local(), tiles.total.local()
    most[0], total[0] = LOWEST, 0.0
    for p in rows.parts(n):
        source.take(tiles.read, row, p, tiles.nothing)
        before: T.let = most[0]
        Tx.max(most, tiles.read.local(), nan="number", accum=True)  # a NaN comes back in the sum
        rows.scope.exp(tiles.tile, tiles.read, bias=-most[0])
        total[0] = total[0] * T.exp(before - most[0])
        Tx.sum(total, tiles.tile.local(), accum=True)
    Tx.warp.max(tiles.row_most, tiles.most)
    total[0] = total[0] * T.exp(most[0] - tiles.row_most.local()[0])
    Tx.warp.sum(tiles.row_total, tiles.total)
    if not rows.by_warps:
        meet(tiles, turn, tiles.row_most.local(), tiles.row_total.local())


@T.inline
def meet(tiles, turn, most, total):
    """The maximum and the sum of the row, from those of the warps that share it."""
    mosts, totals = T.meta_var(tiles.meeting.of(turn, most[0], total[0]))
    Tx.warp.max(tiles.row_most, mosts)
    Tx.warp.exp(mosts, mosts, bias=-most[0])
    Tx.warp.mul(totals, totals, mosts)
    Tx.warp.sum(tiles.row_total, totals)


@T.inline
def powers(rows, tiles, source, row, p):
    """Compute the exponentials of a part again, unless they are still there."""
    if rows.long:
        source.take(tiles.read, row, p, tiles.nothing)
        rows.scope.exp(tiles.tile, tiles.read, bias=-tiles.most.local()[0])


@cache
def forward(rows: Rows, kind: str) -> tw.Executable:
    """y = exp(x - max(x)) / sum(exp(x - max(x)))"""
    scope = rows.scope

    @T.prim_func
    def softmax(x: T.handle, y: T.handle):
        m, n, x_pitch, y_pitch = T.int32(), T.int32(), T.int32(), T.int32()
        X = rows.matrix(x, (m, n), kind, x_pitch)
        Y = rows.matrix(y, (m, n), kind, y_pitch)
        first: T.let = rows.first(rows.ctas(m), n)
        here = T.meta_var(rows.begun(first, x_pitch, m))
        source = T.meta_var(coming(here, X, first, (m, n)))
        tiles = T.meta_var(Exponents(here, kind))
        for turn in here.following():
            row: T.let = first + turn * rows.step
            if row < m:
                now = T.meta_var(source.begin(row))
                exponents(now, tiles, source, row, n, turn)
                scale: T.let = tiles.scale()
                for p in now.parts(n):
                    powers(now, tiles, source, row, p)
                    scope.mul(source.place(Y, row, p, tiles.tile), tiles.tile, scale)
                    source.put(Y, row, p, tiles.tile)
        source.end(Y)

    return tw.compile(softmax, fast_math=True)


@cache
def backward(rows: Rows, kind: str) -> tw.Executable:
    """dx = y * (dy - sum(y * dy))"""
    scope = rows.scope

    @T.prim_func
    def softmax_backward(y: T.handle, dy: T.handle, dx: T.handle):
        m, n, y_pitch, dy_pitch, dx_pitch = T.int32(), T.int32(), T.int32(), T.int32(), T.int32()
        Y = rows.matrix(y, (m, n), kind, y_pitch)
        DY = rows.matrix(dy, (m, n), kind, dy_pitch)
        DX = rows.matrix(dx, (m, n), kind, dx_pitch)
        row = rows.first(rows.ctas(m), n)
        result, arrived, tile = rows.tile(kind), rows.tile(kind), rows.tile()
        total, row_total = rows.own(), rows.each()
        if row < m:
            total.local()[0] = 0.0
            for p in rows.parts(n):
                scope.copy(result, Y[rows.at(row), rows.columns(p)], fill=0)
                scope.copy(arrived, DY[rows.at(row), rows.columns(p)], fill=0)
                scope.mul(tile, result, arrived)
                Tx.sum(total.local(), tile.local(), accum=True)
            scope.sum(row_total, total)
            for p in rows.parts(n):
                if rows.long:
                    scope.copy(result, Y[rows.at(row), rows.columns(p)], fill=0)
                    scope.copy(arrived, DY[rows.at(row), rows.columns(p)], fill=0)
                scope.sub(tile, arrived, row_total.local()[0])
                scope.mul(DX[rows.at(row), rows.columns(p)], tile, result)

    return tw.compile(softmax_backward, fast_math=True)


def outputs(x: Array) -> Arrays:
    expect("x", x)
    return (like(x),)


def run(results: Arrays, x: Array) -> Launches:
    x, y = matrix(x), matrix(results[0])
    yield forward(dealt(x, y, clusters=True), kind_of(x)), (x, y)


def gradient(args: Arrays, results: Arrays, gradients: Arrays) -> Arrays:
    return (BACKWARD(results[0], gradients[0]),)


def run_backward(results: Arrays, y: Array, dy: Array) -> Launches:
    y, dy, dx = map(matrix, (y, dy, *results))
    yield backward(dealt(y, dy, dx), kind_of(y)), (y, dy, dx)


BACKWARD = TorchOperator("softmax_backward", "(Tensor y, Tensor dy) -> Tensor", lambda y, dy: (like(y),), run_backward)
FORWARD = TorchOperator("softmax", "(Tensor x) -> Tensor", outputs, run, gradient)


@public.names
def softmax(x: Array) -> Array:
    """exp(x) over its sum along the last dimension, computed in float32; differentiable in torch.

    x: float32, float16 or bfloat16, of any shape and strides. Returns an array of its shape and dtype.
    """
    return FORWARD(x)
