"""Accesses of threads and of asynchronous units to the same global memory, and the proxy fences between them.

A unit sees what threads stored, and may overwrite what they stored or loaded, after a proxy fence in the CTA that
issues the operation: the fence comes after the access, and the operation after the fence. A fence in another CTA, the
one that stored, does not count. What units of another CTA did needs that fence, too, as threads tell of it. In practice
kernels work without it, so its absence is a warning.

Source: PTX ISA, "Memory Consistency Model: Proxies", "Async proxy"; NVIDIA's model of mixed proxies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.places import WINDOW_BITS
from tilewright.sim.order.knowledge.fence_points import FencePoints
from tilewright.sim.order.reports.proxy_fences import LackingFence, unfenced_global

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tilewright.isa import ProxyFence
    from tilewright.sim.machine.address import Address
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.order.knowledge.actors import Actors
    from tilewright.sim.order.knowledge.clocks import Clocks
    from tilewright.sim.order.races.places import TaggedPlaces

__all__ = ["GlobalAccesses"]


class GlobalAccesses:
    """The proxy fences of a wave between what threads have done to global memory and what units do there. buffers: by
    window.
    """

    def __init__(self, clocks: Clocks, buffers: Mapping[int, TaggedPlaces]) -> None:
        self.clocks = clocks
        self.buffers = buffers
        self.fences = FencePoints(clocks)

    def fenced(self, batch: Batch, who: Actors, fence: ProxyFence, where: Address | None) -> None:
        """Threads have fenced."""
        if (fence.proxy, fence.side) == ("async", "both") and fence.space in ("", "global") and self.buffers:
            self.fences.add(who)

    def unfenced_by(self, operation: Operation) -> Iterator[LackingFence]:
        """The accesses that an operation which begins now may not come after, in words, and the missing fence."""
        for one in operation.touched:
            if one.proxy != "async" or one.space in ("shared", "tmem"):
                continue
            for window, there in one.windows():
                places, at = self.buffers.get(window), one.at[there] & (1 << WINDOW_BITS) - 1
                reach = int(at.min()), int(at.max()) + one.width
                if places is None or places.is_untouched(reach, "", write=one.writes):
                    continue
                units = (at // places.grain)[:, None] + np.arange(max(one.width // places.grain, 1))
                issuer = np.broadcast_to(one.along(one.issuer), one.at.shape)[there]
                for k in np.unique(issuer).tolist():
                    row, thread = int(operation.issuers.rows[k]), int(operation.issuers.threads[k])
                    for write in (True, False) if one.writes else (True,):
                        own = row + self.clocks.wave.first
                        at_issuer = units[issuer == k].reshape(-1)
                        done = places.last(at_issuer, write=write, home=own, combines=one.combines)
                        left = self.fences.left(row, thread, done, home=row) if len(done) else done
                        if len(left):
                            last = int(left.ctas[0]), int(left.threads[0])
                            did = "stored" if write else "loaded"
                            yield unfenced_global(self.clocks.wave, one, window, did, last, own)
