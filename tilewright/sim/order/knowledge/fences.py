"""Fences that release: what a thread knew at its last fence is published by its strong writes from then on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine import Entries, bits_of, lanes_in
from tilewright.sim.order.knowledge.clocks import Actors, Clocks
from tilewright.sim.order.knowledge.known import Known
from tilewright.sim.order.knowledge.releases import FENCE, RELEASE, SC_FENCE, Pattern, hold_each_other

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tilewright.sim.machine import Bools, Ints
    from tilewright.sim.order.knowledge.known import Times

PROXY_FENCES = 64  # kept: of one kind in a CTA

# Fences as points of the order: what comes before each of them, and which threads come after it.
#
# A fence counts for two accesses where the first comes before it and the other after it, by whatever channels. Lanes of
# a warp that pass a fence together are one point: each of them brings what all of them know, and its own accesses.


@dataclass(frozen=True, eq=False, slots=True)
class Stamps(Entries):
    """Accesses of threads of CTAs of the grid, and their times."""

    times: Ints
    ctas: Ints
    threads: Ints

    @classmethod
    def none(cls) -> Stamps:
        """Of no access."""
        return cls(*np.zeros((3, 0), np.int64))


@dataclass(eq=False, slots=True)  # not frozen: there are many, and freezing takes time
class FencePoint:
    """A fence that lanes of a warp, bits of a number, have passed at a time. known: what all of these lanes knew, a row
    of it; scope: "" where it does not count. first: the block of columns that it is about, 0 for all memory. kind: of
    patterns that begin with it. changes: of what its CTA knew, until then.
    """

    row: int
    warp: int
    lanes: int
    time: int
    known: Known
    scope: str
    first: int = 0
    kind: str = FENCE
    changes: int = 0
    fenced: Mapping[int, Times] = field(default_factory=dict)
    published: dict[int, Pattern] = field(default_factory=dict)  # by the lanes that write

    def covers(self, clocks: Clocks, passed: int, done: Stamps) -> Bools:
        """Do the fences of the lanes ``passed`` come after these accesses?"""
        own = (done.ctas == self.row + clocks.wave.first) & (done.threads >> 5 == self.warp)
        own = own & (passed >> (done.threads & 31) & 1 == 1) & (done.times <= self.time)
        return np.asarray(own | clocks.are_in(self.known, done.ctas, done.threads, done.times))


class FencePoints:
    """The last fences of one kind in each CTA of a wave."""

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        self._of: dict[int, list[FencePoint]] = defaultdict(list)

    def add(self, who: Actors, scope: str = "") -> None:
        """Threads have passed a fence."""
        self.clocks.wave.tick()
        for k, lanes, known in self.clocks.apart(who):
            row, warp = int(who.rows[k]), int(who.warps[k])
            here = self._of[row]
            here.append(FencePoint(row, warp, lanes, self.clocks.wave.now, known, scope))
            del here[:-PROXY_FENCES]

    def left(self, row: int, thread: int, done: Stamps, *, home: int | None = None, scope: str = "") -> Stamps:
        """The accesses that no fence comes after, of those that the thread of a CTA comes after.

        home: the CTA whose fences count; of all CTAs where None. scope: of the thread, if the scopes must hold both.
        """
        wave = self.clocks.wave
        for point, passed in self._before(row, thread, self._of if home is None else (home,)):
            if not scope or hold_each_other(scope, row + wave.first, point.scope, point.row + wave.first, wave.run):
                done = done[~point.covers(self.clocks, passed, done)]
            if not len(done):
                break
        return done

    def _before(self, row: int, thread: int, homes: Iterable[int]) -> Iterator[tuple[FencePoint, int]]:
        """The fences that a thread of a CTA comes after, the last first, and which of their lanes it comes after."""
        points = sorted((one for home in homes for one in self._of.get(home, ())), key=lambda one: -one.time)
        if not points:
            return
        each = (np.array([getattr(one, name) for one in points]).repeat(32) for name in ("row", "warp", "time"))
        rows, warps, times = each
        threads = 32 * warps + np.tile(np.arange(32), len(points))
        knowers = np.full(len(threads), self.clocks.knower[thread])
        ctas = rows + self.clocks.wave.first
        after = self.clocks.knows(np.full(len(threads), row), knowers, ctas, threads, times)
        after |= (rows == row) & (threads == thread)
        for point, lanes in zip(points, bits_of(after.reshape(-1, 32)), strict=True):
            if passed := lanes & point.lanes:
                yield point, passed


class Fences:
    """The knowledge of threads at their last fence, which their strong writes publish from then on; and at their last
    release on a location, which those there do. latest: by row and warp, and by the location of releases.
    """

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        self.latest: dict[tuple[int, int, object], list[FencePoint]] = {}

    def passed(self, who: Actors, scope: str, *, of_shared: bool, is_sc: bool = False) -> None:
        """Lanes have passed a fence that releases. of_shared: shared memory alone."""
        clocks, time = self.clocks, self.clocks.wave.now
        first = clocks.narrow if of_shared else 0
        tells = is_sc and not first and clocks.by_sc.is_plain and scope in clocks.wave.run.wide
        for k, lanes, known in clocks.apart(who):
            row, warp = who.places[k]
            about, changes = clocks.about_shared(known) if first else known, clocks.changes.item(clocks.row(row))
            self._add(FencePoint(row, warp, lanes, time, about, scope, first, SC_FENCE if tells else FENCE, changes))

    def tell_all(self, row: int, warp: int, lanes: int) -> bool:
        """Is all that comes before these lanes by way of fences what their own one tells?"""
        changes = self.clocks.changes.item(self.clocks.row(row))
        for passed in self.latest.get((row, warp, None), ()):
            if passed.kind == SC_FENCE and passed.changes == changes and not lanes & ~passed.lanes:
                return True
        return False

    def released(self, row: int, thread: int, lanes: int, scope: str, where: object) -> None:
        """Lanes of a thread's warp, which know the same as it, have released on a location."""
        clocks, warp = self.clocks, thread >> 5
        clocks.by_sc.settle([(row, warp)])
        fences, own = clocks.by_sc, slice(32 * warp, 32 * warp + 32)
        fenced = {block: fences.own[reach][row, own].copy() for reach, block in fences.first.items()}
        known = clocks.known_by(row, int(clocks.knower[thread]), clocks.cluster_of(np.array([row])))
        self._add(FencePoint(row, warp, lanes, clocks.wave.now, known, scope, kind=RELEASE, fenced=fenced), where)

    def _add(self, point: FencePoint, where: object = None) -> None:
        """The last one of these lanes, from now on."""
        kept, key = [], (point.row, point.warp, where)
        for one in self.latest.get(key, ()):
            if not one.lanes & point.lanes or (one.scope, one.first) != (point.scope, point.first):
                kept.append(one)
            elif left := one.lanes & ~point.lanes:
                kept.append(replace(one, lanes=left, published={}))
        self.latest[key] = [*kept, point]

    def scopes(self, row: int, thread: int) -> set[str]:
        """The scopes of the fences that a thread has passed."""
        points = self.latest.get((row, thread >> 5, None), ())
        return {passed.scope for passed in points if passed.lanes >> (thread & 31) & 1}

    def of(self, row: int, warp: int, lanes: int, where: object = None) -> list[Pattern]:
        """The knowledge that some lanes of a warp publish by a strong write: of fences, or of releases there."""
        patterns = []
        for passed in self.latest.get((row, warp, where), ()):
            if both := passed.lanes & lanes:
                if (pattern := passed.published.get(both)) is None:
                    pattern = passed.published[both] = self._pattern(passed, both)
                patterns.append(pattern)
        return patterns

    def _pattern(self, passed: FencePoint, lanes: int) -> Pattern:
        """What lanes that have passed a fence, or released, publish from then on."""
        known, those = passed.known, lanes_in(lanes)
        first = self.clocks.first_column(passed.row) + 32 * passed.warp
        times = known.threads.copy()
        mine = times[0]
        for lane in those:
            mine[passed.first + first + lane] = passed.time
        for block, own in passed.fenced.items():
            columns = [block + first + lane for lane in those]
            mine[columns] = np.maximum(mine[columns], own[[*those]])
        known = Known(times, known.parts, known.cluster, known.far)
        cta = passed.row + self.clocks.wave.first
        return Pattern(lanes, passed.scope, cta, known, passed.time, passed.kind, -1 if passed.first else passed.warp)
