"""What a true condition teaches: ``n % 8 == 0 and 4 * i + 3 < n`` gives n a modulus, i a bound, and orders the two;
questions to the facts that rules of rewriting ask; and integer expressions as sums of multiples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from math import gcd
from typing import TYPE_CHECKING, TypeAlias

from tilewright.dtypes import DType
from tilewright.ir.build import as_expr, const
from tilewright.ir.expr import Binary, Const, Expr, Unary, Value, same
from tilewright.ir.intervals import Interval, limits, point, strided
from tilewright.ir.operators import OPERATORS, RING

if TYPE_CHECKING:
    from tilewright.ir.ranges import RangeFacts

__all__ = [
    "at_most", "below", "disjoint", "exact", "fits", "full_mask", "high", "learn", "low", "lowest_bit", "power_of_two",
    "run_of_ones",
]  # fmt: skip


# Integer expressions as sums of multiples: ``(k + 1) * 16 - k * 16 + x`` is ``x + 16``.
#
# Addition, subtraction and multiplication wrap, and wrapping is a ring: terms may be collected and reordered whatever
# the values are. What divides or compares a sum may look inside only where the sum as a whole does not wrap
# (`RangeFacts.exact`); then its terms, taken as ideal integers, add up to its value.


Key: TypeAlias = Expr | frozenset[tuple[Expr, int]]  # an atom, or the factors of a product with their powers


def is_ring(expr: Expr) -> bool:
    """Is it ``a + b``, ``a - b``, ``a * b``, ``-a`` or ``~a``?"""
    return expr.op in RING if type(expr) is Binary else type(expr) is Unary and expr.op in "-~"


class Sum:
    """A sum being put together: of each term its coefficient and expression, in the order of their first mention."""

    __slots__ = ("const", "terms")

    def __init__(self, const: int = 0) -> None:
        self.const = const
        self.terms: dict[Key, tuple[int, Expr]] = {}

    @staticmethod
    def of(expr: Expr, leaf: Callable[[Expr], Expr] | None = None, *, expand: bool = False) -> Sum:
        """``expr`` taken apart. leaf: what an atom becomes before it is added. expand: multiply out products."""
        total = Sum()
        total.add(expr, 1, leaf, expand=expand)
        return total

    def add(self, expr: Expr, times: int, leaf: Callable[[Expr], Expr] | None = None, *, expand: bool = False) -> None:
        """Add ``times * expr``."""
        todo = [(expr, times)]
        while todo:
            node, times = todo.pop()
            if type(node) is Const:
                self.const += times * int(node.value)
            elif not is_ring(node):
                self._atom(node, times, leaf)
            elif isinstance(node, Unary):
                self.const -= times if node.op == "~" else 0
                todo.append((node.a, -times))
            elif isinstance(node, Binary) and node.op != "*":
                todo.append((node.b, times if node.op == "+" else -times))
                todo.append((node.a, times))
            elif isinstance(node, Binary) and type(node.b) is Const:
                todo.append((node.a, times * int(node.b.value)))
            elif isinstance(node, Binary):
                self._product(node, times, leaf, expand)

    def _atom(self, node: Expr, times: int, leaf: Callable[[Expr], Expr] | None) -> None:
        if leaf is not None:
            node = leaf(node)
            if type(node) is Const or is_ring(node):
                self.add(node, times)
                return
        before = self.terms.get(node)
        self.terms[node] = (times, node) if before is None else (before[0] + times, before[1])

    def _product(self, node: Binary, times: int, leaf: Callable[[Expr], Expr] | None, expand: bool) -> None:
        """A product whose factors are no numbers: their coefficients move out; sums stay factors unless ``expand``."""
        left, right = (Sum.of(side if leaf is None else leaf(side), expand=expand) for side in (node.a, node.b))
        kind = node.dtype
        if not expand and left.terms and right.terms:
            left, right = left._as_one_term(kind), right._as_one_term(kind)
        for a, x in left.parts():
            for b, y in right.parts():
                self._monomial(times * a * b, [*factors(x), *factors(y)], kind)

    def _as_one_term(self, kind: DType) -> Sum:
        """Itself where it has but one term, else the whole as a single factor."""
        if len(self.terms) + (self.const != 0) <= 1:
            return self
        whole = Sum()
        built = self.build(kind)
        whole.terms[built] = (1, built)
        return whole

    def _monomial(self, times: int, factors: list[Expr], kind: DType) -> None:
        if not factors:
            self.const += times
            return
        shown = factors[0]
        for factor in factors[1:]:
            shown = Binary("*", shown, factor, kind)
        key: Key = shown if len(factors) == 1 else frozenset(Counter(factors).items())
        before = self.terms.get(key)
        self.terms[key] = (times, shown) if before is None else (before[0] + times, before[1])

    def parts(self) -> Iterator[tuple[int, Expr | None]]:
        """(coefficient, term) of each term; the constant comes last, with None for a term."""
        yield from self.terms.values()
        if self.const:
            yield self.const, None

    def minus(self, other: Sum, times: int = 1) -> Sum:
        """This sum less ``times`` the other; terms that vanish are dropped."""
        result = Sum(self.const - times * other.const)
        result.terms = dict(self.terms)
        for key, (coefficient, term) in other.terms.items():
            left = result.terms.get(key, (0, term))[0] - times * coefficient
            result.terms[key] = (left, term)
            if not left:
                del result.terms[key]
        return result

    def split(self, takes: Callable[[int, Expr], bool]) -> tuple[Sum, Sum]:
        """The terms that ``takes`` accepts, and the others with the constant."""
        chosen, rest = Sum(), Sum(self.const)
        for key, part in self.terms.items():
            (chosen if takes(*part) else rest).terms[key] = part
        return chosen, rest

    def divided(self, by: int) -> Sum:
        """Every coefficient, a multiple of ``by``, divided; the constant floors."""
        result = Sum(self.const // by)
        result.terms = {key: (coefficient // by, term) for key, (coefficient, term) in self.terms.items()}
        return result

    def build(self, kind: DType) -> Expr:
        """The sum as an expression: terms in order, a positive one first, the constant last."""
        constant = _signed(self.const, kind)
        terms = [(number, term) for c, term in self.terms.values() if (number := _signed(c, kind))]
        if not terms:
            return const(constant, kind)
        first = next((index for index, (c, _) in enumerate(terms) if c > 0), None)
        if first is None and constant > 0:
            result: Expr = const(constant, kind)
            constant = 0
        else:
            coefficient, term = terms.pop(first or 0)
            result = _multiple(coefficient, term, kind)
        for coefficient, term in terms:
            step = _multiple(abs(coefficient), term, kind)
            result = Binary("+" if coefficient > 0 else "-", result, step, kind)
        if constant:
            result = Binary("+" if constant > 0 else "-", result, const(abs(constant), kind), kind)
        return result


def factors(term: Expr | None) -> list[Expr]:
    """The factors of a term that `Sum` has built; none for the constant."""
    if term is None:
        return []
    if type(term) is Binary and term.op == "*":
        return [*factors(term.a), *factors(term.b)]
    return [term]


def _signed(number: int, kind: DType) -> int:
    """The representative of ``number`` nearest to zero among those that wrap to the same value."""
    half = 1 << (kind.bits - 1)
    return (number + half) % (2 * half) - half


def _multiple(times: int, term: Expr, kind: DType) -> Expr:
    if times == 1:
        return term
    return Unary("-", term, kind) if times == -1 else Binary("*", term, const(times, kind), kind)


# Digits that stand side by side in a sum are one number again: x // 4 * 4 + x % 4 is x.


def _digit(term: Expr) -> tuple[Expr, int, int]:
    """(base, divisor, count) of a term ``base // divisor % count``; a count of 0 for all of it."""
    count = 0
    if type(term) is Binary and term.op == "%" and type(term.b) is Const:
        count, term = int(term.b.value), term.a
    if type(term) is Binary and term.op == "//" and type(term.b) is Const:
        return term.a, int(term.b.value), count
    return term, 1, count


def recombined(total: Sum, kind: DType, facts: RangeFacts) -> Sum:
    """``total`` with neighbouring digits of one number put together, and ``x // c * c`` as x where c divides x."""
    digits = [(key, c, _digit(term)) for key, (c, term) in total.terms.items() if type(term) is Binary]
    for key, c, (base, divisor, count) in digits:
        if not count and divisor > 1 and c % divisor == 0 and facts.divides(divisor, base):
            return recombined(_replaced(total, [key], base, c // divisor), kind, facts)
        for other, c2, (base2, divisor2, count2) in digits if count > 0 and divisor > 0 else ():
            fits = 0 <= count2 * count <= limits(kind).high
            if fits and divisor2 == divisor * count and c2 == c * count and same(base, base2):
                whole = base // divisor
                return recombined(
                    _replaced(total, [key, other], whole % (count * count2) if count2 else whole, c), kind, facts
                )
    return total


def _replaced(total: Sum, gone: list[Key], by: Expr, times: int) -> Sum:
    result = Sum(total.const)
    for key, part in total.terms.items():
        if key is gone[0]:
            result.add(by, times)
        elif all(key is not other for other in gone):
            before = result.terms.get(key)
            result.terms[key] = part if before is None else (before[0] + part[0], part[1])
    return result


def distance(start: Value, stop: Value) -> Value:
    """``stop - start``, with what cancels out gone: from ``k * 16`` to ``(k + 1) * 16`` it is 16."""
    if not isinstance(start, Expr) and not isinstance(stop, Expr):
        return stop - start
    total = Sum.of(as_expr(stop)).minus(Sum.of(as_expr(start)))
    return total.build((as_expr(stop) - as_expr(start)).dtype) if total.terms else total.const


def collected(value: Value) -> Value:
    """The same value with its terms collected: ``n - 1 + 1`` is ``n``."""
    return Sum.of(value).build(value.dtype) if isinstance(value, Expr) else value


# What a true condition teaches: ``n % 8 == 0 and 4 * i + 3 < n`` gives n a modulus, i a bound, and orders the two; and
# the questions to the facts that rules of rewriting ask.


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
