"""How much memory a kernel touches: a run with more than enough of it shows how far it goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.device import Events

if TYPE_CHECKING:
    from tilewright.sim import Program
    from tilewright.sim.machine.event import AccessEvent, Hook
    from tilewright.sim.machine.sites import Site


class MemoryReach(Events):
    """The ends of the bytes that runs touch, by the names of arrays, of global memory counted from where each starts;
    those of all of shared memory are by the name "shared".
    """

    def __init__(self, space: str) -> None:
        self.space = space
        self.ends = dict[str, int]()

    def subscribe(self, program: Program) -> None:
        """Hear of the runs of a program."""
        program.compiled.subscribe(self)

    def watch(self, site: Site) -> Hook | None:
        """Looks how far the site goes."""
        place = site.place
        if place is None or place.space != self.space:
            return None
        name, start = (place.name, place.start) if self.space == "global" else (self.space, 0)

        def note(event: AccessEvent) -> None:
            for at in event.every:
                if at.hi + site.width - start > self.ends.get(name, 0):
                    active = np.broadcast_to(at.full(), event.team.shape)[event.team.full]
                    end = int(active.max(initial=0)) + site.width - start
                    self.ends[name] = max(self.ends.get(name, 0), end)

        return note
