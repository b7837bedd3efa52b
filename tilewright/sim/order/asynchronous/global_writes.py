"""Operations on global memory that are under way: none writes where another one does, or reads, before that is over.

What a thread has waited for counts as its own access; the race check orders that. Reductions combine in any order.
Lanes that begin the same copy, as those of a warp where nobody elects one, write the same.
"""

from __future__ import annotations

from functools import partial
from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine import WINDOW_BITS, Bools, Ints, Operation, UnitView, Wave
from tilewright.sim.order.asynchronous.scoreboard import keeps_order
from tilewright.sim.order.knowledge.known import SEEN
from tilewright.sim.order.reports.rules import copied_twice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tilewright.sim.order.asynchronous.operations import Operations

ISSUER_BITS = 24


class GlobalWrites:
    """By window, for each unit of a buffer, which operation wrote it last, and for which of its issuers; 0 for none."""

    def __init__(self, wave: Wave) -> None:
        self.wave = wave
        there = (each for each in wave.run.program.touched if each[1].space in ("global", "generic"))
        self.unit = gcd(16, *(bound.count(access.nbytes) for bound, access in there))
        self._tables: dict[int, NDArray[np.int64]] = {}

    def begin(
        self, operations: Operations, now: Operation, one: UnitView
    ) -> tuple[int, Operation, int, int, str] | None:
        """An operation begins. Another one that may not have done there yet what it does: an issuer of the one, the
        other with its issuer, the window, and what it does.
        """
        for window, there in one.windows():
            if not one.writes and window not in self._tables:
                continue
            table = self._table(window)
            units, issuer = self._units(one, there)
            mine = now.number << ISSUER_BITS | issuer
            earlier = [(table[units], "written")]
            if one.writes:
                table[units] = mine
                earlier.append((table[units], "written"))
                earlier += [(found, "read") for found in self._readers(operations, now, one, units)]
            for found, did in earlier:
                if (found != mine).any() and (clash := _clash(operations, now, one, issuer, found, mine)) is not None:
                    return *clash, window, did
        return None

    def _units(self, one: UnitView, there: Bools) -> tuple[Ints, Ints]:
        """The units that an operation touches, and for which of its issuers."""
        width = np.arange(0, max(one.width, 1), self.unit)
        first = (one.at[there] & (1 << WINDOW_BITS) - 1)[:, None] + width
        issuer = np.broadcast_to(np.broadcast_to(one.along(one.issuer), one.at.shape)[there][:, None], first.shape)
        counts = width < (one.width if one.nbytes is None else one.nbytes[there][:, None])
        counts = np.broadcast_to(counts, first.shape)
        return first[counts] // self.unit, issuer[counts]

    def _readers(self, operations: Operations, now: Operation, one: UnitView, units: Ints) -> Iterator[Ints]:
        """For each operation that may still be reading global memory: which units, as the tables have it."""
        low, high = one.reach
        flags = operations.clocks.flags_of(now.issuers.actors[1], operations.parts.knowers(now))
        for other, numbers in operations.scoreboard.in_global:
            for read in () if (flags[:, numbers] & SEEN).all() else other.reads:
                if read.space in ("global", "generic") and read.reach[0] < high and low < read.reach[1]:
                    own, issuer = self._units(read, read.touches)
                    found = np.zeros(int(max(units.max(), own.max())) + 1, np.int64)
                    found[own] = other.number << ISSUER_BITS | issuer
                    yield found[units]

    def _table(self, window: int) -> NDArray[np.int64]:
        if window not in self._tables:
            nbytes = self.wave.run.blocks[self.wave.run.places.at(window, 0).name].nbytes
            self._tables[window] = np.zeros(-(-nbytes // self.unit) + 1, np.int64)
        return self._tables[window]


def _clash(
    operations: Operations, now: Operation, one: UnitView, issuer: Ints, found: Ints, mine: Ints
) -> tuple[int, Operation, int] | None:
    under_way = {part.operation.number: part.operation for part in operations.parts.values()}
    doubtful = (found != mine) & np.isin(found >> ISSUER_BITS, [*under_way])
    pairs = np.unique(np.stack((issuer[doubtful], found[doubtful])), axis=1).T if doubtful.any() else np.zeros((0, 2))
    for k, number in pairs.astype(np.int64).tolist():
        other, whose = under_way[number >> ISSUER_BITS], number & (1 << ISSUER_BITS) - 1
        in_order = keeps_order(other, now.instruction) and now.who(k) == other.who(whose)
        together = one.combines and all(each.combines for each in other.writes)
        if in_order or together or _is_over(operations, now, k, other, whose):
            continue
        if other is not now or not _are_alike(now, k, whose):
            return k, other, whose
        operations.warn(now, now.instruction.at, "written", partial(copied_twice, now, k, whose))
    return None


def _are_alike(now: Operation, k: int, whose: int) -> bool:
    """Do two lanes of a warp begin the same copy, from the same places to the same?"""
    threads = now.issuers.threads
    return threads[k] // 32 == threads[whose] // 32 and all(
        np.array_equal(values[one.issuer == k], values[one.issuer == whose])
        for one in (*now.reads, *now.writes)
        for values in (one.at, one.rows, one.touches)
    )


def _is_over(operations: Operations, now: Operation, k: int, other: Operation, whose: int) -> bool:
    """Has the issuer of another operation waited for it? Of no group: does that of this one know that it is over?"""
    if other.group:
        return not any(each is other and left[whose].any() for each, _, left in operations.unawaited)
    row, parts = int(now.issuers.rows[k]), operations.parts
    knower, thread = int(parts.knowers(now)[k * now.issuers.warps_each]), int(other.issuers.threads[whose])
    own = (part for part in parts.values() if part.operation is other and part.thread == thread)
    return any(parts.knows(row, knower, part, SEEN) for part in own)
