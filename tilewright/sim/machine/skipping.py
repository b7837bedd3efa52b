"""How often threads came to a barrier, or to a branch around one, and how often they went on behind it.

Who returns early is not waited for. Who skips a barrier and goes on may be counted at another one, or let it complete
by ending: that is told. `codegen.skips` finds the branches, and the numbers that they and the barriers have here.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.machine.arrays import Bools, Ints
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.masks import Mask
    from tilewright.sim.machine.sync import BarrierSite
    from tilewright.sim.machine.wave import Wave

__all__ = ["Skipping"]


class Skipping:
    """The counts of a wave's threads, (CTAs, warps, 32).

    came: to a branch or a barrier. behind: which of those times they went on behind the join of the branch, and were
    seen there, the last at ``seen_at``. barriers: those to which threads came.
    """

    def __init__(self, wave: Wave) -> None:
        shape = (wave.ctas, wave.run.warps, 32)
        self.came: dict[int, Ints] = defaultdict(lambda: np.zeros(shape, np.int64))
        self.behind: dict[int, Ints] = defaultdict(lambda: np.zeros(shape, np.int64))
        self.seen_at: dict[int, Span | None] = {}
        self.barriers: dict[int, BarrierSite] = {}

    def comes(self, batch: Batch, mask: Mask, branch: int) -> None:
        """Lanes come to a branch."""
        self.came[branch][batch.ctas, batch.warps] += mask.full

    def arrives(self, batch: Batch, place: BarrierSite) -> None:
        """A batch comes to a barrier."""
        assert place.number is not None
        self.barriers[place.number] = place
        self.came[place.number][batch.ctas, batch.warps] += batch.mask.full

    def goes_on(self, batch: Batch, mask: Mask, branches: tuple[int, ...], at: Span | None) -> None:
        """Lanes are behind these branches."""
        where = batch.ctas, batch.warps
        for branch in branches:
            np.copyto(self.behind[branch][where], self.came[branch][where], where=mask.full)
            self.seen_at[branch] = at

    def past_a_branch(self, batch: Batch, gone: Bools, branch: int, ctas: int) -> Bools:
        """The threads that have gone on behind the branch since those came to it that wait, and have ended."""
        return gone & _as_often(self.behind[branch], self.came[branch], batch.lanes(), ctas)

    def as_often(self, batch: Batch, gone: Bools, ctas: int) -> Bools:
        """The threads that came to this barrier as often as those that wait, and have ended."""
        assert batch.place.number is not None
        came = self.came[batch.place.number]
        return gone & _as_often(came, came, batch.lanes(), ctas)

    def left_out(self, batch: Batch, skipped: Bools) -> BarrierSite:
        """A barrier to which the first of these threads came less often than the first of those that wait."""
        first, other = tuple(np.argwhere(skipped)[0]), tuple(np.argwhere(batch.lanes())[0])
        fewer = (place for k, place in self.barriers.items() if self.came[k][first] < self.came[k][other])
        return next(fewer, batch.place)


def _as_often(times: Ints, came: Ints, here: Bools, ctas: int) -> Bools:
    """Which threads have a count as high as those of their CTA or cluster, of so many CTAs, that wait here?"""
    needed = np.where(here, came, 0).max((1, 2)).reshape(-1, ctas).max(1).repeat(ctas)[:, None, None]
    found: Bools = (times >= needed) & (needed > 0)
    return found
