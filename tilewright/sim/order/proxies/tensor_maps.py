"""Tensor maps in global memory that threads change, and the proxy through which the copy engine reads them.

A thread that has changed a map passes a fence that releases it; a thread that uses it comes after that fence, and
passes one that acquires these 128 bytes. Each scope holds the other thread.

Source: PTX ISA, "membar, fence: fence.proxy.tensormap", "Memory Consistency Model: Proxies".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tilewright.isa import ProxyFence
from tilewright.sim.machine.places import WINDOW_BITS
from tilewright.sim.order.knowledge.releases import holds
from tilewright.sim.order.proxies.half_fences import HalfFence
from tilewright.sim.order.reports.proxy_fences import unfenced_map

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.sim.machine.address import Address
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.order.knowledge.actors import Actors
    from tilewright.sim.order.knowledge.clocks import Clocks
    from tilewright.sim.order.proxies.global_stores import GlobalStores

__all__ = ["TensorMaps"]

MAP_UNITS = np.arange(8)  # of 16 bytes


class TensorMaps:
    """The changes of maps and their fences. acquired: by row and address, the time of the last acquire of that map."""

    def __init__(self, clocks: Clocks, stores: GlobalStores) -> None:
        self.clocks = clocks
        self.stores = stores
        self.released: list[HalfFence] = []
        self.acquired: dict[tuple[int, int], int] = {}

    def fenced(self, batch: Batch, who: Actors, fence: ProxyFence, where: Address | None) -> None:
        """Threads have fenced the maps that they changed, or one that they are going to use."""
        clocks = self.clocks
        clocks.now += 1
        if where is None:
            until = clocks.published(who).threads[:, : clocks.size].reshape(len(who), -1, 32).max(-1)
            until[np.arange(len(who)), clocks.first_column(who.rows) // 32 + who.warps] = clocks.now
            for k, row, thread in who.each():
                self.released.append(HalfFence(row, thread, clocks.now, until[k], str(fence.scope)))
            return
        at = np.broadcast_to(where.full(), batch.shape)
        for _, row, thread in who.each():
            address = int(at[_within(batch.ctas, row), _within(batch.warps, thread // 32), thread % 32])
            if self._is_covered(row, thread, address, str(fence.scope)):
                self.acquired[row, address] = clocks.now

    def _since(self, address: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """When threads have changed a map, and which warps did; 0 for never."""
        window, offset = divmod(address, 1 << WINDOW_BITS)
        since, by = self.stores.stored.get(window, (np.zeros(8, np.int32), np.zeros(8, np.int32)))
        units = np.minimum(offset // 16 + MAP_UNITS, len(since) - 1) if len(since) > 8 else MAP_UNITS
        return since[units], by[units]

    def _is_covered(self, row: int, thread: int, address: int, scope: str) -> bool:
        since, by = self._since(address)
        seen = [each for each in self.released if self._comes_after(row, thread, scope, each)]
        wave, warps = self.clocks.wave, self.clocks.wave.run.warps
        size = wave.run.cluster_ctas
        for time, writer in zip(since.tolist(), by.tolist(), strict=True):
            home, warp = divmod(writer, warps)
            column = int(wave.rank(home)) * warps + warp
            if time and not any(
                (each.row + wave.first) // size == (home + wave.first) // size and each.until[column] >= time
                for each in seen
            ):
                return False
        return True

    def _comes_after(self, row: int, thread: int, scope: str, released: HalfFence) -> bool:
        """Does a thread come after a fence that releases, and do both scopes hold both threads?"""
        wave, size = self.clocks.wave, self.clocks.wave.run.cluster_ctas
        ctas = row + wave.first, released.row + wave.first
        if not (holds(scope, *ctas, size) and holds(released.scope, *ctas, size)):
            return False
        if (row, thread) == (released.row, released.thread):
            return True
        one = (np.array([value]) for value in (ctas[1], released.thread, released.time))
        return bool(self.clocks.knows(np.array([row]), self.clocks.knower[[thread]], *one)[0])

    def unfenced_by(self, operation: Operation) -> Iterator[str]:
        """The map whose change an operation that begins now may not see, in words, and the missing fences."""
        for one in operation.consulted:
            for row, address in zip(operation.issuers.rows[one.issuer].tolist(), one.at[:, 0].tolist(), strict=True):
                since, by = self._since(address)
                if since.max() > self.acquired.get((row, address), 0):
                    writer = int(by[since.argmax()]) // self.clocks.wave.run.warps
                    yield unfenced_map(self.clocks.wave, address, writer)


def _within(outer: slice, number: int) -> int:
    return (number - int(outer.start)) // int(outer.step or 1)
