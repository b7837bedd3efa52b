"""Which warps are whole where lanes meet, and what of lanes that have ended meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import SimulationError
from tilewright.sim.machine.batch import lanes_text
from tilewright.sim.machine.facets import where_text
from tilewright.sim.machine.sync import Crossing

if TYPE_CHECKING:
    from tilewright.sim.machine.arrays import Bools
    from tilewright.sim.machine.batch import Batch

__all__ = ["is_whole", "look_for_lanes", "whole_warps"]

LANES = 1 << np.arange(32, dtype=np.int64)  # the bit of each lane in a mask


def whole_warps(batch: Batch) -> Bools:
    """(CTAs, warps, 1): the warps of which all lanes are there, and all warps that they go on with. Where lanes meet by
    masks, (CTAs, warps, 32): those that see all whom they name.
    """
    if batch.place.by_mask:
        there = (batch.mask.full * LANES).sum(-1, keepdims=True)
        named = np.asarray(batch.env["meeting.0"], np.int64) & (batch.alive * LANES).sum(-1, keepdims=True)
        return np.broadcast_to((named & ~there) == 0, batch.shape)
    whole = np.asarray((batch.mask.full == batch.alive).all(-1))
    if (size := batch.place.warps) > 1:
        every = np.zeros((len(whole), -(-batch.wave.run.warps // size) * size), np.bool_)
        every[:, batch.warps] = whole
        together = every.reshape(len(whole), -1, size).all(-1).repeat(size, axis=1)
        whole = whole & together[:, batch.warps]
    return whole[..., None]


def is_whole(batch: Batch) -> bool:
    """Are all lanes of its warps there, and all warps that they go on with?"""
    if batch.place.warps > 1 or batch.place.by_mask:
        return not (batch.mask.full & ~whole_warps(batch)).any()
    return batch.has_whole_warps(batch.mask)


def look_for_lanes(batch: Batch) -> None:
    """Warns where lanes had ended before others of their warp came to a barrier.

    Raises SimulationError where they ended while those waited. A warp that has ended as a whole is missed by no barrier
    of all threads. Sources: PTX ISA, "bar, barrier": all threads of a warp execute an aligned one; "exit": a barrier of
    all threads that only threads hold up that end is released.
    """
    if batch.mask.has_whole_warps:
        return
    crossing, here = batch.meeting, batch.mask.full
    missing: Bools = batch.wave.run.exists[:, batch.warps] & here.any(-1, keepdims=True) & ~here
    if isinstance(crossing, Crossing) and crossing.alive is not None:
        left = missing & crossing.alive[batch.ctas, batch.warps]
        if left.any():
            raise _left_out(batch, left)
    if missing.any():
        _warn(batch, missing)


def _left_out(batch: Batch, missing: Bools) -> SimulationError:
    cta, warp = map(int, np.argwhere(missing.any(-1))[0])
    lanes = lanes_text(missing[cta, warp])
    return SimulationError(
        f"divergence: {batch.place.name} without {lanes}",
        given=f"{where_text(batch, cta, warp, batch.mask.full[cta, warp])}; {lanes} went another way, and ended",
        allowed="a barrier that all threads of the CTA come to",
        hint="move it out of the condition that splits the warp",
        at=batch.place.at,
    )


def _warn(batch: Batch, missing: Bools) -> None:
    cta, warp = map(int, np.argwhere(missing.any(-1))[0])
    text = (
        f"{batch.place.at}: {batch.place.name}: {lanes_text(missing[cta, warp])} of a warp had ended before its other "
        "lanes came here; GPUs let those go on, though all lanes of a warp are to execute the barrier or none"
    )
    warnings = batch.wave.run.warnings
    if text not in warnings:
        warnings.append(text)
