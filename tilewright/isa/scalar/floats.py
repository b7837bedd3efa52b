"""The meaning of float operations: one rounding, perhaps with subnormals flushed to zero, perhaps clamped to [0, 1].

Every NaN that arithmetic makes is the same one. Half precision is computed in float32 and rounded once, float32 with a
rounding of its own in float64. Source: PTX ISA, "Floating Point Instructions", "Half Precision Floating Point
Instructions".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tilewright.dtypes import dtype
from tilewright.isa.arith import SINGLE, fma_double, fma_narrow, larger, smaller, sum_to_odd, two_product, two_sum
from tilewright.isa.forms import OUTSIDE, TYPES, Numbers

# float64 rounded in any direction, from an exact value: ``(high + low) * 2**exponent``, low below half a last place.
#
# NumPy rounds to nearest alone. Sums, products, quotients and roots are known exactly by what a rounded result leaves
# over (Knuth, Dekker), on operands that are scaled so that nothing over- or underflows; then the neighbour is taken
# where the rounding says so. Source: PTX ISA, "Floating Point Instructions: Rounding Modifiers".

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


def _is_moderate(x: Numbers) -> bool:
    """Is each number zero, or so far from the ends of float64 that no product, and nothing that it leaves, ends?"""
    size = np.abs(x)
    return bool(np.all((size == 0) | ((size > 2.0**-300) & (size < 2.0**300))))


def _fused(a: Numbers, b: Numbers, c: Numbers, rounding: str) -> Numbers:
    if rounding == "rn" and _is_moderate(a) and _is_moderate(b) and _is_moderate(c):
        return np.where((a == 0) | (b == 0) | (c == 0), a * b + c, fma_double(a, b, c))

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

HALF, BRAIN = np.dtype(np.float16), dtype("bfloat16").numpy
_NAN: dict[Any, Any] = {
    HALF: np.uint16(0x7FFF),
    BRAIN: np.uint16(0x7FFF),
    np.dtype(np.float32): np.uint32(0x7FFFFFFF),
    np.dtype(np.float64): np.uint64(0xFFF8000000000000),
}
_EXPONENT: dict[Any, Any] = {
    HALF: np.uint16(0x7C00),
    BRAIN: np.uint16(0x7F80),
    np.dtype(np.float32): np.uint32(0x7F800000),
    np.dtype(np.float64): np.uint64(0x7FF0000000000000),
}
_DIGITS: dict[Any, int] = {HALF: 11, BRAIN: 8, np.dtype(np.float32): 24}  # of a significand
_SIGN: dict[Any, Any] = {kind: np.array(1 << 8 * kind.itemsize - 1, f"u{kind.itemsize}")[()] for kind in _NAN}

_NATIVE: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "fma": fma_narrow,
    "div": np.divide,
    "rcp": lambda a: np.divide(a.dtype.type(1), a),
    "sqrt": np.sqrt,
}


QUIET = np.uint64(1 << 51)


def bits_of(x: Numbers) -> Numbers:
    """The bits of floats."""
    return np.asarray(x).view(f"u{x.dtype.itemsize}")


def canonical(x: Numbers) -> Numbers:
    """Every NaN made the one that arithmetic makes."""
    lost = x != x  # bfloat16 has no fast isnan
    if not np.any(lost):
        return x
    return np.where(lost, _NAN[x.dtype], bits_of(x)).view(x.dtype)


def flushed(x: Numbers) -> Numbers:
    """The numbers, with subnormals made zeros of their sign."""
    bits = bits_of(x)
    return np.where(bits & _EXPONENT[x.dtype] == 0, bits & _SIGN[x.dtype], bits).view(x.dtype)


def saturated(x: Numbers) -> Numbers:
    """The numbers clamped to [0, 1]; NaN and -0 become +0."""
    unit = x.dtype.type(1)
    return np.where(x > 0, np.where(x < unit, x, unit), x.dtype.type(0)).astype(x.dtype)


def _operation(op: str, kind: np.dtype[Any], rounding: str) -> Callable[..., Numbers]:
    if kind.itemsize == 8 and (rounding != "rn" or op == "fma"):
        return lambda *values: DOUBLE[op](*values, rounding=rounding)
    if kind.itemsize == 4 and rounding != "rn":
        return lambda *values: SINGLE[op](*values, rounding=rounding)
    if kind.itemsize > 2:
        return _NATIVE[op]
    if op == "fma":
        return lambda *values: fma_narrow(*(value.astype(np.float32) for value in values)).astype(kind)
    return lambda *values: _NATIVE[op](*(value.astype(np.float32) for value in values)).astype(kind)


def family(meaning: Callable[..., Callable[..., Numbers]]) -> Callable[..., Callable[..., Callable[..., Numbers]]]:
    """A meaning for each value of what it takes before its modifiers."""
    return partial(partial, meaning)


@family
def arithmetic(
    op: str, *, type: str, rnd: str | None = None, ftz: bool = False, sat: bool = False, relu: bool = False, **_: object
) -> Callable[..., Numbers]:
    """The meaning of an operation of floats."""
    run = _operation(op, TYPES[type].numpy, rnd or "rn")
    if type == "f64":
        order = _FAINTEST_FIRST.get(op, (0, 1))
        return lambda *values: carried(run(*values), *(values[k] for k in order[: len(values)]))
    if TYPES[type].numpy.itemsize == 2 and op == "fma":
        run = _half_fma(TYPES[type].numpy)
    if not (ftz or sat or relu):
        return lambda *values: canonical(run(*values))
    flush = flushed if ftz else _same
    after = _after(saturated if sat else positive if relu else _same)
    settle: Callable[..., Numbers] = (
        _settled(op, rnd or "rn") if ftz and op in _WIDE else (lambda result, *values: flush(result))
    )

    def execute(*values: Numbers) -> Numbers:
        inputs = [flush(value) for value in values]
        return after(settle(run(*inputs), *inputs))

    return execute


@family
def out_of_bounds(op: str, *, type: str, **mods: Any) -> Callable[..., Numbers]:
    """The same, but zero where a factor is the NaN, of either sign, that stands for what is outside of a tensor.

    That a sum may be that NaN, and what its sign does, was found on an H200.
    """
    run = arithmetic(op)(type=type, **mods)

    def execute(*values: Numbers) -> Numbers:
        factors = (bits_of(value) & 0x7FFF == OUTSIDE for value in values[:2])
        outside = np.any(np.broadcast_arrays(*factors), axis=0)
        result = run(*values)
        return np.where(outside, np.zeros((), result.dtype), result)

    return execute


@family
def mixed(op: str, *, rnd: str | None = None, sat: bool = False, **_: object) -> Callable[..., Numbers]:
    """The meaning of an operation on narrow numbers and one of 32 bits."""
    run = arithmetic(op)(type="f32", rnd=rnd, sat=sat)
    return lambda *values: run(*(value.astype(np.float32) for value in values))


# Of operands that are all NaN in float64 an H200 keeps the last one of these.
_FAINTEST_FIRST = {"div": (1, 0), "fma": (0, 2, 1)}

_WIDE: dict[str, Callable[..., Any]] = {
    "mul": np.multiply,
    "div": np.divide,
    "rcp": np.reciprocal,
    "fma": lambda a, b, c: sum_to_odd(*np.broadcast_arrays(a * b, c)),
}


def _settled(op: str, rnd: str) -> Callable[..., Numbers]:
    def settle(result: Numbers, *values: Numbers) -> Numbers:
        return flushed_as_rounded(result, lambda: _WIDE[op](*(value.astype(np.float64) for value in values)), rnd)

    return settle


def flushed_as_rounded(result: Numbers, exact: Callable[[], Numbers], rnd: str) -> Numbers:
    """The rounded result, or zero where rounding with unbounded exponents gives less than the smallest normal number.

    Numbers of unbounded exponents are twice as dense there as subnormals: 2^-126 - 2^-150 is one of float32. An H200
    flushes it, and flushes no exact result that rounds to 2^-126. ``exact`` gives the results as float64, before they
    are rounded to the type of ``result``.
    """
    result = flushed(result)
    smallest = _EXPONENT[result.dtype] & -_EXPONENT[result.dtype].astype(np.int32)
    least = bits_of(result) & ~_SIGN[result.dtype] == smallest
    if not np.any(least):
        return result
    normal = np.abs(result).astype(np.float64)
    spacing = normal * 2.0 ** -_DIGITS[result.dtype]
    size = np.abs(exact())
    below = size < normal - spacing / 2 if rnd == "rn" else size <= normal - spacing
    return np.where(least & below, bits_of(result) & _SIGN[result.dtype], bits_of(result)).view(result.dtype)


def carried(result: Numbers, *values: Numbers) -> Numbers:
    """The result in float64: a NaN operand, the last one, made quiet; a NaN that the operation makes is negative."""
    if not np.any(np.isnan(result)):
        return result
    bits = np.where(np.isnan(result), _NAN[result.dtype], bits_of(result))
    for value in values:
        bits = np.where(np.isnan(value) & np.isnan(result), bits_of(value) | QUIET, bits)
    return bits.view(np.float64)


def _half_fma(kind: np.dtype[Any]) -> Callable[..., Numbers]:
    """a * b + c by way of float64, where the product is exact and the sum is rounded to odd."""
    return lambda a, b, c: fma_narrow(a, b, c).astype(kind)


def _same(x: Numbers) -> Numbers:
    return x


def positive(x: Numbers) -> Numbers:
    """The numbers, with negative ones made +0; NaN stays."""
    return np.where(x < 0, x.dtype.type(0), np.where(x == 0, np.abs(x), x)).astype(x.dtype)


def _after(clamp: Callable[[Numbers], Numbers]) -> Callable[[Numbers], Numbers]:
    return canonical if clamp is _same else lambda x: canonical(clamp(x))


def opposite(*, ftz: bool = False, **_: object) -> Callable[[Numbers], Numbers]:
    """The number with the other sign."""
    flush = flushed if ftz else _same
    return lambda a: _kept((bits_of(flush(a)) ^ _SIGN[a.dtype]).view(a.dtype), a)


def _kept(result: Numbers, a: Numbers) -> Numbers:
    """The operand itself, except that a NaN becomes the one that arithmetic makes."""
    return carried(result, a) if a.dtype.itemsize == 8 else canonical(result)


def magnitude(*, ftz: bool = False, **_: object) -> Callable[[Numbers], Numbers]:
    """The number without its sign."""
    flush = flushed if ftz else _same
    return lambda a: _kept((bits_of(flush(a)) & ~_SIGN[a.dtype]).view(a.dtype), a)


def copied_sign(**_: object) -> Callable[[Numbers, Numbers], Numbers]:
    """b with the sign of a."""
    return lambda a, b: (bits_of(b) & ~_SIGN[b.dtype] | bits_of(a) & _SIGN[a.dtype]).view(b.dtype)


@family
def extreme(
    op: str, *, ftz: bool = False, nan: bool = False, magnitudes: bool | str = False, **_: object
) -> Callable[..., Numbers]:
    """The smaller or larger: the number where one is NaN, unless NaN wins; -0 is less than +0."""
    choose = smaller if op == "min" else larger
    flush = flushed if ftz else _same

    def two(a: Numbers, b: Numbers) -> Numbers:
        sign = (bits_of(a) ^ bits_of(b)) & _SIGN[a.dtype]
        x, y = (np.abs(v) for v in (a, b)) if magnitudes == "xorsign" else (a, b)
        result = choose(x, y).astype(a.dtype)
        if nan:
            result = np.where((a != a) | (b != b), np.array(np.nan, a.dtype), result)
        if magnitudes == "xorsign":
            result = (bits_of(result) | sign).view(a.dtype)
        return carried(result, a, b) if a.dtype.itemsize == 8 else canonical(result)

    def execute(*values: Numbers) -> Numbers:
        first, *others = (flush(np.abs(value) if magnitudes == "abs" else value) for value in values)
        for other in others:
            first = two(first, other)
        return first

    return execute


def _class_bits(a: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    bits = bits_of(a)
    exponent = _EXPONENT[a.dtype]
    return bits & exponent, bits & ~exponent & ~_SIGN[a.dtype], exponent


def tested(*, test: str, **_: object) -> Callable[[Numbers], Numbers]:
    """Which kind of number it is; zeros are normal."""

    def execute(a: Numbers) -> Numbers:
        top, fraction, full = _class_bits(a)
        tests: dict[str, Any] = {
            "finite": lambda: top != full,
            "infinite": lambda: (top == full) & (fraction == 0),
            "number": lambda: (top != full) | (fraction == 0),
            "notanumber": lambda: (top == full) & (fraction != 0),
            "normal": lambda: ((top != 0) | (fraction == 0)) & (top != full),
            "subnormal": lambda: (top == 0) & (fraction != 0),
        }
        return np.asarray(tests[test]())

    return execute
