"""Registers that an operation reads or writes: did a fence follow what their warp did to them besides?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import SimulationError
from tilewright.isa import RegisterFence
from tilewright.sim.order.missing import fence_name
from tilewright.sim.order.operations import stretches_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.sim.machine.address import Address
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.masks import Mask
    from tilewright.sim.machine.pending import Operation
    from tilewright.sim.machine.sites import Site
    from tilewright.sim.machine.wave import Wave

__all__ = ["Unfenced"]

WORD = 4


class Unfenced:
    """What the warps of a wave did to their registers since their last fence.

    touched: by buffer, (CTAs, warps, words), the number in ``sites`` of who touched a word last, 0 for nobody. fenced:
    (CTAs, warps) that have passed a fence at all.
    """

    def __init__(self, wave: Wave) -> None:
        self.wave = wave
        self.sites: list[Site] = []
        self.numbers: dict[int, int] = {}
        self.touched: dict[str, NDArray[np.int32]] = {}
        self.fenced = np.zeros((wave.ctas, wave.run.warps), np.bool_)
        wave.pending.loading = True

    def touch(self, site: Site, batch: Batch, mask: Mask, at: Address) -> None:
        """A warp reads or writes registers, not by an operation that is fenced itself."""
        issuing, place = self.wave.pending.issuing, site.place
        assert place is not None
        if issuing is not None and issuing.bound.form.issue and issuing.bound.form.issue.fenced:
            return
        if id(site) not in self.numbers:
            self.sites.append(site)
            self.numbers[id(site)] = len(self.sites)
        if place.name not in self.touched:
            shape = (*self.fenced.shape, -(-place.nbytes // WORD))
            self.touched[place.name] = np.zeros(shape, np.int32)
        words = slice((at.lo - place.start) // WORD, -(-(at.hi + site.width - place.start) // WORD))
        known = self.touched[place.name][batch.ctas, batch.warps, words]
        np.copyto(known, self.numbers[id(site)], where=mask.full.any(-1)[..., None])

    def pass_fence(self, batch: Batch, mask: Mask) -> None:
        """Warps have fenced."""
        warps = mask.full.any(-1)
        self.fenced[batch.ctas, batch.warps] |= warps
        for table in self.touched.values():
            np.copyto(table[batch.ctas, batch.warps], 0, where=warps[..., None])

    def check(self, operation: Operation) -> None:
        """Raises SimulationError where a warp that issues an operation has not fenced its registers."""
        issue = operation.form.issue
        if issue is None or not issue.fenced:
            return
        rows, threads = (each[:, ::32] for each in operation.issuers.each())
        fence = f"{fence_name(RegisterFence(issue.group))}()"
        never = ~self.fenced[rows, threads // 32]
        if never.any():
            raise self._lacks(operation, never, f"before the first {operation.name} of a warp", f"{fence} before it")
        for stretch, _ in stretches_of(operation):
            if stretch.name not in self.touched:
                continue
            start = self.wave.run.places.by_name[stretch.name].start
            low, high = stretch.start.lo - start, stretch.start.hi + stretch.nbytes - start
            found = self.touched[stretch.name][rows, threads // 32, low // WORD : -(-high // WORD)].max(-1)
            if found.any():
                at = self.sites[int(found[found > 0][0]) - 1].at
                what = f"after {stretch.name} was used at {at}"
                raise self._lacks(operation, found > 0, what, f"{fence} after line {at.line}" if at else fence)

    def _lacks(self, operation: Operation, where: NDArray[np.bool_], what: str, hint: str) -> SimulationError:
        who = operation.issuers.name(int(np.flatnonzero(where.any(1))[0]))
        return SimulationError(
            f"{operation.name} lacks a fence {what}",
            given=f"{operation.instruction.at}: {who}",
            allowed="a fence by each of the four warps between other uses of these registers and the operation",
            hint=hint,
            at=operation.instruction.at,
        )
