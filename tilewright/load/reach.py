"""How much shared memory a kernel touches: a run with all that a CTA can have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tilewright.sim import Program
    from tilewright.sim.machine.address import Address
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.masks import Mask
    from tilewright.sim.machine.sites import Hook, Site

__all__ = ["SharedReach"]


class SharedReach:
    """The end of the bytes of shared memory that runs of a program have touched."""

    def __init__(self, program: Program) -> None:
        self.end = 0
        for site in program.compiled.sites:
            watch = site.watch
            site.watch = lambda one, first=watch: (*first(one), *self._hooks(one))  # type: ignore[misc]  # bound here
            site.hooks += self._hooks(site)

    def _hooks(self, site: Site) -> tuple[Hook, ...]:
        if site.place is None or site.place.space != "shared":
            return ()

        def note(batch: Batch, mask: Mask, *every: Address) -> None:
            for at in (one for one in every if one.hi + site.width > self.end):
                active = np.broadcast_to(at.full(), mask.shape)[mask.full]
                self.end = max(self.end, int(active.max(initial=0)) + site.width)

        return (note,)
