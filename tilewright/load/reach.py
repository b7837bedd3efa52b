"""How much memory a kernel touches: a run with more than enough of it shows how far it goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.device import Events, Everyone
from tilewright.sim.machine.places import WINDOW_BITS

if TYPE_CHECKING:
    from tilewright.sim import Program
    from tilewright.sim.machine.event import AccessEvent, Hook
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.machine.sites import Site


@dataclass(frozen=True, slots=True)
class Reached:
    """How far the accesses of one place go: from byte ``begin`` to the one before ``end``, ``width`` each."""

    begin: int
    end: int
    width: int
    write: bool


class MemoryReach(Events):
    """The ends of the bytes that runs touch, by the names of arrays, of global memory counted from where each starts;
    those of all of shared memory are by the name "shared". places: the same for each place of the code that has
    accesses.
    """

    def __init__(self, space: str) -> None:
        self.space = space
        self.ends = dict[str, int]()
        self.places: dict[str, dict[Site, Reached]] = {}

    def clear(self) -> None:
        """Look anew, at the runs of the same program."""
        self.ends.clear()
        for places in self.places.values():
            places.clear()

    def subscribe(self, program: Program) -> None:
        """Hear of the runs of a program."""
        compiled = program.compiled
        compiled.subscribe(self)
        compiled.everyone = Everyone([*compiled.everyone.checks, self])

    def issued(self, operation: Operation) -> None:
        """What an asynchronous unit touches for a thread is reached, too."""
        for access in operation.touched if self.space == "global" else ():
            for window, there in access.windows() if access.space == "global" else ():
                place = operation.issuers.wave.run.places.globals[window]
                if there.any():
                    offsets = (access.at & (1 << WINDOW_BITS) - 1)[there] - place.start
                    self.ends[place.name] = max(self.ends.get(place.name, 0), int(offsets.max()) + access.width)

    def watch(self, site: Site) -> Hook | None:
        """Looks how far the site goes."""
        place = site.place
        if place is None or place.space != self.space:
            return None
        name, start = (place.name, place.start) if self.space == "global" else (self.space, 0)
        places, nothing = self.places.setdefault(name, {}), Reached(1 << 62, 0, site.width, site.write)

        def note(event: AccessEvent) -> None:
            for at in event.every:
                before = places.get(site, nothing)
                if at.hi + site.width - start > before.end or at.lo - start < before.begin:
                    active = np.broadcast_to(at.full(), event.team.shape)[event.team.full] - start
                    end = int(active.max(initial=-start)) + site.width
                    begin = int(active.min(initial=before.begin))
                    places[site] = Reached(begin, max(end, before.end), site.width, site.write)
                    self.ends[name] = max(self.ends.get(name, 0), end)

        return note
