"""Which thread holds which element of a register region, the condition that the calling thread is among them, and the
tests of regions that may leave their buffer.

A layout that leaves out a level of the hierarchy says nothing about it: a layout on ``laneid`` alone, used by a whole
CTA, is held by each of its warps, one without thread axes by each thread. Every holder of an element loads it; of
several holders the first one stores.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from tilewright.ir import COORDINATES, Expr, Value, as_expr, binary, const_value
from tilewright.layout import SCOPES, THREADS_IN, Axis, ComposeLayout, Layout, TileLayout, threads
from tilewright.tile.call import Side, TileCall
from tilewright.tile.dispatch import Decline
from tilewright.tile.partition import Places, cut_out, places, storage_start, widest_vector
from tilewright.tile.scope import INDEX
from tilewright.tile.walks import Ints, Offset, Walk, plus, times, walk_of

Table = Mapping[str, Ints]


@dataclass(frozen=True, slots=True, eq=False)
class Owners:
    """The threads that hold a register region, and what each of them holds.

    threads: ascending, counted inside one ``space`` (thread, warp, warpgroup or cta) of ``space_threads``. slots:
    ascending storage slots, to be added to ``base``; the same in each thread. elements: (threads, slots), the region's
    row-major element numbers. shared_by: how many spaces of the scope hold the same.
    """

    threads: Ints
    slots: Ints
    elements: Ints
    base: Value
    space: str
    space_threads: int
    shared_by: int
    scope: str

    @property
    def index(self) -> Value:
        """Which thread of its space the caller is."""
        return INDEX[self.space]

    @property
    def registers(self) -> Places:
        """The slots, as places of a memory whose elements are `each_slot`."""
        return Places(self.base, (1,), self.slots[None], self.slots[None], self.base)

    @property
    def each_slot(self) -> Ints:
        """The number of each slot: (1, slots)."""
        return np.arange(len(self.slots))[None]

    def offset_of(self, slots: Ints) -> Offset | None:
        """These slots, one after the other; None where they follow no pattern."""
        walk = walk_of(slots)
        return None if walk is None else Offset(self.base, ((1, walk),))

    @property
    def rank(self) -> Value:
        """Which of the owners the caller is, if it is one. Raises Decline where they follow no pattern."""
        return rank_among(self.threads, self.index)

    def guard(self, *, storing: bool) -> Expr | None:
        """The condition that the caller is an owner, and for a store the first of several; None where all are."""
        tests = self._tests()
        if storing and self.shared_by > 1:
            tests.insert(0, binary("<", INDEX[self.scope], self.space_threads))
        return all_hold(tests)

    def _tests(self) -> list[Expr]:
        if len(self.threads) == self.space_threads:
            return []
        walk = pattern_of(self.threads)
        if not walk.steps:
            return [binary("==", self.index, walk.start)]
        value, tests = plus(self.index, -walk.start), [binary(">=", self.index, walk.start)] if walk.start else []
        if (end := walk.steps[0][0] * walk.steps[0][1]) + walk.start < self.space_threads:
            tests.append(binary("<", value, end))
        for (_, outer), (extent, stride) in zip(walk.steps, walk.steps[1:], strict=False):
            if outer > extent * stride:
                tests.append(binary("<", value % outer, extent * stride))
        if (innermost := walk.steps[-1][1]) > 1:
            tests.append(binary("==", value % innermost, 0))
        return tests


def all_hold(tests: Iterable[Expr | None]) -> Expr | None:
    """The conjunction of conditions, of which None always holds; None where there is no other."""
    total: Expr | None = None
    for test in tests:
        total = test if total is None else total if test is None else binary("and", total, test)
    return total


def held_here(side: Side, place: Mapping[str, Value]) -> list[Expr]:
    """The condition that the element is in this thread's registers; None for other memories."""
    if side.space != "local":
        return []
    return [binary("==", value, COORDINATES[name]) for name, value in place.items() if name in COORDINATES]


def pattern_of(members: Ints) -> Walk:
    """Ascending numbers as nested digits times strides, so that each member has one set of digits.

    Raises Decline where they follow no such pattern.
    """
    walk = walk_of(members, listed=False)
    if walk is None or any(a[1] < b[0] * b[1] for a, b in zip(walk.steps, walk.steps[1:], strict=False)):
        raise Decline(f"the threads that hold the elements follow no pattern: {members.tolist()}")
    return walk


def rank_among(members: Ints, index: Value) -> Value:
    """Which of the ascending ``members`` an index is, if it is one of them."""
    walk = pattern_of(members)
    value = plus(index, -walk.start)
    total: Value = 0
    inner = 1
    for position, (extent, stride) in reversed(list(enumerate(walk.steps))):
        digit = value % walk.steps[position - 1][1] if position else value
        total = plus(times(digit if stride == 1 else digit // stride, inner), total)
        inner *= extent
    return total


def owners(call: TileCall, side: Side, *, loading: bool) -> Owners:
    """The threads that hold the region of a local buffer: every holder for a load, the first of several for a store.

    Raises Decline where elements share a register, the region is not the calling threads' own, or has no table.
    """
    layout, origin = _tables(side)
    if foreign := [axis for axis in _axes(layout, origin) if not axis.is_thread() and axis.name != "m"]:
        raise Decline(f"{side.name} in registers has the axis {foreign[0]}")
    wide = check_own(call, side)
    kept = [axis.name for axis in _axes(layout, origin) if axis.is_thread() and axis.name not in wide]
    if symbolic := [name for name in kept if name in origin]:
        raise Decline(f"which threads hold {side} depends on {origin[symbolic[0]]}, a value of run time")
    space = max((Axis.get(name).scope for name in kept), key=_rank, default="thread")
    count = min(THREADS_IN.get(space, call.scope.cta_threads), call.scope.threads)
    if side.tile is None:
        held = _assigned(cut_out(side), tuple(kept), space, loading)
    else:
        held = _held(layout, tuple(kept), space, loading)
    highest = int(held[0][-1])
    if highest >= count or held[0][0] < 0:
        raise Decline(f"{side.name} is spread over {highest + 1} threads, more than the {count} of a {space}")
    return Owners(*held, origin.get("m", 0), space, count, call.scope.threads // count, call.scope.kind)


def _rank(scope: str) -> int:
    return SCOPES.index(scope)


def _axes(layout: Layout, origin: Mapping[str, Value]) -> list[Axis]:
    """The axes of a region: those of its layout in numbers, and those on which only its origin is symbolic."""
    return list(dict.fromkeys([*axes_of(layout), *map(Axis.get, origin)]))


def axes_of(layout: Layout | None) -> tuple[Axis, ...]:
    """The axes of a layout; none of a swizzle or of flat storage."""
    tile = layout.tile if isinstance(layout, ComposeLayout) else layout
    return tile.axes if isinstance(tile, TileLayout) else ()


def _tables(side: Side) -> tuple[Layout, dict[str, Value]]:
    """A register region's layout with numbers alone, and the symbolic part of its origin on each axis."""
    if side.tile is None:
        assert side.buffer.layout is not None
        return side.buffer.layout, {}
    symbolic = {term.axis.name: term.value for term in side.tile.offset if const_value(term.value) is None}
    if not symbolic:
        tile = side.tile
    else:
        tile = TileLayout(
            side.tile.shard, side.tile.replica, [o for o in side.tile.offset if o.axis.name not in symbolic]
        )
    if side.swizzle is None:
        return tile, symbolic
    if "m" in symbolic:
        raise Decline(f"{side.name} is swizzled, and its region begins at {symbolic['m']}")
    return ComposeLayout(side.swizzle, tile), symbolic


def check_own(call: TileCall, side: Side) -> list[str]:
    """The axes of a register region that are wider than the scope.

    Raises Decline unless, on each of them, the region is the calling threads' own part.
    """
    layout, origin = _tables(side)
    axes = [axis for axis in _axes(layout, origin) if axis.is_thread()]
    wide = [axis.name for axis in axes if _rank(axis.scope) > _rank(call.scope.kind)]
    table = (cut_out(side) if side.tile is None else layout.table([layout.size()])) if wide else {}
    for name in wide:
        values = table.get(name, np.zeros(1, np.int64))
        where = plus(origin.get(name, 0), int(values.flat[0]))
        sub, whole = Axis.get(name).subscope, Axis.get(name).scope
        if (values != values.flat[0]).any():
            raise Decline(f"{side} spreads over axis {name}, the {sub}s of a {whole}: wider than one {call.scope.kind}")
        if not call.scope.always(where, COORDINATES[name]):
            raise Decline(f"{side} lies in the {sub} with {name} {where}; others may execute the call, too")
    return wide


def accesses(call: TileCall, local: Side) -> tuple[Owners, dict[str, Places], int, str]:
    """Accesses in which each thread takes the elements that it holds: the owners, the places of the other tiles by
    name, the elements of the widest access, and why it has not 128 bits ("" if it has).

    Raises Decline where it cannot.
    """
    held = owners(call, local, loading=local in call.written)
    where = {name: places(side, call.facts) for name, side in call.sides.items() if side is not local}
    others = [(call[name], place, held.elements) for name, place in where.items()]
    return held, where, *widest_vector(call, [(local, held.registers, held.each_slot), *others])


def registers_of(call: TileCall, local: Side, held: Owners, cell: int) -> Ints:
    """Element numbers as (warps, 32 lanes, registers, elements of a register), an element in ``cell`` bits.

    Raises Decline unless whole warps hold whole 32-bit registers, or pairs of them of wider elements.
    """
    lanes, bits = held.threads, local.dtype.bits
    if len(lanes) % 32 or (lanes.reshape(-1, 32) % 32 != np.arange(32)).any():
        raise Decline(f"the region takes {len(lanes)} threads' part of {local.name}, not all lanes of a warp")
    inside = np.arange(max(1, 32 // cell)) * (cell // bits)
    first = held.slots[:: len(inside)]
    whole = np.array_equal(np.add.outer(first, inside).reshape(-1), held.slots)
    begin = storage_start(local.buffer, call.facts)[1] + (held.base + int(first[0])) * bits
    if not whole or ((first - first[0]) * bits % 32).any() or not call.facts.divides(32, call.facts.simplify(begin)):
        step = max(1, 32 // bits)
        names = ", ".join(f"{step}j+{slot}" if slot else f"{step}j" for slot in inside.tolist())
        raise Decline(
            f"the region takes slots {held.slots.tolist()} of {local.name}; each 32-bit register is slots {names}"
        )
    return held.elements.reshape(-1, 32, len(first), len(inside))


@lru_cache(maxsize=1024)
def _held(layout: Layout, kept: tuple[str, ...], space: str, loading: bool) -> tuple[Ints, Ints, Ints]:
    return _assigned(layout.table([layout.size()]), kept, space, loading)


def _assigned(table: Table, kept: tuple[str, ...], space: str, loading: bool) -> tuple[Ints, Ints, Ints]:
    """The elements of a table, ordered by the threads and slots that hold them."""
    count, copies = next(iter(table.values())).shape
    still = np.zeros((count, copies), np.int64)
    digits = {name: table[name] for name in kept}
    thread = still if space == "thread" else threads({"": still, **digits}, space)
    slot = table.get("m", still)
    element = np.broadcast_to(np.arange(count)[:, None], (count, copies))
    if not loading:
        thread, slot, element = thread[:, :1], slot[:, :1], element[:, :1]
    elif extra := _unsettled(kept, space):
        more = np.add.outer(thread, np.array(extra)).reshape(count, -1)
        slot, element = (np.repeat(part, len(extra), axis=1) for part in (slot, element))
        thread = more
    return _ordered(thread.reshape(-1), slot.reshape(-1), element.reshape(-1))


def _unsettled(kept: tuple[str, ...], space: str) -> list[int]:
    """The distances between threads of a space that hold the same, since no axis distinguishes them."""
    extra = [0]
    for outer, inner in gaps(kept, space):
        size = THREADS_IN[inner]
        extra = [size * digit + distance for digit in range(THREADS_IN[outer] // size) for distance in extra]
    return extra if len(extra) > 1 else []


def gaps(axes: Collection[str], scope: str) -> list[tuple[str, str]]:
    """The levels of a scope on which no thread axis tells threads apart, from the innermost on.

    As (outer, inner): ("warp", "thread") where the lane is left open. What is open inside a warp is one gap, and what
    is open above it.
    """
    pairs: list[tuple[str, str]] = []
    counted = [axis for axis in map(Axis.get, axes) if axis.is_thread()]
    for inner, outer in pairwise(SCOPES[: min(_rank(scope), _rank("cta")) + 1]):
        if any(_rank(axis.subscope) <= _rank(inner) and _rank(outer) <= _rank(axis.scope) for axis in counted):
            continue
        joins = pairs and pairs[-1][0] == inner != "warp"
        pairs.append((outer, pairs.pop()[1] if joins else inner))
    return pairs


def _ordered(thread: Ints, slot: Ints, element: Ints) -> tuple[Ints, Ints, Ints]:
    if thread.min() < 0 or slot.min() < 0:
        raise Decline("a coordinate of the register region is negative")
    grid = np.full((int(thread.max()) + 1, int(slot.max()) + 1), -1, np.int64)
    grid[thread, slot] = element
    if (grid[thread, slot] != element).any():
        raise Decline("two elements share a register")
    rows, columns = (np.flatnonzero((grid >= 0).any(axis=axis)) for axis in (1, 0))
    elements = grid[np.ix_(rows, columns)]
    if elements.min() < 0:
        raise Decline("threads hold elements in different slots")
    return rows, columns, elements


# Regions that may leave their buffer: the tests before an element is touched.
#
# A primitive whose operand is *clipped* leaves alone what is outside of the buffer. Where the facts prove a dimension
# to be inside, no test is written.


def open_dimensions(call: TileCall, side: Side) -> list[int]:
    """The dimensions in which the region is not known to be inside of its buffer, and may leave it; and those in which
    the elements of the call end before it.
    """
    facts = call.facts
    ended = [dim for dim, end in enumerate(side.ends) if end is not None]
    if not _may_leave(call, side):
        return ended
    return [
        dim
        for dim, (start, extent, total) in enumerate(zip(side.starts, side.extents, side.buffer.shape, strict=True))
        if dim in ended
        or not facts.less(-1, start)
        or facts.less(total, start + extent)
        or not facts.less(start + extent - 1, total)
    ]


def end_of(call: TileCall, side: Side, dim: int) -> Value:
    """Where the elements of a dimension end: with the region, or with the buffer if that may be before."""
    end, total = call.facts.simplify(plus(side.starts[dim], side.extents[dim])), side.buffer.shape[dim]
    is_open = dim in open_dimensions(call, side) and not call.facts.less(as_expr(end) - 1, total)
    return binary("min", end, total) if is_open else end


def _may_leave(call: TileCall, side: Side) -> bool:
    return all(tile is not side or operand.role.may_leave(dict(call.config)) for operand, tile in call.operands)


def inside(call: TileCall, side: Side, digits: Sequence[Value]) -> Expr | None:
    """Is the element with these coordinates inside of the buffer? None where that is known."""
    return all_hold(inside_tests(call, side, digits, digits))


def inside_tests(call: TileCall, side: Side, first: Sequence[Value], last: Sequence[Value]) -> list[Expr]:
    """The conditions under which the elements between these coordinates are inside of the buffer."""
    facts, tests = call.facts, list[Expr]()
    for dim in open_dimensions(call, side):
        start = side.starts[dim]
        begin, end = plus(start, first[dim]), plus(start, last[dim])
        if _may_leave(call, side) and not facts.less(-1, start):
            tests.append(binary(">=", begin, 0))
        tests.append(binary("<", end, side.limits[dim]))
    return tests


def splits(call: TileCall, side: Side, order: Ints, length: int) -> str | None:
    """Why a run of ``length`` elements in this order might be half inside of the buffer; None if none is."""
    if len(order) % length:
        return f"{len(order)} elements are no multiple of {length}"
    coordinates = np.unravel_index(order.reshape(-1, length), side.shape)
    for dim in open_dimensions(call, side):
        along = coordinates[dim]
        if (along == along[:, :1]).all():
            continue
        blocks = (along[:, 0] % length == 0).all() and (along - along[:, :1] == np.arange(length)).all()
        ends = (side.starts[dim], side.limits[dim])
        if not blocks or not all(call.facts.divides(length, end) for end in ends):
            return f"{length} elements may be partly outside of dimension {dim} of {side.name}"
    return None
