"""Barriers: one meeting at a time; who arrives again knows that the last one is over.

Source: PTX ISA, "bar, barrier", "barrier.cluster".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.order.reports.rules import barrier_reused, ends_between

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.machine.arrays import Bools, Ints
    from tilewright.sim.order.knowledge.actors import Actors
    from tilewright.sim.order.knowledge.clocks import Clocks

__all__ = ["CLUSTER", "BarrierRules"]

CLUSTER = 16  # from this number on barriers are the cluster's


class BarrierRules:
    """The barriers of a wave's CTAs. last: by barrier, the time of each CTA's last meeting, and the warps there."""

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        self.wave = clocks.wave
        self.last: dict[int, tuple[Ints, Bools]] = {}

    def arrived(self, who: Actors, barrier: int, at: Span | None) -> None:
        """Raises SimulationError where a warp arrives again without knowing that the last meeting is over, since it
        might be counted in that one.
        """
        if barrier not in self.last:
            return
        times, waited = self.last[barrier]
        for k in np.flatnonzero(times[who.rows] > 0).tolist():
            row, warp = int(who.rows[k]), int(who.warps[k])
            column = int(self.clocks.first_column(np.array(row)))
            known = self.clocks.known[row, warp, column : column + self.clocks.threads].reshape(-1, 32).max(-1)
            if not (waited[row, warp] or (known >= times[row])[waited[row]].any()):
                raise barrier_reused(self.wave, barrier, row, warp, at)

    def met(self, ctas: Ints, waiting: Bools, barrier: int) -> None:
        """A meeting of these CTAs is over for the warps that wait for it."""
        self.clocks.now += 1
        nothing = (np.zeros(self.wave.ctas, np.int64), np.zeros((self.wave.ctas, self.wave.run.warps), np.bool_))
        times, waited = self.last.setdefault(barrier, nothing)
        times[ctas], waited[ctas] = self.clocks.now, waiting

    def closed(self) -> None:
        """The CTAs have ended. Raises SimulationError where a warp has arrived at the cluster's barrier and not
        waited.
        """
        for row, warp in np.argwhere(self.wave.barriers.between).tolist():
            raise ends_between(self.wave, row, warp)
