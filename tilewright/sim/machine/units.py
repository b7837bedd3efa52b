"""What asynchronous units act on: memory, on behalf of the threads, warps or warpgroups that issued an instruction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import SimulationError
from tilewright.isa import ANY_LANES, WARPGROUP, Access, Signal
from tilewright.sim.machine.batch import numbers
from tilewright.sim.machine.memory import SHIFT, UNITS
from tilewright.sim.machine.places import WINDOW_BITS
from tilewright.sim.machine.remote import OFFSET_BITS, atomic_words, split
from tilewright.sim.machine.tmem import trouble_with

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.isa import Addresses
    from tilewright.sim.machine.arrays import Array, Bools, Ints
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.masks import Mask
    from tilewright.sim.machine.memory import Block
    from tilewright.sim.machine.tmem import Cells
    from tilewright.sim.machine.wave import Wave

__all__ = ["Issuers", "Touched", "issuers_of"]

LANES = {ANY_LANES: 1, WARPGROUP: 128}  # lanes of each issuer; all other issuers are warps


@dataclass(frozen=True, eq=False)
class Issuers:
    """`tilewright.isa.machine.Unit`: who issues together, n of them. rows: of their CTAs in the wave. threads: of the
    CTA, the first of each. lanes: of each, 1, 32 or 128. places: CTAs, warps and lanes in the batch's arrays.
    """

    wave: Wave
    at: Span | None
    rows: Ints
    threads: Ints
    lanes: int
    places: tuple[Ints, ...]

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
        cta, warp = self.wave.cta_name(int(self.rows[k])), int(self.threads[k]) // 32
        if self.lanes == 128:
            return f"CTA {cta}, warps {warp}..{warp + 3}"
        return f"CTA {cta}, warp {warp}" + (f", lane {int(self.threads[k]) % 32}" if self.lanes == 1 else "")

    def read(self, address: Ints, nbytes: int) -> NDArray[np.uint8]:
        found = np.zeros((len(self.rows), nbytes), np.uint8)
        run = self.wave.run
        for one in np.unique(address).tolist():
            window, offset = divmod(one, 1 << WINDOW_BITS)
            block = run.blocks[run.places.globals[window].name] if window in run.places.globals else None
            if block is None or offset + nbytes > block.nbytes:
                self.fault(f"{nbytes} bytes at {one:#x} are not in global memory", address == one)
            found[address == one] = block.data[0, offset : offset + nbytes]
        return found

    def fault(self, what: str, issuers: Bools) -> NoReturn:
        raise SimulationError(what, given=self.name(int(np.flatnonzero(issuers)[0])), at=self.at)

    def each(self) -> tuple[Ints, Ints]:
        """Row and thread of all that take part, (n, lanes)."""
        threads = self.threads[:, None] + np.arange(self.lanes)
        return np.broadcast_to(self.rows[:, None], threads.shape), threads

    def taken(self, value: Array, shape: tuple[int, ...]) -> Array:
        """The issuers' part of values (CTAs, warps, 32) or (CTAs, warps, registers, 32), an axis of issuers first."""
        vector = value.shape[2:-1] if value.ndim > 3 else ()
        full = np.moveaxis(np.broadcast_to(value, (*shape[:2], *vector, 32)), -1, 2)  # registers last
        found = np.ascontiguousarray(full[self.places])  # (n, registers), or (n, warps, 32, registers)
        if self.lanes == 1:
            return found
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
    made = Issuers(batch.wave, at, rows[first], number[first] * 32, count, ())
    if len(warps) != int(first.sum()) * count // 32:
        given = Issuers(batch.wave, at, rows, number * 32, 32, ())
        given.fault("a warpgroup takes part without all of its four warps", rows >= 0)
    places = ctas[first][:, None], warps[first][:, None] + np.arange(count // 32)
    return replace(made, places=places)


@dataclass(frozen=True, eq=False)
class Touched:
    """One access or signal of an operation, m places of it.

    issuer: (m,), on whose behalf. rows: (m, ...), of the CTAs whose memory that is. at: offsets in shared memory,
    generic addresses, or lanes of tensor memory, with their ``column``. width: bytes of each; nbytes: how many count.
    """

    effect: Access | Signal
    space: str
    width: int
    issuer: Ints
    rows: Ints
    at: Ints
    column: Ints | None
    nbytes: Ints | None
    fill: NDArray[np.uint8] | None = None

    @classmethod
    def of(cls, issuers: Issuers, effect: Access | Signal, space: str, width: int, found: Addresses) -> Touched:
        at = np.asarray(found.at).astype(np.int64)
        issuer = np.arange(len(issuers.rows)) if found.issuer is None else found.issuer
        rows = issuers.rows[issuer]
        if found.rank is not None:
            rows, at = rows - issuers.wave.rank(rows) + found.rank, at & (1 << OFFSET_BITS) - 1
        rows = np.broadcast_to(rows.reshape(-1, *[1] * (at.ndim - 1)), at.shape)
        if space == "shared":
            own = rows - issuers.wave.rank(rows)
            rows, at = split(issuers.wave, rows, at)
            count = issuers.cluster_ctas
            if (beyond := (rows < own) | (rows >= own + count)).any():
                who = np.isin(np.arange(len(issuers.rows)), issuer[beyond.reshape(len(at), -1).any(1)])
                issuers.fault(f"an address of CTA {int((rows - own)[beyond][0])} of a cluster of {count} CTAs", who)
        nbytes = None if found.nbytes is None else np.broadcast_to(found.nbytes, at.shape).astype(np.int64)
        return cls(effect, space, found.width or width, issuer, rows, at, found.column, nbytes, found.fill)

    @property
    def writes(self) -> bool:
        """Does it change what is there?"""
        return isinstance(self.effect, Signal) or self.effect.write

    @property
    def proxy(self) -> str:
        """Through which it is accessed; m-barriers through the generic one."""
        return "generic" if isinstance(self.effect, Signal) else self.effect.proxy

    @property
    def combines(self) -> bool:
        """Does it read and write, with nobody in between?"""
        return isinstance(self.effect, Access) and self.effect.rmw

    @property
    def touches(self) -> Bools:
        """(m, ...) bools: the places of which at least one byte counts."""
        return np.ones(self.at.shape, np.bool_) if self.nbytes is None else self.nbytes > 0

    @property
    def bytes_moved(self) -> int:
        """Bytes of all places together."""
        return self.at.size * self.width if self.nbytes is None else int(self.nbytes.sum())

    def on_behalf(self, issuer: int) -> Touched:
        """The places that one issuer touches."""
        own = self.issuer == issuer
        column, nbytes = (None if part is None else part[own] for part in (self.column, self.nbytes))
        return replace(
            self, issuer=self.issuer[own], rows=self.rows[own], at=self.at[own], column=column, nbytes=nbytes
        )

    def check(self, issuers: Issuers, *, bounds: bool) -> None:
        """Raises SimulationError for the first issuer with a place that is none."""
        wave = issuers.wave
        if self.space == "tmem":
            assert self.column is not None
            if trouble_with(wave.columns, self.rows, self.at, self.column, bounds):
                for k in range(len(self.at)):
                    if trouble := trouble_with(wave.columns, self.rows[k], self.at[k], self.column[k], bounds):
                        issuers.fault(trouble, np.arange(len(issuers.rows)) == self.issuer[k])
            return
        for rows, at, size, name in self._memories(wave):
            outside = (at < 0) | (at + (self.width if self.nbytes is None else self.nbytes) > size)
            outside = outside & rows & self.touches
            if outside.any():
                which = np.isin(np.arange(len(issuers.rows)), self.issuer[outside.reshape(len(at), -1).any(1)])
                issuers.fault(f"outside of {name}: byte {int(at[outside].max())} of {size}", which)

    def _memories(self, wave: Wave) -> Iterator[tuple[Bools, Ints, int, str]]:
        """For each memory: which places are in it, their addresses there, its bytes and its name."""
        if self.space == "shared":
            yield np.ones(self.at.shape, np.bool_), self.at, wave.run.shared_bytes, "shared memory"
        else:
            for window, there in self.windows():
                block = wave.run.blocks[(place := wave.run.places.at(window, 0)).name]
                yield there, self.at & (1 << WINDOW_BITS) - 1, block.nbytes, place.name

    def windows(self) -> Iterator[tuple[int, Bools]]:
        """The global buffers, by their windows, and which of the places that count are in each."""
        window, counts = self.at >> WINDOW_BITS, self.touches
        for one in np.unique(window[counts]).tolist():
            yield one, (window == one) & counts

    # Bytes

    @property
    def all_initialised(self) -> Array:
        """Flags that say that all places are initialised."""
        if self.space == "tmem":
            return np.full(self.at.shape, 0x01010101, np.uint32)
        return np.ones((*self.at.shape, self.width), np.uint8)

    def load(self, wave: Wave, *, flags: bool) -> Array:
        """What is there, or its flags: (m, ..., width) bytes, (m, ...) cells. Bytes that do not count are zero, and
        initialised.
        """
        if self.space == "tmem":
            return _cells(wave, flags).load(self.rows, self.at, self.column)  # type: ignore[arg-type]  # tmem has one
        found = np.full((*self.at.shape, self.width), flags, np.uint8)
        if self.fill is not None and not flags:
            found[...] = self.fill[self.issuer].reshape(-1, *[1] * (self.at.ndim - 1), self.width)
        if self.space == "shared":
            block = wave.shadows.shared if flags else wave.shared
            self._gather(block, self.rows, self.at, self.touches, found)
        elif not flags:
            for window, there in self.windows():
                block = wave.run.blocks[wave.run.places.at(window, 0).name]
                self._gather(block, np.zeros_like(self.rows), self.at & (1 << WINDOW_BITS) - 1, there, found)
        return found

    def _gather(self, block: Block, rows: Ints, at: Ints, there: Bools, found: NDArray[np.uint8]) -> None:
        if self.nbytes is None or (self.nbytes[there] == self.width).all():
            found[there] = block.view(self.width)[rows[there], at[there] >> SHIFT[self.width]][..., None].view(np.uint8)
            return
        counts = np.arange(self.width) < self.nbytes[..., None]
        octets = np.where(counts, at[..., None] + np.arange(self.width), 0)
        found[there] = np.where(counts, block.data[rows[..., None], octets], found)[there]

    def store(self, wave: Wave, data: Array, *, flags: bool) -> None:
        """Write what `load` would find, a row for each of the m, or one for each of the n issuers."""
        if len(data) != len(self.at):
            data = data[self.issuer]
        if self.space == "tmem":
            _cells(wave, flags).store(self.rows, self.at, self.column, data)  # type: ignore[arg-type]  # tmem has one
            return
        data = np.broadcast_to(data, (*self.at.shape, self.width))
        if self.space == "shared":
            self._scatter(wave.shadows.shared if flags else wave.shared, self.rows, self.at, self.touches, data)
        elif not flags:
            for window, there in self.windows():
                block = wave.run.blocks[wave.run.places.at(window, 0).name]
                self._scatter(block, np.zeros_like(self.rows), self.at & (1 << WINDOW_BITS) - 1, there, data)

    def _scatter(self, block: Block, rows: Ints, at: Ints, there: Bools, data: NDArray[np.uint8]) -> None:
        if self.nbytes is None or (self.nbytes[there] == self.width).all():
            words = np.ascontiguousarray(data[there]).view(UNITS[self.width])[..., 0]
            block.view(self.width)[rows[there], at[there] >> SHIFT[self.width]] = words
            return
        counts = (np.arange(self.width) < self.nbytes[..., None]) & there[..., None]
        octets = at[..., None] + np.arange(self.width)
        block.data[np.broadcast_to(rows[..., None], octets.shape)[counts], octets[counts]] = data[counts]

    def change(self, wave: Wave, values: tuple[Array, ...]) -> None:
        """Change the m-barriers that are signalled, one after the other. values: (n,), what each issuer gives."""
        assert isinstance(self.effect, Signal)
        assert self.effect.change is not None
        given = tuple(value[self.issuer] for value in values)
        atomic_words(wave, self.rows, self.at, self.effect.change, given)


def _cells(wave: Wave, flags: bool) -> Cells:
    return wave.shadows.tmem if flags else wave.tmem
