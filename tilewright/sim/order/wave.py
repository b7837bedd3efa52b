"""The order of one wave of CTAs: its clocks, channels and places."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tilewright.sim.machine.address import Address, Part
from tilewright.sim.order.asynchronous.operations import Operations
from tilewright.sim.order.knowledge.clocks import Clocks
from tilewright.sim.order.knowledge.fences import Fences
from tilewright.sim.order.knowledge.known import Ledger
from tilewright.sim.order.knowledge.phases import Phases
from tilewright.sim.order.proxies.global_accesses import GlobalAccesses
from tilewright.sim.order.proxies.shared_stores import SharedStores
from tilewright.sim.order.proxies.tensor_maps import TensorMaps
from tilewright.sim.order.races.places import TaggedPlaces
from tilewright.sim.order.rules.barriers import BarrierRules, ClusterMeetings
from tilewright.sim.order.rules.mbarriers import MBarrierRules
from tilewright.sim.order.rules.remote_accesses import RemoteAccesses

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.wave import Wave

__all__ = ["WaveOrder"]

PITCH = 256  # the shared memories of a cluster follow each other in multiples of so many bytes


class WaveOrder:
    """The order of a wave of CTAs.

    meetings: the knowledge that barriers hand on, by number; by ~number, to the same CTA alone. operations: where the
    kernel has asynchronous instructions; stores: where these touch shared memory through the async proxy. proxies: what
    hears of proxy fences, and asks for them.
    """

    def __init__(self, wave: Wave, grain: int, buffers: Mapping[int, TaggedPlaces]) -> None:
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
        self.barriers = BarrierRules(self.clocks)
        self.cluster = ClusterMeetings(self.clocks)
        self.mbarriers = MBarrierRules(self.clocks, self.cluster)
        self.remote = RemoteAccesses(self.clocks, self.cluster)

        self.stores: SharedStores | None = None
        self.proxies: list[SharedStores | GlobalAccesses | TensorMaps] = []
        touched = [one for bound in wave.run.program.operations for one in bound.form.touched]
        spaces = {one.space for one in touched if one.proxy == "async"}
        if self.operations is not None and "shared" in spaces:
            self.stores = SharedStores(self.operations, touched, self.shared.log)
            self.proxies.append(self.stores)
        if "global" in spaces:
            self.proxies += [GlobalAccesses(self.clocks, buffers), TensorMaps(self.clocks, buffers)]

    def located(self, batch: Batch, at: Address) -> Address:
        """Addresses of the own CTA's shared memory as `TaggedPlaces` has them."""
        if not self.shared.is_global:
            return at
        return Address(at.start, *at.parts, Part(batch.rows(self.shared.pitch)))
