"""Warps that hold the same.

The warps of a CTA usually stand in a grid of rows and columns, and each multiplies its part of A by its part of B:
those of a row load the same part of A, those of a column the same part of B. The addresses of their loads show it; it
is remembered with the registers that they load, and further work on such a part is then done once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tilewright.sim.machine.arrays import Array

__all__ = ["Grid", "UniformWarps", "grid_of"]

Grid = tuple[int, int]  # rows and columns of warps; warp = row * columns + column


@dataclass(frozen=True, slots=True)
class UniformWarps:
    """Among ``outer * same * inner`` warps, those hold the same whose numbers differ in the middle digit only.

    ``UniformWarps(2, 4, 1)``: of eight warps 0 to 3 are alike, and so are 4 to 7. ``UniformWarps(1, 2, 4)``: 0 and 4.
    """

    outer: int
    same: int
    inner: int

    @classmethod
    def nobody(cls, warps: int) -> UniformWarps:
        """The description of warps of which no two hold the same."""
        return cls(warps, 1, 1)

    @classmethod
    def among(cls, values: Array) -> UniformWarps:
        """Which warps of (CTAs, warps, ...) have the same values, as far as one number ``same`` can say it."""
        warps = values.shape[1]
        for same in reversed(_divisors(warps)[1:]):
            for inner in _divisors(warps // same):
                found = cls(warps // same // inner, same, inner)
                spread = found.spread(values)
                if (spread == spread[:, :, :1]).all():
                    return found
        return cls.nobody(warps)

    def spread(self, values: Array) -> Array:
        """(CTAs, warps, ...) as (CTAs, outer, same, inner, ...), a view."""
        return values.reshape(len(values), self.outer, self.same, self.inner, *values.shape[2:])

    def once(self, values: Array) -> Array:
        """(CTAs, warps, ...) without those that are like an earlier one: (CTAs, outer * inner, ...)."""
        return self.spread(values)[:, :, 0].reshape(len(values), -1, *values.shape[2:])

    def number(self, warp: int) -> int:
        """The place of a warp, or of the one that it is like, in `once`."""
        return warp // (self.same * self.inner) * self.inner + warp % self.inner

    # In a grid

    def has_one_row(self, grid: Grid) -> bool:
        """Are all rows of the grid alike?"""
        return self.outer == 1 and grid[1] % self.inner == 0

    def has_one_column(self, grid: Grid) -> bool:
        """Are all columns of the grid alike?"""
        return self.inner == 1 and self.same % grid[1] == 0


@cache
def grid_of(warps: int, left: UniformWarps, right: UniformWarps) -> Grid | None:
    """The rows and columns of warps where each row is alike on the left, and each column on the right."""
    grids = ((warps // columns, columns) for columns in _divisors(warps))
    fitting = [
        grid
        for grid in grids
        if (grid[1] == 1 or left.has_one_column(grid)) and (grid[0] == 1 or right.has_one_row(grid))
    ]
    return min(fitting, key=sum, default=None)


def _divisors(number: int) -> list[int]:
    return [k for k in range(1, number + 1) if number % k == 0]
