"""The gradients of RMS norm and layer norm: dx of each row, and dw and db, which are sums over all rows.

Each warp or CTA takes rows in turns and keeps its own sums of dw and db, in registers where rows stay there, which it
stores to a row of its own; `run_columns` adds those up. The statistics of the forward pass are computed again, since
the row is read in any case.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import tilewright as tw
from tilewright.kernels.arrays import Array, contiguous, kind_of, like, matrix
from tilewright.kernels.operators import Arrays, Launches
from tilewright.kernels.rows import Rows, dealt
from tilewright.kernels.sums import run_columns
from tilewright.lang import T, Tx

MOST_KEPT = 8192  # elements of a row: several arrays of it are in registers
CTAS = 264  # CTAs: two on each multiprocessor of an H100


class GradientArrays(NamedTuple):
    """What the gradients are of, and where they go: the sums of a slot, of dw and db, are in a row of DW and DB."""

    X: Any
    DY: Any
    W: Any
    DX: Any
    DW: Any
    DB: Any


class RowTiles:
    """A thread's part of a row, in registers."""

    def __init__(self, rows: Rows, kind: str, weight_kind: str) -> None:
        self.read, self.arrived, self.weight = rows.tile(kind), rows.tile(kind), rows.line_tile(weight_kind)
        self.z, self.slope, self.product = rows.tile(), rows.tile(), rows.tile()
        self.sums, self.biases = rows.tile(), rows.tile()
        self.total, self.row_total = rows.own(), rows.each()
        # Of the row: its mean, the factor of its deviations, and the means of slope * z and of slope.
        self.middle, self.scale, self.along, self.mean = (T.alloc_local((1,), "float32") for _ in range(4))


@T.inline
def moments(rows, tiles, X, row, n, eps, centred):
    """The mean of the row and the root of its variance; without ``centred`` its mean counts as 0."""
    total = tiles.total.local()
    tiles.middle[0] = 0.0
    if centred:
        total[0] = 0.0
        for p in rows.parts(n):
            rows.scope.copy(tiles.read, X[rows.at(row), rows.columns(p)], fill=0)
            Tx.sum(total, tiles.read.local(), accum=True)
        rows.scope.sum(tiles.row_total, tiles.total)
        tiles.middle[0] = tiles.row_total.local()[0] / T.cast(n, "float32")
    total[0] = 0.0
    for p in rows.parts(n):
        rows.scope.copy(tiles.read, X[rows.at(row), rows.columns(p)], fill=0)
        rows.scope.sub(tiles.z, tiles.read, tiles.middle[0])
        if centred:
            rows.clear_outside(tiles.z, p, n)
        rows.scope.mul(tiles.product, tiles.z, tiles.z)
        Tx.sum(total, tiles.product.local(), accum=True)
    rows.scope.sum(tiles.row_total, tiles.total)
    tiles.scale[0] = T.rsqrt(tiles.row_total.local()[0] / T.cast(n, "float32") + eps)


@T.inline
def fetch(rows, tiles, arrays, row, p):
    """z = (x - mean) * scale, and slope = dy * w."""
    rows.scope.copy(tiles.read, arrays.X[rows.at(row), rows.columns(p)], fill=0)
    rows.scope.copy(tiles.arrived, arrays.DY[rows.at(row), rows.columns(p)], fill=0)
    rows.scope.copy(tiles.weight, arrays.W[rows.columns(p)], fill=0)
    rows.scope.sub(tiles.z, tiles.read, tiles.middle[0])
    rows.scope.mul(tiles.z, tiles.z, tiles.scale[0])
    rows.scope.mul(tiles.slope, tiles.arrived, tiles.weight)


@T.inline
def averages(rows, tiles, arrays, row, n, centred):
    """The means of slope * z, and of slope; without ``centred`` the second counts as 0."""
    total, slopes = tiles.total.local(), tiles.mean
    total[0], slopes[0] = 0.0, 0.0
    for p in rows.parts(n):
        fetch(rows, tiles, arrays, row, p)
        rows.scope.mul(tiles.product, tiles.slope, tiles.z)
        Tx.sum(total, tiles.product.local(), accum=True)
        if centred:
            Tx.sum(slopes, tiles.slope.local(), accum=True)
    rows.scope.sum(tiles.row_total, tiles.total)
    tiles.along[0] = tiles.row_total.local()[0] / T.cast(n, "float32")
    if centred:
        total[0] = slopes[0]
        rows.scope.sum(tiles.row_total, tiles.total)
        slopes[0] = tiles.row_total.local()[0] / T.cast(n, "float32")


@T.inline
def slopes(rows, tiles, arrays, row, slot, n):
    """dx, and the row's terms of dw and db."""
    DX, DW, DB = T.meta_var((arrays.DX, arrays.DW, arrays.DB))
    for p in rows.parts(n):
        if rows.long:
            fetch(rows, tiles, arrays, row, p)
        rows.scope.mul(tiles.product, tiles.arrived, tiles.z)
        if rows.long:
            here, there = rows.at(slot), rows.columns(p)
            rows.scope.add(DW[here, there], tiles.product, DW[here, there])
            rows.scope.add(DB[here, there], tiles.arrived, DB[here, there])
        else:
            rows.scope.add(tiles.sums, tiles.sums, tiles.product)
            rows.scope.add(tiles.biases, tiles.biases, tiles.arrived)
        rows.scope.fma(tiles.slope, tiles.z, -tiles.along[0], tiles.slope)
        rows.scope.sub(tiles.slope, tiles.slope, tiles.mean[0])
        rows.scope.mul(DX[rows.at(row), rows.columns(p)], tiles.slope, tiles.scale[0])


@T.inline
def keep(rows, tiles, DW, DB, slot, n):
    """Store the sums, each thread those that it has."""
    for p in rows.parts(n):
        rows.scope.copy(DW[rows.at(slot), rows.columns(p)], tiles.sums, clip=True)
        rows.scope.copy(DB[rows.at(slot), rows.columns(p)], tiles.biases, clip=True)


@cache
def backward(rows: Rows, kind: str, weight_kind: str, centred: bool) -> tw.Executable:
    """dx = scale * (slope - mean(slope * z) * z - mean(slope)), dw = sum(dy * z), db = sum(dy)

    where z = (x - mean(x)) * scale and slope = dy * w; the means of x and of slope are 0 unless ``centred``.
    """

    @T.prim_func
    def norm_backward(x: T.handle, w: T.handle, dy: T.handle, dx: T.handle, dw: T.handle, db: T.handle, eps: T.float32):
        m, n, slots = T.int32(), T.int32(), T.int32()
        x_pitch, dy_pitch, dx_pitch, dw_pitch, db_pitch = T.int32(), T.int32(), T.int32(), T.int32(), T.int32()
        X = rows.matrix(x, (m, n), kind, x_pitch)
        DY = rows.matrix(dy, (m, n), kind, dy_pitch)
        DX = rows.matrix(dx, (m, n), kind, dx_pitch)
        W = rows.line(w, n, weight_kind)
        DW = rows.matrix(dw, (slots, n), "float32", dw_pitch)
        DB = rows.matrix(db, (slots, n), "float32", db_pitch)
        arrays = T.meta_var(GradientArrays(X, DY, W, DX, DW, DB))
        slot = rows.first(rows.ctas(slots), n)
        tiles = T.meta_var(RowTiles(rows, kind, weight_kind))
        rows.scope.fill(tiles.sums, 0.0)
        rows.scope.fill(tiles.biases, 0.0)
        if rows.long:
            keep(rows, tiles, DW, DB, slot, n)
        for turn in range(T.ceildiv(m, slots)):
            row: T.let = turn * slots + slot
            moments(rows, tiles, X, row, n, eps, centred)
            averages(rows, tiles, arrays, row, n, centred)
            slopes(rows, tiles, arrays, row, slot, n)
        if not rows.long:
            keep(rows, tiles, DW, DB, slot, n)

    return tw.compile(norm_backward, fast_math=True)


def run(results: Arrays, x: Array, weight: Array, dy: Array, eps: float) -> Launches:
    """Fills dx, dw and, of a norm that is centred, db."""
    dx, dw, *centred = results
    shown, slopes, gradient, line = matrix(x), matrix(dy), matrix(dx), contiguous(weight)
    rows = dealt(shown, slopes, gradient, line, most=MOST_KEPT)
    m, n = shown.shape
    slots = min(CTAS * rows.of_a_cta, -(-m // rows.at_once) * rows.at_once)
    sums, biases = like(x, (slots, n), "float32"), like(x, (slots, n), "float32")
    compiled = backward(rows, kind_of(x), kind_of(weight), bool(centred))
    yield compiled, (shown, line, slopes, gradient, sums, biases, eps)
    for result, parts in zip((dw, *centred), (sums, biases), strict=False):
        yield from run_columns((result,), parts)
