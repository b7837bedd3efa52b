"""Signals at m-barriers: which warps signal, at whose m-barrier, in which phase."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.isa import phase_of
from tilewright.sim.machine.arrays import Ints
from tilewright.sim.machine.remote import split
from tilewright.sim.order.knowledge.actors import Actors
from tilewright.sim.order.knowledge.known import Known, Times

if TYPE_CHECKING:
    from tilewright.isa import Lanes
    from tilewright.sim.machine.arrays import Bools
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.masks import Mask
    from tilewright.sim.machine.wave import Wave

__all__ = ["Signals", "arrivals_of", "signals_of", "together", "visits_of"]


@dataclass(frozen=True, eq=False, slots=True)
class Signals:
    """Warps that signal, with their lanes. home, offset: the m-barrier's CTA and its place there, (n,).

    phase: the one that it runs then.
    """

    who: Actors
    home: Ints
    offset: Ints
    phase: Ints

    def __getitem__(self, which: Ints | Bools) -> Signals:
        return Signals(self.who[which], self.home[which], self.offset[which], self.phase[which])

    def places(self) -> list[tuple[int, int]]:
        """Row and offset of each m-barrier."""
        return list(zip(self.home.tolist(), self.offset.tolist(), strict=True))

    def of_threads(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Row and number of each thread that signals; row and offset of its m-barrier."""
        which, lanes = np.nonzero(self.who.lanes)
        return self.who.rows[which], 32 * self.who.warps[which] + lanes, self.home[which], self.offset[which]

    def groups(self) -> Iterator[tuple[int, int, Ints]]:
        """Offset, phase, and the signals that have both; in the order in which they come."""
        key = self.offset << 2 | self.phase
        found, first, which = np.unique(key, return_index=True, return_inverse=True)
        for k in np.argsort(first):
            yield int(found[k]) >> 2, int(found[k]) & 3, np.flatnonzero(which == k)


def signals_of(batch: Batch, mask: Mask, barrier: Lanes, words: Lanes | None) -> Signals:
    """The signals of a mask's lanes: each warp once for each m-barrier and phase.

    words: of the m-barriers before it, where they have changed since.
    """
    active = mask.full
    if words is None and (barrier == barrier[..., :1]).all():
        warps_there = active.any(-1)
        rows, warps = batch.rows_and_warps(warps_there)
        there = np.broadcast_to(barrier[..., 0], warps_there.shape)[warps_there].astype(np.int64)
        home, offset = split(batch.wave, rows, there)
        phase = phase_of(batch.wave.shared.view(8)[home, offset >> 3])
        return Signals(Actors(rows, warps, active[warps_there]), home, offset, phase)
    rows, warps, lanes = batch.threads(active)
    home, offset = split(batch.wave, rows, np.broadcast_to(barrier, active.shape)[active].astype(np.int64))
    now = batch.wave.shared.view(8)[home, offset >> 3]
    given = now if words is None else np.broadcast_to(words, active.shape)[active]
    who, (home, offset, phase) = _alike(rows, warps, lanes, home, offset, phase_of(given))
    return Signals(who, home, offset, phase)


def visits_of(batch: Batch, mask: Mask, home: Ints) -> Signals:
    """The accesses of a mask's lanes to the shared memory of CTAs: each warp once for each CTA."""
    who, (ctas,) = _alike(*batch.threads(mask.full), home[mask.full])
    return Signals(who, ctas, ctas, ctas)


def _alike(rows: Ints, warps: Ints, lanes: Ints, *values: Ints) -> tuple[Actors, Ints]:
    """The values that occur, with the lanes of the warp that have each; neighbouring lanes mostly agree."""
    each = np.stack((rows, warps, *values))
    differs = np.ones(each.shape[1], np.bool_)
    differs[1:] = (each[:, 1:] != each[:, :-1]).any(0)
    together = np.zeros((int(differs.sum()), 32), np.bool_)
    together[np.cumsum(differs) - 1, lanes] = True
    return Actors(each[0, differs], each[1, differs], together), each[2:, differs]


def arrivals_of(wave: Wave, rows: Ints, home: Ints, offset: Ints) -> Signals:
    """The signals of asynchronous units, on behalf of CTAs ``rows``, at m-barriers of CTAs ``home``."""
    phase = phase_of(wave.shared.view(8)[home, offset >> 3])
    return Signals(Actors(rows, np.zeros_like(rows), np.zeros((len(rows), 32), np.bool_)), home, offset, phase)


def together(signals: Signals, known: Known, after: Times) -> tuple[Signals, Known, Times]:
    """The knowledge that operations of one CTA publish at one m-barrier, as one arrival: completions alone.

    after: up to when each comes after each thread.
    """
    key = np.stack((signals.who.rows, signals.home, signals.offset))
    _, first, which = np.unique(key, axis=1, return_index=True, return_inverse=True)
    order = np.argsort(which.reshape(-1), kind="stable")
    starts = np.flatnonzero(np.diff(which.reshape(-1)[order], prepend=-1))
    parts = np.bitwise_or.reduceat(known.parts[order], starts, axis=0)
    reach = np.maximum.reduceat(after[order], starts, axis=0)
    return signals[first], Known(known.threads[first], parts, known.cluster[first]), reach
