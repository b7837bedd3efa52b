"""Tensor memory: the cells of a chunk's CTAs, and which columns of them are taken.

128 lanes by 512 columns of 32-bit cells for each CTA. Warps take columns, all lanes of them, and give them back; what
was not taken is not there. Rows count the CTAs of the chunk.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilewright.sim.batch import numbers

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.facets import Facet
    from tilewright.sim.masks import Bools

__all__ = ["COLUMNS", "LANES", "Cells", "Columns", "Taken", "TensorFacet", "cells_text"]

LANES, COLUMNS = 128, 512
Ints = NDArray[np.int64]


class Cells:
    """(rows, lanes, columns) uint32: tensor memory itself, or the flags of its bytes."""

    def __init__(self, rows: int) -> None:
        self.words = np.zeros((rows, LANES, COLUMNS), np.uint32)

    def load(self, row: Ints, lane: Ints, column: Ints) -> NDArray[np.uint32]:
        """The words at arrays of places."""
        return self.words[row, lane, column]

    def store(self, row: Ints, lane: Ints, column: Ints, words: NDArray[Any]) -> None:
        self.words[row, lane, column] = words


@dataclass(frozen=True, slots=True)
class Taken:
    """What one `alloc` took: ``columns`` from ``first`` on, of which the kernel wants ``asked``."""

    first: int
    columns: int
    asked: int
    at: Span | None


@dataclass(eq=False)
class Columns:
    """Who has which columns of each CTA. holder: (rows, columns), 1 + the index in ``log`` of what took a column;
    negative beyond what was asked for, 0 where it is free. given_up: CTAs that may take no more.
    """

    rows: int
    log: list[Taken] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.holder = np.zeros((self.rows, COLUMNS), np.int32)
        self.given_up = np.zeros(self.rows, np.bool_)
        self.last = np.full(self.rows, COLUMNS)  # columns of the last `alloc`: none may take more than that

    def room(self, row: int, columns: int) -> int | None:
        """The first of so many free columns, or None."""
        free = self.holder[row].reshape(-1, columns) == 0  # what is a power of two begins at a multiple of itself
        starts = np.flatnonzero(free.all(-1))
        return int(starts[0]) * columns if len(starts) else None

    def take(self, row: int, taken: Taken) -> None:
        self.log.append(taken)
        own = self.holder[row, taken.first : taken.first + taken.columns]
        own[: taken.asked] = len(self.log)
        own[taken.asked :] = -len(self.log)
        self.last[row] = taken.columns

    def taken_at(self, row: int, first: int) -> Taken | None:
        """What begins at a column."""
        found = self.log[abs(number) - 1] if first < COLUMNS and (number := int(self.holder[row, first])) else None
        return found if found is not None and found.first == first else None

    def free(self, row: int, taken: Taken) -> None:
        self.holder[row, taken.first : taken.first + taken.columns] = 0

    def held(self, row: int) -> list[Taken]:
        """All that a CTA has not given back."""
        return [self.log[number - 1] for number in np.unique(np.abs(self.holder[row])) if number]


class TensorFacet:
    """`Tensor` of one call."""

    def __init__(self, facet: Facet) -> None:
        self.facet = facet
        self.batch = facet.batch
        self.chunk = facet.batch.chunk

    # Cells

    def _where(self, lane: Ints, column: Ints) -> tuple[Ints, Ints, Ints, Bools]:
        """Row, lane and column in the shape (CTAs, warps, ..., 32), and the warps that take part."""
        inner = np.broadcast_shapes(lane.shape, column.shape)[2:]
        shape = (*self.batch.shape[:2], *inner)
        row = np.array(numbers(self.batch.ctas)).reshape(-1, *[1] * (len(shape) - 1))
        return (
            np.broadcast_to(row, shape),
            np.broadcast_to(lane, shape),
            np.broadcast_to(column, shape),
            np.asarray(self.facet.active.any(-1)),
        )

    def cells(self, lane: Ints, column: Ints) -> NDArray[np.uint32]:
        row, lane, column, warps = self._where(lane, column)
        where = (row[warps], lane[warps], column[warps])
        self._check(*where)
        found = np.zeros(row.shape, np.uint32)
        found[warps] = self._storage.load(*where)
        return found

    def store_cells(self, lane: Ints, column: Ints, words: NDArray[Any]) -> None:
        row, lane, column, warps = self._where(lane, column)
        where = (row[warps], lane[warps], column[warps])
        self._check(*where)
        self._storage.store(*where, np.broadcast_to(words, row.shape)[warps])

    @property
    def _storage(self) -> Cells:
        return self.facet.storage(self.batch, self.chunk.run.places.tensor)  # type: ignore[return-value]  # cells, here

    def _check(self, row: Ints, lane: Ints, column: Ints) -> None:
        if trouble := trouble_with(self.facet.batch.chunk.columns, row, lane, column, self._looks_at_bounds):
            self.facet.fault(trouble, self.facet.active)

    @property
    def _looks_at_bounds(self) -> bool:
        return "bounds" in self.chunk.run.program.checks

    # Columns

    def _each(self, *values: Any) -> list[tuple[int, ...]]:
        """(row, value, ...) of each active warp; lanes of a warp agree."""
        active = self.facet.active.any(-1)
        rows = np.broadcast_to(np.array(numbers(self.batch.ctas))[:, None], active.shape)[active]
        spread = [np.broadcast_to(value, self.batch.shape)[..., 0][active] for value in values]
        return [tuple(map(int, each)) for each in zip(rows, *spread, strict=True)]

    def allocate(self, columns: Ints, requested: Ints, pair: bool) -> Ints:
        """Each CTA of a pair has a warp that asks; both find the same columns, as they ask for the same."""
        self._check_pair(pair)
        found = np.zeros((*self.batch.shape[:2], 1), np.int64)
        places = iter(np.argwhere(self.facet.active.any(-1)))
        for row, wanted, asked in self._each(columns, requested):
            found[tuple(next(places))] = self._take(row, wanted, asked)
        return np.broadcast_to(found, self.batch.shape)

    def _take(self, row: int, wanted: int, asked: int) -> int:
        own = self.chunk.columns
        if own.given_up[row]:
            self._fault("tensor memory is asked for after relinquish_alloc_permit")
        if wanted > own.last[row]:
            self._fault(
                f"{wanted} columns of tensor memory after {own.last[row]}: no alloc may take more than the last"
            )
        first = own.room(row, wanted)
        if first is None:
            held = ", ".join(f"{each.columns} at {each.at}" for each in own.held(row))
            self._fault(f"deadlock: no {wanted} columns of tensor memory are free, and nobody gives any back ({held})")
            raise AssertionError
        own.take(row, Taken(first, wanted, asked, self.facet.at))
        if hasattr(self.chunk, "shadows"):
            self.chunk.shadows.tensor.words[row, :, first : first + wanted] = 0
        return first

    def free(self, address: Ints, columns: Ints, pair: bool) -> None:
        self._check_pair(pair)
        for row, first, wanted in self._each(address, columns):
            taken = self.chunk.columns.taken_at(row, first) if first >> 16 == 0 else None
            if taken is None:
                held = self.chunk.columns.held(row)
                has = ", ".join(f"{each.columns} columns from column {each.first}" for each in held) or "nothing"
                self._fault(f"dealloc of what no alloc gave: address {first:#x}; the CTA has {has}")
            elif taken.columns != wanted:
                self._fault(f"dealloc of {wanted} columns where alloc at {taken.at} took {taken.columns}")
            else:
                for check in self.chunk.run.checks:
                    check.freed(self.batch, row, taken, self.facet.at)
                self.chunk.columns.free(row, taken)

    def relinquish(self, pair: bool) -> None:
        self._check_pair(pair)
        for (row,) in self._each():
            self.chunk.columns.given_up[row] = True

    def _check_pair(self, pair: bool) -> None:
        if pair and self.chunk.run.cluster_ctas % 2:
            self._fault("cta_group=2 is for pairs of CTAs: the cluster has an even number of them")

    def _fault(self, what: str) -> None:
        self.facet.fault(what, self.facet.active)


def cells_text(lane: Ints, column: Ints) -> str:
    """``lanes 0..31, columns 4..7`` of some cells."""
    spans = []
    for name, values in (("lane", lane), ("column", column)):
        low, high = int(values.min()), int(values.max())
        spans.append(f"{name} {low}" if low == high else f"{name}s {low}..{high}")
    return ", ".join(spans)


def trouble_with(columns: Columns, row: Ints, lane: Ints, column: Ints, bounds: bool) -> str:
    """Why these cells are none that the kernel may touch; empty where they are."""
    outside = (lane < 0) | (lane >= LANES) | (column < 0) | (column >= COLUMNS)
    if outside.any():
        where = cells_text(lane[outside], column[outside])
        return f"outside of tensor memory: {where}; it has {LANES} lanes, {COLUMNS} columns"
    if not bounds:
        return ""
    holder = columns.holder[row, column]
    if (holder > 0).all():
        return ""
    where = cells_text(lane[holder <= 0], column[holder <= 0])
    number = int(holder[holder <= 0].min())
    if number == 0:
        return f"tensor memory that is not allocated: {where}"
    taken = columns.log[-number - 1]
    last = taken.first + taken.asked - 1
    return f"tensor memory beyond the {taken.asked} columns asked for at {taken.at}: {where}; the last is {last}"
