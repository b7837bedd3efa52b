"""Sums of columns and of rows, and where the largest element of each row is.

Columns are summed in two steps: CTAs that have some columns of some rows each write a row of sums, whose columns are
then summed likewise.
"""

from __future__ import annotations

from functools import cache

import tilewright as tw
from tilewright.kernels.arrays import Array, expect, expect_columns, kind_of, like, matrix, public
from tilewright.kernels.meeting import Direct
from tilewright.kernels.operators import Arrays, Launches, TorchOperator
from tilewright.kernels.rows import READ, Rows, common_vector, dealt
from tilewright.lang import T, Tx

THREADS = 256  # of a CTA, where columns are summed
RUNS = 32  # accesses of a CTA to a row, where columns are summed
TALL = 512  # rows that a CTA sums at most


@cache
def columns(vector: int, kind: str, to: str, whole: bool) -> tw.Executable:
    """Each CTA sums some columns of some rows."""
    rows = Rows(RUNS, 1, vector, whole, long=True)

    @T.prim_func
    def column_sums(x: T.handle, y: T.handle):
        m, n, k, x_pitch = T.int32(), T.int32(), T.int32(), T.int32()
        X = rows.matrix(x, (m, n), kind, x_pitch)
        Y = T.match_buffer(y, (k, n), to)
        if whole:
            T.assume(n % vector == 0)
        strip, part = T.cta_id([T.ceildiv(n, rows.part), k])
        T.thread_id([THREADS])
        size: T.let = T.ceildiv(m, k)
        begin: T.let = part * size
        end: T.let = T.min(begin + size, m)
        Tx.cta.sum(Y[part, rows.columns(strip)], X[begin:end, rows.columns(strip)], axes=0)

    return tw.compile(column_sums)


@cache
def lines(rows: Rows, kind: str) -> tw.Executable:
    """Each row is added up by the threads that share it."""
    scope = rows.scope

    @T.prim_func
    def row_sums(x: T.handle, y: T.handle):
        m, n, x_pitch = T.int32(), T.int32(), T.int32()
        X = rows.matrix(x, (m, n), kind, x_pitch)
        Y = rows.numbers(y, m, kind)
        row = rows.first(rows.ctas(m), n)
        read, total, row_total = rows.tile(kind), rows.own(), rows.each()
        if row < m:
            total.local()[0] = 0.0
            for p in rows.parts(n):
                scope.copy(read, X[rows.at(row), rows.columns(p)], fill=0)
                Tx.sum(total.local(), read.local(), accum=True)
            scope.sum(row_total, total)
            scope.cast(Y[rows.at(row)], row_total)

    return tw.compile(row_sums)


@cache
def places(rows: Rows, kind: str) -> tw.Executable:
    """The largest element of each row, then where it is: only threads that have such an element look for it."""
    scope = rows.scope

    @T.prim_func
    def row_places(x: T.handle, y: T.handle):
        m, n, x_pitch = T.int32(), T.int32(), T.int32()
        X = rows.matrix(x, (m, n), kind, x_pitch)
        Y = rows.numbers(y, m, "int32")
        row = rows.first(rows.ctas(m), n)
        source = T.meta_var(Direct(rows, X, row, (m, n)))
        read, most, row_most = rows.tile(kind), rows.own(), rows.each()
        place, row_place = rows.own("int32"), rows.each("int32")
        if row < m:
            most.local()[0], place.local()[0] = -T.infinity("float32"), n
            for p in rows.parts(n):
                source.take(read, row, p, -T.infinity(kind))
                Tx.max(most.local(), read.local(), accum=True)
            scope.max(row_most, most)
            for p in rows.parts(n):
                if rows.long:
                    source.take(read, row, p, -T.infinity(kind))
                if (most.local()[0] == row_most.local()[0]) | T.isnan(most.local()[0]):
                    for k in T.unroll(rows.runs * rows.vector):
                        value: T.let = T.cast(read.local()[k], "float32")
                        if (value == row_most.local()[0]) | T.isnan(value):
                            place.local()[0] = T.min(place.local()[0], rows.column(p, k))
            scope.min(row_place, place)
            scope.copy(Y[rows.at(row)], row_place, clip=True)

    return tw.compile(row_places)


def run_columns(results: Arrays, x: Array, _: str | None = None) -> Launches:
    x, (y,) = matrix(x), results
    m, n = x.shape
    parts, k = x, -(-m // TALL)
    if k > 1:
        parts = like(x, (k, n), "float32")
        yield columns(common_vector([x]), kind_of(x), "float32", n % common_vector([x]) == 0), (x, parts)
    vector = common_vector([parts])
    yield columns(vector, kind_of(parts), kind_of(y), n % vector == 0), (parts, y.reshape(1, n))


def run_lines(results: Arrays, x: Array) -> Launches:
    x = matrix(x)
    yield lines(dealt(x, use=READ), kind_of(x)), (x, results[0].reshape(-1))


def run_places(results: Arrays, x: Array) -> Launches:
    x = matrix(x)
    yield places(dealt(x, use=READ), kind_of(x)), (x, results[0].reshape(-1))


def column_outputs(x: Array, kind: str | None) -> Arrays:
    expect("x", x)
    return (like(x, x.shape[-1:], kind),)


def row_outputs(x: Array) -> Arrays:
    expect("x", x)
    return (like(x, x.shape[:-1]),)


def place_outputs(x: Array) -> Arrays:
    expect("x", x)
    expect_columns(x)
    return (like(x, x.shape[:-1], "int32"),)


COLUMNS = TorchOperator("column_sum", "(Tensor x, str? dtype) -> Tensor", column_outputs, run_columns)
ROWS = TorchOperator("row_sum", "(Tensor x) -> Tensor", row_outputs, run_lines)
PLACES = TorchOperator("row_argmax", "(Tensor x) -> Tensor", place_outputs, run_places)


@public.names
def column_sum(x: Array, dtype: str | None = None) -> Array:
    """The sum of each column of a matrix, added up in float32, as an array of ``dtype``; left out, that of x."""
    return COLUMNS(x, dtype)


@public.names
def row_sum(x: Array) -> Array:
    """The sums along the last dimension, added up in float32."""
    return ROWS(x)


@public.names
def row_argmax(x: Array) -> Array:
    """Where the first largest element along the last dimension is, int32."""
    return PLACES(x)
