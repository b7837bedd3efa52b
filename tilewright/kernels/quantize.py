"""Each row as integers of 8 bits, or floats of 8 bits, and one scale: x is about q * scale."""

from __future__ import annotations

from functools import cache

import tilewright as tw
from tilewright.errors import ArgumentError, choices
from tilewright.kernels.arrays import Array, expect, kind_of, like, matrix, public
from tilewright.kernels.operators import Arrays, Launches, TorchOperator
from tilewright.kernels.rows import Rows, dealt
from tilewright.lang import T, Tx

LARGEST = {"int8": 127.0, "float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}
ROUND = 1.5 * 2**23  # adding it rounds to the nearest integer, ties to even, which the sum's low bits are


@cache
def forward(rows: Rows, kind: str, to: str) -> tw.Executable:
    """scale = max(abs(x)) / largest, q = x / scale"""
    scope, largest = rows.scope, LARGEST[to]

    @T.prim_func
    def quantize(x: T.handle, q: T.handle, scales: T.handle):
        m, n, x_pitch, q_pitch = T.int32(), T.int32(), T.int32(), T.int32()
        X = rows.matrix(x, (m, n), kind, x_pitch)
        Q = rows.matrix(q, (m, n), to, q_pitch)
        Scales = rows.numbers(scales, m, "float32")
        row = rows.first(rows.ctas(m), n)
        read, tile = rows.tile(kind), rows.tile()
        most, row_most = rows.own(), rows.each()
        if row < m:
            most.local()[0] = 0.0
            for p in rows.parts(n):
                scope.copy(read, X[rows.at(row), rows.columns(p)], fill=0)
                scope.abs(tile, read)
                Tx.max(most.local(), tile.local(), nan="number", accum=True)
            scope.max(row_most, most)
            scope.mul(Scales[rows.at(row)], row_most, 1.0 / largest)
            inverse: T.let = T.select(row_most.local()[0] > 0.0, largest / row_most.local()[0], 0.0)
            for p in rows.parts(n):
                if rows.long:
                    scope.copy(read, X[rows.at(row), rows.columns(p)], fill=0)
                scope.mul(tile, read, inverse)
                if to == "int8":
                    scope.add(tile, tile, ROUND)
                    scope.cast(Q[rows.at(row), rows.columns(p)], tile.view("int32"))
                else:
                    scope.cast(Q[rows.at(row), rows.columns(p)], tile)

    return tw.compile(quantize)


def outputs(x: Array, dtype: str) -> Arrays:
    expect("x", x)
    if dtype not in LARGEST:
        raise ArgumentError(f"there is no quantisation to {dtype!r}", given=dtype, allowed=choices(dtype, LARGEST))
    return like(x, kind=dtype), like(x, x.shape[:-1], "float32")


def run(results: Arrays, x: Array, dtype: str) -> Launches:
    x, q = matrix(x), matrix(results[0])
    yield forward(dealt(x, q), kind_of(x), dtype), (x, q, results[1].reshape(-1))


FORWARD = TorchOperator("quantize", "(Tensor x, str dtype) -> (Tensor, Tensor)", outputs, run)


@public.names
def quantize(x: Array, dtype: str = "int8") -> tuple[Array, Array]:
    """(q, scales): q of ``dtype`` has the shape of x, scales, float32, one for each row; x is about q * scale.

    dtype: "int8", rounded to nearest even, "float8_e4m3fn" or "float8_e5m2". The largest magnitude of a row becomes
    the largest number of that type. The int8 of NaN and infinities is undefined, and differs between a GPU and the
    simulator.
    """
    q, scales = FORWARD(x, dtype)
    return q, scales
