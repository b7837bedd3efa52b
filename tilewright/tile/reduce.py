"""The variants of the reductions: from memory, from registers, and through scratch."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import gcd
from typing import Any

import numpy as np

from tilewright.ir import AddressOf, Buffer, Expr, Load, Region, Value, as_expr, binary, const_value, select
from tilewright.layout import Iter, TileLayout
from tilewright.primitives.copy import copy, fill
from tilewright.primitives.reduce import axes_of, scan
from tilewright.records import replace
from tilewright.tile import reductions
from tilewright.tile.call import Side, TileCall, own_digits, side_of
from tilewright.tile.conditions import by_several, constant_extents, from_registers, kept_inside, source_in, whole_bytes
from tilewright.tile.dispatch import Decline, condition, counted, variant
from tilewright.tile.distribution import IN_FLIGHT, Distribution, along_lines
from tilewright.tile.owners import all_hold, inside, open_dimensions, owners
from tilewright.tile.partition import element_numbers, one_storage, places, run_problem
from tilewright.tile.reductions import at_once, delivery
from tilewright.tile.runs import Lines, below, ceiling
from tilewright.tile.steps import (
    Builder,
    CallSteps,
    ScratchRegisters,
    Staging,
    emit_steps,
    in_steps,
    inner_call,
    staging,
    through_memory,
)
from tilewright.tile.walks import Ints, Offset, plus, times

# A source in shared or global memory: threads read neighbouring runs, several at a time, and join what they have.


MOST_RESULTS = 1 << 14  # bytes that go through scratch memory


@dataclass(frozen=True, slots=True)
class MemoryReduction:
    """share: of the loads. blocks: of results, one after the other. rounds: of batches of loads. delivery: from
    scratch; None where each result is stored by a thread that has it, to ``slots`` where the destination is in
    registers. guard: holds in threads that have any. stored: results of one store.
    """

    share: Distribution
    blocks: Value
    rounds: Value
    lanes: reductions.Lanes
    delivery: reductions.Delivery | None = None
    slots: Offset | None = None
    guard: Expr | None = None
    stored: int = 1

    @property
    def widened(self) -> str | None:
        """What would make the loads wider."""
        return self.share.widened

    def summary(self) -> str:
        """``32 threads along 128 elements by 16 bytes, 4 loads in flight, 5 shuffles``."""
        share, lines = self.share, self.share.lines
        what = "each row" if lines.by_rows else "the columns"
        threads = lines.along if lines.by_rows else lines.across
        steps = [f"{threads} threads along {what} by {share.nbytes} bytes, {counted(share.batch, 'load')} at a time"]
        steps += self.lanes.steps(lines.kept.vector)
        steps += self.delivery.steps() if self.delivery else []
        steps += [f"{self.stored} results at a store"] if self.stored > 1 else []
        return ", ".join(steps)


@variant(
    *reductions.OPERATIONS, priority=10, keywords=reductions.KEYWORDS, when=[source_in("shared", "global"), whole_bytes]
)
def memory(call: TileCall) -> MemoryReduction:
    """The threads read neighbouring runs of up to 128 bits; lanes join by shuffles, warps through shared memory."""
    axes = axes_of(dict(call.config), len(call["src"].extents)) or ()
    share, facts = along_lines(call, axes), call.facts
    lines = share.lines
    blocks = facts.simplify(ceiling(lines.kept.count, lines.across))
    turns = facts.simplify(ceiling(lines.reduced.count, lines.along))
    share = replace(share, batch=_batch(turns))
    rounds = facts.simplify(ceiling(turns, share.batch))
    plan = MemoryReduction(share, blocks, rounds, at_once(call, _lanes(lines), reductions.reduction_of(call, 1)))
    dst = call["dst"]
    apart = lines.pieces == 1 and not one_storage(call)
    if dst.size is None and call.option("thread_reduce", False):
        raise Decline(f"the size of {dst.name} is not known, where thread_reduce= asks for all of its elements")
    total = None if dst.size is None else int(reductions.wanted(call).max()) + 1
    if apart and dst.space != "local" and dst.size == total:
        return replace(plan, stored=_stored(call, lines))
    if total is None or total * lines.pieces > MOST_RESULTS:
        raise Decline(f"{total or 'any number of'} results would go through scratch memory, at most {MOST_RESULTS} may")
    if apart and (kept := _kept_in_registers(call, dst, lines, int(const_value(blocks) or 0))):
        return replace(plan, slots=kept[0], guard=kept[1])
    return replace(plan, delivery=reductions.taken_from_scratch(call, lines.pieces, total))


def _lanes(lines: Lines) -> reductions.Lanes:
    """The shuffles that join what lanes have of the same lines."""
    step = 1 if lines.by_rows else lines.across
    masks = [step << bit for bit in range(lines.together.bit_length() - 1)]
    return reductions.Lanes(tuple(reversed(masks)), min(lines.workers, 32))


def _stored(call: TileCall, lines: Lines) -> int:
    """How many neighbouring results one store takes to the destination."""
    dst, along = call["dst"], lines.kept
    constant = dst.size is not None and not open_dimensions(call, dst) and not call.option("accum", False)
    if not constant or along.vector == 1 or along.dims[-1] != max(along.dims) or lines.kept.vector != along.vector:
        return 1
    order, where = np.arange(int(dst.size or 0)), places(dst, call.facts)
    lengths = [length for length in (8, 4, 2) if length * dst.dtype.bits <= 128 and lines.kept.vector % length == 0]
    return next((length for length in lengths if not run_problem(call, dst, where, order, length)), 1)


def _batch(turns: Value) -> int:
    """Loads at a time: as many as there are, or a number that leaves no rest if there is a good one."""
    number = const_value(turns)
    if number is None or number > IN_FLIGHT:
        fitting = [size for size in range(4, IN_FLIGHT + 1) if number is not None and number % size == 0]
        return max(fitting, default=IN_FLIGHT // 2)
    return max(1, int(number))


def _kept_in_registers(call: TileCall, dst: Side, lines: Lines, blocks: int) -> tuple[Offset, Expr | None] | None:
    """The slots of the blocks of results, and their threads, if each thread computes those that it holds."""
    held = owners(call, dst, loading=True)
    asked = reductions.spread(call, held, reductions.wanted(call)[held.elements])
    if asked.shape[1] != blocks * lines.kept.vector or call.scope.threads != lines.workers:
        return None
    thread, part = np.arange(lines.workers), np.arange(lines.kept.vector)
    column = np.asarray(lines.column(thread))  # type: ignore[arg-type]  # arrays compute as numbers do
    number = np.arange(blocks)[:, None] * lines.across + column
    beyond = number >= int(const_value(lines.kept.count) or 0)
    results = _results(lines, np.where(beyond, 0, number), part)
    results = np.where(beyond[..., None], -1, results).transpose(1, 0, 2).reshape(lines.workers, -1)
    fits = ((asked[:, None, :] == results[:, :, None]) | (asked[:, None, :] < 0)).all(axis=0)
    if not fits.any(axis=1).all() or len(set(order := fits.argmax(axis=1).tolist())) != len(order):
        return None
    slots = held.offset_of(held.slots[order])
    return None if slots is None else (slots, held.guard(storing=False))


def _results(lines: Lines, number: Ints, part: Ints) -> Ints:
    """The number of the result that each part of a vector is: (.., parts)."""
    digits: dict[int, Any] = lines.kept.digits(number[..., None])  # type: ignore[arg-type]  # arrays compute as numbers do
    if lines.kept.vector > 1:
        digits[lines.kept.dims[-1]] = digits[lines.kept.dims[-1]] + part
    return np.broadcast_to(lines.kept.number(digits), (*number.shape, lines.kept.vector))


@dataclass(frozen=True, slots=True)
class _Emission:
    """What the pieces of the emitted code share."""

    plan: MemoryReduction
    call: TileCall
    out: Builder
    reduction: reductions.Reduction
    parts: reductions.PartialStore
    run: Buffer

    def turn(self, round: Value, load: Value) -> Value:
        """The number of a thread's load along the elements."""
        share = self.plan.share
        first = times(plus(times(round, share.batch), load), share.lines.along)
        number: Value = plus(first, share.lines.row(self.call.scope.index))
        return number

    def digits(self, column: Value, turn: Value) -> list[Value]:
        """The coordinates of a vector in the source."""
        return self.plan.share.lines.digits(column, turn, len(self.call["src"].extents))

    def exists(self, turn: Value, digits: list[Value]) -> Expr | None:
        """Is there such a vector, inside of the buffer?"""
        plan, src = self.plan, self.call["src"]
        there = below(turn, plan.share.lines.reduced.count, plan.rounds * (plan.share.batch * plan.share.lines.along))
        return all_hold((there, inside(self.call, src, digits)))


@memory.emit
def _(plan: MemoryReduction, call: TileCall, out: Builder) -> None:
    lines = plan.share.lines
    number = const_value(lines.reduced.count)
    reduction = reductions.reduction_of(call, None if number is None else int(number) * lines.reduced.vector)
    parts = reductions.registers_for(reduction, out, lines.kept.vector)
    run = out.local("run", plan.share.batch * lines.vector, str(call["src"].dtype)).flat()
    emission = _Emission(plan, call, out, reduction, parts, run)
    scratch = None
    if plan.delivery:
        scratch = reductions.scratch_for(plan.delivery.pieces * plan.delivery.results, reduction, call, out)
    workers = None if lines.workers == call.scope.threads else binary("<", call.scope.index, lines.workers)
    with out.when(workers), out.loop("b", plan.blocks) as block:
        column = plus(times(block, lines.across), lines.column(emission.call.scope.index))
        exists = below(column, lines.kept.count, plan.blocks * lines.across)
        reductions.begin_with_nothing(reduction, out, parts, lines.kept.vector)
        with out.when(exists):
            _take_in_all(emission, column)
        reductions.emit_lanes(reduction, plan.lanes, out, parts, lines.kept.vector)
        _hand_on(emission, block, column, exists, scratch)
    if plan.delivery and scratch:
        reductions.emit_taking(plan.delivery, reduction, call, out, scratch)
    elif call["dst"].space == "shared":
        out.meet(call)


def _take_in_all(emission: _Emission, column: Value) -> None:
    """The loop over the elements: a batch of loads, then the elements of that batch."""
    plan, out, lines = emission.plan, emission.out, emission.plan.share.lines
    finds = emission.reduction.row.finds
    with out.loop("i", plan.rounds) as round:
        with out.loop("u", plan.share.batch) as load:
            turn = out.let("n", emission.turn(round, load))
            digits = emission.digits(column, turn)
            run = emission.run, times(load, lines.vector), lines.vector
            reductions.load_run(
                emission.call, out, run, digits, emission.exists(turn, digits), emission.reduction.padding, lines.cut
            )
        with out.loop("u", plan.share.batch) as load, out.loop("e", lines.vector) as e:
            value = Load(emission.run, (as_expr(plus(times(load, lines.vector), e)),))
            position = _position(emission, column, emission.turn(round, load), e) if finds else None
            part = e if lines.kept.vector > 1 else 0
            partial = emission.reduction.of_element(value, position)
            reductions.take_in(emission.reduction, out, emission.parts, part, partial)


def _position(emission: _Emission, column: Value, turn: Value, e: Value) -> Expr:
    """The position of an element among those of its result; the last of all for one that does not exist."""
    along, last = emission.plan.share.lines.reduced, emission.reduction.nothing[1]
    digits = along.digits(turn)
    if along.vector > 1:
        digits[along.dims[-1]] = plus(digits[along.dims[-1]], e)
    number = as_expr(along.number(digits), last.dtype)
    exists = emission.exists(turn, emission.digits(column, turn))
    return number if exists is None else select(exists, number, last)


def _hand_on(
    emission: _Emission, block: Value, column: Value, exists: Expr | None, scratch: reductions.PartialStore | None
) -> None:
    """Store the results of lanes to the destination, or to scratch memory."""
    plan, call, out, lines = emission.plan, emission.call, emission.out, emission.plan.share.lines
    if plan.slots is not None:
        slot, flat = out.offsets(plan.slots, "r"), call["dst"].buffer.flat()
        with out.when(plan.guard), out.loop("j", lines.kept.vector) as j:
            value = emission.parts.get(j)
            reductions.put(emission.reduction, call, out, flat, slot(plus(times(block, lines.kept.vector), j)), value)
        return
    row = lines.row(emission.call.scope.index)
    first = None if lines.together == 1 else binary("==", row % lines.together, 0)
    mine = all_hold((exists, first))
    if plan.stored > 1:
        with out.when(mine):
            _store_runs(emission, column)
        return
    with out.when(mine), out.loop("j", lines.kept.vector) as j:
        digits = lines.kept.digits(column)
        if lines.kept.vector > 1:
            digits[lines.kept.dims[-1]] = plus(digits[lines.kept.dims[-1]], j)
        if plan.delivery is None or scratch is None:
            reductions.put_element(emission.reduction, call, out, _in_destination(call, digits), emission.parts.get(j))
        else:
            piece = row // lines.together if lines.pieces > 1 else 0
            index = plus(times(piece, plan.delivery.results), lines.kept.number(digits))
            scratch.set(out, index, emission.parts.get(j))


def _store_runs(emission: _Emission, column: Value) -> None:
    """The results of a thread, several in one store."""
    plan, call, out = emission.plan, emission.call, emission.out
    dst, count = call["dst"], plan.stored
    run = out.local("result", plan.share.lines.kept.vector, str(dst.dtype)).flat()
    with out.loop("j", plan.share.lines.kept.vector) as j:
        out.store(run, j, emission.reduction.result(emission.parts.get(j)))
    with out.loop("j", plan.share.lines.kept.vector // count) as j:
        digits = plan.share.lines.kept.digits(column)
        last = plan.share.lines.kept.dims[-1]
        digits[last] = plus(digits[last], times(j, count))
        offset = dst.place(_in_destination(call, digits), call.facts).get("m", 0)
        source = AddressOf(run, (as_expr(times(j, count)),))
        out.call("cuda.copy_bytes", out.pointer("ptr", dst.buffer.flat(), offset), source, count * dst.dtype.bits // 8)


def _in_destination(call: TileCall, digits: Mapping[int, Value]) -> list[Value]:
    """The coordinates of a result in the destination, which may keep dimensions of 1 or drop them."""
    dims = sorted(digits)
    return own_digits(call["dst"], [digits[dim] for dim in dims], [call["src"].extents[dim] for dim in dims])


# A source in registers: each thread joins what it holds, lanes join by shuffles, warps through shared memory.


AT_ONCE = 4  # elements whose largest is found before it is compared with that of others, which are a chain


@dataclass(frozen=True, slots=True)
class RegisterReduction:
    """parts: partial results of a thread, each of ``length`` elements. slots: where they are, one part after the other.
    positions: what argmax counts, likewise. guard: holds in threads that hold some.
    """

    parts: int
    length: int
    slots: Offset
    positions: Offset | None
    guard: Expr | None
    lanes: reductions.Lanes
    delivery: reductions.Delivery

    def summary(self) -> str:
        """``4 x 8 elements per thread, 8 shuffles``."""
        return ", ".join(
            [f"{self.parts} x {self.length} elements per thread", *self.lanes.steps(self.parts), *self.delivery.steps()]
        )


@variant(
    *reductions.OPERATIONS,
    priority=10,
    keywords=reductions.KEYWORDS,
    when=[from_registers, constant_extents, kept_inside],
)
def registers(call: TileCall) -> RegisterReduction:
    """Each thread joins the registers that it holds; lanes join by shuffles, warps through shared memory."""
    src = call["src"]
    held = owners(call, src, loading=True)
    results, positions = reductions.numbered(src.shape, sorted(axes_of(dict(call.config), len(src.extents)) or ()))
    order = reductions.parts_of(results[held.elements], "results")
    elements = held.elements[:, order]
    of_part = reductions.spread(call, held, results[elements[:, :, 0]])
    every = reductions.spread(call, held, elements.reshape(len(elements), -1)).reshape(len(of_part), *order.shape)
    lanes, joined = reductions.joined_by_lanes(
        call, reductions.pieces_of(of_part, every, len(results) // int(results.max() + 1))
    )
    slots = held.offset_of(held.slots[order].reshape(-1))
    counted = element_numbers(positions[elements].reshape(len(elements), -1), [held.rank])
    if slots is None or counted is None:
        raise Decline(f"the slots of {src.name} that make a result follow no pattern")
    finds = reductions.OPERATIONS[call.stmt.primitive].finds
    guard, lanes = held.guard(storing=False), at_once(call, lanes, reductions.reduction_of(call, order.shape[1]))
    parts, length = order.shape
    return RegisterReduction(parts, length, slots, counted if finds else None, guard, lanes, delivery(call, joined))


@registers.emit
def _(plan: RegisterReduction, call: TileCall, out: Builder) -> None:
    src, reduction = call["src"], reductions.reduction_of(call, plan.length)
    parts = reductions.registers_for(reduction, out, plan.parts)
    reductions.begin_with_nothing(reduction, out, parts, plan.parts)
    with out.when(plan.guard):
        slot = out.offsets(plan.slots, "r")
        position = None if plan.positions is None else out.offsets(plan.positions, "n")
        at_once = gcd(plan.length, AT_ONCE) if reduction.row.ordered else 1

        def element(number: Value) -> reductions.Partial:
            value = Load(src.buffer.flat(), (as_expr(slot(number)),))
            return reduction.of_element(value, None if position is None else as_expr(position(number)))

        with out.loop("j", plan.parts) as j, out.loop("i", plan.length // at_once) as i:
            first = plus(times(j, plan.length), times(i, at_once))
            run = [element(plus(first, k)) for k in range(at_once)]
            while len(run) > 1:
                run = [reduction.joined(*pair) for pair in zip(run[::2], run[1::2], strict=True)]
            reductions.take_in(reduction, out, parts, j, run[0])
    reductions.emit_lanes(reduction, plan.lanes, out, parts, plan.parts)
    reductions.emit_delivery(plan.delivery, reduction, call, out, parts, plan.parts)


# Registers that end inside of a warp, or of a thread, are copied to scratch registers that do not, padded with the
# neutral element. All lanes then hold equally many, and join by shuffles.


WARP = 32


@variant(
    *reductions.OPERATIONS,
    priority=11,
    keywords=reductions.KEYWORDS,
    when=[from_registers, by_several, constant_extents, kept_inside],
)
def padded(call: TileCall) -> CallSteps:
    """Lanes that have less than others, or nothing, count neutral elements, so that all join by shuffles."""
    src = call["src"]
    if _is_even(call):
        raise Decline(f"the threads that hold {src} are whole warps, or a power of two, with as much in each")
    shape, layout = src.buffer.shape, src.buffer.layout
    axes = axes_of(dict(call.config), len(shape)) or ()
    if not isinstance(layout, TileLayout) or any(const_value(start) is None for start in src.starts):
        raise Decline(f"{src.name} has no layout without a swizzle and a region of numbers")
    wide, extents = _widened(call, layout, [int(const_value(extent) or 0) for extent in shape], axes)
    if all((src.starts[dim], src.extents[dim]) == (0, extents[dim]) for dim in axes):
        raise Decline(f"{src.name} has all elements of the dimensions that are reduced")
    _check_positions(call, extents, axes)
    scratch = ScratchRegisters(side_of(Buffer("padded", src.dtype, tuple(extents), "local", wide).region(), call.facts))
    plan = in_steps(call, _padding_calls, {"src": scratch})
    return replace(plan, words=f"{scratch.side.size} elements with neutral ones: {plan.chosen[-1].plan.summary()}")


def _is_even(call: TileCall) -> bool:
    try:
        count = len(owners(call, call["src"], loading=True).threads)
    except Decline:
        return False
    return count % WARP == 0 or (count < WARP and count.bit_count() == 1)


def _widened(
    call: TileCall, layout: TileLayout, shape: list[int], axes: Collection[int]
) -> tuple[TileLayout, list[int]]:
    """The layout with more threads along the dimensions that are reduced, and their extents."""
    grouped, ends = layout.group(shape)
    shard, extents = list(grouped.shard), list(shape)
    for dim, (first, end) in enumerate(pairwise(ends)):
        it = shard[first] if first < end else None
        if dim not in axes or it is None or not it.axis.is_thread():
            continue
        room = _room(call, layout, it)
        shard[first] = Iter(room, it.stride, it.axis)
        extents[dim] = extents[dim] // int(it.extent) * room
    return TileLayout(shard, grouped.replica, grouped.offset), extents


def _room(call: TileCall, layout: TileLayout, it: Iter) -> int:
    """The extent of a thread iter that reaches the next one on its axis, the end of a warp, or a power of two."""
    strides = [int(other.stride) for other in (*layout.shard, *layout.replica) if other.axis == it.axis]
    beyond = min((stride for stride in strides if stride > int(it.stride)), default=0)
    reach = int(it.stride) * int(it.extent)
    end = beyond or (1 << (reach - 1).bit_length() if reach < WARP else -(-reach // WARP) * WARP)
    fits = end % int(it.stride) == 0 and end <= call.scope.threads
    return end // int(it.stride) if fits else int(it.extent)


def _check_positions(call: TileCall, extents: list[int], axes: Collection[int]) -> None:
    """Positions count through the dimensions that are reduced: those but the outermost must be as they were."""
    src, inner = call["src"], sorted(axes)[1:]
    moved = any(const_value(src.starts[dim]) for dim in axes) or any(src.extents[dim] != extents[dim] for dim in inner)
    if reductions.OPERATIONS[call.stmt.primitive].finds and moved:
        raise Decline("the positions among more elements would be others")


def _padding_calls(call: TileCall, scratch: Mapping[str, Side]) -> tuple[TileCall, TileCall, TileCall]:
    src, whole = call["src"], scratch["src"]
    axes, box = axes_of(dict(call.config), len(src.extents)) or (), whole.region.box
    inside = side_of(Region(whole.buffer, src.region.box), call.facts)
    kept = tuple(box[dim] if dim in axes else part for dim, part in enumerate(src.region.box))
    rest = side_of(Region(whole.buffer, kept), call.facts)
    value = reductions.reduction_of(
        call, None if reductions.OPERATIONS[call.stmt.primitive].finds else whole.size
    ).padding
    return (
        replace(inner_call(call, fill.name, {"dst": whole}), scalars={"value": value}),
        inner_call(call, "copy", {"dst": inside, "src": src}),
        inner_call(call, call.stmt.primitive, {"dst": call["dst"], "src": rest}, **dict(call.config)),
    )


padded.emit(emit_steps)


# A source in registers that follow no pattern: its elements go to scratch memory, and are reduced from there.


@variant(
    *reductions.OPERATIONS,
    priority=5,
    keywords=reductions.KEYWORDS,
    when=[from_registers, by_several, constant_extents, kept_inside],
)
def staged(call: TileCall) -> CallSteps:
    """The elements go to shared memory, and are reduced from there."""
    return through_memory(call, "src")


staged.emit(emit_steps)


# Registers whose extents only the run knows: what is before the end is copied to scratch registers of neutral
# elements, which have extents that are numbers, and is reduced or scanned there. Results that go to memory, as many as
# only the run knows, are all written to scratch memory, and those that count are copied from there.


@condition("an extent is known to the run alone")
def of_the_run(call: TileCall) -> str | None:
    return None if any(side.size is None for side in call.tiles) else "all extents are numbers"


@variant(
    *reductions.OPERATIONS,
    scan.name,
    priority=4,
    keywords=(*reductions.KEYWORDS, "axis", "op", "exclusive"),
    when=[of_the_run, from_registers],
)
def covered(call: TileCall) -> CallSteps:
    """Registers up to an end that only the run knows are reduced together with neutral elements behind it."""
    scratch = {name: _scratch(call, side) for name, side in call.sides.items() if side.size is None}
    plan = in_steps(call, _covering_calls, scratch)
    calls = _covering_calls(call, {name: staged.side for name, staged in scratch.items()})
    work = next(step for step, inner in zip(plan.chosen, calls, strict=True)
                if inner.stmt.primitive == call.stmt.primitive)  # fmt: skip
    shapes = ", ".join(" x ".join(map(str, staged.side.extents)) for staged in scratch.values())
    return replace(plan, words=f"{shapes} elements with neutral ones: {work.plan.summary()}")


def _scratch(call: TileCall, side: Side) -> ScratchRegisters | Staging:
    """Registers as those that a side is a region of; memory for as many results as the source's registers may have."""
    if side.space != "local":
        return staging(call, tuple(_most(call, extent) for extent in side.extents), side.dtype)
    if any(const_value(start) is None for start in side.starts):
        raise Decline(f"where the region {side} of registers begins is no constant")
    buffer = Buffer("covered", side.dtype, side.buffer.shape, "local", side.buffer.layout)
    return ScratchRegisters(side_of(buffer.region(), call.facts))


def _most(call: TileCall, extent: Value) -> int:
    """An extent, or how much of the source's registers it may be. Raises Decline where that is no number."""
    number, src = const_value(extent), call["src"]
    if number is not None:
        return int(number)
    dims = (dim for dim, size in enumerate(src.extents) if call.facts.equal(size, extent))
    rooms = (const_value(src.buffer.shape[dim] - src.starts[dim]) for dim in dims)
    most = next((int(room) for room in rooms if room is not None), None)
    if most is None:
        raise Decline(f"{extent} is no extent of {src.name}, which says how many results there are at most")
    return most


def _covering_calls(call: TileCall, scratch: Mapping[str, Side]) -> list[TileCall]:
    """Neutral elements, the source, what dst has if it counts, the call itself, and the results."""
    wide = {name: _on_room(call, side, scratch.get(name)) for name, side in call.sides.items()}
    moved = {name: _moved(call, call[name], whole) for name, whole in scratch.items()}
    steps = []
    if "src" in scratch:
        value = reductions.reduction_of(
            call, None if call.stmt.primitive in ("argmax", "argmin") else wide["src"].size
        ).padding
        steps.append(replace(inner_call(call, fill.name, {"dst": scratch["src"]}), scalars={"value": value}))
        steps.append(inner_call(call, copy.name, {"dst": moved["src"], "src": call["src"]}))
    if "dst" in scratch and call.option("accum"):
        has = _whole(call, call["dst"]) if call["dst"].space == "local" else call["dst"]
        to = scratch["dst"] if call["dst"].space == "local" else moved["dst"]
        steps.append(inner_call(call, copy.name, {"dst": to, "src": has}))
    steps.append(inner_call(call, call.stmt.primitive, wide, **dict(call.config)))
    if "dst" in scratch:
        steps.append(inner_call(call, copy.name, {"dst": call["dst"], "src": moved["dst"]}))
    return steps


def _on_room(call: TileCall, side: Side, scratch: Side | None) -> Side:
    """The part of the scratch registers that a side may be, where only the run knows how much it is."""
    if scratch is None or side.space != "local":
        return scratch or side
    pairs = zip(side.region.box, side.buffer.shape, strict=True)
    box = tuple(
        (start, extent if const_value(extent) is not None else total - start) for (start, extent), total in pairs
    )
    return side_of(Region(scratch.buffer, box), call.facts)


def _moved(call: TileCall, side: Side, scratch: Side) -> Side:
    """The part of the scratch that the side really is."""
    box = side.region.box if side.space == "local" else tuple((0, extent) for extent in side.extents)
    return side_of(Region(scratch.buffer, box), call.facts)


def _whole(call: TileCall, side: Side) -> Side:
    return side_of(side.buffer.region(), call.facts)


covered.emit(emit_steps)
