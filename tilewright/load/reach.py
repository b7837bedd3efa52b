"""How much shared memory a kernel touches: a run with all that a CTA can have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.device import Events

if TYPE_CHECKING:
    from tilewright.sim import Program
    from tilewright.sim.machine.address import Address
    from tilewright.sim.machine.batch import Batch, Mask
    from tilewright.sim.machine.sites import Hook, Site


class SharedReach(Events):
    """The end of the bytes of shared memory that runs of a program have touched."""

    def __init__(self, program: Program) -> None:
        self.end = 0
        program.compiled.subscribe(self)

    def watch(self, site: Site) -> Hook | None:
        """Looks how far the site goes."""
        if site.place is None or site.place.space != "shared":
            return None

        def note(batch: Batch, mask: Mask, *every: Address) -> None:
            for at in (one for one in every if one.hi + site.width > self.end):
                active = np.broadcast_to(at.full(), mask.shape)[mask.full]
                self.end = max(self.end, int(active.max(initial=0)) + site.width)

        return note
