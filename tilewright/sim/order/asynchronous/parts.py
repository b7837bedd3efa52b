"""Parts of asynchronous operations: the shares in them of single threads or warps, by numbers.

Those that threads of one rank issue together in all clusters have one number. Numbers are few and used again: one that
no place remembers and no thread waits for is free.

Source: PTX ISA, "TensorCore 5th Generation: Memory Consistency Model".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.order.asynchronous.issue_order import may_queue
from tilewright.sim.order.knowledge.actors import THREADS, numbered
from tilewright.sim.order.knowledge.clocks import Clocks
from tilewright.sim.order.knowledge.known import BEHIND, HEARD, ORDERED, SEEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tilewright.errors import Span
    from tilewright.sim.machine.arrays import Bools, Ints
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.order.knowledge.known import Flags

__all__ = ["OperationPart", "Parts"]


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
        wave = self.operation.batch.wave
        return near - int(wave.rank(near)) + self.rank

    def who(self, near: int) -> str:
        """``CTA (0, 0, 0), warp 1``, and the lane where one thread issued it."""
        wave, row = self.operation.batch.wave, self.row(near)
        return wave.thread_name(row, self.thread) if self.is_alone else wave.warp_name(row, self.warp)


class Parts(dict[int, OperationPart]):
    """The parts of a wave's operations by their numbers, and which of them come before others.

    queued: for a part those that it was issued behind, which are complete when it is. free: numbers of no part; number
    0 stays with none.
    """

    def __init__(self, clocks: Clocks) -> None:
        super().__init__()
        self.clocks = clocks
        self.ranks: Ints = clocks.wave.rank(np.arange(clocks.wave.ctas))
        self.queued: dict[int, set[int]] = {}
        self.free = list(range(clocks.parts.shape[-1] - 1, 0, -1))

    def keys_of(self, operation: Operation) -> tuple[list[tuple[int, int]], Ints]:
        """Rank and thread of each part that an operation has, and for each of its actors which of these is its own."""
        _, rows, threads = operation.issuers.actors
        found, which = np.unique(numbered(self.ranks[rows], threads), return_inverse=True)
        return [divmod(each, THREADS) for each in found.tolist()], which

    def forget(self, gone: list[int]) -> None:
        """These numbers are free again."""
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
        self.clocks.widen(2 * count)

    def alone(self) -> Iterator[tuple[int, int, int]]:
        """Rank, thread and number of the parts that threads have issued alone."""
        return ((part.rank, part.thread, number) for number, part in self.items() if part.is_alone)

    @property
    def are_alone(self) -> Bools:
        """(numbers,): the parts that threads have issued alone."""
        found = np.zeros(self.clocks.parts.shape[-1], np.bool_)
        found[[number for _, _, number in self.alone()]] = True
        return found

    def of_threads(self, rows: Ints, threads: Ints, group: str) -> Bools:
        """(n, numbers): the parts of a group that each of these threads has issued alone."""
        found = np.zeros((len(rows), self.clocks.parts.shape[-1]), np.bool_)
        issued: dict[tuple[int, int], list[int]] = {}
        for rank, thread, number in self.alone():
            if self[number].operation.group == group:
                issued.setdefault((rank, thread), []).append(number)
        for k, key in enumerate(zip(self.ranks[rows].tolist(), threads.tolist(), strict=True)):
            for number in issued.get(key, []):
                found[k, [number, *self.queued.get(number, ())]] = True
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
