"""What casts and quotients of a kernel's numbers mean where NumPy's differ: one rounding, tf32, integers that saturate.

A cast means its dtype's rounding to nearest even, as NumPy and ml_dtypes have it (tf32: ties away from zero). What is
wider than float32 is first rounded to float32 *to odd*: an inexact value takes the neighbour whose last bit is set, so
that rounding once more rounds as if once. tests/gpu/test_numbers.py compares all of this with an H200, bit for bit.
Source: PTX ISA, "Data Movement and Conversion Instructions: cvt".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from tilewright.dtypes import DType
from tilewright.isa.convert import CONVERSIONS, float_to_int
from tilewright.isa.fma import single_to_odd
from tilewright.isa.machine import Lanes

F32 = np.float32


@cache
def cast(source: DType, kind: DType) -> Callable[[Lanes], Lanes]:
    """The conversion of an array from one element dtype to another. Uniform integers come as arrays of one element."""
    if kind.kind == "bool":
        return lambda value: np.asarray(value) != 0
    if kind.is_float:
        return _to_float(source, kind)
    if source.is_float:
        return _to_integer(kind)
    return lambda value: np.asarray(value).astype(kind.numpy)


def quotient(a: Lanes, b: Lanes) -> Lanes:
    """``a / b``; 0 / 0 is a NaN whose sign bit is not set, as the GPU's, whatever the CPU's is."""
    ratio = np.divide(a, b)
    kind = np.asarray(ratio).dtype
    if kind.itemsize > 1:
        return ratio
    return _without_nan_sign(np.divide(np.asarray(a).astype(F32), np.asarray(b).astype(F32))).astype(kind)


def _to_integer(kind: DType) -> Callable[[Lanes], Lanes]:
    """float -> integer: toward zero, saturating, NaN is 0."""
    name, zero = str(kind), kind.numpy.type(0)

    def convert(value: Lanes) -> Lanes:
        wide = np.asarray(value).astype(np.float64)
        return np.where(np.isnan(wide), zero, float_to_int(wide, name))

    return convert


def _to_float(source: DType, kind: DType) -> Callable[[Lanes], Lanes]:
    """The conversion of arrays of ``source`` to a float dtype."""
    target = kind.numpy
    if str(kind) == "tf32":
        return lambda value: _to_tf32(_float32_to_odd(np.asarray(value)))
    if kind.bits > 16 or (str(kind) == "float16" and source.is_float):  # NumPy rounds these once
        return lambda value: np.asarray(value).astype(target)
    if kind.value_bits < 8:
        return lambda value: _without_nan_sign(_float32_to_odd(np.asarray(value))).astype(target)
    return lambda value: _float32_to_odd(np.asarray(value)).astype(target)


def _to_tf32(value: Lanes) -> Lanes:
    return CONVERSIONS["float32", "tf32"].execute(value).view(F32)


def _without_nan_sign(value: Lanes) -> Lanes:
    """Formats without NaN keep its sign, as that of a zero."""
    return np.where(np.isnan(value), F32(np.nan), value)


def _float32_to_odd(value: Lanes) -> Lanes:
    """Exact where float32 holds the value; else the neighbour with an odd last bit."""
    kind = value.dtype
    if kind.itemsize <= 2 or kind == F32:
        return value.astype(F32)
    return single_to_odd(value if kind == np.float64 else _float64_to_odd(value))


def _float64_to_odd(value: Lanes) -> Lanes:
    """Integers as float64; the last eleven bits of one with more than 53 bits become one bit: was any of them set?"""
    size = np.where(value < 0, np.uint64(0) - value.astype(np.uint64), value.astype(np.uint64))
    cut = (size & ~np.uint64(0x7FF)) | (((size & np.uint64(0x7FF)) != 0).astype(np.uint64) << np.uint64(11))
    magnitude = np.where(size >> np.uint64(53), cut, size).astype(np.float64)
    return np.where(value < 0, -magnitude, magnitude)
