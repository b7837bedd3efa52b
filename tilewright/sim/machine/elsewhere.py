"""A site as it touches the shared memory of other CTAs of the cluster, by generic addresses that have their rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import SimulationError
from tilewright.sim.machine.address import Address, Part
from tilewright.sim.machine.facets import where_text
from tilewright.sim.machine.remote import OFFSET_BITS, across
from tilewright.sim.machine.sites import Origin, Site

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.machine.arrays import Bits, Ints
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.masks import Mask
    from tilewright.sim.machine.memory import MemoryRows

__all__ = ["Elsewhere", "check_elsewhere"]


def check_elsewhere(name: str, batch: Batch, mask: Mask, full: Ints, width: int, at: Span | None) -> None:
    """Raises SimulationError for lanes beyond the shared memory of a CTA of the cluster, or beyond the cluster."""
    run = batch.wave.run
    rank, offset = full >> OFFSET_BITS, full & (1 << OFFSET_BITS) - 1
    wrong = mask.full & ((rank > run.cluster_ctas) | (offset + width > run.shared_bytes) | (offset % width != 0))
    if wrong.any():
        cta, warp, lane = map(int, np.argwhere(wrong)[0])
        far = int(np.broadcast_to(offset, wrong.shape)[cta, warp, lane])
        raise SimulationError(
            f"{name} at byte {far} of the shared memory of a CTA in the cluster: it has {run.shared_bytes}",
            given=where_text(batch, cta, warp, wrong[cta, warp]),
            at=at,
        )


class Elsewhere(Site):
    """Addresses are those of the cluster's window."""

    def reach(self, batch: Batch, mask: Mask, at: Address) -> tuple[Mask, bool]:
        check_elsewhere(self.op, batch, mask, at.full(), self.width, self.at)
        if batch.wave.run.program.with_shadows:
            batch.wave.shadows.expand()
        for check in batch.wave.run.checks if not self.goes_on else ():
            check.reached(self, batch, mask, at)
        return mask, False

    def _inside(self, batch: Batch, at: Address) -> Address:
        return self._across(batch, batch.wave.shared, at)

    @staticmethod
    def _across(batch: Batch, block: MemoryRows, at: Address) -> Address:
        return Address(0, Part(across(batch, block, np.broadcast_to(at.full(), batch.shape))))

    def load(self, batch: Batch, mask: Mask, at: Address) -> Bits:
        self.reach(batch, mask, at)
        return batch.wave.shared.load(batch, self._inside(batch, at), self.width)

    def store(self, batch: Batch, mask: Mask, at: Address, bits: Bits) -> None:
        self.pending = bits
        self.reach(batch, mask, at)
        self.pending = None
        batch.wave.shared.store(batch, self._inside(batch, at), self.width, bits, mask)

    def shadow_bits(self, batch: Batch, mask: Mask, at: Address) -> Bits:
        shadows = batch.wave.shadows
        return shadows.shared.load(batch, self._across(batch, shadows.shared, at), self.width)

    def put_flags(self, batch: Batch, mask: Mask, at: Address, flags: Bits | None, origin: Origin) -> None:
        shadows = batch.wave.shadows
        own = shadows.valid(self.width) if flags is None else np.atleast_3d(flags)
        shadows.shared.store(batch, self._across(batch, shadows.shared, at), self.width, own, mask)


Site.elsewhere = Elsewhere  # which is a site, so that those cannot import it
