"""Asynchronous operations: agents of their own, which begin after their issuers and are ordered before others only by
their completion.

The share of one thread or warp in an operation is a *part*. Parts have numbers, the same in all CTAs that issue
together. Each cell of tensor memory remembers the part that wrote it last and, for each warpgroup, the one that has
read it since; each 16 bytes of shared memory the parts that read them, each register those that fill it. A thread that
comes after the last writer comes after all that the writer came after, so that nothing older need be kept. Numbers are
few and used again: one that no place remembers and no thread waits for is free.

Source: PTX ISA, "TensorCore 5th Generation: Memory Consistency Model".
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.tmem import table_of_cells
from tilewright.sim.order.asynchronous.issue_order import may_queue
from tilewright.sim.order.bounds import WAITS
from tilewright.sim.order.knowledge.actors import THREADS, Actors, numbered
from tilewright.sim.order.knowledge.clocks import Clocks
from tilewright.sim.order.knowledge.known import BEHIND, OFFERED, ORDERED, SEEN, Known, Times, begun, published_flags
from tilewright.sim.order.knowledge.signals import arrivals_of
from tilewright.sim.order.rules.remote_operations import RemoteOperations

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from tilewright.errors import Span
    from tilewright.sim.machine.address import Address
    from tilewright.sim.machine.arrays import Bools, Ints
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.machine.pending import Waiting
    from tilewright.sim.machine.units import Touched
    from tilewright.sim.order.knowledge.known import Flags

__all__ = ["Committed", "Loading", "OperationPart", "Operations", "Stretch", "stretches_of"]


@dataclass(eq=False)
class OperationPart:
    """The share in an operation of the threads ``thread`` of the CTAs of a rank, or of the warps of those threads."""

    number: int
    operation: Operation
    rank: int
    thread: int

    @property
    def is_alone(self) -> bool:
        """Was it issued by one thread, not by a warp together?"""
        return self.operation.issuers.lanes == 1

    @cached_property
    def writes_shared_as_threads_do(self) -> bool:
        """Does it write shared memory through the generic proxy?"""
        return any(one.space == "shared" and one.proxy == "generic" for one in self.operation.writes)

    @property
    def warp(self) -> int:
        """The warp of the thread."""
        return self.thread // 32

    @property
    def at(self) -> Span | None:
        """The line that issued it."""
        return self.operation.instruction.at

    def row(self, near: int) -> int:
        """The CTA that issued it, in the cluster of the CTA ``near``."""
        wave = self.operation.batch.wave
        return near - int(wave.rank(near)) + self.rank

    def who(self, near: int) -> str:
        """``CTA (0, 0, 0), warp 1``, and the lane where one thread issued it."""
        wave, row = self.operation.batch.wave, self.row(near)
        return wave.thread_name(row, self.thread) if self.is_alone else wave.warp_name(row, self.warp)


@dataclass(frozen=True, slots=True)
class Committed:
    """Number of its operation, its threads, and the parity of the phase that it helps to end."""

    number: int
    group: str
    at: Span | None
    threads: frozenset[tuple[int, int]]
    parity: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some bytes of a local buffer, from an address on that each lane may have its own of."""

    name: str
    start: Address
    nbytes: int

    def overlaps(self, other: Stretch) -> bool:
        """May a byte be in both?"""
        below = self.start.lo < other.start.hi + other.nbytes and other.start.lo < self.start.hi + self.nbytes
        return self.name == other.name and below


@dataclass(eq=False)
class Loading:
    """Registers in flight: of an operation's sinks, until its warps wait. warps: (CTAs, warps) that have not yet."""

    operation: Operation
    parts: list[OperationPart]
    warps: Bools


def stretches_of(operation: Operation) -> Iterator[tuple[Stretch, bool]]:
    """The registers that an operation uses until it is complete; are they written?"""
    for place, start, nbytes, written in operation.registers():
        yield Stretch(place.name, start, nbytes), written


class Operations:
    """The parts of a wave, and the places that they touch.

    writers, readers: (CTAs, columns, lanes), the part that wrote a cell last, and the one that has read it since in
    each warpgroup.
    holders: for each warp that copies, (CTAs, units), the part that reads a unit of shared memory last; filling: the
    part that writes it; one row of these stands for all CTAs while those do the same.
    spans: of operations on shared memory, their first and last byte. in_global: those on global memory.
    unawaited: those that some thread has not waited for, and which threads, (n, lanes).
    committed: what commits, or signals of their own, will publish, and up to when they come after each thread. queued:
    for a part those that it was issued behind, which are complete when it is.
    """

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        self.wave = wave = clocks.wave
        self.parts: dict[int, OperationPart] = {}
        self.ranks: Ints = wave.rank(np.arange(wave.ctas))
        self.writers = table_of_cells(wave.ctas, np.int32)
        self.readers = [table_of_cells(wave.ctas, np.int32) for _ in range(-(-wave.run.warps // 4))]
        self.unit: int = wave.run.program.asynchronous_unit
        self.is_collapsed = wave.ctas > 1 and wave.run.cluster_ctas == 1
        self.holders: dict[int, NDArray[np.int32]] = {}
        self.filling = self._units()
        self.spans: dict[int, tuple[int, int]] = {}
        self.in_global: list[tuple[Operation, Ints]] = []
        self.loading: list[Loading] = []
        self.unawaited: list[tuple[Operation, Ints, Bools]] = []
        self.committed: dict[int, tuple[Known, Times]] = {}
        self.commits: list[Committed] = []
        self.queued: dict[int, set[int]] = {}
        self.waits: deque[Waiting] = deque(maxlen=WAITS)
        self.remote = RemoteOperations(clocks)
        self._free = list(range(clocks.parts.shape[-1] - 1, 0, -1))

    @property
    def touched(self) -> list[tuple[NDArray[np.int32], str]]:
        """The part that wrote each cell last, then the reader since in each warpgroup, and the words for a message."""
        return [(self.writers, "written"), *((readers, "read") for readers in self.readers)]

    def _units(self) -> NDArray[np.int32]:
        rows = 1 if self.is_collapsed else self.wave.ctas
        return np.zeros((rows, -(-max(self.wave.run.shared_bytes, 1) // self.unit) + 1), np.int32)

    def expand(self) -> None:
        """From now on every CTA has units of its own."""
        if self.is_collapsed:
            self.is_collapsed = False
            self.filling = self.filling.repeat(self.wave.ctas, axis=0)
            self.holders = {warp: table.repeat(self.wave.ctas, axis=0) for warp, table in self.holders.items()}

    def view(self, one: Touched) -> Touched:
        """What an operation touches as the tables of units have it: in one CTA, while all do the same."""
        if self.is_collapsed and one.ctas == slice(0, self.wave.ctas):
            return one.of_one_cta()
        self.expand()
        return one

    def flags_of_issuers(self, operation: Operation) -> Flags:
        """(n, numbers): what the issuers know of parts; of the issuers of one CTA what those of all CTAs know."""
        knowers = self.knowers(operation)[:: operation.issuers.warps_each]
        flags = self.clocks.flags_of(operation.issuers.rows, knowers)
        if not self.is_collapsed:
            return flags
        return np.asarray(np.bitwise_and.reduce(flags.reshape(self.wave.ctas, -1, flags.shape[1]), axis=0))

    def holders_of(self, warp: int) -> NDArray[np.int32]:
        """The part of each warp that reads each unit of shared memory last."""
        if warp not in self.holders:
            self.holders[warp] = self._units()
        return self.holders[warp]

    def knows(self, row: int, knower: int, part: OperationPart, flag: int) -> bool:
        """Does a knower in this row know of the part what the flag says?"""
        return bool(self.clocks.parts[row, knower, part.number] & flag)

    def knowers(self, now: Operation) -> Ints:
        """The knower of each actor of an operation: a thread that issues alone, or its warp."""
        _, _, threads = now.issuers.actors
        return self.clocks.knower[threads] if now.issuers.lanes == 1 else threads >> 5

    # Parts

    def new_parts(self, operation: Operation) -> tuple[list[OperationPart], Ints]:
        """The parts of an operation, and for each of its actors the number of its own."""
        _, rows, threads = operation.issuers.actors
        key = numbered(self.ranks[rows], threads)
        found, which = np.unique(key, return_inverse=True)
        while len(self._free) < len(found):
            self._make_room(len(found))
        parts = [OperationPart(self._free.pop(), operation, *divmod(each, THREADS)) for each in found.tolist()]
        self.parts |= {part.number: part for part in parts}
        own = np.array([part.number for part in parts])[which]
        if operation.group:
            self.unawaited.append(
                (operation, own, np.ones((len(operation.issuers.rows), operation.issuers.lanes), np.bool_))
            )
        return parts, own

    def _of_threads(self, rows: Ints, threads: Ints, group: str) -> Bools:
        """(n, numbers): the parts of a group that each of these threads has issued alone."""
        found = np.zeros((len(rows), self.clocks.parts.shape[-1]), np.bool_)
        own = [part for part in self.parts.values() if part.is_alone and part.operation.group == group]
        issued: dict[tuple[int, int], list[int]] = {}
        for part in own:
            issued.setdefault((part.rank, part.thread), []).append(part.number)
        for k, key in enumerate(zip(self.ranks[rows].tolist(), threads.tolist(), strict=True)):
            for number in issued.get(key, []):
                found[k, [number, *self.queued.get(number, ())]] = True
        return found

    def alone(self) -> Iterator[tuple[int, int, int]]:
        """Rank, thread and number of the parts that threads have issued alone."""
        return ((part.rank, part.thread, number) for number, part in self.parts.items() if part.is_alone)

    def _make_room(self, wanted: int) -> None:
        """Free the numbers that are no longer in use; where most still are, double their count."""
        used = np.zeros(self.clocks.parts.shape[-1], np.bool_)
        taken = self.wave.columns.holder.any(0)
        for table, _ in self.touched:
            used[table[:, taken]] = True
        for table in (self.filling, *self.holders.values()):
            used[np.unique(table)] = True
        for _, numbers in (*((op, own) for op, own, _ in self.unawaited if op.issuers.lanes > 1), *self.in_global):
            used[numbers] = True
        used[[part.number for loading in self.loading for part in loading.parts]] = True
        under_way = {operation.number for operation in self.wave.pending.queue}
        used[[number for number, part in self.parts.items() if part.operation.number in under_way]] = True
        self._forget([number for number in self.parts if not used[number]])
        if 2 * len(self.parts) > len(used) or len(self._free) < wanted:
            self._free = [*range(2 * len(used) - 1, len(used) - 1, -1), *self._free]
            self.clocks.widen(2 * len(used))

    def _forget(self, gone: list[int]) -> None:
        for number in gone:
            del self.parts[number]
            self.queued.pop(number, None)
        for others in self.queued.values():
            others -= {*gone}
        self.clocks.forget(gone)
        self.remote.forget(gone)
        self._free += sorted(gone, reverse=True)
        alive = {part.operation.number for part in self.parts.values()}
        self.spans = {number: span for number, span in self.spans.items() if number in alive}
        oldest = min((part.operation.number for part in self.parts.values()), default=self.wave.pending.last)
        self.commits = [commit for commit in self.commits if commit.number > oldest]

    # Completion

    def commit(self, commit: Operation) -> None:
        """Record a commit: it will publish what its threads have issued by now, and what they know of others'
        operations.

        It is itself the fence before a meeting. It does not hand on other accesses of its threads.
        """
        rows, threads = commit.issuers.rows, commit.issuers.threads
        flags = self.clocks.flags_of(rows, self.clocks.knower[threads])
        mine = np.where(self._of_threads(rows, threads, commit.group), SEEN, 0).astype(flags.dtype)
        flags = published_flags(np.asarray(flags | mine | (flags | mine) << 1 & OFFERED))
        self._will_publish(commit, flags)
        first = commit.signals[-1]
        parity = int(arrivals_of(self.wave, *([each[:1] for each in (first.rows, first.rows, first.at)])).phase[0]) % 2
        who = frozenset(zip(rows.tolist(), threads.tolist(), strict=True))
        self.commits.append(Committed(commit.number, commit.group, commit.instruction.at, who, parity))

    def will_signal(self, operation: Operation, own: Ints) -> None:
        """Record an operation that signals its own completion, which is all that the signal publishes."""
        rows = operation.issuers.rows
        flags = np.zeros((len(rows), self.clocks.parts.shape[-1]), self.clocks.parts.dtype)
        flags[operation.issuers.actors[0], own] = SEEN
        self._will_publish(operation, flags)

    def _will_publish(self, operation: Operation, flags: Flags) -> None:
        """The completion of an operation will publish these flags, and no access of a thread."""
        rows, threads = operation.issuers.rows, operation.issuers.threads
        after = self.clocks.published(Actors.threads(rows, threads)).threads
        known = Known(begun(after, self.clocks.size), flags, self.clocks.cluster_of(rows))
        self.committed[operation.number] = known, after
        self.clocks.kept.append(known)

    def completed(self, operation: Operation) -> tuple[Known, Times] | None:
        """What the completion of an operation publishes, and up to when it comes after each thread."""
        if (found := self.committed.pop(operation.number, None)) is not None:
            self.clocks.kept.remove(found[0])
        return found

    def awaited(self, waiting: Waiting) -> Iterator[tuple[Operation, Ints, Bools]]:
        """Threads have waited: the operations that are over for some, their numbers, and for which actors."""
        self.waits.append(waiting)
        for operation, own, unawaited in self.unawaited:
            now = unawaited & waiting.covers(operation)
            if not now.any():
                continue
            number, rows, threads = operation.issuers.actors
            over: Bools = np.asarray(now.reshape(len(number), -1).any(1))
            if operation.issuers.lanes > 1:
                self.clocks.complete(rows[over], threads[over] // 32, own[over])
            if not waiting.effect.reads:
                unawaited &= ~now
            elif over.all():
                self.remote.read.add(operation.number)
            yield operation, own, over
        self.unawaited = [each for each in self.unawaited if each[2].any()]
        for loading in self.loading:
            rows, threads = loading.operation.issuers.each()
            over = np.broadcast_to(waiting.covers(loading.operation), rows.shape)
            loading.warps[rows[over], threads[over] // 32] = False
        self.loading = [each for each in self.loading if each.warps.any()]
        self.wave.pending.loading = bool(self.loading)

    def retire(self, operation: Operation, own: Ints, over: Bools, *, reads: bool) -> None:
        """Threads have seen that their part of an operation is complete, or has read its sources: no other thread needs
        it from now on.
        """
        mine = np.where(over, own, -1)
        if self.is_collapsed and (mine.reshape(self.wave.ctas, -1) != mine[: len(mine) // self.wave.ctas]).any():
            self.expand()
        for one in (self.view(one) for one in operation.touched if one.space == "shared"):
            tables = [*self.holders.values()] if reads else [self.filling, *self.holders.values()]
            for where in self.units_of(one):
                for table in tables:
                    table[where] = np.where(table[where] == one.along(mine[one.issuer]), 0, table[where])

    def retired(self, over: Iterable[tuple[Ints, Bools]]) -> None:
        """These parts of operations, by number and actor, are complete and known. Numbers that no other CTA still waits
        for are free again.
        """
        waited_for = [each for each in self.unawaited if each[0].issuers.lanes == 1]
        left = {id(own): set(own[unawaited[:, 0]].tolist()) for _, own, unawaited in waited_for}
        gone = {number for own, now in over for number in set(own[now].tolist()) - left.get(id(own), set())}
        if gone:
            self._forget(sorted(gone))
            self.in_global = [each for each in self.in_global if not self.parts.keys().isdisjoint(each[1].tolist())]

    def units_of(self, one: Touched) -> Iterator[tuple[Ints, Ints]]:
        """Rows and numbers of all units of shared memory that a part of an operation touches, as many at a time as it
        has places; the last unit, which is none, for those that do not count.
        """
        last = self.filling.shape[1] - 1
        for byte in range(0, one.width, self.unit):
            yield one.rows, np.where(one.touches, np.minimum((one.at + byte) // self.unit, last), last)

    def are_ordered(self, number: int, now: Operation, own: Ints) -> Bools:
        """For each actor of an operation: does a part come before it?

        Some kinds keep the order of issue by themselves, of one thread or of threads that have fenced around a meeting;
        an operation reads before it writes.
        """
        _, rows, threads = now.issuers.actors
        flags = self.clocks.parts[rows, self.knowers(now), number]
        in_order: Bools = (flags & ORDERED != 0) | (own == number)
        earlier = self.parts.get(number)
        if earlier is not None and earlier.is_alone and now.issuers.lanes == 1:
            first = (threads == earlier.thread) & (self.ranks[rows] == earlier.rank) | (flags & BEHIND != 0)
            queued = first & may_queue(earlier, now, self.ranks) if first.any() else first
            for one in own[queued & ~in_order].tolist():
                self.queued.setdefault(one, set()).update((number, *self.queued.get(number, ())))
            in_order |= queued
        return in_order
