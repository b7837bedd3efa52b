"""How threads divide a reduction of memory among themselves: some along the results, some along each result's elements.

Both are numbers over dimensions of the source, those with larger strides outside. Neighbouring threads go along the
dimension whose elements are neighbours, in vectors: it is one that is reduced, as in sums of rows, or one that is kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from tilewright import isa
from tilewright.errors import LayoutError
from tilewright.ir import AddressOf, Buffer, Expr, Load, Value, as_expr, binary, const_value, select, special
from tilewright.isa import ALL_LANES
from tilewright.layout import Iter
from tilewright.tile.builder import Builder
from tilewright.tile.call import Side, TileCall
from tilewright.tile.conditions import alignments, stated
from tilewright.tile.owners import open_dimensions
from tilewright.tile.partition import missing_fact, places, storage_start
from tilewright.tile.reductions import Lanes, Partial, PartialStore, Reduction, registers_for, scratch_for
from tilewright.tile.walks import digits_of, plus, times

# Prefixes over threads: the result for all threads before the caller in its line.
#
# The threads of a line are lanes of a warp, ``step`` apart, or of several warps, which exchange totals through scratch
# memory.


@dataclass(frozen=True, slots=True)
class LaneLine:
    """lanes: of a warp in the same line, ``step`` apart, members of a warp that has so many. lane: where the caller is
    among them. warps: in the same line; warp: where the caller's is. lines: of all threads.
    """

    lanes: int
    step: int
    lane: Value
    members: int = 32
    warps: int = 1
    warp: Value = 0
    lines: int = 1

    @property
    def mask(self) -> int:
        """One bit for each lane of a warp."""
        return (1 << self.members) - 1 if self.members < 32 else ALL_LANES

    def scratch(self, reduction: Reduction, call: TileCall, out: Builder) -> PartialStore | None:
        """Scratch memory for the totals of warps; None where a line is in one warp."""
        return scratch_for(self.warps * self.lines, reduction, call, out) if self.warps > 1 else None

    def steps(self, parts: int) -> list[str]:
        """The shuffles in words, for a report on so many parts."""
        count = parts * (self.lanes.bit_length() + 1) if self.lanes > 1 else 0
        shuffles = [f"{count} shuffles"] if count else []
        exchange = f"{self.lines} x {self.warps} totals through shared memory, two barriers"
        return shuffles + ([exchange] if self.warps > 1 else [])


def _selected(cond: Expr, mine: Partial, other: Partial) -> Partial:
    return tuple(select(cond, a, b) for a, b in zip(mine, other, strict=True))


@dataclass(frozen=True, slots=True)
class Prefixes:
    """The prefixes of a call's lines, written by ``out``. scratch: for the totals of warps, None where a line is in one
    warp. number: of the line, for a total, in scratch memory.
    """

    line: LaneLine
    reduction: Reduction
    call: TileCall
    out: Builder
    scratch: PartialStore | None
    number: Callable[[Value], Value]

    def emit(self, totals: PartialStore, count: int) -> tuple[PartialStore, PartialStore]:
        """The result for all threads before the caller, and for the whole line, for each of its ``count`` totals."""
        out, nothing = self.out, self.reduction.nothing
        before, whole = (registers_for(self.reduction, out, count, name) for name in ("before", "whole"))
        if self.line.lanes == 1:
            with out.loop("j", count) as j:
                before.set(out, j, nothing)
                whole.set(out, j, totals.get(j))
        else:
            self._by_lanes(totals, before, whole, count)
        if self.scratch is not None:
            self._by_warps(self.scratch, before, whole, count)
        return before, whole

    def _by_lanes(self, totals: PartialStore, before: PartialStore, whole: PartialStore, count: int) -> None:
        line, out = self.line, self.out
        for distance in (1 << bit for bit in range(line.lanes.bit_length() - 1)):
            with out.loop("j", count) as j:
                mine = totals.get(j)
                names = [isa.call("cuda.shfl_up_sync", line.mask, value, distance * line.step) for value in mine]
                theirs = tuple(out.let("lower", value) for value in names)
                follows = binary(">=", line.lane, distance)
                totals.set(out, j, _selected(follows, self.reduction.joined(theirs, mine), mine))
        last = plus(special("laneid"), times(plus(line.lanes - 1, times(line.lane, -1)), line.step))
        with out.loop("j", count) as j:
            mine = totals.get(j)
            names = [isa.call("cuda.shfl_up_sync", line.mask, value, line.step) for value in mine]
            below = tuple(out.let("lower", value) for value in names)
            before.set(out, j, _selected(binary("==", line.lane, 0), self.reduction.nothing, below))
            whole.set(out, j, tuple(isa.call("cuda.shfl_sync", line.mask, value, as_expr(last)) for value in mine))

    def _by_warps(self, scratch: PartialStore, before: PartialStore, whole: PartialStore, count: int) -> None:
        line, out, reduction = self.line, self.out, self.reduction
        with out.when(binary("==", line.lane, line.lanes - 1) if line.lanes > 1 else None), out.loop("j", count) as j:
            scratch.set(out, plus(times(line.warp, line.lines), self.number(j)), whole.get(j))
        out.meet(self.call)
        base = registers_for(reduction, out, 1, "base")
        with out.loop("j", count) as j:
            base.set(out, 0, reduction.nothing)
            whole.set(out, j, reduction.nothing)
            with out.loop("w", line.warps) as w:
                values = scratch.get(plus(times(w, line.lines), self.number(j)))
                piece = tuple(out.let("piece", value) for value in values)
                with out.when(binary("<", w, line.warp)):
                    base.set(out, 0, reduction.joined(base.get(0), piece))
                whole.set(out, j, reduction.joined(whole.get(j), piece))
            before.set(out, j, reduction.joined(base.get(0), before.get(j)))
        out.meet(self.call)


@dataclass(frozen=True, slots=True)
class Along:
    """Dimensions of the source, numbered together. vector: neighbours of the last one that a thread takes at a time;
    partial: the last vector along it has fewer.
    """

    dims: tuple[int, ...]
    extents: tuple[Value, ...]
    vector: int = 1
    partial: bool = False

    @property
    def count(self) -> Value:
        """How many vectors there are."""
        total: Value = 1
        for extent in self.extents[:-1]:
            total = total * extent
        return total * (self.last if self.extents else 1)

    @property
    def last(self) -> Value:
        """Vectors along the last dimension."""
        extent = self.extents[-1]
        return ceiling(extent, self.vector) if self.partial or self.vector == 1 else extent // self.vector

    def digits(self, number: Value) -> dict[int, Value]:
        """The coordinate of a vector's first element, by dimension."""
        if not self.dims:
            return {}
        *outer, inner = digits_of(number, (*self.extents[:-1], self.last))
        return dict(zip(self.dims, (*outer, times(inner, self.vector)), strict=True))


@dataclass(frozen=True, slots=True)
class Deal:
    """kept, reduced: the dimensions. across: threads along the results; along: threads along the elements of each.
    by_rows: neighbouring threads go along the elements. workers: threads that take part.
    """

    kept: Along
    reduced: Along
    across: int
    along: int
    by_rows: bool
    workers: int

    @property
    def parts(self) -> int:
        """Partial results of a thread at a time."""
        return self.kept.vector

    @property
    def vector(self) -> int:
        """Elements of an access."""
        return self.kept.vector * self.reduced.vector

    @property
    def cut(self) -> int | None:
        """The dimension that ends inside of the last vector along it; None where all vectors are whole."""
        return self.reduced.dims[-1] if self.reduced.partial else None

    def column(self, thread: Value) -> Value:
        """The position of the thread along the results."""
        return thread // self.along if self.by_rows else thread % self.across

    def row(self, thread: Value) -> Value:
        """The position of the thread along the elements."""
        return thread % self.along if self.by_rows else thread // self.across

    def digits(self, column: Value, turn: Value, rank: int) -> list[Value]:
        """The coordinates in a source of that rank, of a vector along the results and one along the elements."""
        at = {**self.kept.digits(column), **self.reduced.digits(turn)}
        return [at.get(dim, 0) for dim in range(rank)]

    @property
    def together(self) -> int:
        """Lanes of a warp with pieces of the same results."""
        lanes = min(self.workers, 32)
        return min(self.along, lanes) if self.by_rows else max(1, lanes // self.across)

    @property
    def lanes(self) -> Lanes:
        """The shuffles that join them."""
        step = 1 if self.by_rows else self.across
        masks = [step << bit for bit in range(self.together.bit_length() - 1)]
        return Lanes(tuple(reversed(masks)), min(self.workers, 32))

    @property
    def pieces(self) -> int:
        """Pieces of each result that are left after the shuffles."""
        return self.along // self.together


def dealt_along(call: TileCall, axes: Collection[int], *, in_order: bool = False) -> Deal:
    """How the threads of the call share out its source, reduced over these axes.

    in_order: the threads of a line take its elements in ascending order, so that no column is split.
    """
    src = call["src"]
    strides = _strides(call, src)
    order = sorted(range(len(strides)), key=lambda dim: (strides[dim] is not None, -abs(strides[dim] or 0)))
    long = [dim for dim in order if const_value(src.extents[dim]) != 1]
    inner = _inner(call, src)
    vector = 1 if inner is None or (in_order and inner not in axes) else _vector(call, src, inner)
    cut = 1 if inner is None or inner not in axes else _cut_vector(call, src, inner)
    partial, vector = cut > vector, max(cut, vector)
    kept, reduced = (
        Along(
            tuple(dims),
            tuple(src.extents[dim] for dim in dims),
            vector if inner in dims else 1,
            partial and inner in dims,
        )
        for dims in ([dim for dim in long if dim not in axes], [dim for dim in long if dim in axes])
    )
    threads = call.scope.threads
    workers = threads // 32 * 32 if threads >= 32 else 1 << (threads.bit_length() - 1)
    columns, rows = _known(kept.count), _known(reduced.count)
    by_rows = inner in reduced.dims or not kept.dims
    if in_order and not by_rows and columns >= workers:
        return Deal(kept, reduced, workers, 1, False, workers)
    by_rows = by_rows or in_order
    across, along = (_by_rows if by_rows else _by_columns)(workers, columns, rows)
    return Deal(kept, reduced, across, along, by_rows, workers)


def _known(count: Value) -> int:
    """The number if it is known, else a large one."""
    number = const_value(count)
    return 1 << 30 if number is None else int(number)


def _power(count: int) -> int:
    """The smallest power of two that is not below."""
    return 1 << (count - 1).bit_length()


def _by_rows(workers: int, columns: int, rows: int) -> tuple[int, int]:
    """The threads along the results and along the elements: a warp takes one result; all warps take a single one."""
    lanes, warps = min(workers, 32), max(1, workers // 32)
    along = min(_power(rows), lanes)
    if along == 32 and columns < warps:
        most = max(1, -(-rows // 32))
        fitting = [factor for factor in range(1, warps + 1) if warps % factor == 0 and factor >= columns]
        along = 32 * max(1, min(warps // fitting[0], _power(most)))
        along = max(size for size in range(32, along + 1, 32) if workers % size == 0)
    return workers // along, along


def _by_columns(workers: int, columns: int, rows: int) -> tuple[int, int]:
    """Neighbouring threads take neighbouring results; threads beyond that divide the elements."""
    lanes, warps = min(workers, 32), max(1, workers // 32)
    if columns < lanes:
        across = _power(columns)
    else:
        wanted = -(-columns // 32)
        across = lanes * next((part for part in range(1, warps + 1) if warps % part == 0 and part >= wanted), warps)
    return across, workers // across


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


def _vector(call: TileCall, side: Side, inner: int) -> int:
    """Elements of the widest access along a dimension whose neighbours are contiguous."""
    return next((length for length in _lengths(side) if not _lacking(call, side, inner, length)), 1)


def _cut_vector(call: TileCall, side: Side, inner: int) -> int:
    """Elements of the widest access along a dimension that the last one along it may leave; 1 where rows are short."""
    groups, most = _groups(call, side), call.facts.bounds(as_expr(side.extents[inner]))[1]
    whole = groups is not None and len(groups[inner]) == 1
    if not whole or (inner in open_dimensions(call, side) and not call.facts.less(-1, side.starts[inner])):
        return 1
    return next((length for length in _lengths(side) if (most is None or most >= LONG * length)
                 and not _lacking(call, side, inner, length, cut=True)), 1)  # fmt: skip


def _lengths(side: Side) -> list[int]:
    """Elements of vectors, the widest first."""
    return [length for nbytes in (16, 8, 4, 2, 1) if (length := 8 * nbytes // side.dtype.bits) > 1]


def _lacking(call: TileCall, side: Side, inner: int, length: int, *, cut: bool = False) -> list[Expr | int]:
    """What keeps every ``length``-th element along ``inner`` from beginning an aligned run: facts that may be promised,
    and remainders, which exclude it. cut: the last run may be partial.
    """
    facts, groups = call.facts, _groups(call, side)
    assert groups is not None
    assert side.tile is not None
    run = groups[inner][-1]
    others = [it.stride for group in groups for it in group if it is not run]
    ends = [side.starts[inner], side.buffer.shape[inner]] if inner in open_dimensions(call, side) and not cut else []
    align, before = storage_start(side.buffer, facts)
    start = facts.simplify(before + side.tile.offset_on("m") * side.dtype.bits)
    asked = [(value, length) for value in (run.extent, *others, *ends)]
    asked.append((start, length * side.dtype.bits))
    lacking = [missing_fact(facts, value, factor) for value, factor in asked[cut:] if not facts.divides(factor, value)]
    together = side.swizzle is None or length <= 1 << side.swizzle.per_element
    return lacking if together and align * 8 % (length * side.dtype.bits) == 0 else [0, *lacking]


def takes_runs(call: TileCall, side: Side, dim: int, length: int) -> bool:
    """Can runs of so many elements along a dimension of a side that stays in its buffer be one access each?"""
    groups = _groups(call, side)
    whole = groups is not None and len(groups[dim]) == 1 and groups[dim][0].stride == 1
    fits = whole and length * side.dtype.bits in (8, 16, 32, 64, 128) and not open_dimensions(call, side)
    return fits and not _lacking(call, side, dim, length, cut=True)


def wider_runs(call: TileCall, deal: Deal, plan: Callable[[TileCall], Deal]) -> str | None:
    """A promise of the kernel, or another layout of its own memory, with which accesses to the source are wider."""
    src = call["src"]
    inner = _inner(call, src)
    for length in _lengths(src) if inner is not None else []:
        if length <= deal.vector:
            continue
        promised, promises = _promised(call, inner or 0, length)
        if promises and plan(promised).vector >= length:
            return " and ".join(stated(call, fact) for fact in promises)
        for change in alignments(call, src, places(src, call.facts), length) if src.space == "shared" else ():
            if plan(change.call).vector >= length:
                return change.text
    return None


def _promised(call: TileCall, inner: int, length: int) -> tuple[TileCall, list[Expr]]:
    """The call where runs of ``length`` elements are known to be aligned, by these facts; by none if nothing helps."""
    promises: list[Expr] = []
    while lacking := _lacking(call, call["src"], inner, length):
        fact = lacking[0]
        if not isinstance(fact, Expr) or not call.scope.keeps_together(fact) or fact in promises:
            return call, []
        promises.append(fact)
        call = replace(call, facts=call.facts.with_condition(fact))
    return call, promises


LONG = 4  # whole vectors of a row, for which the tests of a last one are worth it


def ceiling(count: Value, by: int) -> Value:
    """How many groups of so many there are, the last one perhaps smaller."""
    return count if by == 1 else (count + (by - 1)) // by


def below(number: Value, count: Value, total: Value) -> Expr | None:
    """Is a number below a count? None where the numbers go up to ``total``, which is the count."""
    least, most = const_value(count), const_value(total)
    return None if least is not None and most is not None and least >= most else binary("<", number, count)


def end_of_row(call: TileCall, side: Side, dim: int) -> Value:
    """How many elements of a region there are along a dimension, inside of the buffer."""
    if dim not in open_dimensions(call, side):
        return side.extents[dim]
    end: Value = call.facts.simplify(binary("min", side.extents[dim], side.limits[dim] - side.starts[dim]))
    return end


def load_run(
    call: TileCall,
    out: Builder,
    run: tuple[Buffer, Value, int],
    digits: list[Value],
    exists: Expr | None,
    else_: Expr,
    cut: int | None = None,
) -> None:
    """A vector of the source at these coordinates, into registers; ``else_`` for each element where it does not exist.

    run: the registers, the first of them and how many. cut: the dimension that ends inside of the last vector.
    """
    registers, first, length = run
    src = call["src"]
    if exists is not None or cut is not None:
        with out.loop("e", length) as e:
            out.store(registers, plus(first, e), else_)
    with out.when(exists):
        offset, flat = src.place(digits, call.facts).get("m", 0), src.buffer.flat()
        if length == 1:
            out.store(registers, first, Load(flat, (as_expr(offset),)))
            return

        def whole() -> None:
            pointer, nbytes = out.pointer("ptr", flat, offset), length * src.dtype.bits // 8
            out.call("cuda.copy_bytes", AddressOf(registers, (as_expr(first),)), pointer, nbytes)

        def some(end: Value) -> None:
            with out.loop("e", length) as e, out.when(binary("<", plus(digits[cut or 0], e), end)):
                out.store(registers, plus(first, e), Load(flat, (as_expr(plus(offset, e)),)))

        if cut is None:
            whole()
        else:
            end = end_of_row(call, src, cut)
            out.either(binary("<=", plus(digits[cut], length), end), whole, lambda: some(end))
