"""Runs of elements by arithmetic on coordinates, where extents are those of the run or there are too many to list.

A run is a few neighbours along one dimension, which one access takes. Runs of several dimensions are numbered together,
those with larger strides outside. `Lines` say which thread takes which of them, where a call joins the elements of a
line: neighbouring threads go along the dimension whose elements are neighbours, one that is reduced, as in sums of
rows, or one that is kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewright.dtypes import INT32, INT64
from tilewright.errors import LayoutError
from tilewright.ir import Expr, Value, as_expr, binary, cast, const_value
from tilewright.layout import Iter
from tilewright.primitives.elements import lengths_of
from tilewright.tile.call import Side, TileCall
from tilewright.tile.conditions import alignments, stated
from tilewright.tile.owners import open_dimensions
from tilewright.tile.partition import missing_fact, places, storage_start
from tilewright.tile.walks import digits_of, number_of, times

LONG = 3  # whole runs of a row, for which the tests of a last one are worth it


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of some dimensions, numbered together. vector: elements of a run, along the last of them; partial: may
    the last run along it have fewer? last: runs along it; count: of all, in 64 bits where 32 might be too few.
    """

    dims: tuple[int, ...] = ()
    extents: tuple[Value, ...] = ()
    vector: int = 1
    partial: bool = False
    last: Value = 1
    count: Value = 1

    def digits(self, number: Value) -> dict[int, Value]:
        """The coordinate of a run's first element, by dimension."""
        if not self.dims:
            return {}
        extents = (*self.extents[:-1], self.last)
        *outer, run = map(_narrowed, digits_of(number, extents), extents)
        return dict(zip(self.dims, (*outer, times(run, self.vector)), strict=True))

    def number(self, digits: Mapping[int, Any]) -> Any:
        """The number of an element, by its coordinates, in the order of the dimensions."""
        order = sorted(zip(self.dims, self.extents, strict=True), key=lambda pair: pair[0])
        return number_of([digits[dim] for dim, _ in order], [extent for _, extent in order])


def _narrowed(digit: Value, extent: Value) -> Value:
    """A coordinate in the integer type of its extent."""
    return cast(digit, extent.dtype if isinstance(extent, Expr) else INT32) if isinstance(digit, Expr) else digit


def runs_of(
    call: TileCall, extents: Sequence[Value], dims: Sequence[int], vector: int = 1, *, partial: bool = False
) -> Runs:
    """The runs of these dimensions, whose extents are among those of all. partial: see `Runs`."""
    facts, of = call.facts, tuple(extents[dim] for dim in dims)
    last = facts.simplify(ceiling(of[-1], vector) if partial else of[-1] // vector) if of else 1
    count = last
    for extent in of[:-1]:
        count = times(wide(count), extent)
    if isinstance(count, Expr) and (facts.bounds(count)[1] or 1 << 40) < 1 << 30:
        count = cast(count, INT32)
    return Runs(tuple(dims), of, vector, partial, last, facts.simplify(count))


def wide(value: Value) -> Value:
    """A number in 64 bits."""
    return cast(value, INT64) if isinstance(value, Expr) else value


def ceiling(count: Value, by: int) -> Value:
    """How many groups of so many there are, the last one perhaps smaller."""
    return count if by == 1 else (count + (by - 1)) // by


def below(number: Value, count: Value, total: Value) -> Expr | None:
    """Is a number below a count? None where the numbers go up to ``total``, which is the count."""
    least, most = const_value(count), const_value(total)
    return None if least is not None and most is not None and least >= most else binary("<", number, count)


@dataclass(frozen=True, slots=True)
class Lines:
    """kept: the runs of all lines; reduced: those of each. across: threads along the lines; along: threads along the
    elements of each. by_rows: neighbouring threads go along the elements.
    """

    kept: Runs
    reduced: Runs = Runs()
    across: int = 1
    along: int = 1
    by_rows: bool = False

    @property
    def workers(self) -> int:
        """Threads that take part."""
        return self.across * self.along

    @property
    def vector(self) -> int:
        """Elements of an access."""
        return self.kept.vector * self.reduced.vector

    @property
    def cut(self) -> int | None:
        """The dimension of a line that ends inside of the last run along it; None where all runs are whole."""
        return self.reduced.dims[-1] if self.reduced.partial else None

    def column(self, thread: Value) -> Value:
        """The position of the thread along the lines."""
        return thread // self.along if self.by_rows else thread % self.across

    def row(self, thread: Value) -> Value:
        """The position of the thread along the elements."""
        return thread % self.along if self.by_rows else thread // self.across

    def digits(self, column: Value, turn: Value, rank: int) -> list[Value]:
        """The coordinates in a source of that rank, of a run along the lines and one along the elements."""
        at = {**self.kept.digits(column), **self.reduced.digits(turn)}
        return [at.get(dim, 0) for dim in range(rank)]

    @property
    def together(self) -> int:
        """Lanes of a warp with pieces of the same lines."""
        lanes = min(self.workers, 32)
        return min(self.along, lanes) if self.by_rows else max(1, lanes // self.across)

    @property
    def pieces(self) -> int:
        """Pieces of each line that are left once those lanes have joined theirs."""
        return self.along // self.together


def lines_along(call: TileCall, axes: Collection[int], *, in_order: bool = False) -> Lines:
    """How the threads of the call share out its source, whose lines go along these axes.

    in_order: the threads of a line take its elements in ascending order, so that no column is split.
    """
    src = call["src"]
    strides = _strides(call, src)
    order = sorted(range(len(strides)), key=lambda dim: (strides[dim] is not None, -abs(strides[dim] or 0)))
    long = [dim for dim in order if const_value(src.extents[dim]) != 1]
    inner = _inner(call, src)
    vector = 1 if inner is None or (in_order and inner not in axes) else _widest(call, src, inner)
    cut = 1 if inner is None or inner not in axes else _widest(call, src, inner, cut=True)
    partial, vector = cut > vector, max(cut, vector)
    kept, reduced = (
        runs_of(call, src.extents, dims, vector if inner in dims else 1, partial=partial and inner in dims)
        for dims in ([dim for dim in long if dim not in axes], [dim for dim in long if dim in axes])
    )
    threads = call.scope.threads
    workers = threads // 32 * 32 if threads >= 32 else 1 << (threads.bit_length() - 1)
    columns, rows = _number(kept.count), _number(reduced.count)
    by_rows = inner in reduced.dims or not kept.dims
    if in_order and not by_rows and columns >= workers:
        return Lines(kept, reduced, workers)
    by_rows = by_rows or in_order
    across, along = (_by_rows if by_rows else _by_columns)(workers, columns, rows)
    return Lines(kept, reduced, across, along, by_rows)


def _number(count: Value) -> int:
    """The number if it is known, else a large one."""
    number = const_value(count)
    return 1 << 30 if number is None else int(number)


def _power(count: int) -> int:
    """The smallest power of two that is not below."""
    return 1 << (count - 1).bit_length()


def _by_rows(workers: int, columns: int, rows: int) -> tuple[int, int]:
    """The threads along the lines and along the elements: a warp takes one line; all warps take a single one."""
    lanes, warps = min(workers, 32), max(1, workers // 32)
    along = min(_power(rows), lanes)
    if along == 32 and columns < warps:
        most = max(1, -(-rows // 32))
        fitting = [factor for factor in range(1, warps + 1) if warps % factor == 0 and factor >= columns]
        along = 32 * max(1, min(warps // fitting[0], _power(most)))
        along = max(size for size in range(32, along + 1, 32) if workers % size == 0)
    return workers // along, along


def _by_columns(workers: int, columns: int, rows: int) -> tuple[int, int]:
    """Neighbouring threads take neighbouring lines; threads beyond that divide the elements."""
    lanes, warps = min(workers, 32), max(1, workers // 32)
    if columns < lanes:
        across = _power(columns)
    else:
        wanted = -(-columns // 32)
        across = lanes * next((part for part in range(1, warps + 1) if warps % part == 0 and part >= wanted), warps)
    return across, workers // across


# How long runs may be: facts about the layout of a side


def _groups(call: TileCall, side: Side) -> list[tuple[Iter, ...]] | None:
    """The iters of each dimension, those of 1 aside; None where the layout does not part so."""
    if side.tile is None:
        return None
    try:
        grouped, starts = side.tile.group(side.extents, call.facts)
    except LayoutError:
        return None
    cut = itertools.pairwise(starts)
    return [tuple(it for it in grouped.shard[a:b] if const_value(it.extent) != 1) for a, b in cut]


def _strides(call: TileCall, side: Side) -> list[int | None]:
    """How far neighbours along each dimension are from each other; None where that is not known."""
    groups = _groups(call, side)
    if groups is None:
        return [None] * len(side.extents)
    strides = [const_value(group[-1].stride) if group else 0 for group in groups]
    return [None if stride is None else int(stride) for stride in strides]


def _inner(call: TileCall, side: Side) -> int | None:
    """The dimension whose neighbours are contiguous."""
    strides = _strides(call, side)
    return next(
        (dim for dim, stride in enumerate(strides) if stride == 1 and const_value(side.extents[dim]) != 1), None
    )


def _widest(call: TileCall, side: Side, inner: int, *, cut: bool = False) -> int:
    """Elements of the widest access along a dimension whose neighbours are contiguous. cut: the last one may leave the
    dimension, of which short ones have none.
    """
    begins = inner not in open_dimensions(call, side) or call.facts.less(-1, side.starts[inner])
    most = call.facts.bounds(as_expr(side.extents[inner]))[1] if cut and begins else None
    fitting = lengths_of(side.dtype.bits) if not cut or (begins and is_whole(call, side, inner)) else []
    lengths = (length for length in fitting if most is None or most >= LONG * length)
    return next((length for length in lengths if not lacking(call, side, inner, length, cut=cut)), 1)


def is_whole(call: TileCall, side: Side, dim: int) -> bool:
    """Are all elements along a dimension neighbours in memory?"""
    groups = _groups(call, side)
    return groups is not None and len(groups[dim]) == 1 and groups[dim][0].stride == 1


def lacking(call: TileCall, side: Side, dim: int, length: int, *, cut: bool = False) -> list[Expr | int]:
    """What keeps every ``length``-th element along a dimension from beginning an aligned run: facts that may be
    promised, and remainders, which exclude it. cut: the last run may be partial.
    """
    facts, groups = call.facts, _groups(call, side)
    if length == 1:
        return []
    if groups is None or not groups[dim] or groups[dim][-1].stride != 1 or side.tile is None:
        return [0]
    run = groups[dim][-1]
    others = [it.stride for group in groups for it in group if it is not run]
    ends = [side.starts[dim], side.buffer.shape[dim]] if dim in open_dimensions(call, side) and not cut else []
    align, before = storage_start(side.buffer, facts)
    start = facts.simplify(before + side.tile.offset_on("m") * side.dtype.bits)
    asked = [(value, length) for value in (run.extent, *others, *ends)]
    asked.append((start, length * side.dtype.bits))
    missing = [missing_fact(facts, value, factor) for value, factor in asked[cut:] if not facts.divides(factor, value)]
    together = side.swizzle is None or length <= 1 << side.swizzle.per_element
    return missing if together and align * 8 % (length * side.dtype.bits) == 0 else [0, *missing]


def takes_runs(call: TileCall, side: Side, dim: int, length: int) -> bool:
    """Can runs of so many elements along a dimension of a side that stays in its buffer be one access each?"""
    fits = length * side.dtype.bits in (8, 16, 32, 64, 128) and not open_dimensions(call, side)
    return fits and is_whole(call, side, dim) and not lacking(call, side, dim, length, cut=True)


def wider_runs(call: TileCall, vector: int, plan: Callable[[TileCall], int]) -> str | None:
    """A promise of the kernel, or another layout of its own memory, with which accesses to the source are wider.

    vector: elements of an access; plan: of those of another call.
    """
    src = call["src"]
    inner = _inner(call, src)
    for length in lengths_of(src.dtype.bits) if inner is not None else []:
        if length <= vector:
            continue
        promised, promises = _promised(call, inner or 0, length)
        if promises and plan(promised) >= length:
            return " and ".join(stated(call, fact) for fact in promises)
        for change in alignments(call, src, places(src, call.facts), length) if src.space == "shared" else ():
            if plan(change.call) >= length:
                return change.text
    return None


def _promised(call: TileCall, inner: int, length: int) -> tuple[TileCall, list[Expr]]:
    """The call where runs of ``length`` elements are known to be aligned, by these facts; by none if nothing helps."""
    promises: list[Expr] = []
    while missing := lacking(call, call["src"], inner, length):
        fact = missing[0]
        if not isinstance(fact, Expr) or not call.scope.keeps_together(fact) or fact in promises:
            return call, []
        promises.append(fact)
        call = replace(call, facts=call.facts.with_condition(fact))
    return call, promises
