"""What a layout may ask about its numbers, so that an int, a NumPy array and an expression walk the same code."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Number
from typing import Any, Protocol, TypeAlias

import numpy as np

from tilewright.errors import LayoutError

__all__ = ["INTS", "Facts", "Value", "as_int", "checked", "listed", "plus", "product", "times"]

Value: TypeAlias = Any
"""An int, a NumPy array of ints or an expression: anything with ``+ - * // % & ^ << >>``.

`Any`, because the room knows expressions by their operators alone and NumPy's operators are typed no closer.
"""


class Facts(Protocol):
    """What is known of symbolic values. Each question answers True only where it is *proven*."""

    def divides(self, n: Value, value: Value) -> bool:
        """Is ``value`` a multiple of ``n``?"""
        ...

    def equal(self, a: Value, b: Value) -> bool:
        """Are both the same number, whatever the variables are?"""
        ...

    def less(self, a: Value, b: Value) -> bool:
        """Is ``a < b``?"""
        ...

    def simplify(self, value: Value) -> Value:
        """The same number in a simpler form; an int where it is constant."""
        ...


class _Ints:
    """Exact for ints; an expression equals itself, and nothing else is known of it."""

    def divides(self, n: Value, value: Value) -> bool:
        divisor, number = as_int(n), as_int(value)
        if divisor is not None and number is not None:
            return divisor != 0 and number % divisor == 0
        return divisor == 1 or number == 0 or self.equal(n, value)

    def equal(self, a: Value, b: Value) -> bool:
        return a is b or bool(a == b)

    def less(self, a: Value, b: Value) -> bool:
        low, high = as_int(a), as_int(b)
        return low is not None and high is not None and low < high

    def simplify(self, value: Value) -> Value:
        number = as_int(value)
        return value if number is None else number


INTS: Facts = _Ints()


def as_int(value: Value) -> int | None:
    """The Python int that a value is, or None for an expression."""
    return int(value) if isinstance(value, int | np.integer) else None


def checked(value: Value, what: str, *, arrays: bool = False) -> Value:
    """A value that a layout may hold: an int or an expression; of coordinates, also arrays of ints.

    Raises LayoutError for a float, a string, None and whatever else has no integer arithmetic.
    """
    number = as_int(value)
    if number is not None:
        return number
    if isinstance(value, np.ndarray) and arrays and value.dtype.kind in "iu":
        return value
    if isinstance(value, Number | np.generic | np.ndarray) or not hasattr(type(value), "__floordiv__"):
        raise LayoutError(f"{what} must be an integer", given=repr(value), allowed="an int or an integer expression")
    return value


def listed(values: Iterable[Value]) -> str:
    """A shape or a coordinate as text: expressions as they are written, not as they are represented."""
    return f"({', '.join(map(str, values))})"


def plus(a: Value, b: Value) -> Value:
    """``a + b``, without writing a zero into an expression."""
    if as_int(a) == 0:
        return b
    return a if as_int(b) == 0 else a + b


def times(a: Value, b: Value) -> Value:
    """``a * b``, without writing a factor of one or zero into an expression."""
    if as_int(a) == 1 or as_int(b) == 0:
        return b
    return a if as_int(b) == 1 or as_int(a) == 0 else a * b


def product(values: Iterable[Value]) -> Value:
    """The product, 1 for none."""
    total: Value = 1
    for value in values:
        total = times(total, value)
    return total
