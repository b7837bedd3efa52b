"""What a layout may ask about its numbers, so that an int, a NumPy array and an expression walk the same code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeAlias

import numpy as np

from tilewright.errors import LayoutError, described
from tilewright.public import Kind, Public, instances, plain_number, sequence_of

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
    if type(value) is int:
        return value
    return int(value) if isinstance(value, int | np.integer) else None


def are_equal(a: Value, b: Value, facts: Facts) -> bool:
    """Are both proven to be the same number? Of ints nobody is asked."""
    return bool(a == b) if type(a) is int is type(b) else facts.equal(a, b)


def simplified(value: Value, facts: Facts) -> Value:
    """The same number in a simpler form, as an int has it already."""
    return value if type(value) is int else facts.simplify(value)


def _is_symbolic(value: object) -> bool:
    """Is the value an expression: it has the operators of an integer and is no array?"""
    kind = type(value)
    return hasattr(kind, "__floordiv__") and hasattr(kind, "__xor__") and not hasattr(kind, "__array__")


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray) and value.dtype == np.int64


def _plain_index(value: Any) -> Any:
    """An index in NumPy's type that computes without wrapping; all else as it is."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "iu":
        wide = value.astype(np.int64)
        return value if wide.dtype != value.dtype and (wide < 0).any() != (value < 0).any() else wide
    return plain_number(value)


NUMBER = Kind(
    "an int or an integer expression", lambda value: isinstance(value, int) or _is_symbolic(value), plain_number
)
INDEX = Kind(
    "an int, an integer expression or a NumPy array of ints", lambda v: NUMBER.fits(v) or _is_array(v), _plain_index
)
ASKED = tuple(name for name in vars(Facts) if not name.startswith("_"))


def _is_region(value: object) -> bool:
    pairs = isinstance(value, tuple | list) and all(isinstance(pair, tuple | list) for pair in value)
    return pairs and all(len(pair) == 2 and all(map(NUMBER.fits, pair)) for pair in value)  # type: ignore[attr-defined]


def _are_ends(value: object) -> bool:
    return isinstance(value, tuple | list) and _is_region([pair for pair in value if not isinstance(pair, range)])


public = Public(
    LayoutError,
    {
        "Value": NUMBER,
        **dict.fromkeys(("*coord: Value", "value: Value", "**inputs: Value"), INDEX),
        "thread: Any": Kind(INDEX.allowed, lambda v: INDEX.fits(v) or INDEX.fits(_plain_index(v))),  # of its own type
        "coord: Sequence[Value]": sequence_of(INDEX),
        "Table": instances("what `table` made", dict),
        "Facts": Kind(
            "INTS, or what answers " + ", ".join(ASKED), lambda v: all(hasattr(type(v), name) for name in ASKED)
        ),
        "Ends": Kind("(begin, end) or a range for each dimension: [(0, 8), range(16, 32)]", _are_ends, plain_number),
        "Region": Kind("(start, extent) for each dimension: [(0, 8), (16, 16)]", _is_region, plain_number),
    },
    inside=True,
)
"""The decorator of this room's public functions."""


def checked(value: Value, what: str, kind: Kind = NUMBER) -> Value:
    """A value that a layout may hold: an int or an expression. Raises LayoutError for what is none."""
    number = as_int(value)
    if number is not None:
        return number
    if not kind.fits(value):
        raise LayoutError(f"{what} must be an integer", given=described(value), allowed=kind.allowed)
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
