"""Checks of the places that asynchronous operations touch: cells of tensor memory, registers, their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tilewright.sim.machine.tmem import cell_number
from tilewright.sim.order.asynchronous.operations import Loading, Operations
from tilewright.sim.order.bounds import GLOBAL_OPERATIONS
from tilewright.sim.order.knowledge.known import HEARD, SEEN
from tilewright.sim.order.reports.operations import early_operation, early_tmem_operation, freed_early

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.errors import Span
    from tilewright.sim.machine.arrays import Ints
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.machine.tmem import Taken
    from tilewright.sim.machine.units import Touched

__all__ = ["check_freed", "check_issue"]

Cells: TypeAlias = "tuple[Ints, Ints, Ints]"


def check_issue(known: Operations, operation: Operation) -> None:
    """An operation begins: do its accesses come after those before? They are recorded for later operations."""
    parts, own = known.new_parts(operation)
    for one in (*operation.reads, *operation.writes):
        if one.space == "tmem":
            _touch(known, operation, own, one)
        elif one.space == "shared":
            _touch_bytes(known, operation, own, one)
    spans = [one.reach for one in operation.touched if one.space == "shared" and one.count]
    if spans:
        known.spans[operation.number] = min(first for first, _ in spans), max(last for _, last in spans)
    if any(one.space in ("global", "generic") for one in operation.touched):
        known.in_global = [*known.in_global[-GLOBAL_OPERATIONS:], (operation, own)]
    if operation.instruction.sinks or operation.instruction.sources:
        rows, threads = operation.issuers.each()
        warps = np.zeros((known.wave.ctas, known.wave.run.warps), np.bool_)
        warps[rows, threads // 32] = True
        known.loading.append(Loading(operation, parts, warps))
        known.wave.pending.loading = True
    known.remote.add(operation, own)
    if operation.signals:
        known.will_signal(operation, own)


def _touch_bytes(known: Operations, operation: Operation, own: Ints, every: Touched) -> None:
    """Has every operation that writes these bytes, or that reads what is written now, been seen complete before?"""
    each, one = operation.issuers.warps_each, known.view(every)
    mine, issuer = one.along(own[one.issuer * each]), one.along(one.issuer)
    flags = known.flags_of_issuers(operation)
    tables = [(known.filling, "written"), *((table, "read") for table in known.holders.values() if one.writes)]
    for where in known.units_of(one):
        for table, did in tables:
            before = np.where(one.touches, table[where], 0)
            seen = flags[issuer, before] & SEEN != 0
            seen |= (before == mine) & (not one.writes or (one.combines and did == "read"))
            if one.combines:  # atomic, whichever is first
                seen |= np.isin(before, _combining(known, before))
            if not seen.all():
                if known.is_collapsed:  # find the CTA that does not know
                    known.expand()
                    _touch_bytes(known, operation, own, every)
                    return
                raise early_operation(
                    known, operation, one, np.argwhere(~seen)[0], known.parts[int(before[~seen][0])], did
                )
        if one.writes:
            known.filling[where] = np.where(one.touches, mine, known.filling[where])
            lost = one.touches & (known.filling[where] != mine)
            if lost.any() and not one.combines:
                earlier = known.parts[int(known.filling[where][lost][0])]
                raise early_operation(known, operation, one, np.argwhere(lost)[0], earlier, "written")
            continue
        for k in range(each):
            warps = operation.issuers.threads[one.issuer] // 32 + k
            for warp in np.unique(warps).tolist():
                of_warp = warps == warp
                there = one.touches[of_warp]
                rows_of, units = (part[of_warp][there] for part in where)
                numbers = one.along(own[one.issuer[of_warp] * each + k])
                known.holders_of(warp)[rows_of, units] = np.broadcast_to(numbers, there.shape)[there]


def _combining(known: Operations, numbers: NDArray[np.int32]) -> list[int]:
    """The parts among these that combine the old bytes with values of their own, as a reduction does."""
    parts = {number: known.parts.get(number) for number in np.unique(numbers).tolist()}
    return [k for k, part in parts.items() if part and any(one.combines for one in part.operation.touched)]


def _touch(known: Operations, operation: Operation, own: Ints, one: Touched) -> None:
    """Has every operation that touched these cells before been put in order before this one?"""
    assert one.column is not None
    row, lane, column = (axis.reshape(len(axis), -1) for axis in (one.rows, one.at, one.column))
    cell = cell_number(row, lane, column)
    actor, writes = one.issuer * operation.issuers.warps_each, one.writes
    for table, did in known.touched if writes else known.touched[:1]:
        before = table.reshape(-1).take(cell)
        _check_order(known, operation, own, (actor, lane, column), before, did)
    if not writes:
        for group in np.unique(warpgroup := operation.issuers.threads[one.issuer] // 128):
            of_group = warpgroup == group
            known.readers[group].reshape(-1)[cell[of_group]] = own[actor][of_group][:, None]
        return
    last_to_first = np.arange(len(row))[::-1]  # of several that write a cell at once, the first stays
    known.writers.reshape(-1)[cell[last_to_first]] = own[actor][last_to_first][:, None]
    for readers in known.readers:
        readers.reshape(-1)[cell] = 0
    if len(own) > 1:
        now = known.writers.reshape(-1).take(cell)
        _check_order(known, operation, own, (actor, lane, column), now, "written")


def _check_order(
    known: Operations, now: Operation, own: Ints, cells: Cells, before: NDArray[np.int32], did: str
) -> None:
    """cells: of each actor, and their lanes, columns; before: the numbers of the parts that have touched them."""
    actor, lane, column = cells
    for number in np.flatnonzero(np.bincount(before.reshape(-1))).tolist():
        in_order = known.are_ordered(number, now, own)
        if not in_order.all() and (wrong := ~in_order[actor][:, None] & (before == number)).any():
            k = int(np.argmax(wrong.any(1)))
            place = lane[k][wrong[k]], column[k][wrong[k]]
            raise early_tmem_operation(known, known.parts[number], now, int(actor[k]), place, did)


def check_freed(known: Operations, place: tuple[int, int], taken: Taken, at: Span | None) -> None:
    """Columns are given back by a warp, ``place`` is its row and number: is every operation on them complete?"""
    row, warp = place
    columns = slice(taken.first, taken.first + taken.columns)
    for table, did in known.touched:
        before = table[row, columns]
        complete = known.clocks.parts[row, warp][before] & (SEEN | HEARD) != 0
        if not complete.all():
            earlier = known.parts[int(before[~complete].min())]
            raise freed_early(known, earlier, place, at, did)
        before[...] = 0
