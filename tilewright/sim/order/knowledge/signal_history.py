"""The last arrivals and waits at m-barriers, for reports that name the wait which let a thread go on too early."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.order.bounds import SIGNALS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tilewright.errors import Span
    from tilewright.sim.machine import Bools, Signals


@dataclass(frozen=True, eq=False, slots=True)
class PastSignal:
    """Lanes of a warp have arrived at an m-barrier, or found a phase there over. where: its row and offset. phase: the
    one that it ran then. time: of the clocks.
    """

    warp: int
    lanes: Bools
    where: tuple[int, int]
    phase: int
    at: Span | None
    time: int

    @property
    def line(self) -> int:
        """The line of the user's kernel; 0 where that is not known."""
        return self.at.outermost.line if self.at is not None else 0


class SignalHistory:
    """The last arrivals and waits of a wave; those of many warps at once are kept together."""

    def __init__(self) -> None:
        self._last: deque[tuple[Signals, Span | None, int, bool]] = deque(maxlen=SIGNALS)

    def note(self, signals: Signals, at: Span | None, time: int, *, waits: bool) -> None:
        """Some more."""
        self._last.append((signals, at, time, waits))

    def of(self, row: int, warp: int, *, waits: bool) -> Iterator[PastSignal]:
        """The arrivals, or the waits, of a warp that have a line; the newest first."""
        each = self._each(lambda signals: (signals.who.rows == row) & (signals.who.warps == warp), waits=waits)
        return (one for one in each if one.at is not None)

    def at(self, where: tuple[int, int], *, waits: bool) -> Iterator[PastSignal]:
        """The arrivals, or the waits, at an m-barrier; the newest first."""
        return self._each(lambda signals: (signals.home == where[0]) & (signals.offset == where[1]), waits=waits)

    def _each(self, which: Callable[[Signals], Bools], *, waits: bool) -> Iterator[PastSignal]:
        for signals, at, time, are_waits in reversed(self._last):
            for k in np.flatnonzero(which(signals)).tolist() if are_waits is waits else ():
                where = int(signals.home[k]), int(signals.offset[k])
                who = signals.who
                yield PastSignal(int(who.warps[k]), who.lanes[k], where, int(signals.phase[k]), at, time)
