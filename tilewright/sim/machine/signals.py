"""Signals of warps at m-barriers: whose, where, in which phase."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tilewright.isa import phase_of
from tilewright.sim.machine.arrays import Entries, Ints
from tilewright.sim.machine.places import split
from tilewright.sim.machine.team import Actors

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.isa import Lanes, Signal
    from tilewright.sim.machine import Team, Wave

__all__ = ["MBarrierSignal", "Signals", "arrivals_of", "visits_of"]


@dataclass(frozen=True, eq=False, slots=True)
class Signals(Entries):
    """Warps that signal, with their lanes. home, offset: the m-barrier's CTA and its place there, (n,).

    phase: the one that it runs then.
    """

    who: Actors
    home: Ints
    offset: Ints
    phase: Ints

    def places(self) -> list[tuple[int, int]]:
        """Row and offset of each m-barrier."""
        return list(zip(self.home.tolist(), self.offset.tolist(), strict=True))

    def of_threads(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Row and number of each thread that signals; row and offset of its m-barrier."""
        which, rows, threads = self.who.every
        return rows, threads, self.home[which], self.offset[which]

    def groups(self) -> Iterator[tuple[int, int, Ints]]:
        """Offset, phase, and the signals that have both; in the order in which they come."""
        key = self.offset << 2 | self.phase
        keys, first, which = np.unique(key, return_index=True, return_inverse=True)
        for k in np.argsort(first):
            yield int(keys[k]) >> 2, int(keys[k]) & 3, np.flatnonzero(which == k)


def visits_of(team: Team, home: Ints) -> Signals:
    """The accesses of lanes to the shared memory of CTAs: each warp once for each CTA."""
    who, (ctas,) = _alike(*team.threads, home[team.full])
    return Signals(who, ctas, ctas, ctas)


def _alike(rows: Ints, warps: Ints, lanes: Ints, *values: Ints) -> tuple[Actors, Ints]:
    """The values that occur, with the lanes of the warp that have each; neighbouring lanes mostly agree."""
    columns = np.stack((rows, warps, *values))
    differs = np.ones(columns.shape[1], np.bool_)
    differs[1:] = (columns[:, 1:] != columns[:, :-1]).any(0)
    together = np.zeros((int(differs.sum()), 32), np.bool_)
    together[np.cumsum(differs) - 1, lanes] = True
    return Actors(columns[0, differs], columns[1, differs], together), columns[2:, differs]


def arrivals_of(wave: Wave, rows: Ints, home: Ints, offset: Ints) -> Signals:
    """The signals of asynchronous units, on behalf of CTAs ``rows``, at m-barriers of CTAs ``home``."""
    phase = phase_of(wave.shared.view(8)[home, offset >> 3])
    return Signals(Actors(rows, np.zeros_like(rows), np.zeros((len(rows), 32), np.bool_)), home, offset, phase)


@dataclass(frozen=True, eq=False)
class MBarrierSignal:
    """Lanes made, ended, arrived at or saw the end of a phase of m-barriers: what the machine tells of it.

    barrier: shared addresses. found: what `execute` returned: the words before an arrival, or before bytes were
    counted.
    """

    team: Team
    barrier: Lanes
    effect: Signal
    found: Lanes
    at: Span | None

    @cached_property
    def warps(self) -> Signals:
        """Each warp once for each m-barrier and phase."""
        wave, active = self.team.wave, self.team.full
        rows, warps, lanes = self.team.threads
        home, offset = split(wave, rows, np.broadcast_to(self.barrier, active.shape)[active].astype(np.int64))
        states = wave.shared.view(8)[home, offset >> 3]
        if self.effect.kind in ("arrive", "bytes"):
            states = np.broadcast_to(self.found, active.shape)[active]
        who, (home, offset, phase) = _alike(rows, warps, lanes, home, offset, phase_of(states))
        return Signals(who, home, offset, phase)
