"""Asynchronous operations: agents of their own, which begin after their issuer and are known by their completion only.

What one thread or warp has issued of an operation is a *part*, and parts have numbers: the same one in all CTAs that
issue together. Each cell of tensor memory remembers the part that wrote it last and, for each warpgroup, the one that
has read it since; each 16 bytes of shared memory the parts that read them, each register those that fill it. Whoever
comes after the last writer comes after all that the writer came after, so that nothing older need be kept. Numbers
are few and used again: one that no place remembers and nobody waits for means nothing any more.

Source: PTX ISA, "TensorCore 5th Generation: Memory Consistency Model".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.tmem import table_of_cells
from tilewright.sim.order.actors import Actors
from tilewright.sim.order.channels import arrivals_of
from tilewright.sim.order.clocks import OFFERED, ORDERED, SEEN, Clocks, Known, Times, told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tilewright.errors import Span
    from tilewright.sim.machine.address import Address
    from tilewright.sim.machine.arrays import Bools, Ints
    from tilewright.sim.machine.pending import Operation

__all__ = ["UNIT", "Commit", "Loading", "Operations", "Part", "Stretch"]

UNIT = 16  # bytes of shared memory that one number stands for


@dataclass(eq=False)
class Part:
    """What the threads ``thread`` of the CTAs of a rank, or the warps of those threads, have issued of an operation."""

    number: int
    operation: Operation
    rank: int
    thread: int

    @property
    def is_alone(self) -> bool:
        """Issued by one thread, not by a warp together."""
        return self.operation.is_bulk

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
        cta = self.operation.batch.wave.cta_name(self.row(near))
        return f"CTA {cta}, warp {self.warp}" + (f", lane {self.thread % 32}" if self.is_alone else "")


@dataclass(frozen=True, slots=True)
class Commit:
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
    parts: list[Part]
    warps: Bools

    def stretches(self) -> Iterator[Stretch]:
        """The registers themselves."""
        for file, address in zip(self.operation.instruction.sinks, self.operation.sinks, strict=True):
            reach = file.width * (file.count if file.run else 1)
            for place, start in zip(file.places, [address] if file.run else list(address), strict=False):
                yield Stretch(place.name, start, reach)


class Operations:
    """The parts of a wave, and what they touched.

    writers, readers: (CTAs, columns, lanes), who wrote a cell last, and who in each warpgroup has read it since.
    holders: for each warp that copies, (CTAs, units) who reads a unit of shared memory last. unseen: parts of warps
    that some of them have not waited for, and in which CTAs. committed: what commits under way will publish; issued:
    what their threads came after.
    """

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        self.wave = wave = clocks.wave
        self.parts: dict[int, Part] = {}
        self.ranks: Ints = wave.rank(np.arange(wave.ctas))
        self.writers = table_of_cells(wave.ctas, np.int32)
        self.readers = [table_of_cells(wave.ctas, np.int32) for _ in range(-(-wave.run.warps // 4))]
        self.holders: dict[int, Ints] = {}
        self.loading: list[Loading] = []
        self.unseen: list[tuple[Part, Bools]] = []
        self.committed: dict[int, Known] = {}
        self.issued: dict[int, Times] = {}
        self.commits: list[Commit] = []
        self._free = list(range(clocks.parts.shape[-1] - 1, 0, -1))

    @property
    def touched(self) -> list[tuple[NDArray[np.int32], str]]:
        """Who wrote each cell last, then who in each warpgroup has read it since, and how a message says that."""
        return [(self.writers, "written"), *((readers, "read") for readers in self.readers)]

    def holders_of(self, warp: int) -> Ints:
        """Who reads each unit of shared memory last, of what a warp has issued."""
        if warp not in self.holders:
            units = -(-max(self.wave.run.shared_bytes, 1) // UNIT)
            self.holders[warp] = np.zeros((self.wave.ctas, units), np.int32)
        return self.holders[warp]

    def knows(self, row: int, knower: int, part: Part, flag: int) -> bool:
        """Does a knower in this row know of the part what the flag says?"""
        return bool(self.clocks.parts[row, knower, part.number] & flag)

    def knowers(self, now: Operation) -> Ints:
        """Of each actor of an operation: a thread that issues alone, or what all of its warp know."""
        return self.clocks.knower[now.threads] if now.is_bulk else now.threads >> 5

    # Parts

    def new_parts(self, operation: Operation) -> tuple[list[Part], Ints]:
        """The parts of an operation, and for each of its actors the number of its own."""
        rows, threads = operation.rows, operation.threads
        key = self.ranks[rows] * 1024 + threads
        found, which = np.unique(key, return_inverse=True)
        while len(self._free) < len(found):
            self._make_room()
        parts = [Part(self._free.pop(), operation, int(each) // 1024, int(each) % 1024) for each in found]
        self.parts |= {part.number: part for part in parts}
        for k, part in enumerate(parts):
            if not part.is_alone:
                issued = np.zeros(self.wave.ctas, np.bool_)
                issued[rows[which == k]] = True
                self.unseen.append((part, issued))
        return parts, np.array([part.number for part in parts])[which]

    def _of_threads(self, rows: Ints, threads: Ints, group: str) -> Bools:
        """(n, numbers): the parts of a group that each of these threads has issued alone."""
        found = np.zeros((len(rows), self.clocks.parts.shape[-1]), np.bool_)
        ranks = self.ranks[rows]
        for part in self.parts.values():
            if part.is_alone and part.operation.group == group:
                found[:, part.number] = (threads == part.thread) & (ranks == part.rank)
        return found

    def _make_room(self) -> None:
        """Numbers that mean nothing any more are free again; where most still do, there are twice as many."""
        used = np.zeros(self.clocks.parts.shape[-1], np.bool_)
        taken = self.wave.columns.holder.any(0)
        for table, _ in self.touched:
            used[table[:, taken]] = True
        for holders in self.holders.values():
            used[holders] = True
        used[[part.number for part, _ in self.unseen]] = True
        used[[part.number for loading in self.loading for part in loading.parts]] = True
        under_way = {operation.number for operation in self.wave.pending.queue}
        used[[number for number, part in self.parts.items() if part.operation.number in under_way]] = True
        self._forget([number for number in self.parts if not used[number]])
        if 2 * len(self.parts) > len(used):
            self._free = [*range(2 * len(used) - 1, len(used) - 1, -1), *self._free]
            self.clocks.widen(2 * len(used))
            for known in self.committed.values():
                known.parts = np.pad(known.parts, [(0, 0), (0, len(used))])

    def _forget(self, gone: list[int]) -> None:
        for number in gone:
            del self.parts[number]
        self.clocks.forget(gone)
        for known in self.committed.values():
            known.parts[:, gone] = 0
        self._free += sorted(gone, reverse=True)
        oldest = min((part.operation.number for part in self.parts.values()), default=self.wave.pending.last)
        self.commits = [commit for commit in self.commits if commit.number > oldest]

    # Completion

    def commit(self, commit: Operation) -> None:
        """A commit was issued: it will publish what its threads have issued, and know of others', by now.

        It is itself the fence before a meeting. What its threads did besides it does not hand on.
        """
        rows, threads = commit.rows, commit.threads
        flags = self.clocks.flags_of(rows, threads)
        mine = np.where(self._of_threads(rows, threads, commit.group), SEEN, 0).astype(np.uint8)
        flags = told(np.asarray(flags | mine | (flags | mine) << 1 & OFFERED, np.uint8))
        nothing = np.zeros((len(rows), self.clocks.width), np.int32)
        self.issued[commit.number] = self.clocks.published(Actors.threads(rows, threads)).threads
        self.committed[commit.number] = Known(nothing, flags, self.clocks.cluster_of(rows))
        _, homes, address = commit.footprint.arrivals[0]
        parity = int(arrivals_of(self.wave, homes[:1], address[:1]).phase[0]) % 2
        who = frozenset(zip(rows.tolist(), threads.tolist(), strict=True))
        self.commits.append(Commit(commit.number, commit.group, commit.instruction.at, who, parity))

    def awaited(self, waiting: Bools, group: str) -> None:
        """Warps, (CTAs, warps), have waited for what they issued to a group."""
        for part, unseen in self.unseen:
            if part.operation.group == group:
                now = unseen & waiting[:, part.warp]
                self.clocks.complete(now, part.warp, part.number)
                unseen &= ~now
        self.unseen = [(part, unseen) for part, unseen in self.unseen if unseen.any()]
        for loading in self.loading:
            if loading.operation.group == group:
                loading.warps &= ~waiting
        self.loading = [each for each in self.loading if each.warps.any()]
        self.wave.pending.loading = bool(self.loading)

    def are_ordered(self, number: int, now: Operation, own: Ints) -> Bools:
        """Of each actor of an operation: does a part come before it?

        Some kinds of one thread keep their order by themselves; an operation reads before it writes.
        """
        flags = self.clocks.parts[now.rows, self.knowers(now), number]
        in_order: Bools = (flags & ORDERED != 0) | (own == number)
        earlier = self.parts.get(number)
        if earlier is not None and earlier.is_alone and now.is_bulk:
            same = (now.threads == earlier.thread) & (self.ranks[now.rows] == earlier.rank)
            name = earlier.operation.instruction.bound.instruction.name
            by_itself = name in now.instruction.asynchronous.in_order_after
            in_order |= same & by_itself
        return in_order
