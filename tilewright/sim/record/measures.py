"""What one access of a warp costs, computed once for each pattern of addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.address import Address, Part
from tilewright.sim.machine.counts import EVERY, default_phase, wavefronts
from tilewright.sim.record.recording import WarpAccess

if TYPE_CHECKING:
    from tilewright.sim.machine.arrays import Bools, Ints
    from tilewright.sim.machine.sites import Site

__all__ = ["Measure"]

SECTOR_BYTES = 32


class Measure:
    """Measures the accesses of one site. known: by the lanes' distances from the first, and where that one lies."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.known: dict[tuple[int, bytes, bytes], WarpAccess] = {}

    def __call__(self, addresses: Ints, active: Bools | None) -> WarpAccess:
        """addresses: (32,) or (1,), bytes. active: (32,), None for all."""
        first = int(addresses.min())
        key = first % EVERY, (addresses - first).tobytes(), b"" if active is None else active.tobytes()
        if key not in self.known:
            lanes = np.arange(32) < self.site.lanes
            lanes &= True if active is None else active
            self.known[key] = self._measured(np.broadcast_to(addresses, 32), lanes)
        return self.known[key]

    def _measured(self, addresses: Ints, active: Bools) -> WarpAccess:
        site, lanes = self.site, int(active.sum())
        if site.line.space == "global":
            own = addresses[active]
            ends = np.concatenate([own // SECTOR_BYTES, (own + site.width - 1) // SECTOR_BYTES])
            return WarpAccess(lanes, lanes * site.width, sectors=len(np.unique(ends)))
        phase, pairs = site.phase or default_phase(site.width), not (site.write or site.phase)
        at = Address(0, Part(addresses.reshape(1, 1, 32)))
        everyone = lanes == site.lanes
        passes, ideal = wavefronts(at, site.lanes, site.width, phase, None if everyone else active, pairs=pairs)
        return WarpAccess(lanes, lanes * site.width, passes, ideal)
