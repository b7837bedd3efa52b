"""The last arrivals and waits at m-barriers, for reports that name the wait which let a thread go on too early."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.order.bounds import SIGNALS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tilewright.errors import Span
    from tilewright.sim.machine.arrays import Bools
    from tilewright.sim.order.knowledge.signals import Signals

__all__ = ["Moment", "SignalHistory"]


@dataclass(frozen=True, eq=False, slots=True)
class Moment:
    """Warps arrive at m-barriers, or find a phase there over. time: of the clocks."""

    signals: Signals
    at: Span | None
    time: int
    waits: bool


@dataclass(frozen=True, eq=False, slots=True)
class PastSignal:
    """The part of one warp in a moment. where: row and offset of the m-barrier. phase: the one that it ran then."""

    line: int
    time: int
    where: tuple[int, int]
    phase: int
    lanes: list[bool]


@dataclass(frozen=True, eq=False, slots=True)
class PastWait:
    """The wait of some lanes of a warp."""

    warp: int
    lanes: Bools
    time: int
    at: Span | None


class SignalHistory:
    """The last such moments of a wave."""

    def __init__(self) -> None:
        self._last: deque[Moment] = deque(maxlen=SIGNALS)

    def note(self, signals: Signals, at: Span | None, time: int, *, waits: bool) -> None:
        """One more."""
        self._last.append(Moment(signals, at, time, waits))

    def of(self, row: int, warp: int, *, waits: bool) -> Iterator[PastSignal]:
        """The arrivals, or the waits, of a warp; the newest first."""
        for moment in reversed(self._last):
            if moment.waits is waits and moment.at is not None:
                who, signals = moment.signals.who, moment.signals
                for k in np.flatnonzero((who.rows == row) & (who.warps == warp)).tolist():
                    where = int(signals.home[k]), int(signals.offset[k])
                    yield PastSignal(
                        moment.at.outermost.line, moment.time, where, int(signals.phase[k]), who.lanes[k].tolist()
                    )

    def at(self, where: tuple[int, int]) -> Iterator[PastWait]:
        """The waits at an m-barrier."""
        for moment in self._last:
            signals = moment.signals
            for k in np.flatnonzero((signals.home == where[0]) & (signals.offset == where[1])) if moment.waits else ():
                yield PastWait(int(signals.who.warps[k]), signals.who.lanes[k], moment.time, moment.at)

    def has_arrival(self, where: tuple[int, int], phase: int) -> bool:
        """Is it known that a thread arrived for such a phase of an m-barrier?"""
        each = (one.signals for one in self._last if not one.waits)
        return any(bool(((s.home == where[0]) & (s.offset == where[1]) & (s.phase == phase)).any()) for s in each)
