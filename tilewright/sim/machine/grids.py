"""What a launch did to global memory, for the launch behind it that may begin before it has ended.

A grid that is launched like that comes after nothing of the grid before until it waits for it, wherever it began: what
it touches until then races with that grid. Source: PTX ISA, "griddepcontrol"; CUDA C++ Programming Guide,
"Programmatic Dependent Launch".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.sim.machine.arrays import Array, Ints
    from tilewright.sim.machine.sites import Site

__all__ = ["Footprint", "GridsMeet"]

MOST_SITES = 65535


@dataclass(eq=False)
class _Marks:
    """The bytes of a region of host memory: the number of the site that wrote each last, and of one that read it; 0 for
    none.
    """

    start: int
    writes: NDArray[np.uint16]
    reads: NDArray[np.uint16]


@dataclass(eq=False)
class Footprint:
    """What a grid did: the bytes that it wrote and read, and where. has_trigger: does it let others begin early?

    waits: has a thread waited for the grid before? holds_back: does a CTA let others begin only after it has waited?
    """

    kernel: str
    has_trigger: bool = False
    waits: bool = False
    holds_back: bool = False
    regions: dict[int, _Marks] = field(default_factory=dict)
    sites: list[Site] = field(default_factory=list)
    numbers: dict[Site, int] = field(default_factory=dict)

    def add(self, site: Site, block: Array, offsets: Ints, width: int, *, write: bool) -> None:
        """A site touches so many bytes from each of the offsets of a block of global memory on."""
        start = _start(block)
        if start not in self.regions:
            self.regions[start] = _Marks(start, *(np.zeros(block.nbytes, np.uint16) for _ in range(2)))
        if site not in self.numbers and len(self.sites) < MOST_SITES:
            self.sites.append(site)
            self.numbers[site] = len(self.sites)
        marks = self.regions[start]
        table = marks.writes if write else marks.reads
        where = (offsets.reshape(-1)[:, None] + np.arange(width)).reshape(-1)
        where = where[(where >= 0) & (where < table.size)]
        table[where] = self.numbers.get(site, 1)

    def met(self, block: Array, offsets: Ints, width: int, *, write: bool) -> tuple[Site, bool, int] | None:
        """The access of the grid before that an access meets, whether that wrote, and at which of the offsets."""
        first = _start(block)
        where = offsets.reshape(-1)[:, None] + np.arange(width)
        for marks in self.regions.values():
            at = where + (first - marks.start)
            inside = (at >= 0) & (at < marks.writes.size)
            for table, wrote in ((marks.writes, True), (marks.reads, False)):
                if not (wrote or (write and self.has_trigger)):
                    continue  # reads are over where the grid before has ended
                found = np.where(inside, table[np.where(inside, at, 0)], 0).any(1)
                if found.any():
                    k = int(np.flatnonzero(found)[0])
                    number = int(table[at[k][inside[k]]].max())
                    return self.sites[number - 1], wrote, k
        return None


@dataclass(eq=False)
class GridsMeet:
    """What a run knows of the launches around; its own is ``footprint``. before: of those that may still run where it
    begins, the last first. unfinished: of those that may still run when its wait is over, as the one behind them never
    waits.
    """

    footprint: Footprint
    before: tuple[Footprint, ...] = ()
    unfinished: tuple[Footprint, ...] = ()

    def next(self, footprint: Footprint) -> GridsMeet:
        """What the launch behind this one knows, if it may begin before this one ends."""
        mine, early = self.footprint, self.before
        passed = early if early and not mine.holds_back and (mine.has_trigger or not mine.waits) else ()
        return GridsMeet(footprint, (mine, *passed), () if mine.waits else self.before)


def _start(block: Array) -> int:
    return int(block.__array_interface__["data"][0])
