"""The maximum of a row and the sum of its exponentials, in one pass over the row: online softmax.

Each thread sums the exponentials of its elements, less its own maximum, and scales the sum whenever that maximum grows;
the row's threads then agree on both, and the CTAs of a cluster likewise.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from tilewright.kernels.rows import Rows
from tilewright.lang import T, Tx

__all__ = ["Exponents", "exponents", "powers"]

LOWEST = float(np.finfo(np.float32).min)  # no infinity: the difference of two would be NaN


class Exponents:
    """What a thread has of a row, in registers: elements as they lie in memory, exponentials, maxima and sums."""

    def __init__(self, rows: Rows, kind: str) -> None:
        self.read, self.tile = rows.tile(kind), rows.tile()
        self.most, self.total = rows.own(), rows.own()
        self.row_most, self.row_total = rows.each(), rows.each()
        self.nothing = -T.infinity(kind)  # stands for elements beyond the end of the row

    def scale(self) -> Any:
        """What the powers of the thread are multiplied by, for the row to sum to one. `Any`: an expression."""
        return T.exp(self.most.local()[0] - self.row_most.local()[0]) / self.row_total.local()[0]


@T.inline
def exponents(rows, tiles, source, row, n):
    """Find the maximum and the sum of the row."""
    most, total = tiles.most.local(), tiles.total.local()
    most[0], total[0] = LOWEST, 0.0
    for p in rows.parts(n):
        rows.take(tiles.read, source, row, p, tiles.nothing)
        before: T.let = most[0]
        Tx.max(most, tiles.read.local(), nan="number", accum=True)  # a NaN comes back in the sum
        rows.scope.exp(tiles.tile, tiles.read, bias=-most[0])
        total[0] = total[0] * T.exp(before - most[0])
        Tx.sum(total, tiles.tile.local(), accum=True)
    rows.scope.max(tiles.row_most, tiles.most)
    total[0] = total[0] * T.exp(most[0] - tiles.row_most.local()[0])
    rows.scope.sum(tiles.row_total, tiles.total)
    join(rows, row, tiles.row_most.local(), tiles.row_total.local())


@T.inline
def join(rows, row, most, total):
    """The maximum and the sum of the row, from those of the shares that CTAs have."""
    if rows.cluster > 1:
        shares = T.meta_var(rows.exchanged(row, most[0], total[0]))
        most[0] = reduce(T.max, [largest for largest, _ in shares])
        total[0] = sum([part * T.exp(largest - most[0]) for largest, part in shares])


@T.inline
def powers(rows, tiles, source, row, p):
    """Compute the exponentials of a part again: elements take fewer registers than powers."""
    if rows.long:
        rows.take(tiles.read, source, row, p, tiles.nothing)
    rows.scope.exp(tiles.tile, tiles.read, bias=-tiles.most.local()[0])
