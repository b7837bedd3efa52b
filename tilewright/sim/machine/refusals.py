"""Waits that answer no though the phase is over, as time allows: a thread may ask before the others have come.

Source: PTX ISA, "mbarrier.test_wait, mbarrier.try_wait": the answer is no where the phase is not over yet, after a time
that the system decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.arrays import Array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.instructions import CompiledInstruction
    from tilewright.sim.machine.masks import Mask

__all__ = ["Refusals"]


class Refusals:
    """The answers of a wave's waits. asked: by statement, what each thread has asked last, a number of its operands,
    and how often, both (CTAs, warps, 32). count: of the answers that would have been yes: a poll that gets one sees
    something else the next time.
    """

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self.shape = shape
        self.asked: dict[int, tuple[Array, Array]] = {}
        self.count = 0

    def answer(
        self, statement: CompiledInstruction, batch: Batch, mask: Mask, operands: Sequence[Array], found: Array
    ) -> Array:
        """The answer of a wait: no for the first times that a thread asks for one phase of one m-barrier."""
        compiled = batch.wave.run.program.kernel.compiled  # else the scheduler asks, again and again
        asks = compiled or any(site.asks for _, site in statement.accesses)
        if not asks or statement.bound.form.signal_of("wait") is None:
            return found
        nothing = np.full(self.shape, -1, np.int64), np.zeros(self.shape, np.int64)
        last, times = (each[batch.ctas, batch.warps] for each in self.asked.setdefault(id(statement), nothing))
        what = np.zeros(batch.shape, np.int64)
        for operand in operands[:2]:  # the m-barrier and the phase
            what = what * 31 + np.asarray(operand, np.int64)
        what &= (1 << 62) - 1
        again = mask.full & (what == last)
        np.copyto(times, np.where(again, times + 1, 1), where=mask.full)
        np.copyto(last, what, where=mask.full)
        refused = mask.full & (times <= batch.wave.run.precedence.refuses)
        for axis in range(3):  # as many answers as there are, the same for all that share one
            if np.shape(found)[axis] == 1:
                refused = np.asarray(refused.any(axis, keepdims=True))
        self.count += int((found & refused).any())
        return np.asarray(found & ~refused)
