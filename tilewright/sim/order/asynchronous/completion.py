"""Checks of the places that asynchronous operations touch: cells of tensor memory, registers, their sources."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tilewright.sim.order.asynchronous.in_flight import check_stored
from tilewright.sim.order.asynchronous.operations import Operations
from tilewright.sim.order.asynchronous.parts import OperationPart, Parts
from tilewright.sim.order.asynchronous.scoreboard import Scoreboard
from tilewright.sim.order.knowledge.known import HEARD, SEEN
from tilewright.sim.order.reports.operations import (
    early_operation,
    early_tmem_operation,
    early_write,
    freed_early,
    unfenced_tmem,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.errors import Span
    from tilewright.sim.machine.arrays import Bools, Ints
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.machine.tmem import Taken
    from tilewright.sim.machine.units import Touched
    from tilewright.sim.order.knowledge.known import Flags

__all__ = ["check_freed", "check_issue"]

NOBODY = np.zeros((), np.int32)

Cells: TypeAlias = "tuple[Ints, Touched]"


def check_issue(operations: Operations, operation: Operation) -> None:
    """An operation begins: do its accesses come after those before? They are recorded for later operations."""
    if any(one.writes for one in operation.touched):
        check_stored(operations, operation.mask, operation.batch, operation.instruction.at)
    parts, own = operations.new_parts(operation)
    if operation.issuers.lanes > 1:
        _, rows, threads = operation.issuers.actors
        operations.clocks.reunite(rows, threads // 32)
    for one in (*operation.reads, *operation.writes):
        if one.space == "tmem":
            _touch(operations, operation, own, one)
        elif one.space == "shared":
            _touch_bytes(operations, operation, own, one)
        elif found := operations.global_writes.begin(operations, operation, one):
            operations.tell(early_write(operations, operation, one, found), found[1], found[4])
    operations.scoreboard.begun(operation, parts, own)
    operations.remote.add(operation, own)
    if operation.signals:
        operations.will_signal(operation, own)


def _touch_bytes(operations: Operations, operation: Operation, own: Ints, every: Touched) -> None:
    """Has every operation that writes these bytes, or that reads what is written now, been seen complete before?"""
    scoreboard = operations.scoreboard
    one, flags = scoreboard.view(every), scoreboard.flags_of_issuers(operation)
    mine = one.along(own[one.issuer * operation.issuers.warps_each])
    for where in scoreboard.units_of(one):
        early = _early(operation, own, scoreboard, one, where, flags)
        if early is not None and scoreboard.is_collapsed:  # find the CTA that does not know
            scoreboard.expand()
            _touch_bytes(operations, operation, own, every)
            return
        if early is not None:
            operations.tell(early_operation(operations, operation, one, *early), *early[1:])
        if not one.writes:
            scoreboard.hold(operation, own, one, where)
            continue
        scoreboard.filling[where] = np.where(one.touches, mine, scoreboard.filling[where])
        lost = one.touches & (scoreboard.filling[where] != mine)
        if lost.any() and not one.combines:
            earlier = operations.parts[int(scoreboard.filling[where][lost][0])]
            error = early_operation(operations, operation, one, np.argwhere(lost)[0], earlier, "written")
            operations.tell(error, earlier, "written")


def _early(
    now: Operation, own: Ints, scoreboard: Scoreboard, one: Touched, where: tuple[Ints, Ints], flags: Flags
) -> tuple[NDArray[np.int64], OperationPart, str] | None:
    """A place of units of shared memory, ``where``, that an earlier operation may still use: the place in ``one``, the
    part of the operation, and what that did there. own: the parts of the one that begins now. flags: what its issuers
    know.
    """
    actor = one.issuer * now.issuers.warps_each
    readers, issuer, mine = scoreboard.holders.values() if one.writes else (), one.along(one.issuer), own[actor]
    for table, did in ((scoreboard.filling, "written"), *((table, "read") for table in readers)):
        before = np.where(one.touches, table[where], 0)
        seen = flags[issuer, before] & SEEN != 0
        seen |= (before == one.along(mine)) & (not one.writes or (one.combines and did == "read"))
        if one.combines:  # atomic, whichever is first
            seen |= np.isin(before, _combining(scoreboard.parts, before))
        for number in np.unique(before[~seen]).tolist():
            queued = scoreboard.parts.are_queued(number, now, own, unless=np.zeros(len(own), np.bool_))
            seen |= before == one.along(np.where(queued, number, -1)[actor])
        if not seen.all():
            return np.argwhere(~seen)[0], scoreboard.parts[int(before[~seen][0])], did
    return None


def _combining(parts: Parts, numbers: NDArray[np.int32]) -> list[int]:
    """The parts among these that combine the old bytes with values of their own, as a reduction does."""
    found = {number: parts.get(number) for number in np.unique(numbers).tolist()}
    return [k for k, part in found.items() if part and any(one.combines for one in part.operation.touched)]


def _touch(operations: Operations, operation: Operation, own: Ints, one: Touched) -> None:
    """Has every operation that touched these cells before been put in order before this one?"""
    scoreboard = operations.scoreboard
    issuer, cells = one.counted_cells
    actor, writes = issuer * operation.issuers.warps_each, one.writes
    for table, did in scoreboard.touched if writes else scoreboard.touched[:1]:
        _check_order(operations, operation, own, (actor, one), _by_row(cells.load(table)), did)
    mine = own[actor].reshape(-1, *[1] * (cells.ndim - 1))
    if not writes:
        for group in np.unique(warpgroup := operation.issuers.threads[issuer] // 128):
            of_group = warpgroup == group
            cells.some(of_group).store(scoreboard.readers[group], mine[of_group])
        return
    for readers in scoreboard.readers:
        cells.store(readers, NOBODY)
    if cells.are_apart:
        cells.store(scoreboard.writers, mine)
        return
    last_to_first = np.arange(len(issuer))[::-1]  # of several that write a cell at once, the first stays
    cells.some(last_to_first).store(scoreboard.writers, mine[last_to_first])
    if len(own) > 1:
        _check_order(operations, operation, own, (actor, one), _by_row(cells.load(scoreboard.writers)), "written")


def _by_row(cells: NDArray[np.int32]) -> NDArray[np.int32]:
    return cells.reshape(len(cells), prod(cells.shape[1:]))


def _check_order(
    operations: Operations, now: Operation, own: Ints, cells: Cells, before: NDArray[np.int32], did: str
) -> None:
    """cells: the actors, and what they touch; before: the numbers of the parts that have touched that."""
    actor, one = cells
    some = before[:, :1] if (before == before[:, :1]).all() else before
    for number in np.unique(some).tolist():
        in_order = operations.parts.are_ordered(number, now, own)
        if not in_order.all():
            here = (before == number).any(1) & ~in_order[actor]
            in_order |= _complete_unfenced(operations, now, actor[here], number, did)
        if not in_order.all() and (wrong := ~in_order[actor][:, None] & (before == number)).any():
            k = int(np.argmax(wrong.any(1)))
            _, _, lane, column = one.cells
            place = lane[k][wrong[k]], column[k][wrong[k]]
            earlier = operations.parts[number]
            operations.tell(early_tmem_operation(operations, earlier, now, int(actor[k]), place, did), earlier, did)


def _complete_unfenced(operations: Operations, now: Operation, actor: Ints, number: int, did: str) -> Bools:
    """For each actor of an operation: does it know that a part is complete? Of those that touch the same cells, which
    are given, this is a warning, as they lack the fences of tensor memory.
    """
    complete = operations.parts.are_complete(number, now)
    if (unfenced := complete[actor]).any():
        earlier, k = operations.parts[number], int(actor[np.argmax(unfenced)])
        operations.warn(earlier, now.instruction.at, did, partial(unfenced_tmem, operations, earlier, now, k, did))
    return complete


def check_freed(operations: Operations, place: tuple[int, int], taken: Taken, at: Span | None) -> None:
    """Columns are given back by a warp, ``place`` is its row and number: is every operation on them complete?"""
    row, warp = place
    operations.clocks.reunite(np.array([row]), np.array([warp]))
    columns = slice(taken.first, taken.first + taken.columns)
    for table, did in operations.scoreboard.touched:
        before = table[row, columns]
        complete = operations.clocks.parts[row, warp][before] & (SEEN | HEARD) != 0
        if not complete.all():
            earlier = operations.parts[int(before[~complete].min())]
            operations.tell(freed_early(operations, earlier, place, at, did), earlier, did)
        before[...] = 0
