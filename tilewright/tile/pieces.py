"""A part of a register tile that no layout describes, as boxes that layouts describe. With eight elements in a thread
``x[0:1001]`` is all registers of 125 threads and one of another. Each box is a tile call of its own. So are the runs of
a line that is no multiple of an access: of 127 elements 124 go by 16 bytes, two by 8 bytes, and one by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise, product

from tilewright.errors import LayoutError
from tilewright.ir import Const, Expr, Region, Special, const_value, rewrite
from tilewright.ir.launch import ELEMENT
from tilewright.layout import Iter, TileLayout
from tilewright.primitives.copy import ASKED
from tilewright.records import replace
from tilewright.tile.builder import Builder
from tilewright.tile.call import Side, TileCall, dimensions_of, side_of
from tilewright.tile.conditions import only_in
from tilewright.tile.dispatch import ELEMENTWISE, FILLS, Decline, Plan, condition, keywords_of, variant
from tilewright.tile.distribution import Distribution
from tilewright.tile.elements import indexed
from tilewright.tile.partition import vector_lengths
from tilewright.tile.steps import CallSteps, emit_steps, in_steps

MOST_PIECES = 16
Box = tuple[tuple[int, int], ...]


@condition("a tile in registers is a part of its buffer, or has lines that are no multiple of an access")
def registers_cut(call: TileCall) -> str | None:
    cut = any(map(_is_cut, call.tiles)) or len(_boxes(call, _longest_run(call))) > 1
    return None if cut else "no tile in registers is cut"


def in_pieces(call: TileCall) -> CallSteps:
    """The plans of the boxes, cut into runs where that makes fewer accesses.

    Raises Decline where one box is all, or there are too many, or one has no plan.
    """
    if any(const_value(extent) is None for extent in call["dst"].extents):
        raise Decline("registers have extents that are numbers")
    coarse, fine = _boxes(call), _boxes(call, _longest_run(call))
    several = [boxes for boxes in dict.fromkeys((fine, coarse)) if 1 < len(boxes) <= MOST_PIECES]
    if not several:
        raise Decline(f"the region makes {len(coarse)} boxes of registers, not 2 to {MOST_PIECES}")
    plans = (in_steps(call, partial(_pieces, boxes=boxes)) for boxes in several)
    plan = min(plans, key=accesses_of)
    parts = "; ".join(f"{piece.variant.name}, {piece.plan.summary()}" for piece in plan.chosen)
    return replace(plan, words=f"in {len(plan.chosen)} parts: {parts}")


def accesses_of(plan: Plan) -> int:
    """Of a thread, as far as they are counted."""
    if isinstance(plan, CallSteps):
        return sum(accesses_of(piece.plan) for piece in plan.chosen)
    return plan.rounds if isinstance(plan, Distribution) else 0


def by_fewer_accesses(call: TileCall, plan: Distribution) -> Decline | None:
    """Why the plan is left to `in_pieces`: whole runs of its lines, and what is left of them, are fewer accesses."""
    asked = call.stmt.dispatch is not None or call.option("vec_len") is not None
    if not plan.limit or asked or _has_whole_lines(call) or len(_boxes(call, _longest_run(call))) < 2:
        return None
    try:
        pieces = in_pieces(call)
    except Decline:
        return None
    accesses, simple = accesses_of(pieces), all(isinstance(piece.plan, Distribution) for piece in pieces.chosen)
    fewer = simple and accesses < plan.rounds
    return Decline(f"{accesses} accesses in {len(pieces.chosen)} parts, here {plan.rounds}") if fewer else None


def _has_whole_lines(call: TileCall) -> bool:
    """Are all registers whole buffers whose lines are multiples of the widest access? Then there is nothing to cut."""
    run = _longest_run(call)
    local = [side for side in call.tiles if side.space == "local"]
    return all(not _is_cut(side) and int(const_value(side.extents[-1]) or 1) % run == 0 for side in local)


def _boxes(call: TileCall, run: int = 1) -> tuple[Box, ...]:
    """The boxes of dst; their runs along registers are multiples of ``run``, or shorter ones at either end."""
    extents = call["dst"].extents
    cuts: list[set[int]] = [{0, int(const_value(extent) or 0)} for extent in extents]
    for side in call.tiles:
        if side.space == "local" and (run > 1 or _is_cut(side)):
            for side_dim, dim in dimensions_of(side, extents):
                cuts[dim].update(_cuts(side, side_dim, run))
    return tuple(product(*(list(pairwise(sorted(places))) for places in cuts)))


def _longest_run(call: TileCall) -> int:
    """Elements of the widest access to memory; 1 where all tiles are in registers."""
    return 1 if set(call.spaces) == {"local"} else max(vector_lengths(call), default=1)


def emit_pieces(plan: CallSteps, call: TileCall, out: Builder) -> None:
    """Writes one box after the other; values are computed once, before the first."""
    scalars = {
        name: value if isinstance(value, Const) or indexed(value) else out.let(name, value)
        for name, value in call.scalars.items()
    }
    emit_steps(plan, replace(call, scalars=scalars), out)


def parts(call: TileCall) -> CallSteps:
    """A part of registers that no layout describes goes in several boxes that layouts describe."""
    return in_pieces(call)


for _names, _priority, _keywords in (
    (("copy",), 2, ("vec_len", *ASKED)),
    (FILLS, 5, ("vec_len",)),
    (ELEMENTWISE, 15, keywords_of(*ELEMENTWISE)),
):
    _when = [registers_cut, only_in("local", "shared", "global")]
    variant(*_names, priority=_priority, keywords=_keywords, when=_when)(parts).emit(emit_pieces)


def _is_cut(side: Side) -> bool:
    return side.space == "local" and side.extents != side.buffer.shape


def _cuts(side: Side, dim: int, run: int) -> list[int]:
    """Where a region of registers is cut in a dimension, counted from its begin: see `_between` and `_runs`."""
    begin, count, shape = const_value(side.starts[dim]), const_value(side.extents[dim]), side.buffer.shape
    tile = side.buffer.layout.parted(shape)[1] if side.buffer.layout is not None else None
    if begin is None or count is None or not isinstance(tile, TileLayout):
        return []
    try:
        grouped, ends = tile.canonicalize().group(shape)
    except LayoutError:
        return []
    iters = grouped.shard[ends[dim] : ends[dim + 1]]
    cuts = _between([int(const_value(it.extent) or 1) for it in iters], int(begin), int(begin + count))
    return [cut - int(begin) for part in pairwise(sorted({*cuts})) for cut in (*part, *_runs(iters, *part, run))]


def _runs(iters: Sequence[Iter], begin: int, end: int, run: int) -> list[int]:
    """Where a piece of one line of neighbouring registers is cut, so that the longest part is a multiple of ``run``."""
    if run == 1 or not iters or iters[-1].axis.name != "m" or iters[-1].stride != 1:
        return []
    line = int(const_value(iters[-1].extent) or 1)
    if begin // line != (end - 1) // line:
        return []
    cuts, at, last = list[int](), begin % line, begin % line + end - begin
    while at < last:
        step = next(size for size in _powers(run) if at % size == 0 and at + size <= last)
        at += (last - at) // run * run if step == run else step
        cuts.append(at - begin % line + begin)
    return cuts


def _powers(most: int) -> list[int]:
    """The powers of two up to ``most``, from there down."""
    return [1 << bit for bit in reversed(range(most.bit_length()))]


def _between(extents: Sequence[int], begin: int, end: int) -> list[int]:
    """The cuts between ``begin`` and ``end``: in a piece one digit varies, and those after it take all their values."""
    size = 1
    for extent in extents[1:]:
        size *= extent
    if begin >= end or size == 1:
        return [begin, end]
    first, last = -(-begin // size) * size, end // size * size
    if first > last:  # inside of one block
        block = begin // size * size
        return [block + cut for cut in _between(extents[1:], begin - block, end - block)]
    head = [first - size + cut for cut in _between(extents[1:], begin - first + size, size)] if begin < first else []
    tail = [last + cut for cut in _between(extents[1:], 0, end - last)] if last < end else []
    return [*head, begin if begin == first else first, last, *tail]


def _pieces(call: TileCall, _: Mapping[str, Side], boxes: Sequence[Box]) -> list[TileCall]:
    return [_piece(call, box) for box in boxes]


def _piece(call: TileCall, box: Box) -> TileCall:
    """The call for one box of dst."""
    extents, sides = call["dst"].extents, dict[str, Side]()
    for name, side in call.sides.items():
        parts = list(side.region.box)
        for side_dim, dim in dimensions_of(side, extents):
            low, high = box[dim]
            parts[side_dim] = (side.starts[side_dim] + low, high - low)
        sides[name] = side_of(Region(side.buffer, tuple(parts)), call.facts)

    def moved(node: Expr) -> Expr | None:
        if isinstance(node, Special) and node.name in ELEMENT:
            return node + box[ELEMENT.index(node.name)][0]
        return None

    values = {name: rewrite(value, moved) if indexed(value) else value for name, value in call.scalars.items()}
    stmt = replace(call.stmt, dispatch=None)
    return replace(call, stmt=stmt, sides=sides, scalars=values)
