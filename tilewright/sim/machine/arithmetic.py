"""The arithmetic of a kernel, where NumPy's or Python's own is not it: wrapping, C's division, conversions.

Uniform integers are Python numbers and wrap here; arrays have the dtype of the kernel and wrap by themselves.
Source of the conversions: PTX ISA, "Data Movement and Conversion Instructions: cvt".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from tilewright.dtypes import DType
from tilewright.ir.fold import DIVIDED_BY_ZERO
from tilewright.sim.machine.arrays import Array, Value
from tilewright.sim.machine.floats import float_max, float_min, quotient, to_float

__all__ = [
    "caster",
    "float_max",
    "float_min",
    "floor_div",
    "floor_mod",
    "quotient",
    "shift_left",
    "shift_right",
    "trunc_div",
    "trunc_mod",
    "wrapper",
]


@cache
def wrapper(kind: DType) -> Callable[[int], int]:
    """The function that brings a Python integer into the range of an integer dtype."""
    if kind.kind == "bool":
        return bool
    mask, half = (1 << kind.bits) - 1, 1 << (kind.bits - 1)
    if kind.kind == "uint":
        return lambda value: value & mask
    return lambda value: ((value + half) & mask) - half


def _defined(divide: Callable[[Value, Value], Value]) -> Callable[[Value, Value], Value]:
    """``divide`` with the hardware's answer where integers are divided by zero."""

    def divided(a: Value, b: Value) -> Value:
        if isinstance(a, int) and isinstance(b, int):
            return divide(a, b) if b else DIVIDED_BY_ZERO
        found: Array = np.asarray(divide(a, b))
        zero = np.equal(b, 0)
        if not zero.any() or found.dtype.kind not in "iu":
            return found
        return np.where(zero, np.array(DIVIDED_BY_ZERO).astype(found.dtype), found)

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
    up: Array = ((rest != 0) & (np.less(a, 0) != np.less(b, 0))).astype(np.asarray(whole).dtype)
    return np.add(whole, up)


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


def _to_integer(kind: DType) -> Callable[[Array], Array]:
    """float -> integer: towards zero, saturating, NaN is 0."""
    low, high = (-(1 << kind.bits - 1), (1 << kind.bits - 1) - 1) if kind.is_signed else (0, (1 << kind.bits) - 1)

    lowest, highest, zero = (kind.numpy.type(number) for number in (low, high, 0))

    def convert(value: Array) -> Array:
        wide = np.trunc(np.asarray(value).astype(np.float64))
        inside = (wide > low) & (wide < high)
        found = np.where(inside, wide, 0).astype(kind.numpy)
        found = np.where(wide >= high, highest, np.where(wide <= low, lowest, found))
        return np.where(np.isnan(wide), zero, found)

    return convert


@cache
def caster(source: DType, kind: DType) -> Callable[[Array], Array]:
    """The conversion of an array from one element dtype to another. Uniform integers come as arrays of one element."""
    if kind.kind == "bool":
        return lambda value: np.asarray(value) != 0
    if kind.is_float:
        return to_float(source, kind)
    if source.is_float:
        return _to_integer(kind)
    return lambda value: np.asarray(value).astype(kind.numpy)
