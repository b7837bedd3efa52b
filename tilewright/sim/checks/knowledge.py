"""What the warps of a wave know of its asynchronous operations, and what those have touched last.

What one thread or warp has issued of an operation is a *part*, and parts have numbers: the same one in all CTAs that
issue together, as CTAs never look at each other's tensor memory outside of their cluster. A byte for each warp and
number says what the warp knows of the part:

    SEEN      it is complete, as the warp has seen or been told
    OFFERED   a fence before a meeting has put it in order for others
    HEARD     others have offered it
    ORDERED   a fence after a meeting has put it before all that the warp does now

See `tilewright.sim.checks.completion` for how this is used. Numbers are few and used again: one that no place of
memory remembers and nobody waits for means nothing any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.sim.checks.phases import Phases, widened
from tilewright.sim.tmem import table_of_cells

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tilewright.errors import Span
    from tilewright.sim.address import Address
    from tilewright.sim.masks import Bools
    from tilewright.sim.pending import Operation
    from tilewright.sim.wave import Wave

__all__ = ["HEARD", "ORDERED", "SEEN", "UNIT", "Knowledge", "Loading", "Part", "Report", "Stretch", "told"]

UNIT = 16  # bytes of shared memory that one number stands for
NUMBERS = 256  # of parts, to begin with
SEEN, OFFERED, HEARD, ORDERED = 1, 2, 4, 8

Flags = Any  # NDArray[np.uint8], its last axis the numbers of parts
Ints = Any  # NDArray[np.int64]


def told(flags: Flags) -> Flags:
    """What others learn by meeting a warp with these flags: what is complete, and what of it is in order."""
    return flags & SEEN | (flags | flags << 1) & HEARD


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
class Report:
    """A commit: number of its operation, its threads, and the parity of the phase that it helps to end."""

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


class Knowledge:
    """All that is known in a wave.

    flags: (CTAs, warps, numbers); everything is known of number 0, which nobody has. writers, readers: (CTAs, columns,
    lanes), who wrote a cell last, and who in each warpgroup has read it since. holders: for each warp that copies,
    (CTAs, units) who reads a unit of shared memory last. unseen: parts of warps that some of them have not waited for,
    and in which CTAs. commits: what those under way will publish.
    """

    def __init__(self, wave: Wave) -> None:
        self.wave = wave
        self.parts: dict[int, Part] = {}
        self.flags: Flags = np.zeros((wave.ctas, wave.run.warps, NUMBERS), np.uint8)
        self.flags[..., 0] = SEEN | OFFERED | HEARD | ORDERED
        self.ranks: Ints = wave.rank(np.arange(wave.ctas))
        self.meetings: dict[int, Flags] = {}
        self.mbarriers = Phases(wave, NUMBERS, np.bitwise_or, np.uint8)
        self.writers = table_of_cells(wave.ctas, np.int32)
        self.readers = [table_of_cells(wave.ctas, np.int32) for _ in range(-(-wave.run.warps // 4))]
        self.holders: dict[int, Ints] = {}
        self.loading: list[Loading] = []
        self.unseen: list[tuple[Part, Bools]] = []
        self.commits: dict[int, Flags] = {}
        self.reports: list[Report] = []
        self._free = list(range(NUMBERS - 1, 0, -1))

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

    def knows(self, row: int, warp: int, part: Part, what: int) -> bool:
        """Does the warp at this row know of the part what the flag says?"""
        return bool(self.flags[row, warp, part.number] & what)

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

    def of_threads(self, rows: Ints, threads: Ints, group: str) -> Bools:
        """(n, numbers): the parts of a group that each of these threads has issued alone."""
        found = np.zeros((len(rows), self.flags.shape[-1]), np.bool_)
        ranks = self.ranks[rows]
        for part in self.parts.values():
            if part.is_alone and part.operation.group == group:
                found[:, part.number] = (threads == part.thread) & (ranks == part.rank)
        return found

    def _make_room(self) -> None:
        """Numbers that mean nothing any more are free again; where most still do, there are twice as many."""
        used = np.zeros(self.flags.shape[-1], np.bool_)
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
            self._widen(2 * len(used))

    def _forget(self, gone: list[int]) -> None:
        for number in gone:
            del self.parts[number]
        self.flags[..., gone] = 0
        for known in (*self.meetings.values(), *self.commits.values()):
            known[..., gone] = 0
        self.mbarriers.without(gone)
        self._free += sorted(gone, reverse=True)
        oldest = min((part.operation.number for part in self.parts.values()), default=self.wave.pending.last)
        self.reports = [report for report in self.reports if report.number > oldest]

    def _widen(self, width: int) -> None:
        self._free = [*range(width - 1, self.flags.shape[-1] - 1, -1), *self._free]
        self.flags = widened(self.flags, width)
        self.meetings = {barrier: widened(known, width) for barrier, known in self.meetings.items()}
        self.commits = {number: widened(known, width) for number, known in self.commits.items()}
        self.mbarriers.widen(width)

    # Who tells whom

    def learns(self, rows: Any, warps: Any, known: Flags) -> None:
        """Warps, (n,) or as a block, take over what others told."""
        self.flags[rows, warps] |= known

    def tells(self, barrier: int, rows: Ints, known: Flags) -> None:
        """What those who arrive at a barrier tell, each at the barrier of a row."""
        if barrier not in self.meetings:
            self.meetings[barrier] = np.zeros((self.wave.ctas, self.flags.shape[-1]), np.uint8)
        np.bitwise_or.at(self.meetings[barrier], rows, known)
