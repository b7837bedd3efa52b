"""Accesses of threads while an operation may be incomplete: registers, shared memory and global buffers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.address import Address
from tilewright.sim.machine.masks import Mask, spread
from tilewright.sim.machine.places import WINDOW_BITS
from tilewright.sim.order.asynchronous.issue_order import keeps_order
from tilewright.sim.order.asynchronous.operations import Operations
from tilewright.sim.order.knowledge.known import SEEN
from tilewright.sim.order.reports.operations import early_access, early_use, used_unwaited

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.machine.arrays import Ints
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.machine.sites import Site
    from tilewright.sim.machine.units import Touched

__all__ = ["check_global", "check_in_flight", "check_shared", "check_stored"]


def check_in_flight(operations: Operations, site: Site, batch: Batch, mask: Mask, at: Address) -> None:
    """Registers are used: may an operation still be filling them, or reading what is written now?"""
    assert site.place is not None
    name, low, high = site.place.name, at.lo, at.hi + site.width
    issuing = operations.wave.pending.issuing
    for loading in operations.scoreboard.loading:
        waiting = loading.warps[batch.ctas, batch.warps] & mask.full.any(-1)
        if not waiting.any() or (issuing is not None and keeps_order(loading.operation, issuing)):
            continue
        issue = loading.operation.form.issue
        alone = issue is not None and issue.fenced and issuing is None
        held = [
            fills
            for place, start, nbytes, fills in loading.operation.registers()
            if (site.write or fills or alone) and place.name == name and low < start.hi + nbytes and start.lo < high
        ]
        if not held:
            continue
        rows, warps = batch.rows_and_warps(waiting)
        row, warp = int(rows[0]), int(warps[0])
        earlier = loading.part(warp, int(operations.parts.ranks[row]))
        if issue is not None and issue.stalls and not site.write and issuing is None:
            operations.warn(earlier, site.at, "used", partial(used_unwaited, name, earlier))
            operations.wave.pending.complete(loading.operation)
            loading.use = loading.use if loading.used.any() else (name, site.at)
            loading.used[batch.ctas, batch.warps] |= waiting
            continue
        did = "filled" if any(held) else "read"
        operations.tell(early_use(operations, name, earlier, (row, warp), site.at, did), earlier, did)


def check_stored(operations: Operations | None, mask: Mask, batch: Batch, at: Span | None) -> None:
    """Threads store: has a warp of theirs used a register before the wait for the load that fills it, and not waited
    since?
    """
    if operations is None:
        return
    for loading in operations.scoreboard.loading:
        hasty = loading.used[batch.ctas, batch.warps] & loading.warps[batch.ctas, batch.warps] & mask.full.any(-1)
        if hasty.any():
            rows, numbers = batch.rows_and_warps(hasty)
            row, warp = int(rows[0]), int(numbers[0])
            name, use = loading.use
            earlier = loading.part(warp, int(operations.parts.ranks[row]))
            early = early_use(operations, name, earlier, (row, warp), use, "filled", stored=at)
            operations.tell(early, earlier, "filled")
            loading.used[batch.ctas, batch.warps] &= ~hasty


def check_shared(
    operations: Operations | None, site: Site, batch: Batch, mask: Mask, home: tuple[Ints, Ints] | None, at: Address
) -> None:
    """Threads touch shared memory: may an operation still be writing it, or reading what is written now?

    home: rows and offsets of all lanes, where they are not those of the own CTA.
    """
    if operations is None or not (scoreboard := operations.scoreboard).spans:
        return
    last = at.hi + site.width
    if home is None and not any(first < last and at.lo < end for first, end in scoreboard.spans.values()):
        return
    rows, warps, lanes = batch.threads(mask.full)
    knowers = operations.clocks.knower[32 * warps + lanes]
    there, address = (rows, spread(at.full(), batch.shape)[mask.full]) if home is None else home
    for table, did in [
        (scoreboard.filling, "writing"),
        *((each, "reading") for each in scoreboard.holders.values() if site.write),
    ]:
        for byte in range(0, max(site.width, 1) + scoreboard.unit - 1, scoreboard.unit):
            unit = np.minimum((address + min(byte, site.width - 1)) // scoreboard.unit, table.shape[1] - 1)
            number = table[np.zeros_like(there) if scoreboard.is_collapsed else there, unit]
            complete = operations.clocks.parts[rows, knowers, number] & SEEN != 0
            if not complete.all():
                k = int(np.argmin(complete))
                earlier = operations.parts[int(number[k])]
                place = int(rows[k]), int(knowers[k])
                operations.tell(early_access(operations, site, earlier, place, int(warps[k]), did), earlier, did)


def check_global(operations: Operations, site: Site, batch: Batch, mask: Mask, at: Address) -> None:
    """Threads touch a global buffer: may an operation still be writing it, or reading what is written now?"""
    assert site.place is not None
    base = site.place.window << WINDOW_BITS
    low, high = base + at.lo, base + at.hi + site.width
    for operation, own in operations.scoreboard.in_global:
        for one in operation.touched:
            if one.space in ("shared", "tmem") or not (site.write or one.writes):
                continue
            first, last = one.reach
            if last <= low or first >= high:
                continue
            _check_each(operations, site, batch, mask, base + spread(at.full(), batch.shape), (operation, own, one))


def _check_each(
    operations: Operations, site: Site, batch: Batch, mask: Mask, address: Ints, flight: tuple[Operation, Ints, Touched]
) -> None:
    operation, own, one = flight
    numbers = np.broadcast_to(one.along(own[one.issuer]), one.at.shape)[one.touches]
    order = np.argsort(one.at[one.touches], kind="stable")
    places, numbers = one.at[one.touches][order], numbers[order]
    rows, warps, lanes = batch.threads(mask.full)
    knowers, own_address = operations.clocks.knower[32 * warps + lanes], address[mask.full]
    first = np.searchsorted(places, own_address - one.width, "right")
    last = np.searchsorted(places, own_address + site.width, "left")
    for k in np.flatnonzero(first < last).tolist():
        for number in set(numbers[first[k] : last[k]].tolist()) & set(operations.parts):
            earlier = operations.parts[number]
            if earlier.operation is operation and not operations.clocks.parts[rows[k], knowers[k], number] & SEEN:
                place = (int(rows[k]), int(knowers[k]))
                did = "writing" if one.writes else "reading"
                operations.tell(early_access(operations, site, earlier, place, int(warps[k]), did), earlier, did)
