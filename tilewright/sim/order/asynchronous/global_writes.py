"""Writes of operations to global memory that are under way: no other operation may write there before they are over.

What a thread has waited for counts as its own access; the race check orders that. Reductions combine in any order.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.places import WINDOW_BITS
from tilewright.sim.order.asynchronous.issue_order import keeps_order

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from tilewright.sim.machine.arrays import Bools, Ints
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.machine.units import Touched
    from tilewright.sim.machine.wave import Wave

    Unawaited = Iterable[tuple[Operation, Ints, Bools]]

__all__ = ["GlobalWrites"]

ISSUER_BITS = 24


class GlobalWrites:
    """By window, for each unit of a buffer, which operation wrote it last, and for which of its issuers; 0 for none."""

    def __init__(self, wave: Wave) -> None:
        self.wave = wave
        touched = ((bound, one) for bound in wave.run.program.operations for one in bound.form.touched)
        self.unit = gcd(16, *(bound.count(one.nbytes) for bound, one in touched if one.space in ("global", "generic")))
        self._tables: dict[int, NDArray[np.int64]] = {}

    def begin(self, now: Operation, one: Touched, unawaited: Unawaited) -> tuple[int, Operation, int, int] | None:
        """An operation writes. Another one that may not have written there yet: an issuer of the one, the other with
        its issuer, and the window.
        """
        width = np.arange(0, max(one.width, 1), self.unit)
        for window, there in one.windows():
            table = self._table(window)
            first = (one.at[there] & (1 << WINDOW_BITS) - 1)[:, None] + width
            issuer = np.broadcast_to(one.along(one.issuer), one.at.shape)[there]
            counts = None if one.nbytes is None else width < one.nbytes[there][:, None]
            units, issuer = first // self.unit, np.broadcast_to(issuer[:, None], first.shape)
            if counts is not None:
                units, issuer = units[counts], issuer[counts]
            mine = now.number << ISSUER_BITS | issuer
            before, table[units] = table[units], mine
            for found in (before, table[units]):
                if (found != mine).any() and (clash := _clash(now, one, issuer, found, mine, unawaited)) is not None:
                    return *clash, window
        return None

    def _table(self, window: int) -> NDArray[np.int64]:
        if window not in self._tables:
            nbytes = self.wave.run.blocks[self.wave.run.places.at(window, 0).name].nbytes
            self._tables[window] = np.zeros(-(-nbytes // self.unit) + 1, np.int64)
        return self._tables[window]


def _clash(
    now: Operation, one: Touched, issuer: Ints, found: Ints, mine: Ints, unawaited: Unawaited
) -> tuple[int, Operation, int] | None:
    under_way = {other.number: (other, left) for other, _, left in unawaited if other.writes}
    doubtful = (found != mine) & np.isin(found >> ISSUER_BITS, [*under_way])
    pairs = np.unique(np.stack((issuer[doubtful], found[doubtful])), axis=1) if doubtful.any() else np.zeros((2, 0))
    for k, number in pairs.astype(np.int64).T.tolist():
        other, left = under_way[number >> ISSUER_BITS]
        whose = number & (1 << ISSUER_BITS) - 1
        in_order = keeps_order(other, now.instruction) and now.who(k) == other.who(whose)
        together = one.combines and all(each.combines for each in other.writes)
        if left[whose].any() and not (together or in_order):
            return k, other, whose
    return None
