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
def shifting(vector: int, before: int, kind: str, count: int, *, early: bool) -> tw.Executable:
    """y[s, j] = w[j - before - s], and 0 where w has no such element; z likewise, of v, if there are two.

    early: may the kernel that follows begin, and wait for the results?
    """
    rows = Rows(THREADS, HELD, 1, True, long=True)

    @T.prim_func
    def shifted_lines(w: T.handle, v: T.handle, y: T.handle, z: T.handle):
        n, width = T.int32(), T.int32()
        lines = T.meta_var([T.match_buffer(line, (n,), kind, align=dtype(kind).bits // 8) for line in (w, v)[:count]])
        filled = T.meta_var([T.match_buffer(copies, (vector, width), kind) for copies in (y, z)[:count]])
        strip, shift, which = T.cta_id([T.ceildiv(width, rows.part), vector, count])
        T.thread_id([THREADS])
        if early:
            T.ptx.griddepcontrol.launch_dependents()
        begin: T.let = strip * rows.part
        first: T.let = begin - before - shift
        tile = rows.line_tile(kind)
        for number in tuple(range(count)):
            if which == number:
                Tx.cta.copy(tile, lines[number][first : first + rows.part], fill=0)
                Tx.cta.copy(filled[number][shift, begin : begin + rows.part], tile, clip=True)

    return tw.compile(shifted_lines)


def for_shifts(rows: Rows, *lines: Array) -> tuple[Array, ...]:
    """The arguments as a kernel of such rows takes them: new arrays for `shifted` to fill, if rows begin anywhere."""
    if not rows.shifted:
        return lines
    return tuple(like(line, rows.line_shape) for line in lines)


def shifted(rows: Rows, lines: Sequence[Array], filled: Sequence[Array]) -> Launches:
    """The launch that fills what `for_shifts` made: none to two arguments."""
    if rows.shifted and lines:
        kernel = shifting(rows.vector, rows.spacing - rows.vector, kind_of(lines[0]), len(lines), early=rows.is_early)
        more = (0,) * (2 - len(lines))
        yield kernel, (*lines, *more, *filled, *more)
