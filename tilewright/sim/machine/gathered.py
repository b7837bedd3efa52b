"""Instructions that lanes of a warp execute together: have all of these lanes come?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import SimulationError
from tilewright.isa import ALL_LANES, BY_MASK, WARPGROUP, WHOLE_WARP
from tilewright.sim.machine.batch import first_warp, lanes_text, threads_of, where_text
from tilewright.sim.machine.facets import Facet
from tilewright.terms import operation, told

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.errors import Span
    from tilewright.isa import Bound
    from tilewright.sim.machine.arrays import Array, Bools
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.masks import Mask

__all__ = ["check_lanes", "from_ended", "parted_by_mask"]

LANE = np.arange(32)
READS_ENDED = "lanes that read from one that has ended"
ENDED_HINT = "a lane that is there: a narrower width, or a condition around the work in place of a return before it"


def check_lanes(
    bound: Bound, batch: Batch, mask: Mask, values: tuple[Array, ...], at: Span | None, *, leaves_open: bool = False
) -> None:
    """Raises SimulationError where a warp lacks lanes that a row needs together. values: the operands of `execute`.
    leaves_open: may a lane read from one that has ended? Its bits are unknown then (`from_ended`).
    """
    if bound.instruction.lanes in (WARPGROUP, WHOLE_WARP) and not mask.has_whole_warps:
        raise _divergence(bound, batch, mask, np.ones((1, 1, 32), np.bool_), at)
    names = [row.name for row in bound.read]
    if bound.instruction.lanes == BY_MASK and "mask" in names:
        given = values[names.index("mask")].astype(np.int64) & ALL_LANES
        if mask.array is None and (given == ALL_LANES).all():
            return
        wanted = _bits(np.bitwise_or.reduce(np.where(mask.full, given, 0), axis=-1, keepdims=True))
        if (mask.full.any(-1, keepdims=True) & wanted & ~mask.full & batch.alive).any():
            raise _divergence(bound, batch, mask, wanted, at)
        gone = mask.full.any(-1, keepdims=True) & wanted & ~mask.full & batch.wave.run.exists[:, batch.warps]
        if gone.any():
            _warn_of_ended(bound, batch, gone, at)
        troubles = _troubles(bound, mask, np.broadcast_to(given, mask.shape), values)
        if bound.form.meaning.source_lane is not None and not leaves_open:
            troubles.append((_silent(bound, mask, values), READS_ENDED, ENDED_HINT))
        for wrong, what, hint in troubles:
            if wrong.any():
                facet = Facet(batch, mask, at, batch.wave.run.plain)
                facet.fault(told("{}: {}", operation(bound.instruction.name), what), wrong, hint=hint)


def _warn_of_ended(bound: Bound, batch: Batch, gone: Bools, at: Span | None) -> None:
    """Sources: PTX ISA, "shfl.sync", "vote.sync", "match.sync", "redux.sync": they wait for all threads of the mask
    that have not exited, and only those have a part in the result; what comes from an exited one is unpredictable.
    """
    undefined = ", and what a lane would read from one of them is undefined" if bound.form.meaning.source_lane else ""
    ended = f"its mask names {lanes_text(gone[first_warp(gone)])}, which had ended"
    rest = f"{ended}; the others go on without them{undefined}"
    text = told("{}: {}: {}", at, operation(bound.instruction.name), rest)
    batch.wave.run.warn(text, "ended", bound.instruction.name)
    place = {"file": at.file, "line": at.line} if at else {}
    batch.wave.run.about[text] = {**place, "idiom": "ended-lanes"}


def parted_by_mask(bound: Bound, mask: Mask, values: tuple[Array, ...]) -> list[Mask]:
    """The lanes that execute a row together: where masks name several groups of a warp, each group by itself."""
    names = [row.name for row in bound.read]
    if bound.form.meaning.on != "machine" or bound.instruction.lanes != BY_MASK or "mask" not in names:
        return [mask]
    return mask.parted(values[names.index("mask")])


def _bits(given: NDArray[np.int64]) -> Bools:
    return np.asarray(given >> LANE & 1 != 0)


def _troubles(
    bound: Bound, mask: Mask, given: NDArray[np.int64], values: tuple[Array, ...]
) -> list[tuple[Bools, str, str]]:
    """Violations of: the lanes that a mask names execute the row, give the same mask, and read from each other; with
    what to do.
    """
    named = (given[..., None] >> LANE & 1 != 0) & mask.full[..., None]  # for each lane, the lanes that its mask names
    differs = (given[..., None, :] != given[..., None]) & mask.full[..., None, :]  # lanes that have ended give none
    found = [
        (mask.full & ~_bits(given), "lanes that execute it, and that its mask does not name", "a mask that names them"),
        ((named & differs).any(-1), "masks that differ between the lanes that they name", "one mask for all of them"),
    ]
    if bound.form.meaning.source_lane is not None:
        source = np.broadcast_to(bound.form.meaning.source_lane(*values), mask.shape)
        outside = mask.full & (given >> source & 1 == 0)
        found.append((outside, "lanes that read from one outside the mask", "a mask that names those, too"))
    return found


def _silent(bound: Bound, mask: Mask, values: tuple[Array, ...]) -> Bools:
    """The lanes that read from one that does not execute the row."""
    assert bound.form.meaning.source_lane is not None
    source = np.broadcast_to(bound.form.meaning.source_lane(*values), mask.shape)
    found: Bools = mask.full & ~np.take_along_axis(mask.full, source.astype(np.int64), -1)
    return found


def from_ended(
    bound: Bound, batch: Batch, mask: Mask, values: tuple[Array, ...], at: Span | None, place: object
) -> Bools | None:
    """The lanes of compiled code that read from one that has ended, whose bits are unknown; kept for a report, which
    follows where something visible depends on them. None where there are none. place: the instruction in the program.

    Source: PTX ISA, "shfl.sync": the value is unpredictable where the source lane is inactive or has exited.
    """
    if mask.array is None or bound.form.meaning.source_lane is None:
        return None
    lanes = _silent(bound, mask, values)
    if not lanes.any():
        return None
    undefined = batch.wave.shadows.undefined
    if place not in undefined:
        what, given = f"{bound.instruction.name}: {READS_ENDED}", where_text(batch, lanes)
        error = SimulationError(what, given=given, hint=ENDED_HINT, at=at)
        undefined[place] = np.zeros((batch.wave.ctas, batch.wave.run.warps, 32), bool), error
    undefined[place][0][batch.ctas, batch.warps] |= lanes
    return lanes


def _divergence(bound: Bound, batch: Batch, mask: Mask, wanted: Bools, at: Span | None) -> SimulationError:
    active = mask.full
    wanted = np.broadcast_to(wanted, mask.shape)
    missing = active.any(-1, keepdims=True) & wanted & ~active
    missing = missing & batch.alive if (missing & batch.alive).any() else missing
    warp = first_warp(missing)
    return SimulationError(
        told("divergence: {} without {}", operation(bound.instruction.name), lanes_text(missing[warp])),
        given=where_text(batch, missing, active),
        allowed=f"{lanes_text(wanted[warp])} of the warp, together",
        hint="move it out of the condition that splits the warp",
        at=at,
        kind="divergence",
        threads=threads_of(batch, active),
    )
