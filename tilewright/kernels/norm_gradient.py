"""The gradients of RMS norm and layer norm: dx of each row, and the sums over all rows that dw and db are.

Each warp or CTA takes rows in turns and keeps its own sums of dw and db, in registers where rows stay there, which it
stores to a row of its own; `column_sum` adds those up. What the forward pass knew of a row is computed again: the row
is read in any case.
"""

from __future__ import annotations

from functools import cache

import tilewright as tw
from tilewright.kernels.arrays import Array, contiguous, kind_of, like, matrix
from tilewright.kernels.operators import Arrays
from tilewright.kernels.rows import Rows, dealt
from tilewright.kernels.sums import column_sum
from tilewright.lang import T, Tx

__all__ = ["run"]

MOST_KEPT = 8192  # elements of a row: several arrays of it are in registers
CTAS = 264  # two on each multiprocessor of an H100


@cache
def backward(rows: Rows, kind: str, weight_kind: str, centred: bool) -> tw.Executable:
    """dx = scale * (g - mean(g * z) * z - mean(g)), dw = sum(dy * z), db = sum(dy)

    where z = (x - mean(x)) * scale and g = dy * w; without the means of x and of g, and db, unless ``centred``.
    """
    scope = rows.scope

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
        slot = rows.first(rows.ctas(slots), n)
        read, arrived, weight = rows.tile(kind), rows.tile(kind), rows.line_tile(weight_kind)
        tile, slope, product, sums, biases = (rows.tile() for _ in range(5))
        total, row_total = rows.own(), rows.each()
        mine, count = total.local(), T.cast(n, "float32")
        scope.fill(sums, 0.0)
        scope.fill(biases, 0.0)
        if rows.long:
            for p in rows.parts(n):
                scope.copy(DW[rows.at(slot), rows.columns(p)], sums, clip=True)
                scope.copy(DB[rows.at(slot), rows.columns(p)], biases, clip=True)
        else:
            scope.copy(weight, W[rows.columns(0)], fill=0)
        for turn in range(T.ceildiv(m, slots)):
            row: T.let = turn * slots + slot
            middle: T.float32 = 0.0
            scale: T.float32 = 0.0
            if centred:
                mine[0] = 0.0
                for p in rows.parts(n):
                    scope.copy(read, X[rows.at(row), rows.columns(p)], fill=0)
                    scope.cast(tile, read)
                    Tx.sum(mine, tile.local(), accum=True)
                scope.sum(row_total, total)
                middle = row_total.local()[0] / count
            mine[0] = 0.0
            for p in rows.parts(n):
                if rows.long or not centred:
                    scope.copy(read, X[rows.at(row), rows.columns(p)], fill=0)
                scope.sub(tile, read, middle)
                if centred:
                    rows.clear_outside(tile, p, n)
                scope.mul(product, tile, tile)
                Tx.sum(mine, product.local(), accum=True)
            scope.sum(row_total, total)
            scale = T.rsqrt(row_total.local()[0] / count + eps)
            along: T.float32 = 0.0
            mean: T.float32 = 0.0
            mine[0] = 0.0
            for p in rows.parts(n):
                if rows.long:
                    scope.copy(read, X[rows.at(row), rows.columns(p)], fill=0)
                    scope.copy(weight, W[rows.columns(p)], fill=0)
                    scope.sub(tile, read, middle)
                scope.copy(arrived, DY[rows.at(row), rows.columns(p)], fill=0)
                scope.mul(tile, tile, scale)
                scope.mul(slope, arrived, weight)
                scope.mul(product, slope, tile)
                Tx.sum(mine, product.local(), accum=True)
            scope.sum(row_total, total)
            along = row_total.local()[0] / count
            if centred:
                mine[0] = 0.0
                for p in rows.parts(n):
                    if rows.long:
                        scope.copy(arrived, DY[rows.at(row), rows.columns(p)], fill=0)
                        scope.copy(weight, W[rows.columns(p)], fill=0)
                        scope.mul(slope, arrived, weight)
                    Tx.sum(mine, slope.local(), accum=True)
                scope.sum(row_total, total)
                mean = row_total.local()[0] / count
            for p in rows.parts(n):
                if rows.long:
                    scope.copy(read, X[rows.at(row), rows.columns(p)], fill=0)
                    scope.copy(arrived, DY[rows.at(row), rows.columns(p)], fill=0)
                    scope.copy(weight, W[rows.columns(p)], fill=0)
                    scope.sub(tile, read, middle)
                    scope.mul(tile, tile, scale)
                    scope.mul(slope, arrived, weight)
                scope.mul(product, arrived, tile)
                if rows.long:
                    scope.add(DW[rows.at(slot), rows.columns(p)], product, DW[rows.at(slot), rows.columns(p)])
                    scope.add(DB[rows.at(slot), rows.columns(p)], arrived, DB[rows.at(slot), rows.columns(p)])
                else:
                    scope.add(sums, sums, product)
                    scope.add(biases, biases, arrived)
                scope.fma(slope, tile, -along, slope)
                scope.sub(slope, slope, mean)
                scope.mul(DX[rows.at(row), rows.columns(p)], slope, scale)
        if not rows.long:
            scope.copy(DW[rows.at(slot), rows.columns(0)], sums, clip=True)
            scope.copy(DB[rows.at(slot), rows.columns(0)], biases, clip=True)

    return tw.compile(norm_backward, fast_math=True)


def run(x: Array, weight: Array, dy: Array, eps: float, dx: Array, *, centred: bool) -> tuple[Array, Array]:
    """Fills dx. Returns dw and db, of the dtype of the weight."""
    shown, given, made, line = matrix(x), matrix(dy), matrix(dx), contiguous(weight)
    rows = dealt(shown, given, made, line, most=MOST_KEPT)
    m, n = shown.shape
    slots = min(CTAS * rows.of_a_cta, -(-m // rows.at_once) * rows.at_once)
    sums, biases = like(x, (slots, n), "float32"), like(x, (slots, n), "float32")
    backward(rows, kind_of(x), kind_of(weight), centred)(shown, line, given, made, sums, biases, eps)
    return column_sum(sums, kind_of(weight)), column_sum(biases, kind_of(weight))
