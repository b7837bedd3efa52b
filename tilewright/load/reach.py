"""How much shared memory a kernel touches: a run with all that a CTA can have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.device import Events

if TYPE_CHECKING:
    from tilewright.sim import Program
    from tilewright.sim.machine.event import AccessEvent, Hook
    from tilewright.sim.machine.sites import Site


class SharedReach(Events):
    """The end of the bytes of shared memory that runs of a program have touched."""

    def __init__(self, program: Program) -> None:
        self.end = 0
        program.compiled.subscribe(self)

    def watch(self, site: Site) -> Hook | None:
        """Looks how far the site goes."""
        if site.place is None or site.place.space != "shared":
            return None

        def note(event: AccessEvent) -> None:
            for at in (one for one in event.every if one.hi + site.width > self.end):
                active = np.broadcast_to(at.full(), event.team.shape)[event.team.full]
                self.end = max(self.end, int(active.max(initial=0)) + site.width)

        return note
