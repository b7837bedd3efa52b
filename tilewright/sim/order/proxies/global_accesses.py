"""Accesses of threads and of asynchronous units to the same global memory, and the proxy fences between them.

A unit sees what threads stored, and may overwrite what they stored or loaded, after a proxy fence in the CTA that
issues the operation: the fence comes after the access, and the operation after the fence. A fence in another CTA, the
one that stored, does not count. In practice kernels work without it, so its absence is a warning.

Source: PTX ISA, "Memory Consistency Model: Proxies", "Async proxy"; NVIDIA's model of mixed proxies.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.masks import spread
from tilewright.sim.machine.places import WINDOW_BITS
from tilewright.sim.order.knowledge.fence_points import FencePoints, Stamps
from tilewright.sim.order.reports.proxy_fences import unfenced_global

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tilewright.isa import ProxyFence
    from tilewright.sim.machine.address import Address
    from tilewright.sim.machine.arrays import Bools, Ints
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.masks import Mask
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.machine.sites import Site
    from tilewright.sim.machine.subject import Subject
    from tilewright.sim.machine.units import Touched
    from tilewright.sim.order.knowledge.actors import Actors
    from tilewright.sim.order.knowledge.clocks import Clocks

__all__ = ["GlobalAccesses", "LastAccesses"]

UNIT = 16  # bytes of global memory that share one entry
THREAD_BITS = 10


@dataclass(frozen=True, eq=False, slots=True)
class _Last:
    """The last access of each unit of a buffer: time, 0 for none; and by whom, the CTA of the grid and its thread."""

    time: NDArray[np.int32]
    by: NDArray[np.int64]

    def of(self, units: Ints) -> Stamps:
        """The last access of each of these units."""
        units = np.minimum(units, len(self.time) - 1)
        by = self.by[units]
        return Stamps(self.time[units].astype(np.int64), by >> THREAD_BITS, by & (1 << THREAD_BITS) - 1)


@dataclass(eq=False, slots=True)
class LastAccesses:
    """The last stores and loads of threads of all waves. overwrites: do units write global memory, so that loads
    matter? tables: by window, and whether they were stores.
    """

    overwrites: bool
    tables: dict[tuple[int, bool], _Last] = field(default_factory=dict)

    @classmethod
    def of(cls, program: Subject) -> LastAccesses | None:
        """None where no operation of the kernel touches global memory through the async proxy."""
        touched = [one for bound in program.operations for one in bound.form.touched]
        found = [one for one in touched if (one.space, one.proxy) == ("global", "async")]
        return cls(any(one.write for one in found)) if found else None

    def accessed(self, clocks: Clocks, site: Site, batch: Batch, mask: Mask, at: Address) -> None:
        """Threads have touched a buffer."""
        if site.place is None or not (site.write or self.overwrites):
            return
        if (key := (site.place.window, site.write)) not in self.tables:
            count = -(-batch.wave.run.blocks[site.place.name].nbytes // UNIT) + 1
            self.tables[key] = _Last(np.zeros(count, np.int32), np.zeros(count, np.int64))
        rows, warps, lanes = batch.threads(mask.full)
        first = spread(at.full(), batch.shape)[mask.full]
        for byte in range(0, site.width, UNIT):
            units = (first + byte) // UNIT
            self.tables[key].time[units] = clocks.now
            self.tables[key].by[units] = rows + batch.wave.first << THREAD_BITS | warps * 32 + lanes


class GlobalAccesses:
    """The proxy fences of a wave between what threads have done to global memory and what units do there."""

    def __init__(self, clocks: Clocks, last: LastAccesses) -> None:
        self.clocks = clocks
        self.last = last
        self.fences = FencePoints(clocks)

    def fenced(self, who: Actors, fence: ProxyFence) -> None:
        """Threads have passed a fence of the async proxy."""
        if fence.side == "both" and fence.space in ("", "global") and self.last.tables:
            self.fences.add(who)

    def unfenced_by(self, operation: Operation) -> Iterator[str]:
        """The accesses that an operation which begins now may not come after, in words, and the missing fence."""
        for one in operation.touched if self.last.tables else ():
            if one.proxy != "async" or one.space in ("shared", "tmem"):
                continue
            for window, there in one.windows():
                for write in (True, False) if one.writes else (True,):
                    table = self.last.tables.get((window, write))
                    for last, home in self._unfenced(operation, one, there, table) if table is not None else ():
                        did = "stored" if write else "loaded"
                        yield unfenced_global(self.clocks.wave, one, window, did, last, home)

    def _unfenced(
        self, operation: Operation, one: Touched, there: Bools, table: _Last
    ) -> Iterator[tuple[tuple[int, int], int]]:
        """CTA and thread of an access without a fence behind it, and the CTA of the operation; of the grid."""
        issuer = np.broadcast_to(one.along(one.issuer), one.at.shape)[there]
        first = one.at[there] & (1 << WINDOW_BITS) - 1
        for byte in range(0, one.width, UNIT):
            last = table.of((first + byte) // UNIT)
            each = np.stack((issuer, last.times, last.ctas, last.threads))[:, last.times > 0]
            each = np.unique(each, axis=1) if each.size else each
            for k in np.unique(each[0]).tolist():
                row, thread = int(operation.issuers.rows[k]), int(operation.issuers.threads[k])
                left = self.fences.left(row, thread, Stamps(*each[1:, each[0] == k]), home=row)
                if len(left):
                    yield (int(left.ctas[0]), int(left.threads[0])), row + self.clocks.wave.first
