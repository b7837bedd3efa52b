"""What asynchronous operations touch, and who touches it besides: cells of tensor memory, registers, their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tilewright.errors import SimulationError
from tilewright.sim.machine.masks import spread
from tilewright.sim.machine.tmem import cell_number, cells_text
from tilewright.sim.order.clocks import HEARD, SEEN
from tilewright.sim.order.missing import missing_step
from tilewright.sim.order.operations import UNIT, Loading, Operations, Part, Stretch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.errors import Span
    from tilewright.sim.machine.address import Address
    from tilewright.sim.machine.arrays import Ints
    from tilewright.sim.machine.batch import Batch, Look
    from tilewright.sim.machine.masks import Mask
    from tilewright.sim.machine.pending import Operation
    from tilewright.sim.machine.sites import Site
    from tilewright.sim.machine.tmem import Taken

__all__ = ["check_freed", "check_in_flight", "check_issue", "check_sources", "in_runs"]

Cells: TypeAlias = "tuple[Ints, Ints, Ints]"


def check_issue(known: Operations, operation: Operation) -> None:
    """An operation begins: may it touch what it touches? What later ones have to know of it is written down."""
    parts, own = known.new_parts(operation)
    for cells in operation.footprint.read:
        _touch(known, operation, own, cells, writes=False)
    for cells in operation.footprint.written:
        _touch(known, operation, own, cells, writes=True)
    for rows, address, nbytes in operation.footprint.shared:
        _hold(known, operation, own, rows, address, nbytes)
    if operation.instruction.sinks:
        loading = Loading(operation, parts, operation.warps())
        for stretch in loading.stretches():
            check_in_flight(known, stretch, operation.batch, operation.mask, operation.instruction.at)
        known.loading.append(loading)
        known.wave.pending.loading = True


def _touch(known: Operations, operation: Operation, own: Ints, where: Cells, *, writes: bool) -> None:
    """Has every operation that touched these cells before been put in order before this one?"""
    row, lane, column = (axis.reshape(len(axis), -1) for axis in where)
    cell = cell_number(row, lane, column)
    actor = np.arange(len(row)) * len(own) // len(row)  # both CTAs of a pair take part for one thread
    for table, did in known.touched if writes else known.touched[:1]:
        before = table.reshape(-1).take(cell)
        _check_order(known, operation, own, (actor, lane, column), before, did)
    if not writes:
        for group in np.unique(warpgroup := operation.threads[actor] // 128):
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
    """cells: of each actor, and their lanes, columns; before: the numbers of who has touched them."""
    actor, lane, column = cells
    for number in np.flatnonzero(np.bincount(before.reshape(-1))).tolist():
        in_order = known.are_ordered(number, now, own)
        if not in_order.all() and (wrong := ~in_order[actor][:, None] & (before == number)).any():
            k = int(np.argmax(wrong.any(1)))
            text = cells_text(lane[k][wrong[k]], column[k][wrong[k]])
            raise _clash(known, known.parts[number], now, int(actor[k]), text, did)


def _clash(known: Operations, earlier: Part, now: Operation, actor: int, cells: str, did: str) -> SimulationError:
    row, knower, at = int(now.rows[actor]), int(known.knowers(now)[actor]), now.instruction.at
    return SimulationError(
        f"{now.name} touches tensor memory that {earlier.operation.name} may still not have {did}",
        given=f"{cells}\n{at}: {now.who(actor)}\n{did} at {earlier.at}: {earlier.who(row)}",
        allowed="an operation after that one is known to be complete",
        hint=missing_step(known, earlier, (row, knower), at),
        at=at,
    )


def _hold(known: Operations, operation: Operation, own: Ints, rows: Ints, address: Ints, nbytes: int) -> None:
    actor = np.arange(len(rows)) * len(own) // len(rows)
    warps = operation.threads[actor] // 32
    for warp in np.unique(warps).tolist():
        of_warp = warps == warp
        now = own[actor[of_warp]].reshape(-1, *[1] * (rows.ndim - 1))
        for byte in range(0, nbytes, UNIT):
            known.holders_of(warp)[rows[of_warp], address[of_warp] + byte >> 4] = now


def check_freed(known: Operations, place: tuple[int, int], taken: Taken, at: Span | None) -> None:
    """Columns are given back by a warp, ``place`` is its row and number: is every operation on them complete?"""
    row, warp = place
    columns = slice(taken.first, taken.first + taken.columns)
    for table, did in known.touched:
        before = table[row, columns]
        complete = known.clocks.parts[row, warp][before] & (SEEN | HEARD) != 0
        if not complete.all():
            earlier = known.parts[int(before[~complete].min())]
            raise SimulationError(
                f"tensor memory is given back that {earlier.operation.name} may still not have {did}",
                given=f"{at}: CTA {known.wave.cta_name(row)}, warp {warp}\n{did} at {earlier.at}: {earlier.who(row)}",
                allowed="dealloc after everyone has waited for their operations, and met",
                hint=missing_step(known, earlier, (row, warp), at, fences=False),
                at=at,
            )
        before[...] = 0


def check_in_flight(known: Operations, used: Stretch, batch: Look, mask: Mask, at: Span | None) -> None:
    """Registers are used: may an operation still be filling them?"""
    for loading in known.loading:
        waiting = loading.warps[batch.ctas, batch.warps] & mask.full.any(-1)
        current = known.wave.pending.current is loading.operation
        if current or not waiting.any() or not any(map(used.overlaps, loading.stretches())):
            continue
        rows, warps = batch.rows_and_warps(waiting)
        row, warp = int(rows[0]), int(warps[0])
        earlier = next(p for p in loading.parts if p.warp == warp and p.rank == known.ranks[row])
        raise SimulationError(
            f"{used.name} is used while {earlier.operation.name} may not have filled it",
            given=f"{at}: CTA {known.wave.cta_name(row)}, warp {warp}\nloaded at {earlier.at}",
            allowed="registers after the warp has waited for its loads",
            hint=missing_step(known, earlier, (row, warp), at),
            at=at,
        )


def check_sources(known: Operations, site: Site, batch: Batch, mask: Mask, at: Address) -> None:
    """Shared memory is written: may an operation still be reading it?"""
    rows, warps, lanes = np.nonzero(mask.full)
    rows, warps = rows * batch.ctas.step + batch.ctas.start, warps * batch.warps.step + batch.warps.start
    knowers = known.clocks.knower[32 * warps + lanes]
    address = spread(at.full(), batch.shape)[mask.full]
    for holders in known.holders.values():
        for byte in range(0, max(site.width, 1) + UNIT - 1, UNIT):
            unit = np.minimum(address + min(byte, site.width - 1) >> 4, holders.shape[1] - 1)
            number = holders[rows, unit]
            complete = known.clocks.parts[rows, knowers, number] & SEEN != 0
            if not complete.all():
                k = int(np.argmin(complete))
                place = (int(rows[k]), int(knowers[k]))
                raise _overwrites(known, site, known.parts[int(number[k])], place, int(warps[k]))


def _overwrites(known: Operations, site: Site, earlier: Part, place: tuple[int, int], warp: int) -> SimulationError:
    return SimulationError(
        f"{site.op} overwrites shared memory that {earlier.operation.name} may still be reading",
        given=f"{site.at}: CTA {known.wave.cta_name(place[0])}, warp {warp}\n"
        f"read at {earlier.at}: {earlier.who(place[0])}",
        allowed="a store after that copy is known to be complete",
        hint=missing_step(known, earlier, place, site.at, fences=False),
        at=site.at,
    )


def in_runs(address: Ints, nbytes: int, most: int) -> tuple[Ints, int]:
    """Reads of ``nbytes`` at (threads, n) addresses, as fewer and wider ones where they are neighbours."""
    address = np.sort(address, axis=1)
    while 2 * nbytes <= most and address.shape[1] % 2 == 0:
        first, then = address[:, ::2], address[:, 1::2]
        if (first % (2 * nbytes)).any() or (then != first + nbytes).any():
            break
        address, nbytes = first, 2 * nbytes
    return address, nbytes
