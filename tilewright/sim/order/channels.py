"""What hands knowledge on from thread to thread: barriers, phases of m-barriers, and any location of memory.

Through a location, a release pattern (a release; or a fence, and later a strong write by the same thread) meets an
acquire pattern (an acquire; or a strong read, and later a fence by the same thread) that has observed it. Both pairs of
scopes must hold each other: those of the accesses, and those of the patterns' ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tilewright.isa import phase_state
from tilewright.sim.order.actors import Actors, Ints
from tilewright.sim.order.clocks import Clocks, Far, Known, Ledger, joined
from tilewright.sim.remote import split

if TYPE_CHECKING:
    from tilewright.isa import Lanes
    from tilewright.sim.batch import Batch
    from tilewright.sim.masks import Bools, Mask
    from tilewright.sim.wave import Wave

__all__ = ["Fences", "Locations", "Phases", "Signals", "arrivals_of", "holds", "signals_of"]

Where: TypeAlias = "tuple[object, int]"  # a memory (a buffer's name, or the row of a CTA), and the address in it


def holds(scope: str, cta: Ints | int, other: Ints | int, cluster_ctas: int) -> Bools:
    """Does a scope of a thread of one CTA hold the threads of another? Of numbers, or of arrays of them."""
    reach = {"cta": 1, "cluster": cluster_ctas}.get(scope, 1 << 40)
    return np.asarray(np.floor_divide(cta, reach) == np.floor_divide(other, reach))


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

    def groups(self) -> Iterator[tuple[int, int, Ints]]:
        """Offset, phase, and the signals that have both; in the order in which they come."""
        key = self.offset << 2 | self.phase
        found, first, which = np.unique(key, return_index=True, return_inverse=True)
        for k in np.argsort(first):
            yield int(found[k]) >> 2, int(found[k]) & 3, np.flatnonzero(which == k)


def signals_of(batch: Batch, mask: Mask, barrier: Lanes, words: Lanes | None) -> Signals:
    """What the lanes of a mask signal: each warp once for each m-barrier and phase.

    words: of the m-barriers before it, where they have changed since.
    """
    active = mask.full
    rows, warps = batch.rows_and_warps(active)
    lanes = np.nonzero(active)[2]
    home, offset = split(batch.wave, rows, np.broadcast_to(barrier, active.shape)[active].astype(np.int64))
    now = batch.wave.shared.view(8)[home, offset >> 3]
    given = now if words is None else np.broadcast_to(words, active.shape)[active]
    each = np.stack((rows, warps, home, offset, phase_state(given).phase))
    differs = np.ones(each.shape[1], np.bool_)
    differs[1:] = (each[:, 1:] != each[:, :-1]).any(0)  # lanes of a warp follow each other, and mostly do the same
    number = np.cumsum(differs) - 1
    together = np.zeros((int(differs.sum()), 32), np.bool_)
    together[number, lanes] = True
    rows, warps, home, offset, phase = each[:, differs]
    return Signals(Actors(rows, warps, together), home, offset, phase)


def arrivals_of(wave: Wave, rows: Ints, address: Ints) -> Signals:
    """Arrivals of asynchronous units, on behalf of CTAs ``rows``, at shared addresses."""
    home, offset = split(wave, rows, address)
    phase = phase_state(wave.shared.view(8)[home, offset >> 3]).phase
    return Signals(Actors(rows, np.zeros_like(rows), np.zeros((len(rows), 32), np.bool_)), home, offset, phase)


class _Barriers:
    """The m-barriers at one offset, of all CTAs: the running phase, what is published in it and before it.

    remote: what other CTAs have published with a scope that holds them, the running phase's and that of those before.
    unseen: whose last phase nobody has seen over.
    """

    def __init__(self, clocks: Clocks) -> None:
        rows = clocks.wave.ctas
        self.phase = np.zeros(rows, np.int64)
        self.unseen = np.zeros(rows, np.bool_)
        self.running, self.over = Ledger(clocks), Ledger(clocks)
        self.remote = (Ledger(clocks), Ledger(clocks)) if clocks.wave.run.cluster_ctas > 1 else None


class Phases:
    """What arrivals at m-barriers have published, phase by phase.

    A phase that is over publishes what its arrivals knew to whoever finds it over; arrivals at the running phase
    publish nothing yet.
    """

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        self._at: dict[int, _Barriers] = {}

    def _now(self, offset: int, phase: int, home: Ints) -> _Barriers:
        """The m-barriers at an offset, those of the CTAs ``home`` brought to the phase that they run."""
        if offset not in self._at:
            self._at[offset] = _Barriers(self.clocks)
        state = self._at[offset]
        moved = np.unique(home[state.phase[home] != phase])
        if len(moved):
            state.running.move_to(state.over, moved)
            if state.remote is not None:
                state.remote[0].move_to(state.remote[1], moved)
            state.phase[moved] = phase
            state.unseen[moved] = True
        return state

    def arrived(self, signals: Signals, known: Known, *, wide: bool) -> Ints:
        """Arrivals, with what each of them publishes; returns those at phases before which nobody saw the last over.

        wide: does their scope hold the cluster?
        """
        early: list[Ints] = []
        for offset, phase, those in signals.groups():
            home = signals.home[those]
            state = self._now(offset, phase, home)
            early.append(those[state.unseen[home]])
            own = signals.who.rows[those] == home
            state.running.add(home[own], known[those[own]])
            far = those[~own]
            if len(far) and state.remote is not None:
                given = known[far]
                if wide:
                    state.remote[0].add(home[~own], given)
                nothing = np.zeros_like(given.threads)  # completions are handed to everyone
                state.running.add(home[~own], Known(nothing, given.parts, given.cluster))
        return np.concatenate(early) if early else np.zeros(0, np.int64)

    def over(self, signals: Signals, *, wide: bool) -> Iterator[tuple[Ints, Known]]:
        """Which of the signals, and what the phases before the running one have published to each of them.

        No warp is twice in one part. wide: does the scope of the wait hold the cluster?
        """
        for offset, phase, those in signals.groups():
            home = signals.home[those]
            state = self._now(offset, phase, home)
            state.unseen[home] = False
            known = state.over.of(home)
            if wide and state.remote is not None:
                far = state.remote[1].of(home)
                known.threads = np.maximum(known.threads, far.threads)
                known.far = known.far or far.far
            yield those, known

    def forget(self, signals: Signals) -> None:
        """New m-barriers begin here."""
        for offset, _, those in signals.groups():
            if (state := self._at.get(offset)) is not None:
                home = signals.home[those]
                state.phase[home], state.unseen[home] = 0, False
                for ledger in (state.running, state.over, *(state.remote or ())):
                    ledger.clear(home)


@dataclass(eq=False, slots=True)
class Pattern:
    """The release that was made, or that awaits an acquire. lanes: (32,) of the warp; known: a row of knowledge."""

    lanes: Bools
    scope: str
    cta: int
    known: Known


@dataclass(eq=False, slots=True)
class _Passed:
    """Lanes of a warp that have passed a fence. known: what they all knew; time: when that was."""

    lanes: Bools
    scope: str
    known: Known
    time: int


class Fences:
    """What threads knew at their last fence: that is what their strong writes publish from then on."""

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        self.latest: dict[tuple[int, int], list[_Passed]] = {}  # row and warp

    def passed(self, who: Actors, scope: str) -> None:
        """Lanes have passed a fence that releases."""
        clocks = self.clocks
        common = clocks.published(Actors(who.rows, who.warps, np.zeros_like(who.lanes)))
        for k, (row, warp) in enumerate(zip(who.rows.tolist(), who.warps.tolist(), strict=True)):
            older = self.latest.get((row, warp), [])
            for passed in older:
                if passed.scope == scope:
                    passed.lanes = passed.lanes & ~who.lanes[k]
            rest = who.lanes[k].copy()
            made = []
            for thread in clocks.alone:
                if thread >> 5 == warp and rest[thread & 31]:
                    one = Actors.threads(np.array([row]), np.array([thread]))
                    made.append(_Passed(one.lanes[0], scope, clocks.published(one), clocks.now))
                    rest[thread & 31] = False
            made.append(_Passed(rest, scope, common[np.array([k])], clocks.now))
            self.latest[row, warp] = [passed for passed in (*older, *made) if passed.lanes.any()]

    def of(self, row: int, warp: int, lanes: Bools) -> Iterator[Pattern]:
        """What some lanes of a warp publish by a strong write."""
        for passed in self.latest.get((row, warp), ()):
            if (own := passed.lanes & lanes).any():
                first = int(self.clocks.first_column(np.array(row))) + 32 * warp
                times = passed.known.threads.copy()
                times[:, first : first + 32][:, own] = passed.time
                known = Known(times, passed.known.parts, passed.known.cluster, passed.known.far)
                yield Pattern(own, passed.scope, row + self.clocks.wave.first, known)


@dataclass(eq=False, slots=True)
class _Location:
    """What the last write is part of. scope, cta, width: of that write; released: what may be acquired from it."""

    scope: str
    cta: int
    width: int
    released: list[Pattern] = field(default_factory=list)


@dataclass(frozen=True, eq=False, slots=True)
class Strong:
    """A strong access of a thread. reads: does it that besides writing, as an atomic does?"""

    where: Where
    cta: int
    row: int
    thread: int
    width: int
    sem: str
    scope: str
    reads: bool


class Locations:
    """What strong accesses to memory hand on. It sleeps until there is something to hand on."""

    def __init__(self) -> None:
        self.awake = False
        self._at: dict[Where, _Location] = {}
        self.memories: set[str] = set()  # where anything was released
        self.pending: dict[tuple[int, int], list[Pattern]] = {}  # CTA and warp: observed, and not yet acquired
        self.releases: dict[tuple[int, int, Where], Pattern] = {}  # the last by a thread on a location

    def overwritten(self, where: Where) -> None:
        """A weak write: who reads it observes nothing."""
        self._at.pop(where, None)

    def has(self, where: Where) -> bool:
        """Was anything written strongly there that may be observed?"""
        return where in self._at

    def read(self, clocks: Clocks, access: Strong) -> None:
        """A strong read: what it observes is acquired, now or by a later fence."""
        found = self._at.get(access.where)
        size = clocks.wave.run.cluster_ctas
        if found is None or not self._morally_strong(found, access, size):
            return
        for pattern in found.released:
            seen = Pattern(np.arange(32) == access.thread & 31, pattern.scope, pattern.cta, pattern.known)
            if not (access.sem in ("acquire", "acq_rel") and self._acquire(clocks, access, seen, size)):
                self.observed((access.cta, access.thread >> 5), seen)

    def observed(self, key: tuple[int, int], seen: Pattern) -> None:
        """What lanes of a warp may acquire by a later fence."""
        for pattern in (kept := self.pending.setdefault(key, [])):
            if pattern.known is seen.known and pattern.scope == seen.scope:
                pattern.lanes = pattern.lanes | seen.lanes
                return
        kept.append(seen)

    @staticmethod
    def _acquire(clocks: Clocks, access: Strong, seen: Pattern, size: int) -> bool:
        """Do the ends of the patterns hold each other? Then the thread knows from now on."""
        fits = bool(holds(seen.scope, seen.cta, access.cta, size) & holds(access.scope, access.cta, seen.cta, size))
        if fits:
            who = Actors(np.array([access.row]), np.array([access.thread >> 5]), seen.lanes[None])
            clocks.learn(who, seen.known)
        return fits

    @staticmethod
    def _morally_strong(found: _Location, access: Strong, size: int) -> bool:
        near = holds(found.scope, found.cta, access.cta, size) & holds(access.scope, access.cta, found.cta, size)
        return bool(near) and found.width == access.width

    def written(self, clocks: Clocks, access: Strong, released: list[Pattern]) -> None:
        """A strong write: it publishes what the thread releases, an atomic also what it has found there."""
        found = self._at.get(access.where)
        key = (access.cta, access.thread, access.where)
        if access.sem in ("release", "acq_rel"):
            who = Actors.threads(np.array([access.row]), np.array([access.thread]))
            self.releases[key] = Pattern(who.lanes[0], access.scope, access.cta, clocks.published(who))
        released = [*released, *filter(None, [self.releases.get(key)])]
        if found is not None and access.reads and self._morally_strong(found, access, clocks.wave.run.cluster_ctas):
            released = [*found.released, *released]
        if released or found is not None:
            self._at[access.where] = _Location(access.scope, access.cta, access.width, _merged(released))

    def fenced(self, clocks: Clocks, who: Actors, scope: str) -> None:
        """Lanes have passed a fence that acquires: what they have observed comes before them now."""
        size = clocks.wave.run.cluster_ctas
        for k, (row, warp) in enumerate(zip(who.rows.tolist(), who.warps.tolist(), strict=True)):
            cta = row + clocks.wave.first
            for pattern in self.pending.get((cta, warp), ()):
                lanes = pattern.lanes & who.lanes[k]
                mutual = holds(pattern.scope, pattern.cta, cta, size) and holds(scope, cta, pattern.cta, size)
                if lanes.any() and mutual:
                    clocks.learn(Actors(who.rows[k : k + 1], who.warps[k : k + 1], lanes[None]), pattern.known)


def _merged(patterns: list[Pattern]) -> list[Pattern]:
    """What threads of one CTA have released with one scope is acquired together."""
    found: dict[tuple[int, str], Pattern] = {}
    for pattern in patterns:
        other = found.get((pattern.cta, pattern.scope))
        if other is not None and other.known is not pattern.known:
            known = Known(
                np.maximum(other.known.threads, pattern.known.threads),
                other.known.parts | pattern.known.parts,
                pattern.known.cluster,
                _far_of(other.known, pattern.known),
            )
            pattern = Pattern(other.lanes | pattern.lanes, pattern.scope, pattern.cta, known)
        found[pattern.cta, pattern.scope] = pattern
    return list(found.values())


def _far_of(a: Known, b: Known) -> list[Far]:
    """What two rows of knowledge hold of other clusters."""
    if not (a.far and b.far):
        return a.far or b.far
    return [joined(a.far[0], b.far[0])]
