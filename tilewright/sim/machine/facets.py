"""The machine as one instruction sees it: `tilewright.isa.machine`'s protocols for one batch and mask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import SimulationError
from tilewright.isa import ANY_LANES, WARPGROUP
from tilewright.sim.machine.address import Address, Part
from tilewright.sim.machine.arrays import Array, Bools
from tilewright.sim.machine.batch import Mask, numbers, spread
from tilewright.sim.machine.memory import SHIFT, UNITS, MemoryRows, combined
from tilewright.sim.machine.places import (
    OFFSET_BITS,
    SHARED_WINDOW,
    WINDOW_BITS,
    across,
    element_text,
    multicast_steps,
    on_rank,
)  # fmt: skip
from tilewright.sim.machine.registers import Registers
from tilewright.sim.machine.sites import by_window, harmless
from tilewright.sim.machine.tmem import TmemFacet

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.explain import Threads
    from tilewright.sim.machine import Batch, Ints, Look, Memories, Storage, Wave

__all__ = ["Facet", "Issuers"]

# The issuers of an operation: threads, warps or warpgroups of a batch, on whose behalf asynchronous units act.


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
        octets = np.zeros((len(self.rows), nbytes), np.uint8)
        for start in np.unique(address).tolist():
            window, offset = divmod(start, 1 << WINDOW_BITS)
            _, block = self.wave.run.global_block(window)
            if block is None or offset + nbytes > block.nbytes:
                self.fault(f"{nbytes} bytes at {start:#x} are not in global memory", address == start)
            octets[address == start] = block.data[0, offset : offset + nbytes]
        return octets

    @property
    def cta(self) -> Ints:
        return self.rows

    def take_clusters(self) -> NDArray[np.uint32]:
        taken = [self.wave.run.take_cluster() for _ in self.rows]
        return np.array([(0, 0, 0, 0) if cta is None else (1, *self.wave.cta_at(cta)) for cta in taken], np.uint32)

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
        entries: NDArray[Scalar] = table.reshape(-1).take(first[:, None] + np.arange(self.lanes))
        return entries

    def taken(self, value: Array, shape: tuple[int, ...]) -> Array:
        """The issuers' part of values (CTAs, warps, 32) or (CTAs, warps, registers, 32), an axis of issuers first."""
        vector = value.shape[2:-1] if value.ndim > 3 else ()
        full = spread(value, (*shape[:2], *vector, 32))
        if vector:
            full = np.moveaxis(full, -1, 2)  # registers last
        if self.lanes > 1 and self.lanes * len(self.rows) == 32 * shape[0] * shape[1]:  # everyone, in order
            values = full.reshape(len(self.rows), -1, *vector).copy()  # registers change
        else:
            values = np.ascontiguousarray(full[self.places])  # (n, registers), or (n, warps, 32, registers)
        if self.lanes == 1:
            return values
        if not vector:
            return values.reshape(len(self.rows), self.lanes)
        values = values.reshape(len(self.rows), self.lanes, *vector)
        return np.ascontiguousarray(np.moveaxis(values, 1, -1))

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
        everyone = Issuers(batch.wave, at, rows, number * 32, 32, ())
        everyone.fault("a warpgroup takes part without all of its four warps", rows >= 0)
    places = ctas[first][:, None], warps[first][:, None] + np.arange(count // 32)
    return Issuers(batch.wave, at, rows[first], number[first] * 32, count, places)


@dataclass(eq=False)
class MemoryFacet:
    """All memories as one `Memory`, by generic addresses: the bytes, or their flags."""

    batch: Look
    mask: Mask
    at: Span | None
    memories: Memories

    def _split(self, address: Array) -> list[tuple[Storage, Mask, Address]]:
        """For each buffer: its bytes, the lanes that point there, and where."""
        places, parts = self.batch.wave.run.places, []
        at = harmless(Address(0, Part(address.astype(np.int64, copy=False))), self.mask)
        for window, lanes, there in by_window(self.mask, at):
            if not places.has_window(window):
                raise SimulationError(
                    "a pointer to nowhere", given=f"address {(window << WINDOW_BITS) + there.lo:#x}",
                    allowed="a pointer into a buffer of the kernel", at=self.at, kind="bounds",
                )  # fmt: skip
            there = there if lanes is self.mask else harmless(there, lanes)
            storage = self.memories.storage(places.at(window, there.lo))
            if window == SHARED_WINDOW and isinstance(storage, MemoryRows):
                there = Address(0, Part(across(self.batch, storage, there.full())))
            parts.append((storage, lanes, there))
        return parts

    def rows(self, address: Array, nbytes: int) -> NDArray[np.uint8]:
        octets: NDArray[np.uint8] | None = None
        for storage, lanes, at in self._split(address):
            bits = np.ascontiguousarray(storage.load(self.batch, at, nbytes))[..., None].view(np.uint8)
            octets = bits if octets is None else np.where(lanes.full[..., None], bits, octets)
        assert octets is not None, "some lane is active"
        return octets

    def store_rows(self, address: Array, data: NDArray[np.uint8]) -> None:
        bits = np.ascontiguousarray(data).view(UNITS[data.shape[-1]])[..., 0]
        for storage, lanes, at in self._split(address):
            storage.store(self.batch.of_lanes(lanes.shape[2]), at, data.shape[-1], bits, lanes)

    def replicas(self, address: Array) -> list[Array]:
        run = self.batch.wave.run
        return [
            np.asarray(address) + step
            for step in multicast_steps(run, self.mask.harmless(address.astype(np.int64, copy=False)), self.at)
        ]

    def atomic(self, address: Array, combine: Callable[..., Array], *values: Array) -> Array:
        """Lane by lane where lanes share an address, all others at once."""
        olds = np.zeros(self.mask.shape, values[0].dtype)
        for storage, lanes, at in self._split(address):
            if isinstance(storage, MemoryRows):
                self._in_rows(storage, lanes, at, olds, combine, *values)
            else:
                self._in_registers(storage, lanes, at, olds, combine, *values)
        self.batch.wave.run.events.changed(self.batch, olds)
        return olds

    def _in_rows(
        self, block: MemoryRows, lanes: Mask, at: Address, olds: Array, combine: Callable[..., Array], *values: Array
    ) -> None:
        """Change words in a block of memory."""
        words = block.to_change(olds.itemsize).view(olds.dtype)
        row = self.batch.rows(words.shape[1]) if block.rows > 1 else 0
        place = spread((at.full() >> SHIFT[olds.itemsize]) + row, olds.shape)[lanes.full]
        operands = [spread(value, olds.shape)[lanes.full] for value in values]
        order = self.batch.wave.run.precedence.taken(np.arange(len(place)))
        olds[lanes.full] = combined(words, place, combine, operands, order)

    def _in_registers(
        self, registers: Registers, lanes: Mask, at: Address, olds: Array, combine: Callable[..., Array], *values: Array
    ) -> None:
        """Change words in registers, which no other thread can reach."""
        bits = np.ascontiguousarray(registers.load(self.batch, at, olds.itemsize))
        np.copyto(olds, bits.view(olds.dtype), where=lanes.full)
        new = np.asarray(combine(olds, *values)).astype(olds.dtype)
        registers.store(self.batch, at, olds.itemsize, new.view(UNITS[olds.itemsize]), lanes)


class SharedFacet(MemoryFacet):
    """Shared memory as a `Memory`; addresses may be those of the first lanes of each warp alone."""

    def _split(self, address: Array) -> list[tuple[Storage, Mask, Address]]:
        lanes, count = self.mask, address.shape[-1]
        if count < 32:
            lanes = Mask((*lanes.shape[:2], count), None if lanes.array is None else lanes.full[..., :count])
        offsets = lanes.harmless(address.astype(np.int64, copy=False))
        at = Address(0, Part.of_lanes(across(self.batch, self.memories.shared, offsets)))
        return [(self.memories.shared, lanes, at)]


class Facet(MemoryFacet):
    """`Machine` for one call. `given` is the part of it that a row's meaning gets."""

    @property
    def memory(self) -> MemoryFacet:
        return self

    def given(self, on: str) -> tuple[object, ...]:
        """What ``execute`` gets first, by the row's `Meaning.on`: the machine, a part of it, or nothing."""
        return () if not on else (self if on == "machine" else getattr(self, on),)

    @property
    def shared(self) -> SharedFacet:
        return SharedFacet(self.batch, self.mask, self.at, self.memories)

    @property
    def tmem(self) -> TmemFacet:
        return TmemFacet(self)

    @property
    def warp(self) -> Array:
        return np.array(numbers(self.batch.warps)).reshape(1, -1, 1)

    def on_rank(self, address: Array, rank: Array) -> Array:
        count = self.batch.wave.run.cluster_ctas
        wrong = self.active & ((rank.astype(np.int64) < 0) | (rank.astype(np.int64) >= count))
        if wrong.any():
            self.fault(f"the cluster has {count} CTAs: a rank is 0..{count - 1}", wrong)
        return on_rank(address, rank)

    def rank_of(self, address: Array) -> Array:
        home = self.batch.wave.rank(self.batch.rows(1))
        rank = (address.astype(np.int64) >> OFFSET_BITS) - 1
        return np.asarray(np.where(rank >= 0, rank, home))

    @property
    def active(self) -> Bools:
        return self.mask.full

    def to_shared(self, address: Array) -> Array:
        return address - (SHARED_WINDOW << WINDOW_BITS)

    def with_rank(self, address: Array) -> Array:
        wave = self.batch.wave
        return on_rank(address, self.rank_of(address)) if wave.run.cluster_ctas > 1 else address

    def clock(self) -> int:
        self.batch.wave.run.steps += 1
        self.batch.wave.run.has_clock = True
        return self.batch.wave.run.steps

    def write_text(self, count: int, line: Callable[[int], str]) -> None:
        self.batch.wave.run.printed.add(count, line, self.at)

    def depends(self, word: str) -> None:
        self.batch.wave.run.events.depends(self.batch, self.mask, word)

    def done_by_warpgroup(self, value: Array) -> None:
        run = self.batch.wave.run
        run.events.done_by_warpgroup(self.batch, self.mask, np.asarray(value), self.at)

    def fault(self, what: str, lanes: Bools, *, hint: str | None = None) -> None:
        """Stops the kernel, naming the first CTA and warp with such lanes."""
        raise self.batch.error("simulation", what, np.broadcast_to(lanes, self.batch.shape), self.at, hint=hint)
