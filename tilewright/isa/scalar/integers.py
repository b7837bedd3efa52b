"""The meaning of integer operations: sums, products, quotients, extremes; modulo their width, unless they saturate.

Source: PTX ISA, "Integer Arithmetic Instructions".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilewright.isa.operands import TYPES, Numbers

DOUBLE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}


def plain(function: Callable[..., Any]) -> Callable[..., Callable[..., Any]]:
    """A meaning that is one function, whatever its modifiers."""
    return lambda **mods: function


add, sub = plain(np.add), plain(np.subtract)


def _clipped(function: Callable[..., Numbers]) -> Callable[..., Numbers]:
    """The number as int32; what is out of range takes the nearest end."""
    ends = np.iinfo(np.int32)
    return lambda *values: function(*(value.astype(np.int64) for value in values)).clip(ends.min, ends.max)


add_saturated, sub_saturated = plain(_clipped(np.add)), plain(_clipped(np.subtract))


def wide(mods: Mapping[str, object]) -> str:
    """The type of twice the width."""
    word = str(mods["type"])
    return DOUBLE[word] if mods["half"] == "wide" else word


def high_product(a: Numbers, b: Numbers) -> Numbers:
    """The upper half of the product."""
    bits = 8 * a.dtype.itemsize
    if bits < 64:
        kind = np.dtype(f"{a.dtype.kind}{2 * a.dtype.itemsize}")
        return (np.multiply(a, b, dtype=kind) >> bits).astype(a.dtype)
    x, y = a.view(np.uint64), b.view(np.uint64)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    lows, cross = (x & low) * (y & low), (x >> half) * (y & low)
    middle = cross + (lows >> half)
    other = (x & low) * (y >> half) + (middle & low)
    high = (x >> half) * (y >> half) + (middle >> half) + (other >> half)
    if a.dtype.kind == "i":  # unsigned, a negative factor is 2**64 too large
        high = high - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    return high.view(a.dtype)


def _product(half: str, word: str) -> Callable[[Numbers, Numbers], Numbers]:
    if half == "lo":
        return np.multiply
    if half == "hi":
        return high_product
    kind = TYPES[DOUBLE[word]].numpy
    return lambda a, b: np.multiply(a, b, dtype=kind)


def mul(*, type: str, half: str, **_: object) -> Callable[[Numbers, Numbers], Numbers]:
    """The low or high half of the product, or all of it."""
    return _product(half, type)


def mad(*, type: str, half: str, sat: bool = False, **_: object) -> Callable[[Numbers, Numbers, Numbers], Numbers]:
    """The product, or half of it, and c."""
    product = _product(half, type)
    total = _clipped(np.add) if sat else np.add
    return lambda a, b, c: total(product(a, b), c)


def _low24(a: Numbers) -> Numbers:
    """The low 24 bits as a number, with their sign where the type has one."""
    wide = a.astype(np.int64) << 40
    return wide >> 40 if a.dtype.kind == "i" else wide.view(np.uint64) >> np.uint64(40)


def mul24(*, half: str, sat: bool = False, **_: object) -> Callable[..., Numbers]:
    """The low 32 bits of the 48-bit product, or bits 16 to 47; and c, where there is one."""

    def execute(a: Numbers, b: Numbers, *c: Numbers) -> Numbers:
        product = _low24(a) * _low24(b)
        part = (product if half == "lo" else product >> product.dtype.type(16)).astype(a.dtype)
        return (_clipped(np.add) if sat else np.add)(part, *c) if c else part

    return execute


def difference_sum(**_: object) -> Callable[[Numbers, Numbers, Numbers], Numbers]:
    """The sum of c and the magnitude of a - b."""
    return lambda a, b, c: c + np.where(a < b, b - a, a - b)


def divided(*, type: str, **_: object) -> Callable[[Numbers, Numbers], Numbers]:
    """Toward zero; all ones where b is 0; the smallest number by -1 is itself."""
    return lambda a, b: _quotient(a, b)[0]


def remainder(*, type: str, **_: object) -> Callable[[Numbers, Numbers], Numbers]:
    """With the sign of a; all ones where b is 0."""
    return lambda a, b: _quotient(a, b)[1]


def _quotient(a: Numbers, b: Numbers) -> tuple[Numbers, Numbers]:
    ones = np.array(-1).astype(a.dtype)
    if a.dtype.kind == "u":
        by = np.where(b == 0, a.dtype.type(1), b)
        return np.where(b == 0, ones, a // by), np.where(b == 0, ones, a % by)
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    x, y = (np.where(v < 0, -v, v).astype(unsigned) for v in (a, b))
    by = np.where(y == 0, unsigned.type(1), y)
    quotient, rest = (x // by).astype(a.dtype), (x % by).astype(a.dtype)
    quotient, rest = np.where((a < 0) != (b < 0), -quotient, quotient), np.where(a < 0, -rest, rest)
    return np.where(b == 0, ones, quotient), np.where(b == 0, ones, rest)


absolute, negated = plain(np.abs), plain(np.negative)


def _extreme(function: Any) -> Callable[..., Callable[..., Numbers]]:
    def meaning(*, relu: bool = False, **_: object) -> Callable[..., Numbers]:
        return (lambda a, b: np.maximum(function(a, b), 0).astype(a.dtype)) if relu else function

    return meaning


smaller_of, larger_of = _extreme(np.minimum), _extreme(np.maximum)
