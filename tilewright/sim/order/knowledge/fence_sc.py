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

Mostly the thread of R fences itself, and the thread of W has done so: then a release pattern tells all of it. So a read
is only noted (`observe`), and learnt when its warp hands on what it knows, if it has not fenced by then (`settle`).

Source: PTX ISA, "Memory Consistency Model: Fence-SC, Synchronizes, Causality order, Coherence".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.order.knowledge.known import (
    FAR_CTAS,
    Known,
    Remembered,
    ctas_in,
    joined,
    joined_others,
    published_flags,
)
from tilewright.sim.order.knowledge.releases import BY_SC, Pattern, gathered

if TYPE_CHECKING:
    from tilewright.sim.machine import Ints
    from tilewright.sim.order.knowledge.clocks import Actors, Clocks
    from tilewright.sim.order.knowledge.known import Far, Others, Times
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
        widest = {scope: REACHES.index(self._reach(scope)) for scope in scopes}
        self._within = {
            scope: [reach for reach in reaches if REACHES.index(reach) <= widest[scope]] for scope in scopes
        }
        self.seen = {reach: first + (len(reaches) + k) * clocks.size for k, reach in enumerate(reaches)}
        self.columns = range(first, first + 2 * len(reaches) * clocks.size)
        self.far_reaches = [reach for reach in reaches if reach in (GPU, GRID)]
        self.is_plain = reaches == [GRID] and not clocks.wave.run.program.has_asynchronous  # fences tell it
        self.has_observed = False
        self._pending: dict[tuple[int, int], dict[tuple[object, int], Release]] = {}  # see `observe`
        self._fenced: Remembered[Far] = Remembered(FAR_CTAS, ctas_in)  # what many threads fence alike
        self._only: Remembered[Far] = Remembered(FAR_CTAS, ctas_in)
        self.own = {reach: np.zeros((clocks.wave.ctas, clocks.threads), np.int32) for reach in reaches}

    @property
    def go_far(self) -> tuple[int, ...]:
        """The blocks of columns that threads of other clusters get."""
        return tuple(blocks[reach] for blocks in (self.first, self.seen) for reach in self.far_reaches)

    def _reach(self, scope: str) -> str:
        return GRID if scope in self.clocks.wave.run.wide else scope

    def publish(self, table: Times, at: Ints, columns: Ints, rows: Ints, threads: Ints) -> None:
        """In rows ``at`` of knowledge: what threads, whose columns these are, have fenced themselves."""
        for reach, first in self.first.items():
            table[at, first + columns] = np.maximum(table[at, first + columns], self.own[reach][rows, threads])

    def observe(self, row: int, warp: int, lanes: int, release: Release) -> None:
        """Lanes have observed a write, and with it what comes before that by way of fences. They learn it when they are
        about to hand it on; where they fence themselves before, they have it from the patterns.
        """
        self.has_observed = True
        self._pending.setdefault((row, warp), {})[release.root, lanes] = release

    def settle(self, places: Iterable[tuple[int, int]] | None = None) -> None:
        """Warps, or all, are about to hand on what they know."""
        for place in [*self._pending] if places is None else places if self._pending else ():
            for (_, lanes), release in self._pending.pop(place, {}).items():
                self.clocks.learn_each([(0, *place, lanes)], self._observed(place[0] + self.clocks.wave.first, release))

    def _passed(self, who: Actors) -> None:
        """Lanes pass a fence of theirs: what other fences tell, they have from the patterns."""
        for place, bits in zip(who.places, who.bits, strict=True):
            pending = self._pending.pop(place, {})
            left = ((key, release) for key, release in pending.items() if release.has_more or key[1] & ~bits)
            self._pending[place] = dict(left)

    def told_by(self, pattern: Pattern) -> Pattern:
        """Of what a fence of kind sc publishes, or others' do, what comes before by way of it."""
        if pattern.kind == BY_SC:
            return pattern
        before, size = pattern.known, self.clocks.size
        threads, far = np.zeros_like(before.threads), [self.far_of(blocks[0], 0) for blocks in before.far if blocks]
        threads[:, :size] = before.threads[:, :size]
        before = Known(threads, before.parts, before.cluster, far)
        return Pattern(pattern.lanes, GRID, pattern.cta, before, pattern.time, BY_SC, pattern.warp)

    def _observed(self, cta: int, release: Release) -> Known:
        """What a thread of a CTA that has observed a write gets of that which comes before it by way of fences."""
        clocks, known = self.clocks, Known.nothing(self.clocks, [cta])
        for scope, block in self.seen.items():
            heard, _, _ = gathered(clocks, release.whole(clocks, by_sc=True), [cta], scope, only=scope)
            for columns, source in self._blocks[block]:
                known.threads[:, columns] = heard.threads[:, source]
            known.parts |= np.asarray((heard.parts & LOWEST) << self._shift(block), clocks.parts.dtype)
            if scope in self.far_reaches and heard.far and heard.far[0][0]:
                far = self.far_of(heard.far[0][0], 1 + len(self.far_reaches) + self.far_reaches.index(scope))
                known.far = [joined(known.far[0], far) if known.far else far]
        return known

    def fenced(self, who: Actors, scope: str, *, of_shared: bool) -> None:
        """Lanes have passed a fence.sc: they come after the fences before what was observed before theirs."""
        if not (reaches := self._within.get(scope)):
            return
        clocks = self.clocks
        if self._pending and self.is_plain and not of_shared:
            self._passed(who)
        self.settle(who.places)
        changed = clocks.own(who.rows)
        clocks.changes[changed] += 1
        for reach in reaches:
            self.own[reach][who.every[1:]] = clocks.wave.now
        if places := clocks.knowers_of(who, few=self.has_observed):
            self._behind(places, reaches)

    def _behind(self, places: list[tuple[int, int]], reaches: list[str]) -> None:
        """Knowers of CTAs come after what fences bring, and hand on all of it by theirs."""
        clocks, (rows, knowers) = self.clocks, np.array(places, np.int64).T
        now = clocks.known[rows, knowers]
        for reach in reaches:
            self._hand_on(self.seen[reach], reach, rows, now, takes=True)
        for reach in reaches:
            self._hand_on(self.first[reach], reach, rows, now, takes=False)
        clocks.known[rows, knowers] = now
        if clocks.fences:
            flags = clocks.parts[rows, knowers]
            for reach in reaches:
                flags |= flags >> self._shift(self.seen[reach]) & LOWEST
            for reach in reaches:
                flags |= (published_flags(flags) & LOWEST) << self._shift(self.first[reach])
            clocks.parts[rows, knowers] = flags
        count = len([reach for reach in self.far_reaches if reach in reaches])
        for place in places if count and clocks.far else ():
            if place in clocks.far:
                clocks.far[place] = self._fenced.of(self._far_behind, clocks.far[place], count)

    def _hand_on(self, block: int, reach: str, rows: Ints, now: Times, *, takes: bool) -> None:
        """What a block of rows of knowledge says is known from now on; or, not ``takes``, the block says what is."""
        for columns, known in self._blocks[block]:
            source, target = (columns, known) if takes else (known, columns)
            mine = now[:, target]
            np.maximum(mine, self._counting(reach, rows, now[:, source]), out=mine)

    @staticmethod
    def _far_behind(far: Far, count: int) -> Far:
        """What is known of other clusters behind a fence that counts for so many of the first reaches that go far."""
        some, before = (len(far) - 1) // 2, far[0]
        for others in far[1 + some : 1 + some + count]:
            before = joined_others(before, others)
        fenced = (before,) * count
        return before, *fenced, *far[1 + count : 1 + some], *fenced, *far[1 + some + count :]

    def _far_before(self, far: Far, reach: str, own: int) -> Far:
        """What comes before a thread of a CTA by way of fences of a reach."""
        run = self.clocks.wave.run
        size = run.reach.get(reach, run.ctas)
        others = far[1 + self.far_reaches.index(reach)]
        if size < run.ctas:
            others = {cta: times for cta, times in others.items() if cta // size == own // size}
        return self.far_of(others, 0) if others else ()

    def far_of(self, others: Others, block: int) -> Far:
        """What is known of other clusters where this is all, of the block with a number among those that go far."""
        blocks = range(len(self.clocks.goes_far))
        return self._only.of(lambda others, block: tuple(others if k == block else {} for k in blocks), others, block)

    def _shift(self, block: int) -> int:
        """Where the byte of flags begins that goes with a block."""
        return 8 + 8 * self._number(block)

    def _number(self, block: int) -> int:
        return (block - self.columns.start) // self.clocks.size

    @cached_property
    def _blocks(self) -> dict[int, list[tuple[slice, slice]]]:
        """The columns of each block, and those that go with them: of accesses, and of proxy fences."""
        clocks, count = self.clocks, self.clocks.wave.run.cluster_ctas * self.clocks.size // 32
        blocks = {
            block: [(slice(block, block + clocks.size), slice(0, clocks.size))]
            for block in (*self.first.values(), *self.seen.values())
        }
        for block, pairs in blocks.items() if clocks.fences else ():
            proxied = clocks.proxied + (1 + self._number(block)) * clocks.fences
            pairs.append((slice(proxied, proxied + count), slice(clocks.proxied, clocks.proxied + count)))
        return blocks

    def _counting(self, reach: str, rows: Ints, times: Times) -> Times:
        """Those of the times, (n, columns), that what CTAs fence with that reach is about."""
        wave, columns = self.clocks.wave, times.shape[-1]
        if reach != CTA or wave.run.cluster_ctas == 1:
            return times
        ctas = np.arange(columns) * wave.run.cluster_ctas // columns
        return np.where(ctas == wave.rank(rows)[:, None], times, np.int32(0))

    def before(self, row: int, threads: tuple[int, ...]) -> Iterator[tuple[str, Known]]:
        """What comes before threads of a warp, which know the same and act together, by way of fences; by reach."""
        clocks, knower = self.clocks, int(self.clocks.knower[threads[0]])
        some = [*threads] if len(threads) > 1 else threads[0]
        at, start = clocks.row(row), int(clocks.first_column(row))
        for reach, block in self.first.items():
            fenced, now = self.own[reach][row, some], clocks.known[at, knower]
            far = clocks.far.get((row, knower), ()) if reach in self.far_reaches else ()
            far = self._far_before(far, reach, row + clocks.wave.first) if far else far
            before = (now[columns] for columns, _ in self._blocks[block])
            if far or np.count_nonzero(fenced) or any(map(np.count_nonzero, before)):
                times = np.zeros((1, clocks.width), np.int32)
                for columns, source in self._blocks[block]:
                    times[0, source] = now[columns]
                mine = times[0, start : start + clocks.threads]
                mine[some] = np.maximum(mine[some], fenced)
                flags = clocks.parts[at, knower][None]
                flags = np.asarray(flags >> self._shift(block) & LOWEST) if clocks.fences else flags
                yield reach, Known(times, flags, clocks.cluster_of(np.array([row])), [far] if far else [])
