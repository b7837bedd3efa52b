"""Choices: ``a if c else b``, ``and``, ``or`` and chains of comparisons, which may leave a part unevaluated.

A part that needs statements gets a branch of its own; one that is an expression stays one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial

import numpy as np

from tilewright.dtypes import BOOL
from tilewright.ir import Assign, Computed, Expr, If, binary, cast, select
from tilewright.lang.expressions import compared, known_truth
from tilewright.lang.moments import OpenBlock
from tilewright.lang.parser import Parser, expression

__all__ = ["condition"]


@expression(ast.IfExp)
def conditional(parser: Parser, node: ast.IfExp) -> object:
    cond = condition(parser, node.test)
    known = known_truth(parser, cond)
    if known is not None:
        return parser.eval(node.body if known else node.orelse)
    then, orelse = (_aside(parser, partial(parser.eval, part)) for part in (node.body, node.orelse))
    return _chosen(parser, cond, then, orelse)


@expression(ast.BoolOp)
def logic(parser: Parser, node: ast.BoolOp) -> object:
    """``and`` and ``or`` as values: the first operand that decides, else the last one."""
    return _logic(parser, node, parser.eval)


def condition(parser: Parser, node: ast.expr) -> object:
    """An expression whose truth alone is used: ``and`` and ``or`` of numbers are run-time logic here."""
    if not isinstance(node, ast.BoolOp):
        return parser.eval(node)

    def truth(part: ast.expr) -> object:
        value = condition(parser, part)
        return cast(value, BOOL) if isinstance(value, Expr) else value

    return _logic(parser, node, truth)


def _logic(parser: Parser, node: ast.BoolOp, value_of: Callable[[ast.expr], object]) -> object:
    goes_on = isinstance(node.op, ast.And)
    result = value_of(node.values[0])
    for part in node.values[1:]:
        known = known_truth(parser, result)
        if known is None:
            right, block = _aside(parser, partial(value_of, part))
            result = _joined(parser, "and" if goes_on else "or", result, right, block)
        elif known == goes_on:
            result = value_of(part)
    return result


def _joined(parser: Parser, symbol: str, left: object, right: object, block: OpenBlock) -> object:
    """``left and right``: logic where both are conditions, else the operand that Python would give."""
    both = all(isinstance(v, (bool, np.bool_)) or (isinstance(v, Expr) and v.dtype == BOOL) for v in (left, right))
    if both and not block and not block.has_bindings:
        made = binary(symbol, left, right)  # type: ignore[arg-type]  # both are conditions
        parser.builder.chose(made, block)
        return made
    nothing = OpenBlock()
    sides = ((right, block), (left, nothing)) if symbol == "and" else ((left, nothing), (right, block))
    return _chosen(parser, left, *sides)


def _aside(parser: Parser, make: Callable[[], object]) -> tuple[object, OpenBlock]:
    """A value that may not be evaluated, with the statements that it takes."""
    builder = parser.builder
    with builder.aside() as block:
        value = make()
        if isinstance(value, Expr):
            value = builder.tried(value)
    return value, block


def _chosen(parser: Parser, cond: object, then: tuple[object, OpenBlock], orelse: tuple[object, OpenBlock]) -> object:
    """``then if cond else orelse``: an expression where that is enough, else a branch that sets a scalar."""
    builder, (a, before_a), (b, before_b) = parser.builder, then, orelse
    made = select(cond, a, b)  # type: ignore[arg-type]  # select refuses what is no value
    if not any(block or block.has_bindings for block in (before_a, before_b)):
        for block in (before_a, before_b):
            builder.chose(made, block)
        return made
    at, test = builder.at, builder.settled(cast(cond, BOOL))  # type: ignore[arg-type]
    var = builder.bind("chosen", cast(0, made.dtype), mutable=True)
    yes, no = ((*block, Assign(var, cast(value, made.dtype), at=at)) for value, block in (then, orelse))  # type: ignore[arg-type]
    builder.emit(If(test, yes, no, at=at))
    return var


@expression(ast.Compare)
def comparison(parser: Parser, node: ast.Compare) -> object:
    """Comparisons; a chain ``a < b < c`` is ``a < b and b < c``, of tiles ``(a < b) & (b < c)``."""
    left = parser.eval(node.left)
    right = parser.eval(node.comparators[0])
    result = compared(node.ops[0], left, right)
    for op, part in zip(node.ops[1:], node.comparators[1:], strict=True):
        left = right
        if not isinstance(result, Expr):
            right = parser.eval(part)
            if isinstance(result, Computed):
                result = Computed.of("&", result, compared(op, left, right))
            else:
                result = result and compared(op, left, right)
            continue
        right, block = _aside(parser, partial(parser.eval, part))
        result = _joined(parser, "and", result, compared(op, left, right), block)
    return result
