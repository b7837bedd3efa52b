"""Accesses of threads while an operation may be incomplete, to registers, shared memory and global buffers; and
operations at places where others are.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tilewright.sim.machine import WINDOW_BITS, Team
from tilewright.sim.order.asynchronous.operations import Operations
from tilewright.sim.order.asynchronous.scoreboard import OperationPart, Parts, Scoreboard, keeps_order
from tilewright.sim.order.knowledge.known import HEARD, SEEN
from tilewright.sim.order.reports.rules import (
    early_access,
    early_operation,
    early_tmem_operation,
    early_use,
    early_write,
    freed_early,
    unfenced_tmem,
    used_unwaited,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.errors import Span
    from tilewright.sim.machine import AccessEvent, Bools, Ints, Operation, Taken, UnitView
    from tilewright.sim.order.knowledge.known import Flags


def check_in_flight(operations: Operations, event: AccessEvent) -> None:
    """Registers are used: may an operation still be filling them, or reading what is written now?"""
    site, team, name, (low, high) = event.site, event.team, event.site.known.name, event.span
    issuing = operations.wave.pending.issuing
    for loading in operations.scoreboard.loading:
        issue = loading.operation.form.issue
        alone = issue is not None and issue.fenced and issuing is None
        held = [
            fills
            for first, end, fills in loading.operation.register_spans.get(name, ())
            if (site.write or fills or alone) and low < end and first < high
        ]
        if not held:
            continue
        waiting = loading.warps[team.ctas, team.warps] & team.full.any(-1)
        if not waiting.any() or (issuing is not None and keeps_order(loading.operation, issuing)):
            continue
        rows, warps = team.look.places(waiting)
        row, warp = int(rows[0]), int(warps[0])
        earlier = loading.part(warp, int(operations.parts.ranks[row]))
        if issue is not None and issue.stalls and not site.write and issuing is None:
            operations.warn(earlier, site.at, "used", partial(used_unwaited, name, earlier))
            operations.wave.pending.complete(loading.operation)
            loading.use = loading.use if loading.used.any() else (name, site.at)
            loading.used[team.ctas, team.warps] |= waiting
            continue
        did = "filled" if any(held) else "read"
        operations.tell(early_use(operations, name, earlier, (row, warp), site.at, did), earlier, did)


def check_stored(operations: Operations | None, team: Team, at: Span | None) -> None:
    """Threads store: has a warp of theirs used a register before the wait for the load that fills it, and not waited
    since?
    """
    if operations is None:
        return
    for loading in operations.scoreboard.loading:
        hasty = loading.used[team.ctas, team.warps] & loading.warps[team.ctas, team.warps] & team.full.any(-1)
        if hasty.any():
            rows, numbers = team.look.places(hasty)
            row, warp = int(rows[0]), int(numbers[0])
            name, use = loading.use
            earlier = loading.part(warp, int(operations.parts.ranks[row]))
            early = early_use(operations, name, earlier, (row, warp), use, "filled", stored=at)
            operations.tell(early, earlier, "filled")
            loading.used[team.ctas, team.warps] &= ~hasty


def check_shared(operations: Operations | None, event: AccessEvent) -> None:
    """Threads touch shared memory: may an operation still be writing it, or reading what is written now?"""
    if operations is None or not (scoreboard := operations.scoreboard).spans:
        return
    site, (low, high) = event.site, event.span
    if not (site.is_remote or any(first < high and low < end for first, end in scoreboard.spans.values())):
        return
    (rows, warps, lanes), (there, address) = event.team.threads, event.places
    knowers = operations.clocks.knower[32 * warps + lanes]
    for table, did in [
        (scoreboard.filling, "writing"),
        *((each, "reading") for each in scoreboard.holders.values() if site.write),
    ]:
        for byte in range(0, max(site.width, 1) + scoreboard.unit - 1, scoreboard.unit):
            unit = np.minimum((address + min(byte, site.width - 1)) // scoreboard.unit, table.shape[1] - 1)
            number = table[scoreboard.at(there), unit]
            complete = operations.clocks.parts[rows, knowers, number] & SEEN != 0
            if not complete.all():
                k = int(np.argmin(complete))
                earlier = operations.parts[int(number[k])]
                place = int(rows[k]), int(knowers[k])
                operations.tell(early_access(operations, site, earlier, place, int(warps[k]), did), earlier, did)


def check_global(operations: Operations, event: AccessEvent) -> None:
    """Threads touch a global buffer: may an operation still be writing it, or reading what is written now?"""
    base, site = event.site.known.window << WINDOW_BITS, event.site
    low, high = (base + byte for byte in event.span)
    for operation, own in operations.scoreboard.in_global:
        for one in operation.touched:
            if one.space in ("shared", "tmem") or not (site.write or one.writes):
                continue
            first, last = one.reach
            if last <= low or first >= high:
                continue
            _check_each(operations, event, base, (operation, own, one))


def _check_each(
    operations: Operations, event: AccessEvent, base: int, flight: tuple[Operation, Ints, UnitView]
) -> None:
    site, (operation, own, one) = event.site, flight
    numbers = np.broadcast_to(one.along(own[one.issuer]), one.at.shape)[one.touches]
    order = np.argsort(one.at[one.touches], kind="stable")
    places, numbers = one.at[one.touches][order], numbers[order]
    (rows, warps, lanes), own_address = event.team.threads, base + event.places[1]
    knowers = operations.clocks.knower[32 * warps + lanes]
    first = np.searchsorted(places, own_address - one.width, "right")
    last = np.searchsorted(places, own_address + site.width, "left")
    for k in np.flatnonzero(first < last).tolist():
        for number in set(numbers[first[k] : last[k]].tolist()) & set(operations.parts):
            earlier = operations.parts[number]
            if earlier.operation is operation and not operations.clocks.parts[rows[k], knowers[k], number] & SEEN:
                place = (int(rows[k]), int(knowers[k]))
                did = "writing" if one.writes else "reading"
                operations.tell(early_access(operations, site, earlier, place, int(warps[k]), did), earlier, did)


# Checks of the places that asynchronous operations touch: cells of tensor memory, registers, their sources.


NOBODY = np.zeros((), np.int32)

Cells: TypeAlias = "tuple[Ints, UnitView]"


def check_issue(operations: Operations, operation: Operation) -> None:
    """An operation begins: do its accesses come after those before? They are recorded for later operations."""
    if any(one.writes for one in operation.touched):
        check_stored(operations, operation.team, operation.instruction.at)
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


def _touch_bytes(operations: Operations, operation: Operation, own: Ints, every: UnitView) -> None:
    """Has every operation that writes these bytes, or that reads what is written now, been seen complete before?"""
    scoreboard = operations.scoreboard
    one, flags = scoreboard.view(every), scoreboard.flags_of_issuers(operation)
    mine = one.along(own[one.issuer * operation.issuers.warps_each])
    for where in scoreboard.units_of(one):
        early = _early(operation, own, scoreboard, one, where, flags)
        if early is not None and scoreboard.part():  # find the CTA that does not know
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
    now: Operation, own: Ints, scoreboard: Scoreboard, one: UnitView, where: tuple[Ints, Ints], flags: Flags
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


def _touch(operations: Operations, operation: Operation, own: Ints, one: UnitView) -> None:
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
