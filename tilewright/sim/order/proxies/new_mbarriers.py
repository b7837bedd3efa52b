"""m-barriers that were made and not fenced since: units of other CTAs may not see them.

A fence for the cluster, or a proxy fence, by any thread of the CTA is enough; inside of one CTA a barrier is.

Source: PTX ISA, "mbarrier.init".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.isa import Fence
from tilewright.sim.order.reports.proxy_fences import unfenced_mbarrier

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tilewright.isa import ProxyFence
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.machine.wave import Wave
    from tilewright.sim.order.knowledge.actors import Actors
    from tilewright.sim.order.knowledge.signals import Signals

__all__ = ["NewMBarriers"]


class NewMBarriers:
    """unfenced: (CTAs, words of shared memory), is an m-barrier there that was made since the last fence?"""

    def __init__(self, wave: Wave) -> None:
        self.wave = wave
        self.unfenced = np.zeros((wave.ctas, -(-max(wave.run.shared_bytes, 1) // 8) + 1), np.bool_)

    def initialised(self, signals: Signals) -> None:
        """m-barriers were made."""
        self.unfenced[signals.home, signals.offset >> 3] = True

    def fenced(self, who: Actors, fence: Fence | ProxyFence) -> None:
        """Threads have fenced."""
        if fence.scope != "cta" if isinstance(fence, Fence) else (fence.proxy, fence.side) == ("async", "both"):
            self.unfenced[who.rows] = False

    def unfenced_by(self, operation: Operation) -> Iterator[str]:
        """The m-barriers that an operation signals, and may not see, in words, and the missing fence."""
        for one in operation.signals if self.wave.run.cluster_ctas > 1 else ():
            made = self.unfenced[one.rows, one.at >> 3] & (one.effect.scope != "cta")
            if made.any():
                yield unfenced_mbarrier(self.wave, int(one.at[made][0]))
