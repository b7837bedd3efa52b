"""What is known of the integers in a kernel: ranges, congruences, and which is at most which.

`RangeFacts` collects what scope ids, launch geometry, loop bounds, conditions and ``T.assume`` say, and answers the
questions of `tilewright.layout.Facts` from it. It is immutable: entering a loop or an ``if`` gives new facts. An answer
is True only where it is proven, with the wrap-around of the dtype taken into account.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import gcd, prod
from types import MappingProxyType
from typing import Any, TypeAlias

from tilewright import ir
from tilewright.dtypes import INT32, INT64
from tilewright.errors import KernelError
from tilewright.ir.conditions import Sum, factors, is_ring, learn
from tilewright.ir.intervals import Interval, domain, limits, point, strided
from tilewright.ir.operators import transfer
from tilewright.ir.rules import simplify
from tilewright.layout import INTS
from tilewright.records import replace

Value: TypeAlias = Any  # an int, a NumPy integer or an expression, as in `tilewright.layout.Facts`

PROOF_DEPTH = 2  # how many known inequalities one proof may add up

ANY_LAUNCH: Mapping[str, Interval] = MappingProxyType(
    {row.name: Interval(row.low, row.high) for row in ir.SPECIALS.values()}  # what every launch obeys
)


@dataclass(frozen=True, slots=True, eq=False)
class RangeFacts:
    """What is known at one place of a kernel.

    ranges, specials: by name of the variable or special register. others: of other expressions. orders: sums that are
    at least 0. assigned: names of variables that are assigned to, of which nothing can be kept.
    """

    ranges: Mapping[str, Interval] = field(default_factory=dict)
    specials: Mapping[str, Interval] = field(default_factory=lambda: ANY_LAUNCH)
    others: Mapping[ir.Expr, Interval] = field(default_factory=dict)
    orders: tuple[Sum, ...] = ()
    assigned: frozenset[str] = frozenset()
    # Answers so far, by the id of the expression. Each keeps its expression alive, so that the id is not reused.
    intervals: dict[int, tuple[ir.Expr, Interval]] = field(default_factory=dict, init=False, repr=False)
    ideals: dict[int, tuple[ir.Expr, Interval]] = field(default_factory=dict, init=False, repr=False)
    simplified: dict[int, tuple[ir.Expr, ir.Expr]] = field(default_factory=dict, init=False, repr=False)

    @staticmethod
    def of_kernel(kernel: ir.Kernel) -> RangeFacts:
        """What holds everywhere in ``kernel``: launch geometry, scope ids, symbolic extents, ``T.assume``."""
        symbols = {var.name: Interval(0, limits(var.dtype).high) for var in kernel.symbols if var.dtype.is_integer}
        facts = RangeFacts(symbols, assigned=ir.assigned(kernel.body))
        for stmt in ir.statements(kernel.body):
            if isinstance(stmt, ir.Assume):
                facts = facts.with_condition(stmt.cond)
        if launch := kernel.launch or _authored_launch(kernel):
            facts = facts.with_launch(launch)
        for name, value in ir.scope_id_exprs(kernel).items():
            facts = replace(facts, ranges={**facts.ranges, name: facts.interval(value)})
        return facts

    def with_launch(self, launch: ir.Launch) -> RangeFacts:
        """The facts in a kernel that is launched with this geometry."""
        grid = tuple(map(ir.const_value, launch.grid))
        if self.specials is ANY_LAUNCH and None not in grid:
            return replace(self, specials=_known_launch(grid, launch.threads, launch.cluster))
        return self._within(launch)

    def _within(self, launch: ir.Launch) -> RangeFacts:
        specials = dict(self.specials)
        for row in ir.SPECIALS.values():
            if row.axis is not None:
                specials[row.name] = strided(0, min((launch.threads - 1) // row.axis.each, row.high))
        specials["ntid"] = point(launch.threads)
        specials["cluster_ctarank"] = strided(0, prod(launch.cluster) - 1)
        symbolic = []
        for axis, ctas, cluster in zip("xyz", map(ir.as_expr, launch.grid), launch.cluster, strict=True):
            grid = self.interval(ctas)
            if not grid.is_point:
                grid = self.with_condition(ctas >= 1).interval(ctas)
            counts = {"ctaid": grid.high, "cluster_ctaid": cluster, "clusterid": max(grid.high // cluster, 1)}
            within = {"nctaid": grid, **{name: strided(0, count - 1) for name, count in counts.items()}}
            specials.update(
                (f"{name}.{axis}", specials[f"{name}.{axis}"].meet(range_)) for name, range_ in within.items()
            )
            symbolic += [] if grid.is_point else [ctas > ir.special(f"ctaid.{axis}")]
        facts = replace(self, specials=specials)
        for cond in symbolic:
            facts = facts.with_condition(cond)
        return facts

    # Entering a scope

    def with_range(
        self, var: ir.Var | ir.Special, low: int, high: int, modulus: int = 1, residue: int = 0
    ) -> RangeFacts:
        """``low <= var <= high``, both included, and ``var = residue (mod modulus)``."""
        return self.narrowed(var, strided(low, high, modulus, residue))

    def with_loop(self, var: ir.Var, start: Value, stop: Value, step: int = 1) -> RangeFacts:
        """The facts inside ``for var in range(start, stop, step)``."""
        first, end = ir.as_expr(start, var.dtype), ir.as_expr(stop, var.dtype)
        a, b = self.interval(first), self.interval(end)
        low, high = (a.low, b.high - 1) if step > 0 else (b.low + 1, a.high)
        facts = self.with_range(var, low, max(low, high), gcd(a.modulus, step), a.residue)
        facts = facts if b.is_point else facts.with_condition(var < end if step > 0 else var > end)
        return facts if a.is_point else facts.with_condition(var >= first if step > 0 else var <= first)

    def with_binding(self, var: ir.Var, value: Value) -> RangeFacts:
        """The facts after ``var: T.let = value``, or ``var = value`` where var is never assigned again."""
        expr = ir.as_expr(value, var.dtype)
        if var.name in self.assigned or not domain(var.dtype) or expr.dtype != var.dtype:
            return self
        facts = self.narrowed(var, self.interval(expr))
        return facts.with_condition(var == expr) if is_ring(expr) or isinstance(expr, ir.Var) else facts

    def with_condition(self, cond: Value) -> RangeFacts:
        """The facts where ``cond`` holds: in the branch of an ``if``, or everywhere after ``T.assume``.

        Nothing is kept of conditions on memory, calls or variables that are assigned to: they may change.
        """
        test = self.simplify(ir.as_expr(cond))
        return learn(self, test) if isinstance(test, ir.Expr) and self._lasts(test) else self

    def _lasts(self, cond: ir.Expr) -> bool:
        return not any(
            isinstance(node, (ir.Load, ir.Call)) or (isinstance(node, ir.Var) and node.name in self.assigned)
            for node in ir.walk(cond)
        )

    def narrowed(self, expr: ir.Expr, values: Interval) -> RangeFacts:
        """These facts and that ``expr`` is in ``known``."""
        before = self.interval(expr)
        after = before.meet(values)
        if after == before:
            return self
        if isinstance(expr, ir.Var):
            return replace(self, ranges={**self.ranges, expr.name: after})
        if isinstance(expr, ir.Special):
            return replace(self, specials={**self.specials, expr.name: after})
        return replace(self, others={**self.others, expr: after})

    def ordered(self, total: Sum) -> RangeFacts:
        """These facts and that ``total`` is at least 0."""
        return replace(self, orders=(*self.orders, total))

    # The questions of `tilewright.layout.Facts`

    def divides(self, n: Value, value: Value) -> bool:
        """Is ``value`` a multiple of ``n``?"""
        if not _symbolic(n, value):
            return INTS.divides(n, value)
        divisor, number = self._pair(n, value)
        d, v = self.interval(divisor), self.interval(number)
        if v.is_point and v.low == 0:
            return True
        if d.is_point:
            return d.low != 0 and v.modulus % d.low == 0 and v.residue % d.low == 0
        return self.equal(n, value) or (self.exact(number) and _is_factor(divisor, number))

    def equal(self, a: Value, b: Value) -> bool:
        """Are both the same number, whatever the variables are?"""
        if not _symbolic(a, b):
            return INTS.equal(a, b)
        x, y = self._pair(a, b)
        left, right = self.interval(x), self.interval(y)
        if left.is_point and right.is_point:
            return left.low == right.low
        if not _vanishes(x, y):
            x, y = simplify(x, self), simplify(y, self)
        return _vanishes(x, y) or bool(self.orders and self.at_most(x, y) and self.at_most(y, x))

    def less(self, a: Value, b: Value) -> bool:
        """Is ``a < b``?"""
        if not _symbolic(a, b):
            return INTS.less(a, b)
        x, y = self._pair(a, b)
        return self.at_most(x, y, -1)

    def simplify(self, value: Value) -> Value:
        """The same number in a simpler form; an int where an integer is constant."""
        if not isinstance(value, ir.Expr):
            return INTS.simplify(value)
        result = simplify(value, self)
        return int(result.value) if isinstance(result, ir.Const) and result.dtype.is_integer else result

    def _pair(self, a: Value, b: Value) -> tuple[ir.Expr, ir.Expr]:
        """Both as expressions; a number takes the dtype of the other side."""
        like = a.dtype if isinstance(a, ir.Expr) else b.dtype if isinstance(b, ir.Expr) else INT32
        return ir.as_expr(a, like), ir.as_expr(b, like)

    # Ranges

    def bounds(self, expr: Value) -> tuple[int | None, int | None]:
        """The least and the greatest value, both included; of an integer at worst those of its dtype."""
        node = ir.as_expr(expr)
        return self.interval(node)[:2] if domain(node.dtype) else (None, None)

    def modulus(self, expr: Value) -> tuple[int, int]:
        """``(m, r)``: the value is r modulo m; m is 0 where it is exactly r, 1 where nothing is known."""
        return self.interval(ir.as_expr(expr))[2:]

    def exact(self, expr: ir.Expr) -> bool:
        """Is its value that of the ideal integers: does no wrap-around reach it?"""
        return self.ideal(expr).inside(limits(expr.dtype))

    def interval(self, expr: ir.Expr) -> Interval:
        """The range of an integer, bool or pointer (a signed number here): the values that it may have."""
        hit = self.intervals.get(id(expr))
        if hit is not None:
            return hit[1]
        values = (self.ideal(expr) if is_ring(expr) else self._value(expr)).wrapped(expr.dtype)
        if self.others and (met := self.others.get(expr)) is not None:
            values = values.meet(met)
        self.intervals[id(expr)] = (expr, values)
        if self.orders and not values.is_point and isinstance(expr, ir.Binary) and expr.op in _AS_AT_MOST:
            values = self._compared(expr)  # may ask for itself, in an order that contains it
            self.intervals[id(expr)] = (expr, values)
        return values

    def ideal(self, expr: ir.Expr) -> Interval:
        """`interval` as if the sums and products that make up the value had no width."""
        hit = self.ideals.get(id(expr))
        if hit is not None:
            return hit[1]
        values = self._ring(expr) if is_ring(expr) else self.interval(expr)
        self.ideals[id(expr)] = (expr, values)
        return values

    def _ring(self, expr: ir.Expr) -> Interval:
        if isinstance(expr, ir.Binary):
            values = transfer(expr.op, self.ideal(expr.a), self.ideal(expr.b), expr.dtype.bits) or limits(expr.dtype)
        else:
            assert isinstance(expr, ir.Unary)
            values = point(-1 if expr.op == "~" else 0).plus(self.ideal(expr.a).scaled(-1))
        if self.others and (met := self.others.get(expr)) is not None and values.inside(limits(expr.dtype)):
            return values.meet(met)
        return values

    def _value(self, expr: ir.Expr) -> Interval:
        """The range of a node that is no sum or product; of a load or a call the limits of its dtype."""
        whole = limits(expr.dtype)
        match expr:
            case ir.Const():
                return point(int(expr.value))
            case ir.Var():
                return self.ranges.get(expr.name, whole)
            case ir.Special():
                return self.specials.get(expr.name, whole)
            case ir.Binary() if domain(expr.a.dtype):
                return transfer(expr.op, self.interval(expr.a), self.interval(expr.b), expr.a.dtype.bits) or whole
            case ir.Unary() if expr.op == "not":
                return point(1).plus(self.interval(expr.a).scaled(-1))
            case ir.Select():
                return self._chosen(expr)
            case ir.Cast() if domain(expr.a.dtype) and domain(expr.dtype) == "int":
                return self.interval(expr.a)
            case ir.Reinterpret() if domain(expr.a.dtype) and self.interval(expr.a).inside(whole):
                return self.interval(expr.a)
        return whole

    def _chosen(self, expr: ir.Select) -> Interval:
        test = self.interval(expr.cond)
        if test.is_point:
            return self.interval(expr.a if test.low else expr.b)
        return self.interval(expr.a).join(self.interval(expr.b))

    # Proofs from orders

    def terms(self, expr: ir.Expr) -> Sum:
        """The value as a sum of ideal integers: taken apart where it is exact, else a single term that is no sum."""
        return Sum.of(expr if self.exact(expr) else ir.Reinterpret(expr, expr.dtype), self._narrow, expand=True)

    def _narrow(self, expr: ir.Expr) -> ir.Expr:
        """The integer itself where ``expr`` only widens it."""
        if type(expr) is not ir.Cast or expr.a.dtype != INT32 or expr.dtype != INT64 or not self.exact(expr.a):
            return expr
        return expr.a

    def reach(self, total: Sum) -> Interval:
        """The values of a sum of ideal integers."""
        values = point(total.const)
        for times, term in total.terms.values():
            values = values.plus(self.ideal(term).scaled(times))
        return values

    def _compared(self, expr: ir.Binary) -> Interval:
        flipped, slack = _AS_AT_MOST[expr.op]
        a, b = (expr.b, expr.a) if flipped else (expr.a, expr.b)
        if domain(a.dtype) != "int":
            return Interval(0, 1)
        if self.at_most(a, b, slack):
            return point(1)
        return point(0) if self.at_most(b, a, -1 - slack) else Interval(0, 1)

    def at_most(self, a: ir.Expr, b: ir.Expr, slack: int = 0) -> bool:
        """Is ``a <= b + slack`` proven?"""
        if self.interval(a).high <= self.interval(b).low + slack:
            return True
        if not self.orders and (isinstance(a, ir.Const) or isinstance(b, ir.Const)):
            return False
        gap = self.terms(b).minus(self.terms(a))
        gap.const += slack
        return self._is_nonnegative(gap, PROOF_DEPTH)

    def _is_nonnegative(self, total: Sum, depth: int) -> bool:
        """Is the sum at least 0, by its range, or after taking away something else that is not negative?"""
        if self.reach(total).low >= 0:
            return True
        if not depth:
            return False
        for order in self.orders:
            for key, (times, _) in order.terms.items():
                wanted = total.terms.get(key, (0, None))[0]
                helps = wanted * times > 0 and wanted % times == 0
                if helps and self._is_nonnegative(total.minus(order, wanted // times), depth - 1):
                    return True
        return False


@lru_cache(maxsize=64)
def _known_launch(grid: tuple[int, int, int], threads: int, cluster: tuple[int, int, int]) -> Mapping[str, Interval]:
    """The facts about special registers in a launch whose size is known."""
    return MappingProxyType(dict(RangeFacts()._within(ir.Launch(grid, threads, cluster)).specials))


_AS_AT_MOST = {
    "<": (False, -1),
    "<=": (False, 0),
    ">": (True, -1),
    ">=": (True, 0),
}  # a <= b + slack, or b <= a + slack


def _symbolic(*values: Value) -> bool:
    """Is one an expression, and each that or a single number?"""
    return any(isinstance(v, ir.Expr) for v in values) and all(
        isinstance(v, ir.Expr) or hasattr(v, "__index__") for v in values
    )


def _vanishes(a: ir.Expr, b: ir.Expr) -> bool:
    """Is ``a - b`` zero whatever their terms are?"""
    gap = Sum.of(a, expand=True).minus(Sum.of(b, expand=True))
    wrap = 1 << a.dtype.bits
    return a.dtype == b.dtype and gap.const % wrap == 0 and all(times % wrap == 0 for times, _ in gap.terms.values())


def _is_factor(divisor: ir.Expr, number: ir.Expr) -> bool:
    """Does every term of ``number`` have all factors of ``divisor``?"""
    parts = list(Sum.of(divisor, expand=True).parts())
    if len(parts) != 1:
        return False
    ((times, term),) = parts
    wanted = Counter(factors(term))
    return all(c % times == 0 and not wanted - Counter(factors(t)) for c, t in Sum.of(number, expand=True).parts())


def _authored_launch(kernel: ir.Kernel) -> ir.Launch | None:
    """The launch that the scope ids ask for; None where they do not say (the verifier tells the user)."""
    try:
        return ir.launch_of(kernel)
    except KernelError:
        return None
