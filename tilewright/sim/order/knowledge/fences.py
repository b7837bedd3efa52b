"""Fences that release: what a thread knew at its last fence is published by its strong writes from then on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.order.knowledge.actors import Actors
from tilewright.sim.order.knowledge.clocks import Clocks
from tilewright.sim.order.knowledge.fence_points import FencePoint, apart
from tilewright.sim.order.knowledge.releases import Pattern

if TYPE_CHECKING:
    from tilewright.sim.machine.arrays import Bools

__all__ = ["Fences"]


class Fences:
    """The knowledge of threads at their last fence, which their strong writes publish from then on."""

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        self.latest: dict[tuple[int, int], list[FencePoint]] = {}  # row and warp

    def passed(self, who: Actors, scope: str, *, of_shared: bool) -> None:
        """Lanes have passed a fence that releases. of_shared: shared memory alone."""
        clocks = self.clocks
        first = clocks.narrow if of_shared else 0
        for place, lanes in zip(who.places(), who.lanes, strict=True):
            older = self.latest.get(place, [])
            left = [one.lanes & ~lanes if (one.scope, one.first) == (scope, first) else one.lanes for one in older]
            self.latest[place] = [replace(one, lanes=own) for one, own in zip(older, left, strict=True) if own.any()]
        for k, lanes, known in apart(clocks, who):
            row, warp = int(who.rows[k]), int(who.warps[k])
            about = clocks.about_shared(known) if first else known
            self.latest[row, warp].append(FencePoint(row, warp, lanes, clocks.now, about, scope, first))

    def before(self, who: Actors, k: int) -> Iterator[Pattern]:
        """The knowledge that a relaxed arrival of the warp number k among these publishes."""
        return self.of(int(who.rows[k]), int(who.warps[k]), who.lanes[k])

    def scopes(self, row: int, thread: int) -> set[str]:
        """The scopes of the fences that a thread has passed."""
        return {passed.scope for passed in self.latest.get((row, thread >> 5), ()) if passed.lanes[thread & 31]}

    def of(self, row: int, warp: int, lanes: Bools) -> Iterator[Pattern]:
        """The knowledge that some lanes of a warp publish by a strong write."""
        for passed in self.latest.get((row, warp), ()):
            if (own := passed.lanes & lanes).any():
                key = own.tobytes()
                if key not in passed.published:
                    passed.published[key] = self._pattern(passed, own)
                yield passed.published[key]

    def _pattern(self, passed: FencePoint, lanes: Bools) -> Pattern:
        """What lanes that have passed a fence publish from then on."""
        first = passed.first + int(self.clocks.first_column(np.array(passed.row))) + 32 * passed.warp
        times = passed.known.threads.copy()
        times[:, first : first + 32][:, lanes] = passed.time
        known = replace(passed.known, threads=times)
        cta = passed.row + self.clocks.wave.first
        return Pattern(lanes, passed.scope, cta, known, passed.time, of_fence=True)
