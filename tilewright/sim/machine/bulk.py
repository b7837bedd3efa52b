"""What an asynchronous unit sees: memory, on behalf of the threads that issued an instruction together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import SimulationError
from tilewright.sim.machine.remote import atomic_words
from tilewright.sim.machine.tmem import trouble_with

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.machine.wave import Wave

__all__ = ["BulkFacet", "Footprint", "Issuers"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Issuers:
    """The threads that issue together: row of the wave and thread of the CTA, (n,) each."""

    wave: Wave
    rows: Ints
    threads: Ints

    def name(self, k: int) -> str:
        """``CTA (0, 0, 0), warp 1, lane 3``."""
        thread = int(self.threads[k])
        return f"CTA {self.wave.cta_name(int(self.rows[k]))}, warp {thread // 32}, lane {thread % 32}"


@dataclass(eq=False)
class Footprint:
    """What an operation touches. The first axis of all arrays tells apart who does: issuers, their CTAs, or warps.

    shared: (rows, addresses) of bytes read, and how many at each. read, written: (rows, lanes, columns) of cells.
    arrivals: (issuers, rows, shared addresses) of m-barriers. Stands in for memory when an operation is issued: reads
    give zeros, nothing is written.
    """

    shared: list[tuple[Ints, Ints, int]] = field(default_factory=list)
    read: list[tuple[Ints, Ints, Ints]] = field(default_factory=list)
    written: list[tuple[Ints, Ints, Ints]] = field(default_factory=list)
    arrivals: list[tuple[Ints, Ints, Ints]] = field(default_factory=list)

    def __call__(self, look: object, place: object) -> Footprint:
        """The storage of any place, as facets ask for it."""
        return self

    def load(self, row: Ints, lane: Ints, column: Ints) -> NDArray[np.uint32]:
        """Cells that will be read; zeros for now."""
        self.read.append((row, lane, column))
        return np.zeros(lane.shape, np.uint32)

    def store(self, row: Ints, lane: Ints, column: Ints, words: NDArray[Any]) -> None:
        """Cells that will be written."""
        self.written.append((row, lane, column))


@dataclass(frozen=True, eq=False)
class BulkFacet:
    """`Bulk` for some issuers. storage: finds the bytes, their flags, or a `Footprint`."""

    issuers: Issuers
    at: Span | None
    storage: Callable[[Any, Any], Any]
    first: Issuers | None = None  # the threads that issued, where `issuers` are the CTAs of their pairs

    @property
    def wave(self) -> Wave:
        """The CTAs of the issuers."""
        return self.issuers.wave

    def pairs(self) -> BulkFacet:
        wave, issuers = self.wave, self.issuers
        if wave.run.cluster_ctas % 2:
            self.fault("cta_group=2 is for pairs of CTAs: the cluster has an even number of them", issuers.rows >= 0)
        even = (issuers.rows - wave.rank(issuers.rows) % 2)[:, None]
        both = Issuers(wave, (even + np.arange(2)).reshape(-1), np.repeat(issuers.threads, 2))
        return replace(self, issuers=both, first=issuers)

    def _rows(self, shape: tuple[int, ...]) -> Ints:
        rows = self.issuers.rows.reshape(-1, *[1] * (len(shape) - 1))
        return np.broadcast_to(rows, shape)

    def _threads(self, wrong: NDArray[np.bool_]) -> NDArray[np.bool_]:
        own = wrong.reshape(len(self.first.rows if self.first else self.issuers.rows), -1)
        return np.asarray(own.any(-1))

    def shared(self, address: Ints, nbytes: int) -> NDArray[np.uint8]:
        outside = (address < 0) | (address + nbytes > self.wave.run.shared_bytes)
        if outside.any():
            far = int(address[outside].max())
            whole = self.wave.run.shared_bytes
            self.fault(f"outside of shared memory: byte {far} of {whole}", self._threads(outside))
        storage = self.storage(self.issuers, self.wave.run.places.arena)
        rows = self._rows(address.shape)
        if isinstance(storage, Footprint):
            storage.shared.append((rows, address, nbytes))
            return np.zeros((*address.shape, nbytes), np.uint8)
        own = rows if storage.rows > 1 else np.zeros_like(rows)
        found: NDArray[np.uint8] = storage.data[own[..., None], address[..., None] + np.arange(nbytes)]
        return found

    def _cells(self, lane: Ints, column: Ints) -> tuple[Any, Ints]:
        rows = self._rows(lane.shape)
        bounds = "bounds" in self.wave.run.program.checks
        if trouble_with(self.wave.columns, rows, lane, column, bounds):
            for k in range(len(rows)):  # the first thread with a wrong cell is to blame
                if trouble := trouble_with(self.wave.columns, rows[k], lane[k], column[k], bounds):
                    self.fault(trouble, self._threads(np.arange(len(rows)) == k))
        return self.storage(self.issuers, self.wave.run.places.tmem), rows

    def cells(self, lane: Ints, column: Ints) -> NDArray[np.uint32]:
        storage, rows = self._cells(lane, column)
        found: NDArray[np.uint32] = storage.load(rows, lane, column)
        return found

    def store_cells(self, lane: Ints, column: Ints, words: NDArray[Any]) -> None:
        storage, rows = self._cells(lane, column)
        storage.store(rows, lane, column, words)

    def arrive(self, barrier: Ints, combine: Callable[..., Any], *values: NDArray[Any]) -> None:
        self._arrive(np.arange(len(barrier)), self.issuers.rows, barrier, combine, values)

    def arrive_everywhere(self, barrier: Ints, ctas: Ints, combine: Callable[..., Any], *values: NDArray[Any]) -> None:
        size = self.wave.run.cluster_ctas
        nobody = ctas.astype(np.int64) >> size
        if nobody.any():
            first = int(nobody[nobody != 0][0])
            bit = size + (first & -first).bit_length() - 1
            self.fault(f"cta_mask has bit {bit}, but the ranks of the cluster's CTAs are 0..{size - 1}", nobody != 0)
        chosen = ctas.astype(np.int64)[:, None] >> np.arange(size) & 1 != 0
        issuer, rank = np.nonzero(chosen)
        rows = self.issuers.rows[issuer]
        rows = rows - self.wave.rank(rows) + rank
        self._arrive(issuer, rows, barrier[issuer], combine, tuple(value[issuer] for value in values))

    def _arrive(
        self, issuer: Ints, rows: Ints, barrier: Ints, combine: Callable[..., Any], values: tuple[Any, ...]
    ) -> None:
        storage = self.storage(self.issuers, self.wave.run.places.arena)
        if isinstance(storage, Footprint):
            storage.arrivals.append((issuer, rows, barrier.astype(np.int64)))
        else:
            atomic_words(self.wave, rows, barrier.astype(np.int64), combine, values)

    def fault(self, what: str, threads: NDArray[np.bool_]) -> None:
        issuers = self.first or self.issuers
        given = issuers.name(int(np.flatnonzero(threads)[0]))
        raise SimulationError(what, given=given, at=self.at)
