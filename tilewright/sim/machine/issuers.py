"""The issuers of an operation: threads, warps or warpgroups of a batch, on whose behalf asynchronous units act."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import SimulationError
from tilewright.isa import ANY_LANES, WARPGROUP
from tilewright.sim.machine.batch import numbers
from tilewright.sim.machine.coordinates import element_text
from tilewright.sim.machine.masks import spread
from tilewright.sim.machine.places import OFFSET_BITS, SHARED_WINDOW, WINDOW_BITS

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.explain import Threads
    from tilewright.sim.machine.arrays import Array, Bools, Ints
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.masks import Mask
    from tilewright.sim.machine.wave import Wave

__all__ = ["Issuers", "issuers_of"]

Scalar = TypeVar("Scalar", bound=np.generic)
LANES = {ANY_LANES: 1, WARPGROUP: 128}  # lanes of each issuer; all other issuers are warps


@dataclass(frozen=True, eq=False)
class Issuers:
    """`tilewright.isa.machine.Unit` for n issuers. rows: of their CTAs in the wave. threads: of the CTA, the first of
    each. lanes: of each, 1, 32 or 128. places: CTAs, warps and lanes in the batch's arrays.
    """

    wave: Wave
    at: Span | None
    rows: Ints
    threads: Ints
    lanes: int
    places: tuple[Ints, ...]

    @cached_property
    def each_cta(self) -> int:
        """How many issue in each of some CTAs that follow each other; 0 where that differs between them."""
        count = int(np.count_nonzero(self.rows == self.rows[:1]))
        if not count or len(self.rows) % count:
            return 0
        by_cta = self.rows.reshape(-1, count)
        return count if (by_cta == self.rows[0] + np.arange(len(by_cta))[:, None]).all() else 0

    @cached_property
    def ctas(self) -> slice:
        """Those CTAs."""
        return slice(int(self.rows[0]), int(self.rows[-1]) + 1)

    @property
    def rank(self) -> Ints:
        return np.asarray(self.wave.rank(self.rows))

    @property
    def warp(self) -> Ints:
        return self.threads // 32

    @property
    def cluster_ctas(self) -> int:
        return self.wave.run.cluster_ctas

    def name(self, k: int) -> str:
        """``CTA (0, 0, 0), warp 1, lane 3``."""
        row, thread = int(self.rows[k]), int(self.threads[k])
        warp = thread // 32
        if self.lanes == 128:
            return f"CTA {self.wave.cta_name(row)}, warps {warp}..{warp + 3}"
        return self.wave.thread_name(row, thread) if self.lanes == 1 else self.wave.warp_name(row, warp)

    def read(self, address: Ints, nbytes: int) -> NDArray[np.uint8]:
        found = np.zeros((len(self.rows), nbytes), np.uint8)
        for one in np.unique(address).tolist():
            window, offset = divmod(one, 1 << WINDOW_BITS)
            _, block = self.wave.run.global_block(window)
            if block is None or offset + nbytes > block.nbytes:
                self.fault(f"{nbytes} bytes at {one:#x} are not in global memory", address == one)
            found[address == one] = block.data[0, offset : offset + nbytes]
        return found

    @property
    def cta(self) -> Ints:
        return self.rows

    def take_clusters(self) -> NDArray[np.uint32]:
        taken = [self.wave.run.take_cluster() for _ in self.rows]
        return np.array([(0, 0, 0, 0) if one is None else (1, *self.wave.cta_at(one)) for one in taken], np.uint32)

    def kept(self, buffer: str) -> NDArray[np.uint64]:
        return self.wave.kept.setdefault(buffer, np.zeros(self.wave.ctas, np.uint64))

    def thread_at(self, k: int) -> Threads:
        """An issuer, as findings have it: the first thread of it."""
        return self.wave.thread_at(self.wave.first + int(self.rows[k]), int(self.threads[k]))

    def fault(self, what: str, issuers: Bools, *, address: int | None = None) -> NoReturn:
        who = self.name(int(np.flatnonzero(issuers)[0]))
        where = "" if address is None else self._place_text(address)
        threads = (self.thread_at(int(np.flatnonzero(issuers)[0])),)
        raise SimulationError(what, given=f"{where}{who}", at=self.at, threads=threads)

    def _place_text(self, address: int) -> str:
        """``element 1 of A, byte 4, in``: empty for an address without a buffer."""
        places, (window, byte) = self.wave.run.places, divmod(address, 1 << WINDOW_BITS)
        if window in places.globals:
            return f"{element_text(self.wave.run.program, places.globals[window], byte, self.at)}, byte {byte}, in "
        if window not in (0, SHARED_WINDOW):
            return ""
        byte &= (1 << OFFSET_BITS) - 1
        return f"{element_text(self.wave.run.program, places.shared_at(byte), byte, self.at)}, in "

    def are(self, other: Issuers) -> bool:
        """Do the same lanes issue together there?"""
        alike = self.lanes == other.lanes and np.array_equal(self.rows, other.rows)
        return alike and np.array_equal(self.threads, other.threads)

    def each(self) -> tuple[Ints, Ints]:
        """Row and thread of all that take part, (n, lanes)."""
        threads = self.threads[:, None] + np.arange(self.lanes)
        return np.broadcast_to(self.rows[:, None], threads.shape), threads

    @cached_property
    def warps_each(self) -> int:
        """How many warps each issuer is; 1 of a thread."""
        return max(self.lanes // 32, 1)

    @cached_property
    def actors(self) -> tuple[Ints, Ints, Ints]:
        """Number of the issuer, row and thread of each thread or, by its first thread, warp that issues."""
        number = np.repeat(np.arange(len(self.rows)), self.warps_each)
        return number, self.rows[number], self.threads[number] + 32 * (np.arange(len(number)) % self.warps_each)

    def of_threads(self, table: NDArray[Scalar]) -> NDArray[Scalar]:
        """What a table (CTAs, threads) has for all that take part, (n, lanes)."""
        first = self.rows * table.shape[1] + self.threads
        found: NDArray[Scalar] = table.reshape(-1).take(first[:, None] + np.arange(self.lanes))
        return found

    def taken(self, value: Array, shape: tuple[int, ...]) -> Array:
        """The issuers' part of values (CTAs, warps, 32) or (CTAs, warps, registers, 32), an axis of issuers first."""
        vector = value.shape[2:-1] if value.ndim > 3 else ()
        full = spread(value, (*shape[:2], *vector, 32))
        if vector:
            full = np.moveaxis(full, -1, 2)  # registers last
        if self.lanes > 1 and self.lanes * len(self.rows) == 32 * shape[0] * shape[1]:  # everyone, in order
            found = full.reshape(len(self.rows), -1, *vector).copy()  # registers change
        else:
            found = np.ascontiguousarray(full[self.places])  # (n, registers), or (n, warps, 32, registers)
        if self.lanes == 1:
            return found
        if not vector:
            return found.reshape(len(self.rows), self.lanes)
        found = found.reshape(len(self.rows), self.lanes, *vector)
        return np.ascontiguousarray(np.moveaxis(found, 1, -1))

    def spread(self, value: Array, shape: tuple[int, ...]) -> Array:
        """The inverse of `taken`: (n, registers, lanes) as (CTAs, warps, registers, 32)."""
        vector = value.shape[1:] if self.lanes == 1 else value.shape[1:-1]
        full = np.zeros((*shape, *vector), value.dtype)
        if self.lanes > 1:
            value = np.moveaxis(value, -1, 1).reshape(len(self.rows), -1, 32, *vector)
        full[self.places] = value
        return np.moveaxis(full, 2, -1)


def issuers_of(batch: Batch, mask: Mask, lanes: str, at: Span | None) -> Issuers:
    """The issuers of a batch. lanes: how many issue together, of the row, see `tilewright.isa.Instruction`."""
    count = LANES.get(lanes, 32)
    ctas, warps, *lane = np.nonzero(mask.full if count == 1 else mask.full.any(-1))
    rows, number = np.array(numbers(batch.ctas))[ctas], np.array(numbers(batch.warps))[warps]
    if count == 1:
        return Issuers(batch.wave, at, rows, number * 32 + lane[0], 1, (ctas, warps, lane[0]))
    first = number % (count // 32) == 0
    if len(warps) != int(first.sum()) * count // 32:
        given = Issuers(batch.wave, at, rows, number * 32, 32, ())
        given.fault("a warpgroup takes part without all of its four warps", rows >= 0)
    places = ctas[first][:, None], warps[first][:, None] + np.arange(count // 32)
    return Issuers(batch.wave, at, rows[first], number[first] * 32, count, places)
