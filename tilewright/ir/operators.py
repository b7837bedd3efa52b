"""The table of operators: what each means on numbers, on arrays and on ranges, and how Python and C++ write it.

Folding, evaluation, range facts, the printers, the dispatcher, the CUDA emitter and the simulator read its columns.
Integers are exact where they are Python's, and wrap when they are stored; arrays wrap by themselves. ``//`` and ``%``
floor, as Python's do.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeAlias

import numpy as np

from tilewright.ir import intervals
from tilewright.ir.intervals import Interval, strided

Value: TypeAlias = Any  # a Python number or an array

DIVIDED_BY_ZERO = -1
"""What `DIVISIONS` give for integers where the divisor is zero: all bits set. So do div and rem of every width on an
H200 (tests/gpu). The smallest integer by -1 is itself, the remainder 0; shifts by the width or more leave the sign."""


def _defined(divide: Callable[[Value, Value], Value]) -> Callable[[Value, Value], Value]:
    """``divide`` with the hardware's answer where integers are divided by zero."""

    @wraps(divide)
    def divided(a: Value, b: Value) -> Value:
        if isinstance(a, int) and isinstance(b, int):
            return divide(a, b) if b else DIVIDED_BY_ZERO
        quotients, zero = np.asarray(divide(a, b)), np.equal(b, 0)
        if not zero.any() or quotients.dtype.kind not in "iu":
            return quotients
        return np.where(zero, np.array(DIVIDED_BY_ZERO).astype(quotients.dtype), quotients)

    return divided


@_defined
def floor_div(a: Value, b: Value) -> Value:
    """``a // b`` rounded down."""
    return a // b if isinstance(a, int) and isinstance(b, int) else np.floor_divide(a, b)


@_defined
def floor_mod(a: Value, b: Value) -> Value:
    """``a % b``, with the sign of ``b``."""
    return a % b if isinstance(a, int) and isinstance(b, int) else np.mod(a, b)


@_defined
def trunc_div(a: Value, b: Value) -> Value:
    """``a / b`` as C divides integers: towards zero."""
    if isinstance(a, int) and isinstance(b, int):
        return (abs(a) // abs(b)) * (-1 if (a < 0) != (b < 0) else 1)
    whole, rest = np.floor_divide(a, b), np.mod(a, b)
    return np.add(whole, ((rest != 0) & (np.less(a, 0) != np.less(b, 0))).astype(np.asarray(whole).dtype))


@_defined
def trunc_mod(a: Value, b: Value) -> Value:
    """C's ``a % b``, with the sign of ``a``."""
    return a - b * trunc_div(a, b) if isinstance(a, int) and isinstance(b, int) else np.fmod(a, b)


def shift_left(a: Value, b: Value) -> Value:
    """``a << b`` of Python numbers. A shift by the width or more gives 0, as the hardware does."""
    return a << b if 0 <= b < 64 else 0


def shift_right(a: Value, b: Value) -> Value:
    """``a >> b`` of Python numbers; what is left of it after the width is the sign."""
    return a >> (b if 0 <= b < 64 else 64)


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of two operands; of one, only what can apply.

    word: its name within identifiers. number, array: the meaning on Python numbers and on arrays. ranges: on
    intervals of ideal integers, None where it knows nothing. precedence: in Python, 0 for what is written as a call.
    cuda: the symbol in C++. neutral: the integer that changes nothing on the right. mirrored: the operator that gives
    the same with its operands exchanged. negated: the comparison that holds where this one does not.
    """

    symbol: str
    kind: str
    word: str
    number: Callable[..., Value]
    array: Callable[..., Value]
    ranges: Callable[[Interval, Interval], Interval | None] | None = None
    precedence: int = 0
    cuda: str = ""
    neutral: int | None = None
    mirrored: str = ""
    negated: str = ""

    @property
    def commutes(self) -> bool:
        """May its operands be exchanged?"""
        return self.mirrored == self.symbol


_ROWS = (
    Operator("+", "arithmetic", "add", operator.add, operator.add, Interval.plus, 9, "+", 0, "+"),
    Operator("-", "arithmetic", "sub", operator.sub, operator.sub, intervals.minus, 9, "-", 0),
    Operator("*", "arithmetic", "mul", operator.mul, operator.mul, intervals.times, 10, "*", 1, "*"),
    Operator("/", "arithmetic", "div", operator.truediv, np.divide, None, 10, "/"),
    Operator("//", "arithmetic", "floor_div", floor_div, floor_div, intervals.floordiv, 10, "/", 1),
    Operator("%", "arithmetic", "floor_mod", floor_mod, floor_mod, intervals.mod, 10, "%"),
    Operator("truncdiv", "arithmetic", "trunc_div", trunc_div, trunc_div, intervals.truncdiv, 0, "/"),
    Operator("truncmod", "arithmetic", "trunc_mod", trunc_mod, trunc_mod, intervals.truncmod, 0, "%"),
    Operator("min", "arithmetic", "min", min, np.minimum, intervals.minimum, mirrored="min"),
    Operator("max", "arithmetic", "max", max, np.maximum, intervals.maximum, mirrored="max"),
    Operator("&", "bits", "and", operator.and_, operator.and_, intervals.bit_and, 7, "&", mirrored="&"),
    Operator("|", "bits", "or", operator.or_, operator.or_, intervals.bit_or, 5, "|", 0, "|"),
    Operator("^", "bits", "xor", operator.xor, operator.xor, intervals.bit_xor, 6, "^", 0, "^"),
    Operator("<<", "bits", "shl", shift_left, operator.lshift, intervals.times, 8, "<<", 0),
    Operator(">>", "bits", "shr", shift_right, operator.rshift, intervals.floordiv, 8, ">>", 0),
    Operator("==", "comparison", "eq", operator.eq, operator.eq, intervals.equal, 4, "==", None, "==", "!="),
    Operator("!=", "comparison", "ne", operator.ne, operator.ne, intervals.unequal, 4, "!=", None, "!=", "=="),
    Operator("<", "comparison", "lt", operator.lt, operator.lt, intervals.less, 4, "<", None, ">", ">="),
    Operator("<=", "comparison", "le", operator.le, operator.le, intervals.at_most, 4, "<=", None, ">=", ">"),
    Operator(">", "comparison", "gt", operator.gt, operator.gt, intervals.greater, 4, ">", None, "<", "<="),
    Operator(">=", "comparison", "ge", operator.ge, operator.ge, intervals.at_least, 4, ">=", None, "<=", "<"),
    Operator("and", "logic", "and", min, np.logical_and, intervals.minimum, 2, "&&"),
    Operator("or", "logic", "or", max, np.logical_or, intervals.maximum, 1, "||"),
)
OPERATORS = {row.symbol: row for row in _ROWS}
UNARY = {
    row.symbol: row
    for row in (
        Operator("-", "arithmetic", "neg", operator.neg, np.negative, precedence=12, cuda="-"),
        Operator("~", "bits", "not", lambda a: ~int(a), np.invert, precedence=12, cuda="~"),
        Operator("not", "logic", "not", operator.not_, np.logical_not, precedence=3, cuda="!"),
    )
}


SYMBOLS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.And: "and", ast.Or: "or", ast.USub: "-", ast.Invert: "~", ast.Not: "not",
}  # fmt: skip
"""The operators by the classes of Python's syntax tree."""


def of_kind(kind: str) -> tuple[str, ...]:
    """The operators of two operands that are arithmetic, bits, comparison or logic."""
    return tuple(row.symbol for row in _ROWS if row.kind == kind)


RING = ("+", "-", "*")
MODULAR = (*RING, "<<")
"""The low bits of the result depend only on the low bits of the operands."""
SHIFTS = ("<<", ">>")
DIVISIONS = ("//", "%", "truncdiv", "truncmod")


def transfer(op: str, a: Interval, b: Interval, bits: int) -> Interval | None:
    """The ideal values of ``x op y`` for x in ``a`` and y in ``b``; None where nothing is known.

    bits: of an operand. A shift by so many or more means nothing, and so nothing is known of it.
    """
    ranges = OPERATORS[op].ranges
    if ranges is None:
        return None
    if op in SHIFTS:
        return ranges(a, strided(1 << b.low, 1 << b.high)) if b.low >= 0 and b.high < bits else None
    return ranges(a, b)
