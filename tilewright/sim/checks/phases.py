"""What arrivals at m-barriers have published, phase by phase.

A phase that is over publishes what its arrivals knew to whoever finds it over; arrivals at the running phase publish
nothing yet. Knowledge is a row of numbers, and two segments of it are joined number by number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa import phase_state
from tilewright.sim.remote import split

if TYPE_CHECKING:
    from tilewright.sim.batch import Batch
    from tilewright.sim.masks import Mask
    from tilewright.sim.wave import Wave

__all__ = ["Phases", "Signals", "arrivals_of", "signals_of", "widened"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Signals:
    """Warps and m-barriers, (n,) each. rows, warps: who signals. home, offset: row of the CTA and place in its shared
    memory of the m-barrier; phase: the one that it runs then.
    """

    rows: Ints
    warps: Ints
    home: Ints
    offset: Ints
    phase: Ints

    def groups(self) -> Iterator[tuple[int, int, Ints]]:
        """Offset, phase, and the signals that have both; in the order in which they come."""
        key = self.offset << 2 | self.phase
        found, first, which = np.unique(key, return_index=True, return_inverse=True)
        for k in np.argsort(first):
            yield int(found[k]) >> 2, int(found[k]) & 3, np.flatnonzero(which == k)


def signals_of(batch: Batch, mask: Mask, barrier: Any, kind: str, found: Any) -> Signals:
    """What the lanes of a mask signal, each warp once for each m-barrier and phase.

    found: what the instruction returned; of an arrival the words before it.
    """
    active = mask.full
    rows, warps = batch.rows_and_warps(active)
    home, offset = split(batch.wave, rows, np.broadcast_to(barrier, active.shape)[active].astype(np.int64))
    words = batch.wave.shared.view(8)[home, offset >> 3]
    if kind == "arrive":
        words = np.broadcast_to(found, active.shape)[active]
    each = np.stack((rows, warps, home, offset, phase_state(words).phase))
    differs = np.ones(each.shape[1], np.bool_)
    differs[1:] = (each[:, 1:] != each[:, :-1]).any(0)  # lanes of a warp follow each other, and mostly do the same
    return Signals(*each[:, differs])


def arrivals_of(wave: Wave, rows: Ints, address: Ints) -> Signals:
    """Arrivals of asynchronous units, on behalf of CTAs ``rows``, at shared addresses."""
    home, offset = split(wave, rows, address)
    phase = phase_state(wave.shared.view(8)[home, offset >> 3]).phase
    return Signals(rows, np.zeros_like(rows), home, offset, phase)


class _Barriers:
    """The m-barriers at one offset, of all CTAs: the running phase, and what is published in it and before it."""

    def __init__(self, rows: int, width: int, kind: Any) -> None:
        self.phase = np.zeros(rows, np.int64)
        self.running = np.zeros((rows, width), kind)
        self.over = np.zeros((rows, width), kind)


class Phases:
    """join: a ufunc that makes one of two segments of knowledge; zero knows nothing. width: numbers of a segment."""

    def __init__(self, wave: Wave, width: int, join: np.ufunc, kind: Any) -> None:
        self.rows = wave.ctas
        self.width = width
        self.join = join
        self.kind = kind
        self._at: dict[int, _Barriers] = {}

    def _now(self, offset: int, phase: int, home: Ints) -> _Barriers:
        """The m-barriers at an offset, those of the CTAs ``home`` brought to the phase that they run."""
        state = self._at.get(offset)
        if state is None:
            state = self._at[offset] = _Barriers(self.rows, self.width, self.kind)
        moved = home[state.phase[home] != phase]
        if len(moved):
            state.over[moved] = self.join(state.over[moved], state.running[moved])
            state.running[moved] = 0
            state.phase[moved] = phase
        return state

    def arrived(self, signals: Signals, known: NDArray[Any]) -> None:
        """Arrivals, with what each of them publishes, (n, width)."""
        for offset, phase, those in signals.groups():
            home = signals.home[those]
            state = self._now(offset, phase, home)
            order = np.argsort(home, kind="stable")
            own, starts = np.unique(home[order], return_index=True)
            joined = self.join.reduceat(known[those[order]], starts, axis=0)
            state.running[own] = self.join(state.running[own], joined)

    def over(self, signals: Signals) -> Iterator[tuple[Ints, NDArray[Any]]]:
        """Which of the signals, and what the phases before the running one have published to each of them.

        No warp is twice in one part.
        """
        for offset, phase, those in signals.groups():
            home = signals.home[those]
            yield those, self._now(offset, phase, home).over[home]

    def forget(self, signals: Signals) -> None:
        """New m-barriers begin here."""
        for offset, _, those in signals.groups():
            if (state := self._at.get(offset)) is not None:
                home = signals.home[those]
                state.phase[home], state.running[home], state.over[home] = 0, 0, 0

    def without(self, columns: Any) -> None:
        """Numbers that mean something else from now on."""
        for state in self._at.values():
            state.running[:, columns], state.over[:, columns] = 0, 0

    def widen(self, width: int) -> None:
        """Segments of knowledge are longer from now on."""
        self.width = width
        for state in self._at.values():
            state.running, state.over = widened(state.running, width), widened(state.over, width)


def widened(array: NDArray[Any], width: int) -> NDArray[Any]:
    """Zeros behind the last axis, up to ``width``."""
    return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, width - array.shape[-1])])
