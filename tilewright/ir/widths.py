"""How wide the arithmetic of an offset is: 32 bits where the facts prove that they are enough, else 64.

It is decided once, in lowering, so that both back ends compute the same. The sums and products of an index are meant as
ideal integers; a variable keeps its dtype, and what was stored in it has wrapped already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.dtypes import INT32, INT64
from tilewright.ir.build import as_expr, binary, cast, unary
from tilewright.ir.expr import Binary, Cast, Expr, Unary, Value
from tilewright.ir.intervals import limits
from tilewright.ir.sums import is_ring
from tilewright.layout import TileLayout

if TYPE_CHECKING:
    from tilewright.ir.buffer import Buffer
    from tilewright.ir.ranges import RangeFacts

MOST_NEAR = limits(INT32).high + 1  # elements of which each has an offset of 32 bits


def is_far(buffer: Buffer, facts: RangeFacts) -> bool:
    """May an element of the buffer be 2**31 or more elements from the start of its storage? On a chip none is."""
    if buffer.space != "global":
        return False
    sizes = [buffer.flat().shape[0], buffer.elem_offset]
    return sum(_most(size, facts) for size in sizes) > MOST_NEAR


def has_wide_strides(buffer: Buffer, facts: RangeFacts) -> bool:
    """May an index inside of the buffer times its stride be beyond 32 bits?"""
    if not isinstance(buffer.layout, TileLayout):
        return False
    return sum(_most(it.extent, facts) * abs(_most(it.stride, facts)) for it in buffer.layout.shard) > MOST_NEAR


def _most(value: Value, facts: RangeFacts) -> int:
    return facts.ideal(value).high if isinstance(value, Expr) else int(value)


def widened(value: Value, facts: RangeFacts) -> Expr:
    """The ideal value in 64 bits: sums and products that may not fit 32 are computed in 64."""
    expr = as_expr(value, INT64)
    if isinstance(expr, Cast) and expr.dtype == INT64 and expr.a.dtype == INT32:
        return widened(expr.a, facts)
    if not is_ring(expr) or expr.dtype not in (INT32, INT64) or (expr.dtype == INT32 and facts.exact(expr)):
        return cast(expr, INT64)
    if isinstance(expr, Binary):
        return binary(expr.op, widened(expr.a, facts), widened(expr.b, facts))
    assert isinstance(expr, Unary)
    return unary(expr.op, widened(expr.a, facts))


def joined(a: Value, b: Value, far: bool, facts: RangeFacts) -> Value:
    """``a + b``; where it is ``far``, in 64 bits unless 32 are proven to be enough."""
    if far:
        wide = widened(a, facts) + widened(b, facts)
        if not facts.ideal(wide).inside(limits(INT32)):
            return wide
    return a + b


def settled(offset: Value, facts: RangeFacts) -> Expr:
    """An offset as the lowered stage has it: simplified, a number with the bits that it needs."""
    simple = facts.simplify(offset)
    return as_expr(simple, INT64 if isinstance(simple, int) and simple >= MOST_NEAR else INT32)
