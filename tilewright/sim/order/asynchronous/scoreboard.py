"""The scoreboard of a wave: which parts of asynchronous operations each place still waits for.

Each cell of tensor memory remembers the part that wrote it last and, for each warpgroup, the one that has read it
since; each 16 bytes of shared memory the parts that read them, each register those that fill it. A thread that comes
after the last writer comes after all that the writer came after, so that nothing older need be kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine import CtaRows, table_of_cells
from tilewright.sim.order.knowledge.clocks import THREADS, Clocks, numbered
from tilewright.sim.order.knowledge.known import BEHIND, FENCED, HEARD, ORDERED, SEEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tilewright.errors import Span
    from tilewright.sim.machine import Bools, CompiledInstruction, Ints, Operation, UnitView, Waiting
    from tilewright.sim.order.knowledge.known import Flags

GLOBAL_OPERATIONS = 256  # kept: on global memory

# Parts of asynchronous operations: the shares in them of single threads or warps, by numbers.
#
# Those that threads of one rank issue together in all clusters have one number. Numbers are few and used again: one
# that no place remembers and no thread waits for is free.
#
# Source: PTX ISA, "TensorCore 5th Generation: Memory Consistency Model".


@dataclass(eq=False)
class OperationPart:
    """The share in an operation of the threads ``thread`` of the CTAs of a rank, or of the warps of those threads."""

    number: int
    operation: Operation
    rank: int
    thread: int
    writes_alone: bool = False  # have its reads a number of their own?

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
        wave = self.operation.team.wave
        return near - int(wave.rank(near)) + self.rank

    def who(self, near: int) -> str:
        """``CTA (0, 0, 0), warp 1``, and the lane where one thread issued it."""
        wave, row = self.operation.team.wave, self.row(near)
        return wave.thread_name(row, self.thread) if self.is_alone else wave.warp_name(row, self.warp)


class Parts(dict[int, OperationPart]):
    """The parts of a wave's operations by their numbers, and which of them come before others.

    issuer, group: by number, the thread that has issued a part alone, else -1, and the group of its operation. queued:
    for a part those that it was issued behind, which are complete when it is. free: numbers of no part; number 0 stays
    with none.
    """

    def __init__(self, clocks: Clocks) -> None:
        super().__init__()
        self.clocks = clocks
        self.ranks: Ints = clocks.wave.rank(np.arange(clocks.wave.ctas))
        self.queued: dict[int, set[int]] = {}
        count = clocks.parts.shape[-1]
        self.free = list(range(count - 1, 0, -1))
        self.issuer, self.group = np.full(count, -1), np.full(count, None)

    def keys_of(self, operation: Operation) -> tuple[list[tuple[int, int]], Ints]:
        """Rank and thread of each part that an operation has, and for each of its actors which of these is its own."""
        _, rows, threads = operation.issuers.actors
        found, which = np.unique(numbered(self.ranks[rows], threads), return_inverse=True)
        return [divmod(each, THREADS) for each in found.tolist()], which

    def add(self, part: OperationPart) -> None:
        """It has its number from now on."""
        self[part.number] = part
        self.issuer[part.number] = part.rank * THREADS + part.thread if part.is_alone else -1
        self.group[part.number] = part.operation.group

    def forget(self, gone: list[int]) -> None:
        """These numbers are free again."""
        self.issuer[gone] = -1
        for number in gone:
            del self[number]
            self.queued.pop(number, None)
        for others in self.queued.values():
            others -= {*gone}
        self.clocks.forget(gone)
        self.free += sorted(gone, reverse=True)

    def widen(self) -> None:
        """From now on there are twice as many numbers."""
        count = self.clocks.parts.shape[-1]
        self.free = [*range(2 * count - 1, count - 1, -1), *self.free]
        self.issuer = np.append(self.issuer, np.full(count, -1))
        self.group = np.append(self.group, np.full(count, None))
        self.clocks.widen(2 * count)

    def alone(self) -> Iterator[tuple[int, int, int]]:
        """Rank, thread and number of the parts that threads have issued alone."""
        return (
            (*divmod(int(self.issuer[number]), THREADS), number) for number in np.flatnonzero(self.are_alone).tolist()
        )

    @property
    def are_alone(self) -> Bools:
        """(numbers,): the parts that threads have issued alone."""
        return np.asarray(self.issuer >= 0)

    def of_threads(self, rows: Ints, threads: Ints, group: str) -> Bools:
        """(n, numbers): the parts of a group that each of these threads has issued alone, and those before them."""
        own: Bools = (self.issuer == numbered(self.ranks[rows], threads)[:, None]) & (self.group == group)
        found = own.copy()
        for number in np.flatnonzero(own.any(axis=0)).tolist() if self.queued else ():
            if earlier := self.queued.get(number):
                found[np.ix_(own[:, number], np.array([*earlier]))] = True
        return found

    def knows(self, row: int, knower: int, part: OperationPart, flag: int) -> bool:
        """Does a knower in this row know of the part what the flag says?"""
        return bool(self.clocks.parts[row, knower, part.number] & flag)

    def knowers(self, now: Operation) -> Ints:
        """The knower of each actor of an operation: a thread that issues alone, or its warp."""
        _, _, threads = now.issuers.actors
        return self.clocks.knower[threads] if now.issuers.lanes == 1 else threads >> 5

    def are_ordered(self, number: int, now: Operation, own: Ints) -> Bools:
        """For each actor of an operation: does a part come before it? An operation reads before it writes."""
        in_order: Bools = (self._flags(number, now) & ORDERED != 0) | (own == number)
        return in_order | self.are_queued(number, now, own, unless=in_order)

    def are_complete(self, number: int, now: Operation) -> Bools:
        """For each actor of an operation: does it know, with fences of tensor memory or without, that a part is?"""
        return np.asarray(self._flags(number, now) & (SEEN | HEARD) != 0)

    def are_queued(self, number: int, now: Operation, own: Ints, *, unless: Bools) -> Bools:
        """For each actor of an operation: does it keep the order of issue behind a part? Some kinds do by themselves,
        of one thread or warp, or of threads that have fenced around a meeting.
        """
        _, rows, threads = now.issuers.actors
        earlier = self.get(number)
        if earlier is None or earlier.operation.issuers.lanes != now.issuers.lanes or now.issuers.warps_each > 1:
            return np.zeros(len(rows), np.bool_)
        first = (threads == earlier.thread) & (self.ranks[rows] == earlier.rank)
        first |= self._flags(number, now) & BEHIND != 0
        queued: Bools = first & may_queue(earlier, now, self.ranks) if first.any() else first
        for one in own[queued & ~unless].tolist():
            self.queued.setdefault(one, set()).update((number, *self.queued.get(number, ())))
        return queued

    def _flags(self, number: int, now: Operation) -> Flags:
        return np.asarray(self.clocks.parts[now.issuers.actors[1], self.knowers(now), number])


@dataclass(eq=False)
class Loading:
    """Registers in flight: of an operation's sinks, until its warps wait. warps: (CTAs, warps) that have not yet.

    used: those of them that have read a register already, which is told if they store before the wait. use: the first
    such read, the name of the registers and its line.
    """

    operation: Operation
    parts: list[OperationPart]
    warps: Bools
    used: Bools
    use: tuple[str, Span | None] = ("", None)

    def part(self, warp: int, rank: int) -> OperationPart:
        """The part of a warp of a CTA of that rank."""
        return next(part for part in self.parts if part.warp == warp and part.rank == rank)


class Scoreboard(CtaRows):
    """The parts that places of a wave remember, by their numbers.

    writers, readers: (CTAs, columns, lanes), the part that wrote a cell last, and the one that has read it since in
    each warpgroup.
    holders: for each warp that copies, (CTAs, units), the part that reads a unit of shared memory last; filling: the
    part that writes it.
    spans: of operations on shared memory, their first and last byte. in_global: those on global memory.
    """

    tables = ("filling",)

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.wave = wave = parts.clocks.wave
        self.writers = table_of_cells(wave.ctas, np.int32)
        self.readers = [table_of_cells(wave.ctas, np.int32) for _ in range(-(-wave.run.warps // 4))]
        self.unit: int = wave.run.program.asynchronous_unit
        super().__init__(1 if wave.run.cluster_ctas == 1 else wave.ctas, wave.ctas)
        self.holders: dict[int, NDArray[np.int32]] = {}
        self.filling = self._units()
        self.spans: dict[int, tuple[int, int]] = {}
        self.in_global: list[tuple[Operation, Ints]] = []
        self.loading: list[Loading] = []

    @property
    def touched(self) -> list[tuple[NDArray[np.int32], str]]:
        """The part that wrote each cell last, then the reader since in each warpgroup, and the words for a message."""
        return [(self.writers, "written"), *((readers, "read") for readers in self.readers)]

    def _units(self) -> NDArray[np.int32]:
        return np.zeros((self.rows, -(-max(self.wave.run.shared_bytes, 1) // self.unit) + 1), np.int32)

    def parted(self) -> None:
        self.holders = {warp: table.repeat(self.ctas, axis=0) for warp, table in self.holders.items()}

    def view(self, one: UnitView) -> UnitView:
        """What an operation touches as the tables of units have it: in one CTA, while all do the same."""
        return one.of_one_cta() if self.stays_one(alike=one.ctas == slice(0, self.ctas)) else one

    def flags_of_issuers(self, operation: Operation) -> Flags:
        """(n, numbers): what the issuers know of parts; of the issuers of one CTA what those of all CTAs know."""
        _, rows, _ = operation.issuers.actors
        flags = self.parts.clocks.flags_of(rows, self.parts.knowers(operation))
        if (each := operation.issuers.warps_each) > 1:  # all warps must know what a thread has issued, and be fenced
            of_warps = flags.reshape(len(operation.issuers.rows), each, -1)
            of_all, unfenced = np.bitwise_and.reduce(of_warps, axis=1), flags.dtype.type(FENCED)
            flags = np.where(self.parts.are_alone, of_all, of_warps[:, 0] & (of_all | ~unfenced))
        if not self.is_for_all:
            return flags
        return np.asarray(np.bitwise_and.reduce(flags.reshape(self.ctas, -1, flags.shape[1]), axis=0))

    def holders_of(self, warp: int) -> NDArray[np.int32]:
        """The part of each warp that reads each unit of shared memory last."""
        if warp not in self.holders:
            self.holders[warp] = self._units()
        return self.holders[warp]

    def units_of(self, one: UnitView) -> Iterator[tuple[Ints, Ints]]:
        """Rows and numbers of all units of shared memory that a part of an operation touches, as many at a time as it
        has places; the last unit, which is none, for those that do not count.
        """
        last = self.filling.shape[1] - 1
        for byte in range(0, one.width, self.unit):
            yield one.rows, np.where(one.touches, np.minimum((one.at + byte) // self.unit, last), last)

    def used(self) -> Bools:
        """(numbers,): the parts that some place remembers."""
        used = np.zeros(self.parts.clocks.parts.shape[-1], np.bool_)
        taken = self.wave.columns.holder.any(0)
        for table, _ in self.touched:
            used[table[:, taken]] = True
        for table in (self.filling, *self.holders.values()):
            used[np.unique(table)] = True
        for _, own in self.in_global:
            used[own] = True
        used[[part.number for loading in self.loading for part in loading.parts]] = True
        return used

    def begun(self, operation: Operation, parts: list[OperationPart], own: Ints) -> None:
        """An operation begins: where it lies in shared and global memory, and which registers it uses."""
        spans = [one.reach for one in operation.touched if one.space == "shared" and one.count]
        if spans:
            self.spans[operation.number] = min(first for first, _ in spans), max(last for _, last in spans)
        if any(one.space in ("global", "generic") for one in operation.touched):
            self.in_global = [*self.in_global[-GLOBAL_OPERATIONS:], (operation, own)]
        if operation.instruction.sinks or operation.instruction.sources:
            rows, threads = operation.issuers.each()
            warps = np.zeros((self.wave.ctas, self.wave.run.warps), np.bool_)
            warps[rows, threads // 32] = True
            self.loading.append(Loading(operation, parts, warps, np.zeros_like(warps)))
            self.wave.pending.loading = True

    def hold(self, operation: Operation, own: Ints, one: UnitView, where: tuple[Ints, Ints]) -> None:
        """Record the parts of each warp that read units of shared memory, ``where``: their rows and numbers."""
        each = operation.issuers.warps_each
        warps = operation.issuers.threads[one.issuer] // 32
        for warp in np.unique(warps).tolist():
            of_warp = warps == warp
            there = one.touches[of_warp]
            rows_of, units = (part[of_warp][there] for part in where)
            places, numbers = rows_of * self.filling.shape[1] + units, np.nonzero(there)[0]
            for k in range(each):
                self.holders_of(warp + k).reshape(-1)[places] = own[one.issuer[of_warp] * each + k][numbers]

    def awaited(self, waiting: Waiting) -> None:
        """Threads have waited: the registers of their operations are filled, or read."""
        for loading in self.loading:
            if waiting.effect.reads and loading.operation.instruction.sinks:
                continue
            rows, threads = loading.operation.issuers.each()
            over = np.broadcast_to(waiting.covers(loading.operation), rows.shape)
            loading.warps[rows[over], threads[over] // 32] = False
        self.loading = [each for each in self.loading if each.warps.any()]
        self.wave.pending.loading = bool(self.loading)

    def renumber(self, operation: Operation, old: Ints, new: Ints) -> None:
        """What an operation writes has other numbers, for each of its actors, from now on."""
        _, rows, _ = operation.issuers.actors
        if (old != new).any():
            self.part()
        for row, one, other in {*zip(rows.tolist(), old.tolist(), new.tolist(), strict=True)}:
            for table in (self.writers, self.filling):
                table[row][table[row] == one] = other
        self.in_global = [(each, new if each is operation else own) for each, own in self.in_global]

    def retire(self, operation: Operation, own: Ints, over: Bools, *, reads: bool) -> None:
        """Threads have seen that their part of an operation is complete, or has read its sources: no other thread needs
        it from now on.
        """
        mine = np.where(over, own, -1)
        if self.is_for_all:
            self.stays_one(alike=bool((mine.reshape(self.ctas, -1) == mine[: len(mine) // self.ctas]).all()))
        for one in (self.view(one) for one in operation.touched if one.space == "shared"):
            tables = [*self.holders.values()] if reads else [self.filling, *self.holders.values()]
            for where in self.units_of(one):
                for table in tables:
                    table[where] = np.where(table[where] == one.along(mine[one.issuer]), 0, table[where])


# Operations that keep the order in which they were issued, without a wait: which kinds do, see `tilewright.isa.Issue`.
#
# Source: PTX ISA, "TensorCore 5th Generation: Memory Consistency Model, Pipelined tcgen05 Instructions".


def keeps_order(earlier: Operation, now: CompiledInstruction) -> bool:
    """Does an operation come before another of the same issuer without a wait?"""
    issue, before, after = now.bound.form.issue, earlier.instruction.bound, now.bound
    if issue is None or before.instruction.name not in issue.in_order_after:
        return False
    both = before.mods.keys() & after.mods.keys()
    return all(before.mods[name] == after.mods[name] for name in issue.alike if name in both)


def may_queue(earlier: OperationPart, now: Operation, ranks: Ints) -> Bools:
    """For each thread that issues an operation: does it keep the order of issue behind an earlier one of some thread?

    They must agree in what `Issue.alike` says. ranks: of the CTAs of the wave.
    """
    rows = now.issuers.rows
    issue, before = now.form.issue, earlier.operation
    if issue is None or not keeps_order(before, now.instruction):
        return np.zeros(len(rows), np.bool_)
    had = 1024 * before.issuers.rows + before.issuers.threads
    has = 1024 * (rows - ranks[rows] + earlier.rank) + earlier.thread
    where = np.searchsorted(had, has).clip(max=len(had) - 1)
    same: Bools = had[where] == has
    for name in issue.alike:
        if name in before.arguments and name in now.arguments:
            pairs = before.arguments[name][where] == now.arguments[name]
            same &= pairs.reshape(len(has), -1).all(1)
    return same
