"""Accesses of threads and of asynchronous units to the same shared memory, and the proxy fences between them.

What threads store is seen by the units only after a fence, by the thread itself or by one of the same CTA that comes
after the store. Practice gets away without it before a copy to tensor memory, so that leaving it out is a warning. An
m-barrier that a unit arrives at needs a fence as well, after it was made and by anyone of its CTA.

Source: PTX ISA, "Memory Consistency Model: Proxies", "Async proxy"; "mbarrier.init".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.isa import Fence, ProxyFence
from tilewright.sim.checks.coordinates import element_text
from tilewright.sim.machine.masks import spread
from tilewright.sim.order.missing import fence_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tilewright.sim.machine.address import Address
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.masks import Mask
    from tilewright.sim.machine.pending import Operation
    from tilewright.sim.order.actors import Actors
    from tilewright.sim.order.channels import Signals
    from tilewright.sim.order.clocks import Clocks
    from tilewright.sim.run.program import Program

__all__ = ["Stores"]

ASYNC = ProxyFence("async")
INIT = Fence("release", "cluster", "mbarrier.init")
UNIT = 16  # bytes of shared memory that are remembered together


class Stores:
    """What the units may not see yet of what threads stored.

    since: (CTAs, warps, units), the time of a warp's last store there that nobody has fenced; 0 for none. made: (CTAs,
    words), m-barriers that were made since the last fence.
    """

    def __init__(self, clocks: Clocks) -> None:
        wave = clocks.wave
        self.clocks = clocks
        units = -(-max(wave.run.shared_bytes, 1) // UNIT)
        self.since = np.zeros((wave.ctas, wave.run.warps, units), np.int32)
        self.made = np.zeros((wave.ctas, 2 * units), np.bool_)

    def stored(self, batch: Batch, mask: Mask, at: Address) -> None:
        """Threads have stored."""
        active = mask.full
        rows, own = batch.rows_and_warps(active)
        units = spread(at.full(), batch.shape)[active] // UNIT
        inside = units < self.since.shape[-1]
        self.since[rows[inside], own[inside], units[inside]] = self.clocks.now

    def initialised(self, signals: Signals) -> None:
        """m-barriers were made."""
        self.made[signals.home, signals.offset >> 3] = True

    def fenced(self, who: Actors, fence: Fence | ProxyFence) -> None:
        """Threads have fenced: their own stores, and those that they come after."""
        if isinstance(fence, Fence):
            if fence.scope != "cta":
                self.made[who.rows] = False
            return
        self.made[who.rows] = False
        if fence.space == "global":
            return
        published = self.clocks.published(who)
        first = self.clocks.first_column(who.rows)
        for k, (row, column) in enumerate(zip(who.rows.tolist(), first.tolist(), strict=True)):
            own = published.threads[k, column : column + self.clocks.threads]
            since = self.since[row]
            since[since <= own.reshape(-1, 32).min(-1)[:, None]] = 0
            since[int(who.warps[k])] = 0

    def unseen_by(self, operation: Operation, program: Program) -> Iterator[str]:
        """What an operation may not see, in words, and the fence that it lacks."""
        for one in operation.touched:
            if one.proxy != "async" or one.space != "shared":
                continue
            unfenced = self.since.transpose(0, 2, 1)[one.rows, one.at // UNIT] * one.touches[..., None]
            if unfenced.any():
                *where, warp = np.argwhere(unfenced)[0]
                source = program.places.shared_at(int(one.at[tuple(where)])).name
                yield (
                    f"{'overwrites' if one.writes else 'reads'} {source}, stored by warp {warp} without a proxy fence; "
                    f"{fence_name(ASYNC)}() belongs between the stores and the barrier"
                )
        for one in operation.signals:
            made = self.made[one.rows, one.at >> 3] & (one.effect.scope != "cta")
            if made.any():
                byte = int(one.at[made][0])
                what = element_text(program, program.places.shared_at(byte), byte)
                yield (
                    f"arrives at {what}, made without a fence after it; "
                    f"{fence_name(INIT)}() belongs between mbarrier.init and the barrier"
                )
