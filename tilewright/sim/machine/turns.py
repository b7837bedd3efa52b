"""Loops that turn on the spot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import SimulationError
from tilewright.sim.machine.facets import where_text

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.machine.arrays import Value
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.masks import Mask

__all__ = ["Turns"]

HOISTED = (
    "a volatile or an atomic load of what it waits for: nothing says that another thread may change that place, and so "
    "the compiler has taken a plain load out of the loop"
)
PATIENCE = 1 << 16  # turns between two looks


class Turns:
    """Counts the turns of a loop that no other thread can end: it is endless if a turn changes none of its variables.

    leaves: does anything end the loop? hoisted: is it a compiled one that touches no memory?
    """

    def __init__(self, at: Span | None, *, leaves: bool, hoisted: bool = False) -> None:
        self.at = at
        self.leaves = leaves
        self.hoisted = hoisted
        self.count = 0
        self.before: tuple[Value, ...] = ()

    def next(self, batch: Batch, mask: Mask, state: tuple[Value, ...]) -> None:
        """Raises SimulationError where nothing will end the loop: the variables are what they were a turn ago."""
        if self.hoisted:
            raise self._livelock(batch, mask, "the compiled loop reads nothing from memory, and nothing in it ends it")
        if not self.leaves:
            raise self._livelock(batch, mask, "no condition and no `break` ends it")
        self.count += 1
        if self.count % PATIENCE == 0:
            self.before = state
        elif self.count % PATIENCE == 1 and self.count > 1 and _equal(self.before, state):
            raise self._livelock(batch, mask, "a turn changes none of its variables")

    def _livelock(self, batch: Batch, mask: Mask, why: str) -> SimulationError:
        cta, warp = map(int, np.argwhere(mask.full.any(-1))[0])
        where = where_text(batch, cta, warp, mask.full[cta, warp])
        hint = HOISTED if self.hoisted else None
        return SimulationError("livelock: a loop goes on for ever", given=f"{where}: {why}", hint=hint, at=self.at)


def _equal(before: tuple[Value, ...], state: tuple[Value, ...]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(before, state, strict=True))
