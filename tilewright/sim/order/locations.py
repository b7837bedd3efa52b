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

from tilewright.sim.machine.arrays import Ints
from tilewright.sim.order.actors import Actors
from tilewright.sim.order.channels import Fences, Pattern
from tilewright.sim.order.clocks import Clocks, Far, Known, joined

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tilewright.sim.machine.arrays import Bools
    from tilewright.sim.order.accesses import Access

__all__ = ["Locations", "holds"]

Where: TypeAlias = "tuple[object, int]"  # a memory (a buffer's name, or the row of a CTA), and the address in it


def holds(scope: str, cta: Ints | int, other: Ints | int, cluster_ctas: int) -> Bools:
    """Does a scope of a thread of one CTA hold the threads of another? Of numbers, or of arrays of them."""
    reach = {"cta": 1, "cluster": cluster_ctas}.get(scope, 1 << 40)
    return np.asarray(np.floor_divide(cta, reach) == np.floor_divide(other, reach))


@dataclass(eq=False, slots=True)
class _Location:
    """The last write to a location. scope, cta, width: of that write; released: what may be acquired from it."""

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
    """The knowledge that strong accesses hand on. Nothing is kept before the first release."""

    def __init__(self) -> None:
        self.awake = False
        self._at: dict[Where, _Location] = {}
        self.memories: set[str] = set()  # where anything was released
        self.pending: dict[tuple[int, int], list[Pattern]] = {}  # CTA and warp: observed, and not yet acquired
        self.releases: dict[tuple[int, int, Where], Pattern] = {}  # the last by a thread on a location

    def touched(self, access: Access, fences: Fences) -> None:
        """Record an access: a strong one releases and acquires; a read of a weak write observes nothing."""
        site, places = access.site, access.places
        if site.sem == "weak":
            for _, where in _threads(access) if site.write and places.name in self.memories else ():
                self.overwritten(where)
            return
        releasing = site.write and site.sem in ("release", "acq_rel")
        if site.is_signal or not (self.awake or releasing):
            return
        self.awake = True
        if site.write:
            self.memories.add(places.name)
        threads = list(_threads(access))
        every = [threads[k] for k in access.batch.wave.run.precedence.taken(np.arange(len(threads))).tolist()]
        for _, warp in groupby(every, lambda each: (each[0][0], each[0][1] >> 5)):
            self._of_warp(access, fences, list(warp))  # the lanes have no order among themselves

    def _of_warp(self, access: Access, fences: Fences, threads: list[tuple[tuple[int, int], Where]]) -> None:
        site, clocks = access.site, access.clocks
        accesses = []
        for (row, thread), where in threads:
            own = np.arange(32) == thread & 31
            released = list(fences.of(row, thread >> 5, own)) if site.write else []
            if released or site.sem in ("release", "acq_rel") or self.has(where):
                cta = row + access.batch.wave.first
                strong = Strong(where, cta, row, thread, site.element, site.sem, site.scope, site.atomic)
                accesses.append((strong, released))
        for strong, _ in accesses if site.shows else ():
            self.read(clocks, strong)
        for strong, released in accesses if site.write else ():
            self.written(clocks, strong, released)

    def overwritten(self, where: Where) -> None:
        """Record a weak write, of which a read observes nothing."""
        self._at.pop(where, None)

    def has(self, where: Where) -> bool:
        """Was anything written strongly there that may be observed?"""
        return where in self._at

    def read(self, clocks: Clocks, access: Strong) -> None:
        """Record a strong read: what it observes is acquired, now or by a later fence."""
        found = self._at.get(access.where)
        size = clocks.wave.run.cluster_ctas
        if found is None or not self._morally_strong(found, access, size):
            return
        for pattern in found.released:
            seen = Pattern(np.arange(32) == access.thread & 31, pattern.scope, pattern.cta, pattern.known)
            if not (access.sem in ("acquire", "acq_rel") and self._acquire(clocks, access, seen, size)):
                self.observed((access.cta, access.thread >> 5), seen)

    def observed(self, key: tuple[int, int], seen: Pattern) -> None:
        """The knowledge that lanes of a warp may acquire by a later fence."""
        for pattern in (kept := self.pending.setdefault(key, [])):
            if pattern.known is seen.known and pattern.scope == seen.scope:
                pattern.lanes = pattern.lanes | seen.lanes
                return
        kept.append(seen)

    @staticmethod
    def _acquire(clocks: Clocks, access: Strong, seen: Pattern, size: int) -> bool:
        """Let a thread acquire a pattern if the scopes of both ends hold each other."""
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
        """Record a strong write: it publishes what the thread releases, an atomic also what the old value published."""
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

    def fenced(self, clocks: Clocks, who: Actors, scope: str, *, of_shared: bool) -> None:
        """Lanes have passed a fence that acquires: what they have observed comes before them now.

        of_shared: as to shared memory alone.
        """
        size = clocks.wave.run.cluster_ctas
        for k, (row, warp) in enumerate(zip(who.rows.tolist(), who.warps.tolist(), strict=True)):
            cta = row + clocks.wave.first
            waiting = self.pending.get((cta, warp), [])
            for pattern in waiting:
                lanes = pattern.lanes & who.lanes[k]
                mutual = holds(pattern.scope, pattern.cta, cta, size) and holds(scope, cta, pattern.cta, size)
                if lanes.any() and mutual:
                    known = clocks.about_shared(pattern.known) if of_shared else pattern.known
                    clocks.learn(Actors(who.rows[k : k + 1], who.warps[k : k + 1], lanes[None]), known)
                    pattern.lanes = pattern.lanes if of_shared else pattern.lanes & ~lanes  # these have acquired it
            waiting[:] = [pattern for pattern in waiting if pattern.lanes.any()]


def _merged(patterns: list[Pattern]) -> list[Pattern]:
    """Patterns that threads of one CTA have released with one scope, as one."""
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
    """The knowledge of other clusters in two rows, joined."""
    if not (a.far and b.far):
        return a.far or b.far
    return [joined(a.far[0], b.far[0])]


def _threads(access: Access) -> Iterator[tuple[tuple[int, int], Where]]:
    """Row and thread of each lane of an access, and the location that it touches."""
    batch, places = access.batch, access.places
    rows, warps, lanes = np.nonzero(np.broadcast_to(access.mask.full, batch.shape))
    address = np.broadcast_to(access.at.full(), batch.shape)[rows, warps, lanes].tolist()
    rows = rows * batch.ctas.step + batch.ctas.start
    threads = (warps * batch.warps.step + batch.warps.start) * 32 + lanes
    for row, thread, where in zip(rows.tolist(), threads.tolist(), address, strict=True):
        memory = places.name if places.is_global else (places.name, batch.wave.first + row)
        yield (row, thread), (memory, where)
