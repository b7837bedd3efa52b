"""m-barriers: made once, and before anybody signals them or waits for them; ended after that, before other uses.

Source: PTX ISA, "mbarrier.init", "mbarrier.inval".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.isa import Signal, phase_of
from tilewright.sim.machine.masks import spread
from tilewright.sim.machine.places import OFFSET_BITS
from tilewright.sim.machine.remote import in_turns
from tilewright.sim.order.bounds import MBARRIER_CHECKS
from tilewright.sim.order.reports.rules import (
    early_arrival,
    ended_early,
    ends_between_signals,
    initialised_twice,
    no_data,
    uninitialised,
)

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.machine.address import Address
    from tilewright.sim.machine.arrays import Bools, Ints
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.masks import Mask
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.machine.sites import Site
    from tilewright.sim.machine.units import Touched
    from tilewright.sim.machine.wave import Wave
    from tilewright.sim.order.knowledge.actors import Actors
    from tilewright.sim.order.knowledge.clocks import Clocks
    from tilewright.sim.order.knowledge.signals import Signals
    from tilewright.sim.order.rules.barriers import ClusterMeetings

__all__ = ["MBarrierRules", "check_not_early", "check_together"]


WORD = 8  # bytes of an m-barrier
NEVER = 1 << 62  # a time


@dataclass(eq=False, slots=True)
class LiveMBarrier:
    """An m-barrier that was made and not ended: by which thread of its CTA, and when.

    fenced: the time at which that thread first passed a fence for the cluster since.
    """

    thread: int
    time: int
    fenced: int = NEVER


NOT_MADE = LiveMBarrier(0, NEVER)


class MBarrierRules:
    """The m-barriers of a wave that are alive, by row and offset. words: (CTAs, words of shared memory), is one
    there?
    """

    def __init__(self, clocks: Clocks, cluster: ClusterMeetings) -> None:
        self.clocks = clocks
        self.cluster = cluster
        self.wave = clocks.wave
        self.alive: dict[tuple[int, int], LiveMBarrier] = {}
        self.words = np.zeros((clocks.wave.ctas, -(-max(clocks.wave.run.shared_bytes, 1) // WORD) + 1), np.bool_)
        self._checked: set[tuple[bytes, ...]] = set()  # see `_was_checked`

    def _was_checked(self, *use: Ints | Bools) -> bool:
        """Did the same threads use the same m-barriers before? What threads know, they go on knowing; and a check that
        fails ends the run.
        """
        key = tuple(each.tobytes() for each in use)
        if key in self._checked:
            return True
        if len(self._checked) >= MBARRIER_CHECKS:
            self._checked.clear()
        self._checked.add(key)
        return False

    # m-barriers are made and ended

    def initialised(self, signals: Signals, at: Span | None) -> None:
        """Record m-barriers that are made. Raises SimulationError for one that is alive already."""
        for k, row, thread in signals.who.each():
            where = (int(signals.home[k]), int(signals.offset[k]))
            if where in self.alive:
                raise initialised_twice(self.wave, row, thread, where[1], at)
            self.alive[where] = LiveMBarrier(thread, self.clocks.now)
        self.words[signals.home, signals.offset // WORD] = True
        self._checked.clear()

    def ended(self, signals: Signals, at: Span | None) -> None:
        """Remove m-barriers that have been invalidated. Raises SimulationError where a thread may still wait at one:
        its warp has not met the thread that ends it. An arrival there is a race.
        """
        for k, row, thread in signals.who.each():
            where = int(signals.home[k]), int(signals.offset[k])
            if (one := self.alive.pop(where, None)) is None:
                continue
            for wait in self.clocks.signal_history.at(where, waits=True):
                lanes = 32 * wait.warp + np.flatnonzero(wait.lanes)
                rows, homes = np.full(len(lanes), row), np.full(len(lanes), where[0])
                times = np.full(len(lanes), wait.time + 1)
                if wait.time >= one.time and not self._know(rows, rows * 0 + thread, homes, lanes, times).any():
                    raise ended_early(self.wave, (row, thread), where, wait, at)
        self.words[signals.home, signals.offset // WORD] = False
        self._checked.clear()

    def touched(self, site: Site, batch: Batch, mask: Mask, at: Address) -> None:
        """Threads touch shared memory. Raises SimulationError where that is an m-barrier, touched as plain data."""
        if not self.alive or site.is_signal:
            return
        if not self.words[:, max(at.lo, 0) // WORD : (at.hi + site.width - 1) // WORD + 1].any():
            return
        rows, warps, lanes = batch.threads(mask.full)
        first = spread(at.full(), batch.shape)[mask.full]
        for byte in range(0, site.width + WORD - 1, WORD):
            offset = first + min(byte, site.width - 1)
            hit = self.words[rows, np.minimum(offset // WORD, self.words.shape[1] - 1)]
            if hit.any():
                k = int(np.argmax(hit))
                raise no_data(self.wave, site, (int(rows[k]), 32 * int(warps[k]) + int(lanes[k])), int(offset[k]))

    # and other CTAs learn of them

    def fenced(self, who: Actors) -> None:
        """Threads have passed a fence for the cluster."""
        self.clocks.now += 1
        for (row, _), one in self.alive.items() if self.wave.run.cluster_ctas > 1 else ():
            here = (who.rows == row) & (who.warps == one.thread >> 5)
            if one.fenced == NEVER and who.lanes[here][:, one.thread & 31].any():
                one.fenced = self.clocks.now

    # Uses: Raises SimulationError where an m-barrier may not have been made

    def used(self, use: tuple[str, str], signals: Signals, at: Span | None) -> None:
        """Threads arrive at m-barriers, or wait there. use: see `uninitialised`."""
        who = signals.who
        if not self._was_checked(who.rows, who.warps, who.lanes, signals.home, signals.offset):
            self._check(use, signals.of_threads(), at)

    def issued(self, operation: Operation) -> None:
        """An operation begins that will signal m-barriers."""
        issuers, use = operation.issuers, ("operation", f"{operation.name} tells")
        for one in operation.signals:
            users = issuers.rows[one.issuer], issuers.threads[one.issuer], one.rows, one.at
            if not self._was_checked(*users):
                self._check(use, users, operation.instruction.at)

    def _check(self, use: tuple[str, str], users: tuple[Ints, Ints, Ints, Ints], at: Span | None) -> None:
        """use: see `uninitialised`. users: row and thread of each, and row and offset of its m-barrier."""
        rows, threads, homes, offsets = users
        ones = [self.alive.get(where, NOT_MADE) for where in zip(homes.tolist(), offsets.tolist(), strict=True)]
        makers, times, fenced = (np.array([getattr(one, of) for one in ones]) for of in ("thread", "time", "fenced"))
        known = self._know(rows, threads, homes, makers, times) | self.cluster.has_met(rows, homes, makers, fenced)
        known |= (times == NEVER) & (rows == homes)
        if not known.all():
            k = int(np.argmin(known))
            raise uninitialised(self.wave, use, (int(rows[k]), int(threads[k])), (int(homes[k]), int(offsets[k])), at)

    def _know(self, rows: Ints, threads: Ints, homes: Ints, makers: Ints, times: Ints) -> Bools:
        """Do threads come after all that the threads ``makers`` of the CTAs ``homes`` did until that time?"""
        clocks = self.clocks
        found = clocks.knows(
            rows, clocks.knower[threads], homes + self.wave.first, makers, times, also=clocks.of_shared
        )
        return np.asarray(found | ((threads == makers) & (rows == homes)))


def check_not_early(
    wave: Wave, signals: Signals, early: Ints, at: Span | None, by: tuple[Operation, Touched] | None = None
) -> None:
    """Raises SimulationError if there are ``early`` arrivals, given by their numbers: for a phase though no thread has
    seen the last one over. by: the operation that arrives, if it is no thread, and its signals.
    """
    for k in early.tolist():
        row, home, offset = int(signals.who.rows[k]), signals.home[k], int(signals.offset[k])
        who, threads = wave.warp_name(row, warp := int(signals.who.warps[k])), (wave.warp_at(row, warp),)
        if by is not None:
            operation, one = by
            mine = (operation.issuers.rows[one.issuer] == row) & (one.rows == home) & (one.at == offset)
            who = operation.who(issuer := int(one.issuer[np.argmax(mine)]))
            threads = (operation.issuers.thread_at(issuer),)
        raise early_arrival(wave, who, threads, offset, at)


def check_together(operation: Operation, one: Touched) -> None:
    """Raises SimulationError where some signals of an operation end a phase, and others of it are still to come: they
    have no order, so that the phase may end before any of them has come.
    """
    assert isinstance(one.effect, Signal)
    wave, change = operation.batch.wave, one.effect.change
    found, which = np.unique(one.rows << OFFSET_BITS | one.at, return_inverse=True)
    if change is None or len(found) == len(one.at):
        return
    which, given = which.reshape(-1), operation.amounts(one)[one.issuer]
    words = wave.shared.view(8)[one.rows, one.at >> 3]
    first, now = phase_of(words), np.zeros(len(found), words.dtype)
    now[which] = words
    for turn in in_turns(which, np.arange(len(words))):
        there = which[turn]
        if (late := phase_of(now[there]) != first[turn]).any():
            k = int(turn[np.argmax(late)])
            raise ends_between_signals(wave, operation, int(one.issuer[k]), int(one.at[k]))
        now[there] = change(now[there], given[turn])
