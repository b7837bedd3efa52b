"""What a true condition teaches: ``n % 8 == 0 and 4 * i + 3 < n`` gives n a modulus, i a bound, and orders the two; and
the questions to the facts that rules of rewriting ask.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from tilewright.ir.expr import Binary, Const, Expr, Unary
from tilewright.ir.intervals import Interval, limits, point, strided
from tilewright.ir.operators import OPERATORS
from tilewright.ir.sums import Sum

if TYPE_CHECKING:
    from tilewright.ir.ranges import RangeFacts

__all__ = [
    "at_most", "below", "disjoint", "exact", "fits", "full_mask", "high", "learn", "low", "lowest_bit", "power_of_two",
    "run_of_ones",
]  # fmt: skip


def learn(facts: RangeFacts, cond: Expr, truth: bool = True) -> RangeFacts:
    """``facts`` with the additional fact that ``cond`` is true (or false)."""
    if isinstance(cond, Unary) and cond.op == "not":
        return learn(facts, cond.a, not truth)
    if isinstance(cond, Binary) and cond.op == ("and" if truth else "or"):
        return learn(learn(facts, cond.a, truth), cond.b, truth)
    if isinstance(cond, Const):
        return facts
    if isinstance(cond, Binary) and cond.op in Binary.COMPARISONS and cond.a.dtype.is_integer:
        facts = _compared(facts, cond.op if truth else OPERATORS[cond.op].negated, cond.a, cond.b)
    return facts.narrowed(cond, point(int(truth)))


def _compared(facts: RangeFacts, op: str, a: Expr, b: Expr) -> RangeFacts:
    if op in (">", ">="):
        op, a, b = OPERATORS[op].mirrored, b, a
    gap = facts.terms(b).minus(facts.terms(a))
    if op == "!=":
        return _apart(facts, gap)
    if op == "==":
        return _congruent(_equal(facts, gap), a, b)
    gap.const -= op == "<"
    return _at_least_zero(facts, gap)


def _at_least_zero(facts: RangeFacts, total: Sum) -> RangeFacts:
    """Each term is bounded by what the others can reach at most."""
    for _, (times, term) in list(total.terms.items()):
        rest = _without(facts, total, term).high
        whole = limits(term.dtype)
        low, high = (-(rest // times), whole.high) if times > 0 else (whole.low, rest // -times)
        facts = _narrowed(facts, term, Interval(low, high))
    return facts.ordered(total) if len(total.terms) > 1 else facts


def _equal(facts: RangeFacts, gap: Sum) -> RangeFacts:
    facts = _at_least_zero(_at_least_zero(facts, gap), Sum().minus(gap))
    for times, term in list(gap.terms.values()):
        if abs(times) == 1:
            facts = _narrowed(facts, term, _without(facts, gap, term).scaled(-times))
    return facts


def _apart(facts: RangeFacts, gap: Sum) -> RangeFacts:
    """Learn that two sides differ: an end of a range that is excluded moves by one."""
    if len(gap.terms) != 1:
        return facts
    ((times, term),) = gap.terms.values()
    values = facts.interval(term)
    if abs(times) != 1 or values.is_point:
        return facts
    hole = -gap.const * times
    step = values.modulus
    low, high = values.low + step * (values.low == hole), values.high - step * (values.high == hole)
    return _narrowed(facts, term, Interval(low, high))


def _congruent(facts: RangeFacts, a: Expr, b: Expr) -> RangeFacts:
    """``(x + 4) % 8 == 0``: the modulus of each plain term of x."""
    if not (isinstance(a, Binary) and a.op == "%" and isinstance(a.b, Const) and isinstance(b, Const)):
        return facts
    modulus, residue = int(a.b.value), int(b.value)
    if modulus <= 0 or not (power_of_two(facts, modulus) or facts.exact(a.a)):
        return facts
    total = Sum.of(a.a)
    for times, term in list(total.terms.values()):
        if abs(times) == 1:
            rest = point(residue).plus(_without(facts, total, term).scaled(-1)).scaled(times)
            whole = limits(term.dtype)
            common = gcd(modulus, rest.modulus)
            facts = _narrowed(facts, term, strided(whole.low, whole.high, common, rest.residue))
    return facts


def _narrowed(facts: RangeFacts, term: Expr, values: Interval) -> RangeFacts:
    """Facts with a narrower range of a term. Nothing is learnt of a term that may wrap: the sum has its ideal value."""
    return facts.narrowed(term, values) if facts.exact(term) else facts


def _without(facts: RangeFacts, total: Sum, term: Expr) -> Interval:
    """The sum of all terms but one."""
    rest = point(total.const)
    for times, other in total.terms.values():
        if other is not term:
            rest = rest.plus(facts.ideal(other).scaled(times))
    return rest


# What the rules of rewriting may ask: short questions to the facts, named as they read in ``when``.


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
