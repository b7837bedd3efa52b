"""Memory, by arithmetic instead of tables: extents that only the run knows, and regions too large to be listed.

A row is cut into runs; those of all rows are numbered, and threads take turns. The last run of a row may be partial.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tilewright.dtypes import INT32, INT64
from tilewright.ir import Expr, Region, Value, Var, as_expr, binary, cast, const_value, row_major
from tilewright.ir.debts import has_wide_strides
from tilewright.tile.call import Side, TileCall, dimensions_of, own_digits, side_of
from tilewright.tile.dispatch import Decline
from tilewright.tile.distribution import (
    MOST_LISTED,
    Also,
    Distribution,
    RowRuns,
    by_holders,
    by_turns,
    in_batches,
    registers_alike,
)
from tilewright.tile.elements import computation, indexed
from tilewright.tile.inside import open_dimensions
from tilewright.tile.partition import not_contiguous, storage_start, vector_lengths
from tilewright.tile.walks import plus, times


def flowing(call: TileCall, least: int = 1) -> Distribution:
    """The plan. least: bytes of the shortest run. Raises Decline where a tile is in registers."""
    if outside := [side for side in call.tiles if side.space not in ("shared", "global")]:
        raise Decline(f"{outside[0].name} is in {outside[0].space} memory; extents of run time need plain memory")
    call = flattened(call)
    extents = extents_of_run(call)
    vector, limit, single = _widest(call, extents, least)
    row = call.facts.simplify((as_expr(extents[-1]) + (vector - 1)) // vector)
    total = row
    for extent in extents[:-1]:
        total = times(_wide(call, total), extent)
    if isinstance(total, Expr) and (call.facts.bounds(total)[1] or 1 << 40) < 1 << 30:
        total = cast(total, INT32)
    loads = len(call.sides) - 1 - len(single - {"dst"})
    partial = not call.facts.divides(vector, extents[-1])
    is_open = any(open_dimensions(call, side) for side in call.tiles)
    rows = RowRuns(extents, row, call.facts.simplify(total), partial)
    return Distribution(
        vector,
        threads=call.scope.threads,
        limit=limit,
        computing=computation(call),
        single=single,
        batch=in_batches(loads),
        asked=is_open,
        parts=partial or _cut_by_ends(call, vector),
        rows=rows,
    )


def _wide(call: TileCall, value: Value) -> Value:
    return cast(value, INT64) if isinstance(value, Expr) else value


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
        size = times(_wide(call, size), extent)
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
    limit = ""
    for length in vector_lengths(call, least):
        problems = [(name, _problem(call, side, extents, length)) for name, side in call.sides.items()]
        problem = next((why for _, why in problems if why not in (None, "single")), None)
        if problem is None:
            return length, limit, frozenset(name for name, why in problems if why == "single" and length > 1)
        limit = limit or problem
    raise Decline(limit or f"vec_len={call.option('vec_len')} is no vector of 8 to 128 bits")


def _problem(call: TileCall, side: Side, extents: Sequence[Value], length: int) -> str | None:
    """Why runs of a row cannot be accessed as a whole; None if they can, "single" if they are one element."""
    nbytes = length * side.dtype.bits // 8
    last = own_digits(side, [0] * (len(extents) - 1) + [1], extents)
    if not any(last) and const_value(extents[-1]) != 1 and length > 1:
        return "single"
    if length * side.dtype.bits % 8:
        return f"{length} elements of {side.name} share a byte with others"
    wide = has_wide_strides(side.buffer, call.facts) or (isinstance(extents[-1], Expr) and extents[-1].dtype == INT64)
    kind = INT64 if wide else INT32
    outer = [Var(f"d{dim}@flow", kind) for dim in range(len(extents) - 1)]
    run, facts = Var("run@flow", kind), call.facts
    for var in (*outer, run):
        facts = facts.with_range(var, 0, 1 << 20)
    begin = times(run, length)
    if length > 1 and not call.facts.less(-1, extents[-1]):
        return f"the extent {extents[-1]} may be negative"
    first, *others = (
        side.place(own_digits(side, [*outer, plus(begin, e)], extents), facts).get("m", 0) for e in range(length)
    )
    apart = next((e for e, other in enumerate(others, 1) if not facts.equal(other, plus(first, e))), None)
    if apart is not None:
        return not_contiguous(side, length, apart)
    align, before = storage_start(side.buffer, facts)
    if align % nbytes or not facts.divides(8 * nbytes, facts.simplify(plus(before, times(first, side.dtype.bits)))):
        return f"runs of {side.name} are not proven to start at multiples of {nbytes} bytes"
    return None


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
    leaves = bool(open_dimensions(call, dst))
    ends = tuple(_end(call, dim, leaves=leaves) if dim in of_run else None for dim in range(len(extents)))
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


def _end(call: TileCall, dim: int, *, leaves: bool) -> Value:
    """Where the elements of the call end in a dimension of dst; leaves: its region may leave the buffer."""
    dst = call["dst"]
    end, total = call.facts.simplify(plus(dst.starts[dim], dst.extents[dim])), dst.buffer.shape[dim]
    return binary("min", end, total) if leaves and not call.facts.less(as_expr(end) - 1, total) else end


def _on_room(side: Side, rooms: Mapping[int, int], call: TileCall) -> Side:
    """The side with these extents in some of its dimensions."""
    box = [(start, rooms.get(dim, extent)) for dim, (start, extent) in enumerate(side.region.box)]
    return side_of(Region(side.buffer, tuple(box)), call.facts) if rooms else side


def by_runs(call: TileCall, also: Also = lambda *_: None, least: int = 1) -> Distribution:
    """The plan of a call on any memories, listed or by arithmetic. also, least: see `by_turns`. Raises Decline."""
    call = covered(call)
    size = call["dst"].size
    if size is None or (size > MOST_LISTED and "local" not in call.spaces):
        return flowing(call, least)
    if (leading := registers_alike(call)) is not None:
        return by_holders(call, leading)
    try:
        plan = by_turns(call, also, least)
    except Decline as declined:
        if longer := _longer_flow(call, 0, least):
            return longer
        raise declined from None
    return _longer_flow(call, plan.vector, least) or plan


def flows_wider(call: TileCall, vector: int) -> bool:
    """Are runs of rows, with tests of their ends, longer than ``vector``? Short rows are left as they are."""
    return _longer_flow(call, vector, 1) is not None


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


LONG = 3  # whole runs of a row, for which the tests of a last one are worth it
