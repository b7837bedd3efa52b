"""The maximum of a row and the sum of its exponentials, in one pass over the row: online softmax.

Each thread sums the exponentials of its elements, less its own maximum, and scales the sum whenever that maximum grows;
the row's threads then agree on both, and the CTAs of a cluster likewise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.kernels.meeting import Meeting
from tilewright.kernels.rows import Rows
from tilewright.lang import T, Tx

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
