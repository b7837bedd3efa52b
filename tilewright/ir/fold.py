"""Constant folding: what an operator gives on Python numbers, in the arithmetic of a dtype.

Integers are exact here and wrap when the constant is built; ``//`` and ``%`` floor, as Python's do. Floats round once,
to their dtype. None means "leave it to run time" (a division by zero, a shift out of range).
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from tilewright.dtypes import DType

__all__ = ["DIVIDED_BY_ZERO", "DIVISIONS", "fold", "rounded"]

Number: TypeAlias = "int | float | bool"

DIVISIONS = ("//", "%", "truncdiv", "truncmod")
DIVIDED_BY_ZERO = -1
"""What each of these gives for integers where the divisor is zero: all bits set. So do div and rem of every width on an
H200 (tests/gpu). The smallest integer by -1 is itself, the remainder 0; shifts by the width or more leave the sign."""


def _truncdiv(a: int, b: int) -> int:
    return -(-a // b) if (a < 0) != (b < 0) else a // b


_INTEGER: dict[str, Callable[..., Number]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "truncdiv": _truncdiv,
    "truncmod": lambda a, b: a - b * _truncdiv(a, b),
    "min": min,
    "max": max,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
}
_COMPARE: dict[str, Callable[..., bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FLOAT: dict[str, Callable[..., Number]] = {
    **{op: _INTEGER[op] for op in ("+", "-", "*", "min", "max")},
    "/": operator.truediv,
}
_UNARY: dict[str, Callable[[Number], Number]] = {"-": operator.neg, "~": lambda a: ~int(a), "not": operator.not_}


def rounded(value: float, kind: DType) -> float:
    """The number of dtype ``kind`` next to ``value``, ties to even; an infinity or NaN where it is too large."""
    if kind.numpy == np.float64:
        return value
    with np.errstate(all="ignore"):
        return float(np.asarray(value, np.float64).astype(kind.numpy).astype(np.float64))


def _cast(value: Number, kind: DType) -> Number | None:
    if kind.is_float:
        number = rounded(float(value), kind)
        too_large = math.isfinite(value) and not math.isfinite(number)
        return None if too_large and kind.value_bits < 16 else number  # narrow dtypes differ in what they do then
    if kind.kind == "bool":
        return bool(value)
    if not isinstance(value, float):
        return int(value)
    if math.isnan(value):
        return 0
    low, high = (-(1 << kind.bits - 1), (1 << kind.bits - 1) - 1) if kind.is_signed else (0, (1 << kind.bits) - 1)
    return low if value <= low else high if value >= high else int(value)


def fold(op: str, values: tuple[Number, ...], kind: DType) -> Number | None:
    """The value of ``op`` on constants of dtype ``kind`` (for ``cast``: to it), or None where run time must decide."""
    if op == "cast":
        return _cast(values[0], kind)
    if kind.lanes != 1:
        return None
    if len(values) == 1:
        return _UNARY[op](values[0])
    if op in _COMPARE:
        return _COMPARE[op](*values)
    if op in (*DIVISIONS, "/") and not values[1]:
        return None
    if op in ("<<", ">>") and not 0 <= values[1] < kind.bits:
        return None
    if kind.is_float:
        return rounded(_FLOAT[op](*values), kind) if op in _FLOAT and all(map(math.isfinite, values)) else None
    return _INTEGER[op](*map(int, values))
