"""Barriers: one meeting at a time; who arrives again knows that the last one is over; barriers of two lines that pair
up. What the cluster's puts in order.

Source: PTX ISA, "bar, barrier", "barrier.cluster".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.order.reports.rules import barrier_reused, ends_between

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tilewright.errors import Span
    from tilewright.sim.machine.arrays import Bools, Ints
    from tilewright.sim.machine.sync import BarrierSite
    from tilewright.sim.order.knowledge.actors import Actors
    from tilewright.sim.order.knowledge.clocks import Clocks

__all__ = ["CLUSTER", "BarrierRules", "ClusterMeetings"]

CLUSTER = 16  # from this number on barriers are the cluster's


class BarrierRules:
    """The barriers of a wave's CTAs. last: by barrier, the time of each CTA's last meeting, and the warps there.

    came: of the running meeting of each CTA at the barrier of all threads, the line that each warp has come to. paired:
    by CTA, these of its last meeting where they were several.
    """

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        self.wave = clocks.wave
        self.last: dict[int, tuple[Ints, Bools]] = {}
        self.came: dict[int, dict[int, int]] = {}
        self.paired: dict[int, Mapping[int, int]] = {}

    def came_to(self, who: Actors, sync: BarrierSite) -> None:
        """Warps have arrived at the barrier of all threads."""
        if sync.at is not None:
            for row, warp in zip(who.rows.tolist(), who.warps.tolist(), strict=True):
                self.came.setdefault(row, {})[warp] = sync.at.outermost.line

    def paired_up(self, row: int, warps: tuple[int, int]) -> tuple[int, int] | None:
        """The two lines at which these warps of a CTA have met last, if they are two."""
        lines = self.paired.get(row, {})
        first, last = (lines.get(warp) for warp in warps)
        return None if first is None or last is None or first == last else (first, last)

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
        for row in ctas.tolist() if barrier == 0 else ():
            lines = self.came.pop(row, {})
            if len({*lines.values()}) > 1:
                self.paired[row] = lines
        nothing = (np.zeros(self.wave.ctas, np.int64), np.zeros((self.wave.ctas, self.wave.run.warps), np.bool_))
        times, waited = self.last.setdefault(barrier, nothing)
        times[ctas], waited[ctas] = self.clocks.now, waiting

    def closed(self) -> None:
        """The CTAs have ended. Raises SimulationError where a warp has arrived at the cluster's barrier and not
        waited.
        """
        for row, warp in np.argwhere(self.wave.barriers.between).tolist():
            raise ends_between(self.wave, row, warp)


class ClusterMeetings:
    """What comes before each CTA by the cluster's barrier, in order of execution: a relaxed arrival counts, too.

    arrivals: by number of the barrier, (CTAs, warps), the time of each warp's last arrival. before: (CTAs, warps of the
    cluster), the time up to which what each warp did comes before the CTA.
    """

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        self.wave = wave = clocks.wave
        self.arrivals = np.zeros((2, wave.ctas, wave.run.warps), np.int64)
        self.before = np.zeros((wave.ctas, wave.run.cluster_ctas, wave.run.warps), np.int64)

    def arrived(self, who: Actors, barrier: int) -> None:
        """Warps have arrived."""
        self.arrivals[barrier - CLUSTER, who.rows, who.warps] = self.clocks.now

    def met(self, ctas: Ints, barrier: int) -> None:
        """Warps of these CTAs have waited for a meeting that is over."""
        first = ctas - self.wave.rank(ctas)
        self.before[ctas] = self.arrivals[barrier - CLUSTER, first[:, None] + np.arange(self.wave.run.cluster_ctas)]

    def has_met(self, rows: Ints, others: Ints, threads: Ints, times: Ints) -> Bools:
        """Do CTAs come after what threads of others in their cluster did until a time?"""
        found: Bools = self.before[rows, self.wave.rank(others), threads >> 5] >= times
        return found
