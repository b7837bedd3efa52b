"""All that a wave keeps of accesses through other proxies, where its kernel has asynchronous instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.sim.order.proxies.global_accesses import GlobalAccesses
from tilewright.sim.order.proxies.shared_stores import SharedStores
from tilewright.sim.order.proxies.tensor_maps import TensorMaps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tilewright.isa import ProxyFence
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.order.asynchronous.operations import Operations
    from tilewright.sim.order.knowledge.actors import Actors
    from tilewright.sim.order.knowledge.clocks import Clocks
    from tilewright.sim.order.races.places import TaggedPlaces
    from tilewright.sim.order.races.records import Log

__all__ = ["Proxies"]


class Proxies:
    """in_global, maps: where operations of the kernel may touch global memory through the async proxy. buffers: by
    window, those that anything writes.
    """

    def __init__(self, clocks: Clocks, buffers: Mapping[int, TaggedPlaces]) -> None:
        touched = [one for bound in clocks.wave.run.program.operations for one in bound.form.touched]
        self.shared = SharedStores(clocks, touched)
        in_global = any((one.space, one.proxy) == ("global", "async") for one in touched)
        self.in_global = GlobalAccesses(clocks, buffers) if in_global else None
        self.maps = TensorMaps(clocks, buffers) if in_global else None

    def fenced(self, who: Actors, fence: ProxyFence) -> None:
        """Threads have fenced the async proxy."""
        self.shared.fenced(who, fence)
        if self.in_global is not None:
            self.in_global.fenced(who, fence)

    def unfenced_by(self, operation: Operation, operations: Operations, log: Log) -> Iterator[str]:
        """What an operation that begins now may not see, in words, and the missing fences. log: of shared memory."""
        yield from self.shared.unfenced_by(operation, operations, log)
        if self.in_global is not None and self.maps is not None:
            yield from self.in_global.unfenced_by(operation)
            yield from self.maps.unfenced_by(operation)
