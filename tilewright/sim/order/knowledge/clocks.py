"""The clocks of a wave of CTAs: what each thread knows of every other thread, and of asynchronous operations.

Time is the number of a record: each statement that touches memory makes one, and a thread's accesses come in their
order. To know a thread up to a time is to come after all that it did until then. Knowledge is kept per warp, as what
all of its lanes know; a lane that knows more has a row of its own until it meets its warp again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tilewright.sim.machine import Actors, Bools, CtaRows, Ints, Look, Rows, Team, Wave, bits_of, lanes_in, numbers
from tilewright.sim.order.knowledge.fence_sc import KnownBySc
from tilewright.sim.order.knowledge.known import (
    BEGUN,
    HEARD,
    ISSUED,
    OFFERED,
    ORDERED,
    SEEN,
    Far,
    Known,
    Ledger,
    gather_at,
    joined,
    published_flags,
    same,
    widened,
)
from tilewright.sim.order.knowledge.phases import SignalHistory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tilewright.sim.order.knowledge.known import Flags, Others, Times

__all__ = ["FOREVER", "NUMBERS", "THREADS", "Actors", "Clocks", "Heard", "Thread", "numbered"]
Thread: TypeAlias = "tuple[int, int]"  # its CTA of the grid, and its number there

THREADS = 1 << 10  # of a CTA, at most


def numbered(cta: Ints, thread: Ints) -> Ints:
    """One number for each thread of a CTA, of which ``divmod(number, THREADS)`` gives both back."""
    return cta * THREADS + thread


Heard: TypeAlias = "tuple[int, int, int, int]"  # a row of what is heard; by whom: row, warp, bits of lanes
NUMBERS = 256  # of operations' parts, to begin with
FOREVER = 1 << 30  # the time up to which threads are known that do not exist


class Clocks(CtaRows):
    """The clocks of a wave.

    known: (rows, knowers, columns), times. A knower is a warp, or a lane that knows more than its warp; ``knower`` says
    which each thread is. The columns are blocks, beginning at

        0        for each thread of the cluster, the time up to which what it did comes first
        loose    the same for its reads, which come first in practice, though no scope says so; in clusters
        by_sc    the same by way of fences of kind sc, and what the next of these would bring, see `KnownBySc`; where
                 there are any
        narrow   the same for accesses of shared memory; where fences of shared memory alone are used
        proxied  for each CTA and each warp of the cluster, the time up to which a proxy fence in that CTA comes after
                 what the warp did, and once more for each block of by_sc; where there are operations

    parts: (rows, knowers, numbers), flags of parts of operations; number 0 belongs to no part and is known. kept: other
    flags, which follow when numbers are used again; `current` is for those in patterns. far: by row and knower, what is
    known of CTAs of other clusters.

    floor: up to then all threads know all others of their CTA. changes: of each row, counted.
    """

    tables = ("known", "parts", "changes")

    def __init__(self, wave: Wave, *, has_parts: bool) -> None:
        self.wave = wave
        run = wave.run
        self.threads = 32 * run.warps
        self.size: int = run.cluster_ctas * self.threads
        self.loose: int = self.size if run.cluster_ctas > 1 else 0
        first = self.size + self.loose
        self.by_sc = KnownBySc(self, first, run.program.sc_scopes)
        first = self.by_sc.columns.stop
        self.narrow: int = first if run.program.fences_shared else 0
        first += self.size if self.narrow else 0
        self.proxied: int = first
        fences = run.cluster_ctas * self.size // 32 if has_parts else 0
        self.fences: int = -(-fences // 32) * 32
        self.width: int = first + self.fences * (1 + len(self.by_sc.columns) // self.size)
        self.goes_far = (0, *self.by_sc.go_far)
        rows = 1 if run.cluster_ctas == 1 and not has_parts else wave.ctas
        super().__init__(rows, wave.ctas)
        self.known: Times = np.zeros((rows, run.warps, self.width), np.int32)
        self.known[..., : self.proxied][..., np.tile(~run.exists.reshape(-1), self.proxied // self.threads)] = FOREVER
        self.known[..., list(self.by_sc.columns)] = 0
        flags = np.uint64 if self.by_sc.first and has_parts else np.uint8
        self.parts: Flags = np.zeros((rows, run.warps, NUMBERS if has_parts else 1), flags)
        self.parts[..., 0] = SEEN | OFFERED | HEARD | ORDERED
        self.knower: Ints = np.arange(self.threads) >> 5
        self.alone: dict[int, int] = {}  # thread -> the knower that it is
        self.exist = bits_of(run.exists[0])  # of each warp
        self._alone_in = [0] * run.warps  # of each warp, the lanes that are
        self.far: dict[tuple[int, int], Far] = {}  # row and knower
        self.kept: list[Ledger | Known] = []  # of which flags are there
        self.forgotten = np.zeros(self.parts.shape[-1], np.int64)  # when each number was free again
        self.signal_history = SignalHistory()
        self.changes = np.zeros(rows, np.int64)
        wave.now = BEGUN
        self.floor = 0
        self._bounds: dict[object, Times] = {}

    def parted(self) -> None:
        self._changed()

    def _changed(self) -> None:
        self._bounds.clear()

    def first_column(self, rows: Rows) -> Rows:
        """Where the threads of CTAs are among those of their cluster."""
        return self.wave.rank(rows) * self.threads

    def cluster_of(self, rows: Ints) -> Ints:
        """The number in the grid of the clusters that CTAs are in."""
        return np.asarray((rows + self.wave.first) // self.wave.run.cluster_ctas)

    # Questions of accesses

    def known_warps(self, look: Look) -> Times:
        """(rows, warps, warps of the own CTA): up to when each warp of a batch knows all lanes of each other."""
        if look.key not in self._bounds:
            mine = self.known[self.taken(look.ctas), look.warps]
            if self.wave.run.cluster_ctas > 1:
                own = self.first_column(np.array(numbers(look.ctas)))[:, None, None] + np.arange(self.threads)
                mine = np.take_along_axis(mine, own, axis=-1)
            self._bounds[look.key] = mine[..., : self.threads].reshape(*mine.shape[:2], -1, 32).min(-1)
        return self._bounds[look.key]

    @property
    def of_shared(self) -> tuple[int, ...]:
        """The blocks of columns that count for shared memory, beside the first."""
        return (self.narrow,) if self.narrow else ()

    def knows(
        self, rows: Ints, knowers: Ints, ctas: Ints, threads: Ints, times: Ints, *, also: tuple[int, ...] = ()
    ) -> Bools:
        """Does each knower of the CTAs in ``rows`` know those threads of CTAs of the grid up to those times?

        threads: one each, or a row of several. also: the first columns of further blocks that count.
        """
        size = self.wave.run.cluster_ctas
        near = ctas // size == self.cluster_of(rows)
        columns = np.where(near, ctas % size * self.threads + threads, 0)
        answer: Bools = self.known[self.at(rows), knowers, columns] >= times
        for first in also:
            answer |= self.known[self.at(rows), knowers, columns + first] >= times
        answer &= near
        if self.far and not near.all():
            for k in np.flatnonzero(~near).tolist():
                far = self.far.get((rows.item(k), knowers.item(k)))
                there = far[0].get(ctas.item(k)) if far else None
                answer[k] = there is not None and there[threads[k]] >= times[k]
        return answer

    def is_known(self, row: int, knower: int, cta: int, thread: int, time: int, *, also: tuple[int, ...] = ()) -> bool:
        """`knows`, of one thread by one."""
        size = self.wave.run.cluster_ctas
        if cta // size != (row + self.wave.first) // size:
            far = self.far.get((row, knower))
            there = far[0].get(cta) if far else None
            return there is not None and bool(there[thread] >= time)
        known, column = self.known[self.row(row), knower], cta % size * self.threads + thread
        return any(known[column + first] >= time for first in (0, *also))

    def are_in(self, known: Known, ctas: Ints, threads: Ints, times: Ints) -> Bools:
        """Does the first row of knowledge hold those threads of CTAs of the grid up to those times?"""
        size = self.wave.run.cluster_ctas
        near = ctas // size == int(known.cluster[0])
        answer = near & (known.threads[0, np.where(near, ctas % size * self.threads + threads, 0)] >= times)
        for cta, there in known.far[0][0].items() if known.far and known.far[0] else ():
            answer |= (ctas == cta) & (there[threads] >= times)
        return np.asarray(answer)

    def flags_of(self, rows: Ints, knowers: Ints) -> Flags:
        """(n, numbers): what knowers know of the parts of operations."""
        return np.asarray(self.parts[self.at(rows), knowers])

    # Handing knowledge on

    def published(self, who: Actors) -> Known:
        """All that these lanes have done or know by now, to be handed on."""
        self.by_sc.settle(who.places)
        rows = self.at(who.rows)
        threads, parts = self.known[rows, who.warps], published_flags(self.parts[rows, who.warps])
        far = [self.far.get(place, ()) for place in who.places] if self.far else []
        if alone := self.lanes_alone(who):
            which, lane = np.array(alone).T
            own = rows[which], self.knower[lane]
            gather_at(np.maximum, threads, which, self.known[own])
            gather_at(np.bitwise_or, parts, which, published_flags(self.parts[own]))
            for k, thread in alone if far else ():
                far[k] = joined(far[k], self.far.get((who.rows.item(k), self.alone[thread]), ()))
        which, ctas, number = who.every
        if len(which):
            columns = self.first_column(ctas) + number
            threads[which, columns] = np.maximum(threads[which, columns], self.wave.now)
            self.by_sc.publish(threads, which, columns, ctas, number)
        return Known(threads, parts, self.cluster_of(who.rows), far)

    def apart(self, who: Actors) -> Iterator[tuple[int, int, Known]]:
        """Of each warp its number, and lanes that know the same, with that: all that they know together, and one by one
        those lanes that know more. Their own accesses are not in it.
        """
        self.by_sc.settle(who.places)
        clusters = self.cluster_of(who.rows)
        for k, ((row, warp), bits) in enumerate(zip(who.places, who.bits, strict=True)):
            alone = bits & self._alone_in[warp]
            for lane in lanes_in(alone):
                yield k, 1 << lane, self.known_by(row, self.alone[32 * warp + lane], clusters[k : k + 1])
            if bits & ~alone:
                yield k, bits & ~alone, self.known_by(row, warp, clusters[k : k + 1])

    def known_by(self, row: int, knower: int, cluster: Ints) -> Known:
        """What a knower of a CTA, which is in a cluster, knows by now, to be handed on."""
        at = self.row(row), slice(knower, knower + 1)
        far = [self.far.get((row, knower), ())] if self.far else []
        return Known(self.known[at].copy(), published_flags(self.parts[at]), cluster, far)

    def about_shared(self, known: Known) -> Known:
        """The part of this knowledge that a fence of shared memory alone hands on."""
        threads = np.zeros_like(known.threads)
        threads[:, self.narrow : self.proxied] = self.times_of_shared(known)
        proxied = slice(self.proxied, self.proxied + self.fences)
        threads[:, proxied] = known.threads[:, proxied]
        return Known(threads, known.parts, known.cluster)

    def times_of_shared(self, known: Known) -> Times:
        """Up to when threads of the cluster are known as to shared memory."""
        return np.maximum(known.threads[:, : self.size], known.threads[:, self.narrow : self.narrow + self.size])

    def learn(self, who: Actors, known: Known) -> None:
        """These lanes, no warp twice, come after what was published, a row of it for each."""
        are_whole = not self.alone and (who.lanes | ~self.wave.run.exists[0][who.warps]).all()
        if known.far or not are_whole or (known.cluster != self.cluster_of(who.rows)).any():
            every = enumerate(zip(who.places, who.bits, strict=True))
            self.learn_each([(k, row, warp, bits) for k, ((row, warp), bits) in every], known)
        elif len(who):
            self.part()
            self.changes[who.rows] += 1
            self.known[who.rows, who.warps] = np.maximum(self.known[who.rows, who.warps], known.threads)
            self.parts[who.rows, who.warps] |= known.parts
            self._changed()

    def learn_each(self, every: list[Heard], known: Known) -> None:
        """`learn` for lanes of warps of which one may be there more than once."""
        if not every:
            return
        self.part()
        lanes = dict.fromkeys((warp, bits) for _, _, warp, bits in every)
        for warp, bits in lanes:  # before anyone learns: later ones may leave lanes alone
            self._learners(warp, bits)
        learners = {(warp, bits): self._learners(warp, bits) for warp, bits in lanes}
        heard = [(k, row, knower) for k, row, warp, bits in every for knower in learners[warp, bits]]
        which, rows, knowers = np.array(heard).T
        if known.far or (known.cluster[which] != self.cluster_of(rows)).any():
            for k, row, knower in heard:
                self._hear(row, knower, known, k)
        else:
            np.add.at(self.changes, rows, 1)
            places = rows * self.known.shape[1] + knowers
            gather_at(np.maximum, self.known.reshape(-1, self.known.shape[2]), places, known.threads[which])
            gather_at(np.bitwise_or, self.parts.reshape(-1, self.parts.shape[2]), places, known.parts[which])
        self._changed()

    def _learners(self, warp: int, bits: int) -> list[int]:
        """The knowers that learn what some lanes of a warp do: these alone from now on, if others exist."""
        is_whole = not self.exist[warp] & ~bits
        if not is_whole and bits & ~self._alone_in[warp]:
            self.let_alone(np.array([32 * warp + lane for lane in lanes_in(bits)]))
        alone = [self.alone[32 * warp + lane] for lane in lanes_in(self._alone_in[warp] if is_whole else bits)]
        return [warp, *alone] if is_whole else alone

    def _hear(self, row: int, knower: int, known: Known, k: int) -> None:
        """A knower of a CTA comes after what a row of knowledge tells."""
        self.changes[row] += 1
        far = known.far[k] if known.far else ()
        if known.cluster.item(k) == (row + self.wave.first) // self.wave.run.cluster_ctas:
            mine = self.known[row, knower]
            np.maximum(mine, known.threads[k], out=mine)
        else:
            far = joined(far, self.near_as_far(known.cluster.item(k), known.threads[k]))
        if self.parts.shape[-1] > 1:
            self.parts[row, knower] |= known.parts[k]
        if far:
            self._hear_far(row, knower, far)

    def _hear_far(self, row: int, knower: int, far: Far) -> None:
        """A knower comes after this of other clusters; what is of its own returns there."""
        before = self.far.get((row, knower), ())
        after = joined(before, far)
        if after is before:
            return
        self.far[row, knower] = after
        size = self.wave.run.cluster_ctas
        first = (row + self.wave.first) // size * size
        for block, others in zip(self.goes_far, far, strict=True):
            for rank in range(size):
                if (times := others.get(first + rank)) is not None:
                    start = block + rank * self.threads
                    mine = self.known[row, knower, start : start + self.threads]
                    np.maximum(mine, times, out=mine)

    def near_as_far(self, cluster: int, times: Times) -> Far:
        """What a row of knowledge holds of its own cluster, for others."""
        ctas, width, blocks = self.wave.run.cluster_ctas, self.threads, []
        for first in self.goes_far:
            by_cta: Others = {}
            for rank in range(ctas):
                of_cta = times[first + rank * width : first + (rank + 1) * width]
                if np.count_nonzero(of_cta):
                    by_cta[cluster * ctas + rank] = same(of_cta)
            blocks.append(by_cta)
        return tuple(blocks)

    def knowers_of(self, who: Actors, *, few: bool) -> list[tuple[int, int]]:
        """Rows and knowers that these lanes are: warps of which all lanes are there, and lanes that know more. A lane
        that acts alone is one of those from now on; where a ``few`` do, so is each of them.
        """
        knowing = []
        for (row, warp), bits in zip(who.places, who.bits, strict=True):
            if not self.exist[warp] & ~bits:
                knowing.append((row, warp))
            elif bits & ~self._alone_in[warp] and (few or not bits & (bits - 1)):
                self.let_alone(np.array([32 * warp + lane for lane in lanes_in(bits)]))
        return knowing + [(who.places[k][0], self.alone[thread]) for k, thread in self.lanes_alone(who)]

    def lanes_alone(self, who: Actors) -> list[tuple[int, int]]:
        """The threads that know more than their warps, each with the number of its actor."""
        if not self.alone:
            return []
        every = enumerate(zip(who.places, who.bits, strict=True))
        return [
            (k, 32 * warp + lane) for k, ((_, warp), bits) in every for lane in lanes_in(bits & self._alone_in[warp])
        ]

    def let_alone(self, threads: Ints) -> None:
        """These threads are knowers from now on, as they know more than their warps do."""
        new = threads[self.knower[threads] == threads >> 5]
        if not len(new):
            return
        new = np.unique(new)
        warps, first = new >> 5, self.known.shape[1]
        self.known = np.concatenate((self.known, self.known[:, warps]), axis=1)
        self.parts = np.concatenate((self.parts, self.parts[:, warps]), axis=1)
        self.knower[new] = first + np.arange(len(new))
        for thread, knower in zip(new.tolist(), self.knower[new].tolist(), strict=True):
            self.alone[thread] = knower
            self._alone_in[thread >> 5] |= 1 << (thread & 31)
            if self.far:
                own = [(row, far) for (row, other), far in self.far.items() if other == thread >> 5]
                self.far |= {(row, knower): far for row, far in own}

    def promote(self, who: Actors, flags: int, issued: Iterable[tuple[int, int, int]] = ()) -> None:
        """For operations of which these lanes have one of the flags, set the next one, too.

        issued: rank, thread and number of parts that threads have issued alone; where these are among the lanes, the
        parts are offered in the order of issue.
        """
        self.part()
        by_warp: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for rank, thread, number in issued:
            by_warp.setdefault((rank, thread >> 5), []).append((thread & 31, number))
        for (row, warp), bits, rank in zip(who.places, who.bits, self.wave.rank(who.rows).tolist(), strict=True):
            own = self._learners(warp, bits)
            self.parts[row, own] |= (self.parts[row, own] & flags) << 1
            for lane, number in by_warp.get((rank, warp), ()):
                if bits >> lane & 1:
                    self.parts[row, own, number] |= ISSUED
        self._changed()

    def reunite(self, rows: Ints, warps: Ints) -> None:
        """Warps act as one: what each of their lanes knows for itself, they know."""
        self.by_sc.settle(zip(rows.tolist(), warps.tolist(), strict=True))
        for warp in np.unique(warps).tolist() if self.alone else ():
            lanes = self.knower[32 * warp : 32 * warp + 32][self.wave.run.exists[0, warp]]
            if (lanes != warp).all():
                own = self.at(rows[warps == warp])
                self.changes[own] += 1
                self.known[own, warp] = np.maximum(self.known[own, warp], self.known[own[:, None], lanes].min(1))
                self.parts[own, warp] |= np.bitwise_and.reduce(self.parts[own[:, None], lanes], axis=1)

    def complete(self, rows: Ints, warps: Ints, numbers: Ints) -> None:
        """All lanes of warps have seen that a part of theirs is complete."""
        self.parts[rows, warps, numbers] |= SEEN | ORDERED
        for thread, knower in self.alone.items():
            own = warps == thread >> 5
            self.parts[rows[own], knower, numbers[own]] |= SEEN | ORDERED

    # Meetings

    def all_met(self, ctas: slice) -> None:
        """All threads of these CTAs have met."""
        self.by_sc.settle()
        self.stays_one(alike=len(numbers(ctas)) == self.ctas)
        rows = self.taken(ctas)
        if self.width == self.threads and self.parts.shape[-1] == 1 and not self.far:  # the CTA has no other knowers
            np.copyto(self.known[rows], self.wave.now, where=self.wave.run.exists.reshape(-1))
            self._changed()
        else:
            self._meet(np.array(numbers(rows)), slice(None), self.wave.run.exists.reshape(-1), slice(0, self.threads))
        if len(numbers(ctas)) == self.ctas:
            self.floor = self.wave.now

    def _meet(self, rows: Ints, knowers: slice | list[int], exists: Bools, threads: slice) -> None:
        """Some knowers of each row, all that there are of some threads, know the same from now on."""
        self.changes[rows] += 1
        mine = self.known[rows][:, knowers].max(1)
        own = self.first_column(rows)[:, None] + np.arange(threads.start, threads.stop)[exists]
        each = np.arange(len(rows))[:, None]
        mine[each, own] = self.wave.now
        self.by_sc.publish(mine, each, own, rows[:, None], np.arange(threads.start, threads.stop)[exists])
        flags = self.parts[rows][:, knowers]
        flags |= np.bitwise_or.reduce(published_flags(flags), axis=1)[:, None]
        who = np.arange(self.known.shape[1])[knowers]
        self.known[rows[:, None], who] = mine[:, None]
        self.parts[rows[:, None], who] = flags
        for row in rows.tolist() if self.far else ():
            far: Far = ()
            for knower in who.tolist():
                far = joined(far, self.far.get((row, knower), ()))
            self.far |= {(row, knower): far for knower in who.tolist() if far}
        self._changed()

    def warps_met(self, team: Team) -> None:
        """The lanes of each warp with active lanes."""
        self.by_sc.settle()
        self.stays_one(alike=team.as_one() is not None)
        here = np.asarray(team.full.any(-1))
        for k, warp in enumerate(numbers(team.warps)):
            rows = np.unique(self.at(np.array(numbers(team.ctas))[here[:, k]]))
            if here[:, k].any():
                knowers = self._learners(warp, self.exist[warp])
                self._meet(rows, knowers, self.wave.run.exists[0, warp], slice(32 * warp, 32 * warp + 32))

    # Numbers of operations

    def forget(self, gone: list[int]) -> None:
        """Forget numbers of parts, which are going to be used again."""
        for flags in (self.parts, *(one.parts for one in self.kept)):
            flags[..., gone] = 0
        self.forgotten[gone] = self.wave.tick()
        self._changed()

    def current(self, flags: Flags, time: int) -> Flags:
        """Flags that were published at a time, without those of numbers that were forgotten since."""
        count = len(self.forgotten)
        return flags if count == 1 else np.asarray(widened(flags[..., :count], count) * (self.forgotten <= time))

    def widen(self, numbers: int) -> None:
        """Make room for more numbers of parts."""
        self.parts, self.forgotten = widened(self.parts, numbers), widened(self.forgotten, numbers)
        for one in self.kept:
            one.parts = widened(one.parts, numbers)
