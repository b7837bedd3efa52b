"""Fences of kind sc: what comes before them comes before what follows another, where one order of the two is left.

Any two fence.sc that hold each other have an order, Fence-SC, and the earlier one synchronizes with the later. A run
decides which is the earlier; but where a strong write W after the one fence has been observed by a strong read R before
the other, one order is left. Were the fence after R the earlier, R would come before W in causality, and no read
observes a write that comes after it. So what comes before a fence F comes before all that follows a fence G where

    F -> W   the write comes after F in base causality, which may lead over barriers to another thread: `KnownBySc`
    W ~> R   the read observes the write, through atomics, all of them morally strong: `Release`
    R -> G   G comes after the read in base causality, over barriers too: `FencedReads`

and the scopes of F and G hold each other. Release and acquire patterns have their fences in the threads of W and R;
here other threads may fence. Orders that a run fixes in other ways (by what a read has missed) are not looked at.

Source: PTX ISA, "Memory Consistency Model: Fence-SC, Synchronizes, Causality order, Coherence".
"""

from __future__ import annotations

from bisect import insort
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import merge
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.order.bounds import FENCED_READS
from tilewright.sim.order.knowledge.actors import Actors
from tilewright.sim.order.knowledge.known import Known, published_flags
from tilewright.sim.order.knowledge.releases import take

if TYPE_CHECKING:
    from tilewright.sim.machine.arrays import Bools, Ints
    from tilewright.sim.order.knowledge.clocks import Clocks
    from tilewright.sim.order.knowledge.known import Far, Times
    from tilewright.sim.order.knowledge.releases import Release

__all__ = ["FencedRead", "FencedReads", "KnownBySc"]

WARPS = 32  # of a CTA, at most
CLUSTER = "cluster"  # a fence of that scope counts within its own CTA alone
LOWEST = 0xFF  # byte of flags
FAR_TIMES = 4096  # of which fences are remembered
GRID, CTA = "sys", "cta"  # how far what a fence puts in order reaches


class KnownBySc:
    """What comes before each thread by way of a fence.sc, for fences that reach the GPU, and those of one CTA.

    first: by reach, the block of the clocks' columns that says so; of one CTA, only its own columns count. A block of
    proxy fences follows `Clocks.proxied` for each reach, a byte of flags the lowest. own: by reach, (CTAs, threads), up
    to when a thread itself has fenced what it did, of which the other lanes of its warp need not know.
    """

    def __init__(self, clocks: Clocks, first: int, scopes: set[str]) -> None:
        wide = clocks.wave.run.wide
        reaches = [GRID] * (not scopes.isdisjoint(wide)) + [CTA] * (not scopes <= {*wide})
        self.clocks = clocks
        self.first = {reach: first + k * clocks.size for k, reach in enumerate(reaches)}
        self.columns = range(first, first + len(reaches) * clocks.size)
        self._seen: dict[int, tuple[Times, Times, Times | None]] = {}  # by the identity of the first
        self.own = {reach: np.zeros((clocks.wave.ctas, clocks.threads), np.int32) for reach in reaches}

    def publish(self, table: Times, at: Ints, columns: Ints, rows: Ints, threads: Ints) -> None:
        """In rows ``at`` of knowledge: what threads, whose columns these are, have fenced themselves."""
        for reach, first in self.first.items():
            table[at, first + columns] = np.maximum(table[at, first + columns], self.own[reach][rows, threads])

    def fenced(self, who: Actors, scope: str) -> None:
        """Lanes have passed a fence.sc."""
        reaches = [reach for reach in self.first if scope in self.clocks.wave.run.wide or reach == CTA]
        if not reaches:
            return
        clocks = self.clocks
        clocks.expand()
        which, lane = np.nonzero(who.lanes)
        rows, knowers = clocks.knowers_of(who)
        now, flags = clocks.known[rows, knowers], clocks.parts[rows, knowers]
        for reach in reaches:
            self.own[reach][who.rows[which], 32 * who.warps[which] + lane] = clocks.now
            for columns, source in self._blocks(reach):
                counts = self._counts(reach, rows, source.stop - source.start)
                now[:, columns] = np.maximum(now[:, columns], np.where(counts, now[:, source], 0))
            flags |= (published_flags(flags) & LOWEST) << self._shift(reach) if clocks.fences else 0
        clocks.known[rows, knowers], clocks.parts[rows, knowers] = now, flags
        if GRID in reaches and clocks.far:
            for place in zip(rows.tolist(), knowers.tolist(), strict=True):
                clocks.far[place] = {cta: self._far(times)[0] for cta, times in clocks.far.get(place, {}).items()}

    def _far(self, times: Times) -> tuple[Times, Times | None]:
        """What is known of a CTA of another cluster once it is fenced, and what comes before by way of fences, None for
        nothing. Such times never change, and are handed on to many.
        """
        if (found := self._seen.get(id(times))) is None:
            n = self.clocks.threads
            whole = times if np.array_equal(times[:n], times[n:]) else np.tile(times[:n], 2)
            before = np.concatenate((times[n:], np.zeros(n, np.int32))) if times[n:].any() else None
            if len(self._seen) >= FAR_TIMES:
                self._seen.clear()
            found = self._seen[id(times)] = (times, whole, before)
        return found[1:]

    def _shift(self, reach: str) -> int:
        """Where the byte of flags begins that is about a reach."""
        return 8 + 8 * list(self.first).index(reach)

    def _blocks(self, reach: str) -> Iterator[tuple[slice, slice]]:
        """The columns of a reach, and those that they are filled from: of accesses, and of proxy fences."""
        clocks, first = self.clocks, self.first[reach]
        yield slice(first, first + clocks.size), slice(0, clocks.size)
        proxied = clocks.proxied + (1 + list(self.first).index(reach)) * clocks.fences
        count = clocks.wave.run.cluster_ctas * clocks.size // 32 if clocks.fences else 0
        yield slice(proxied, proxied + count), slice(clocks.proxied, clocks.proxied + count)

    def _counts(self, reach: str, rows: Ints, columns: int) -> Bools:
        """(n, columns): those of the CTA that what CTAs fence with that reach is about, of so many for a cluster."""
        ctas = np.arange(columns) * self.clocks.wave.run.cluster_ctas // max(columns, 1)
        found: Bools = (reach == GRID) | (ctas == self.clocks.wave.rank(rows)[:, None])
        return found

    def before(self, row: int, threads: Ints) -> Iterator[tuple[str, Known]]:
        """What comes before threads of a warp, which know the same and act together, by way of fences; by reach."""
        clocks = self.clocks
        knower = int(clocks.knower[threads[0]])
        for reach in self.first:
            times, at = np.zeros((1, clocks.width), np.int32), clocks.at(np.array([row]))
            for columns, source in self._blocks(reach):
                counts = self._counts(reach, np.array([row]), source.stop - source.start)
                times[:, source] = np.where(counts, clocks.known[at, knower, columns], 0)
            own = int(clocks.first_column(np.array(row))) + threads
            times[0, own] = np.maximum(times[0, own], self.own[reach][row, threads])
            far: Far = {}
            for cta, there in clocks.far.get((row, knower), {}).items() if reach == GRID else ():
                if (before := self._far(there)[1]) is not None:
                    far[cta] = before
            if times.any() or far:
                flags = np.asarray(clocks.parts[at, knower] >> self._shift(reach) & LOWEST)
                yield reach, Known(times, flags, clocks.cluster_of(np.array([row])), [far] if far else [])


@dataclass(eq=False, slots=True)
class FencedRead:
    """A strong read: by which threads of a warp, of a CTA of the grid, when, and what had been published there.

    taken: by scope of a fence and its CTA, (warps, 32), who has taken that over.
    """

    cta: int
    threads: tuple[int, ...]
    time: int
    release: Release
    taken: dict[tuple[str, int], Bools] = field(default_factory=dict)

    def taken_by(self, scope: str, cta: int) -> Bools:
        """(warps, 32): who has taken it over by a fence of that scope."""
        return self.taken.setdefault((scope, cta), np.zeros((WARPS, 32), np.bool_))


class _ByDepth:
    """Reads, those of later links of their chains of atomics first. roots: how many there are of each chain."""

    def __init__(self) -> None:
        self.reads: list[FencedRead] = []
        self.roots: Counter[object] = Counter()

    def add(self, read: FencedRead) -> None:
        insort(self.reads, read, key=_depth)
        self.roots[read.release.root] += 1

    def remove(self, read: FencedRead) -> None:
        self.reads.remove(read)
        self.roots[read.release.root] -= 1
        if not self.roots[read.release.root]:
            del self.roots[read.release.root]


def _depth(read: FencedRead) -> int:
    return -read.release.depth


class FencedReads:
    """The strong reads that have observed what comes after a fence.sc: the last of each CTA of the grid, and of all."""

    def __init__(self) -> None:
        self._of: dict[int, dict[tuple[tuple[int, ...], int], FencedRead]] = {}
        self._own: dict[int, _ByDepth] = {}
        self._last: deque[FencedRead] = deque()
        self._all = _ByDepth()  # of the last ones

    def add(self, read: FencedRead) -> None:
        """Threads have observed what was published."""
        known, own = self._of.setdefault(read.cta, {}), self._own.setdefault(read.cta, _ByDepth())
        if (read.threads, id(read.release)) in known:
            return  # they poll
        known[read.threads, id(read.release)] = read
        own.add(read)
        self._last.append(read)
        self._all.add(read)
        if len(known) > FENCED_READS:
            own.remove(known.pop(next(iter(known))))
        if len(self._last) > FENCED_READS:
            self._all.remove(self._last.popleft())

    def fenced(self, clocks: Clocks, who: Actors, scope: str) -> None:
        """Lanes have passed a fence.sc: they come after the fences that come before what was seen before theirs."""
        for row in np.unique(who.rows).tolist() if self._last else ():
            those = who[who.rows == row]
            cta = row + clocks.wave.first
            found: dict[bytes, list[Release]] = {}
            for read, lanes in self._left(_Fenced(clocks, those), scope, cta):
                read.taken_by(scope, cta)[those.warps] |= lanes
                found.setdefault(lanes.tobytes(), []).append(read.release)
            for taken, releases in found.items():
                each = np.frombuffer(taken, np.bool_).reshape(those.lanes.shape)
                some = each.any(1)
                take(clocks, Actors(those.rows[some], those.warps[some], each[some]), scope, releases, by_sc=True)

    def _left(self, fenced: _Fenced, scope: str, cta: int) -> Iterator[tuple[FencedRead, Bools]]:
        """Reads, and the lanes that come after each and have not taken it over, nor a later link of its chain."""
        own = self._own.get(cta, _ByDepth())
        left = self._all.roots.keys() | own.roots.keys()
        covered: dict[object, Bools] = {}  # by chain, who has a later link
        others = (read for read in self._all.reads if read.cta != cta)
        for read in merge(own.reads, others, key=_depth):
            root = read.release.root
            if root not in left:
                continue
            done = covered.get(root, ~fenced.who.lanes) | read.taken_by(scope, cta)[fenced.who.warps]
            if (after := fenced.come_after(read)) is not None and (lanes := after & ~done).any():
                done = done | lanes
                yield read, lanes
            covered[root] = done
            if done.all():  # nobody needs an earlier link
                left = left - {root}
                if not left:
                    return


class _Fenced:
    """Lanes of one CTA that pass a fence."""

    def __init__(self, clocks: Clocks, who: Actors) -> None:
        self.clocks, self.who = clocks, who
        self.threads = 32 * who.warps[:, None] + np.arange(32)
        self.knowers, each = np.unique(clocks.knower[self.threads], return_inverse=True)
        self.each = each.reshape(self.threads.shape)
        self.row = int(who.rows[0])
        self.known = clocks.known[clocks.at(who.rows[:1]), self.knowers]
        self.fars = [clocks.far.get((self.row, knower), {}) for knower in self.knowers.tolist()]
        size = clocks.wave.run.cluster_ctas
        first = int(clocks.cluster_of(who.rows[:1])[0]) * size
        self.near = range(first, first + size)

    def come_after(self, read: FencedRead) -> Bools | None:
        """(warps, 32): which lanes come after a read; None for none."""
        clocks = self.clocks
        if read.cta in self.near:
            columns = (read.cta - self.near.start) * clocks.threads + np.array(read.threads)
            after = (self.known[:, columns] >= read.time).any(1)
        else:
            knowers = [k for k, far in enumerate(self.fars) if _holds(far.get(read.cta), read)]
            if not knowers:
                return None
            after = np.zeros(len(self.fars), np.bool_)
            after[knowers] = True
        found: Bools = after[self.each]
        if read.cta == self.row + clocks.wave.first:
            found = found | np.isin(self.threads, read.threads)
        return found & self.who.lanes


def _holds(far: Times | None, read: FencedRead) -> bool:
    """Do times of the CTA of a read hold one of its threads?"""
    if far is not None:
        for thread in read.threads:
            if far[thread] >= read.time:
                return True
    return False
