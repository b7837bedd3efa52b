"""Tiles as boxes of arrays: tensor maps with which the copy engine moves a tile between its two layouts; and as
stretches of bytes, which need no map.

The tile in shared memory is a list of *pieces*: so many elements along a dimension of the array, so far apart in
shared memory. Those that follow one another from stride 1 on, the *chain*, can be one box, dimension after dimension;
the box is repeated over all other pieces. Each piece of the chain is a dimension of the tensor map. A dimension of the
array that the chain takes apart (a tile wider than its swizzle) becomes several, if it is known that the cut goes
through: else the chain is cut shorter and there are more boxes. What a box is, and how it is swizzled, is in
`tilewright.isa.boxes`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd, prod

import numpy as np

from tilewright.dtypes import dtype
from tilewright.errors import LayoutError
from tilewright.ir import AddressOf, Buffer, Region, Value, Var, const_value
from tilewright.ir.tensor_map import ELEMENTS, MOST_BOX, UNIT, MapOf, element_of
from tilewright.isa import lookup, shared_alignment
from tilewright.layout import ComposeLayout, Iter, SwizzleLayout, SwizzleMode, TileLayout, pid
from tilewright.records import replace
from tilewright.terms import Term, told
from tilewright.tile.call import Side, TileCall, side_of
from tilewright.tile.conditions import alignments, check_target
from tilewright.tile.dispatch import Change, Decline, is_spread
from tilewright.tile.distribution import Distribution, all_found, in_memory_order
from tilewright.tile.matrices import mma_layouts
from tilewright.tile.partition import Places, places, run_problem, storage_start, tracked
from tilewright.tile.smem_descriptors import mode_of
from tilewright.tile.steps import Builder
from tilewright.tile.walks import Ints, plus

# Tiles of arrays that are spread over several GPUs: which of them has a tile, and the tile as it lies there.
#
# A symmetric argument may have a layout with the axis ``pid``, the rank: its shape is that of the whole array, of which
# each GPU has a part (an iter on ``pid``), or all (a replica along ``pid``). A region that lies on one GPU is a tile of
# that GPU's memory, to which a pointer leads.


OWN = "own"  # the GPU of the thread, in the place of a rank


def device_of(side: Side) -> Value | str:
    """The rank that has the tile; of one that all have, `OWN`. Raises Decline where it lies on several GPUs."""
    if side.tile is None:
        raise Decline(side.problem, allowed="a region of which the layout says on which GPU it lies")
    apart = [it for it in side.tile.shard if it.axis == pid and const_value(it.extent) != 1]
    if apart:
        count = prod(int(const_value(it.extent) or 0) for it in apart)
        raise Decline(f"{side} lies on {count} GPUs", allowed="tiles that each lie on one GPU, or on all")
    return OWN if is_everywhere(side) else side.tile.offset_on(pid)


def devices_of(side: Side) -> list[Value]:
    """The ranks of all GPUs that have the tile."""
    device_of(side)
    assert side.tile is not None
    copies = [it for it in side.tile.replica if it.axis == pid]
    first = side.tile.offset_on(pid)
    digits = product(*(range(int(const_value(it.extent) or 1)) for it in copies))
    return [first + sum(at * it.stride for at, it in zip(place, copies, strict=True)) for place in digits]


def is_everywhere(side: Side) -> bool:
    """Does each GPU have all of the tile?"""
    copies = [it for it in side.tile.replica if it.axis == pid] if side.tile is not None else []
    return bool(copies) and prod(int(const_value(it.extent) or 0) for it in copies) == side.buffer.peers


def on_device(call: TileCall, side: Side, rank: Value | str, *, name: str = "") -> Side:
    """The tile in the memory of one GPU; on all of them at once for a rank that none has, `Buffer.peers`."""
    assert side.tile is not None
    tile, extents = side.tile, tuple(side.extents)
    layout = TileLayout.from_iters(
        [it for it in tile.shard if it.axis != pid],
        [it for it in tile.replica if it.axis != pid],
        [term for term in tile.offset if term.axis != pid],
    )
    if isinstance(rank, str):
        there = replace(side.buffer, name=f"{side.name}_own", data=AddressOf(side.buffer), peers=0)
    elif const_value(rank) == side.buffer.peers:
        there = side.buffer.multicast()
    else:
        there = side.buffer.peer(rank)
    view = replace(there, name=name or there.name, shape=extents, layout=layout)
    return side_of(Region(view, tuple((0, extent) for extent in extents)), call.facts)


def spread_sides(call: TileCall) -> dict[str, Side]:
    """The tiles of a call that are spread over GPUs, by operand."""
    return {key: side for key, side in call.sides.items() if is_spread(side.buffer)}


# Tiles as stretches of bytes: the longest that are contiguous in both memories, for copies of any number of bytes.


STRETCH = 16  # bytes; the addresses and the length of a stretch are multiples of it
COPY, REDUCE = "ptx.cp_async.bulk", "ptx.cp_reduce_async.bulk"


@dataclass(frozen=True, slots=True)
class StretchPlan:
    """row: of the instruction that moves each stretch. share: where they are, for one thread. op: how the elements are
    combined with what is there, if they are.
    """

    row: str
    share: Distribution
    op: str = ""

    def summary(self) -> str:
        """``g2s_cta: 4 stretches of 512 bytes``."""
        count, nbytes = self.share.rounds, self.share.nbytes
        many = f"{count} stretches of {nbytes} bytes" if count > 1 else f"a stretch of {nbytes} bytes"
        return f"{self.row.rpartition('.')[2]}: {many}{f', {self.op}' if self.op else ''}"


def plan_stretches(call: TileCall, way: str) -> StretchPlan:
    """The fewest stretches that move the tile this way, see `tilewright.isa.tma`. Raises Decline."""
    op = str(call.option("use_tma_reduce") or "")
    row = f"{REDUCE if op else COPY}.{way}"
    forms = lookup(row).forms
    check_target(call, row.removeprefix("ptx."), forms[0])
    kinds = [
        kind for form in forms if op in form.wording.modifiers.get("op", ()) for kind in form.wording.modifiers["kind"]
    ]
    if op and str(call.dtype) not in kinds:
        raise Decline(f"no bulk copy combines {call.dtype} by {op} there", allowed=", ".join(map(str, kinds)))
    if op and call.option("cache_hint"):
        raise Decline("a bulk copy that combines has no cache_hint", allowed="one of cache_hint= and use_tma_reduce=")
    return StretchPlan(row, _stretches(call), op)


def emit_stretch(plan: StretchPlan, call: TileCall, out: Builder, *operands: object, **modifiers: object) -> None:
    """The copy of one of them. operands: destination and source, and what follows the number of bytes."""
    dst, src, *more = operands
    combined = (plan.op, str(call.dtype)) if plan.op else ()
    out.call(plan.row, dst, src, plan.share.nbytes, *more, *combined, **modifiers)


def _stretches(call: TileCall) -> Distribution:
    """The fewest in the order of the destination's addresses, or if that follows no pattern before its swizzle."""
    tiles = [(name, side, places(side, call.facts)) for name, side in call.sides.items()]
    before, where = in_memory_order(call["dst"]), dict((name, where) for name, _, where in tiles)["dst"]
    constant = len(where.units) == 1 and where.longest_run is None
    orders = [np.argsort(where.seen[0], kind="stable"), before] if constant and where.swizzle else [before]
    shares = [_in_order(call, tiles, order) for order in orders]
    share = next((plan for plan in shares if plan is not None), None)
    if share is None:
        raise Decline(f"the stretches of {call['dst'].name} and {call['src'].name} follow no common pattern")
    return share


def _in_order(call: TileCall, tiles: Sequence[tuple[str, Side, Places]], order: Ints) -> Distribution | None:
    """The stretches of elements in this order; None where they follow no pattern. Raises Decline."""
    unit = 8 * STRETCH // call.dtype.bits
    for _, side, where in tiles:
        if trouble := run_problem(call, side, where, order, unit):
            allowed = f"stretches of a multiple of {STRETCH} bytes, aligned to {STRETCH}, contiguous in both memories"
            changes = (change for _, side, where in tiles for change in alignments(call, side, where, unit))
            raise Decline(trouble, allowed=allowed, changes=changes)
    length = gcd(len(order), *(_unbroken(where, order) for _, _, where in tiles))
    starts = order[::length]
    offsets = all_found((name, tracked(call, side, where, starts, [])) for name, side, where in tiles)
    nbytes = length * call.dtype.bits // 8
    return None if offsets is None else Distribution(length, nbytes, len(starts), offsets)


def _unbroken(where: Places, order: Ints) -> int:
    """The most elements after multiples of which all gaps in one memory come."""
    steps = np.diff(where.seen[:, order], axis=1)
    gaps = np.flatnonzero((steps[0] != 1) | steps[1:].any(0)) + 1
    return gcd(where.longest_run or 0, *gaps.tolist())


# Boxes: the pieces of a tile, and the plan for all of it.


MOST_DIMENSIONS = 5


@dataclass(frozen=True, slots=True)
class Extent:
    """A dimension of the array: its elements, those of memory from one to the next, and the part that is moved."""

    size: Value
    stride: Value
    start: Value
    count: int


@dataclass(frozen=True, slots=True)
class Piece:
    """``count`` elements along dimension ``dim`` of the array, ``step`` elements of it apart; ``stride`` apart in
    shared memory.
    """

    dim: int
    count: int
    step: int
    stride: int

    def cut(self, inner: int) -> tuple[Piece, Piece]:
        """This piece as two, the inner one first."""
        outer = Piece(self.dim, self.count // inner, self.step * inner, self.stride * inner)
        return Piece(self.dim, inner, self.step, self.stride), outer


@dataclass(frozen=True, slots=True)
class Box:
    """Where a box begins: elements of shared memory and of each dimension of the map, counted from the first box."""

    offset: int
    coords: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BoxPlan:
    """tensor_map: without a name. offset: of the first box in shared memory, before the swizzle. starts: its
    coordinates. box_bytes: of each.
    """

    tensor_map: MapOf
    offset: Value
    starts: tuple[Value, ...]
    boxes: tuple[Box, ...]
    box_bytes: int

    def summary(self) -> str:
        """``2 boxes of 64 x 64, 8192 bytes each; 128-byte swizzle``."""
        count, swizzle = len(self.boxes), self.tensor_map.swizzle
        extents = " x ".join(map(str, reversed(self.tensor_map.box)))
        many = (
            f"{count} boxes of {extents}, {self.box_bytes} bytes each"
            if count > 1
            else f"a box of {extents}, {self.box_bytes} bytes"
        )
        return f"{many}; {SwizzleMode(swizzle).row_bytes}-byte swizzle" if swizzle else f"{many}; no swizzle"


def plan_boxes(call: TileCall, *, oob: str = "zero") -> BoxPlan:
    """The fewest boxes that move the tile. Raises Decline, with a layout of the tile that would fit."""
    shared, array = call.side("shared"), call.side("global")
    try:
        return _plan(call, shared, array, oob)
    except Decline as declined:
        declined.changes = [*declined.changes, *_other_layouts(call, shared)]
        raise


def _plan(call: TileCall, shared: Side, array: Side, oob: str) -> BoxPlan:
    spread = _in_slots(call, shared)
    tile = spread or shared
    swizzle = swizzle_mode(tile)
    extents = _extents(call, array)
    pieces = _pieces(call, tile, extents)
    chain, others = _chain(tile, pieces, swizzle)
    check_alignment(call, shared, swizzle)
    reasons: list[str] = []
    for length in range(len(chain), 0, -1):
        boxed = _boxed(call, extents, chain[:length], (*chain[length:], *others))
        if isinstance(boxed, str):
            reasons.append(boxed)
            continue
        axes, boxes = boxed
        _check_offsets(tile, boxes)
        dims, strides, box, starts = (
            [getattr(axis, name) for axis in axes] for name in ("size", "stride", "box", "start")
        )
        bits, kind = shared.dtype.bits, element_of(str(shared.dtype), shared.dtype.bits)
        if spread is not None:
            kind, whole = SPREAD, ELEMENTS[SPREAD].whole
            if box[0] != whole:
                raise Decline(f"a box has {box[0]} elements of {shared.name} side by side", allowed=f"{whole}")
        origin = argument_of(array.buffer)
        assert origin is not None
        argument, offset = origin
        of = MapOf(
            "",
            argument.name,
            kind,
            tuple(call.facts.simplify(size) for size in dims),
            _apart(call, array, [stride * bits // 8 if spread else stride * (bits // 8) for stride in strides[1:]]),
            tuple(box),
            int(swizzle),
            oob,
            offset,
        )
        assert shared.tile is not None
        if spread is not None:
            boxes = tuple(Box(unscaled.offset * NIBBLES, unscaled.coords) for unscaled in boxes)
        return BoxPlan(of, shared.tile.offset_on("m"), tuple(starts), boxes, prod(box) * tile.dtype.bits // 8)
    raise Decline(reasons[-1], allowed="a box of the array: its innermost elements side by side in both memories")


def _apart(call: TileCall, array: Side, strides: Sequence[Value]) -> tuple[Value, ...]:
    """The strides of a map, in bytes. Those that only the run knows are checked at the launch."""
    simple = tuple(call.facts.simplify(stride) for stride in strides)
    for stride in simple:
        if isinstance(stride, int) and stride % UNIT:
            raise Decline(f"{array.name} has steps of {stride} bytes from row to row", allowed="a multiple of 16 bytes")
    return simple


# The array in global memory, and the pieces of the tile in shared memory.


SPREAD = "16U4_ALIGN16B"
NIBBLES = 2  # places of 4 bits for an element that is spread, 16 of them at the low end of 16 bytes


def _in_slots(call: TileCall, side: Side) -> Side | None:
    """A tile of 4-bit elements, 16 to 16 bytes, as one of bytes: so a map that spreads them counts. None for others."""
    layout, swizzle = side.buffer.layout, side.swizzle
    tile = layout.tile if isinstance(layout, ComposeLayout) else layout
    if side.dtype.bits != 4 or not isinstance(tile, TileLayout) or tile.replica or tile.offset:
        return None
    shard: list[Iter] = []
    for it in tile.shard:
        stride = const_value(it.stride)
        if stride is None or ((stride, const_value(it.extent)) != (1, UNIT) and stride % (NIBBLES * UNIT)):
            return None
        shard.append(it if stride == 1 else replace(it, stride=int(stride) // NIBBLES))
    slots, seen = TileLayout(shard).canonicalize(), replace(side.buffer, dtype=dtype("uint8"))
    if isinstance(swizzle, SwizzleLayout):
        bytewise = ComposeLayout(replace(swizzle, per_element=swizzle.per_element - 1), slots)
        return side_of(Region(replace(seen, layout=bytewise), side.region.box), call.facts)
    seen = replace(seen, layout=slots)
    return side_of(Region(seen, side.region.box), call.facts)


def swizzle_mode(shared: Side) -> SwizzleMode:
    """The mode of the copy engine for the layout's swizzle. Raises Decline for another permutation."""
    if shared.tile is None:
        raise Decline(shared.problem or f"{shared.name} has no layout", allowed="a region that a layout describes")
    if shared.tile.replica:
        raise Decline(f"{shared.name} holds each element in several places")
    bits = shared.dtype.bits
    if bits % 8 or bits > 64:
        raise Decline(f"elements of {bits} bits", allowed="8, 16, 32 or 64 bits")
    if shared.swizzle is None:
        return SwizzleMode.SWIZZLE_NONE
    if (mode := mode_of(shared.swizzle, bits)) is not None:
        return mode
    unit = (8 * UNIT // bits).bit_length() - 1
    listed = ", ".join(f"SwizzleLayout({unit}, {int(mode)}, 3)" for mode in SwizzleMode if mode)
    raise Decline(f"{shared.name} has the swizzle {shared.swizzle}, which the copy engine has not", allowed=listed)


def argument_of(buffer: Buffer) -> tuple[Buffer, Value] | None:
    """The argument that a buffer is or views from its beginning on, and at which of its elements it begins itself."""
    offset: Value = buffer.elem_offset
    while isinstance(buffer.data, AddressOf) and not buffer.data.indices:
        parent = buffer.data.buffer
        if parent.dtype != buffer.dtype:
            return None
        buffer, offset = parent, plus(offset, parent.elem_offset)
    return (buffer, offset) if isinstance(buffer.data, Var) else None


def _extents(call: TileCall, array: Side) -> list[Extent]:
    """The dimensions of the array, those that its layout takes apart as several."""
    buffer, facts = array.buffer, call.facts
    if argument_of(buffer) is None or not isinstance(buffer.layout, TileLayout):
        raise Decline(f"{buffer.name} is no argument with plain strides", allowed="a T.Buffer without a swizzle")
    if buffer.layout.replica or any(axis.name != "m" for axis in buffer.layout.axes):
        raise Decline(f"{buffer.name} has the layout {buffer.layout}", allowed="strides in memory")
    if not facts.divides(UNIT * 8 // buffer.dtype.bits, buffer.elem_offset):
        raise Decline(
            f"{buffer.name} begins {buffer.elem_offset} elements after its array", allowed="a multiple of 16 bytes"
        )
    try:
        layout, separators = buffer.layout.group(buffer.shape, facts)
    except LayoutError as error:
        raise Decline(f"{buffer.name}: {error.what}") from None
    parts: list[Extent] = []
    for dim, (start, count) in enumerate(array.region.box):
        iters = layout.shard[separators[dim] : separators[dim + 1]]
        inner = prod(int(const_value(it.extent) or 0) for it in iters[1:])
        size = int(const_value(count) or 0)
        if len(iters) > 1 and (not inner or size % inner or not facts.divides(inner, start)):
            raise Decline(
                f"{array} cuts blocks of {inner} elements of dimension {dim}", allowed=f"whole blocks of {inner}"
            )
        parts.append(Extent(iters[0].extent, iters[0].stride, facts.simplify(start // inner), size // inner))
        parts += [Extent(it.extent, it.stride, 0, int(it.extent)) for it in iters[1:]]
    return parts


def _pieces(call: TileCall, shared: Side, extents: Sequence[Extent]) -> list[Piece]:
    """The tile in shared memory, cut by the dimensions of the array."""
    dims = [dim for dim, extent in enumerate(extents) if extent.count > 1]
    assert shared.tile is not None
    try:
        layout, separators = shared.tile.group([extents[dim].count for dim in dims] or [1], call.facts)
    except LayoutError as error:
        raise Decline(
            f"{shared.name}: {error.what}", allowed="a layout whose iters divide the region of the array"
        ) from None
    pieces: list[Piece] = []
    for number, dim in enumerate(dims):
        step = 1
        for it in reversed(layout.shard[separators[number] : separators[number + 1]]):
            count, stride = const_value(it.extent), const_value(it.stride)
            if count is None or stride is None:
                raise Decline(f"{shared.name} has symbolic strides", allowed="strides that are numbers")
            if count > 1:
                pieces.append(Piece(dim, int(count), step, int(stride)))
            step *= int(count)
    return pieces


def _chain(shared: Side, pieces: Sequence[Piece], swizzle: SwizzleMode) -> tuple[list[Piece], list[Piece]]:
    """The pieces that follow one another in shared memory, the innermost first, and all others."""
    size = shared.dtype.bits // 8
    todo = sorted(pieces, key=lambda piece: piece.stride)
    chain: list[Piece] = []
    while todo and todo[0].stride == prod(piece.count for piece in chain):
        piece = todo.pop(0)
        most = min(MOST_BOX, swizzle.row_bytes // size if swizzle and not chain else MOST_BOX)
        if piece.count > most:
            inner = max(count for count in range(1, most + 1) if piece.count % count == 0)
            piece, outer = piece.cut(inner)
            todo = sorted([outer, *todo], key=lambda piece: piece.stride)
        chain.append(piece)
    if not chain:
        raise Decline(
            f"no elements of {shared} are neighbours in shared memory", allowed="16 bytes or more side by side"
        )
    row = chain[0].count * size
    if row % UNIT:
        raise Decline(f"{shared} has {row} bytes side by side", allowed="a multiple of 16 bytes")
    if swizzle and row != swizzle.row_bytes:
        raise Decline(
            f"the rows of {shared} have {row} bytes, and the swizzle is that of rows of {swizzle.row_bytes}",
            allowed=f"rows of {swizzle.row_bytes} bytes with {swizzle.name}",
        )
    return chain, todo


def check_alignment(call: TileCall, shared: Side, swizzle: SwizzleMode) -> None:
    """Raises Decline where a box of this swizzle cannot begin at the tile."""
    align, behind = storage_start(shared.buffer, call.facts)
    period = shared_alignment(int(swizzle))
    if align % period or (behind_is := const_value(behind)) is None or int(behind_is) % (8 * period):
        change = Change(f"align={period} on {shared.name}", call.with_buffer(shared, align=period))
        where = f"{shared.name} is aligned to {align} bytes"
        raise Decline(where, allowed=f"a multiple of {period} bytes, for a box of this swizzle", changes=[change])
    assert shared.tile is not None
    unit = 128 * 8 // shared.dtype.bits
    if not call.facts.divides(unit, shared.tile.offset_on("m")):
        start = call.facts.simplify(shared.tile.offset_on("m"))
        raise Decline(f"{shared} begins at element {start} of its memory", allowed="a multiple of 128 bytes")


def _check_offsets(shared: Side, boxes: Sequence[Box]) -> None:
    for box in boxes:
        if box.offset * shared.dtype.bits // 8 % 128:
            raise Decline(
                f"{len(boxes)} boxes, one of them {box.offset * shared.dtype.bits // 8} bytes after the first",
                allowed="multiples of 128 bytes",
            )


# The dimensions of the tensor map, and where boxes begin.


@dataclass(frozen=True, slots=True)
class BoxAxis:
    """A dimension of the map: elements ``base`` apart of dimension ``dim`` of the array. stride: in elements."""

    dim: int
    base: int
    size: Value
    stride: Value
    box: int
    start: Value


def _boxed(
    call: TileCall, extents: Sequence[Extent], chain: Sequence[Piece], others: Sequence[Piece]
) -> tuple[list[BoxAxis], tuple[Box, ...]] | str:
    """The dimensions of the map and the boxes; or why the chain is no box."""
    axes: list[BoxAxis] = []
    for dim, extent in reversed(list(enumerate(extents))):
        parts = _axes(call, dim, extent, [piece for piece in chain if piece.dim == dim])
        if isinstance(parts, str):
            return parts
        axes += parts
    rank = {(piece.dim, piece.step): place for place, piece in enumerate(chain)}
    axes.sort(key=lambda axis: rank.get((axis.dim, axis.base), len(rank)))
    first = axes[0]
    if const_value(first.stride) != 1:
        array = call.side("global")
        return f"neighbours in {call.side('shared').name} are {first.stride} elements apart in {array.name}"
    if len(axes) > MOST_DIMENSIONS:
        return f"a box of {len(axes)} dimensions; a tensor map has at most {MOST_DIMENSIONS}"
    return axes, tuple(_repeated(axes, others))


def _axes(call: TileCall, dim: int, extent: Extent, pieces: Sequence[Piece]) -> list[BoxAxis] | str:
    """The dimensions of the map that a dimension of the array becomes."""
    bases = sorted({1, *(piece.step for piece in pieces)})
    cut, facts = bases[-1], call.facts
    if cut > 1 and not (facts.divides(cut, extent.start) and facts.divides(cut, extent.size)):
        array = call.side("global")
        return (
            f"the box cuts dimension {dim} of {array.name} every {cut} elements: {array} need not begin and end there"
        )
    counts = {piece.step: piece.count for piece in pieces}
    axes = []
    for base, end in zip(bases, (*bases[1:], 0), strict=True):
        size = end // base if end else facts.simplify(extent.size // base)
        start = 0 if end else facts.simplify(extent.start // base)
        axes.append(BoxAxis(dim, base, size, facts.simplify(extent.stride * base), counts.get(base, 1), start))
    return axes


def _repeated(axes: Sequence[BoxAxis], others: Sequence[Piece]) -> Iterator[Box]:
    """A box for each element of the pieces that no box spans."""
    offsets = [Box(0, (0,) * len(axes))]
    for piece in others:
        place = max((k for k, axis in enumerate(axes) if axis.dim == piece.dim and axis.base <= piece.step),
                    key=lambda k: axes[k].base)  # fmt: skip
        step = piece.step // axes[place].base
        offsets = [
            Box(
                box.offset + i * piece.stride,
                tuple(c + i * step if k == place else c for k, c in enumerate(box.coords)),
            )
            for box in offsets
            for i in range(piece.count)
        ]
    yield from offsets


# Layouts of the tile that boxes have.


def _other_layouts(call: TileCall, shared: Side) -> Iterator[Change]:
    """The layouts that boxes have, with the alignment of their swizzle."""
    for text, layout, mode in mma_layouts(shared.buffer, call.facts):
        align = max(shared.buffer.align, shared_alignment(int(mode)))
        changed = call.with_buffer(shared, layout=layout, align=align)
        spelled = text.removeprefix("layout=")
        yield Change(told("{}", Term("layout", (spelled, align, shared.name))), changed)
