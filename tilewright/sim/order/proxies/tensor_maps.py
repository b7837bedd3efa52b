"""Tensor maps in global memory that threads change, and the proxy through which the copy engine reads them.

A thread that has changed a map passes a fence that releases it; a thread that uses it comes after that fence, and
passes one that acquires these 128 bytes. Each scope holds the other thread.

Source: PTX ISA, "membar, fence: fence.proxy.tensormap", "Memory Consistency Model: Proxies".
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.places import WINDOW_BITS
from tilewright.sim.order.knowledge.actors import Actors
from tilewright.sim.order.knowledge.fence_points import FencePoints, Stamps
from tilewright.sim.order.reports.proxy_fences import LackingFence, unfenced_map

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tilewright.isa import ProxyFence
    from tilewright.sim.machine.address import Address
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.order.knowledge.clocks import Clocks
    from tilewright.sim.order.races.places import TaggedPlaces

__all__ = ["TensorMaps"]

MAP_BYTES = 128


class TensorMaps:
    """The changes of maps and their fences. acquired: by row and address, the fences that acquire that map and come
    after a release of all its changes.
    """

    def __init__(self, clocks: Clocks, buffers: Mapping[int, TaggedPlaces]) -> None:
        self.clocks = clocks
        self.buffers = buffers
        self.released = FencePoints(clocks)
        self.acquired: dict[tuple[int, int], FencePoints] = defaultdict(lambda: FencePoints(clocks))

    def fenced(self, batch: Batch, who: Actors, fence: ProxyFence, where: Address | None) -> None:
        """Threads have fenced: the maps that they changed, or one that they are going to use."""
        if fence.proxy != "tensormap":
            return
        if where is None:
            self.released.add(who, str(fence.scope))
            return
        at = np.broadcast_to(where.full(), batch.shape)
        for _, row, thread in who.each():
            address = int(at[_within(batch.ctas, row), _within(batch.warps, thread // 32), thread % 32])
            if not len(self.released.left(row, thread, self._changes(address), scope=str(fence.scope))):
                self.acquired[row, address].add(Actors.one(row, thread))

    def _changes(self, address: int) -> Stamps:
        """The changes of a map by threads."""
        window, offset = divmod(address, 1 << WINDOW_BITS)
        if (places := self.buffers.get(window)) is None:
            return Stamps.none()
        return places.last(np.arange(offset // places.grain, (offset + MAP_BYTES) // places.grain), write=True)

    def unfenced_by(self, operation: Operation) -> Iterator[LackingFence]:
        """The map whose change an operation that begins now may not see, in words, and the missing fences."""
        for one in operation.consulted:
            for k, address in zip(one.issuer.tolist(), one.at.reshape(len(one.issuer), -1)[:, 0].tolist(), strict=True):
                row, thread = int(operation.issuers.rows[k]), int(operation.issuers.threads[k])
                if len(left := self._changes(address)):
                    left = self.acquired[row, address].left(row, thread, left)
                if len(left):
                    yield unfenced_map(self.clocks.wave, address, (int(left.ctas[0]), int(left.threads[0])))


def _within(outer: slice, number: int) -> int:
    return (number - int(outer.start)) // int(outer.step or 1)
