"""Fences of kind sc: what comes before them comes before what follows another, where one order of the two is left.

Any two fence.sc that hold each other have an order, Fence-SC, and the earlier one synchronizes with the later. A run
decides which is the earlier; but where a strong write W after the one fence has been observed by a strong read R before
the other, one order is left. Were the fence after R the earlier, R would come before W in causality, and no read
observes a write that comes after it. So what comes before a fence F comes before all that follows a fence G where

    F -> W   the write comes after F in base causality, which may lead over barriers to another thread: ``first``
    W ~> R   the read observes the write, through atomics, all of them morally strong: `Release`
    R -> G   G comes after the read in base causality, over barriers too: ``seen``

and the scopes of F and G hold each other. Release and acquire patterns have their fences in the threads of W and R;
here other threads may fence. Both halves of the way are blocks of columns, which whoever hands on knowledge hands on
with it. Orders that a run fixes in other ways (by what a read has missed) are not looked at.

Source: PTX ISA, "Memory Consistency Model: Fence-SC, Synchronizes, Causality order, Coherence".
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import is_
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.order.bounds import FAR_CTAS, FAR_TIMES
from tilewright.sim.order.knowledge.known import Known, Remembered, published_flags, same
from tilewright.sim.order.knowledge.releases import gathered

if TYPE_CHECKING:
    from tilewright.sim.machine.arrays import Bools, Ints
    from tilewright.sim.order.knowledge.clocks import Actors, Clocks
    from tilewright.sim.order.knowledge.known import Far, Times
    from tilewright.sim.order.knowledge.releases import Release

LOWEST = 0xFF  # byte of flags
GRID, CLUSTER, CTA = "sys", "cluster", "cta"  # how far what a fence puts in order reaches, or who gets it


class KnownBySc:
    """What comes before each thread by way of a fence.sc, for fences that reach the GPU, and those of one CTA.

    first: by reach, the block of the clocks' columns that says so; of one CTA, only its own columns count, and a fence
    of the cluster is one of the CTA. seen: by the scope of the next fence.sc, the block of what that brings, as a read
    has observed a write behind such a fence; for the cluster and the CTA, a write by one of their threads. A block of
    proxy fences follows `Clocks.proxied` for each of these, a byte of flags the lowest. own: by reach, (CTAs, threads),
    up to when a thread itself has fenced what it did, of which the other lanes of its warp need not know.
    """

    def __init__(self, clocks: Clocks, first: int, scopes: set[str]) -> None:
        wide = clocks.wave.run.wide
        reaches = [GRID] * (not scopes.isdisjoint(wide)) + [CTA] * (not scopes <= {*wide})
        self.clocks = clocks
        self.first = {reach: first + k * clocks.size for k, reach in enumerate(reaches)}
        asked = [*reaches, *([CLUSTER] if GRID in reaches and CLUSTER in scopes else [])]
        self.seen = {scope: first + (len(reaches) + k) * clocks.size for k, scope in enumerate(asked)}
        self.columns = range(first, first + (len(reaches) + len(asked)) * clocks.size)
        self.has_observed = False
        self._last: dict[tuple[int, int, str], Known] = {}  # what came before the last write of each knower of a row
        self._of_far: Remembered[int, tuple[Far, Far, Far]] = Remembered(FAR_CTAS)
        self._of_cta: Remembered[int, tuple[Times, Times | None, Times]] = Remembered(FAR_TIMES)
        self.own = {reach: np.zeros((clocks.wave.ctas, clocks.threads), np.int32) for reach in reaches}

    @property
    def go_far(self) -> tuple[int, ...]:
        """The blocks of columns that threads of other clusters get."""
        return tuple(blocks[GRID] for blocks in (self.first, self.seen) if GRID in blocks)

    def publish(self, table: Times, at: Ints, columns: Ints, rows: Ints, threads: Ints) -> None:
        """In rows ``at`` of knowledge: what threads, whose columns these are, have fenced themselves."""
        for reach, first in self.first.items():
            table[at, first + columns] = np.maximum(table[at, first + columns], self.own[reach][rows, threads])

    def observed(self, who: Actors, release: Release) -> None:
        """Lanes of one CTA have observed a write, with what comes before it by way of fences."""
        clocks, cta = self.clocks, int(who.rows[0]) + self.clocks.wave.first
        for scope, block in self.seen.items():
            found, _ = gathered(clocks, release.by_sc, cta, scope, only="" if scope == CTA else GRID)
            if found is None:
                continue
            threads = np.zeros((1, clocks.width), np.int32)
            for columns, source in self._blocks(block):
                threads[:, columns] = found.threads[:, source]
            flags = np.asarray((found.parts & LOWEST) << self._shift(block), clocks.parts.dtype)
            far = self._far(found.far[0])[2] if found.far and scope == GRID else {}
            self.has_observed = True
            clocks.learn(who, Known(threads, flags, found.cluster, [far] if far else []))

    def fenced(self, who: Actors, scope: str) -> None:
        """Lanes have passed a fence.sc: they come after the fences before what was observed before theirs."""
        kind = GRID if scope in self.clocks.wave.run.wide else scope
        reaches = [reach for reach in self.first if reach in (kind, CTA)]
        if not reaches:
            return
        clocks = self.clocks
        clocks.expand()
        which, lane = np.nonzero(who.lanes)
        self._let_alone(who)
        rows, knowers = clocks.knowers_of(who)
        now, flags = clocks.known[rows, knowers], clocks.parts[rows, knowers]
        for reach in [reach for reach in self.seen if reach in (kind, CTA)]:
            for columns, source in self._blocks(self.seen[reach]):
                counts = self._counts(reach, rows, source.stop - source.start)
                now[:, source] = np.maximum(now[:, source], np.where(counts, now[:, columns], 0))
            flags |= flags >> self._shift(self.seen[reach]) & LOWEST if clocks.fences else 0
        for reach in reaches:
            self.own[reach][who.rows[which], 32 * who.warps[which] + lane] = clocks.now
            for columns, source in self._blocks(self.first[reach]):
                counts = self._counts(reach, rows, source.stop - source.start)
                now[:, columns] = np.maximum(now[:, columns], np.where(counts, now[:, source], 0))
            flags |= (published_flags(flags) & LOWEST) << self._shift(self.first[reach]) if clocks.fences else 0
        clocks.known[rows, knowers], clocks.parts[rows, knowers] = now, flags
        if GRID in reaches and clocks.far:
            for place in zip(rows.tolist(), knowers.tolist(), strict=True):
                if place in clocks.far:
                    clocks.far[place] = self._far(clocks.far[place])[0]

    def _let_alone(self, who: Actors) -> None:
        """Lanes that fence without the others of their warp know more than these, if anything was observed."""
        clocks, exists = self.clocks, self.clocks.wave.run.exists[0]
        some = (~who.lanes & exists[who.warps]).any(1) & (who.lanes.sum(1) > 1)
        for k in np.flatnonzero(some).tolist() if self.has_observed else ():
            clocks.let_alone(32 * int(who.warps[k]) + np.flatnonzero(who.lanes[k]))

    def _far(self, far: Far) -> tuple[Far, Far, Far]:
        """What is known of other clusters once it is fenced; what comes before by way of fences; and what has come
        before a write, for who observes that. Such knowledge never changes, and is handed on to many.
        """
        if (found := self._of_far.get(id(far))) is None:
            each = {cta: self._of_times(times) for cta, times in far.items()}
            whole = {cta: of[0] for cta, of in each.items()}
            whole = far if all(map(is_, whole.values(), far.values())) else whole
            before = {cta: of[1] for cta, of in each.items() if of[1] is not None}
            found = self._of_far.add(id(far), (whole, before, {cta: of[2] for cta, of in each.items()}), far)
        return found

    def _of_times(self, times: Times) -> tuple[Times, Times | None, Times]:
        """The same of one CTA, None for nothing."""
        if (found := self._of_cta.get(id(times))) is None:
            n = self.clocks.threads
            now, nothing = np.maximum(times[:n], times[2 * n :]), np.zeros(n, np.int32)
            before = same(np.concatenate((times[n : 2 * n], nothing, nothing))) if times[n : 2 * n].any() else None
            seen = same(np.concatenate((nothing, nothing, times[:n])))
            found = self._of_cta.add(id(times), (same(np.tile(now, 3)), before, seen), times)
        return found

    def _shift(self, block: int) -> int:
        """Where the byte of flags begins that goes with a block."""
        return 8 + 8 * self._number(block)

    def _number(self, block: int) -> int:
        return (block - self.columns.start) // self.clocks.size

    def _blocks(self, block: int) -> Iterator[tuple[slice, slice]]:
        """The columns of a block, and those that go with them: of accesses, and of proxy fences."""
        clocks = self.clocks
        yield slice(block, block + clocks.size), slice(0, clocks.size)
        proxied = clocks.proxied + (1 + self._number(block)) * clocks.fences
        count = clocks.wave.run.cluster_ctas * clocks.size // 32 if clocks.fences else 0
        yield slice(proxied, proxied + count), slice(clocks.proxied, clocks.proxied + count)

    def _counts(self, reach: str, rows: Ints, columns: int) -> Bools:
        """(n, columns): those of the CTA that what CTAs fence with that reach is about, of so many for a cluster."""
        ctas = np.arange(columns) * self.clocks.wave.run.cluster_ctas // max(columns, 1)
        found: Bools = (reach != CTA) | (ctas == self.clocks.wave.rank(rows)[:, None])
        return found

    def before(self, row: int, threads: Ints) -> Iterator[tuple[str, Known]]:
        """What comes before threads of a warp, which know the same and act together, by way of fences; by reach."""
        clocks = self.clocks
        knower, at = int(clocks.knower[threads[0]]), clocks.at(np.array([row]))
        own = int(clocks.first_column(np.array(row))) + threads
        for reach, block in self.first.items():
            times = np.zeros((1, clocks.width), np.int32)
            for columns, source in self._blocks(block):
                times[:, source] = clocks.known[at, knower, columns]
                if reach == CTA:
                    times[:, source] *= self._counts(reach, np.array([row]), source.stop - source.start)
            times[0, own] = np.maximum(times[0, own], self.own[reach][row, threads])
            far = clocks.far.get((row, knower), {}) if reach == GRID else {}
            far = self._far(far)[1] if far else far
            if times.any() or far:
                flags = np.asarray(clocks.parts[at, knower] >> self._shift(block) & LOWEST)
                known = Known(times, flags, clocks.cluster_of(np.array([row])), [far] if far else [])
                yield reach, self._same(row, knower, reach, known)

    def _same(self, row: int, knower: int, reach: str, known: Known) -> Known:
        """This, or the same of the last write, if nothing is new."""
        if self.clocks.fences:  # then numbers of operations in it may mean others by now
            return known
        last = self._last.get((row, knower, reach))
        if last is None or [*map(id, last.far)] != [*map(id, known.far)] or (last.threads != known.threads).any():
            last = self._last[row, knower, reach] = known
        return last
