"""Floating point that NumPy lacks: one rounding from wide to narrow, signed zeros in min and max, tf32.

A cast means its dtype's rounding to nearest even, as NumPy and ml_dtypes have it (tf32: ties away from zero). What is
wider than float32 is first rounded to float32 *to odd*: an inexact value takes the neighbour whose last bit is set, so
that rounding once more rounds as if once. tests/gpu/test_numbers.py compares all of this with an H200, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import DType
from tilewright.isa.arith import larger, smaller
from tilewright.isa.convert import CONVERSIONS
from tilewright.sim.machine.arrays import Array

__all__ = ["EQUAL", "ROUNDED", "float_max", "float_min", "likeness", "quotient", "to_float"]

F32 = np.float32
EQUAL, ROUNDED = "with equal values", "with values that differ by rounding alone"
NEAR = 2.0**-10  # of the smaller: how far apart sums of the same numbers are at most
float_min, float_max = smaller, larger


@cache
def to_float(source: DType, kind: DType) -> Callable[[Array], Array]:
    """The conversion of arrays of ``source`` to a float dtype."""
    target = kind.numpy
    if str(kind) == "tf32":
        return lambda value: _to_tf32(_float32_to_odd(np.asarray(value)))
    if kind.bits > 16 or (str(kind) == "float16" and source.is_float):  # NumPy rounds these once
        return lambda value: np.asarray(value).astype(target)
    if kind.value_bits < 8:
        return lambda value: _without_nan_sign(_float32_to_odd(np.asarray(value))).astype(target)
    return lambda value: _float32_to_odd(np.asarray(value)).astype(target)


def _to_tf32(value: Array) -> Array:
    return CONVERSIONS["float32", "tf32"].execute(value).view(F32)


def quotient(a: Array, b: Array) -> Array:
    """``a / b``; 0 / 0 is a NaN whose sign bit is not set, as the GPU's, whatever the CPU's is."""
    found = np.divide(a, b)
    kind = np.asarray(found).dtype
    if kind.itemsize > 1:
        return found
    return _without_nan_sign(np.divide(np.asarray(a).astype(F32), np.asarray(b).astype(F32))).astype(kind)


def _without_nan_sign(value: Array) -> Array:
    """Formats without NaN keep its sign, as that of a zero."""
    return np.where(np.isnan(value), F32(np.nan), value)


def _float32_to_odd(value: Array) -> Array:
    """Exact where float32 holds the value; else the neighbour with an odd last bit."""
    kind = value.dtype
    if kind.itemsize <= 2 or kind == F32:
        return value.astype(F32)
    wide = value if kind == np.float64 else _float64_to_odd(value)
    near = wide.astype(F32)
    beyond = np.abs(near.astype(np.float64)) > np.abs(wide)
    toward_zero = np.where(beyond, np.nextafter(near, F32(0)), near)
    exact = (toward_zero == wide) | np.isnan(wide)
    odd: Array = (toward_zero.view(np.uint32) | ~exact).view(F32)
    return odd


def _float64_to_odd(value: Array) -> Array:
    """Integers as float64; the last eleven bits of one with more than 53 bits become one bit: was any of them set?"""
    size = np.where(value < 0, np.uint64(0) - value.astype(np.uint64), value.astype(np.uint64))
    cut = (size & ~np.uint64(0x7FF)) | (((size & np.uint64(0x7FF)) != 0).astype(np.uint64) << np.uint64(11))
    magnitude = np.where(size >> np.uint64(53), cut, size).astype(np.float64)
    return np.where(value < 0, -magnitude, magnitude)


def likeness(one: NDArray[np.uint8], other: NDArray[np.uint8]) -> str:
    """Are all rows of bytes `EQUAL`, or float32 that may be sums of the same numbers in other orders: `ROUNDED`? "" for
    no.

    Bytes of small integers do not count as such floats.
    """
    if (one == other).all():
        return EQUAL
    if one.shape[-1] % 4:
        return ""
    a, b = one.view("<f4"), other.view("<f4")
    least = np.minimum(np.abs(a), np.abs(b))
    near = (least >= np.finfo(F32).tiny) & (np.abs(a - b) <= NEAR * least)
    return ROUNDED if (near | (a.view(np.uint32) == b.view(np.uint32))).all() else ""
