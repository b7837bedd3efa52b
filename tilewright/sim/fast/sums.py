"""The sums of a run of products: matrices to which products are added late.

One turn of a kernel's loop multiplies along a short K, and BLAS is slow at that. So the factors of some turns are kept,
as bits, until they are one long product, or until somebody reads a sum. Where the warps of a CTA stand in a grid whose
rows have one left factor, and whose columns one right factor, their sums are one matrix; where the CTAs stand in such a
grid, these are one, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.isa.widen import widened
from tilewright.sim.machine.registers import NewerMatrix

if TYPE_CHECKING:
    from tilewright.isa.widen import Floats, Patterns
    from tilewright.sim.machine.arrays import Bools
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.registers import Spread
    from tilewright.sim.machine.uniform import Grid

__all__ = ["Grids", "Sums"]

Grids = tuple["Grid | None", "Grid | None"]  # of CTAs, only with one of the warps of each

DEPTH, LATE_BYTES = 256, 1 << 21  # the least K of a product that is done, and the least bytes of its left factor
ROWS_AT_ONCE = 1024  # so that widened matrices fit into the cache


class Sums(NewerMatrix):
    """kinds: the dtypes of left and right factors. `matrix` is what the sums are with all products."""

    def __init__(
        self, batch: Batch, spread: Spread, registers: frozenset[int], sums: Floats, kinds: tuple[str, str]
    ) -> None:
        super().__init__(batch, spread, registers, sums)
        self._kinds = kinds
        self._sums = sums  # (CTAs, warps, rows, columns), or, in grids, (CTAs or 1, 1, all rows, all columns)
        self._grids: Grids = (None, None)
        self._late: list[tuple[Patterns, Patterns]] = []

    @property
    def matrix(self) -> Floats:
        """The sums of each warp, (CTAs, warps, rows, columns)."""
        self._multiply(None)
        self._arrange((None, None))
        return self._sums

    def add(self, left: Patterns, right: Patterns, grids: Grids, active: Bools | None) -> None:
        """Add a product, of CTAs and warps that stand in a grid, or of each warp its own, if it is active.

        left: (CTAs or 1, warps or 1, rows, K), right: (CTAs or 1, warps or 1, columns, K); 1 of those in a grid.
        """
        self._arrange(grids)
        if active is not None:
            self._multiply(None)
        self._late.append((left, right))
        depth = sum(one.shape[-1] for one, _ in self._late)
        if active is not None or (depth >= DEPTH and depth * left.itemsize * left[..., 0].size >= LATE_BYTES):
            self._multiply(active)

    def _arrange(self, grids: Grids) -> None:
        """Let the sums be one matrix for a grid of warps, or of CTAs and their warps, or one for each warp."""
        if self._grids == grids:
            return
        self._multiply(None)
        if self._grids[1] is not None:
            self._sums = _parted(self._sums, self._grids)
        if grids[1] is not None:
            self._sums = _joined(self._sums, grids)
        self._grids = grids

    def _multiply(self, active: Bools | None) -> None:
        """Do the products that are late."""
        late, self._late = self._late, []
        ctas, groups, rows, _ = self._sums.shape
        step = max(ROWS_AT_ONCE // (groups * rows), 1)
        for first in range(0, ctas, step) if late else ():
            some = slice(first, first + step)
            left, right = (
                widened(np.concatenate([one[some] for one in each], axis=-1), kind)
                for each, kind in zip(zip(*late, strict=True), self._kinds, strict=True)
            )
            total = self._sums[some]
            np.add(total, left @ right.swapaxes(-1, -2), out=total, where=True if active is None else active[some])


def _joined(sums: Floats, grids: Grids) -> Floats:
    """(CTAs, warps, rows, columns) as (CTAs or 1, 1, all rows, all columns)."""
    (down, across), (lower, right) = (grid or (1, 1) for grid in grids)
    rows, columns = sums.shape[2:]
    parts = sums.reshape(-1, down, across, lower, right, rows, columns).transpose(0, 1, 3, 5, 2, 4, 6)
    return parts.reshape(len(parts), 1, down * lower * rows, across * right * columns)


def _parted(sums: Floats, grids: Grids) -> Floats:
    """The inverse of `_joined`."""
    (down, across), (lower, right) = (grid or (1, 1) for grid in grids)
    rows, columns = sums.shape[2] // (down * lower), sums.shape[3] // (across * right)
    parts = sums.reshape(-1, down, lower, rows, across, right, columns).transpose(0, 1, 4, 2, 5, 3, 6)
    return parts.reshape(-1, lower * right, rows, columns)
