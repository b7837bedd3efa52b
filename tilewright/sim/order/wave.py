"""The order of one wave of CTAs: its clocks, channels and places."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tilewright.sim.machine.address import Address, Part
from tilewright.sim.order.abroad import GlobalAccesses
from tilewright.sim.order.channels import Fences, Phases
from tilewright.sim.order.clocks import Clocks
from tilewright.sim.order.knowledge import Ledger
from tilewright.sim.order.operations import Operations
from tilewright.sim.order.places import TaggedPlaces
from tilewright.sim.order.protocol import Protocol
from tilewright.sim.order.proxies import Stores, overwrites
from tilewright.sim.order.tensor_maps import TensorMaps

if TYPE_CHECKING:
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.wave import Wave
    from tilewright.sim.order.abroad import LastAccesses

__all__ = ["WaveOrder"]

PITCH = 256  # the shared memories of a cluster follow each other in multiples of so many bytes


class WaveOrder:
    """The order of a wave of CTAs. operations, stores: where the kernel has asynchronous instructions; abroad: where
    those touch global memory through the async proxy.

    meetings: the knowledge that barriers hand on, by number; by ~number, to the same CTA alone.
    """

    def __init__(self, wave: Wave, grain: int, last: LastAccesses | None) -> None:
        asynchronous = wave.run.program.has_asynchronous
        self.clocks = Clocks(wave, has_parts=asynchronous)
        name, nbytes, ctas = wave.run.places.arena.name, wave.run.shared_bytes, wave.ctas
        self.shared = TaggedPlaces(name, nbytes, grain, is_global=False)
        if wave.run.cluster_ctas > 1:
            pitch = -(-max(nbytes, 1) // PITCH) * PITCH
            self.shared = TaggedPlaces(f"{name} {wave.first}", ctas * pitch, grain, is_global=True, pitch=pitch)
        self.meetings: dict[int, Ledger] = defaultdict(lambda: Ledger(self.clocks))
        self.phases = Phases(self.clocks)
        self.fences = Fences(self.clocks)
        self.operations = Operations(self.clocks) if asynchronous else None
        self.stores = Stores(self.clocks, overwrite=overwrites(wave.run.program)) if asynchronous else None
        self.abroad = GlobalAccesses(self.clocks, last) if last is not None else None
        self.maps = TensorMaps(self.clocks, last) if last is not None else None
        self.protocol = Protocol(self.clocks)

    def located(self, batch: Batch, at: Address) -> Address:
        """Addresses of the own CTA's shared memory as `TaggedPlaces` has them."""
        if not self.shared.is_global:
            return at
        return Address(at.start, *at.parts, Part(batch.rows(self.shared.pitch)))
