"""The arithmetic of each reduction, its identity, the partial result of an element and the join of two; and how the
partial results of threads become those of the destination.

A partial result is a tuple of registers: one number, or for `argmax` and `argmin` a number and its position. Joining is
symmetric in every bit, so that all lanes of a butterfly have the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf

import ml_dtypes
import numpy as np

from tilewright import isa
from tilewright.dtypes import INT32, INT64, DType, dtype
from tilewright.ir import AddressOf, Buffer, Expr, Load, Value, as_expr, binary, cast, const, select
from tilewright.primitives.reduce import axes_of, joining_of
from tilewright.tile.call import Side, TileCall
from tilewright.tile.dispatch import Decline
from tilewright.tile.elements import value_of
from tilewright.tile.owners import Owners, inside, open_dimensions, owners
from tilewright.tile.partition import element_numbers
from tilewright.tile.steps import Builder
from tilewright.tile.walks import Ints, Offset, Walk, digits_of, number_of, plus, times, walk_of

Partial = tuple[Expr, ...]
KEYWORDS = ("axes", "accum", "nan", "thread_reduce", "formula", "identity")
"""What the variants of reductions read."""


def limit_of(kind: DType, *, largest: bool) -> float:
    """The largest or smallest value of a dtype: infinite where it has infinities."""
    if kind.kind == "bool":
        return float(largest)
    if not kind.is_float:
        lowest = -(1 << kind.bits - 1) if kind.kind == "int" else 0
        return lowest + (1 << kind.bits) - 1 if largest else lowest
    has_infinity = bool(np.isinf(np.array(inf).astype(kind.numpy).astype(np.float64)))
    bounds = ml_dtypes.finfo(kind.numpy)  # type: ignore[no-untyped-call]  # of a library without types
    limit = inf if has_infinity else float(bounds.max)
    return limit if largest else (-inf if has_infinity else float(bounds.min))


@dataclass(frozen=True, slots=True)
class Joining:
    """identity: for a dtype. join: the function of two numbers. warp: the instruction that a whole warp joins 32-bit
    integers by. of_numbers: the function of floats in which a NaN loses. finds: the result is a position.
    """

    identity: Callable[[DType], float]
    join: Callable[[Expr, Expr], Expr]
    warp: str = ""
    of_numbers: str = ""
    ordered: bool = False
    finds: bool = False
    truth: bool = False


def _joined(op: str) -> Callable[[Expr, Expr], Expr]:
    return lambda a, b: binary(op, a, b)


OPERATIONS = {
    "sum": Joining(lambda _: 0, _joined("+"), "cuda.reduce_add_sync"),
    "prod": Joining(lambda _: 1, _joined("*")),
    "max": Joining(
        lambda kind: limit_of(kind, largest=False), _joined("max"), "cuda.reduce_max_sync", "fmax", ordered=True
    ),
    "min": Joining(
        lambda kind: limit_of(kind, largest=True), _joined("min"), "cuda.reduce_min_sync", "fmin", ordered=True
    ),
    "any": Joining(lambda _: 0, _joined("|"), "cuda.reduce_or_sync", truth=True),
    "all": Joining(lambda _: 1, _joined("&"), "cuda.reduce_and_sync", truth=True),
    "argmax": Joining(lambda kind: limit_of(kind, largest=False), _joined(">"), finds=True),
    "argmin": Joining(lambda kind: limit_of(kind, largest=True), _joined("<"), finds=True),
    "reduce": Joining(lambda _: 0, _joined("+")),  # of a formula, see `_by_formula`
}


def _by_formula(formula: str, identity: float) -> Joining:
    """The reduction that a formula of ``a`` and ``b`` makes."""
    step = joining_of(formula)
    return Joining(lambda _: identity, lambda a, b: cast(value_of(step, {"a": a, "b": b}, a.dtype), a.dtype))


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduction of elements of one dtype into another. row: of `OPERATIONS`, or of a formula. kinds: the dtypes of a
    partial result. numbers: a number wins over a NaN.
    """

    row: Joining
    src: DType
    dst: DType
    kinds: tuple[DType, ...]
    numbers: bool = False

    @property
    def nothing(self) -> Partial:
        """The partial result of no elements."""
        first = const(
            self.row.identity(self.src if self.row.ordered or self.row.finds else self.kinds[0]), self.kinds[0]
        )
        return (first,) if not self.row.finds else (first, const(limit_of(self.kinds[1], largest=True), self.kinds[1]))

    @property
    def padding(self) -> Expr:
        """An element that changes nothing."""
        if self.row.truth:
            return cast(bool(self.row.identity(self.src)), self.src)
        return const(self.row.identity(self.src), self.src)

    def of_element(self, value: Expr, position: Expr | None = None) -> Partial:
        """The partial result of one element."""
        number = select(binary("!=", value, 0), as_expr(1), as_expr(0)) if self.row.truth else value
        first = cast(number, self.kinds[0])
        return (first,) if position is None else (first, cast(position, self.kinds[1]))

    def joined(self, mine: Partial, other: Partial) -> Partial:
        """The partial result of the elements of both."""
        a, b = mine[0], other[0]
        if self.row.finds:
            taken = self._is_before(mine, other)
            return select(taken, a, b), select(taken, mine[1], other[1])
        if self.numbers and a.dtype.is_float:
            return (isa.call(self.row.of_numbers, a, b),)
        return (self.row.join(a, b),)

    def _is_before(self, mine: Partial, other: Partial) -> Expr:
        """Is the first of the two the result? A NaN wins over numbers, then a lower position wins."""
        (a, at), (b, there) = mine, other
        better, same = self.row.join(a, b), binary("==", a, b)
        if a.dtype.is_float:
            a_is_nan, b_is_nan = binary("!=", a, a), binary("!=", b, b)
            better = binary("or", better, binary("and", a_is_nan, binary("==", b, b)))
            same = binary("or", same, binary("and", a_is_nan, b_is_nan))
        return binary("or", better, binary("and", same, binary("<", at, there)))

    def result(self, partial: Partial) -> Expr:
        """What the destination gets."""
        return cast(binary("!=", partial[0], 0) if self.row.truth else partial[-1], self.dst)

    def of_result(self, value: Expr) -> Partial:
        """What the destination has, as a partial result."""
        return (cast(value, self.kinds[0]),)


def reduction_of(call: TileCall, count: int | None) -> Reduction:
    """What a call computes, over ``count`` elements each; None where only the run knows how many."""
    name, src, dst = str(call.option("op", call.stmt.primitive)), call["src"].dtype, call["dst"].dtype
    name = "sum" if name == "scan" else name
    row = OPERATIONS[name]
    if name == "reduce":
        row = _by_formula(str(call.option("formula")), float(str(call.option("identity", 0))))
    numbers = str(call.option("nan", "propagate")) == "number"
    value = INT32 if row.truth else _computed_in(src, src if row.ordered or row.finds else dst)
    if not row.finds:
        return Reduction(row, src, dst, (value,), row.ordered and numbers)
    wide = dst.bits == 64 if count is None else count >= 1 << 31
    return Reduction(row, src, dst, (value, INT64 if wide else INT32))


def numbered(extents: Sequence[int], axes: Sequence[int]) -> tuple[Ints, Ints]:
    """For each element of a source, in row-major order: the number of its result or line, and its position in that."""
    kept = [dim for dim in range(len(extents)) if dim not in axes]
    coordinates = np.indices(extents).reshape(len(extents), -1)
    return _row_major(coordinates, extents, kept), _row_major(coordinates, extents, axes)


def wanted(call: TileCall) -> Ints:
    """For each element of the destination, in row-major order, the number of the result that it gets."""
    extents = call["dst"].shape
    rank = len(call["src"].extents)
    axes = axes_of(dict(call.config), rank) or ()
    shared = call.option("thread_reduce", False) and len(extents) == rank
    kept = [dim for dim in range(len(extents)) if not (shared and dim in axes)]
    return _row_major(np.indices(extents).reshape(len(extents), -1), extents, kept)


def _row_major(coordinates: Ints, extents: Sequence[int], dims: Sequence[int]) -> Ints:
    number = number_of([coordinates[dim] for dim in dims], [extents[dim] for dim in dims])
    return np.broadcast_to(number, coordinates.shape[1])


def _computed_in(src: DType, dst: DType) -> DType:
    """The dtype of partial results: at least 32 bits, float32 for narrow floats, int32 for bool."""
    bits = max(32, src.bits, dst.bits)
    return dtype(f"{'int' if src.kind == 'bool' else src.kind}{bits}")


# Partial results of a reduction: which thread has which, how lanes join theirs, and how the rest reach the
# destination.
#
# Each thread of the scope has some partial results in registers, each a *piece* of one result. Lanes whose numbers
# differ in some bits, and which have pieces of the same results, join them by shuffles. Where a result is then still in
# pieces, or in another thread than the one that stores it, the pieces go through scratch memory.


@dataclass(frozen=True, slots=True, eq=False)
class PartialPieces:
    """results: (threads of the scope, parts), the number of the result; -1 where a thread has none. pieces: which piece
    of it; threads with the same number have the same. count: pieces of each result.
    """

    results: Ints
    pieces: Ints
    count: int


@dataclass(frozen=True, slots=True)
class Lanes:
    """masks: of the shuffles, the widest first. members: the lanes of a warp that there are. instruction: joins the
    integers of a whole warp at once.
    """

    masks: tuple[int, ...] = ()
    members: int = 32
    instruction: str = ""

    @property
    def mask(self) -> int:
        """One bit for each lane."""
        return (1 << self.members) - 1

    def steps(self, parts: int) -> list[str]:
        """The shuffles in words, for a report on so many parts."""
        if self.instruction:
            return [f"{parts} x redux"]
        return [f"{parts * len(self.masks)} shuffles"] if self.masks else []


def spread(call: TileCall, held: Owners, table: Ints) -> Ints:
    """A table of the owners for all threads of the scope; -1 for those that own nothing."""
    every = np.full((held.space_threads, table.shape[1]), -1)
    every[held.threads] = table
    return np.tile(every, (call.scope.threads // held.space_threads, 1))


def joined_by_lanes(call: TileCall, parts: PartialPieces) -> tuple[Lanes, PartialPieces]:
    """The shuffles by which lanes join their pieces, and what each thread has then."""
    threads = call.scope.threads
    members = 32 if threads % 32 == 0 else threads if threads in (1, 2, 4, 8, 16) else 1
    every = np.arange(threads)
    masks = [
        mask
        for mask in (16, 8, 4, 2, 1)
        if mask < members
        and np.array_equal(parts.results[every ^ mask], parts.results)
        and (parts.pieces[every ^ mask] != parts.pieces)[parts.results >= 0].all()
    ]
    orbits = [0]
    for mask in masks:
        orbits += [mask ^ other for other in orbits]
    orbit = np.sort(np.stack([parts.pieces[every ^ other] for other in orbits]), axis=0)
    present = parts.results >= 0
    merged, count = _numbered(np.where(present, parts.results, -1), orbit[0])
    distinct = not masks or (np.diff(orbit, axis=0)[:, present] != 0).all()
    if not distinct or count * len(orbits) != parts.count:
        return Lanes((), members), parts
    return Lanes(tuple(masks), members), PartialPieces(parts.results, merged, count)


def at_once(call: TileCall, lanes: Lanes, reduction: Reduction) -> Lanes:
    """The join by one `redux` of the warp, where the target has it for such numbers."""
    kind, name = reduction.kinds[0], reduction.row.warp
    fits = len(lanes.masks) == 5 and name and kind.bits == 32 and not kind.is_float
    return replace(lanes, instruction=name) if fits and isa.lookup(name).forms[0].arch.admits(call.arch) else lanes


def _numbered(results: Ints, labels: Ints) -> tuple[Ints, int]:
    """The labels of each result's pieces as numbers from 0 on, and how many there are.

    Raises Decline where results have different numbers of pieces.
    """
    present = results >= 0
    pairs, inverse = np.unique(np.stack([results[present], labels[present]]), axis=1, return_inverse=True)
    starts = np.flatnonzero(np.diff(pairs[0], prepend=-1))
    counts = np.diff(starts, append=pairs.shape[1])
    if (counts != counts[0]).any():
        raise Decline("some results are in more pieces than others")
    numbers = np.full(results.shape, -1)
    numbers[present] = (np.arange(pairs.shape[1]) % counts[0])[inverse.reshape(-1)]
    return numbers, int(counts[0])


def parts_of(numbers: Ints, what: str) -> Ints:
    """The slots with the same number in all threads, in their order: (parts, slots of each).

    numbers: of results or lines, (threads, slots). Raises Decline where parts have different lengths.
    """
    _, first, inverse = np.unique(numbers, axis=1, return_index=True, return_inverse=True)
    inverse = inverse.reshape(-1)
    lengths = np.bincount(inverse)
    if (lengths != lengths[0]).any():
        raise Decline(f"a thread has more elements of some {what} than of others")
    return np.argsort(inverse, kind="stable").reshape(len(lengths), -1)[np.argsort(first)]


def pieces_of(results: Ints, elements: Ints, length: int) -> PartialPieces:
    """The pieces of threads that hold these elements: (threads, parts, elements), -1 for none, of results with so many
    elements each. Raises Decline where pieces overlap.
    """
    ordered = np.sort(elements, axis=-1)
    rows = ordered.reshape(-1, ordered.shape[-1])
    labels = np.unique(rows, axis=0, return_inverse=True)[1].reshape(results.shape)
    pieces, count = _numbered(results, labels)
    distinct = np.unique(labels[results >= 0], return_index=True)[1]
    all_of_them = ordered[results >= 0][distinct]
    if count * ordered.shape[-1] != length or len(np.unique(all_of_them)) != all_of_them.size:
        raise Decline("threads hold parts of the same elements")
    return PartialPieces(results, pieces, count)


@dataclass(frozen=True, slots=True)
class Delivery:
    """The way of the results to the destination. direct: the threads that store them have them; else through scratch.

    pieces, results: of the scratch memory. writers: the threads that write to it; index: where each part goes. parts:
    of a register destination, the part that each slot gets; slots: its slots; taken: the result that each slot gets.
    rounds: of stores to the destination. guard: holds in threads with something to store.
    """

    direct: bool
    pieces: int
    results: int
    writers: Expr | None = None
    index: Offset | None = None
    guard: Expr | None = None
    rounds: int = 0
    parts: Walk | None = None
    slots: Offset | None = None
    taken: Offset | None = None

    def steps(self) -> list[str]:
        """The steps of the delivery in words, for a report."""
        return [] if self.direct else [f"{self.results} x {self.pieces} pieces through shared memory, two barriers"]


def delivery(call: TileCall, parts: PartialPieces) -> Delivery:
    """How the results get to the destination. Raises Decline where the threads follow no pattern."""
    dst = call["dst"]
    total = int(parts.results.max()) + 1
    direct = None
    if parts.count == 1:
        direct = _kept(call, dst, parts, total) if dst.space == "local" else _stored(call, dst, parts, total)
    return direct or _exchanged(call, parts, total)


def _kept(call: TileCall, dst: Side, parts: PartialPieces, total: int) -> Delivery | None:
    """Every register of the destination gets a part of its own thread; None where others have it."""
    held = owners(call, dst, loading=True)
    asked = spread(call, held, wanted(call)[held.elements])
    takes = asked[:, :, None] == parts.results[:, None, :]
    whole = (takes | (asked < 0)[:, :, None]).all(axis=0)
    slots, source = held.offset_of(held.slots), walk_of(whole.argmax(axis=1))
    if not whole.any(axis=1).all() or slots is None or source is None:
        return None
    guard = held.guard(storing=False)
    return Delivery(True, 1, total, guard=guard, rounds=len(held.slots), parts=source, slots=slots)


def _leaders(call: TileCall, keys: Ints) -> Owners:
    """The first of the threads with the same keys; those with -1 have nothing."""
    complete = np.flatnonzero((keys >= 0).all(axis=1))
    first = np.sort(complete[np.unique(keys[complete], axis=0, return_index=True)[1]])
    scope, slots = call.scope, np.arange(keys.shape[1])
    return Owners(first, slots, keys[first], 0, scope.kind, scope.threads, 1, scope.kind)


def _stored(call: TileCall, dst: Side, parts: PartialPieces, total: int) -> Delivery | None:
    """The first thread that has a result stores it; None where such threads follow no pattern."""
    _check_single(dst, total)
    leaders = _leaders(call, parts.results)
    if leaders.elements.size != total or len(np.unique(leaders.elements)) != total:
        return None
    try:
        taken = element_numbers(leaders.elements, [leaders.rank])
        guard = leaders.guard(storing=False)
    except Decline:
        return None
    if taken is None:
        return None
    return Delivery(True, 1, total, guard=guard, rounds=leaders.elements.shape[1], taken=taken)


def _exchanged(call: TileCall, parts: PartialPieces, total: int) -> Delivery:
    leaders = _leaders(call, np.where(parts.results < 0, -1, parts.pieces * total + parts.results))
    if leaders.elements.size != total * parts.count:
        raise Decline("threads have some of the same results")
    index = element_numbers(leaders.elements, [leaders.rank])
    if index is None:
        raise Decline("which thread has which result follows no pattern")
    return replace(taken_from_scratch(call, parts.count, total), writers=leaders.guard(storing=False), index=index)


def taken_from_scratch(call: TileCall, pieces: int, total: int) -> Delivery:
    """How results that lie in scratch get to the destination. Raises Decline where its owners follow no pattern."""
    dst = call["dst"]
    if dst.space != "local":
        _check_single(dst, total)
        return Delivery(False, pieces, total, rounds=-(-total // call.scope.threads))
    held = owners(call, dst, loading=True)
    taken, slots = element_numbers(wanted(call)[held.elements], [held.rank]), held.offset_of(held.slots)
    if taken is None or slots is None:
        raise Decline(f"which thread holds which element of {dst.name} follows no pattern")
    guard = held.guard(storing=False)
    return Delivery(False, pieces, total, guard=guard, rounds=len(held.slots), slots=slots, taken=taken)


def _check_single(dst: Side, total: int) -> None:
    """Raises Decline where a result goes to several elements of a memory."""
    if dst.size != total:
        raise Decline(f"{dst.name} has {dst.size} elements for {total} results; in memory each has one")


# The code of a reduction.


@dataclass(frozen=True, slots=True)
class PartialStore:
    """Flat buffers that hold partial results, one for each register of theirs."""

    buffers: tuple[Buffer, ...]
    start: Value = 0

    def get(self, index: Value) -> Partial:
        return tuple(Load(buffer, (as_expr(plus(self.start, index)),)) for buffer in self.buffers)

    def set(self, out: Builder, index: Value, partial: Partial) -> None:
        for buffer, value in zip(self.buffers, partial, strict=True):
            out.store(buffer, plus(self.start, index), value)


def registers_for(reduction: Reduction, out: Builder, count: int, name: str = "part") -> PartialStore:
    """Registers for so many partial results."""
    kinds = zip((name, "position"), reduction.kinds, strict=False)
    return PartialStore(tuple(out.local(letter, count, str(kind)).flat() for letter, kind in kinds))


def begin_with_nothing(reduction: Reduction, out: Builder, store: PartialStore, count: int) -> None:
    """Set the partial results to those of no element."""
    with out.loop("j", count) as j:
        store.set(out, j, reduction.nothing)


def take_in(reduction: Reduction, out: Builder, store: PartialStore, index: Value, partial: Partial) -> None:
    """Join an element to a partial result."""
    joined = reduction.joined(store.get(index), partial)
    if len(joined) > 1:
        joined = tuple(out.let("joined", value) for value in joined)
    store.set(out, index, joined)


def emit_lanes(reduction: Reduction, lanes: Lanes, out: Builder, store: PartialStore, count: int) -> None:
    """Join the pieces of lanes."""
    if lanes.instruction:
        with out.loop("j", count) as j:
            (value,) = store.get(j)
            store.set(out, j, (isa.call(lanes.instruction, const(lanes.mask, dtype("uint32")), value),))
        return
    for mask in lanes.masks:
        with out.loop("j", count) as j:
            theirs = [isa.call("cuda.shfl_xor_sync", lanes.mask, value, mask) for value in store.get(j)]
            take_in(reduction, out, store, j, tuple(out.let("other", value) for value in theirs))


def emit_delivery(
    plan: Delivery, reduction: Reduction, call: TileCall, out: Builder, store: PartialStore, count: int
) -> None:
    """Bring the results to the destination."""
    if plan.direct:
        _emit_direct(plan, reduction, call, out, store)
        if call["dst"].space == "shared":
            out.meet(call)
        return
    scratch = scratch_for(plan.pieces * plan.results, reduction, call, out)
    assert plan.index is not None
    with out.when(plan.writers):
        index = out.offsets(plan.index, "s")
        with out.loop("j", count) as j:
            scratch.set(out, index(j), store.get(j))
    emit_taking(plan, reduction, call, out, scratch)


def emit_taking(plan: Delivery, reduction: Reduction, call: TileCall, out: Builder, scratch: PartialStore) -> None:
    """Bring the results from the scratch, which all have written to, to the destination."""
    out.meet(call)
    if plan.slots is not None:
        _emit_to_owners(plan, reduction, call, out, scratch)
    else:
        _emit_to_memory(plan, reduction, call, out, scratch)
    out.meet(call)


def scratch_for(size: int, reduction: Reduction, call: TileCall, out: Builder) -> PartialStore:
    """Scratch memory for so many partial results."""
    arrays = [out.scratch(call, "scratch", size, str(kind)) for kind in reduction.kinds]
    return PartialStore(tuple(buffer.flat() for buffer, _ in arrays), arrays[0][1])


def _emit_direct(plan: Delivery, reduction: Reduction, call: TileCall, out: Builder, store: PartialStore) -> None:
    dst = call["dst"]
    with out.when(plan.guard):
        if plan.slots is not None:
            assert plan.parts is not None
            slot = out.offsets(plan.slots, "r")
            with out.loop("j", plan.rounds) as j:
                put(reduction, call, out, dst.buffer.flat(), slot(j), store.get(plan.parts.at(j)))
        else:
            assert plan.taken is not None
            number = out.offsets(plan.taken, "k")
            with out.loop("j", plan.rounds) as j:
                digits = digits_of(out.let("k", number(j)), call["dst"].extents)
                put_element(reduction, call, out, digits, store.get(j))


def _emit_to_owners(plan: Delivery, reduction: Reduction, call: TileCall, out: Builder, scratch: PartialStore) -> None:
    assert plan.slots is not None
    assert plan.taken is not None
    with out.when(plan.guard):
        slot, number = out.offsets(plan.slots, "r"), out.offsets(plan.taken, "k")
        with out.loop("j", plan.rounds) as j:
            whole = _collected(plan, reduction, out, scratch, number(j))
            put(reduction, call, out, call["dst"].buffer.flat(), slot(j), whole)


def _emit_to_memory(plan: Delivery, reduction: Reduction, call: TileCall, out: Builder, scratch: PartialStore) -> None:
    threads = call.scope.threads
    with out.loop("f", plan.rounds) as f:
        number = plus(times(f, threads), call.scope.index)
        with out.when(binary("<", number, plan.results) if plan.results < plan.rounds * threads else None):
            whole = _collected(plan, reduction, out, scratch, number)
            put_element(reduction, call, out, digits_of(number, call["dst"].extents), whole)


def _collected(plan: Delivery, reduction: Reduction, out: Builder, scratch: PartialStore, number: Value) -> Partial:
    """A whole result, joined from its pieces in their order."""
    if plan.pieces == 1:
        return scratch.get(number)
    whole = registers_for(reduction, out, 1, "whole")
    whole.set(out, 0, scratch.get(number))
    with out.loop("w", plan.pieces - 1) as w:
        piece = scratch.get(plus(number, times(plus(w, 1), plan.results)))
        take_in(reduction, out, whole, 0, tuple(out.let("piece", value) for value in piece))
    return whole.get(0)


def put_element(reduction: Reduction, call: TileCall, out: Builder, digits: Sequence[Value], partial: Partial) -> None:
    """Store a result to an element of a destination in memory, if it is inside of its buffer."""
    dst = call["dst"]
    with out.when(inside(call, dst, digits)):
        offset = dst.place(digits, call.facts).get("m", 0)
        put(reduction, call, out, dst.buffer.flat(), offset, partial)


def put(reduction: Reduction, call: TileCall, out: Builder, flat: Buffer, offset: Value, partial: Partial) -> None:
    """Store a result, joined with what is there where the call accumulates."""
    if call.option("accum", False):
        before = Load(flat, (as_expr(offset),))
        partial = reduction.joined(reduction.of_result(before), partial)
    out.store(flat, offset, reduction.result(partial))


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
