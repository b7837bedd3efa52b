"""Regions that may leave their buffer: the tests before an element is touched.

A primitive whose operand is *clipped* leaves alone what is outside of the buffer. Where the facts prove a dimension to
be inside, no test is written.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.ir import Expr, Value, binary
from tilewright.tile.call import Side, TileCall
from tilewright.tile.owners import all_hold
from tilewright.tile.walks import Ints, plus


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
