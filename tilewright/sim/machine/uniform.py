"""Warps that hold the same, and CTAs.

The warps of a CTA usually stand in a grid of rows and columns, and each multiplies its part of A by its part of B:
those of a row load the same part of A, those of a column the same part of B. The addresses of their loads show it. CTAs
stand in such a grid, too: what they load from lies in their own shared memory, and is compared. It is remembered with
the registers that they load, and further work on such a part is then done once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from tilewright.sim.machine.arrays import Array

__all__ = ["Alike", "Grid", "Uniform", "grid_of"]

Grid = tuple[int, int]  # rows and columns of warps, or of CTAs; number = row * columns + column
Alike = tuple["Uniform", "Uniform"]  # which CTAs are alike, and which warps of each
SAMPLE = 8  # words by which CTAs are told apart before all words are compared


@dataclass(frozen=True, slots=True)
class Uniform:
    """Among ``outer * same * inner`` warps or CTAs, those hold the same whose numbers differ in the middle digit only.

    ``Uniform(2, 4, 1)``: of eight warps 0 to 3 are alike, and so are 4 to 7. ``Uniform(1, 2, 4)``: 0 and 4.
    """

    outer: int
    same: int
    inner: int

    @classmethod
    def nobody(cls, warps: int) -> Uniform:
        """The description of warps of which no two hold the same."""
        return cls(warps, 1, 1)

    @classmethod
    def of_rows(cls, rows: Array) -> Uniform:
        """Which rows are equal; nobody also where no such three numbers say it. A few columns tell most apart."""
        some = rows[:, :: max(1, rows.shape[1] // SAMPLE)]
        like_first = np.flatnonzero((some == some[0]).all(1))
        if len(like_first) < 2:
            return cls.nobody(len(rows))
        same, inner = len(like_first), int(like_first[1])
        outer, rest = divmod(len(rows), same * inner)
        uniform = cls(outer, same, inner)
        if rest or not (uniform.spread(rows[None])[:, :, 1:] == uniform.spread(rows[None])[:, :, :1]).all():
            return cls.nobody(len(rows))
        return uniform

    def spread(self, values: Array) -> Array:
        """(CTAs, warps, ...) as (CTAs, outer, same, inner, ...), a view."""
        return values.reshape(len(values), *self.digits, *values.shape[2:])

    def once(self, values: Array) -> Array:
        """(CTAs, warps, ...) without those that are like an earlier one: (CTAs, outer * inner, ...)."""
        return self.spread(values)[:, :, 0].reshape(len(values), -1, *values.shape[2:])

    def number(self, warp: int) -> int:
        """The place of a warp, or of the one that it is like, in `once`."""
        return warp // (self.same * self.inner) * self.inner + warp % self.inner

    @property
    def digits(self) -> tuple[int, int, int]:
        """How many numbers each digit has."""
        return self.outer, self.same, self.inner

    @property
    def firsts(self) -> slice | None:
        """The numbers of those that are not like an earlier one; None where they do not climb in even steps."""
        if self.outer > 1 and self.inner > 1:
            return None
        return slice(0, self.inner) if self.outer == 1 else slice(0, None, self.same)

    # In a grid

    def has_one_row(self, grid: Grid) -> bool:
        """Are all rows of the grid alike?"""
        return self.outer == 1 and grid[1] % self.inner == 0

    def has_one_column(self, grid: Grid) -> bool:
        """Are all columns of the grid alike?"""
        return self.inner == 1 and self.same % grid[1] == 0


@cache
def grid_of(warps: int, left: Uniform, right: Uniform) -> Grid | None:
    """The rows and columns of warps where each row is alike on the left, and each column on the right."""
    grids = ((warps // columns, columns) for columns in range(1, warps + 1) if warps % columns == 0)
    fitting = [
        grid
        for grid in grids
        if (grid[1] == 1 or left.has_one_column(grid)) and (grid[0] == 1 or right.has_one_row(grid))
    ]
    return min(fitting, key=sum, default=None)
