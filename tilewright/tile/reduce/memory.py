"""A source in shared or global memory: threads read neighbouring runs, several at a time, and join what they have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tilewright.ir import AddressOf, Buffer, Expr, Load, Value, as_expr, binary, const_value, select
from tilewright.primitives.reduce import axes_of
from tilewright.tile.builder import Builder
from tilewright.tile.call import Side, TileCall, own_digits
from tilewright.tile.conditions import whole_bytes
from tilewright.tile.deals import Along, Deal, below, ceiling, dealt_along, load_run, wider_runs
from tilewright.tile.dispatch import Decline, condition, counted, variant
from tilewright.tile.inside import inside, open_dimensions
from tilewright.tile.owners import all_hold, owners
from tilewright.tile.partition import one_storage, places, run_problem
from tilewright.tile.reductions import (
    KEYWORDS,
    OPERATIONS,
    Delivery,
    Lanes,
    PartialStore,
    Reduction,
    at_once,
    begin_with_nothing,
    emit_lanes,
    emit_taking,
    put,
    put_element,
    reduction_of,
    registers_for,
    scratch_for,
    spread,
    take_in,
    taken_from_scratch,
    wanted,
)
from tilewright.tile.walks import Ints, Offset, plus, times

IN_FLIGHT = 8  # loads of a thread before it uses the first
MOST_RESULTS = 1 << 14  # bytes that go through scratch memory


@condition("the source is in shared or global memory")
def from_memory(call: TileCall) -> str | None:
    src = call["src"]
    return None if src.space in ("shared", "global") else f"{src.name} is in {src.space} memory"


@dataclass(frozen=True, slots=True)
class MemoryReduction:
    """blocks: of results, one after the other. rounds: of ``batch`` loads each. delivery: from scratch; None where each
    result is stored by a thread that has it, to ``slots`` where the destination is in registers. guard: holds in
    threads that have any. stored: results of one store. widened: what would make the loads wider.
    """

    deal: Deal
    blocks: Value
    rounds: Value
    batch: int
    lanes: Lanes
    nbytes: int
    delivery: Delivery | None = None
    slots: Offset | None = None
    guard: Expr | None = None
    stored: int = 1
    widened: str | None = None

    def summary(self) -> str:
        """``32 threads along 128 elements by 16 bytes, 4 loads in flight, 5 shuffles``."""
        deal = self.deal
        what = "each row" if deal.by_rows else "the columns"
        threads = deal.along if deal.by_rows else deal.across
        steps = [f"{threads} threads along {what} by {self.nbytes} bytes, {counted(self.batch, 'load')} at a time"]
        steps += self.lanes.steps(deal.parts)
        steps += self.delivery.steps() if self.delivery else []
        steps += [f"{self.stored} results at a store"] if self.stored > 1 else []
        return ", ".join(steps)


@variant(
    *OPERATIONS,
    priority=10,
    keywords=KEYWORDS,
    when=[from_memory, whole_bytes],
)
def memory(call: TileCall) -> MemoryReduction:
    """The threads read neighbouring runs of up to 128 bits; lanes join by shuffles, warps through shared memory."""
    axes = axes_of(dict(call.config), len(call["src"].extents)) or ()
    deal, facts = dealt_along(call, axes), call.facts
    blocks = facts.simplify(ceiling(deal.kept.count, deal.across))
    turns = facts.simplify(ceiling(deal.reduced.count, deal.along))
    batch = _batch(turns)
    rounds = facts.simplify(ceiling(turns, batch))
    nbytes = max(1, deal.vector * call["src"].dtype.bits // 8)
    lanes = at_once(call, deal.lanes, reduction_of(call, 1))
    widened = wider_runs(call, deal, lambda other: dealt_along(other, axes))
    plan = MemoryReduction(deal, blocks, rounds, batch, lanes, nbytes, widened=widened)
    dst = call["dst"]
    apart = deal.pieces == 1 and not one_storage(call)
    if dst.size is None and call.option("thread_reduce", False):
        raise Decline(f"the size of {dst.name} is not known, where thread_reduce= asks for all of its elements")
    total = None if dst.size is None else int(wanted(call).max()) + 1
    if apart and dst.space != "local" and dst.size == total:
        return replace(plan, stored=_stored(call, deal))
    if total is None or total * deal.pieces > MOST_RESULTS:
        raise Decline(f"{total or 'any number of'} results would go through scratch memory, at most {MOST_RESULTS} may")
    if apart and (kept := _kept_in_registers(call, dst, deal, int(const_value(blocks) or 0))):
        return replace(plan, slots=kept[0], guard=kept[1])
    return replace(plan, delivery=taken_from_scratch(call, deal.pieces, total))


def _stored(call: TileCall, deal: Deal) -> int:
    """How many neighbouring results one store takes to the destination."""
    dst, along = call["dst"], deal.kept
    constant = dst.size is not None and not open_dimensions(call, dst) and not call.option("accum", False)
    if not constant or along.vector == 1 or along.dims[-1] != max(along.dims) or deal.parts != along.vector:
        return 1
    order, where = np.arange(int(dst.size or 0)), places(dst, call.facts)
    lengths = [length for length in (8, 4, 2) if length * dst.dtype.bits <= 128 and deal.parts % length == 0]
    return next((length for length in lengths if not run_problem(call, dst, where, order, length)), 1)


def _batch(turns: Value) -> int:
    """Loads at a time: as many as there are, or a number that leaves no rest if there is a good one."""
    number = const_value(turns)
    if number is None or number > IN_FLIGHT:
        fitting = [size for size in range(4, IN_FLIGHT + 1) if number is not None and number % size == 0]
        return max(fitting, default=IN_FLIGHT // 2)
    return max(1, int(number))


def _kept_in_registers(call: TileCall, dst: Side, deal: Deal, blocks: int) -> tuple[Offset, Expr | None] | None:
    """The slots of the blocks of results, and their threads, if each thread computes those that it holds."""
    held = owners(call, dst, loading=True)
    asked = spread(call, held, wanted(call)[held.elements])
    if asked.shape[1] != blocks * deal.parts or call.scope.threads != deal.workers:
        return None
    thread, part = np.arange(deal.workers), np.arange(deal.parts)
    column = np.asarray(deal.column(thread))  # type: ignore[arg-type]  # arrays compute as numbers do
    number = np.arange(blocks)[:, None] * deal.across + column
    beyond = number >= int(const_value(deal.kept.count) or 0)
    results = _results(deal, np.where(beyond, 0, number), part)
    results = np.where(beyond[..., None], -1, results).transpose(1, 0, 2).reshape(deal.workers, -1)
    fits = ((asked[:, None, :] == results[:, :, None]) | (asked[:, None, :] < 0)).all(axis=0)
    if not fits.any(axis=1).all() or len(set(order := fits.argmax(axis=1).tolist())) != len(order):
        return None
    slots = held.offset_of(held.slots[order])
    return None if slots is None else (slots, held.guard(storing=False))


def _results(deal: Deal, number: Ints, part: Ints) -> Ints:
    """The number of the result that each part of a vector is: (.., parts)."""
    digits = deal.kept.digits(number[..., None])  # type: ignore[arg-type]  # arrays compute as numbers do
    total = np.zeros(1, np.int64)
    for dim, extent in sorted(zip(deal.kept.dims, deal.kept.extents, strict=True), key=lambda pair: pair[0]):
        inside_vector = part if deal.kept.vector > 1 and dim == deal.kept.dims[-1] else 0
        total = total * int(const_value(extent) or 0) + np.asarray(digits[dim]) + inside_vector
    return np.broadcast_to(total, (*number.shape, deal.parts))


@dataclass(frozen=True, slots=True)
class _Emission:
    """What the pieces of the emitted code share."""

    plan: MemoryReduction
    call: TileCall
    out: Builder
    reduction: Reduction
    parts: PartialStore
    run: Buffer

    @property
    def thread(self) -> Value:
        """The number of the calling thread."""
        index: Value = self.call.scope.index
        return index

    def turn(self, round: Value, load: Value) -> Value:
        """The number of a thread's load along the elements."""
        deal = self.plan.deal
        number: Value = plus(times(plus(times(round, self.plan.batch), load), deal.along), deal.row(self.thread))
        return number

    def digits(self, column: Value, turn: Value) -> list[Value]:
        """The coordinates of a vector in the source."""
        return self.plan.deal.digits(column, turn, len(self.call["src"].extents))

    def exists(self, turn: Value, digits: list[Value]) -> Expr | None:
        """Is there such a vector, inside of the buffer?"""
        plan, src = self.plan, self.call["src"]
        there = below(turn, plan.deal.reduced.count, plan.rounds * (plan.batch * plan.deal.along))
        return all_hold((there, inside(self.call, src, digits)))


@memory.emit
def _(plan: MemoryReduction, call: TileCall, out: Builder) -> None:
    deal = plan.deal
    number = const_value(deal.reduced.count)
    reduction = reduction_of(call, None if number is None else int(number) * deal.reduced.vector)
    parts = registers_for(reduction, out, deal.parts)
    run = out.local("run", plan.batch * deal.vector, str(call["src"].dtype)).flat()
    emission = _Emission(plan, call, out, reduction, parts, run)
    scratch = None
    if plan.delivery:
        scratch = scratch_for(plan.delivery.pieces * plan.delivery.results, reduction, call, out)
    workers = None if deal.workers == call.scope.threads else binary("<", call.scope.index, deal.workers)
    with out.when(workers), out.each("b", plan.blocks) as block:
        column = plus(times(block, deal.across), deal.column(emission.thread))
        exists = below(column, deal.kept.count, plan.blocks * deal.across)
        begin_with_nothing(reduction, out, parts, deal.parts)
        with out.when(exists):
            _take_in_all(emission, column)
        emit_lanes(reduction, plan.lanes, out, parts, deal.parts)
        _hand_on(emission, block, column, exists, scratch)
    if plan.delivery and scratch:
        emit_taking(plan.delivery, reduction, call, out, scratch)
    elif call["dst"].space == "shared":
        out.meet(call)


def _take_in_all(emission: _Emission, column: Value) -> None:
    """The loop over the elements: a batch of loads, then the elements of that batch."""
    plan, out, deal = emission.plan, emission.out, emission.plan.deal
    finds = emission.reduction.row.finds
    with out.each("i", plan.rounds) as round:
        with out.each("u", plan.batch) as load:
            turn = out.let("n", emission.turn(round, load))
            digits = emission.digits(column, turn)
            run = emission.run, times(load, deal.vector), deal.vector
            load_run(
                emission.call, out, run, digits, emission.exists(turn, digits), emission.reduction.padding, deal.cut
            )
        with out.each("u", plan.batch) as load, out.each("e", deal.vector) as e:
            value = Load(emission.run, (as_expr(plus(times(load, deal.vector), e)),))
            position = _position(emission, column, emission.turn(round, load), e) if finds else None
            part = e if deal.kept.vector > 1 else 0
            partial = emission.reduction.of_element(value, position)
            take_in(emission.reduction, out, emission.parts, part, partial)


def _position(emission: _Emission, column: Value, turn: Value, e: Value) -> Expr:
    """The position of an element among those of its result; the last of all for one that does not exist."""
    along, last = emission.plan.deal.reduced, emission.reduction.nothing[1]
    digits = along.digits(turn)
    if along.vector > 1:
        digits[along.dims[-1]] = plus(digits[along.dims[-1]], e)
    number = as_expr(_row_major(along, digits), last.dtype)
    exists = emission.exists(turn, emission.digits(column, turn))
    return number if exists is None else select(exists, number, last)


def _hand_on(
    emission: _Emission, block: Value, column: Value, exists: Expr | None, scratch: PartialStore | None
) -> None:
    """Store the results of lanes to the destination, or to scratch memory."""
    plan, call, out, deal = emission.plan, emission.call, emission.out, emission.plan.deal
    if plan.slots is not None:
        slot, flat = out.offsets(plan.slots, "r"), call["dst"].buffer.flat()
        with out.when(plan.guard), out.each("j", deal.parts) as j:
            value = emission.parts.get(j)
            put(emission.reduction, call, out, flat, slot(plus(times(block, deal.parts), j)), value)
        return
    row = deal.row(emission.thread)
    first = None if deal.together == 1 else binary("==", row % deal.together, 0)
    mine = all_hold((exists, first))
    if plan.stored > 1:
        with out.when(mine):
            _store_runs(emission, column)
        return
    with out.when(mine), out.each("j", deal.parts) as j:
        digits = deal.kept.digits(column)
        if deal.kept.vector > 1:
            digits[deal.kept.dims[-1]] = plus(digits[deal.kept.dims[-1]], j)
        if plan.delivery is None or scratch is None:
            put_element(emission.reduction, call, out, _in_destination(call, digits), emission.parts.get(j))
        else:
            piece = row // deal.together if deal.pieces > 1 else 0
            index = plus(times(piece, plan.delivery.results), _row_major(deal.kept, digits))
            scratch.set(out, index, emission.parts.get(j))


def _store_runs(emission: _Emission, column: Value) -> None:
    """The results of a thread, several in one store."""
    plan, call, out = emission.plan, emission.call, emission.out
    dst, count = call["dst"], plan.stored
    run = out.local("result", plan.deal.parts, str(dst.dtype)).flat()
    with out.each("j", plan.deal.parts) as j:
        out.store(run, j, emission.reduction.result(emission.parts.get(j)))
    with out.each("j", plan.deal.parts // count) as j:
        digits = plan.deal.kept.digits(column)
        last = plan.deal.kept.dims[-1]
        digits[last] = plus(digits[last], times(j, count))
        offset = dst.place(_in_destination(call, digits), call.facts).get("m", 0)
        source = AddressOf(run, (as_expr(times(j, count)),))
        out.call("cuda.copy_bytes", out.pointer("ptr", dst.buffer.flat(), offset), source, count * dst.dtype.bits // 8)


def _row_major(along: Along, digits: Mapping[int, Value]) -> Value:
    """The number of an element in the order of the dimensions."""
    total: Value = 0
    for dim, extent in sorted(zip(along.dims, along.extents, strict=True), key=lambda pair: pair[0]):
        total = plus(times(total, extent), digits[dim])
    return total


def _in_destination(call: TileCall, digits: Mapping[int, Value]) -> list[Value]:
    """The coordinates of a result in the destination, which may keep dimensions of 1 or drop them."""
    dims = sorted(digits)
    return own_digits(call["dst"], [digits[dim] for dim in dims], [call["src"].extents[dim] for dim in dims])
