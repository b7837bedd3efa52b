"""m-barriers that other CTAs' units signal: between mbarrier.init and the operation is a fence for the cluster.

It is a fence in the CTA that has the m-barrier: `fence.mbarrier_init` by the thread that made it, or another fence for
the cluster, or a proxy fence, by a thread that comes after mbarrier.init. Inside of one CTA a barrier is enough.

Source: PTX ISA, "mbarrier.init", "membar, fence".
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from tilewright.isa import Fence
from tilewright.sim.order.bounds import INIT_FENCES
from tilewright.sim.order.knowledge.fence_points import FencePoints, Stamps
from tilewright.sim.order.reports.proxy_fences import unfenced_mbarrier

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tilewright.isa import ProxyFence
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.order.knowledge.actors import Actors
    from tilewright.sim.order.knowledge.clocks import Clocks
    from tilewright.sim.order.rules.mbarriers import LiveMBarrier, MBarrierRules

__all__ = ["NewMBarriers"]


class NewMBarriers:
    """The fences behind mbarrier.init in a wave; those of inits alone are in `LiveMBarrier`. count: by row, and by how
    many m-barriers there were, the fences; ordered: issuers and m-barriers that need no more.
    """

    def __init__(self, clocks: Clocks, rules: MBarrierRules) -> None:
        self.clocks = clocks
        self.rules = rules
        self.fences = FencePoints(clocks, also=clocks.of_shared)
        self.count: Counter[tuple[int, int]] = Counter()
        self.ordered: set[tuple[int, ...]] = set()

    def fenced(self, who: Actors, fence: Fence | ProxyFence) -> None:
        """Threads have fenced."""
        if isinstance(fence, Fence):
            counts = fence.scope != "cta" and not fence.only
        else:
            counts = (fence.proxy, fence.side) == ("async", "both")
        if not counts or self.clocks.wave.run.cluster_ctas == 1 or not self.rules.alive:
            return
        those = np.array([self.count[row, self.rules.made] < INIT_FENCES for row in who.rows.tolist()])
        if those.any():
            self.count.update((row, self.rules.made) for row in who.rows[those].tolist())
            self.fences.add(who[those])

    def unfenced_by(self, operation: Operation) -> Iterator[str]:
        """The m-barriers that an operation signals, and may not see, in words, and the missing fence."""
        issuers = operation.issuers
        for one in operation.signals if issuers.cluster_ctas > 1 else ():
            for k in np.flatnonzero(one.rows != issuers.rows[one.issuer]).tolist():
                row, thread = (int(each[one.issuer[k]]) for each in (issuers.rows, issuers.threads))
                where = int(one.rows[k]), int(one.at[k])
                key, made = (row, thread, *where), self.rules.alive.get(where)
                if made is None or key in self.ordered:
                    continue
                if not self._is_fenced(row, thread, where[0], made):
                    yield unfenced_mbarrier(self.clocks.wave, where[1])
                self.ordered.add(key)

    def _is_fenced(self, row: int, thread: int, home: int, made: LiveMBarrier) -> bool:
        """Does a thread come after a fence behind mbarrier.init in the CTA ``home``?"""
        if self.rules.come_after_fence(np.array([row]), np.array([thread]), np.array([home]), made).all():
            return True
        done = Stamps(np.array([made.time]), np.array([home + self.clocks.wave.first]), np.array([made.thread]))
        return not len(self.fences.left(row, thread, done, home=home))
