"""A part of a register tile that no layout describes, as boxes that layouts describe. With eight elements in a thread
``x[0:1001]`` is all registers of 125 threads and one of another. Each box is a tile call of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from tilewright.ir import Const, Expr, Region, Special, const_value, rewrite
from tilewright.ir.special import ELEMENT
from tilewright.layout import TileLayout
from tilewright.records import replace
from tilewright.tile.builder import Builder
from tilewright.tile.call import Side, TileCall, dimensions_of, side_of
from tilewright.tile.dispatch import Chosen, Decline, condition
from tilewright.tile.elements import indexed
from tilewright.tile.inner import planned

__all__ = ["Pieces", "emit_pieces", "in_pieces", "registers_cut"]

MOST_PIECES = 16
Box = tuple[tuple[int, int], ...]


@condition("a tile in registers is a part of its buffer")
def registers_cut(call: TileCall) -> str | None:
    return None if any(map(_is_cut, call.tiles)) else "no tile in registers is cut"


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """boxes: of dst, as (begin, end) in each dimension; calls: what carries each of them out."""

    boxes: tuple[Box, ...]
    calls: tuple[Chosen, ...]

    def summary(self) -> str:
        """``in 2 parts: holders, 1 x 8 elements per thread; holders, ...``."""
        parts = "; ".join(f"{each.variant.name}, {each.plan.summary()}" for each in self.calls)
        return f"in {len(self.calls)} parts: {parts}"


def in_pieces(call: TileCall) -> Pieces:
    """The plans of the boxes. Raises Decline where one box is all, or there are too many, or one has no plan."""
    extents = call["dst"].extents
    if any(const_value(extent) is None for extent in extents):
        raise Decline("registers have extents that are numbers")
    cuts: list[set[int]] = [{0, int(const_value(extent) or 0)} for extent in extents]
    for side in filter(_is_cut, call.tiles):
        for own, dim in dimensions_of(side, extents):
            cuts[dim].update(_cuts(side, own))
    boxes = tuple(product(*(list(pairwise(sorted(each))) for each in cuts)))
    if not 1 < len(boxes) <= MOST_PIECES:
        raise Decline(f"the region makes {len(boxes)} boxes of registers, not 2 to {MOST_PIECES}")
    return Pieces(boxes, tuple(planned(_piece(call, box, call.scalars)) for box in boxes))


def emit_pieces(plan: Pieces, call: TileCall, out: Builder) -> None:
    """Writes one box after the other; values are computed once, before the first."""
    scalars = {
        name: value if isinstance(value, Const) or indexed(value) else out.let(name, value)
        for name, value in call.scalars.items()
    }
    for box, chosen in zip(plan.boxes, plan.calls, strict=True):
        chosen.write(_piece(call, box, scalars), out)


def _is_cut(side: Side) -> bool:
    return side.space == "local" and side.extents != side.buffer.shape


def _cuts(side: Side, dim: int) -> list[int]:
    """Where a region of registers is cut in a dimension, counted from its begin: see `_between`."""
    begin, count, shape = const_value(side.starts[dim]), const_value(side.extents[dim]), side.buffer.shape
    tile = side.buffer.layout.parted(shape)[1] if side.buffer.layout is not None else None
    if begin is None or count is None or not isinstance(tile, TileLayout):
        return []
    grouped, ends = tile.canonicalize().group(shape)
    extents = [int(const_value(it.extent) or 1) for it in grouped.shard[ends[dim] : ends[dim + 1]]]
    return [cut - int(begin) for cut in _between(extents, int(begin), int(begin + count))]


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


def _piece(call: TileCall, box: Box, scalars: Mapping[str, Expr]) -> TileCall:
    """The call for one box of dst."""
    extents, sides = call["dst"].extents, dict[str, Side]()
    for name, side in call.sides.items():
        parts = list(side.region.box)
        for own, dim in dimensions_of(side, extents):
            low, high = box[dim]
            parts[own] = (side.starts[own] + low, high - low)
        sides[name] = side_of(Region(side.buffer, tuple(parts)), call.facts)

    def moved(node: Expr) -> Expr | None:
        if isinstance(node, Special) and node.name in ELEMENT:
            return node + box[ELEMENT.index(node.name)][0]
        return None

    values = {name: rewrite(value, moved) if indexed(value) else value for name, value in scalars.items()}
    stmt = replace(call.stmt, dispatch=None)
    return replace(call, stmt=stmt, sides=sides, scalars=values)
