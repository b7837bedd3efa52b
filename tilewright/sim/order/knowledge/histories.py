"""What a location held, one value after the other, and how old a value a thread may have read there.

A thread that polls a counter late finds its last value, and with it comes after all that have counted. It would have
gone the same way had it come earlier, and read an older one: then it comes after fewer. So a read that only decides a
branch acquires no more than the oldest value brings that decides it alike, and that the thread may still read: it
neither wrote nor read a later one, and knows of none. A barrier whose counter passes its target once, and stays there,
then holds nobody up, however the threads of this run happened to meet.

Source: PTX ISA, "Memory Consistency Model: Coherence, Causality order".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.batch import numbers
from tilewright.sim.order.bounds import STATES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tilewright.sim.machine.arrays import Array, Bits, Bools
    from tilewright.sim.machine.batch import Batch, Look
    from tilewright.sim.order.knowledge.clocks import Clocks
    from tilewright.sim.order.knowledge.releases import Release

__all__ = ["Decision", "History", "place_in"]


@dataclass(eq=False, slots=True)
class _State:
    """What stands at a location since a write by a thread of a CTA of the grid. release: what whoever reads it may
    acquire; bits: None of the newest, which is in memory.
    """

    cta: int
    thread: int
    time: int
    release: Release | None
    bits: int | None = None


class Decision:
    """The branch that a read decides. way: for the bits of a value, which way each lane goes, (CTAs, warps, 32).

    now: the bits that each lane is about to read.
    """

    def __init__(self, way: Callable[[Array], Bools], now: Bits, batch: Batch) -> None:
        self.way = way
        self.now = np.broadcast_to(now, batch.shape)
        self.batch = batch
        self._ways: dict[int, Bools] = {}

    def alike(self, row: int, threads: tuple[int, ...]) -> Callable[[int], bool]:
        """Do all of these threads of a CTA, which act together, go the same way by other bits as by those that they are
        about to read?
        """
        cta, warp, lane = place_in(self.batch, row, threads[0])
        lanes = [lane] if len(threads) == 1 else [thread & 31 for thread in threads]
        now = self.now[cta, warp][lanes]
        if len(lanes) > 1 and not (now == now[0]).all():
            return lambda bits: False
        mine = self._of(int(now[0]))[cta, warp][lanes].tolist()
        return lambda bits: self._of(bits)[cta, warp][lanes].tolist() == mine

    def _of(self, bits: int) -> Bools:
        """Which way each lane goes that reads these bits."""
        if (found := self._ways.get(bits)) is None:
            found = self._ways[bits] = self.way(np.full((1, 1, 1), bits, self.now.dtype))
        return found


def place_in(batch: Look, row: int, thread: int) -> tuple[int, int, int]:
    """The CTA, the warp and the lane of a batch that a thread of a wave's CTA is."""
    ctas, warps = numbers(batch.ctas), numbers(batch.warps)
    return ctas.index(row), warps.index(thread >> 5), thread & 31


class History:
    """The states of one location, the oldest first, each made from the one before by an atomic.

    seen: by CTA of the grid and thread, the number of the newest state that it has written or read.
    """

    def __init__(self, release: Release | None) -> None:
        self.states = [_State(-1, -1, 0, release)]
        self.first = 0  # the number of the oldest state that is kept
        self.seen: dict[tuple[int, int], int] = {}

    @property
    def newest(self) -> int:
        """The number of the last state."""
        return self.first + len(self.states) - 1

    def written(self, cta: int, threads: tuple[int, ...], time: int, release: Release | None) -> None:
        """Atomics of threads that act together have changed it."""
        self.states.append(_State(cta, threads[0], time, release))
        if len(self.states) > STATES:
            dropped = len(self.states) // 2
            del self.states[:dropped]
            self.first += dropped
        self.seen |= dict.fromkeys(((cta, thread) for thread in threads), self.newest)

    def found(self, number: int, bits: int) -> None:
        """An atomic has found these bits in a state, before it made the next one."""
        if number >= self.first:
            self.states[number - self.first].bits = bits

    def release_of(self, number: int) -> Release | None:
        """What may be acquired from a state."""
        return self.states[number - self.first].release

    def read(self, clocks: Clocks, row: int, threads: tuple[int, ...], decision: Decision | None) -> int:
        """Threads of a CTA that act together read the newest state: the number of the oldest that they may have read
        instead.
        """
        cta = row + clocks.wave.first
        number = self.newest
        if decision is not None:
            oldest = max(self.first, *(self.seen.get((cta, thread), 0) for thread in threads))
            is_alike = decision.alike(row, threads)
            number = self._like_newest(oldest, is_alike)
            if number < self.newest:
                number = self._like_newest(self._newest_known(clocks, row, threads[0], number), is_alike)
        self.seen |= dict.fromkeys(((cta, thread) for thread in threads), number)
        return number

    def _like_newest(self, oldest: int, is_alike: Callable[[int], bool]) -> int:
        """The first state from a number on that sends all threads the way in which the newest does."""
        for number in range(oldest, self.newest):
            bits = self.states[number - self.first].bits
            if bits is not None and is_alike(bits):
                return number
        return self.newest

    def _newest_known(self, clocks: Clocks, row: int, thread: int, oldest: int) -> int:
        """The newest state, from a number on, whose write comes before all that a thread does now."""
        later = self.states[oldest - self.first + 1 :]
        each = [np.array([getattr(state, name) for state in later]) for name in ("cta", "thread", "time")]
        knows = clocks.knows(np.full(len(later), row), np.full(len(later), clocks.knower[thread]), *each)
        return oldest + 1 + int(np.flatnonzero(knows)[-1]) if knows.any() else oldest
