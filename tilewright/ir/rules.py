"""The rewrites of expressions: a table, one line each, and the function that simplifies an expression by it.

Parts are simplified before their whole, constants stand on the right.

Two things happen without a rule: sums are collected (`tilewright.ir.conditions`), and whatever has but one possible
value by its range becomes that constant, so that ``x % 8`` is 0 where 8 divides x, and ``i < n`` true inside
``range(n)``.

Bits become arithmetic wherever they are arithmetic (``x >> 3`` is ``x // 8``), because sums are what can be taken
apart; a back end turns ``//`` and ``%`` by a power of two into a shift and a mask again: with floor they are the same.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from math import gcd
from typing import TYPE_CHECKING, TypeAlias

from tilewright import ir
from tilewright.ir import conditions
from tilewright.ir import expr as nodes
from tilewright.ir.conditions import Sum, is_ring, lowest_bit, power_of_two, recombined
from tilewright.ir.intervals import domain, limits
from tilewright.ir.operators import OPERATORS, SYMBOLS
from tilewright.records import replace

if TYPE_CHECKING:
    from tilewright.ir.ranges import RangeFacts

# Rewrite rules written as they are read: ``Rule("x % c % d", "x % d", when="c % d == 0")``.
#
# In a pattern ``c`` and ``d`` are constants, ``tid laneid warpid`` special registers, and other names stand for any
# expression; a name that occurs twice stands for equal expressions. In ``when`` and in the result the constants are
# Python numbers. A rule becomes a Python function the first time it is needed.


Function: TypeAlias = "Callable[[ir.Expr, RangeFacts], ir.Expr | ir.Number | None]"

CONSTANTS = ("c", "d")
REGISTERS = [row.name for row in ir.SPECIALS.values() if row.axis is not None]


@dataclass(frozen=True)
class Rule:
    """``pattern`` becomes ``result`` where ``when`` holds. result may be a function of the node and the facts.

    A function returns None where it does not apply.
    """

    pattern: str
    result: str | Function
    when: str = ""

    @property
    def op(self) -> str:
        """The operator at the root of the pattern."""
        return _root(self.tree)

    @property
    def tree(self) -> ast.expr:
        return ast.parse(self.pattern, mode="eval").body

    @cached_property
    def apply(self) -> Function:
        """The new expression (or number), or None where the rule does not fit."""
        tests = _matcher(self.tree)
        lines = ["def rule(e, facts):", *tests]
        if self.when:
            lines.append(f"    if not ({_python(self.when, _Guard())}): return None")
        result = _python(self.result, _Result()) if isinstance(self.result, str) else "function(e, facts)"
        lines.append(f"    return {result}")
        functions: dict[str, Function] = {}
        exec(
            compile("\n".join(lines), f"<rule {self.pattern}>", "exec"),
            {**_namespace(), "function": self.result},
            functions,
        )
        return functions["rule"]


def _root(tree: ast.expr) -> str:
    match tree:
        case ast.BinOp(op=op) | ast.UnaryOp(op=op) | ast.BoolOp(op=op):
            return SYMBOLS[type(op)]
        case ast.Compare():
            return SYMBOLS[type(tree.ops[0])]
        case ast.Call(func=ast.Name()):
            return str(tree.func.id)  # type: ignore[attr-defined]  # a Name
    raise ValueError(f"not a pattern: {ast.unparse(tree)}")


_CLASSES = {
    "cast": ("Cast", ("a",)),
    "select": ("Select", ("cond", "a", "b")),
    "reinterpret": ("Reinterpret", ("a",)),
    "vector": ("Vector", ("parts",)),
}


def _parts(tree: ast.expr) -> tuple[str, list[tuple[str, ast.expr]]]:
    """The node class that a pattern asks for, and the field and pattern of each part."""
    match tree:
        case ast.BinOp():
            return "Binary", [("a", tree.left), ("b", tree.right)]
        case ast.BoolOp():
            return "Binary", [("a", tree.values[0]), ("b", tree.values[1])]
        case ast.Compare():
            return "Binary", [("a", tree.left), ("b", tree.comparators[0])]
        case ast.UnaryOp():
            return "Unary", [("a", tree.operand)]
        case ast.Call(func=ast.Name(id=name), args=args) if name in _CLASSES:
            kind, names = _CLASSES[name]
            return kind, list(zip(names, args, strict=True))
        case ast.Call(args=args):
            return "Binary", list(zip("ab", args, strict=True))
    raise ValueError(f"not a pattern: {ast.unparse(tree)}")


def _matcher(tree: ast.expr) -> list[str]:
    """Lines of Python that return None unless ``e`` matches, and bind the pattern's names."""
    lines: list[str] = []
    bound: set[str] = set()
    todo = [("e", tree, True)]
    while todo:
        path, node, is_root = todo.pop(0)
        if isinstance(node, ast.Constant):
            lines.append(f"    if type({path}) is not Const or {path}.value != {node.value!r}: return None")
        elif isinstance(node, ast.Name):
            lines += _bind(path, node.id, bound)
        else:
            kind, parts = _parts(node)
            if not is_root:  # rules are found by their root
                has_op = f" or {path}.op != {_root(node)!r}" if kind in ("Binary", "Unary") else ""
                lines.append(f"    if type({path}) is not {kind}{has_op}: return None")
            todo += [(f"{path}.{name}", part, False) for name, part in parts]
    return lines


def _bind(path: str, name: str, bound: set[str]) -> list[str]:
    if name in bound:
        return [f"    if not same({path}, {name}): return None"]
    if name in REGISTERS:
        return [f"    if type({path}) is not Special or {path}.name != {name!r}: return None"]
    bound.add(name)
    if name in CONSTANTS:
        return [f"    if type({path}) is not Const: return None", f"    {name} = {path}.value"]
    return [f"    {name} = {path}"]


class _Guard(ast.NodeTransformer):
    """Rewrites a guard, in which every function asks the facts: ``low(x)`` is ``low(facts, x)``."""

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        return ast.Call(node.func, [ast.Name("facts", ast.Load()), *node.args], [])


class _Result(ast.NodeTransformer):
    """Rewrites a result, in which ``and``, ``or`` and ``not`` build nodes, and special registers are themselves."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        return _call("binary", ast.Constant(SYMBOLS[type(node.op)]), *node.values)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return _call("unary", ast.Constant("not"), node.operand) if isinstance(node.op, ast.Not) else node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        asks = isinstance(node.func, ast.Name) and node.func.id in conditions.__all__
        self.generic_visit(node)
        return ast.Call(node.func, [ast.Name("facts", ast.Load()), *node.args], []) if asks else node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return _call("special", ast.Constant(node.id)) if node.id in REGISTERS else node


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(args), [])


def _python(text: str, change: ast.NodeTransformer) -> str:
    return ast.unparse(change.visit(ast.parse(text, mode="eval").body))


def _namespace() -> dict[str, object]:
    """What the text of a rule may name."""
    return {
        **vars(nodes),
        **vars(ir.build),
        **{name: getattr(conditions, name) for name in conditions.__all__},
        "special": ir.special,
        "min": lambda a, b: ir.build.binary("min", a, b),
        "max": lambda a, b: ir.build.binary("max", a, b),
    }


def quotient(e: ir.Expr, facts: RangeFacts) -> ir.Expr | None:
    """``(12*x + y + 9) // 4`` is ``3*x + 2 + (y + 1) // 4``; ``(6*x + y) // 4`` with 0 <= y < 2 is ``3*x // 2``."""
    assert isinstance(e, ir.Binary)
    assert isinstance(e.b, ir.Const)
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


def remainder(e: ir.Expr, facts: RangeFacts) -> ir.Expr | None:
    """``(12*x + y + 9) % 4`` is ``(y + 1) % 4``; ``(6*x + y) % 4`` with 0 <= y < 2 is ``3*x % 2 * 2 + y``."""
    assert isinstance(e, ir.Binary)
    assert isinstance(e.b, ir.Const)
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


def _divides(c: int, times: int, term: ir.Expr, facts: RangeFacts) -> bool:
    """Is ``times * term`` a multiple of c, by its coefficient or by what is known of the term?"""
    values = facts.ideal(term)
    return times % c == 0 or (times * values.modulus % c == 0 and times * values.residue % c == 0)


def _whole_part(number: int, c: int) -> int:
    """The multiple of c next to ``number`` towards zero."""
    return number // c * c if number >= 0 else -(-number // c * c)


def _is_modulo(term: ir.Expr) -> bool:
    return isinstance(term, ir.Binary) and term.op == "%" and isinstance(term.b, ir.Const)


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


def bits_apart(e: ir.Expr, facts: RangeFacts) -> ir.Expr | None:
    """``(8*x + y) ^ 8*z`` with 0 <= y < 8 is ``8*(x ^ z) + y``; ``(8*x + y) ^ z`` with z < 8 ``8*x + (y ^ z)``."""
    assert isinstance(e, ir.Binary)
    left, right, kind = Sum.of(e.a), Sum.of(e.b), e.dtype
    for step in _bit_steps(left, right, facts):
        (a, y), (b, z) = _split(left, step), _split(right, step)
        lows = (facts.reach(y), facts.reach(z))
        if not all(low.low >= 0 and low.high < step for low in lows):
            continue
        if _is_zero(a) or _is_zero(b):
            if _is_zero(a) and _is_zero(b):
                continue
            lows_only = ir.binary(e.op, y.build(kind), z.build(kind))
            return lows_only if e.op == "&" else (b if _is_zero(a) else a).build(kind) + lows_only
        if _is_zero(y) or _is_zero(z):
            high = ir.binary(e.op, a.divided(step).build(kind), b.divided(step).build(kind)) * step
            return high if e.op == "&" else high + (z if _is_zero(y) else y).build(kind)
    return None


def _bit_steps(left: Sum, right: Sum, facts: RangeFacts) -> list[int]:
    """Powers of two at which bits may fall apart: what divides a coefficient, and what a side stays below."""
    steps = {lowest_bit(facts, times) for side in (left, right) for times, _ in side.terms.values()}
    steps |= {1 << reach.high.bit_length() for side in (left, right) if (reach := facts.reach(side)).low >= 0}
    return sorted(steps - {1}, reverse=True)


def _is_zero(total: Sum) -> bool:
    return not total.terms and not total.const


def common_terms(e: ir.Expr, facts: RangeFacts) -> ir.Expr | None:
    """``x + y < x + 4`` is ``y < 4``: what both sides have is taken away, where neither wraps; for == and != always."""
    assert isinstance(e, ir.Binary)
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
    return ir.binary(e.op, left.build(kind), right.build(kind))


def casts(e: ir.Expr, facts: RangeFacts) -> ir.Expr | None:
    """A cast of a cast: the inner one goes where it keeps the value, or the bits that the outer one takes."""
    assert isinstance(e, ir.Cast)
    if not isinstance(e.a, ir.Cast):
        return None
    x, via, to = e.a.a, e.a.dtype, e.dtype
    if domain(x.dtype) and domain(via) == "int" and to.kind != "bool":
        keeps = facts.interval(x).inside(limits(via)) or (
            domain(x.dtype) == domain(to) == "int" and to.bits <= via.bits
        )
        return ir.cast(x, to) if keeps else None
    widened = x.dtype.is_float and via in ("float32", "float64") and via.bits > x.dtype.bits
    return x if widened and to == x.dtype else None


def reinterprets(e: ir.Expr, _: RangeFacts) -> ir.Expr | None:
    """Bits read again as what they were, or through a third type."""
    assert isinstance(e, ir.Reinterpret)
    if e.a.dtype == e.dtype:
        return e.a
    if isinstance(e.a, ir.Reinterpret):
        return e.a.a if e.a.a.dtype == e.dtype else ir.Reinterpret(e.a.a, e.dtype)
    return None


def rebuilt(e: ir.Expr, facts: RangeFacts) -> ir.Expr | None:
    """A vector of all components of a vector, in their order, is that vector."""
    assert isinstance(e, ir.Vector)
    first = e.parts[0]
    if not isinstance(first, ir.Component) or first.a.dtype != e.dtype:
        return None
    in_order = all(ir.same(part, ir.Component(first.a, k)) for k, part in enumerate(e.parts))
    return first.a if in_order else None


def negated(e: ir.Expr, _: RangeFacts) -> ir.Expr | None:
    """``not (x < y)`` is ``x >= y``, of integers: a NaN would tell them apart."""
    test = e.a  # type: ignore[attr-defined]  # a Unary
    if isinstance(test, ir.Binary) and test.op in ir.Binary.COMPARISONS and domain(test.a.dtype) == "int":
        return ir.binary(OPERATORS[test.op].negated, test.a, test.b)
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
        for fine, coarse, many in ir.COARSER
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
    *(Rule(f"{wide} % c", f"{narrow} % c", f"c > 0 and {many} % c == 0") for wide, narrow, many in ir.NARROWER),
    *(
        Rule(f"{wide} // c % d", f"{narrow} // c % d", f"c > 0 and d > 0 and {many} % (c * d) == 0")
        for wide, narrow, many in ir.NARROWER
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
    *(Rule(f"x {op} y", bits_apart) for op in "&|^"),
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
    *(Rule(f"x {op} y", common_terms) for op in ir.Binary.COMPARISONS),
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


# Rewriting an expression with the rules to a simpler form of the same value.


MOST_STEPS = 100  # a rule that undoes another would go on for ever; none needs more than a few


class _MeetsCall(Exception):
    """A call may have an effect: what contains one is kept as it is, only its parts are simplified."""


def simplify(expr: ir.Expr, facts: RangeFacts) -> ir.Expr:
    """``expr`` in a simpler form, equal to it for all values that ``facts`` admit; itself where there is none.

    Parts first, then the rules of the table until none applies. Each node is done once: results are kept in
    ``facts``.
    """
    try:
        return _simplified(expr, facts)
    except _MeetsCall:
        return _with_parts(expr, facts, simplify)


def _simplified(expr: ir.Expr, facts: RangeFacts) -> ir.Expr:
    memo = facts.simplified
    hit = memo.get(id(expr))
    if hit is not None:
        return hit[1]
    result = expr
    for _ in range(MOST_STEPS):
        after = _step(result, facts)
        if after is result:
            break
        result = after
        hit = memo.get(id(result))
        if hit is not None:
            result = hit[1]
            break
    memo[id(expr)] = (expr, result)
    memo[id(result)] = (result, result)
    return result


def _step(expr: ir.Expr, facts: RangeFacts) -> ir.Expr:
    """Simplify by one step: constants, parts, or the first rule that applies; ``expr`` itself where none does."""
    kind = type(expr)
    if kind is ir.Const:
        return expr
    if kind is ir.Call:
        raise _MeetsCall
    scalar = domain(expr.dtype)
    if scalar and (values := facts.interval(expr)).is_point:
        if any(isinstance(node, ir.Call) for node in ir.walk(expr)):
            raise _MeetsCall
        return ir.const(values.low, expr.dtype)
    if kind is ir.Var or kind is ir.Special:
        return expr
    if scalar == "int" and is_ring(expr):
        return _collected(expr, facts)
    parts = _with_parts(expr, facts, _simplified)
    if parts is not expr:
        return parts
    return _rewritten(expr, facts)


def _collected(expr: ir.Expr, facts: RangeFacts) -> ir.Expr:
    """A sum with its terms simplified and collected; ``expr`` where that changes nothing."""
    total = Sum.of(expr, lambda atom: _simplified(atom, facts))
    joined = recombined(total, expr.dtype, facts)
    result = joined.build(expr.dtype)
    if ir.same(result, expr):
        return expr
    if joined is total and is_ring(result):  # its terms are simplified: nothing is left to do
        facts.simplified[id(result)] = (result, result)
    return result


def _rewritten(expr: ir.Expr, facts: RangeFacts) -> ir.Expr:
    for rule in rules_for(*root_of(expr)):
        result = rule(expr, facts)
        if result is not None:
            return ir.cast(ir.as_expr(result, expr.dtype), expr.dtype)
    return expr


def root_of(expr: ir.Expr) -> tuple[str, str]:
    """Under which operator and domain the rules for a node stand."""
    if isinstance(expr, (ir.Binary, ir.Unary)):
        return expr.op, domain(expr.a.dtype)
    return type(expr).__name__.lower(), domain(expr.dtype)


_PARTS: dict[type[ir.Expr], str] = {  # what is simplified in nodes that no operator builds
    ir.Load: "indices", ir.AddressOf: "indices", ir.Call: "args", ir.Vector: "parts", ir.Component: "a",
}  # fmt: skip


def _with_parts(expr: ir.Expr, facts: RangeFacts, change: Callable[[ir.Expr, RangeFacts], ir.Expr]) -> ir.Expr:
    """The same node over simplified parts; ``expr`` itself where none changes."""
    if isinstance(expr, ir.Binary):
        return _binary(expr, change(expr.a, facts), change(expr.b, facts))
    if isinstance(expr, ir.Select):
        cond, x, y = change(expr.cond, facts), change(expr.a, facts), change(expr.b, facts)
        return expr if cond is expr.cond and x is expr.a and y is expr.b else ir.select(cond, x, y)
    if (name := _PARTS.get(type(expr))) is not None:
        part = getattr(expr, name)
        new = _argument(part, facts, change)
        return expr if new is part else replace(expr, **{name: new})
    if isinstance(expr, (ir.Unary, ir.Cast, ir.Reinterpret)):
        a = change(expr.a, facts)
        return expr if a is expr.a else _unary(expr, a)
    return expr


def _unary(expr: ir.Unary | ir.Cast | ir.Reinterpret, a: ir.Expr) -> ir.Expr:
    if isinstance(expr, ir.Unary):
        return ir.unary(expr.op, a)
    return ir.cast(a, expr.dtype) if isinstance(expr, ir.Cast) else ir.Reinterpret(a, expr.dtype)


def _binary(expr: ir.Binary, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """A constant goes to the right where the operator allows it."""
    op = expr.op
    if type(a) is ir.Const and type(b) is not ir.Const and domain(a.dtype) and OPERATORS[op].mirrored:
        a, b, op = b, a, OPERATORS[op].mirrored
    elif a is expr.a and b is expr.b:
        return expr
    return ir.binary(op, a, b)


def _argument(arg: ir.Argument, facts: RangeFacts, change: Callable[[ir.Expr, RangeFacts], ir.Expr]) -> ir.Argument:
    if isinstance(arg, tuple):
        parts = tuple(_argument(part, facts, change) for part in arg)
        return parts if any(map(operator.is_not, parts, arg)) else arg
    return change(arg, facts) if isinstance(arg, ir.Expr) else arg
