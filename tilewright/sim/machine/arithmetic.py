"""The arithmetic of a kernel where NumPy's or Python's own differs: wrapping, C's division, conversions.

Uniform integers are Python numbers and wrap here; arrays have the dtype of the kernel and wrap by themselves.
Source of the conversions: PTX ISA, "Data Movement and Conversion Instructions: cvt".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from tilewright.dtypes import DType
from tilewright.sim.machine.arrays import Array
from tilewright.sim.machine.floats import float_max, float_min, quotient, to_float

__all__ = [
    "caster",
    "float_max",
    "float_min",
    "quotient",
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
