"""Arguments with one element for each column, for rows that begin anywhere: a copy for each shift, so that what belongs
to a whole access of a row is one whole access, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import tilewright as tw
from tilewright.dtypes import dtype
from tilewright.kernels.arrays import Array, kind_of, like
from tilewright.kernels.operators import Launches
from tilewright.kernels.rows import Rows
from tilewright.lang import T, Tx

THREADS, HELD = 128, 4  # of a CTA, and elements of each


@cache
def shifting(vector: int, before: int, kind: str) -> tw.Executable:
    """y[s, j] = w[j - before - s], and 0 where w has no such element"""
    rows = Rows(THREADS, HELD, 1, True, long=True)

    @T.prim_func
    def shifted_line(w: T.handle, y: T.handle):
        n, width = T.int32(), T.int32()
        W = T.match_buffer(w, (n,), kind, align=dtype(kind).bits // 8)
        Y = T.match_buffer(y, (vector, width), kind)
        strip, shift = T.cta_id([T.ceildiv(width, rows.part), vector])
        T.thread_id([THREADS])
        begin: T.let = strip * rows.part
        tile = rows.line_tile(kind)
        Tx.cta.copy(tile, W[begin - before - shift : begin - before - shift + rows.part], fill=0)
        Tx.cta.copy(Y[shift, begin : begin + rows.part], tile, clip=True)

    return tw.compile(shifted_line)


def for_shifts(rows: Rows, *lines: Array) -> tuple[Array, ...]:
    """The arguments as a kernel of such rows takes them: new arrays for `shifted` to fill, if rows begin anywhere."""
    if not rows.shifted:
        return lines
    return tuple(like(line, rows.line_shape) for line in lines)


def shifted(rows: Rows, lines: Sequence[Array], filled: Sequence[Array]) -> Launches:
    """The launches that fill what `for_shifts` made."""
    for line, copies in zip(lines, filled, strict=True):
        if rows.shifted:
            yield shifting(rows.vector, rows.spacing - rows.vector, kind_of(line)), (line, copies)
