"""Loops that turn on the spot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors import SimulationError
from tilewright.sim.facets import where_text

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.batch import Batch
    from tilewright.sim.masks import Mask

__all__ = ["Turns"]

PATIENCE = 1 << 16  # turns before anybody looks


class Turns:
    """Counts the turns of a loop that nobody else can end: one that changes none of its variables is the last straw."""

    def __init__(self, at: Span | None) -> None:
        self.at = at
        self.count = 0
        self.before: tuple[Any, ...] | None = None

    def next(self, batch: Batch, mask: Mask, state: tuple[Any, ...]) -> None:
        """Raises SimulationError where the variables are what they were a turn ago."""
        self.count += 1
        if self.count < PATIENCE:
            return
        if self.before is not None and all(np.array_equal(a, b) for a, b in zip(self.before, state, strict=True)):
            cta, warp = map(int, np.argwhere(mask.full.any(-1))[0])
            raise SimulationError(
                "livelock: a loop goes on for ever",
                given=f"{where_text(batch, cta, warp, mask.full[cta, warp])}: a turn changes none of its variables",
                at=self.at,
            )
        self.before = state
