"""Conversions of numbers with any rounding: the meaning of cvt on integers and floats of all widths.

Source: PTX ISA, "Data Movement and Conversion Instructions: cvt".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.dtypes import dtype
from tilewright.isa.convert import float_to_int
from tilewright.isa.fma import single_to_odd, sum_to_odd
from tilewright.isa.scalar.floats import BRAIN, bits_of, canonical
from tilewright.isa.scalar.rounding import DOUBLE
from tilewright.isa.types import Numbers

SINGLE_KIND, DOUBLE_KIND = np.dtype(np.float32), np.dtype(np.float64)
WHOLE: dict[str, Any] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def narrowed(wide: Numbers, kind: np.dtype[Any], rounding: str) -> Numbers:
    """float64, perhaps rounded to odd, in another type of floats."""
    near = (single_to_odd(wide) if kind == BRAIN else wide).astype(kind)
    if rounding == "rn":
        return near
    back = near.astype(np.float64)
    sign, magnitude = np.signbit(wide), bits_of(np.abs(near))
    low = magnitude - (np.abs(back) > np.abs(wide)).astype(magnitude.dtype)
    high = magnitude + (np.abs(back) < np.abs(wide)).astype(magnitude.dtype)
    result = {"rz": low, "rm": np.where(sign, high, low), "rp": np.where(sign, low, high)}[rounding]
    placed = (result | sign.astype(result.dtype) << result.dtype.type(8 * kind.itemsize - 1)).view(kind)
    return np.where(wide == wide, placed, near).astype(kind)


def from_integer(values: Numbers, kind: np.dtype[Any], rounding: str) -> Numbers:
    """An integer as a float: the halves of 64 bits are exact in float64, and their sum is rounded once."""
    if values.dtype.itemsize < 8:
        wide = values.astype(np.float64)
    else:
        high, low = (values >> values.dtype.type(32)).astype(np.float64) * 2.0**32, _low(values).astype(np.float64)
        if kind == DOUBLE_KIND:
            return DOUBLE["add"](high, low, rounding)
        wide = sum_to_odd(high, low)
    return wide if kind == DOUBLE_KIND else narrowed(wide, kind, rounding)


def _low(values: Numbers) -> Numbers:
    return values & values.dtype.type(0xFFFFFFFF)


def to_integer(values: Numbers, name: str, rounding: str) -> Numbers:
    """Rounded to a whole number; what is out of range takes the nearest end."""
    return float_to_int(_exact(WHOLE[rounding](_computable(values)), values), name)


def _computable(values: Numbers) -> Numbers:
    return values if values.dtype in (SINGLE_KIND, DOUBLE_KIND) else values.astype(np.float32)


def _exact(result: Numbers, like: Numbers) -> Numbers:
    """Whole numbers as float32, or as float64 for a float64 source: `float_to_int` converts a NaN by that width."""
    return result if like.dtype == DOUBLE_KIND else result.astype(np.float32)


def whole(values: Numbers, rounding: str | None) -> Numbers:
    """Rounded to a whole number, of the same type."""
    return values if rounding is None else WHOLE[rounding](_computable(values)).astype(values.dtype)


def between_integers(values: Numbers, name: str, *, clamped: bool) -> Numbers:
    """The low bits, or the nearest end."""
    kind = dtype(name).numpy
    if not clamped:
        return values.astype(kind)
    ends = np.iinfo(kind)  # type: ignore[type-var]  # an integer
    info = np.iinfo(values.dtype)
    low, high = max(int(ends.min), int(info.min)), min(int(ends.max), int(info.max))
    return np.minimum(np.maximum(values, values.dtype.type(low)), values.dtype.type(high)).astype(kind)


def _fraction_bits(kind: np.dtype[Any]) -> int:
    return 7 if kind == BRAIN else {2: 10, 4: 23, 8: 52}[kind.itemsize]


def _with_payload(result: Numbers, values: Numbers, kind: np.dtype[Any], *, quiet: bool) -> Numbers:
    """A NaN keeps its sign and the upper bits of its fraction."""
    lost = values != values  # bfloat16 has no fast isnan
    if not np.any(lost):
        return result
    width, other = _fraction_bits(kind), _fraction_bits(values.dtype)
    bits = bits_of(values).astype(np.uint64)
    fraction = bits & np.uint64((1 << other) - 1)
    moved = fraction << np.uint64(max(width - other, 0)) >> np.uint64(max(other - width, 0))
    full = (1 << 8 * kind.itemsize - 1) - (1 << width) | (1 << width - 1) * quiet
    sign = bits >> np.uint64(8 * values.dtype.itemsize - 1) << np.uint64(8 * kind.itemsize - 1)
    nan = (moved | np.uint64(full) | sign).astype(f"u{kind.itemsize}")
    return np.where(lost, nan, bits_of(result)).view(kind)


def between_floats(rounding: str | None, kind: np.dtype[Any]) -> Callable[[Numbers], Numbers]:
    """Another type of floats: every value of the narrower one is exact in the wider one."""

    def execute(values: Numbers) -> Numbers:
        if kind.itemsize > values.dtype.itemsize:
            result = (values if values.dtype != BRAIN else values.astype(np.float32)).astype(kind)
        else:
            wide = values.astype(np.float32) if values.dtype.itemsize < 4 else values
            result = narrowed(wide.astype(np.float64), kind, rounding or "rn")
        if 8 in (kind.itemsize, values.dtype.itemsize) or (values.dtype == BRAIN and kind == SINGLE_KIND):
            return _with_payload(result, values, kind, quiet=values.dtype != BRAIN or kind == DOUBLE_KIND)
        return canonical(result)

    return execute
