"""Addresses of a tile call's sides: as tables that decide, and back from tables into code; those of tensor memory as
lanes and columns.

Tables show which elements are neighbours. Symbolic origins and strides are kept beside them, as `Places.base` and
`Places.units`; the call's facts decide about those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from tilewright.dtypes import INT32, INT64
from tilewright.ir import AddressOf, Buffer, Cast, Expr, as_expr, binary, const_value
from tilewright.ir.conditions import Sum
from tilewright.layout import ComposeLayout, Iter, Layout, SwizzleLayout, TileLayout, Value
from tilewright.primitives.elements import lengths_of
from tilewright.tile.dispatch import Decline
from tilewright.tile.walks import Ints, Offset, Walk, linear, plus, separated, times, walk_of

if TYPE_CHECKING:
    from tilewright.layout import Facts
    from tilewright.tile.call import Side, TileCall

LARGE = 1 << 30  # an offset from which on sums with it are made in 64 bits
MOST_ELEMENTS = 1 << 20  # elements of a buffer whose whole table is made

Thread = Sequence[Value]
"""What a thread is on each axis of a table: its lane, its warp, its rank among those that own elements."""


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Where the elements of a region are in one memory: ``swizzle(base + sum of units * steps)``.

    steps: (units, elements), elements in row-major order. The first unit is 1, others are symbolic strides. seen: the
    addresses that decide about neighbours and alignment, relative to ``seen_base``: the addresses after the swizzle
    where they are known, else those before it, of which only runs of ``longest_run`` elements are sure to stay
    together.
    """

    base: Value
    units: tuple[Value, ...]
    steps: Ints
    seen: Ints
    seen_base: Value
    swizzle: SwizzleLayout | None = None
    low: Value = 0  # the base within the swizzle's period
    longest_run: int | None = None


def places(side: Side, facts: Facts) -> Places:
    """The places of a side in its memory, of the first replica. Raises Decline where no table describes them."""
    units, steps, base = _table(side)
    if side.swizzle is None:
        return Places(base, units, steps, steps, base)
    if len(units) > 1:
        raise Decline(f"{side.name} is swizzled and has symbolic strides")
    low = facts.simplify(base % side.swizzle.period)
    number = const_value(low)
    if number is None:
        return Places(base, units, steps, steps, base, side.swizzle, low, 1 << side.swizzle.per_element)
    seen = np.asarray(side.swizzle.address(steps + int(number)))
    return Places(base, units, steps, seen, facts.simplify(base - number), side.swizzle, int(number))


def places_in_numbers(side: Side, facts: Facts) -> Places:
    """The same of a region without symbolic strides. Raises Decline for others."""
    where = places(side, facts)
    if len(where.units) > 1:
        raise Decline(f"{side.name} has symbolic strides", allowed="strides that are numbers")
    return where


def _table(side: Side) -> tuple[tuple[Value, ...], Ints, Value]:
    """Units, steps and base of a region: from its own layout, or cut out of the table of the whole buffer."""
    if side.tile is None:
        return (1,), cut_out(side)["m"][None, :, 0], 0
    foreign = [axis for axis in side.tile.axes if axis.name != "m"]
    if foreign:
        raise Decline(f"{side.name} in {side.space} memory has the axis {foreign[0]}; only m is an address there")
    base = side.tile.offset_on("m")
    wide = isinstance(base, int) and base >= LARGE
    return (*_steps(side.tile.shard), as_expr(base, INT64) if wide else base)


@lru_cache(maxsize=1024)
def _steps(shard: tuple[Iter, ...]) -> tuple[tuple[Value, ...], Ints]:
    """The address of each element relative to the first one, one row per unit."""
    units: list[Value] = [1]
    columns = [np.zeros(1, np.int64)]
    for it in shard:
        number = const_value(it.stride)
        unit, factor = (it.stride, 1) if number is None else (1, int(number))
        if unit not in units:
            units.append(unit)
            columns.append(np.zeros_like(columns[0]))
        digits = np.arange(int(it.extent), dtype=np.int64) * factor
        still = np.zeros_like(digits)
        columns = [
            np.add.outer(column, digits if units[row] == unit else still).reshape(-1)
            for row, column in enumerate(columns)
        ]
    return tuple(units), np.stack(columns)


def cut_out(side: Side) -> dict[str, Ints]:
    """The region's part of the buffer's table, (elements, replicas) for each axis, where no layout describes it.

    Raises Decline where that needs numbers that are not known.
    """
    shape = [const_value(extent) for extent in side.buffer.shape]
    box = [(const_value(start), const_value(extent)) for start, extent in zip(side.starts, side.extents, strict=True)]
    layout = side.buffer.layout
    constant = None not in shape and not any(None in pair for pair in box)
    if layout is None or not constant or np.prod([int(extent or 0) for extent in shape]) > MOST_ELEMENTS:
        raise Decline(side.problem)
    part = tuple(slice(int(start or 0), int(start or 0) + int(extent or 0)) for start, extent in box)
    table = _whole_table(layout, tuple(int(extent or 0) for extent in shape))
    return {axis: values[part].reshape(-1, values.shape[-1]) for axis, values in table.items()}


@lru_cache(maxsize=64)
def _whole_table(layout: Layout, shape: tuple[int, ...]) -> dict[str, Ints]:
    return layout.table(shape)


# Neighbours and alignment


def vector_lengths(call: TileCall, least: int = 1) -> list[int]:
    """Elements of the vectors to try, the widest first: 16 bytes down to ``least``, whole elements and whole bytes.

    Elements of tiles in registers, which no access moves, may be wider. The call's ``vec_len=`` leaves only that one.
    """
    bits = max((side.dtype.bits for side in call.tiles if side.space != "local"), default=8)
    lengths = [length for length in lengths_of(bits) if length * bits >= 8 * least]
    asked = call.option("vec_len")
    return lengths if asked is None else [length for length in lengths if length == asked]


def widest_vector(
    call: TileCall,
    sides: Sequence[tuple[Side, Places, Ints]],
    also: Callable[[int], str | None] = lambda _: None,
    least: int = 1,
) -> tuple[int, str]:
    """Elements of the widest vector that every side admits, and why not the widest of all ("" if it is).

    Each side comes with its places and the elements, whose last axis a thread goes along; ``also`` may give a further
    reason against a length. least: bytes of the narrowest vector. Raises Decline where not even that fits.
    """
    problems: list[str] = []
    for length in vector_lengths(call, least):
        reasons = (run_problem(call, side, where, elements, length) for side, where, elements in sides)
        problem = next((reason for reason in reasons if reason), None) or also(length)
        if problem is None:
            return length, problems[0] if problems else ""
        problems.append(problem)
    raise Decline(
        problems[-1] if problems else f"vec_len={call.option('vec_len')} is no vector of {8 * least} to 128 bits"
    )


def run_problem(call: TileCall, side: Side, where: Places, elements: Ints, length: int) -> str | None:
    """Why the last axis of ``elements`` is not made of aligned, contiguous runs of ``length``; None if it is.

    Runs of as many bytes as an access has, aligned to that number; or of one element over and over.
    """
    if elements.shape[-1] % length:
        return f"{elements.shape[-1]} elements are no multiple of {length}"
    if length > 1 and repeats(elements, length):
        return None
    if length * side.dtype.bits % 8:
        return f"{length} elements of {side.name} share a byte with others"
    if where.longest_run is not None and length > where.longest_run:
        return f"the swizzle of {side.name} keeps only {where.longest_run} elements together"
    runs = where.seen[:, elements].reshape(len(where.units), -1, length)
    inside = runs - runs[:, :, :1]
    follows = (inside[0] == np.arange(length)).all(axis=0) & ~inside[1:].any(axis=(0, 1))
    if not follows.all():
        return not_contiguous(side, length, int(follows.argmin()))
    return misaligned(call, side, where, runs[:, :, 0], length)


def not_contiguous(side: Side, length: int, run: int) -> str:
    """Why there is no access of so many elements: only those of a shorter run follow each other."""
    return f"{length} neighbours are not contiguous in {side.name}" + (f", only {run}" if run > 1 else "")


def repeats(elements: Ints, length: int) -> bool:
    """Is each run of ``length`` elements one element over and over?"""
    runs = elements.reshape(-1, length)
    return bool((runs == runs[:, :1]).all())


def misaligned(call: TileCall, side: Side, where: Places, starts: Ints, length: int) -> str | None:
    """Why addresses (units, n) are not proven to be multiples of ``length`` elements; None if they are."""
    nbytes = length * side.dtype.bits // 8
    facts = call.facts
    apart = starts[0] - starts[0, 0]
    if (apart % length).any():
        step = int(np.abs(apart[apart % length != 0]).min()) * side.dtype.bits // 8
        return f"accesses to {side.name} start {step} bytes apart, which is no multiple of {nbytes}"
    align, before = storage_start(side.buffer, facts)
    if align % nbytes:
        return f"{side.name} is not aligned to {nbytes} bytes"
    origin = facts.simplify(where.seen_base + int(starts[0, 0]))
    first_bit = facts.simplify(before + origin * side.dtype.bits)
    if not facts.divides(8 * nbytes, first_bit):
        fact = missing_fact(facts, first_bit, 8 * nbytes)
        if isinstance(fact, int):
            return f"accesses to {side.name} start {fact // 8} bytes behind a multiple of {nbytes}"
        return f"{fact} is not proven, for the first element in {side.name}"
    for unit, steps in zip(where.units[1:], starts[1:], strict=True):
        stride = unit * int(np.gcd.reduce(steps))
        if not facts.divides(length, stride):
            return f"{missing_fact(facts, stride, length)} is not proven, for a stride of {side.name}"
    return None


def missing_fact(facts: Facts, value: Value, factor: int) -> Expr | int:
    """The fact that makes ``value`` a multiple of ``factor``, a power of two; the remainder where it is known to be
    none.

    The parts that are known already are left out: ``8 * j + 2 * n`` is a multiple of 8 if ``n % 4 == 0``.
    """
    value = as_expr(value)
    kind = value.dtype
    _, rest = Sum.of(value, _narrow).split(lambda times, term: facts.divides(factor, term * times))
    rest.const %= factor
    if not rest.terms:
        return rest.const
    common = gcd(factor, *(times for times, _ in rest.parts()))
    if all(isinstance(term, Expr) and term.dtype == INT32 for _, term in rest.terms.values()):
        kind = INT32  # remainders by powers of two are those of the low half
    return as_expr(binary("==", rest.divided(common).build(kind) % (factor // common), 0))


def _narrow(expr: Expr) -> Expr:
    """The value below a cast to 64 bits."""
    return expr.a if isinstance(expr, Cast) and expr.dtype == INT64 and expr.a.dtype == INT32 else expr


def storage_start(buffer: Buffer, facts: Facts) -> tuple[int, Value]:
    """The bytes that a buffer's memory is aligned to, and how many bits behind such a place its element 0 is.

    Memory is taken to be 16-byte aligned unless ``align=`` says otherwise, shared memory with a swizzled layout to the
    period of the swizzle; a view lies in what it views.
    """
    bits = buffer.elem_offset * buffer.dtype.bits
    if buffer.is_shared and buffer.data is None and isinstance(buffer.layout, ComposeLayout):
        return max(buffer.align, 16, buffer.layout.swizzle.period * buffer.dtype.bits // 8), bits
    if buffer.align or not isinstance(buffer.data, AddressOf):
        return buffer.align or 16, bits
    parent, indices = buffer.data.buffer, buffer.data.indices
    align, start = storage_start(parent, facts)
    if not indices:
        return align, plus(start, bits)
    layout = parent.layout
    offset = indices[0] if layout is None else layout.place(*indices, shape=parent.shape, facts=facts).get("m", 0)
    return align, plus(start, plus(offset * parent.dtype.bits, bits))


def one_storage(call: TileCall) -> bool:
    """May an element be written where others are still read?"""
    roots = [root_of(side.buffer) for side in call.tiles]
    return any(root == roots[0] for root in roots[1:])


def root_of(buffer: Buffer) -> object:
    """A key of the storage that a buffer's bytes lie in."""
    root = buffer.root
    return root.name if root.data is None else root.data


# Back into code


def tracked(
    call: TileCall, side: Side, where: Places, elements: Ints, thread: Thread, *, listed: bool = False
) -> Offset | None:
    """The offsets of ``elements``, an axis for each entry of ``thread`` and one for the rounds, as an `Offset`.

    By the strides of the side where they separate into a part of the thread and a part of the round, else by the
    element's number and the layout itself. listed: a part that follows no digits may be written out value by value.
    None where not even the number separates.
    """
    strided = _strided(where, where.steps[:, elements], thread, listed)
    if strided is None:
        number = element_numbers(elements, thread, listed=listed)
        return None if number is None else replace(number, through=side)
    if where.swizzle is None:
        return strided
    return _swizzled(call, where, where.steps[0, elements], strided)


def element_numbers(elements: Ints, thread: Thread, *, listed: bool = False) -> Offset | None:
    """The numbers of elements as an offset. None where they do not separate."""
    return _strided(Places(0, (1,), elements, elements, 0), elements[None], thread, listed)


def _strided(where: Places, steps: Ints, thread: Thread, listed: bool) -> Offset | None:
    """The offset before any swizzle: for each unit a sum of walks."""
    fixed: Value = where.base
    moving: list[tuple[Value, Walk]] = []
    for unit, values in zip(where.units, steps, strict=True):
        parts = separated(values)
        walked = linear(values[..., 0], thread, listed=listed)
        walk = walk_of(parts[-1] - parts[-1][0], listed=listed) if parts else None
        if walked is None or walk is None:
            return None
        fixed = plus(fixed, times(walked, unit))
        moving += [] if walk.is_zero else [(unit, walk)]
    return Offset(fixed, tuple(moving))


def _swizzled(call: TileCall, where: Places, steps: Ints, strided: Offset) -> Offset:
    """The offset after the swizzle: the thread's part is swizzled once, where the round's part can join it later."""
    assert where.swizzle is not None
    inside = replace(strided, join="inside", swizzle=where.swizzle)
    rows = steps.reshape(-1, steps.shape[-1])
    if const_value(where.low) is None:
        moved = _disjoint(call, where, rows)
        joins = [] if moved is None else [("^", moved)]
    else:
        final = np.asarray(where.swizzle.address(rows + where.low))
        both = (("+", final - final[:, :1]), ("^", final ^ final[:, :1]))
        joins = [(join, moved[0]) for join, moved in both if (moved == moved[0]).all()]
    for join, moved in joins:
        walk = walk_of(moved, listed=False)
        if walk is not None and (join == "+" or _is_below(call, where, moved)):
            return replace(inside, moving=((1, walk),), join=join)
    return inside


def _is_below(call: TileCall, where: Places, moved: Ints) -> bool:
    """Does the XOR of ``moved`` leave alone all bits in which the unknown part of the base may be?"""
    power = 1 << int(moved.max()).bit_length()
    return bool(moved.min() >= 0) and call.facts.divides(power, call.facts.simplify(where.base - where.low))


def _disjoint(call: TileCall, where: Places, rows: Ints) -> Ints | None:
    """What to XOR in each round, where the round's bits are neither those of the thread's part nor of the origin."""
    assert where.swizzle is not None
    moved, firsts = rows[0] - rows[0, 0], rows[:, 0]
    bits = int(np.bitwise_or.reduce(firsts)) | _possible_bits(call.facts, where.low, where.swizzle.period)
    disjoint = rows.min() >= 0 and moved.min() >= 0 and not bits & int(np.bitwise_or.reduce(moved))
    carries = bits != int(np.bitwise_or.reduce(firsts)) + _possible_bits(call.facts, where.low, where.swizzle.period)
    return np.asarray(where.swizzle.address(moved)) if disjoint and not carries else None


def _possible_bits(facts: Facts, low: Value, period: int) -> int:
    """The bits that may be set in a value known to lie in ``0 .. period``."""
    multiple = next(power for power in _powers(period, -1) if facts.divides(power, low))
    limit = next((power for power in _powers(period, 1) if facts.less(low, power)), period)
    return limit - multiple if limit > multiple else 0


def _powers(period: int, order: int) -> list[int]:
    return [1 << bit for bit in range(period.bit_length())][::order]


# Tensor memory as tile calls see it: in which lane, and in which bits of its columns, each element of a region is.
#
# Tensor memory is a grid of 128 lanes by 512 columns of 32 bits. A layout counts columns in elements (`TCol`), so that
# element ``c`` of a lane begins at bit ``c * bits``; whole columns are multiples of 32 bits.


COLUMN_BITS = 32
WHOLE_COLUMNS = "a region that begins at a multiple of 32 bits in each lane"


@dataclass(frozen=True, slots=True, eq=False)
class CellPlaces:
    """Where the elements of a region are: (elements, replicas) lanes and bits, elements in row-major order.

    The kernel adds ``lane_base`` and ``bit_base`` to them, expressions that are not known before it runs.
    """

    lane: Ints
    bit: Ints
    lane_base: Value = 0
    bit_base: Value = 0


def tmem_cells(side: Side) -> CellPlaces:
    """The cells of a side in tensor memory, all replicas. Raises Decline where no table describes them."""
    if side.swizzle is not None:
        raise Decline(f"{side.name} is swizzled", allowed="no swizzle: tensor memory has no banks")
    if side.tile is None:
        table, base = cut_out(side), dict[str, Value]()
    else:
        layout, base = _in_numbers(side.tile)
        if any(const_value(it.stride) is None for it in (*layout.shard, *layout.replica)):
            raise Decline(f"{side.name} has symbolic strides", allowed="strides that are numbers")
        table = layout.table([layout.size()])
    if foreign := [name for name in (*table, *base) if name not in ("TLane", "TCol")]:
        raise Decline(f"{side.name} in tensor memory has the axis {foreign[0]}", allowed="the axes TLane and TCol")
    still = np.zeros(next(iter(table.values())).shape, np.int64) if table else np.zeros((1, 1), np.int64)
    bits = side.dtype.bits
    lane, column = table.get("TLane", still), table.get("TCol", still)
    return CellPlaces(lane, column * bits, base.get("TLane", 0), base.get("TCol", 0) * bits)


def replicas_of(side: Side) -> tuple[Iter, ...]:
    """In how many places, and how far apart, each element is: the replica iters, simplified."""
    layout = side.buffer.layout if side.tile is None else side.tile
    return layout.canonicalize().replica if isinstance(layout, TileLayout) else ()


def _in_numbers(tile: TileLayout) -> tuple[TileLayout, dict[str, Value]]:
    """The layout without the symbolic part of its origin, and that part on each axis."""
    symbolic = [term for term in tile.offset if const_value(term.value) is None]
    constant = tuple(term for term in tile.offset if const_value(term.value) is not None)
    return replace(tile, offset=constant), {term.axis.name: term.value for term in symbolic}
