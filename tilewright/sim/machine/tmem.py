"""Tensor memory: the cells of a wave's CTAs, and which columns of them are taken.

128 lanes by 512 columns of 32-bit cells for each CTA. Warps take columns, all lanes of them, and give them back; other
columns must not be touched. Rows count the CTAs of the wave.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

from tilewright.errors import SimulationError
from tilewright.isa import TMEM_COLUMNS, TMEM_LANES
from tilewright.sim.machine.team import numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilewright.errors import Span
    from tilewright.sim.machine import Array, Bools, Facet, Ints

__all__ = ["INITIALISED", "Taken", "cells_text", "table_of_cells"]

INITIALISED = np.array(0x01010101, np.uint32)  # the flags of a cell that has been written


def table_of_cells(rows: int, kind: DTypeLike) -> Array:
    """(rows, columns, lanes) zeros: kernels use some columns, all lanes of them, which lie together here."""
    return np.zeros((rows, TMEM_COLUMNS, TMEM_LANES), kind)


@dataclass(frozen=True, eq=False, slots=True)
class CellSet:
    """Cells in tables of them, (n, lanes, columns) or (n, 1). where: slices of rows, columns and lanes, each cell once;
    else their numbers.
    """

    where: tuple[slice, slice, slice] | Ints

    @classmethod
    def of(cls, row: Ints, lane: Ints, column: Ints) -> CellSet:
        """Axes that broadcast to each other, each of size 1 along the others where it stays the same."""
        if row.ndim == 3 and row.shape[1:] == lane.shape[::2] == (1, 1) and (column == column[:1, :1]).all():
            axes = row[:, 0, 0], column[0, 0], lane[0, :, 0]
            if all(len(axis) and (axis == axis[0] + np.arange(len(axis))).all() for axis in axes):
                rows, columns, lanes = (slice(int(axis[0]), int(axis[-1]) + 1) for axis in axes)
                return cls((rows, columns, lanes))
        return cls(_numbers(row, lane, column))

    def some(self, which: Bools | Ints) -> CellSet:
        """Those of some of the n, in this order."""
        if which.dtype == np.bool_ and which.all():
            return self
        if isinstance(self.where, tuple):
            row, column, lane = (np.arange(axis.start, axis.stop) for axis in self.where)
            return CellSet(_numbers(row[:, None, None], lane[:, None], column)[which])
        return CellSet(self.where[which])

    @property
    def ndim(self) -> int:
        """Axes of what `load` gives."""
        return 3 if isinstance(self.where, tuple) else self.where.ndim

    @property
    def are_apart(self) -> bool:
        """Is it certain that no cell comes twice?"""
        return isinstance(self.where, tuple)

    def load(self, table: Array) -> Array:
        """What a table has there."""
        if isinstance(self.where, tuple):
            return np.ascontiguousarray(table[self.where].swapaxes(1, 2))
        return table.reshape(-1).take(self.where)

    def store(self, table: Array, values: Array) -> None:
        """Write values that broadcast to the cells."""
        if isinstance(self.where, tuple):
            table[self.where] = values.swapaxes(1, 2) if values.ndim else values
        else:
            table.reshape(-1)[self.where] = values


def _numbers(row: Ints, lane: Ints, column: Ints) -> Ints:
    """Where cells are in a table of them."""
    return row * (TMEM_COLUMNS * TMEM_LANES) + (column * TMEM_LANES + lane)


@dataclass(frozen=True, slots=True)
class Taken:
    """The columns of one `alloc`: ``columns`` from ``first`` on, of which the kernel has asked for ``asked``."""

    first: int
    columns: int
    asked: int
    at: Span | None


@dataclass(frozen=True, slots=True)
class ColumnRequest:
    """A warp that asks for columns. rows: the CTAs that take them together."""

    row: int
    warp: int
    columns: int
    asked: int
    rows: tuple[int, ...]
    at: Span | None


@dataclass(eq=False)
class Columns:
    """The columns of each CTA and their holders. holder: (rows, columns), 1 + the index in ``log`` of what took a
    column; negative beyond what was asked for, 0 where it is free. given_up: CTAs that may take no more.

    requests: warps that wait for columns, by row and warp; granted: the first column, for those that have got theirs.
    """

    rows: int
    log: list[Taken] = field(default_factory=list)
    requests: dict[tuple[int, int], ColumnRequest] = field(default_factory=dict)
    granted: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.holder = np.zeros((self.rows, TMEM_COLUMNS), np.int32)
        self.given_up = np.zeros(self.rows, np.bool_)
        self.ended: dict[tuple[int, int], Span | None] = {}  # row and column: where it was given back last
        self.last = np.full(self.rows, TMEM_COLUMNS)  # columns of the last `alloc`: none may take more than that

    def room(self, rows: Sequence[int], columns: int) -> int | None:
        """The first of so many columns that are free in all of these CTAs, or None."""
        used = self.holder[list(rows)].any(0)
        free = ~used.reshape(-1, columns).any(-1)  # an allocation begins at a multiple of its size
        starts = np.flatnonzero(free)
        return int(starts[0]) * columns if len(starts) else None

    def grant(self, request: ColumnRequest) -> list[tuple[ColumnRequest, int]]:
        """Gives a warp what it asks for, and its partners in other CTAs; nothing while there is no room, or a partner
        has not asked. Returns the warps that got columns, and the first of these.
        """
        partners = [request]
        for row in request.rows:
            if row != request.row:
                partners += [other for other in self.requests.values() if other.row == row and row in other.rows][:1]
        if len({partner.columns for partner in partners}) > 1:
            shown = f"{' and '.join(str(partner.columns) for partner in partners)} columns"
            what = "the CTAs of a pair ask for different numbers of columns"
            raise SimulationError(what, given=shown, allowed="the same number", at=request.at)
        first = self.room(request.rows, request.columns) if len(partners) == len(request.rows) else None
        if first is None:
            return []
        for partner in partners:
            del self.requests[partner.row, partner.warp]
            self.granted[partner.row, partner.warp] = first
            self.take(partner.row, Taken(first, partner.columns, partner.asked, partner.at))
        return [(partner, first) for partner in partners]

    def waited_for(self) -> tuple[str, str]:
        """The missing columns of the first warp that waits, and a hint."""
        request = next(iter(self.requests.values()))
        if self.room(request.rows, request.columns) is not None:
            return "an alloc by a warp of each CTA of the pair", "the same alloc in both CTAs of the pair"
        free = int((self.holder[request.row] == 0).sum())
        held = ", ".join(f"{taken.columns} by the alloc at {taken.at}" for taken in self.held(request.row))
        text = f"{request.columns} free columns of tensor memory in a row; {free} are free, taken: {held}"
        return text, "a dealloc of what is no longer used before this alloc, or an alloc of fewer columns"

    def take(self, row: int, taken: Taken) -> None:
        """Columns of a CTA are no longer free."""
        self.log.append(taken)
        holders = self.holder[row, taken.first : taken.first + taken.columns]
        holders[: taken.asked] = len(self.log)
        holders[taken.asked :] = -len(self.log)
        self.last[row] = taken.columns

    def taken_at(self, row: int, first: int) -> Taken | None:
        """The allocation that begins at a column."""
        taken = self.log[abs(number) - 1] if first < TMEM_COLUMNS and (number := int(self.holder[row, first])) else None
        return taken if taken is not None and taken.first == first else None

    def free(self, row: int, taken: Taken, at: Span | None) -> None:
        """Give columns back, at the kernel's line ``at``."""
        self.ended |= {(row, column): at for column in range(taken.first, taken.first + taken.columns)}
        self.holder[row, taken.first : taken.first + taken.columns] = 0

    def held(self, row: int) -> list[Taken]:
        """The allocations that a CTA has not given back."""
        return [self.log[number - 1] for number in np.unique(np.abs(self.holder[row])) if number]


class TmemFacet:
    """`Tensor` of one call."""

    def __init__(self, facet: Facet) -> None:
        self.facet = facet
        self.team = facet.team
        self.wave = facet.team.wave

    # Columns

    def _each(self, *values: Ints) -> list[tuple[tuple[int, int], tuple[int, int], list[int]]]:
        """Of each active warp: its place in the batch, its row and number, and the values; lanes of a warp agree."""
        rows, warps = numbers(self.team.ctas), numbers(self.team.warps)
        spread = [np.broadcast_to(value, self.team.shape) for value in values]
        return [
            ((cta, warp), (rows[cta], warps[warp]), [int(value[cta, warp, 0]) for value in spread])
            for cta, warp in np.argwhere(self.facet.active.any(-1)).tolist()
        ]

    def reserve(self, columns: Ints, requested: Ints, pair: bool) -> Bools:
        """Grant what can be granted to waiting warps, in the order of their requests, until a round grants nothing."""
        self._check_pair(pair)
        table = self.wave.columns
        asking = self._each(columns, requested)
        for _, who, (wanted, asked) in asking:
            if who not in table.granted:
                self._check_request(who[0], wanted)
                table.requests[who] = ColumnRequest(*who, wanted, asked, self._together(who[0], pair), self.facet.at)
        for request in list(table.requests.values()):
            for warp, first in table.grant(request) if (request.row, request.warp) in table.requests else ():
                self._poison(warp.row, first, warp.columns)
        granted = np.ones((*self.team.shape[:2], 1), np.bool_)
        for place, who, _ in asking:
            granted[place] = who in table.granted
        return np.broadcast_to(granted, self.team.shape)

    def _together(self, row: int, pair: bool) -> tuple[int, ...]:
        even = row - self.wave.rank(row) % 2
        return (even, even + 1) if pair else (row,)

    def _check_request(self, row: int, wanted: int) -> None:
        table = self.wave.columns
        if table.given_up[row]:
            self._fault("tensor memory is asked for after relinquish_alloc_permit")
        if wanted > table.last[row]:
            self._fault(
                f"{wanted} columns of tensor memory after {table.last[row]}: no alloc may take more than the last"
            )

    def _poison(self, row: int, first: int, columns: int) -> None:
        if self.wave.run.program.with_shadows:
            self.wave.shadows.tmem[row, first : first + columns] = 0

    def allocate(self, columns: Ints, requested: Ints, pair: bool) -> Ints:
        """Give the warps the columns that were reserved for them."""
        starts = np.zeros((*self.team.shape[:2], 1), np.int64)
        for place, who, _ in self._each():
            starts[place] = self.wave.columns.granted.pop(who)
        return np.broadcast_to(starts, self.team.shape)

    def free(self, address: Ints, columns: Ints, pair: bool) -> None:
        self._check_pair(pair)
        for _, (row, warp), (first, wanted) in self._each(address, columns):
            taken = self.wave.columns.taken_at(row, first) if first >> 16 == 0 else None
            if taken is None:
                held = self.wave.columns.held(row)
                has = ", ".join(f"{other.columns} columns from column {other.first}" for other in held) or "nothing"
                self._fault(f"dealloc of what no alloc gave: address {first:#x}; the CTA has {has}")
            elif taken.columns != wanted:
                self._fault(f"dealloc of {wanted} columns where alloc at {taken.at} took {taken.columns}")
            else:
                self.wave.run.events.freed(self.wave, (row, warp), taken, self.facet.at)
                self.wave.columns.free(row, taken, self.facet.at)

    def relinquish(self, pair: bool) -> None:
        self._check_pair(pair)
        for _, (row, _), _ in self._each():
            self.wave.columns.given_up[row] = True

    def _check_pair(self, pair: bool) -> None:
        if pair and self.wave.run.cluster_ctas % 2:
            self._fault("cta_group=2 is for pairs of CTAs: the cluster has an even number of them")

    def _fault(self, what: str) -> None:
        self.facet.fault(what, self.facet.active)


def are_taken(columns: Columns, row: Ints, lane: Ints, column: Ints, bounds: bool) -> bool:
    """Is it certain that the kernel may touch these cells? All of them, where the axes broadcast to each other."""
    if min(lane.min(), column.min()) < 0 or lane.max() >= TMEM_LANES or column.max() >= TMEM_COLUMNS:
        return False
    used = np.zeros(TMEM_COLUMNS, np.bool_)
    used[column.reshape(-1)] = True
    return not bounds or bool((columns.holder[np.unique(row)][:, used] > 0).all())


def cells_text(lane: Ints, column: Ints) -> str:
    """``lanes 0..31, columns 4..7`` of some cells."""
    spans = []
    for name, values in (("lane", lane), ("column", column)):
        low, high = int(values.min()), int(values.max())
        spans.append(f"{name} {low}" if low == high else f"{name}s {low}..{high}")
    return ", ".join(spans)


def trouble_with(columns: Columns, row: Ints, lane: Ints, column: Ints, bounds: bool) -> str:
    """Why the kernel may not touch these cells; empty if it may."""
    outside = (lane < 0) | (lane >= TMEM_LANES) | (column < 0) | (column >= TMEM_COLUMNS)
    if outside.any():
        where = cells_text(lane[outside], column[outside])
        return f"outside of tensor memory: {where}; it has {TMEM_LANES} lanes, {TMEM_COLUMNS} columns"
    if not bounds:
        return ""
    holder = columns.holder[row, column]
    if (holder > 0).all():
        return ""
    where = cells_text(lane[holder <= 0], column[holder <= 0])
    number = int(holder[holder <= 0].min())
    if number == 0:
        first = int(np.flatnonzero(holder.reshape(-1) == 0)[0])
        place = (int(np.broadcast_to(row, holder.shape).reshape(-1)[first]), int(column.reshape(-1)[first]))
        since = f", given back at {columns.ended[place]}" if place in columns.ended else ""
        return f"tensor memory that is not allocated: {where}{since}"
    taken = columns.log[-number - 1]
    last = taken.first + taken.asked - 1
    return f"tensor memory beyond the {taken.asked} columns asked for at {taken.at}: {where}; the last is {last}"
