"""Narrow numbers as float32: what a matrix product does to its operands before it multiplies."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import dtype

__all__ = ["Floats", "Patterns", "widened"]

Floats = NDArray[np.float32]
Patterns = NDArray[np.unsignedinteger[Any]]

_REBIAS = np.float32(2.0**112)  # float32's exponents count from -127, those of float16 from -15
_WITHOUT_COPIES = np.int32(-0x70002000)  # 0x8FFFE000: the sign, and 15 bits from bit 13 on


def widened(patterns: Patterns, kind: str) -> Floats:
    """The value of each bit pattern of a dtype, in an array of its own. Nothing is rounded.

    patterns: unsigned integers as wide as the dtype; of "tf32" the low 13 of 32 bits do not take part.
    """
    if kind == "float16":
        return _from_halves(patterns)
    if kind == "bfloat16":  # the upper half of a float32
        return (patterns.astype(np.uint32) << 16).view(np.float32)
    if kind == "tf32":
        return (patterns & np.uint32(0xFFFFE000)).view(np.float32)
    return _values(kind).take(patterns)


def _from_halves(patterns: Patterns) -> Floats:
    """Exponent and mantissa moved to where float32 has them, then the exponent set right by a multiplication.

    Infinities and NaNs would become numbers, so that arrays with one are looked up in a table of all values.
    """
    signed = patterns.view(np.int16)
    if patterns.size and (signed.max() >= 0x7C00 or patterns.max() >= 0xFC00):
        return _values("float16").take(patterns)
    wide = signed.astype(np.int32)
    wide <<= 13
    wide &= _WITHOUT_COPIES
    found = wide.view(np.float32)
    found *= _REBIAS
    return found


@cache
def _values(kind: str) -> Floats:
    """The float32 value of each bit pattern of a dtype of 8 or 16 bits."""
    narrow = dtype(kind)
    patterns = np.arange(1 << narrow.bits, dtype=np.dtype(f"u{narrow.bits // 8}"))
    return patterns.view(narrow.numpy).astype(np.float32)
