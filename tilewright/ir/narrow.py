"""Implicit conversions: a value brought to the type of the place where it goes, if nothing of it is lost.

A literal must be a number of that type, an integer stays one and keeps its bits. Floats are rounded to the place's
precision. What C does beyond that is written: ``T.cast(x, "int32")``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from tilewright.dtypes import INT32, INT64, DType, dtype
from tilewright.errors import KernelError
from tilewright.ir.expr import is_being_parsed
from tilewright.ir.intervals import limits

if TYPE_CHECKING:
    from tilewright.ir.expr import Number


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
