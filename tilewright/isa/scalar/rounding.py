"""float64 rounded in any direction, from an exact value: ``(high + low) * 2**exponent``, low below half a last place.

NumPy rounds to nearest alone. Sums, products, quotients and roots are known exactly by what a rounded result leaves
over (Knuth, Dekker), on operands that are scaled so that nothing over- or underflows; then the neighbour is taken where
the rounding says so. Source: PTX ISA, "Floating Point Instructions: Rounding Modifiers".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.isa.fma import sum_to_odd, two_product, two_sum
from tilewright.isa.types import Numbers

_TINY = 2.0**-600  # stands for whatever is too small to matter but for its sign


def _placed(high: Numbers, low: Numbers, exponent: Numbers, rounding: str) -> Numbers:
    """The float64 that the exact value rounds to; high is 0, or about 1."""
    near = np.ldexp(high, exponent)  # rounded once more where it is subnormal, infinite where it is too large
    back = np.where(np.isinf(near), np.copysign(2.0, high) * 2.0**1022, near)
    back = np.ldexp(np.where(np.isinf(near), back, near), -exponent)
    rest = high - back
    above, below = rest > -low, rest < -low  # the exact value lies above, below `near`
    up, down = np.nextafter(near, np.inf), np.nextafter(near, -np.inf)
    lower, upper = np.where(below, down, near), np.where(above, up, near)
    if rounding != "rn":
        result: Numbers = {"rm": lower, "rp": upper, "rz": np.where(np.signbit(high), upper, lower)}[rounding]
        return np.where(np.isinf(near), _beyond(near, rounding), result)
    other: Numbers = np.where(above, up, down)
    beside = np.ldexp(other, -exponent)
    away = np.abs(rest) - np.abs(beside - high) + np.where(above, low, -low) * 2
    even = (other.view(np.int64) & 1) == 0
    moves = (above | below) & np.isfinite(near) & ((away > 0) | ((away == 0) & even))
    return np.where(moves & np.isfinite(other), other, near)


def _beyond(infinite: Numbers, rounding: str) -> Numbers:
    """An overflow: infinite, or the largest number, where the rounding turns back."""
    largest = np.finfo(np.float64).max
    ways: dict[str, Numbers] = {"rz": np.ones_like(infinite, bool), "rm": infinite > 0, "rp": infinite < 0}
    turns = ways[rounding]
    return np.where(turns, np.copysign(largest, infinite), infinite)


def _split(x: Numbers) -> tuple[Numbers, Numbers]:
    fraction, exponent = np.frexp(x)
    return fraction, exponent.astype(np.int64)


def _usual(plain: Numbers, exact: Callable[[], Numbers], *values: Numbers) -> Numbers:
    """What the plain operation gives where an operand is no number, infinite, or zero times something is zero."""
    usual = np.isfinite(values[0])
    for value in values[1:]:
        usual = usual & np.isfinite(value)
    return np.where(usual, exact(), plain)


def _product(a: Numbers, b: Numbers, rounding: str) -> Numbers:
    if rounding == "rn":
        return a * b

    def exact() -> Numbers:
        (x, p), (y, q) = _split(a), _split(b)
        high, low = two_product(x, y)
        return np.where((a == 0) | (b == 0), a * b, _placed(high, low, p + q, rounding))

    return _usual(a * b, exact, a, b)


def _zero_sum(total: Numbers, rounding: str, *terms: Numbers) -> Numbers:
    """A sum that cancels out is +0, and -0 where it is rounded down; zeros of one sign keep it."""
    negative = np.ones_like(total, bool)
    positive = np.ones_like(total, bool)
    for term in terms:
        negative, positive = negative & np.signbit(term), positive & ~np.signbit(term)
    sign = np.where(negative, -1.0, np.where(positive | (rounding != "rm"), 1.0, -1.0))
    return np.where(total == 0, np.copysign(0.0, sign), total)


def _sum(a: Numbers, b: Numbers, rounding: str) -> Numbers:
    if rounding == "rn":
        return a + b

    def exact() -> Numbers:
        top = np.maximum(*(np.where(v == 0, -5000, _split(v)[1]) for v in (a, b)))
        x, y = np.ldexp(a, -top), np.ldexp(b, -top)
        x, y = (np.where((v != 0) & (np.abs(s) < _TINY), np.copysign(_TINY, v), s) for v, s in ((a, x), (b, y)))
        high, low = two_sum(x, y)
        return np.where(high == 0, _zero_sum(np.zeros_like(high), rounding, a, b), _placed(high, low, top, rounding))

    return _usual(a + b, exact, a, b)


def _fused(a: Numbers, b: Numbers, c: Numbers, rounding: str) -> Numbers:
    def exact() -> Numbers:
        (x, p), (y, q), (z, r) = _split(a), _split(b), _split(c)
        nothing = (a == 0) | (b == 0)
        of_product = np.where(nothing, -5000, p + q)
        of_sum = np.where(c == 0, -5000, r)
        top = np.maximum(of_product, of_sum)
        high, low = two_product(x, y)
        high, low = (np.ldexp(v, np.maximum(of_product - top, -2000)) for v in (high, low))
        small = ~nothing & (of_product - top < -700)
        high, low = np.where(small, np.copysign(_TINY, x * y), high), np.where(small, 0.0, low)
        z = np.ldexp(z, np.maximum(of_sum - top, -2000))
        z = np.where((c != 0) & (of_sum - top < -700), np.copysign(_TINY, c), z)
        lead, two = two_sum(np.asarray(z), low)
        head, tail = two_sum(high, lead)
        first, last = two_sum(head, sum_to_odd(tail, two))
        none = (first == 0) & (last == 0)
        return np.where(
            none,
            _zero_sum(np.zeros_like(first), rounding, np.where(nothing, a * b, x * y), c),
            _scaled(first, last, top, rounding),
        )

    plain = np.where(np.isinf(c) & np.isfinite(a) & np.isfinite(b), c, a * b + c)  # a product may be beyond all numbers
    return _usual(plain, exact, a, b, c)


def _scaled(high: Numbers, low: Numbers, exponent: Numbers, rounding: str) -> Numbers:
    """The exact value scaled so that ``high`` is about 1, after a sum that cancelled."""
    fraction, more = _split(high)
    return _placed(fraction, np.ldexp(low, -more), exponent + more, rounding)


def _quotient(a: Numbers, b: Numbers, rounding: str) -> Numbers:
    if rounding == "rn":
        return a / b

    def exact() -> Numbers:
        (x, p), (y, q) = _split(a), _split(np.where(b == 0, 1.0, b))
        near = x / y
        high, low = two_product(near, y)
        rest = ((x - high) - low) / y
        return np.where((a == 0) | (b == 0), a / b, _scaled(near, rest, p - q, rounding))

    return _usual(a / b, exact, a, b)


def _root(a: Numbers, rounding: str) -> Numbers:
    if rounding == "rn":
        return np.sqrt(a)

    def exact() -> Numbers:
        x, p = _split(np.abs(a))
        odd = p & 1
        x, p = np.where(odd != 0, x * 2, x), p - odd
        near = np.sqrt(x)
        high, low = two_product(near, near)
        rest = np.where(a == 0, 0.0, ((x - high) - low) / (2 * np.where(near == 0, 1.0, near)))
        return np.where(a > 0, _scaled(near, rest, p // 2, rounding), np.sqrt(a))

    return _usual(np.sqrt(a), exact, a)


DOUBLE: dict[str, Callable[..., Any]] = {
    "add": _sum,
    "sub": lambda a, b, rounding: _sum(a, -b, rounding),
    "mul": _product,
    "fma": _fused,
    "div": _quotient,
    "rcp": lambda a, rounding: _quotient(np.ones_like(a), a, rounding),
    "sqrt": _root,
}
"""Operations of float64 by their names, each with a rounding."""
