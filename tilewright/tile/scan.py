"""The variants of `scan`: in memory, in registers, and through shared memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilewright import isa
from tilewright.ir import AddressOf, Buffer, Expr, Load, Value, as_expr, binary, const_value, select, special
from tilewright.isa import ALL_LANES
from tilewright.tile import reductions
from tilewright.tile.call import TileCall, own_digits
from tilewright.tile.conditions import constant_extents, kept_inside, only_in, whole_bytes
from tilewright.tile.dispatch import Decline, counted, variant
from tilewright.tile.distribution import Distribution, along_lines
from tilewright.tile.owners import Owners, all_hold, inside, owners
from tilewright.tile.partition import element_numbers
from tilewright.tile.reductions import (
    Partial,
    PartialStore,
    Reduction,
    end_of_row,
    load_run,
    registers_for,
    scratch_for,
)
from tilewright.tile.runs import below, ceiling, takes_runs
from tilewright.tile.steps import Builder, CallSteps, emit_steps, through_memory
from tilewright.tile.walks import Ints, Offset, linear, plus, times

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
            under = tuple(out.let("lower", value) for value in names)
            before.set(out, j, _selected(binary("==", line.lane, 0), self.reduction.nothing, under))
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


# Shared and global memory: threads take neighbouring runs of a line, round by round, and pass on their totals.


@dataclass(frozen=True, slots=True)
class MemoryScan:
    """blocks: of lines, one after the other. rounds: of a line's threads along it. together: are runs stored by one
    access?
    """

    share: Distribution
    line: LaneLine
    blocks: Value
    rounds: Value
    together: bool

    @property
    def widened(self) -> str | None:
        """What would make the accesses wider."""
        return self.share.widened

    def summary(self) -> str:
        """``32 threads along each line by 16 bytes, 6 shuffles``."""
        threads = counted(self.share.lines.along, "thread")
        first = f"{threads} along each line by {self.share.nbytes} bytes, {self.rounds} rounds"
        return ", ".join([first, *self.line.steps(1)])


@variant("scan", priority=10, keywords=("axis", "op", "exclusive"), when=[only_in("shared", "global"), whole_bytes])
def memory(call: TileCall) -> MemoryScan:
    """Threads take neighbouring runs of a line; lanes hand on by shuffles, warps through shared memory."""
    facts, share = call.facts, along_lines(call, (_axis(call),), in_order=True)
    lines = share.lines
    if lines.pieces > 1 and lines.workers != call.scope.threads:
        raise Decline(f"{call.scope.threads} threads are no whole warps")
    row = lines.row(call.scope.index)
    members = min(lines.workers, 32)
    lane = special("laneid") % lines.together if lines.together < members else special("laneid")
    line = LaneLine(lines.together, 1, lane, members, lines.pieces, row // 32 if lines.pieces > 1 else 0, lines.across)
    blocks = facts.simplify(ceiling(lines.kept.count, lines.across))
    rounds = facts.simplify(ceiling(lines.reduced.count, lines.along))
    together = lines.vector > 1 and takes_runs(call, call["dst"], _axis_in(call), lines.vector)
    return MemoryScan(share, line, blocks, rounds, together)


@dataclass(frozen=True, slots=True)
class _ScanEmission:
    """The state that parts of the emitted code share. run: elements as they are in memory; sums: their prefixes."""

    plan: MemoryScan
    call: TileCall
    out: Builder
    reduction: Reduction
    run: Buffer
    sums: PartialStore
    totals: PartialStore
    carry: PartialStore
    scratch: PartialStore | None

    def digits(self, column: Value, turn: Value) -> list[Value]:
        """The coordinates of a run."""
        return self.plan.share.lines.digits(column, turn, len(self.call["src"].extents))


@memory.emit
def _(plan: MemoryScan, call: TileCall, out: Builder) -> None:
    lines, reduction = plan.share.lines, reductions.reduction_of(call, None)
    run = out.local("run", lines.vector, str(call["src"].dtype)).flat()
    sums, totals, carry = (
        registers_for(reduction, out, count, name)
        for name, count in (("sums", lines.vector), ("total", 1), ("carry", 1))
    )
    scratch = plan.line.scratch(reduction, call, out)
    emission = _ScanEmission(plan, call, out, reduction, run, sums, totals, carry, scratch)
    with (
        out.when(None if lines.workers == call.scope.threads else binary("<", call.scope.index, lines.workers)),
        out.loop("b", plan.blocks) as block,
    ):
        column = out.let("line", plus(times(block, lines.across), lines.column(call.scope.index)))
        exists = below(column, lines.kept.count, plan.blocks * lines.across)
        reductions.begin_with_nothing(reduction, out, carry, 1)
        with out.loop("i", plan.rounds) as round:
            _emit_round(emission, column, exists, round)
    if call["dst"].space == "shared":
        out.meet(call)


def _emit_round(emission: _ScanEmission, column: Value, exists: Expr | None, round: Value) -> None:
    plan, call, out, reduction = emission.plan, emission.call, emission.out, emission.reduction
    lines, sums, carry = plan.share.lines, emission.sums, emission.carry
    turn = out.let("n", plus(times(round, lines.along), lines.row(call.scope.index)))
    digits = emission.digits(column, turn)
    there = all_hold((exists, below(turn, lines.reduced.count, plan.rounds * lines.along)))
    _load(emission, digits, there)
    with out.loop("e", lines.vector) as e:
        sums.set(out, e, reduction.of_element(Load(emission.run, (as_expr(e),))))
    if lines.vector > 1:
        with out.loop("e", lines.vector - 1) as e:
            sums.set(out, plus(e, 1), reduction.joined(sums.get(e), sums.get(plus(e, 1))))
    emission.totals.set(out, 0, sums.get(lines.vector - 1))
    mine = lines.column(call.scope.index)
    prefixes = Prefixes(plan.line, reduction, call, out, emission.scratch, lambda _: mine)
    before, whole = prefixes.emit(emission.totals, 1)
    before.set(out, 0, reduction.joined(carry.get(0), before.get(0)))
    carry.set(out, 0, reduction.joined(carry.get(0), whole.get(0)))
    _store(emission, own_digits(call["dst"], digits, call["src"].extents), there, before.get(0))


def _load(emission: _ScanEmission, digits: list[Value], there: Expr | None) -> None:
    """The elements of a run; those that do not exist become neutral ones."""
    out, src, lines = emission.out, emission.call["src"], emission.plan.share.lines
    exists = all_hold((there, inside(emission.call, src, digits)))
    run = emission.run, 0, lines.vector
    load_run(emission.call, out, run, digits, exists, emission.reduction.padding, lines.cut)


def _store(emission: _ScanEmission, digits: list[Value], there: Expr | None, before: Partial) -> None:
    """The prefixes of a run's elements: by one access where the destination has such runs, and the line goes on."""
    out, call, lines = emission.out, emission.call, emission.plan.share.lines
    dst, position, flat = call["dst"], _axis_in(call) if lines.vector > 1 else 0, call["dst"].buffer.flat()
    end = None if lines.cut is None else end_of_row(call, call["src"], lines.cut)

    def each() -> None:
        for e, value in enumerate(_prefixes(emission, before)):
            here = [plus(digit, e) if dim == position else digit for dim, digit in enumerate(digits)]
            exists = None if end is None else binary("<", here[position], end)
            with out.when(all_hold((exists, inside(call, dst, here)))):
                out.store(flat, dst.place(here, call.facts).get("m", 0), value)

    def together() -> None:
        run = out.local("result", lines.vector, str(dst.dtype)).flat()
        for e, value in enumerate(_prefixes(emission, before)):
            out.store(run, e, value)
        pointer = out.pointer("ptr", flat, dst.place(digits, call.facts).get("m", 0))
        nbytes = lines.vector * dst.dtype.bits // 8
        out.call("cuda.copy_bytes", pointer, AddressOf(run, (as_expr(0),)), nbytes)

    with out.when(there):
        if not emission.plan.together:
            each()
        else:
            whole = None if end is None else binary("<=", plus(digits[position], lines.vector), end)
            out.either(whole, together, each)


def _prefixes(emission: _ScanEmission, before: Partial) -> list[Expr]:
    """What the destination gets of a run."""
    reduction, sums = emission.reduction, emission.sums
    joined = [reduction.joined(before, sums.get(e)) for e in range(emission.plan.share.lines.vector)]
    return list(map(reduction.result, [before, *joined[:-1]] if emission.call.option("exclusive", False) else joined))


def _axis_in(call: TileCall) -> int:
    """The dimension of the destination along which the scan goes."""
    rank = sum(const_value(extent) != 1 for extent in call["src"].extents[: _axis(call)])
    return [dim for dim, extent in enumerate(call["dst"].extents) if const_value(extent) != 1][rank]


def _axis(call: TileCall) -> int:
    """The dimension of the source along which the scan goes."""
    return int(str(call.option("axis", -1))) % len(call["src"].extents)


# Registers: each thread has runs of lines; lanes hand on by shuffles, warps through shared memory.


@dataclass(frozen=True, slots=True)
class RegisterScan:
    """parts: runs of a thread, each of ``length`` elements. dst, src: their slots, one run after the other. guard:
    holds in threads that hold some. numbers: of the lines of a thread's runs.
    """

    parts: int
    length: int
    dst: Offset
    src: Offset
    guard: Expr | None
    line: LaneLine
    numbers: Offset

    def summary(self) -> str:
        """``2 x 4 elements per thread, 12 shuffles``."""
        return ", ".join([f"{self.parts} x {self.length} elements per thread", *self.line.steps(self.parts)])


@variant(
    "scan", priority=10, keywords=("axis", "op", "exclusive"), when=[only_in("local"), constant_extents, kept_inside]
)
def registers(call: TileCall) -> RegisterScan:
    """Each thread scans the runs that it holds; lanes hand on by shuffles, warps through shared memory."""
    dst, src = call["dst"], call["src"]
    held, into = owners(call, src, loading=True), owners(call, dst, loading=True)
    axis = _axis(call)
    (lines, positions), extent = reductions.numbered(src.shape, [axis]), src.shape[axis]
    order = _runs(lines[held.elements], positions[held.elements])
    elements = held.elements[:, order]
    chunks = _chunks(positions[elements], extent)
    line = _line(call, held, chunks, lines[elements[:, :, 0]], extent // order.shape[1])
    mine = np.array_equal(held.threads, into.threads) and held.space == into.space
    fits = (into.elements[:, None, :] == elements.reshape(len(elements), -1)[:, :, None]).all(axis=0) if mine else None
    if fits is None or not fits.any(axis=1).all():
        raise Decline(f"elements of {src.name} are held by other threads in {dst.name}")
    slots, to = held.offset_of(held.slots[order].reshape(-1)), into.offset_of(into.slots[fits.argmax(axis=1)])
    numbers = element_numbers(lines[elements[:, :, 0]], [held.rank])
    if slots is None or to is None or numbers is None:
        raise Decline(f"the slots of {src.name} follow no pattern")
    parts, length = order.shape
    return RegisterScan(parts, length, to, slots, held.guard(storing=False), line, numbers)


def _runs(lines: Ints, positions: Ints) -> Ints:
    """The slots of each line's elements in their order: (parts, elements). lines, positions: (threads, slots).

    Raises Decline where threads have them in different orders.
    """
    parts = reductions.parts_of(lines, "lines")
    order = np.take_along_axis(parts, np.argsort(positions[0, parts], axis=1), axis=1)
    if (np.diff(positions[:, order], axis=-1) != 1).any():
        raise Decline("a thread has no runs of a line")
    return order


def _chunks(positions: Ints, extent: int) -> Ints:
    """Which run of its lines each thread has. positions: (threads, parts, elements)."""
    length = positions.shape[-1]
    starts = positions[:, :, 0]
    if (starts != starts[:, :1]).any() or (starts % length).any() or extent % length:
        raise Decline("the runs of a thread begin at different positions of their lines")
    return np.asarray(starts[:, 0] // length)


def _line(call: TileCall, held: Owners, chunks: Ints, lines: Ints, count: int) -> LaneLine:
    """How the runs of a line are dealt out. Raises Decline where its threads do not follow one another."""
    scope = call.scope
    if count == 1:
        return LaneLine(1, 1, 0)
    which, numbers = reductions.spread(call, held, chunks[:, None])[:, 0], reductions.spread(call, held, lines)
    threads = np.arange(scope.threads)
    members = min(32, scope.threads)
    if (which < 0).any() or scope.threads % members or members & (members - 1):
        raise Decline("lanes that hold nothing are among the others")
    of_lanes = which[:members] if scope.threads > members else which
    together = len(np.unique(of_lanes))
    step = next((lane for lane in range(1, members) if of_lanes[lane] != of_lanes[0]), members)
    lane, warp = threads % members // step % together, which // together
    alone = together & (together - 1) == 0 and step * together <= members and count % together == 0
    if not alone or not np.array_equal(which, warp * together + lane) or (warp[threads // 32 * 32] != warp).any():
        raise Decline("the runs of a line do not go from lane to lane")
    partner = threads - lane * step
    if not np.array_equal(numbers[partner], numbers):
        raise Decline("the lanes of a line are apart")
    first = linear(warp[::32], [scope.index // 32]) if scope.threads > 32 else 0
    if first is None or not _is_whole(which, numbers, count):
        raise Decline("the warps of a line follow no pattern")
    within: Value = scope.index % 32 if scope.threads > 32 else scope.index
    mine: Value = within // step % together if together > 1 else 0
    return LaneLine(together, step, mine, members, count // together, first, int(lines.max()) + 1)


def _is_whole(which: Ints, lines: Ints, count: int) -> bool:
    """Has each line of the first parts all of its runs, each once among the warps?"""
    pairs = np.unique(np.stack([lines[:, 0], which]), axis=1)
    return bool((np.bincount(pairs[0])[np.unique(pairs[0])] == count).all())


@registers.emit
def _(plan: RegisterScan, call: TileCall, out: Builder) -> None:
    dst, src, reduction = call["dst"].buffer.flat(), call["src"].buffer.flat(), reductions.reduction_of(call, None)
    count = plan.parts * plan.length
    sums, totals = (
        registers_for(reduction, out, size, name) for size, name in ((count, "sums"), (plan.parts, "total"))
    )
    slot = out.offsets(plan.src, "r")
    with out.loop("j", count) as j:
        sums.set(out, j, reduction.nothing if plan.guard is not None else _element(reduction, src, slot(j)))
    if plan.guard is not None:
        with out.when(plan.guard), out.loop("j", count) as j:
            sums.set(out, j, _element(reduction, src, slot(j)))
    with out.loop("j", plan.parts) as j:
        if plan.length > 1:
            with out.loop("e", plan.length - 1) as e:
                here = plus(times(j, plan.length), e)
                sums.set(out, plus(here, 1), reduction.joined(sums.get(here), sums.get(plus(here, 1))))
        totals.set(out, j, sums.get(plus(times(j, plan.length), plan.length - 1)))
    scratch = plan.line.scratch(reduction, call, out)
    number = out.offsets(plan.numbers, "k")
    before, _ = Prefixes(plan.line, reduction, call, out, scratch, number).emit(totals, plan.parts)
    to, exclusive = out.offsets(plan.dst, "r"), bool(call.option("exclusive", False))
    with out.when(plan.guard), out.loop("j", plan.parts) as j:
        start = times(j, plan.length)
        if exclusive:
            out.store(dst, to(start), reduction.result(before.get(j)))
        moved = plan.length - 1 if exclusive else plan.length
        if moved:
            with out.loop("e", moved) as e:
                result = reduction.joined(before.get(j), sums.get(plus(start, e)))
                out.store(dst, to(plus(plus(start, e), 1) if exclusive else plus(start, e)), reduction.result(result))


def _element(reduction: Reduction, src: Buffer, slot: Value) -> Partial:
    return reduction.of_element(Load(src, (as_expr(slot),)))


# Registers whose lines follow no pattern, and sides in different memories: through scratch memory.


@variant(
    "scan",
    priority=5,
    keywords=("axis", "op", "exclusive"),
    when=[only_in("local", "shared", "global"), constant_extents, kept_inside],
)
def staged(call: TileCall) -> CallSteps:
    """The elements go to shared memory, and are scanned there."""
    return through_memory(call, *(name for name in ("src", "dst") if call[name].space == "local"))


staged.emit(emit_steps)
