"""Constant folding: what an operator gives on Python numbers, in the arithmetic of a dtype.

Integers are exact here and wrap when the constant is built; ``//`` and ``%`` floor, as Python's do. Floats round once,
to their dtype. None means "leave it to run time" (a division by zero, a shift out of range).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tilewright.ir.intervals import limits
from tilewright.ir.operators import DIVISIONS, OPERATORS, SHIFTS, UNARY

if TYPE_CHECKING:
    from tilewright.dtypes import DType

Number: TypeAlias = "int | float | bool"


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
