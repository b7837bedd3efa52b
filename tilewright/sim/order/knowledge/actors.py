"""Warps that act together, each with some of its lanes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from tilewright.sim.machine.arrays import Bools, Ints
    from tilewright.sim.machine.batch import Look
    from tilewright.sim.machine.masks import Mask

__all__ = ["THREADS", "Actors", "Thread", "numbered"]

Thread: TypeAlias = "tuple[int, int]"  # its CTA of the grid, and its number there

THREADS = 1 << 10  # of a CTA, at most


def numbered(cta: Ints, thread: Ints) -> Ints:
    """One number for each thread of a CTA, of which ``divmod(number, THREADS)`` gives both back."""
    return cta * THREADS + thread


@dataclass(frozen=True, eq=False, slots=True)
class Actors:
    """rows, warps: (n,), the CTA's row in the wave and the number of the warp. lanes: (n, 32) of those that act."""

    rows: Ints
    warps: Ints
    lanes: Bools

    @classmethod
    def of(cls, look: Look, mask: Mask) -> Actors:
        """The active lanes of a batch."""
        some = mask.full.any(-1)
        rows, warps = look.rows_and_warps(some)
        return cls(rows, warps, mask.full[some])

    @classmethod
    def threads(cls, rows: Ints, threads: Ints) -> Actors:
        """Single threads."""
        return cls(rows, threads >> 5, (threads & 31)[:, None] == np.arange(32))

    @classmethod
    def one(cls, row: int, thread: int) -> Actors:
        """A single thread."""
        return cls.threads(np.array([row]), np.array([thread]))

    @classmethod
    def whole_warps(cls, rows: Ints, warps: Ints) -> Actors:
        """All lanes of these warps."""
        return cls(rows, warps, np.ones((len(rows), 32), np.bool_))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, which: Ints | Bools) -> Actors:
        return Actors(self.rows[which], self.warps[which], self.lanes[which])

    def places(self) -> list[tuple[int, int]]:
        """Row and warp of each."""
        return list(zip(self.rows.tolist(), self.warps.tolist(), strict=True))

    def each(self) -> Iterator[tuple[int, int, int]]:
        """Yield each actor's number, row and first thread."""
        for k, lane in np.argwhere(self.lanes).tolist():
            yield k, int(self.rows[k]), int(self.warps[k]) * 32 + lane
