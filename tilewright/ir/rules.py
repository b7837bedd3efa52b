"""The table of rewrites, one line each. Parts are simplified before their whole, constants stand on the right.

Two things happen without a rule: sums are collected (`tilewright.ir.sums`), and whatever has but one possible value by
its range becomes that constant, so that ``x % 8`` is 0 where 8 divides x, and ``i < n`` true inside ``range(n)``.

Bits become arithmetic wherever they are arithmetic (``x >> 3`` is ``x // 8``), because sums are what can be taken
apart; a back end turns ``//`` and ``%`` by a power of two into a shift and a mask again: with floor they are the same.
"""

from __future__ import annotations

from functools import cache
from math import gcd
from typing import TYPE_CHECKING

from tilewright.ir.build import binary, cast
from tilewright.ir.expr import Binary, Cast, Component, Const, Expr, Reinterpret, Vector, same
from tilewright.ir.guards import lowest_bit, power_of_two
from tilewright.ir.intervals import domain, limits
from tilewright.ir.operators import OPERATORS
from tilewright.ir.patterns import Function, Rule
from tilewright.ir.special import COARSER, NARROWER
from tilewright.ir.sums import Sum, is_ring

if TYPE_CHECKING:
    from tilewright.ir.ranges import RangeFacts

__all__ = ["ANY", "INTEGER", "LOGIC", "rules_for"]


def quotient(e: Expr, facts: RangeFacts) -> Expr | None:
    """``(12*x + y + 9) // 4`` is ``3*x + 2 + (y + 1) // 4``; ``(6*x + y) // 4`` with 0 <= y < 2 is ``3*x // 2``."""
    assert isinstance(e, Binary)
    assert isinstance(e.b, Const)
    c, kind = int(e.b.value), e.dtype
    if c <= 1 or not is_ring(e.a) or not facts.exact(e.a):
        return None
    whole, rest = Sum.of(e.a).split(lambda times, _: times % c == 0)
    whole.const = _whole_part(rest.const, c)
    rest.const -= whole.const
    if (whole.terms or whole.const) and facts.reach(rest).inside(limits(kind)):
        return whole.divided(c).build(kind) + rest.build(kind) // c
    whole, rest = Sum.of(e.a).split(lambda times, term: _divides(c, times, term, facts))
    if whole.terms and (rest.terms or rest.const) and all(facts.reach(s).inside(limits(kind)) for s in (whole, rest)):
        return whole.build(kind) // c + rest.build(kind) // c
    if parts := _digits(Sum.of(e.a), c, facts):
        step, wide, _ = parts
        return wide.divided(step).build(kind) // (c // step)
    return None


def remainder(e: Expr, facts: RangeFacts) -> Expr | None:
    """``(12*x + y + 9) % 4`` is ``(y + 1) % 4``; ``(6*x + y) % 4`` with 0 <= y < 2 is ``3*x % 2 * 2 + y``."""
    assert isinstance(e, Binary)
    assert isinstance(e.b, Const)
    c, kind = int(e.b.value), e.dtype
    binary_digits = power_of_two(facts, c)  # a sum that wraps keeps its remainder by a power of two
    if c <= 1 or not is_ring(e.a) or not (binary_digits or facts.exact(e.a)):
        return None
    before = Sum.of(e.a)
    left = Sum(before.const - _whole_part(before.const, c))
    for times, term in before.terms.values():
        inner = term.a if _is_modulo(term) and int(term.b.value) % c == 0 else term  # type: ignore[attr-defined]
        left.add(inner, 0 if _divides(c, times, term, facts) else times - _whole_part(times, c))
    short = left.build(kind)
    if not _same_terms(left, before) and (binary_digits or facts.reach(left).inside(limits(kind))):
        return short % c
    if parts := _digits(before, c, facts):
        step, wide, small = parts
        return wide.divided(step).build(kind) % (c // step) * step + small.build(kind)
    return None


def _divides(c: int, times: int, term: Expr, facts: RangeFacts) -> bool:
    """Is ``times * term`` a multiple of c, by its coefficient or by what is known of the term?"""
    known = facts.ideal(term)
    return times % c == 0 or (times * known.modulus % c == 0 and times * known.residue % c == 0)


def _whole_part(number: int, c: int) -> int:
    """The multiple of c next to ``number`` towards zero."""
    return number // c * c if number >= 0 else -(-number // c * c)


def _is_modulo(term: Expr) -> bool:
    return isinstance(term, Binary) and term.op == "%" and isinstance(term.b, Const)


def _same_terms(a: Sum, b: Sum) -> bool:
    coefficients = [[times for times, _ in total.terms.values()] for total in (a, b)]
    return a.const == b.const and a.terms.keys() == b.terms.keys() and coefficients[0] == coefficients[1]


def _digits(total: Sum, c: int, facts: RangeFacts) -> tuple[int, Sum, Sum] | None:
    """A step that divides c, with ``total = wide + small``, wide a multiple of it and 0 <= small < step."""
    for step in sorted({gcd(times, c) for times, _ in total.terms.values()} - {1}, reverse=True):
        wide, small = _split(total, step)
        reach = facts.reach(small)
        if reach.low >= 0 and reach.high < step:
            return step, wide, small
    return None


def _split(total: Sum, step: int) -> tuple[Sum, Sum]:
    """The terms that are multiples of ``step`` by their coefficient, and the others; the constant is dealt out."""
    wide, small = total.split(lambda times, _: times % step == 0)
    small.const = total.const % step
    wide.const = total.const - small.const
    return wide, small


def bits_apart(e: Expr, facts: RangeFacts) -> Expr | None:
    """``(8*x + y) ^ 8*z`` with 0 <= y < 8 is ``8*(x ^ z) + y``; ``(8*x + y) ^ z`` with z < 8 ``8*x + (y ^ z)``."""
    assert isinstance(e, Binary)
    left, right, kind = Sum.of(e.a), Sum.of(e.b), e.dtype
    for step in _bit_steps(left, right, facts):
        (a, y), (b, z) = _split(left, step), _split(right, step)
        lows = (facts.reach(y), facts.reach(z))
        if not all(low.low >= 0 and low.high < step for low in lows):
            continue
        if _is_zero(a) or _is_zero(b):
            if _is_zero(a) and _is_zero(b):
                continue
            lows_only = binary(e.op, y.build(kind), z.build(kind))
            return lows_only if e.op == "&" else (b if _is_zero(a) else a).build(kind) + lows_only
        if _is_zero(y) or _is_zero(z):
            high = binary(e.op, a.divided(step).build(kind), b.divided(step).build(kind)) * step
            return high if e.op == "&" else high + (z if _is_zero(y) else y).build(kind)
    return None


def _bit_steps(left: Sum, right: Sum, facts: RangeFacts) -> list[int]:
    """Powers of two at which bits may fall apart: what divides a coefficient, and what a side stays below."""
    steps = {lowest_bit(facts, times) for side in (left, right) for times, _ in side.terms.values()}
    steps |= {1 << reach.high.bit_length() for side in (left, right) if (reach := facts.reach(side)).low >= 0}
    return sorted(steps - {1}, reverse=True)


def _is_zero(total: Sum) -> bool:
    return not total.terms and not total.const


def common_terms(e: Expr, facts: RangeFacts) -> Expr | None:
    """``x + y < x + 4`` is ``y < 4``: what both sides have is taken away, where neither wraps; for == and != always."""
    assert isinstance(e, Binary)
    a, b, kind = Sum.of(e.a), Sum.of(e.b), e.a.dtype
    if not (a.terms.keys() & b.terms.keys() or (a.const and not b.terms)):
        return None
    left, right = a.minus(b).split(lambda times, _: times > 0)
    right = Sum().minus(right)
    if e.op not in ("==", "!="):
        fits = limits(kind)
        if not all(
            (facts.exact(e.a), facts.exact(e.b), facts.reach(left).inside(fits), facts.reach(right).inside(fits))
        ):
            return None
    elif any(not limits(kind).low <= c <= limits(kind).high for s in (left, right) for c, _ in s.parts()):
        return None
    return binary(e.op, left.build(kind), right.build(kind))


def casts(e: Expr, facts: RangeFacts) -> Expr | None:
    """A cast of a cast: the inner one goes where it keeps the value, or the bits that the outer one takes."""
    assert isinstance(e, Cast)
    if not isinstance(e.a, Cast):
        return None
    x, via, to = e.a.a, e.a.dtype, e.dtype
    if domain(x.dtype) and domain(via) == "int" and to.kind != "bool":
        keeps = facts.interval(x).inside(limits(via)) or (
            domain(x.dtype) == domain(to) == "int" and to.bits <= via.bits
        )
        return cast(x, to) if keeps else None
    widened = x.dtype.is_float and via in ("float32", "float64") and via.bits > x.dtype.bits
    return x if widened and to == x.dtype else None


def reinterprets(e: Expr, _: RangeFacts) -> Expr | None:
    """Bits read again as what they were, or through a third type."""
    assert isinstance(e, Reinterpret)
    if e.a.dtype == e.dtype:
        return e.a
    if isinstance(e.a, Reinterpret):
        return e.a.a if e.a.a.dtype == e.dtype else Reinterpret(e.a.a, e.dtype)
    return None


def rebuilt(e: Expr, facts: RangeFacts) -> Expr | None:
    """A vector of all components of a vector, in their order, is that vector."""
    assert isinstance(e, Vector)
    first = e.parts[0]
    if not isinstance(first, Component) or first.a.dtype != e.dtype:
        return None
    in_order = all(same(part, Component(first.a, k)) for k, part in enumerate(e.parts))
    return first.a if in_order else None


def negated(e: Expr, _: RangeFacts) -> Expr | None:
    """``not (x < y)`` is ``x >= y``, of integers: a NaN would tell them apart."""
    test = e.a  # type: ignore[attr-defined]  # a Unary
    if isinstance(test, Binary) and test.op in Binary.COMPARISONS and domain(test.a.dtype) == "int":
        return binary(OPERATORS[test.op].negated, test.a, test.b)
    return None


INTEGER = (
    # bits that are arithmetic
    Rule("x << c", "x * 2**c", "0 <= c < 64 and fits(x, 2**c)"),
    Rule("x >> c", "x // 2**c", "0 <= c < 64 and fits(x, 2**c)"),
    Rule("x & c & d", "x & (c & d)"),
    Rule("x & c", "x", "full_mask(x, c)"),
    Rule("x & c", "x % (c + 1)", "fits(x, c + 1) and power_of_two(c + 1)"),
    Rule("x & c", "x // lowest_bit(c) % (c // lowest_bit(c) + 1) * lowest_bit(c)", "run_of_ones(x, c)"),
    Rule("x & c", "x // -c * -c", "c < 0 and fits(x, -c) and power_of_two(-c)"),
    # division, which floors
    Rule("x // y", "0", "below(x, y)"),
    Rule("x // x", "1", "low(x) > 0"),
    Rule("x // c", quotient),
    Rule("x // c // d", "x // (c * d)", "c > 0 and d > 0 and fits(x, c * d)"),
    Rule("x % c // d", "x // d % (c // d)", "c > 0 and d > 0 and c % d == 0"),
    *(
        Rule(f"{fine} // c", f"{coarse} // (c // {many})", f"c > 0 and c % {many} == 0")
        for fine, coarse, many in COARSER
    ),
    Rule("x * y // x", "y", "low(x) > 0 and exact(e.a)"),
    Rule("x * y // y", "x", "low(y) > 0 and exact(e.a)"),
    Rule("(x * y + z) // y", "x + z // y", "low(y) > 0 and exact(e.a)"),
    Rule("truncdiv(x, y)", "x // y", "low(x) >= 0 and low(y) > 0"),
    # remainder, which has the sign of the divisor
    Rule("x % y", "x", "below(x, y)"),
    Rule("x % x", "0", "low(x) > 0"),
    Rule("x % c", remainder),
    Rule("x % c % d", "x % d", "d > 0 and c % d == 0"),
    *(Rule(f"{wide} % c", f"{narrow} % c", f"c > 0 and {many} % c == 0") for wide, narrow, many in NARROWER),
    *(
        Rule(f"{wide} // c % d", f"{narrow} // c % d", f"c > 0 and d > 0 and {many} % (c * d) == 0")
        for wide, narrow, many in NARROWER
    ),
    Rule("x * y % x", "0", "low(x) > 0 and exact(e.a)"),
    Rule("x * y % y", "0", "low(y) > 0 and exact(e.a)"),
    Rule("(x * y + z) % y", "z % y", "low(y) > 0 and exact(e.a)"),
    Rule("truncmod(x, y)", "x % y", "low(x) >= 0 and low(y) > 0"),
    # bits
    Rule("x & x", "x"),
    Rule("x | x", "x"),
    Rule("x ^ x", "0"),
    Rule("x & y", "0", "disjoint(x, y)"),
    Rule("x | y", "x + y", "disjoint(x, y)"),
    Rule("x ^ y", "x + y", "disjoint(x, y)"),
    Rule("(x | c) | d", "x | (c | d)"),
    Rule("(x ^ c) ^ d", "x ^ (c ^ d)"),
    Rule("(x ^ y) ^ y", "x"),
    Rule("(x ^ y) ^ x", "y"),
    Rule("y ^ (x ^ y)", "x"),
    Rule("x ^ (x ^ y)", "y"),
    Rule("x & y", bits_apart),
    Rule("x | y", bits_apart),
    Rule("x ^ y", bits_apart),
    # the smaller and the greater
    Rule("min(x, y)", "x", "at_most(x, y)"),
    Rule("min(x, y)", "y", "at_most(y, x)"),
    Rule("max(x, y)", "y", "at_most(x, y)"),
    Rule("max(x, y)", "x", "at_most(y, x)"),
    Rule("min(min(x, c), d)", "min(x, min(c, d))"),
    Rule("max(max(x, c), d)", "max(x, max(c, d))"),
    Rule("min(min(x, y), y)", "min(x, y)"),
    Rule("max(max(x, y), y)", "max(x, y)"),
    # comparisons
    Rule("x < y", common_terms),
    Rule("x <= y", common_terms),
    Rule("x > y", common_terms),
    Rule("x >= y", common_terms),
    Rule("x == y", common_terms),
    Rule("x != y", common_terms),
    Rule("x * c < d", "x < -(-d // c)", "c > 0 and exact(e.a)"),
    Rule("x * c <= d", "x <= d // c", "c > 0 and exact(e.a)"),
    Rule("x * c > d", "x > d // c", "c > 0 and exact(e.a)"),
    Rule("x * c >= d", "x >= -(-d // c)", "c > 0 and exact(e.a)"),
    Rule("x * c == d", "x == d // c", "c > 0 and d % c == 0 and exact(e.a)"),
    Rule("x * c != d", "x != d // c", "c > 0 and d % c == 0 and exact(e.a)"),
)

LOGIC = (
    Rule("not not x", "x"),
    Rule("not x", negated),
    Rule("x and x", "x"),
    Rule("x or x", "x"),
    Rule("(x and y) and y", "x and y"),
    Rule("(x or y) or y", "x or y"),
    Rule("x and not x", "False"),
    Rule("x or not x", "True"),
    Rule("x == True", "x"),
    Rule("x == False", "not x"),
    Rule("x != True", "not x"),
    Rule("x != False", "x"),
    Rule("select(x, True, False)", "x"),
    Rule("select(x, False, True)", "not x"),
)

# These hold for operands of any type, floats too.
ANY = (
    Rule("select(p, x, x)", "x"),
    Rule("select(not p, x, y)", "select(p, y, x)"),
    Rule("cast(x)", casts),
    Rule("reinterpret(x)", reinterprets),
    Rule("vector(x)", rebuilt),
)

_TABLES = {"int": (*INTEGER, *ANY), "bool": (*LOGIC, *ANY), "": ANY}


@cache
def rules_for(op: str, kind: str) -> tuple[Function, ...]:
    """The rules whose pattern has ``op`` at its root, for operands of domain ``kind``, in the order of the table."""
    return tuple(rule.apply for rule in _TABLES[kind] if rule.op == op)
