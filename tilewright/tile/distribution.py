"""How threads divide the elements of a call: one mapping over all of its tiles, whatever the call does with them.

Where a tile is in registers, its layout says which thread has which element (`held_by`, `by_holders`). Else the threads
of the scope take turns in an order of our choice (`dealt_out`, `by_turns`). Either way a thread makes some rounds of
accesses, each of a run of elements that is contiguous and aligned in every tile in memory, or one element for all of
the run; of a tile in registers each element is in a slot that is the same in all threads. Where a run starts is an
`Offset` that is found on tables of addresses; where there are too many to list, or only the run knows how many, it is
computed from coordinates (`runs`). `round_loops` writes the code.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np

from tilewright.ir import Expr, Region, Value, binary, const_value, row_major
from tilewright.tile.call import Side, TileCall, dimensions_of, side_of
from tilewright.tile.conditions import wider
from tilewright.tile.dispatch import Decline
from tilewright.tile.elements import Computation, Moving, computation, indexed
from tilewright.tile.owners import Owners, accesses, end_of, open_dimensions, owners, splits
from tilewright.tile.partition import (
    element_numbers,
    not_contiguous,
    places,
    repeats,
    tracked,
    vector_lengths,
    widest_vector,
)
from tilewright.tile.runs import LONG, Lines, is_whole, lacking, lines_along, runs_of, wide, wider_runs
from tilewright.tile.walks import Ints, Offset, Walk, times, walk_of

LETTERS = {"global": "g", "shared": "s", "local": "r"}  # in the names of offsets and pointers, and their order
MOST_LISTED = 1 << 17  # elements of a region whose addresses are listed
Also: TypeAlias = Callable[[Ints, int], str | None]
Slots: TypeAlias = "tuple[tuple[str, tuple[Value, Walk]], ...]"  # by tile
IN_FLIGHT = 8  # accesses that a thread makes before it waits for the first
BESIDE_REGISTERS = 4  # accesses in flight if it holds other elements meanwhile, which take registers, too


@dataclass(frozen=True, slots=True)
class Distribution:
    """vector: elements of one access. rounds: accesses of a thread. offsets: where each starts, by the tile's name.

    number: of its first element, where it is asked for. threads: that take turns (0: each has its own elements).
    spread: the offsets follow a thread and its rounds; else the number of the access, ``round * threads + thread``.
    accesses: how many there are, where the last round is not full (0: all rounds are). guard: holds in the threads that
    take part. limit: why no access has 16 bytes; widened: what would make accesses wider.
    computing: what each element becomes; None where bits are copied at once. single: tiles of which a run is one
    element. slots: of tiles in registers, by the number of the element in the thread. parts: may a run be partly
    outside? asked: may a region leave its buffer? batch: rounds that are loaded at once. pairs: does an instruction
    compute two elements? rows: runs whose number only the run knows, in the place of rounds, offsets and accesses.
    """

    vector: int
    nbytes: int = 0
    rounds: int = 0
    offsets: tuple[tuple[str, Offset], ...] = ()
    threads: int = 0
    spread: bool = True
    accesses: int = 0
    guard: Expr | None = None
    number: Offset | None = None
    limit: str = ""
    widened: str | None = None
    computing: Computation | Moving | None = None
    single: frozenset[str] = frozenset()
    slots: Slots = ()
    batch: int = 1
    asked: bool = False
    parts: bool = False
    pairs: bool = False
    rows: Lines | None = None

    @property
    def lines(self) -> Lines:
        """The lines of a plan by arithmetic."""
        assert self.rows is not None, "asked first"
        return self.rows

    def summary(self) -> str:
        """``2 x 16 bytes (8 elements) for each of 128 threads``, or ``n // 4 x 4 elements, 128 threads take turns``
        and why not fewer and wider.
        """
        runs, copies = self.rounds if self.rows is None else self.rows.kept.count, self.computing is None
        what = f"{self.nbytes} bytes ({self.vector} elements)" if copies else f"{self.vector} elements"
        if self.rows is None:
            who = f" for each of {self.threads} threads" if self.threads > 1 else " per thread"
        else:
            who = f", {self.threads} threads take turns" if self.threads > 1 else ", one thread"
        total = f", {self.accesses} in all" if self.accesses else ""
        batch = f", {self.batch} at once" if self.batch > 1 or self.rows is not None else ""
        asked = ", those inside of the buffers" if self.asked else ""
        how = self.computing.summary(in_pairs=self.pairs) if self.computing is not None else ""
        limited = self.limit and (self.offsets or self.rows is not None)
        why = f"; not {'by 16 bytes' if copies else 'wider'}, as {self.limit}" if limited else ""
        return f"{runs} x {what}{who}{total}{batch}{asked}{how}{why}"


def in_order(sides: Mapping[str, Side]) -> dict[str, Side]:
    """The tiles by their names, those farther away first."""
    return dict(sorted(sides.items(), key=lambda item: list(LETTERS).index(item[1].space)))


def numbers_in(call: TileCall, side: Side) -> Ints:
    """For each element of dst, the number of the side's element that goes with it."""
    numbers = np.arange(int(side.size or 0))
    if side.size == call["dst"].size:
        return numbers
    dst = call["dst"].shape
    return np.broadcast_to(numbers.reshape(side.shape[-len(dst) :]), dst).reshape(-1)


def widened(call: TileCall, planner: Callable[[TileCall], Distribution]) -> Distribution:
    """The distribution that ``planner`` plans, with what would make its accesses wider."""
    plan = planner(call)
    return replace(plan, widened=wider(call, plan, planner)) if plan.limit and plan.rows is None else plan


def held_by(call: TileCall, local: Side) -> Distribution:
    """Each thread has the elements that it holds of ``local``. Raises Decline where they are no runs of the others."""
    held, where, vector, limit = accesses(call, local)
    starts = held.elements[:, ::vector]
    registers = held.offset_of(held.slots[::vector])
    offsets = (
        (name, registers if side is local else tracked(call, side, where[name], starts, [held.rank]))
        for name, side in in_order(call.sides).items()
    )
    if (by_name := all_found(offsets)) is None:
        others = " and ".join(side.name for side in call.tiles if side is not local)
        raise Decline(f"the registers of {local.name} and the addresses of {others} follow no common pattern")
    guard = held.guard(storing=local not in call.written)
    return Distribution(vector, vector * local.dtype.bits // 8, starts.shape[1], by_name, guard=guard, limit=limit)


def dealt_out(
    call: TileCall,
    order: Ints,
    also: Callable[[int], str | None] = lambda _: None,
    *,
    numbered: bool = False,
    tiles: Mapping[str, Side] | None = None,
    least: int = 1,
) -> Distribution:
    """The threads of the scope take the elements in turns, in this order. Raises Decline where no pattern gives them.

    also: a further reason against runs of so many elements. numbered: with the number of each access's first element.
    tiles: those that it is about, if not all. least: bytes of the shortest run.
    """
    sides = [
        (name, side, places(side, call.facts), numbers_in(call, side))
        for name, side in in_order(call.sides if tiles is None else tiles).items()
    ]
    vector, limit = widest_vector(call, [(side, where, ids[order]) for _, side, where, ids in sides], also, least)
    starts = order[::vector]
    threads = call.scope.threads
    rounds = -(-len(starts) // threads)
    partial = len(starts) if len(starts) < rounds * threads else 0
    nbytes = vector * call.dtype.bits // 8
    for spread in (False,) if partial else (True, False):
        elements = starts.reshape(rounds, threads).T if spread else starts
        thread = [call.scope.index] if spread else []
        offsets = (tracked(call, side, where, numbers[elements], thread) for _, side, where, numbers in sides)
        by_name = all_found(zip((name for name, *_ in sides), offsets, strict=True))
        number = element_numbers(elements, thread) if numbered else None
        if by_name is not None and (number is not None) == numbered:
            return Distribution(vector, nbytes, rounds, by_name, threads, spread, partial, number=number, limit=limit)
    names = " and ".join(side.name for _, side, _, _ in sides)
    raise Decline(f"the addresses of {names} follow no common pattern")


def all_found(offsets: Iterable[tuple[str, Offset | None]]) -> tuple[tuple[str, Offset], ...] | None:
    """The offsets by name; None where one of them follows no pattern."""
    by_name = tuple(offsets)
    return None if any(offset is None for _, offset in by_name) else by_name  # type: ignore[return-value]  # none is


def in_memory_order(side: Side) -> Ints:
    """The region's element numbers in the order of their addresses: symbolic strides outside, then from far to near."""
    numbers = np.arange(int(side.size or 0))
    if side.tile is None:
        return numbers
    strides = [const_value(it.stride) for it in side.tile.shard]
    axes = sorted(range(len(strides)), key=lambda k: (strides[k] is not None, -abs(int(strides[k] or 0))))
    return numbers.reshape([int(it.extent) for it in side.tile.shard]).transpose(axes).reshape(-1)


# With a computation


def by_turns(call: TileCall, also: Also = lambda *_: None, least: int = 1, order: Ints | None = None) -> Distribution:
    """The threads of the scope take runs in turns, in this order of elements, or that of a memory. Raises Decline.

    also: a further reason against runs of so many elements in this order. least: bytes of the shortest run.
    """
    if int(call["dst"].size or 0) > MOST_LISTED:
        raise Decline(f"{call['dst'].size} elements, too many to lay out one by one")
    order = in_memory_order(_leading(call)) if order is None else order
    share = dealt_out(
        call,
        order,
        lambda length: _crooked(call, order, length) or also(order, length),
        numbered=_needs_number(call),
        tiles=_memory(call),
        least=least,
    )
    threads, vector = call.scope.threads, share.vector
    everyone = Owners(np.arange(threads), np.zeros(1, np.int64), np.zeros((threads, 1), np.int64), 0,
                      call.scope.kind, threads, 1, call.scope.kind)  # fmt: skip
    runs = np.resize(order.reshape(-1, vector), (share.rounds * threads, vector))
    mine = runs.reshape(share.rounds, threads, vector).transpose(1, 0, 2).reshape(threads, -1)
    return _computing(call, share, order, _slots(call, everyone, mine))


def by_holders(call: TileCall, local: Side) -> Distribution:
    """Each thread computes with the elements that it holds of ``local``. Raises Decline."""
    storing = local not in call.written
    held, elements = _of_holders(call, local, loading=not storing)
    memory = _memory(call)
    if memory:
        elements, vector, limit = _longest_runs(call, memory, elements)
    else:
        vector, limit = 2 if _packs(call, elements) else 1, ""
    tiles = [(side, places(side, call.facts), numbers_in(call, side)[elements]) for side in memory.values()]
    starts = elements[:, ::vector]
    offsets = (tracked(call, side, where, numbers[:, ::vector], [held.rank]) for side, where, numbers in tiles)
    if (by_name := all_found(zip(memory, offsets, strict=True))) is None:
        names = " and ".join(side.name for side in memory.values())
        raise Decline(f"the registers of {local.name} and the addresses of {names} follow no common pattern")
    slots = _slots(call, held, elements)
    number = element_numbers(starts, [held.rank]) if _needs_number(call) else None
    if _needs_number(call) and number is None:
        raise Decline(f"the elements that threads hold of {local.name} follow no pattern")
    nbytes, guard = vector * max(call.dtype.bits, 8) // 8, held.guard(storing=storing)
    share = Distribution(vector, nbytes, starts.shape[1], by_name, guard=guard, number=number, limit=limit)
    return _computing(call, share, elements, slots)


def goes_longer(call: TileCall, local: Side, vector: int) -> bool:
    """Are runs longer than ``vector`` if each thread takes its elements in the order of the memory?"""
    held, memory = owners(call, local, loading=local in call.written), _memory(call)
    first = next((places(side, call.facts) for side in memory.values()), None)
    if first is None or _neighbours(first.seen[0, held.elements[0]]) <= vector:
        return False
    try:
        return by_holders(call, local).vector > vector
    except Decline:
        return False


def _neighbours(addresses: Ints) -> int:
    """The most elements that are neighbours in a memory, in whatever order."""
    gaps = np.flatnonzero(np.diff(np.sort(addresses), prepend=-2, append=-2) != 1)
    return int(np.diff(gaps).max())


def _longest_runs(call: TileCall, memory: Mapping[str, Side], elements: Ints) -> tuple[Ints, int, str]:
    """Each thread's elements in the order of their registers, or of a memory if accesses are longer then; and the
    elements of an access, and why not more. Raises Decline where there are no accesses in either order.
    """
    tiles = [(side, places(side, call.facts), numbers_in(call, side)) for side in memory.values()]

    def runs(order: Ints) -> tuple[Ints, int, str]:
        parts = [(side, where, numbers[order]) for side, where, numbers in tiles]
        return (order, *widest_vector(call, parts, partial(_crooked, call, order)))

    widest = elements, 0, ""
    declined: Decline | None = None
    try:
        widest = runs(elements)
    except Decline as why:
        declined = why
    if (declined or widest[2]) and call.option("vec_len") is None:
        _, where, numbers = next((tile for tile in tiles if tile[0].size == call["dst"].size), tiles[0])
        addresses = where.seen[0, numbers[elements]]
        order = np.argsort(addresses[0], kind="stable")
        if _neighbours(addresses[0]) > widest[1] and (np.diff(addresses[:, order], axis=1) > 0).all():
            with suppress(Decline):
                widest = max(widest, runs(elements[:, order]), key=lambda candidate: candidate[1])
    if not widest[1] and declined is not None:
        raise declined
    return widest


def _packs(call: TileCall, elements: Ints) -> bool:
    """Are there instructions for two elements, and can all threads take two?"""
    computing = computation(call)
    return elements.shape[-1] % 2 == 0 and isinstance(computing, Computation) and computing.packs(call)


def registers_alike(call: TileCall) -> Side | None:
    """The tile whose holders compute: dst if it is in registers, else a source of which each holds its own elements."""
    if call["dst"].space == "local":
        return call["dst"]
    held = [(side, owners(call, side, loading=True)) for side in call.tiles if side.space == "local"]
    spread = [side for side, holders in held if holders.space != "thread"]
    return max(spread, key=lambda side: int(side.size or 0), default=None)


def held_elsewhere(call: TileCall, local: Side) -> list[str]:
    """The sources in registers that the holders of ``local`` do not have, or not all in the same slots."""
    held, elements = _of_holders(call, local, loading=True)
    names = []
    for name, side in call.sides.items():
        if side.space == "local" and side is not local and name != "dst":
            try:
                _slots_of(call, side, held, elements)
            except Decline:
                names.append(name)
    return names


def _computing(call: TileCall, share: Distribution, order: Ints, slots: Slots) -> Distribution:
    """The distribution of the elements in this order, with what is computed of them."""
    computed, vector = computation(call), share.vector
    sides = ((name, side) for name, side in call.sides.items() if side.space != "local" and vector > 1)
    single = frozenset(name for name, side in sides if repeats(numbers_in(call, side)[order], vector))
    most = in_batches(
        sum(name != "dst" and name not in single for name, _ in share.offsets),
        beside=any(name != "dst" for name, _ in slots),
    )
    return replace(
        share,
        computing=computed,
        single=single,
        slots=slots,
        batch=max(size for size in range(1, most + 1) if share.rounds % size == 0),
        asked=_is_open(call),
        parts=_has_parts(call, order, vector),
        pairs=vector % 2 == 0 and isinstance(computed, Computation) and computed.packs(call),
    )


def in_batches(loads: int, *, beside: bool = False) -> int:
    """How many rounds to load at once, of so many tiles; ``beside`` others that are in registers."""
    return max(1, (BESIDE_REGISTERS if beside else IN_FLIGHT) // loads) if loads else 1


def _leading(call: TileCall) -> Side:
    """The tile in whose order elements are dealt out: a global one if there is one, dst first, of full size."""
    full = [side for side in call.tiles if side.size == call["dst"].size and side.space != "local"]
    if not full:
        raise Decline("no tile in memory has all elements")
    return next((side for side in full if side.space == "global"), full[0])


def _memory(call: TileCall) -> dict[str, Side]:
    """The tiles in memory, those farther away first."""
    tiles = {name: side for name, side in call.sides.items() if side.space != "local"}
    for side in tiles.values():
        if side.tile is None and open_dimensions(call, side):
            raise Decline(side.problem)
    return in_order(tiles)


def _needs_number(call: TileCall) -> bool:
    return _is_open(call) or any(map(indexed, call.scalars.values()))


def _is_open(call: TileCall) -> bool:
    return any(open_dimensions(call, side) for side in call.tiles)


def _crooked(call: TileCall, order: Ints, length: int) -> str | None:
    """Why the first and the last element of a run do not tell whether all are inside; None if they do."""
    if order.shape[-1] % length:
        return f"{order.shape[-1]} elements are no multiple of {length}"
    if any(map(indexed, call.scalars.values())):
        runs = order.reshape(-1, length)
        if (runs - runs[:, :1] != np.arange(length)).any():
            return f"{length} neighbours in memory are no neighbours in the region, whose places a value depends on"
    for side in call.tiles:
        for dim in open_dimensions(call, side):
            along = _coordinates(call, side, dim)[order].reshape(-1, length)
            steps = along - along[:, :1]
            if not ((steps == 0).all() or (steps == np.arange(length)).all()):
                return f"{length} elements of {side.name} turn a corner at the end of dimension {dim}"
    return None


def _has_parts(call: TileCall, order: Ints, vector: int) -> bool:
    """May a run be inside with some of its elements only?"""
    return any(splits(call, side, numbers_in(call, side)[order].reshape(-1), vector) for side in call.tiles)


def _coordinates(call: TileCall, side: Side, dim: int) -> Ints:
    return np.asarray(np.unravel_index(numbers_in(call, side), side.shape)[dim])


def _of_holders(call: TileCall, local: Side, *, loading: bool) -> tuple[Owners, Ints]:
    """The holders of a side, counted in the largest space of the tiles in registers, and the elements of dst that each
    has: where the side broadcasts, several for one register.
    """
    held, numbers = owners(call, local, loading=loading), numbers_in(call, local)
    elements, times_each = held.elements, len(numbers) // int(local.size or 1)
    if times_each > 1:
        of_each = np.argsort(numbers, kind="stable").reshape(-1, times_each)
        elements = np.sort(of_each[elements].reshape(len(held.threads), -1), axis=1)
    for side in call.tiles:
        if side.space == "local":
            held, elements = _within(held, elements, owners(call, side, loading=True))
    return held, elements


def _within(held: Owners, elements: Ints, other: Owners) -> tuple[Owners, Ints]:
    """The holders counted in the other's space, where that is the larger one: each space inside it holds the same."""
    times_each = other.space_threads // held.space_threads
    if times_each <= 1:
        return held, elements
    threads = np.add.outer(np.arange(times_each) * held.space_threads, held.threads).reshape(-1)
    wide = replace(
        held, threads=threads, elements=np.tile(held.elements, (times_each, 1)), space=other.space,
        space_threads=other.space_threads, shared_by=other.shared_by,
    )  # fmt: skip
    return wide, np.tile(elements, (times_each, 1))


def _slots(call: TileCall, held: Owners, elements: Ints) -> Slots:
    """Where the holders have their elements of the tiles in registers. Raises Decline."""
    sides = ((name, side) for name, side in call.sides.items() if side.space == "local")
    return tuple((name, _slots_of(call, side, held, elements)) for name, side in sides)


def _slots_of(call: TileCall, side: Side, held: Owners, elements: Ints) -> tuple[Value, Walk]:
    """In which slot each holder has its elements of the side, (threads, elements). Raises Decline where that differs
    from thread to thread, or where another thread has the element.
    """
    holders = owners(call, side, loading=True)
    where = np.full((holders.space_threads, int(side.size or 0)), -1, np.int64)
    for row, thread in zip(holders.elements, holders.threads, strict=True):
        where[thread, row] = holders.slots
    slots = where[held.threads[:, None] % holders.space_threads, numbers_in(call, side)[elements]]
    if (slots < 0).any():
        raise Decline(f"elements of {side.name} are held by other threads: Tx.permute_layout brings them there")
    if (slots != slots[:1]).any():
        raise Decline(f"threads hold their elements of {side.name} in different slots")
    walk = walk_of(slots[0])
    if walk is None:
        raise Decline(f"the slots of {side.name} follow no pattern")
    return holders.base, walk


# Memory, by arithmetic instead of tables: extents that only the run knows, and regions too large to be listed.
#
# A row is cut into runs; those of all rows are numbered, and threads take turns. The last run of a row may be partial.


def flowing(call: TileCall, least: int = 1) -> Distribution:
    """The plan. least: bytes of the shortest run. Raises Decline where a tile is in registers."""
    if outside := [side for side in call.tiles if side.space not in ("shared", "global")]:
        raise Decline(f"{outside[0].name} is in {outside[0].space} memory; extents of run time need plain memory")
    call = flattened(call)
    extents = extents_of_run(call)
    vector, limit, single = _widest(call, extents, least)
    partial = not call.facts.divides(vector, extents[-1])
    return Distribution(
        vector,
        vector * call.dtype.bits // 8,
        threads=call.scope.threads,
        limit=limit,
        computing=computation(call),
        single=single,
        batch=in_batches(len(call.sides) - 1 - len(single - {"dst"})),
        asked=_is_open(call),
        parts=partial or _cut_by_ends(call, vector),
        rows=Lines(runs_of(call, extents, range(len(extents)), vector, partial=partial), across=call.scope.threads),
    )


def along_lines(call: TileCall, axes: Collection[int], *, in_order: bool = False) -> Distribution:
    """The plan of a call that joins the elements of its source along these axes: see `lines_along`."""
    lines = lines_along(call, axes, in_order=in_order)
    wider = wider_runs(call, lines.vector, lambda other: lines_along(other, axes, in_order=in_order).vector)
    nbytes = max(1, lines.vector * call["src"].dtype.bits // 8)
    return Distribution(lines.vector, nbytes, threads=lines.workers, widened=wider, rows=lines)


def flattened(call: TileCall) -> TileCall:
    """The same call on one long row, where all tiles are whole buffers of one shape, row by row."""
    shape = call["dst"].buffer.shape
    whole = all(
        len(side.extents) == len(shape) > 1
        and side.buffer.layout == row_major(shape)
        and all(const_value(start) == 0 for start in side.starts)
        and all(call.facts.equal(a, b) and call.facts.equal(a, c) for a, b, c in zip(
            shape, side.extents, side.buffer.shape, strict=True
        ))
        for side in call.tiles
    )  # fmt: skip
    if not whole or any(map(indexed, call.scalars.values())):
        return call
    size: Value = 1
    for extent in shape:
        size = times(wide(size), extent)
    size = call.facts.simplify(size)
    sides = {
        name: side_of(replace(side.buffer, shape=(size,), layout=row_major((size,))).region(), call.facts)
        for name, side in call.sides.items()
    }
    return replace(call, sides=sides)


def _cut_by_ends(call: TileCall, vector: int) -> bool:
    """May the end of a buffer lie inside of a run?"""
    facts = call.facts
    return any(
        dim == len(side.extents) - 1
        and not (facts.divides(vector, side.starts[dim]) and facts.divides(vector, side.buffer.shape[dim]))
        for side in call.tiles
        for dim in open_dimensions(call, side)
    )


def extents_of_run(call: TileCall) -> tuple[Value, ...]:
    """The extents of dst; of those that may be negative when the kernel runs, at least 0."""
    return tuple(extent if call.facts.less(-1, extent) else binary("max", extent, 0) for extent in call["dst"].extents)


def _widest(call: TileCall, extents: Sequence[Value], least: int) -> tuple[int, str, frozenset[str]]:
    """Elements of the longest runs of rows, why not more, and the tiles of which a run is one element."""
    limit = ""
    dims = {
        name: {dim: side_dim for side_dim, dim in dimensions_of(side, extents)} for name, side in call.sides.items()
    }
    along = {name: of.get(len(extents) - 1) for name, of in dims.items()}
    single = frozenset(name for name, dim in along.items() if dim is None and const_value(extents[-1]) != 1)
    for length in vector_lengths(call, least):
        asked = ((call[name], dim) for name, dim in along.items() if length == 1 or name not in single)
        problem = next((why for side, dim in asked if (why := _problem(call, side, dim, length))), None)
        if problem is None:
            return length, limit, single if length > 1 else frozenset()
        limit = limit or problem
    raise Decline(limit or f"vec_len={call.option('vec_len')} is no vector of 8 to 128 bits")


def _problem(call: TileCall, side: Side, dim: int | None, length: int) -> str | None:
    """Why runs along a dimension cannot be accessed as a whole; None if they can."""
    nbytes = length * side.dtype.bits // 8
    if length * side.dtype.bits % 8:
        return f"{length} elements of {side.name} share a byte with others"
    if length == 1:
        return None
    if dim is None:
        return not_contiguous(side, length, 1)
    missing = lacking(call, side, dim, length, cut=is_whole(call, side, dim))
    return f"runs of {side.name} are not proven to start at multiples of {nbytes} bytes" if missing else None


# Runs of either kind


def covered(call: TileCall) -> TileCall:
    """The same call on regions of numbers, as far as the registers go, whose elements end where only the run knows.

    Each thread then has the elements that its registers can hold, and tests each access. Raises Decline where registers
    begin at a place that is not known.
    """
    dst, extents = call["dst"], call["dst"].extents
    of_run = {dim for dim, extent in enumerate(extents) if const_value(extent) is None}
    if not of_run or "local" not in call.spaces:
        return call
    rooms = _rooms(call)
    if missing := sorted(of_run - set(rooms)):
        raise Decline(f"no tile in registers has the extent {extents[missing[0]]}")
    sides: dict[str, Side] = {}
    for name, side in call.sides.items():
        sizes = {side_dim: rooms[dim] for side_dim, dim in dimensions_of(side, extents) if dim in of_run}
        sides[name] = _on_room(side, sizes, call)
    _check_registers(replace(call, sides=sides))
    ends = tuple(end_of(call, dst, dim) if dim in of_run else None for dim in range(len(extents)))
    return replace(call, sides={**sides, "dst": replace(sides["dst"], ends=ends)})


def _rooms(call: TileCall) -> dict[int, int]:
    """How many elements the registers of all tiles have in each dimension of dst, from where the regions begin."""
    rooms: dict[int, int] = {}
    for side in call.tiles:
        for side_dim, dim in dimensions_of(side, call["dst"].extents) if side.space == "local" else ():
            begin, total = const_value(side.starts[side_dim]), const_value(side.buffer.shape[side_dim])
            if begin is None or total is None:
                raise Decline(f"where the region {side} of registers begins is no constant")
            rooms[dim] = min(rooms.get(dim, int(total)), int(total) - int(begin))
    return rooms


def _check_registers(call: TileCall) -> None:
    """Raise Decline where registers might be left in a dimension of another extent."""
    for side in call.tiles:
        if side.space == "local" and (leaving := open_dimensions(call, side)):
            raise Decline(f"the region {side} may leave dimension {leaving[0]} of {side.name}")


def _on_room(side: Side, rooms: Mapping[int, int], call: TileCall) -> Side:
    """The side with these extents in some of its dimensions."""
    box = [(start, rooms.get(dim, extent)) for dim, (start, extent) in enumerate(side.region.box)]
    return side_of(Region(side.buffer, tuple(box)), call.facts) if rooms else side


def by_runs(call: TileCall, also: Also = lambda *_: None, least: int = 1, order: Ints | None = None) -> Distribution:
    """The plan of a call on any memories, listed or by arithmetic. For the others see `by_turns`. Raises Decline."""
    call = covered(call)
    size = call["dst"].size
    if size is None or (size > MOST_LISTED and "local" not in call.spaces):
        return flowing(call, least)
    if (leading := registers_alike(call)) is not None:
        return by_holders(call, leading)
    try:
        plan = by_turns(call, also, least, order)
    except Decline as declined:
        if longer := _longer_flow(call, 0, least):
            return longer
        raise declined from None
    return _longer_flow(call, plan.vector, least) or plan


def unless_longer(call: TileCall, plan: Distribution) -> Distribution:
    """The plan. Raises Decline where runs of rows, with tests of their ends, are longer; short rows are left."""
    if _longer_flow(call, plan.vector, 1):
        raise Decline(f"{plan.vector} elements at a time; runs of rows, whose ends are tested, have more")
    return plan


def _longer_flow(call: TileCall, vector: int, least: int) -> Distribution | None:
    last = const_value(call["dst"].extents[-1])
    if last is None or "local" in call.spaces or not _ends_inside(call, int(last), vector):
        return None
    try:
        plan = flowing(call, least)
    except Decline:
        return None
    return plan if plan.vector > vector and last >= LONG * plan.vector else None


def _ends_inside(call: TileCall, last: int, vector: int) -> bool:
    """May a row, or all of them together, end inside of a wider run?"""
    return any(last % length for length in vector_lengths(call) if length > vector)
