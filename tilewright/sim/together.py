"""The lanes that an instruction needs together: its whole warp, or those that its mask names."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors import SimulationError
from tilewright.ir import const_value
from tilewright.isa import ALL_LANES, BY_MASK, WHOLE_WARP, Bound
from tilewright.sim.batch import lanes_text
from tilewright.sim.facets import where_text

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.batch import Batch
    from tilewright.sim.masks import Mask

__all__ = ["Together"]

LANE = np.arange(32)


@dataclass(frozen=True, eq=False)
class Together:
    """A place where lanes carry out one instruction; called with the active lanes and the values of the operands."""

    bound: Bound
    at: Span | None

    def __call__(self, batch: Batch, mask: Mask, values: tuple[Any, ...]) -> None:
        """Raises SimulationError where lanes that it needs are not active, or active ones are not named."""
        needs = self.bound.instruction.lanes
        if needs == WHOLE_WARP and not mask.has_whole_warps:
            raise self._without(batch, mask.full, np.ones((1, 1, 32), np.bool_))
        if needs == BY_MASK and not (mask.array is None and self._names_all_lanes):
            names = [row.name for row in self.bound.read]
            self._check_named(batch, mask.full, values[names.index("mask")].astype(np.int64) & ALL_LANES)

    @cached_property
    def _names_all_lanes(self) -> bool:
        known = const_value(self.bound.operands["mask"][0])
        return known is not None and int(known) & ALL_LANES == ALL_LANES

    def _check_named(self, batch: Batch, active: Any, named: Any) -> None:
        """Each active lane's mask names the lane itself, and active lanes that have the same mask."""
        outside = active & (named >> LANE & 1 == 0)
        if outside.any():
            raise self._not_named(batch, active, outside, named)
        if named.shape[-1] == 1:
            wanted = named >> LANE & 1 != 0
            if (active.any(-1, keepdims=True) & wanted & ~active).any():
                raise self._without(batch, active, wanted)
            return
        wanted = active[..., None] & (named[..., None] >> LANE & 1 != 0)
        alike = active[..., None, :] & (named[..., None] == named[..., None, :])
        if (wanted & ~alike).any():
            lane = int(np.argwhere((wanted & ~alike).any(-1))[0][-1])
            raise self._without(batch, alike[..., lane, :], wanted[..., lane, :])

    def _not_named(self, batch: Batch, active: Any, outside: Any, named: Any) -> SimulationError:
        cta, warp = map(int, np.argwhere(outside.any(-1))[0])
        lanes = outside[cta, warp]
        given = int(np.broadcast_to(named, active.shape)[cta, warp][lanes][0])
        here = sum(1 << int(lane) for lane in np.flatnonzero(active[cta, warp]))
        return SimulationError(
            f"divergence: {self.bound.instruction.name} in {lanes_text(lanes)}, which its mask does not name",
            given=f"mask {given:#x} in {where_text(batch, cta, warp, lanes)}",
            allowed="a mask that names each lane that carries it out",
            hint=f"the mask {here:#x}, {lanes_text(active[cta, warp])}: those that come here together",
            at=self.at,
        )

    def _without(self, batch: Batch, active: Any, wanted: Any) -> SimulationError:
        wanted = np.broadcast_to(wanted, active.shape)
        missing = active.any(-1, keepdims=True) & wanted & ~active
        cta, warp = map(int, np.argwhere(missing.any(-1))[0])
        return SimulationError(
            f"divergence: {self.bound.instruction.name} without {lanes_text(missing[cta, warp])}",
            given=where_text(batch, cta, warp, active[cta, warp]),
            allowed=f"{lanes_text(wanted[cta, warp])} of the warp, together",
            hint="move it out of the condition that splits the warp",
            at=self.at,
        )
