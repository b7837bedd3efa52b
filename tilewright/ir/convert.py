"""Conversions that a place asks for: a value as the type of the scalar, element or operand that it goes to.

Integers keep their value and floats stay floats, rounded to the precision of the place. What C does beyond that is
written: ``T.cast(x, "int32")``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from tilewright.dtypes import HANDLE, DType, keeps
from tilewright.errors import KernelError
from tilewright.ir.build import cast
from tilewright.ir.expr import Const, Expr, Value, is_being_parsed
from tilewright.ir.intervals import Interval, domain, limits
from tilewright.ir.numbers import check_number
from tilewright.ir.ranges import RangeFacts


def converted(
    value: Value,
    kind: DType,
    place: str,
    hint: str | None = None,
    ranges: Mapping[str, Interval] = MappingProxyType({}),
) -> Expr:
    """``value`` as ``kind``, the type of ``place``. ranges: of variables, which may show that an integer fits.

    Raises KernelError where a float would become an integer, or where an integer may not fit.
    """
    number = value.value if isinstance(value, Const) else value
    result = cast(value, kind)
    if not is_being_parsed() or (isinstance(value, Expr) and value.dtype == kind):
        return result
    if isinstance(number, Expr):
        lost = not keeps(number.dtype, kind) and not _is_inside(number, kind, ranges)
    elif _is_float(number) and not kind.is_float and kind != HANDLE:
        lost = True
    else:
        check_number(number, kind, place)
        lost = False
    if lost:
        raise KernelError(
            f"{place} is {kind}",
            given=f"`{value}`, {number.dtype if isinstance(number, Expr) else 'a float'}",
            allowed=f"a value that {kind} holds, or a conversion that is written",
            hint=hint or f'T.cast({value}, "{kind}")',
        )
    return result


def _is_float(value: Value) -> bool:
    return not isinstance(value, (bool, np.bool_)) and not hasattr(value, "__index__")


def _is_inside(value: Expr, kind: DType, ranges: Mapping[str, Interval]) -> bool:
    """Does an integer type hold every value that ``value``, an integer, is known to have?"""
    is_known = domain(value.dtype) == "int" and kind.is_integer
    return is_known and RangeFacts(ranges).interval(value).inside(limits(kind))
