"""Phases of m-barriers hand knowledge on, from the threads that arrive to those that find the phase over. The last
arrivals and waits are kept for reports, which name the wait that let a thread go on too early.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright.isa import phase_of
from tilewright.sim.machine import Actors, Ints, Signals
from tilewright.sim.order.knowledge.known import Known, Ledger, Times, begun, gather_at
from tilewright.sim.order.knowledge.releases import Pattern, Release

if TYPE_CHECKING:
    from collections.abc import Callable

    from tilewright.errors import Span
    from tilewright.isa import Signal
    from tilewright.sim.machine import Bools
    from tilewright.sim.order.knowledge.clocks import Clocks
    from tilewright.sim.order.knowledge.fences import Fences
    from tilewright.sim.order.knowledge.locations import Locations

SIGNALS = 1024  # kept: arrivals and waits at m-barriers, of a wave


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


class _Barriers:
    """The m-barriers at one offset, of all CTAs: the running phase, what is published in it and before it.

    remote: what other CTAs have published with a scope that holds them, the running phase's and that of those before.
    unobserved: m-barriers whose last phase no thread has seen over. waited: (CTAs, threads of the cluster), the time at
    which threads last saw the phase before the running one over, 0 where an arrival at the running one comes after
    that. met: (CTAs, warps of the cluster), the time at which such a warp then first executed an instruction together:
    from then on a thread that comes after one of its lanes comes after all.
    """

    def __init__(self, clocks: Clocks) -> None:
        rows = clocks.wave.ctas
        self.phase = np.zeros(rows, np.int64)
        self.unobserved = np.zeros(rows, np.bool_)
        self.waited = np.zeros((rows, clocks.width), np.int32)
        self.met = np.zeros((rows, clocks.width // 32), np.int32)
        self.running, self.over = Ledger(clocks), Ledger(clocks)
        self.remote = (Ledger(clocks), Ledger(clocks)) if clocks.wave.run.cluster_ctas > 1 else None


class Phases:
    """The knowledge that arrivals at m-barriers have published, phase by phase.

    A phase that is over publishes what its arrivals knew to every thread that finds it over; arrivals at the running
    phase publish nothing yet.
    """

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        self._at: dict[int, _Barriers] = {}
        self._looked_at: dict[int, _Barriers] = {}  # m-barriers at which warps have waited without meeting since
        self.overtaken = False  # may a phase have ended before threads looked for the one before it?

    def _now(self, offset: int, phase: int, home: Ints) -> _Barriers:
        """The m-barriers at an offset, after those of the CTAs ``home`` are moved to the phase that they run."""
        if offset not in self._at:
            self._at[offset] = _Barriers(self.clocks)
        state = self._at[offset]
        moved = np.unique(home[state.phase[home] != phase])
        if len(moved):
            state.running.move_to(state.over, moved)
            if state.remote is not None:
                state.remote[0].move_to(state.remote[1], moved)
            self._moved(state, moved)
            state.phase[moved] = phase
            state.unobserved[moved] = True
        return state

    def _moved(self, state: _Barriers, rows: Ints) -> None:
        self.overtaken |= bool(state.waited[rows].any())
        state.waited[rows] = 0

    def closed(self) -> None:
        """The phases that have ended by the end of the wave without a thread that waited for them."""
        words = self.clocks.wave.shared.view(8)
        for offset, state in self._at.items():
            self._moved(state, np.flatnonzero(phase_of(words[:, offset >> 3]) != state.phase))

    def arrive(self, signals: Signals, signal: Signal, fences: Fences) -> Ints:
        """Threads arrive and publish what they know; what `arrived` returns."""
        wide = signal.scope != "cta"
        known = self.clocks.published(signals.who)
        after = known.threads
        if signal.sem == "relaxed":
            known = known.of_execution(self.clocks.size)
            for k in range(len(signals.who)):
                for pattern in fences.of(*signals.who.places[k], signals.who.bits[k]):
                    one = np.array([k])
                    parts = self.clocks.current(pattern.known.parts, pattern.time)
                    told = replace(pattern.known, parts=parts)
                    self.arrived(signals[one], told, after[one], wide=wide and pattern.scope != "cta")
        return self.arrived(signals, known, after, wide=wide)

    def arrived(self, signals: Signals, known: Known, after: Times, *, wide: bool) -> Ints:
        """Arrivals, with what each of them publishes; returns those at phases whose predecessor no thread saw over.

        after: up to when they come after each thread, published or not. wide: does their scope hold the cluster?
        """
        early: list[Ints] = []
        for offset, phase, those in signals.groups():
            home = signals.home[those]
            state = self._now(offset, phase, home)
            early.append(those[state.unobserved[home]])
            if state.waited[home].any():
                reach = np.zeros_like(state.waited)
                gather_at(np.maximum, reach, home, after[those])
                state.waited[reach >= state.waited] = 0
                of_warps = reach.reshape(*state.met.shape, 32).max(-1)
                state.waited.reshape(*of_warps.shape, 32)[(state.met > 0) & (of_warps >= state.met)] = 0
            own = signals.who.rows[those] == home
            near = those[own]
            state.running.add(home[own], known if len(near) == len(signals.home) else known[near])
            far = those[~own]
            if len(far) and state.remote is not None:
                given = known[far]
                state.remote[0].add(home[~own], given if wide else self._loosened(given))
                of_all = begun(given.threads, self.clocks.size)  # and completions: all threads get these
                state.running.add(home[~own], Known(of_all, given.parts, given.cluster))
        return np.concatenate(early) if early else np.zeros(0, np.int64)

    def wait(self, signals: Signals, signal: Signal, locations: Locations) -> None:
        """Threads find phases over and learn what those have published; of a relaxed wait by a later fence."""
        for those, known in self._over(signals, wide=signal.scope != "cta"):
            who = signals.who[those]
            if signal.sem != "relaxed":
                self.clocks.learn(who, known)
                continue
            self.clocks.learn(who, known.of_execution(self.clocks.size))
            for k, ((row, warp), lanes) in enumerate(zip(who.places, who.bits, strict=True)):
                cta = row + self.clocks.wave.first
                seen = Pattern(lanes, str(signal.scope), cta, known[np.array([k])], self.clocks.wave.now)
                locations.observed((cta, warp), lanes, Release.of(self.clocks, [seen]))

    def _over(self, signals: Signals, *, wide: bool) -> Iterator[tuple[Ints, Known]]:
        """The knowledge that phases before the running one have published, for parts of the signals.

        No warp is twice in one part. wide: does the scope of the wait hold the cluster?
        """
        for offset, phase, those in signals.groups():
            home = signals.home[those]
            state = self._now(offset, phase, home)
            state.unobserved[home] = False
            self._looked(state, signals.who[those], home)
            known = state.over.of(home)
            if state.remote is not None:
                far = state.remote[1].of(home)
                far = far if wide else self._loosened(far)
                known.threads = np.maximum(known.threads, far.threads)
                known.far = known.far or far.far
            yield those, known

    def _loosened(self, known: Known) -> Known:
        """The knowledge that goes to CTAs which a scope does not hold: the order of reads, with a warning."""
        threads, size = np.zeros_like(known.threads), self.clocks.size
        threads[:, size : 2 * size] = np.maximum(known.threads[:, :size], known.threads[:, size : 2 * size])
        return Known(threads, known.parts, known.cluster)

    def _looked(self, state: _Barriers, who: Actors, home: Ints) -> None:
        self.clocks.wave.tick()
        warps = (self.clocks.first_column(who.rows) >> 5) + who.warps
        waited = state.waited.reshape(*state.met.shape, 32)
        waited[home, warps] = np.where(who.lanes, self.clocks.wave.now, waited[home, warps])
        state.met[home, warps] = 0
        self._looked_at[id(state)] = state

    def warps_met(self, rows: Ints, threads: Ints) -> None:
        """Warps have executed an instruction together, given by their first threads."""
        if self._looked_at:
            self.clocks.wave.tick()
            warps = (self.clocks.first_column(rows) + threads) >> 5
            for number, state in list(self._looked_at.items()):
                state.met[rows, warps] = np.where(state.met[rows, warps], state.met[rows, warps], self.clocks.wave.now)
                if (state.met > 0)[(state.waited > 0).reshape(*state.met.shape, 32).any(-1)].all():
                    del self._looked_at[number]

    def forget(self, signals: Signals) -> None:
        """New m-barriers begin here."""
        for offset, _, those in signals.groups():
            if (state := self._at.get(offset)) is not None:
                home = signals.home[those]
                state.phase[home], state.unobserved[home], state.waited[home] = 0, False, 0
                for ledger in (state.running, state.over, *(state.remote or ())):
                    ledger.clear(home)
