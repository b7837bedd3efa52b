"""Threads that begin, or go on, only when all others have gone as far as they can: a late one, or some by chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.precedence import NEVER

if TYPE_CHECKING:
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.run.execution import Execution

__all__ = ["Overtaking"]

MOST_LOOKS = 16  # of those that poll what changes all the time


class Overtaking:
    """The batches that are overtaken, in the order in which they will go on.

    first: the number of the first of the late thread's strong accesses before which others did anything.
    """

    def __init__(self, run: Execution) -> None:
        self.run = run
        self.batches: list[Batch] = []
        self.first = NEVER
        self._come = 0  # to how many strong accesses the late thread has come
        self._left_at = 0  # the step at which it let the others go
        self._looks = 0  # of those that poll, since then
        self._seen = 0  # by them

    def stops(self, batch: Batch) -> list[Batch] | None:
        """The batch comes to a strong access: the others of it, if the late thread is in it and lets them go first."""
        late = self.run.precedence.late
        if self.run.precedence.seed is not None:
            return self._by_chance(batch)
        lane = batch.lane_of(late.thread) if late is not None else None
        if late is None or lane is None:
            return None
        self._come += 1
        if not late.lets_pass(self._come):
            return None
        one = np.zeros(batch.shape, np.bool_)
        one[lane] = True
        stopped, others = batch.parting(one)
        self.batches.append(stopped)
        self._left_at = self.run.steps
        return others

    def _by_chance(self, batch: Batch) -> list[Batch] | None:
        """The whole batch waits, or goes on."""
        self._come += 1
        if not self.run.precedence.lets_pass(self._come):
            return None
        self.batches.append(batch)
        self._left_at = self.run.steps
        return []

    def due(self, polling: list[Batch]) -> Batch | None:
        """No other can go on but those that poll: the batch that does; None where these have to look first."""
        late, seen = self.run.precedence.late, self._seen
        self._seen = self.run.fingerprint(polling) if polling else seen
        moved = self._seen != seen if self._looks else self.run.steps > self._left_at
        if late is not None and late.lets_pass(self._come) and moved:
            self.first = min(self.first, self._come)
        self._looks += 1
        if self._seen != seen and self._looks <= MOST_LOOKS:
            return None
        self._looks = self._seen = 0
        chosen = self.run.precedence.by_chance(self._come) if self.run.precedence.seed is not None else 0
        return self.batches.pop(chosen % len(self.batches))
