"""The sums of a run of products: matrices to which products are added late.

One turn of a kernel's loop multiplies along a short K, and BLAS is slow at that. So the factors of some turns are kept,
as bits, until they are one long product, or until somebody reads a sum. Where the warps of a CTA stand in a grid whose
rows have one left factor, and whose columns one right factor, their sums are one matrix.
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

__all__ = ["Sums"]

DEPTH = 256  # the K of a product that is done
ROWS_AT_ONCE = 1024  # so that widened matrices fit into the cache


class Sums(NewerMatrix):
    """kinds: the dtypes of left and right factors. `matrix` is what the sums are with all products."""

    def __init__(
        self, batch: Batch, spread: Spread, registers: frozenset[int], sums: Floats, kinds: tuple[str, str]
    ) -> None:
        super().__init__(batch, spread, registers, sums)
        self._kinds = kinds
        self._sums = sums  # (CTAs, warps, rows, columns), or (CTAs, 1, all rows, all columns) of warps in a grid
        self._grid: Grid | None = None
        self._late: list[tuple[Patterns, Patterns]] = []

    @property
    def matrix(self) -> Floats:
        """The sums of each warp, (CTAs, warps, rows, columns)."""
        self._multiply(None)
        self._arrange(None)
        return self._sums

    def add(self, left: Patterns, right: Patterns, grid: Grid | None, active: Bools | None) -> None:
        """Add a product, of warps that stand in a grid, or of each warp its own, if it is active.

        left: (CTAs, 1 or warps, rows, K), right: (CTAs, 1 or warps, columns, K).
        """
        self._arrange(grid)
        if active is not None:
            self._multiply(None)
        self._late.append((left, right))
        if active is not None or sum(one.shape[-1] for one, _ in self._late) >= DEPTH:
            self._multiply(active)

    def _arrange(self, grid: Grid | None) -> None:
        """Let the sums be one matrix for a grid of warps, or one for each warp."""
        if self._grid != grid:
            self._multiply(None)
            ctas, _, rows, columns = self._sums.shape
            if self._grid is not None:
                down, across = self._grid
                parts = self._sums.reshape(ctas, down, rows // down, across, columns // across).swapaxes(2, 3)
                self._sums = parts.reshape(ctas, down * across, rows // down, columns // across)
                rows, columns = self._sums.shape[2:]
            if grid is not None:
                parts = self._sums.reshape(ctas, *grid, rows, columns).swapaxes(2, 3)
                self._sums = parts.reshape(ctas, 1, grid[0] * rows, grid[1] * columns)
            self._grid = grid

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
