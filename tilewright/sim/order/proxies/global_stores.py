"""Stores of threads to global memory, and the proxy fences between them and the units that read it.

Source: PTX ISA, "Async proxy".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.isa import ProxyFence
from tilewright.sim.machine.masks import spread
from tilewright.sim.machine.places import WINDOW_BITS
from tilewright.sim.order.reports.proxy_fences import unfenced_global

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tilewright.sim.machine.address import Address
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.masks import Mask
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.machine.sites import Site
    from tilewright.sim.order.knowledge.actors import Actors
    from tilewright.sim.order.knowledge.clocks import Clocks

__all__ = ["GlobalStores"]


UNIT = 16  # bytes that share one entry


class GlobalStores:
    """Stores of this wave's threads to global memory, by window: time and warp of the last one for each 16 bytes.

    last_fence: (CTAs,), the time of each CTA's last fence of global memory. A fence in the CTA that stored, or in
    the one whose unit reads, is enough.
    """

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        self.last_fence = np.zeros(clocks.wave.ctas, np.int32)
        self.stored: dict[int, tuple[NDArray[np.int32], NDArray[np.int32]]] = {}

    def accessed(self, site: Site, batch: Batch, mask: Mask, at: Address) -> None:
        """Threads have touched a buffer."""
        if not site.write or site.place is None:
            return
        if site.place.window not in self.stored:
            count = -(-batch.wave.run.blocks[site.place.name].nbytes // UNIT) + 1
            self.stored[site.place.window] = np.zeros(count, np.int32), np.zeros(count, np.int32)
        stored, writer = self.stored[site.place.window]
        units = spread(at.full(), batch.shape)[mask.full] // UNIT
        stored[units] = self.clocks.now
        rows, warps = batch.rows_and_warps(mask.full)
        writer[units] = rows * batch.wave.run.warps + warps

    def fenced(self, who: Actors, fence: ProxyFence) -> None:
        """Threads have passed a fence of the async proxy."""
        if fence.side == "both" and "shared" not in str(fence.space):
            self.last_fence[who.rows] = self.clocks.now

    def unfenced_by(self, operation: Operation) -> Iterator[str]:
        """The stores that an operation which begins now may not see, in words, and the missing fence."""
        for one in operation.touched:
            if one.proxy != "async" or one.space in ("shared", "tmem"):
                continue
            own = np.broadcast_to(one.along(operation.issuers.rows[one.issuer]), one.at.shape)
            for window, there in one.windows():
                stored, writer = self.stored.get(window, (None, None))
                if stored is None or writer is None:
                    continue
                units = (one.at[there] & (1 << WINDOW_BITS) - 1) // UNIT
                rows = writer[units] // self.clocks.wave.run.warps
                late = (stored[units] > self.last_fence[own[there]]) & (stored[units] > self.last_fence[rows])
                if late.any():
                    yield unfenced_global(self.clocks.wave, one, window, int(rows[late][0]))
