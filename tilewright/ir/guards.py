"""What the rules of rewriting may ask: short questions to the facts, named as they read in ``when``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.ir.expr import Expr
from tilewright.ir.intervals import Interval, limits

if TYPE_CHECKING:
    from tilewright.ir.ranges import RangeFacts

__all__ = [
    "at_most",
    "below",
    "disjoint",
    "exact",
    "fits",
    "full_mask",
    "high",
    "low",
    "lowest_bit",
    "power_of_two",
    "run_of_ones",
]


def low(facts: RangeFacts, x: Expr) -> int:
    """The least value of x."""
    return facts.interval(x).low


def high(facts: RangeFacts, x: Expr) -> int:
    """The greatest value of x."""
    return facts.interval(x).high


def exact(facts: RangeFacts, x: Expr) -> bool:
    """No wrap-around reaches x."""
    return facts.exact(x)


def fits(_: RangeFacts, x: Expr, number: int) -> bool:
    """``number`` is a value of x's dtype."""
    whole = limits(x.dtype)
    return whole.low <= number <= whole.high


def power_of_two(_: RangeFacts, number: int) -> bool:
    """1, 2, 4, ..."""
    return number > 0 and number & (number - 1) == 0


def lowest_bit(_: RangeFacts, number: int) -> int:
    """The lowest bit that is set, as a number."""
    return number & -number


def run_of_ones(_: RangeFacts, x: Expr, mask: int) -> bool:
    """The bits of ``mask`` stand side by side, and their number has a power of two in x's dtype."""
    ones = mask // (mask & -mask) + 1 if mask > 0 else 0
    return ones > 0 and ones & (ones - 1) == 0 and ones <= limits(x.dtype).high


def full_mask(_: RangeFacts, x: Expr, mask: int) -> bool:
    """``mask`` has every bit of x's dtype."""
    return mask in (-1, limits(x.dtype).high) and (mask == -1 or x.dtype.kind == "uint")


def below(facts: RangeFacts, x: Expr, y: Expr) -> bool:
    """``0 <= x < y``, be they numbers or ordered by a loop or a condition."""
    return facts.interval(x).low >= 0 and facts.less(x, y)


def at_most(facts: RangeFacts, x: Expr, y: Expr) -> bool:
    """``x <= y``."""
    return facts.at_most(x, y)


def disjoint(facts: RangeFacts, x: Expr, y: Expr) -> bool:
    """No bit is set in both: one is a multiple of a power of two that the other stays below."""
    a, b = facts.interval(x), facts.interval(y)
    return _above(a, b) or _above(b, a)


def _above(a: Interval, b: Interval) -> bool:
    step = 1 << b.high.bit_length()
    return b.low >= 0 and a.modulus % step == 0 and a.residue % step == 0
