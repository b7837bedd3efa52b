"""Rewriting expressions to a simpler form of the same value, with what the facts know."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING

from tilewright.ir.build import as_expr, binary, cast, const, select, unary
from tilewright.ir.expr import (
    AddressOf,
    Argument,
    Binary,
    Call,
    Cast,
    Component,
    Const,
    Expr,
    Load,
    Reinterpret,
    Select,
    Special,
    Unary,
    Var,
    Vector,
    same,
)
from tilewright.ir.intervals import domain
from tilewright.ir.operators import OPERATORS
from tilewright.ir.rules import rules_for
from tilewright.ir.sums import Sum, is_ring, recombined
from tilewright.ir.walk import walk
from tilewright.records import replace

if TYPE_CHECKING:
    from tilewright.ir.ranges import RangeFacts

MOST_STEPS = 100  # a rule that undoes another would go on for ever; none needs more than a few


class _MeetsCall(Exception):
    """A call may have an effect: what contains one is kept as it is, only its parts are simplified."""


def simplify(expr: Expr, facts: RangeFacts) -> Expr:
    """``expr`` in a simpler form, equal to it for all values that ``facts`` admit; itself where there is none.

    Parts first, then the rules of `tilewright.ir.rules` until none applies. Each node is done once: results are kept in
    ``facts``.
    """
    try:
        return _simplified(expr, facts)
    except _MeetsCall:
        return _with_parts(expr, facts, simplify)


def _simplified(expr: Expr, facts: RangeFacts) -> Expr:
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


def _step(expr: Expr, facts: RangeFacts) -> Expr:
    """Simplify by one step: constants, parts, or the first rule that applies; ``expr`` itself where none does."""
    kind = type(expr)
    if kind is Const:
        return expr
    if kind is Call:
        raise _MeetsCall
    scalar = domain(expr.dtype)
    if scalar and (known := facts.interval(expr)).is_point:
        if any(isinstance(node, Call) for node in walk(expr)):
            raise _MeetsCall
        return const(known.low, expr.dtype)
    if kind is Var or kind is Special:
        return expr
    if scalar == "int" and is_ring(expr):
        return _collected(expr, facts)
    parts = _with_parts(expr, facts, _simplified)
    if parts is not expr:
        return parts
    return _rewritten(expr, facts)


def _collected(expr: Expr, facts: RangeFacts) -> Expr:
    """A sum with its terms simplified and collected; ``expr`` where that changes nothing."""
    total = Sum.of(expr, lambda atom: _simplified(atom, facts))
    joined = recombined(total, expr.dtype, facts)
    result = joined.build(expr.dtype)
    if same(result, expr):
        return expr
    if joined is total and is_ring(result):  # its terms are simplified: nothing is left to do
        facts.simplified[id(result)] = (result, result)
    return result


def _rewritten(expr: Expr, facts: RangeFacts) -> Expr:
    for rule in rules_for(*root_of(expr)):
        result = rule(expr, facts)
        if result is not None:
            return cast(as_expr(result, expr.dtype), expr.dtype)
    return expr


def root_of(expr: Expr) -> tuple[str, str]:
    """Under which operator and domain the rules for a node stand."""
    if isinstance(expr, (Binary, Unary)):
        return expr.op, domain(expr.a.dtype)
    return type(expr).__name__.lower(), domain(expr.dtype)


def _with_parts(expr: Expr, facts: RangeFacts, change: Callable[[Expr, RangeFacts], Expr]) -> Expr:
    """The same node over simplified parts; ``expr`` itself where none changes."""
    if isinstance(expr, Binary):
        return _binary(expr, change(expr.a, facts), change(expr.b, facts))
    if isinstance(expr, Select):
        cond, x, y = change(expr.cond, facts), change(expr.a, facts), change(expr.b, facts)
        return expr if cond is expr.cond and x is expr.a and y is expr.b else select(cond, x, y)
    if isinstance(expr, (Load, AddressOf)):
        indices = tuple(change(index, facts) for index in expr.indices)
        return expr if all(map(operator.is_, indices, expr.indices)) else replace(expr, indices=indices)
    if isinstance(expr, Call):
        args = tuple(_argument(arg, facts, change) for arg in expr.args)
        return expr if all(map(operator.is_, args, expr.args)) else replace(expr, args=args)
    if isinstance(expr, Vector):
        parts = tuple(change(part, facts) for part in expr.parts)
        return expr if all(map(operator.is_, parts, expr.parts)) else replace(expr, parts=parts)
    if isinstance(expr, Component):
        a = change(expr.a, facts)
        return expr if a is expr.a else replace(expr, a=a)
    if isinstance(expr, (Unary, Cast, Reinterpret)):
        a = change(expr.a, facts)
        return expr if a is expr.a else _unary(expr, a)
    return expr


def _unary(expr: Unary | Cast | Reinterpret, a: Expr) -> Expr:
    if isinstance(expr, Unary):
        return unary(expr.op, a)
    return cast(a, expr.dtype) if isinstance(expr, Cast) else Reinterpret(a, expr.dtype)


def _binary(expr: Binary, a: Expr, b: Expr) -> Expr:
    """A constant goes to the right where the operator allows it."""
    op = expr.op
    if type(a) is Const and type(b) is not Const and domain(a.dtype) and OPERATORS[op].mirrored:
        a, b, op = b, a, OPERATORS[op].mirrored
    elif a is expr.a and b is expr.b:
        return expr
    return binary(op, a, b)


def _argument(arg: Argument, facts: RangeFacts, change: Callable[[Expr, RangeFacts], Expr]) -> Argument:
    if isinstance(arg, tuple):
        return tuple(_argument(part, facts, change) for part in arg)
    return change(arg, facts) if isinstance(arg, Expr) else arg
