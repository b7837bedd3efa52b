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
from tilewright.sim.order.knowledge.known import Known, Remembered, joined, published_flags, same
from tilewright.sim.order.knowledge.releases import gathered

if TYPE_CHECKING:
    from tilewright.sim.machine import Ints
    from tilewright.sim.order.knowledge.clocks import Actors, Clocks
    from tilewright.sim.order.knowledge.known import Far, Times
    from tilewright.sim.order.knowledge.releases import Release

LOWEST = 0xFF  # byte of flags
REACHES = CTA, CLUSTER, GPU, GRID = "cta", "cluster", "gpu", "sys"  # how far what a fence puts in order reaches
MOST = 3  # of these at once: two bytes of flags for each


class KnownBySc:
    """What comes before each thread by way of a fence.sc, by how far the scope of that reaches.

    A scope that holds every thread reaches the grid, one of the GPU less only where several run the kernel. A fence
    counts for all that is no wider than its scope.

    first: by reach, the block of the clocks' columns that says so; of one CTA, or one GPU, only its own columns count.
    seen: by the reach of the next fence.sc, the block of what that brings, as a read has observed a write behind such a
    fence, by a thread within reach. A block of proxy fences follows `Clocks.proxied` for each of these, a byte of flags
    the lowest. own: by reach, (CTAs, threads), up to when a thread itself has fenced what it did, of which the other
    lanes of its warp need not know.
    """

    def __init__(self, clocks: Clocks, first: int, scopes: set[str]) -> None:
        self.clocks = clocks
        asked = {self._reach(scope) for scope in scopes}
        reaches = [reach for reach in REACHES if reach in asked]
        if len(reaches) > MOST:
            reaches.remove(CLUSTER)  # its fences are those of a CTA
        self.first = {reach: first + k * clocks.size for k, reach in enumerate(reaches)}
        self.seen = {reach: first + (len(reaches) + k) * clocks.size for k, reach in enumerate(reaches)}
        self.columns = range(first, first + 2 * len(reaches) * clocks.size)
        self.far_reaches = [reach for reach in reaches if reach in (GPU, GRID)]
        self.has_observed = False
        self._last: dict[tuple[int, int, tuple[int, ...]], tuple[int, list[tuple[str, Known]]]] = {}  # see `before`
        self._of_far: Remembered[tuple[object, ...], Far] = Remembered(FAR_CTAS)
        self._of_cta: Remembered[tuple[object, ...], Times | None] = Remembered(FAR_TIMES)
        self.own = {reach: np.zeros((clocks.wave.ctas, clocks.threads), np.int32) for reach in reaches}

    @property
    def go_far(self) -> tuple[int, ...]:
        """The blocks of columns that threads of other clusters get."""
        return tuple(blocks[reach] for blocks in (self.first, self.seen) for reach in self.far_reaches)

    def _reach(self, scope: str) -> str:
        return GRID if scope in self.clocks.wave.run.wide else scope

    def _within(self, scope: str) -> list[str]:
        """What a fence of a scope counts for."""
        widest = REACHES.index(self._reach(scope))
        return [reach for reach in self.first if REACHES.index(reach) <= widest]

    def publish(self, table: Times, at: Ints, columns: Ints, rows: Ints, threads: Ints) -> None:
        """In rows ``at`` of knowledge: what threads, whose columns these are, have fenced themselves."""
        for reach, first in self.first.items():
            table[at, first + columns] = np.maximum(table[at, first + columns], self.own[reach][rows, threads])

    def observed(self, ctas: list[int], release: Release) -> tuple[Known, list[bool]]:
        """What threads of CTAs that have observed a write get of that which comes before it by way of fences, a row for
        each of them; and whether that is anything.
        """
        clocks, known = self.clocks, Known.nothing(self.clocks, ctas)
        is_any = [False] * len(ctas)
        for scope, block in self.seen.items():
            found, those, _ = gathered(clocks, release.by_sc, ctas, scope, only=scope)
            if not any(those):
                continue
            for columns, source in self._blocks(block):
                known.threads[:, columns] = found.threads[:, source]
            known.parts |= np.asarray((found.parts & LOWEST) << self._shift(block), clocks.parts.dtype)
            if found.far and scope in self.far_reaches:
                far = [self._observed_far(of, scope) for of in found.far]
                known.far = [*map(joined, known.far, far)] if known.far else far
            is_any = [one or other for one, other in zip(is_any, those, strict=True)]
            self.has_observed = True
        return known, is_any

    def fenced(self, who: Actors, scope: str) -> None:
        """Lanes have passed a fence.sc: they come after the fences before what was observed before theirs."""
        reaches = self._within(scope)
        if not reaches:
            return
        clocks = self.clocks
        clocks.part()
        clocks.changes[who.rows] += 1
        which, lane = np.nonzero(who.lanes)
        self._let_alone(who)
        rows, knowers = clocks.knowers_of(who)
        now, flags = clocks.known[rows, knowers], clocks.parts[rows, knowers]
        for reach in reaches:
            for columns, source in self._blocks(self.seen[reach]):
                np.maximum(now[:, source], self._counting(reach, rows, now[:, columns]), out=now[:, source])
            flags |= flags >> self._shift(self.seen[reach]) & LOWEST if clocks.fences else 0
        for reach in reaches:
            self.own[reach][who.rows[which], 32 * who.warps[which] + lane] = clocks.now
            for columns, source in self._blocks(self.first[reach]):
                np.maximum(now[:, columns], self._counting(reach, rows, now[:, source]), out=now[:, columns])
            flags |= (published_flags(flags) & LOWEST) << self._shift(self.first[reach]) if clocks.fences else 0
        clocks.known[rows, knowers], clocks.parts[rows, knowers] = now, flags
        count = len([reach for reach in self.far_reaches if reach in reaches])
        if count and clocks.far:
            for place in zip(rows.tolist(), knowers.tolist(), strict=True):
                if place in clocks.far:
                    clocks.far[place] = self._fenced_far(clocks.far[place], count)

    def _let_alone(self, who: Actors) -> None:
        """Lanes that fence without the others of their warp know more than these, if anything was observed."""
        clocks, exists = self.clocks, self.clocks.wave.run.exists[0]
        some = (~who.lanes & exists[who.warps]).any(1) & (who.lanes.sum(1) > 1)
        for k in np.flatnonzero(some).tolist() if self.has_observed else ():
            clocks.let_alone(32 * int(who.warps[k]) + np.flatnonzero(who.lanes[k]))

    # What is known of other clusters never changes, and is handed on to many: so is what follows from it.

    def _fenced_far(self, far: Far, count: int) -> Far:
        """What is known of other clusters behind a fence that counts for the first so many reaches that go far."""
        if (found := self._of_far.get((id(far), count))) is None:
            found = {cta: self._fenced_times(times, count) for cta, times in far.items()}
            found = far if all(map(is_, found.values(), far.values())) else found
            self._of_far.add((id(far), count), found, far)
            self._of_far.add((id(found), count), found, found)
        return found

    def _fenced_times(self, times: Times, count: int) -> Times:
        if (found := self._of_cta.get((id(times), count))) is not None:
            return found
        blocks, some = times.reshape(-1, self.clocks.threads).copy(), len(self.far_reaches)
        blocks[0] = np.maximum(blocks[0], blocks[1 + some : 1 + some + count].max(0))
        blocks[1 : 1 + count] = blocks[1 + some : 1 + some + count] = blocks[0]
        after = same(blocks.reshape(-1))
        self._of_cta.add((id(times), count), after, times)
        self._of_cta.add((id(after), count), after, after)
        return after

    def _far_before(self, far: Far, reach: str, own: int) -> Far:
        """What comes before a thread of a CTA by way of fences of a reach."""
        run = self.clocks.wave.run
        size = run.reach.get(reach, run.ctas)
        key = id(far), reach, own // size
        if (found := self._of_far.get(key)) is None:
            at = 1 + self.far_reaches.index(reach)
            each = {cta: self._moved(times, at, 0) for cta, times in far.items() if cta // size == own // size}
            found = self._of_far.add(key, {cta: times for cta, times in each.items() if times is not None}, far)
        return found

    def _observed_far(self, far: Far, reach: str) -> Far:
        """What comes before a write, for those who observe it and fence then."""
        if (found := self._of_far.get((id(far), reach))) is None:
            at = 1 + len(self.far_reaches) + self.far_reaches.index(reach)
            each = {cta: self._moved(times, 0, at) for cta, times in far.items()}
            found = self._of_far.add((id(far), reach), {cta: of for cta, of in each.items() if of is not None}, far)
        return found

    def _moved(self, times: Times, source: int, target: int) -> Times | None:
        """One block of what is known of a CTA, as another one; None where there is nothing."""
        key = id(times), source, target
        if (found := self._of_cta.get(key)) is None and times.reshape(-1, self.clocks.threads)[source].any():
            blocks = np.zeros((len(times) // self.clocks.threads, self.clocks.threads), np.int32)
            blocks[target] = times.reshape(-1, self.clocks.threads)[source]
            found = self._of_cta.add(key, same(blocks.reshape(-1)), times)
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
        if clocks.fences:
            proxied = clocks.proxied + (1 + self._number(block)) * clocks.fences
            count = clocks.wave.run.cluster_ctas * clocks.size // 32
            yield slice(proxied, proxied + count), slice(clocks.proxied, clocks.proxied + count)

    def _counting(self, reach: str, rows: Ints, times: Times) -> Times:
        """Those of the times, (n, columns), that what CTAs fence with that reach is about."""
        wave, columns = self.clocks.wave, times.shape[-1]
        if reach != CTA or wave.run.cluster_ctas == 1:
            return times
        ctas = np.arange(columns) * wave.run.cluster_ctas // columns
        return np.where(ctas == wave.rank(rows)[:, None], times, np.int32(0))

    def before(self, every: list[tuple[int, tuple[int, ...]]]) -> list[list[tuple[str, Known]]]:
        """What comes before threads of a warp, which know the same and act together, by way of fences; by reach. every:
        rows and such threads.
        """
        clocks = self.clocks
        if not self.first:
            return [[] for _ in every]
        if clocks.fences:
            return self._before(every)
        times = clocks.changes[clocks.at(np.array([row for row, _ in every]))].tolist()
        keys = [(row, int(clocks.knower[own[0]]), own) for row, own in every]
        new = [k for k, key in enumerate(keys) if self._last.get(key, (-1, []))[0] != times[k]]
        for k, found in zip(new, self._before([every[k] for k in new]) if new else (), strict=True):
            _, last = self._last.get(keys[k], (-1, []))
            self._last[keys[k]] = times[k], [self._same(reach, known, last) for reach, known in found]
        return [self._last[key][1] for key in keys]

    def _before(self, every: list[tuple[int, tuple[int, ...]]]) -> list[list[tuple[str, Known]]]:
        clocks, rows = self.clocks, np.array([row for row, _ in every])
        knowers, at = clocks.knower[[own[0] for _, own in every]], clocks.at(rows)
        which = np.repeat(np.arange(len(every)), [len(own) for _, own in every])
        threads = np.array([thread for _, own in every for thread in own])
        own, clusters = clocks.first_column(rows[which]) + threads, clocks.cluster_of(rows)
        before: list[list[tuple[str, Known]]] = [[] for _ in every]
        for reach, block in self.first.items():
            times = np.zeros((len(every), clocks.width), np.int32)
            for columns, source in self._blocks(block):
                times[:, source] = clocks.known[at, knowers, columns]
            times[which, own] = np.maximum(times[which, own], self.own[reach][rows[which], threads])
            flags = np.asarray(clocks.parts[at, knowers] >> self._shift(block) & LOWEST)
            is_any = np.asarray(times.any(1)).tolist()
            for k, (row, knower) in enumerate(zip(rows.tolist(), knowers.tolist(), strict=True)):
                far = clocks.far.get((row, knower), {}) if reach in self.far_reaches else {}
                far = self._far_before(far, reach, row + clocks.wave.first) if far else far
                if is_any[k] or far:
                    here = slice(k, k + 1)
                    before[k].append((reach, Known(times[here], flags[here], clusters[here], [far] if far else [])))
        return before

    @staticmethod
    def _same(reach: str, known: Known, last: list[tuple[str, Known]]) -> tuple[str, Known]:
        """This, or the same of the last write, if nothing is new."""
        for other, before in last:
            if other == reach and [*map(id, before.far)] == [*map(id, known.far)]:
                return (reach, before) if (before.threads == known.threads).all() else (reach, known)
        return reach, known
