"""Errors of asynchronous operations that may still be under way where others touch what they use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import SimulationError
from tilewright.sim.machine.awaiting import completion_text, wait_call
from tilewright.sim.machine.tmem import INITIALISED, cells_text
from tilewright.sim.order.asynchronous.issue_order import may_queue
from tilewright.sim.order.reports.missing import missing_step
from tilewright.sim.order.reports.words import not_yet_written, shared_text
from tilewright.terms import Told, operation, told

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.errors import Span
    from tilewright.sim.machine.arrays import Ints
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.machine.sites import Site
    from tilewright.sim.machine.units import Touched
    from tilewright.sim.order.asynchronous.operations import Operations
    from tilewright.sim.order.asynchronous.parts import OperationPart

__all__ = [
    "early_access",
    "early_operation",
    "early_tmem_operation",
    "early_use",
    "early_write",
    "freed_early",
    "unfenced_tmem",
    "used_unwaited",
]

STATE = {"filled": "loaded", "read": "read"}
PAST = {"reading": "read", "writing": "written"}
KIND = {"reading": "copy", "writing": "write"}
COMPLETE = "an operation after that one is known to be complete"


def early_operation(
    operations: Operations, now: Operation, one: Touched, place: NDArray[np.int64], earlier: OperationPart, did: str
) -> SimulationError:
    """An operation touches bytes of shared memory, ``place`` in ``one``, that an earlier one may not have read, or
    written.
    """
    k, at = int(one.issuer[place[0]]), now.instruction.at
    row, byte = int(now.issuers.rows[k]), int(one.at[tuple(place)])
    knower = int(operations.parts.knowers(now)[k * now.issuers.warps_each])
    what = f"{'writes' if one.writes else 'reads'} {shared_text(operations.wave, byte)}"
    return SimulationError(
        f"{now.name} {what}, which {earlier.operation.name} may still not have {did}",
        given=f"{at}: {now.who(k)}\n{did} at {earlier.at}: {earlier.who(row)}",
        allowed=COMPLETE,
        hint=missing_step(operations, earlier, (row, knower), at, fences=False, reads=did == "read"),
        at=at,
        kind="races",
        threads=(now.issuers.thread_at(k),),
        buffer=operations.wave.run.places.shared_at(byte).name,
        place=shared_text(operations.wave, byte),
    )


def early_write(
    operations: Operations, now: Operation, one: Touched, found: tuple[int, Operation, int, int, str]
) -> SimulationError:
    """An operation touches bytes of a buffer that another one may not have read, or written: see `GlobalWrites`."""
    k, earlier, whose, window, did = found
    at, hint = now.instruction.at, "bytes of its own for each of the two operations"
    row, thread = int(earlier.issuers.rows[whose]), int(earlier.issuers.threads[whose])
    if earlier is not now and row == now.issuers.rows[k]:
        part = next(each for each in operations.parts.values() if (each.operation, each.thread) == (earlier, thread))
        knower = int(operations.parts.knowers(now)[k * now.issuers.warps_each])
        hint = missing_step(operations, part, (row, knower), at, fences=False, reads=did == "read")
    return SimulationError(
        f"{now.name} {'writes' if one.writes else 'reads'} {operations.wave.run.places.at(window, 0).name}, which "
        f"{earlier.name} may still not have {did}",
        given=f"{at}: {now.who(k)}\n{did} at {earlier.instruction.at}: {earlier.who(whose)}",
        allowed=COMPLETE,
        hint=hint,
        at=at,
        kind="races",
        threads=(now.issuers.thread_at(k),),
        buffer=operations.wave.run.places.at(window, 0).name,
    )


def early_tmem_operation(
    operations: Operations, earlier: OperationPart, now: Operation, actor: int, cells: tuple[Ints, Ints], did: str
) -> SimulationError:
    """An actor of an operation touches cells, given by lane and column, that an earlier one may not have read,
    or written.
    """
    row, knower, at = int(now.issuers.rows[actor]), int(operations.parts.knowers(now)[actor]), now.instruction.at
    run, (lane, column) = operations.wave.run, cells
    sought = did == "read" and run.unwritten == "sought"
    if sought and (operations.wave.shadows.tmem.words[row, column, lane] != INITIALISED).any():
        reader, writer = (earlier.operation.name, earlier.at, earlier.who(row)), (now.name, at, now.who(actor))
        step = told("a barrier after {}", completion_text(now, actor, row))
        return not_yet_written(run, reader, writer, f"tensor memory ({cells_text(*cells)})", step)
    return SimulationError(
        f"{now.name} touches tensor memory that {earlier.operation.name} may still not have {did}",
        given=f"{cells_text(*cells)}\n{at}: {now.who(actor)}\n{did} at {earlier.at}: {earlier.who(row)}",
        allowed=COMPLETE,
        hint=missing_step(operations, earlier, (row, knower), at, queues=_may_queue(operations, earlier, now, actor)),
        at=at,
        kind="races",
    )


def _may_queue(operations: Operations, earlier: OperationPart, now: Operation, actor: int) -> bool:
    """Would the order of issue be enough, if the actor knew of it?"""
    alone = earlier.is_alone and now.issuers.lanes == 1
    return alone and bool(may_queue(earlier, now, operations.parts.ranks)[actor])


def freed_early(
    operations: Operations, earlier: OperationPart, place: tuple[int, int], at: Span | None, did: str
) -> SimulationError:
    """A warp, ``place`` is its row and number, gives back columns that an operation may not have read, or written."""
    return SimulationError(
        f"tensor memory is given back that {earlier.operation.name} may still not have {did}",
        given=f"{at}: {operations.wave.warp_name(*place)}\n{did} at {earlier.at}: {earlier.who(place[0])}",
        allowed="dealloc after everyone has waited for their operations, and met",
        hint=missing_step(operations, earlier, place, at, fences=False),
        at=at,
        kind="races",
        threads=(operations.wave.warp_at(*place),),
    )


def used_unwaited(name: str, earlier: OperationPart) -> Told:
    """A warp reads registers before the wait for the load that fills them."""
    wait = wait_call(earlier.operation.group)
    where = f"between the {earlier.operation.name} at {earlier.at} and here"
    return told("{} is used before {}, which belongs {}", name, wait, where)


def unfenced_tmem(operations: Operations, earlier: OperationPart, now: Operation, actor: int, did: str) -> Told:
    """An operation touches tensor memory after an earlier one, known to be complete, without fences between them."""
    place, at = (int(now.issuers.rows[actor]), int(operations.parts.knowers(now)[actor])), now.instruction.at
    what = f"{now.name} touches tensor memory that the {earlier.operation.name} at {earlier.at} has {did}, without a"
    step = missing_step(operations, earlier, place, at, known=True)
    return Told(told("{} fence between their threads: {}", what, step).parts, step.remedy)


def early_use(
    operations: Operations,
    name: str,
    earlier: OperationPart,
    warp: tuple[int, int],
    at: Span | None,
    did: str,
    *,
    stored: Span | None = None,
) -> SimulationError:
    """A warp, given by its row and number, uses registers that an operation may not have filled, or read. stored: where
    it then stores, without a wait in between.
    """
    then = f"\nstored at {stored}" if stored else ""
    return SimulationError(
        f"{name} is used while {earlier.operation.name} may not have {did} it",
        given=f"{at}: {operations.wave.warp_name(*warp)}\n{STATE[did]} at {earlier.at}{then}",
        allowed="registers after the warp has waited for its loads",
        hint=missing_step(operations, earlier, warp, at),
        at=at,
        kind="races",
        threads=(operations.wave.warp_at(*warp),),
        buffer=name,
    )


def early_access(
    operations: Operations, site: Site, earlier: OperationPart, place: tuple[int, int], warp: int, doing: str
) -> SimulationError:
    """A thread, of the warp and the knower at ``place`` (row and number), touches memory that an operation may still be
    reading, or writing.
    """
    verb = "overwrites" if site.write else "reads"
    memory = f"{site.place.space} memory" if site.place is not None else "shared memory"
    thread = operations.wave.warp_name(place[0], warp)
    return SimulationError(
        told("{} {} {} that {} may still be {}", operation(site.op), verb, memory, earlier.operation.name, doing),
        given=f"{site.at}: {thread}\n{PAST[doing]} at {earlier.at}: {earlier.who(place[0])}",
        allowed=f"{'a store' if site.write else 'a load'} after that {KIND[doing]} is known to be complete",
        hint=missing_step(operations, earlier, place, site.at, fences=False, reads=doing == "reading"),
        at=site.at,
        kind="races",
        buffer=site.line.buffer or None,
        threads=(operations.wave.warp_at(place[0], warp),),
    )
