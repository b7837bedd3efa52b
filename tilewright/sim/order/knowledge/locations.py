"""Locations of memory hand knowledge on, from threads that write there to threads that read.

A release pattern (a release; or a fence, and later a strong write by the same thread) meets an acquire pattern (an
acquire; or a strong read, and later a fence by the same thread) that has observed it. Both pairs of scopes must hold
each other: those of the accesses, and those of the patterns' ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tilewright.sim.machine import UNITS, Array, Bits, Bools, Device, Ints, Site, Team, numbers, spread
from tilewright.sim.order.knowledge.clocks import Clocks
from tilewright.sim.order.knowledge.fences import Fences
from tilewright.sim.order.knowledge.releases import BY_SC, Pattern, Release, gathered, hold_each_other

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from tilewright.isa import Lanes
    from tilewright.sim.order.knowledge.clocks import Actors, Thread
    from tilewright.sim.order.races.records import AccessRecord

STATES = 4096  # kept: of a location

# What a location held, one value after the other, and how old a value a thread may have read there.
#
# A thread that polls a counter late finds its last value, and with it comes after all that have counted. It would have
# gone the same way had it come earlier, and read an older one: then it comes after fewer. So a read that only decides a
# branch acquires no more than the oldest value brings that decides it alike, and that the thread may still read: it
# neither wrote nor read a later one, and knows of none. A barrier whose counter passes its target once, and stays
# there, then holds nobody up, however the threads of this run happened to meet.
#
# Source: PTX ISA, "Memory Consistency Model: Coherence, Causality order".


@dataclass(eq=False, slots=True)
class _State:
    """What stands at a location since a write by a thread of a CTA of the grid. release: what whoever reads it may
    acquire; bits: None of the newest, which is in memory.
    """

    cta: int
    thread: int
    time: int
    release: Release | None
    bits: int | None = None


Alike: TypeAlias = "tuple[Callable[[int], bool], dict[int, int]]"
# do bits send threads the same way? by the number of a state, the first from there on that does, as far as it is known


class Decision:
    """The branch that a read decides. way: for the bits of a value, which way each lane goes, as an array that
    broadcasts to (CTAs, warps, 32); where all go one way, also for several, along the first axis.

    now: the bits that each lane is about to read.
    """

    def __init__(self, way: Callable[[Array], Bools], now: Bits, team: Team) -> None:
        self.way = way
        self.now = np.broadcast_to(now, team.shape)
        self.team = team
        self._ways: dict[int, Bools] = {}
        self._first: dict[tuple[History, bool], dict[int, int]] = {}

    def alike(self, history: History, row: int, threads: tuple[int, ...]) -> Alike:
        """Which states send all of these threads of a CTA, which act together, the same way as the bits that they are
        about to read?
        """
        where = place_in(self.team, row, threads[0])
        now = self.now[where]
        if len(threads) == 1:
            ways = self._of(int(now))
            way, first = bool(ways[where]), dict[int, int]()
            if not any(ways.strides):  # all lanes go one way
                first = self._first.setdefault((history, way), first)
                self._look_at({state.bits for state in history.states if state.bits is not None} if not first else ())
            return (lambda bits: bool(self._of(bits)[where]) == way), first
        own, lanes = where[:2], [thread & 31 for thread in threads]
        if not (self.now[own][lanes] == now).all():
            return (lambda bits: False), {}
        mine = self._of(int(now))[own][lanes].tolist()
        return (lambda bits: self._of(bits)[own][lanes].tolist() == mine), {}

    def _of(self, bits: int) -> Bools:
        """Which way each lane goes that reads these bits."""
        self._look_at((bits,))
        return self._ways[bits]

    def _look_at(self, every: Collection[int]) -> None:
        """Which way lanes go that read some bits; several at once where all lanes go one way."""
        if new := [bits for bits in every if bits not in self._ways]:
            ways = self.way(np.array(new, self.now.dtype).reshape(-1, 1, 1))
            ways = ways.reshape(-1, 1, 1, 1) if len(new) > 1 else ways
            self._ways |= zip(new, np.broadcast_to(ways, (len(new), *self.team.shape)), strict=True)


def place_in(team: Team, row: int, thread: int) -> tuple[int, int, int]:
    """Where in a team a thread of a wave's CTA is: the CTA, the warp and the lane."""
    ctas, warps = numbers(team.ctas), numbers(team.warps)
    return ctas.index(row), warps.index(thread >> 5), thread & 31


class History:
    """The states of one location, the oldest first, each made from the one before by an atomic.

    seen: by CTA of the grid and thread, the number of the newest state that it has written or read.
    """

    def __init__(self, release: Release | None) -> None:
        self.states = [_State(-1, -1, 0, release)]
        self.first = 0  # the number of the oldest state that is kept
        self.seen: dict[tuple[int, int], int] = {}

    @property
    def newest(self) -> int:
        """The number of the last state."""
        return self.first + len(self.states) - 1

    def written(self, cta: int, threads: tuple[int, ...], time: int, release: Release | None) -> None:
        """Atomics of threads that act together have changed it."""
        self.states.append(_State(cta, threads[0], time, release))
        if len(self.states) > STATES:
            dropped = len(self.states) // 2
            del self.states[:dropped]
            self.first += dropped
        self.seen |= dict.fromkeys(((cta, thread) for thread in threads), self.newest)

    def found(self, number: int, bits: int) -> None:
        """An atomic has found these bits in a state, before it made the next one."""
        if number >= self.first:
            self.states[number - self.first].bits = bits

    def read(self, clocks: Clocks, row: int, threads: tuple[int, ...], decision: Decision | None) -> int:
        """Threads of a CTA that act together read the newest state: the number of the oldest that they may have read
        instead.
        """
        cta = row + clocks.wave.first
        number = self.newest
        if decision is not None:
            oldest = max(self.first, *(self.seen.get((cta, thread), 0) for thread in threads))
            alike = decision.alike(self, row, threads)
            number = self._like_newest(oldest, alike)
            if number < self.newest:
                number = self._like_newest(self._newest_known(clocks, row, threads[0], number), alike)
        for thread in threads:
            self.seen[cta, thread] = number
        return number

    def _like_newest(self, oldest: int, alike: Alike) -> int:
        """The first state from a number on that sends all threads the way in which the newest does."""
        (is_alike, first), number = alike, oldest
        while number < self.newest and number not in first:
            bits = self.states[number - self.first].bits
            if bits is not None and is_alike(bits):
                break
            number += 1
        walked, number = number, first.get(number, number)
        first |= dict.fromkeys(range(oldest, walked), number)
        return number

    def _newest_known(self, clocks: Clocks, row: int, thread: int, oldest: int) -> int:
        """The newest state, from a number on, whose write comes before all that a thread does now."""
        later = self.states[oldest - self.first + 1 :]
        writers = [np.array([getattr(state, name) for state in later]) for name in ("cta", "thread", "time")]
        knows = clocks.knows(np.full(len(later), row), np.full(len(later), clocks.knower[thread]), *writers)
        return oldest + 1 + int(np.flatnonzero(knows)[-1]) if knows.any() else oldest


RELEASES = ("release", "acq_rel")

Where: TypeAlias = "tuple[object, int]"  # a memory (a buffer's name, or the row of a CTA), and the address in it


@dataclass(eq=False, slots=True)
class _Location:
    """What the last write is part of. site, cta: of that write; release: what may be acquired from it. readers: threads
    of CTAs that have observed what comes before the write by way of a fence.sc.
    """

    site: Site
    cta: int
    release: Release | None
    readers: set[tuple[int, int]] = field(default_factory=set)


@dataclass(eq=False, slots=True)
class _Observed:
    """What lanes of a warp have observed, and not yet acquired."""

    lanes: int
    release: Release


@dataclass(eq=False, slots=True)  # not frozen: there are many, and freezing takes time
class Strong:
    """A strong access of a location by threads of a warp, whose lanes are these bits. time: of its record."""

    site: Site
    time: int
    where: Where
    cta: int
    row: int
    warp: int
    threads: tuple[int, ...]
    lanes: int


class Locations:
    """The knowledge that strong accesses hand on. Nothing is kept before the first release.

    seen: what threads of CTAs have observed by the access that was recorded last. strong: by the first CTA of each
    wave, how many strong accesses its threads have made.
    """

    def __init__(self, *, keeps_states: bool = False) -> None:
        self.awake = False
        self.strong: dict[int, Ints] = {}
        self._at: dict[Where, _Location] = {}
        self.memories: set[str] = set()  # where anything was released
        self.seen: dict[tuple[int, int], Release] = {}
        self.unacquired: dict[tuple[int, int], list[_Observed]] = {}  # CTA and warp
        self.keeps_states = keeps_states
        self.histories: dict[Where, History] = {}
        self._decision: Decision | None = None  # of the access that is being recorded
        self._unfilled: list[tuple[History, int, int, int]] = []  # a state that a row's thread is about to change

    def touched(self, access: AccessRecord, fences: Fences) -> None:
        """Record an access: a strong one releases and acquires; a read of a weak write observes nothing."""
        site, places = access.site, access.places
        self.seen.clear()
        if site.how.sem == "weak":
            for _, where in threads_of(access) if site.write and places.name in self.memories else ():
                self.overwritten(where)
            return
        releasing = site.write and site.how.sem in ("release", "acq_rel")
        wave = access.team.wave
        if not site.how.is_signal or wave.run.program.asks:
            if wave.first not in self.strong:
                self.strong[wave.first] = np.zeros((wave.ctas, wave.run.warps, 32), np.int64)
            self.strong[wave.first][access.team.ctas, access.team.warps] += access.seen.full
        if site.how.is_signal or not (self.awake or releasing):
            return
        self.awake = True
        self._decision = self._decided(access)
        if site.write:
            self.memories.add(places.name)
        every = list(threads_of(access, None if site.write else self._written_at(access)))
        if len(every) > 1:
            every = [every[k] for k in access.team.wave.run.precedence.taken(np.arange(len(every))).tolist()]
        for strong in _strong(access, every):
            self._of_warp(access, fences, strong)

    def _written_at(self, access: AccessRecord) -> Bools | None:
        """Which lanes touch a location of a global buffer where anything was written strongly? Many may poll others."""
        if not access.places.is_global or access.lone is not None:
            return None
        every = access.at.full()
        is_there = np.array([(access.places.name, address) in self._at for address in every.reshape(-1).tolist()])
        return spread(is_there.reshape(every.shape), access.team.shape)

    def _decided(self, access: AccessRecord) -> Decision | None:
        """The branch that is all that an access decides."""
        way = access.team.wave.run.decides
        if way is None or not self.histories:
            return None
        return Decision(way, access.site.peek(access.team, access.at), access.team)

    def found(self, team: Team, olds: Lanes) -> None:
        """Atomics have taken place, and found these values."""
        unfilled, self._unfilled = self._unfilled, []
        for history, number, row, thread in unfilled:
            lane = place_in(team, row, thread)
            history.found(number, int(olds[lane].view(UNITS[olds.itemsize])))

    def _of_warp(self, access: AccessRecord, fences: Fences, every: list[Strong]) -> None:
        """A warp touches locations; its lanes have no order among themselves."""
        site, clocks = access.site, access.clocks
        accesses = []
        for strong in every:
            released = fences.of(strong.row, strong.warp, strong.lanes) if site.write else []
            if site.write and not fences.tell_all(strong.row, strong.warp, strong.lanes):
                released += [
                    Pattern(strong.lanes, reach, strong.cta, known, clocks.wave.now, BY_SC, strong.warp)
                    for reach, known in clocks.by_sc.before(strong.row, strong.threads)
                ]
            if released or site.how.sem in RELEASES or strong.where in self._at:
                accesses.append((strong, released))
        for strong, _ in accesses if site.shows else ():
            self.read(clocks, strong)
        for strong, released in accesses if site.write else ():
            self.written(fences, strong, released)

    def overwritten(self, where: Where) -> None:
        """Record a weak write, of which a read observes nothing."""
        self._at.pop(where, None)
        self.histories.pop(where, None)

    def read(self, clocks: Clocks, access: Strong) -> None:
        """Record a strong read: what the lanes observe is acquired, now or by a later fence."""
        found = self._at.get(access.where)
        run = clocks.wave.run
        if found is None or found.release is None or not self._morally_strong(found, access, run):
            return
        release, is_newest = self._acquired(clocks, access, found.release)
        if release is None:
            return
        self.seen |= {(access.cta, thread): release for thread in access.threads}
        is_left = True
        if access.site.how.sem in ("acquire", "acq_rel"):
            known, (is_any,), (is_left,) = gathered(clocks, release.whole(clocks), [access.cta], access.site.how.scope)
            clocks.learn_each([(0, access.row, access.warp, access.lanes)] if is_any else [], known)
        if is_left:
            self.observed((access.cta, access.warp), access.lanes, release)
        if release.has_sc:
            found.readers |= {(access.cta, thread) for thread in access.threads if is_newest}
            clocks.by_sc.observe(access.row, access.warp, access.lanes, release)

    def _acquired(self, clocks: Clocks, access: Strong, newest: Release) -> tuple[Release | None, bool]:
        """What a read certainly observes, of what the last write there is part of; and is it that of the last write?"""
        history = self.histories.get(access.where)
        if history is None:
            return newest, True
        number = history.read(clocks, access.row, access.threads, self._decision)
        is_newest = number == history.newest
        return (newest if is_newest else history.states[number - history.first].release), is_newest

    def observed(self, key: tuple[int, int], lanes: int, release: Release) -> None:
        """What lanes of a warp may acquire by a later fence."""
        kept = self.unacquired.setdefault(key, [])
        for observed in kept:
            if observed.release is release:
                observed.lanes |= lanes
                return
            if observed.release.root is release.root:
                observed.lanes &= ~lanes  # who comes later to a location has observed more
        kept[:] = [*(observed for observed in kept if observed.lanes), _Observed(lanes, release)]

    def published(self, clocks: Clocks, where: Where) -> list[Pattern]:
        """The releases that whoever observes the last write there may acquire."""
        found = self._at.get(where)
        release = found.release if found is not None else None
        return [*release.whole(clocks).patterns.values()] if release is not None else []

    @staticmethod
    def _morally_strong(found: _Location, access: Strong, run: Device) -> bool:
        one, other = found.site, access.site
        if one.element != other.element:
            return False
        wide = one.how.scope in run.wide and other.how.scope in run.wide
        return wide or bool(hold_each_other(one.how.scope, found.cta, other.how.scope, access.cta, run))

    def written(self, fences: Fences, access: Strong, released: list[Pattern]) -> None:
        """A strong write: it publishes what the threads release, an atomic also what it has found there."""
        found, clocks = self._at.get(access.where), fences.clocks
        if access.site.how.sem in RELEASES:
            fences.released(access.row, access.threads[0], access.lanes, access.site.how.scope, access.where)
        released = [*released, *fences.of(access.row, access.warp, access.lanes, access.where)]
        release = self._kept(clocks, found, access)
        if release is not None or released:
            release = release.followed_by(clocks, released) if release is not None else Release.of(clocks, released)
        if release is not None or found is not None:
            self._at[access.where] = _Location(access.site, access.cta, release)
        if not access.site.how.atomic:
            self.histories.pop(access.where, None)
        elif self.keeps_states and self._decision is None:  # one that decides no more changes nothing
            if (history := self.histories.get(access.where)) is None:
                history = self.histories[access.where] = History(found.release if found is not None else None)
            self._unfilled.append((history, history.newest, access.row, access.threads[0]))
            history.written(access.cta, access.threads, access.time, release)

    def _kept(self, clocks: Clocks, found: _Location | None, access: Strong) -> Release | None:
        """What was published there before a write and is so still: an atomic hands all on. Who stores over what it has
        observed does so later for all (coherence): what came before that by way of fences, comes before the store.
        """
        if found is None or found.release is None or not self._morally_strong(found, access, clocks.wave.run):
            return None
        if access.site.how.atomic:
            return found.release
        has_read = (access.cta, access.threads[0]) in found.readers
        return found.release.behind_fences(clocks) if has_read else None

    def fenced(self, clocks: Clocks, who: Actors, sem: str, scope: str, *, of_shared: bool) -> None:
        """Lanes have passed a fence that acquires: what they have observed comes before them now; after one of kind sc
        also what comes before it by way of others.

        of_shared: as to shared memory alone.
        """
        by_release: dict[Release, list[tuple[int, int, int, _Observed]]] = {}
        for (row, warp), passed in zip(who.places, who.bits, strict=True):
            for observed in self.unacquired.get((row + clocks.wave.first, warp), ()):
                if lanes := observed.lanes & passed:
                    by_release.setdefault(observed.release, []).append((row, warp, lanes, observed))
        for release, some in by_release.items():
            ctas = [row + clocks.wave.first for row, *_ in some]
            known, is_any, is_left = gathered(clocks, release.whole(clocks), ctas, scope, of_shared=of_shared)
            heard = [(k, row, warp, lanes) for k, (row, warp, lanes, _) in enumerate(some) if is_any[k]]
            clocks.learn_each(heard, known)
            for k, (row, warp, lanes, observed) in enumerate(some):
                if not (is_left[k] or of_shared):
                    observed.lanes &= ~lanes  # they know it for good
                    if not observed.lanes:
                        self.unacquired[row + clocks.wave.first, warp].remove(observed)
        if sem == "sc":
            clocks.by_sc.fenced(who, scope, of_shared=of_shared)


def _strong(access: AccessRecord, threads: list[tuple[Thread, Where]]) -> Iterator[list[Strong]]:
    """Threads, a warp after the other, by location, as they act together: those that know the same then; of those that
    store, each.
    """
    site, first, together = access.site, access.team.wave.first, access.clocks.knower
    for (row, warp), lanes in groupby(threads, lambda lane: (lane[0][0], lane[0][1] >> 5)):
        alike: dict[tuple[Where, int], list[int]] = {}
        for (_, thread), where in lanes:
            knower = thread if site.write and not site.how.atomic else together.item(thread)
            alike.setdefault((where, knower), []).append(thread)
        yield [
            Strong(
                site, access.time, where, row + first, row, warp, (*some,), sum([1 << (thread & 31) for thread in some])
            )
            for (where, _), some in alike.items()
        ]


def threads_of(access: AccessRecord, some: Bools | None = None) -> Iterator[tuple[Thread, Where]]:
    """Row and thread of each lane of an access, or of some of them, and the location that it touches."""
    team, places = access.team, access.places
    if (lone := access.lone) is not None:
        yield (lone.row, lone.thread), (places.name, access.at.start)
        return
    active = team.full if some is None else team.full & some
    rows, warps, lanes = team.threads if some is None else team.look.places(active)
    address = spread(access.at.full(), team.shape)[active].tolist()
    for row, thread, where in zip(rows.tolist(), (32 * warps + lanes).tolist(), address, strict=True):
        memory = places.name if places.is_global else (places.name, team.wave.first + row)
        yield (row, thread), (memory, where)
