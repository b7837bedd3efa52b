"""Numbers: which of them a dtype holds, what operators give on them, and the value of an expression made of them.

Integers are exact here and wrap when the constant is built; ``//`` and ``%`` floor, as Python's do. Floats round once,
to their dtype.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import ml_dtypes
import numpy as np

from tilewright.dtypes import INT32, INT64, DType, dtype
from tilewright.errors import KernelError
from tilewright.ir.expr import Binary, Cast, Const, Expr, Number, Select, Special, Unary, Value, Var, is_being_parsed
from tilewright.ir.intervals import limits
from tilewright.ir.operators import DIVISIONS, OPERATORS, SHIFTS, UNARY


def const(value: Number, kind: DType) -> Const:
    """A constant of this dtype: integers wrap into its range, floats are rounded to it."""
    if kind.is_float:
        return Const(rounded(float(value), kind), kind)
    if kind.kind == "bool":
        return Const(bool(value), kind)
    value, size = int(value), 1 << kind.bits
    half = 0 if kind.kind == "uint" else size >> 1
    return Const((value + half) % size - half, kind)


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
    low, high, *_ = limits(kind)
    return low if value <= low else high if value >= high else int(value)


def fold(op: str, values: tuple[Number, ...], kind: DType) -> Number | None:
    """The value of ``op`` on constants of dtype ``kind`` (for ``cast``: to it), or None where run time must decide."""
    if op == "cast":
        return _cast(values[0], kind)
    if kind.lanes != 1:
        return None
    if len(values) == 1:
        return UNARY[op].number(values[0])  # type: ignore[no-any-return]  # of Python numbers
    row = OPERATORS[op]
    if row.kind == "comparison":
        return bool(row.number(*values))
    if op in (*DIVISIONS, "/") and not values[1]:
        return None
    if op in SHIFTS and not 0 <= values[1] < kind.bits:
        return None
    if kind.is_float:
        return rounded(row.number(*values), kind) if op not in DIVISIONS and all(map(math.isfinite, values)) else None
    return int(row.number(*map(int, values)))


# Which numbers a dtype holds. A literal of a kernel must be a number of its type, but for the rounding of a float.


def check_number(value: Number, kind: DType, place: str = "") -> None:
    """Raises KernelError for a number of a kernel's text that ``kind`` cannot hold. place: what is of that type.

    Passes compute modulo the type, so that only the parse of a kernel asks.
    """
    if not is_being_parsed() or fits(value, kind.element):
        return
    raise KernelError(
        f"{place} is {kind}, which {value} does not fit" if place else f"{value} does not fit {kind}",
        given=f"{value}",
        allowed=range_of(kind),
        hint=f'T.cast({value}, "{kind}")' if place or kind.is_float else _wider(int(value), kind),
    )


def fits(value: Number, kind: DType) -> bool:
    """Is it a number of this type, but for the rounding of a float?"""
    if kind.kind in ("bool", "handle"):
        return True
    if not kind.is_float:
        low, high, *_ = limits(kind)
        return low <= value <= high
    if isinstance(value, float) and not math.isfinite(value):
        return True
    try:
        number = np.float64(value)
    except OverflowError:  # an integer beyond float64
        return False
    with np.errstate(all="ignore"):
        rounded = float(number.astype(kind.numpy).astype(np.float64))
    return math.isfinite(rounded) and bool(abs(rounded) >= abs(number) or abs(number) <= largest_float(kind))


def largest_float(kind: DType) -> float:
    """The largest finite number of a float dtype."""
    return float(ml_dtypes.finfo(kind.numpy).max)  # type: ignore[no-untyped-call]  # of a library without types


def range_of(kind: DType) -> str:
    """The numbers of this type, in words."""
    if kind.is_float:
        return f"{-largest_float(kind):g} to {largest_float(kind):g}, and rounding to them"
    low, high, *_ = limits(kind)
    return f"{low} to {high}"


def _wider(value: int, kind: DType) -> str | None:
    """The number as a constant of a type that holds it; in C's way where an unsigned operand meets a negative one."""
    if kind.kind == "uint" and value < 0:
        return f'T.cast({value}, "{kind}")'
    holder = next((wide for wide in (INT32, INT64, dtype("uint64")) if fits(value, wide)), None)
    return f"T.{holder}({value})" if holder is not None else None


# The value of an expression, given those of its variables: what ``T.assume``, grids and extents need on the host.


def evaluate(value: Value, env: Mapping[str, Number]) -> Number:
    """The number that ``value`` is where its variables (and special registers) have the values of ``env``, by name.

    In the arithmetic of its dtypes: int32 wraps, ``//`` floors, floats round once an operation.
    Raises KernelError for a name that ``env`` lacks, a division by zero, a load or a call.
    """
    if not isinstance(value, Expr):
        return value
    if isinstance(value, Const):
        return value.value
    if isinstance(value, (Var, Special)):
        if value.name not in env:
            raise KernelError(f"the value of {value.name} is not known here", given=str(value), allowed=", ".join(env))
        return const(env[value.name], value.dtype).value
    if isinstance(value, Select):
        return evaluate(value.a if evaluate(value.cond, env) else value.b, env)
    if isinstance(value, Binary) and value.op in ("and", "or"):
        return _logic(value, env)
    if isinstance(value, (Binary, Unary, Cast)):
        return _folded(value, env)
    raise KernelError(f"`{value}` has no value outside of a running kernel", given=str(value))


def _logic(value: Binary, env: Mapping[str, Number]) -> bool:
    """The right side counts only where the left one does not decide."""
    left = bool(evaluate(value.a, env))
    return bool(evaluate(value.b, env)) if left == (value.op == "and") else left


def _folded(value: Binary | Unary | Cast, env: Mapping[str, Number]) -> Number:
    op = "cast" if isinstance(value, Cast) else value.op
    operands = (value.a, value.b) if isinstance(value, Binary) else (value.a,)
    numbers = tuple(evaluate(operand, env) for operand in operands)
    result = fold(op, numbers, value.dtype if op == "cast" else value.a.dtype)
    if result is None:
        raise KernelError(f"`{value}` has no value", given=", ".join(map(str, numbers)), allowed="no division by zero")
    return const(result, value.dtype).value
