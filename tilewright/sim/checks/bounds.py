"""Accesses outside of a buffer. An address outside is never followed; with this check it is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import SimulationError
from tilewright.sim.checks.base import Check, register
from tilewright.sim.checks.coordinates import coordinate_text
from tilewright.sim.facets import where_text

if TYPE_CHECKING:
    from tilewright.sim.address import Address
    from tilewright.sim.batch import Batch
    from tilewright.sim.masks import Bools
    from tilewright.sim.sites import Site

__all__ = ["Bounds"]


class Bounds(Check):
    """Sites call `escapes` where lanes are outside."""

    def escapes(self, site: Site, batch: Batch, outside: Bools, at: Address) -> None:
        """Raises SimulationError for the first warp with lanes outside."""
        assert site.place is not None
        lanes = np.broadcast_to(outside, (*batch.shape[:2], outside.shape[2]))
        cta, warp = map(int, np.argwhere(lanes.any(-1))[0])
        lane = int(np.flatnonzero(lanes[cta, warp])[0])
        address = int(np.broadcast_to(at.full(), batch.shape)[cta, warp, lane])
        size = site.place.nbytes if site.place.nbytes >= 0 else batch.wave.run.blocks[site.place.name].nbytes
        verb = "writes" if site.write else "reads"
        raise SimulationError(
            f"{site.op} {verb} outside of {site.place.name}",
            given=f"{coordinate_text(self.program, site, address)} in {where_text(batch, cta, warp, lanes[cta, warp])}",
            allowed=f"{self.program.extent_text(site.place, size)}",
            at=site.at,
        )


register("bounds", "accesses outside of a buffer, and elements that another thread owns", Bounds)
