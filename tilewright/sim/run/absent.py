"""Which warps are whole where lanes meet, and what of lanes and warps that have ended without coming."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import SimulationError
from tilewright.explain import Way, either, insert, move
from tilewright.sim.machine.batch import first_warp, lanes_text
from tilewright.terms import barrier, operation, told

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.machine.arrays import Bools, Ints
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.sync import BarrierSite

__all__ = ["is_whole", "look_for_lanes", "look_for_warps", "whole_warps"]

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
    """Raises SimulationError where lanes skipped a barrier to which others of their warp come, and have ended.

    Source: CUDA C++ Programming Guide, "Synchronization Functions"; PTX ISA, "bar, barrier", "exit": from sm_70 on a
    barrier of all threads waits for those that have not ended; it may be conditional where all of them go one way.
    """
    if batch.mask.has_whole_warps:
        return
    here = batch.mask.full
    gone = np.zeros((batch.wave.ctas, batch.wave.run.warps, 32), np.bool_)
    missing = batch.wave.run.exists[:, batch.warps] & here.any(-1, keepdims=True) & ~here
    gone[batch.ctas, batch.warps] = missing
    _look_for(batch, gone, 1)


def look_for_warps(batch: Batch, ended: Bools, rows: Ints) -> None:
    """The same for warps, (CTAs, warps), without which meetings of these rows are complete."""
    assert batch.place.sync is not None
    ctas = batch.wave.run.cluster_ctas if batch.place.sync.scope == "cluster" else 1
    theirs = np.isin(np.arange(batch.wave.ctas) // ctas * ctas, rows)
    _look_for(batch, (theirs[:, None] & ended)[..., None] & batch.wave.run.exists, ctas)


def _look_for(batch: Batch, gone: Bools, ctas: int) -> None:
    place, skipping = batch.place, batch.wave.skipping
    if place.number is None:
        return
    for branch, at in place.branches.items():
        if (skipped := skipping.past_a_branch(batch, gone, branch, ctas)).any():
            why = f"skipped it, went on at {skipping.seen_at[branch]}, and ended"
            raise _without(batch, place, skipped, why, at)
    if (skipped := skipping.as_often(batch, gone, ctas)).any():
        other = skipping.left_out(batch, skipped)
        raise _without(batch, other, skipped, f"skipped it, came to the barrier at {place.at} instead, and ended", None)


def _ways(place: BarrierSite) -> list[Way]:
    """The barrier once more, where the others may lack it; or this one elsewhere."""
    once_more = [(insert(told("{}", barrier("cta")), 0),)] if place.name == "cuda.cta_sync" else []
    return [*once_more, *([(move(place.at.line),)] if place.at else [])]


def _without(batch: Batch, place: BarrierSite, skipped: Bools, why: str, parting: Span | None) -> SimulationError:
    cta, warp = first_warp(skipped)
    lanes = lanes_text(skipped[cta, warp])
    who = f"warp {warp}" if skipped[cta, warp].sum() == batch.wave.run.exists[0, warp].sum() else lanes
    where = f"the condition of line {parting.line}" if parting else "the condition that splits the CTA"
    return SimulationError(
        told("divergence: {} without {}", operation(place.name), who),
        given=f"{batch.wave.warp_name(cta, warp)}: {lanes} {why}",
        allowed="a barrier that all threads of the CTA come to, but for those that have returned",
        hint=either(f"move it out of {where}", *_ways(place)),
        at=place.at,
        kind="divergence",
        threads=(batch.wave.warp_at(cta, warp),),
    )
