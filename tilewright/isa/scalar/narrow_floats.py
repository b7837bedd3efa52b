"""Floats of 8 bits and less, in pairs and fours: the meaning of cvt on them, and of its stochastic rounding.

Source: PTX ISA, "Data Movement and Conversion Instructions: cvt".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from tilewright.dtypes import dtype
from tilewright.isa.arch import only
from tilewright.isa.scalar.floats import BRAIN, canonical, positive
from tilewright.isa.scalar.rows import flag, scalar, words
from tilewright.isa.types import TYPES, Numbers

INFINITE, LEAST = 0x7F800000, 0x00400000  # bits of float32: infinity, and 2 ** -127
NARROW = {
    "e4m3x2": "float8_e4m3fn",
    "e5m2x2": "float8_e5m2",
    "e2m3x2": "float6_e2m3fn",
    "e3m2x2": "float6_e3m2fn",
    "e2m1x2": "float4_e2m1fn",
}


def _codes(word: str, relu: bool) -> Callable[[Numbers], Numbers]:
    """Codes of narrow floats, which saturate; NaN has all bits but the sign."""
    name = NARROW[word]
    kind = dtype(name).numpy
    largest = float(ml_dtypes.finfo(kind).max)  # type: ignore[no-untyped-call]
    nan = (1 << dtype(name).value_bits - 1) - 1

    def codes(values: Numbers) -> Numbers:
        clean = np.where(values == values, values, 0).astype(np.float32).clip(-largest, largest)
        clean = np.where(relu & (clean <= 0), np.float32(0), clean)
        return np.where(values == values, clean.astype(kind).view(np.uint8), nan).astype(np.uint16)

    return codes


def _width(word: str) -> np.uint16:
    return np.uint16(4 if word == "e2m1x2" else 8)


def packed(*, type: str, relu: bool = False, **_: object) -> Callable[..., Numbers]:
    """Each number as the nearest narrow one, the first above."""
    codes, width = _codes(type, relu), _width(type)
    bits = TYPES[type].unsigned

    def execute(*values: Numbers) -> Numbers:
        high, low = values if len(values) == 2 else (values[0][..., 1], values[0][..., 0])
        packed = (codes(high) << width | codes(low)).astype(bits)
        return packed if TYPES[type].lanes == 1 else packed[..., None].view(TYPES[type].numpy)

    return execute


def widened(
    *, type: str, atype: str, relu: bool = False, finite: bool = False, **_: object
) -> Callable[[Numbers], Numbers]:
    """Each number as one of 16 bits, which has them all."""
    name, to = NARROW[atype], TYPES[type].numpy
    mask = (1 << dtype(name).value_bits) - 1
    table = (np.arange(256) & mask).astype(np.uint8).view(dtype(name).numpy).astype(np.float32)
    if finite:
        largest = float(ml_dtypes.finfo(to).max)  # type: ignore[no-untyped-call]
        table = np.where(table == table, table.clip(-largest, largest), table)
    values = canonical(table.astype(to))
    values = positive(values) if relu else values

    def execute(pair: Numbers) -> Numbers:
        codes = pair.view(np.uint8) if TYPES[atype].lanes > 1 else np.stack([pair & 15, pair >> 4], axis=-1)
        return values[codes]

    return execute


# ue8m0: a power of two, its exponent and 127; 255 is NaN


def exponents(*, rnd: str, finite: bool = False, **_: object) -> Callable[..., Numbers]:
    """The power of two next to the magnitude, below or above; two of them."""

    def one(x: Numbers) -> Numbers:
        size = np.abs(x.astype(np.float32)).view(np.uint32)
        result = size >> np.uint32(23)
        above = (size & np.uint32(0x7FFFFF) != 0) & (size > LEAST) & (size < INFINITE)
        result = result + (above & (rnd == "rp"))
        return np.where(finite & (size <= INFINITE), np.minimum(result, 254), result).astype(np.uint8)

    def execute(*values: Numbers) -> Numbers:
        high, low = values if len(values) == 2 else (values[0][..., 1], values[0][..., 0])
        return np.stack(np.broadcast_arrays(one(low), one(high)), axis=-1).view(TYPES["ue8m0x2"].numpy)

    return execute


def of_exponents(**_: object) -> Callable[[Numbers], Numbers]:
    """Two powers of two as bfloat16."""

    def execute(pair: Numbers) -> Numbers:
        code = pair.view(np.uint8).astype(np.uint16)
        bits = np.where(code == 0, np.uint16(0x40), np.where(code == 255, np.uint16(0x7FFF), code << np.uint16(7)))
        return bits.view(BRAIN)

    return execute


# Stochastic rounding: random bits are added to those of the fraction that are cut off, aligned with the first of them


@dataclass(frozen=True, slots=True)
class _Format:
    """Bits of the fraction; exponent of the least normal number; the code of the largest finite number, of a NaN."""

    fraction: int
    least: int
    largest: int
    nan: int
    bits: int


FORMATS = {
    "f16x2": _Format(10, -14, 0x7BFF, 0x7FFF, 16),
    "bf16x2": _Format(7, -126, 0x7F7F, 0x7FFF, 16),
    "e4m3x4": _Format(3, -6, 0x7E, 0x7F, 8),
    "e5m2x4": _Format(2, -14, 0x7B, 0x7F, 8),
    "e2m3x4": _Format(3, 0, 0x1F, 0x1F, 6),
    "e3m2x4": _Format(2, -2, 0x1F, 0x1F, 6),
    "e2m1x4": _Format(1, 0, 0x7, 0x7, 4),
}
RANDOM = {"f16x2": ((13, 16), (13, 0)), "bf16x2": ((16, 16), (16, 0)), "e2m1x4": ((8, 24), (8, 8), (8, 16), (8, 0))}
WORDS = ((16, 16), (16, 16), (16, 0), (16, 0))
"""Of each operand how many random bits it gets, and from which bit of ``rbits`` on."""


def _rounded(to: _Format, x: Numbers, random: Numbers, count: int) -> Numbers:
    """The codes of the magnitudes of float32 numbers."""
    size = x.view(np.uint32).astype(np.int64) & 0x7FFFFFFF
    exponent = np.maximum(size >> 23, 1) - 127
    whole = (size & 0x7FFFFF) | np.where(size >> 23 > 0, 1 << 23, 0)
    target = np.maximum(exponent, to.least)
    cut = np.minimum(target - exponent + 23 - to.fraction, 24 + count)
    kept = whole + (random.astype(np.int64) << cut - count) >> cut
    return np.where(size >= INFINITE, 1 << 30, kept + (target - to.least << to.fraction))


def stochastic(*, type: str, relu: bool = False, finite: bool = False, **_: object) -> Callable[..., Numbers]:
    """Toward zero, or away from it where the random bits carry over; in one register, the first number above."""
    to = FORMATS[type]

    def one(x: Numbers, rbits: Numbers, count: int, first: int) -> Numbers:
        random = rbits >> np.uint32(first) & np.uint32((1 << count) - 1)
        result = np.minimum(_rounded(to, x, random, count), to.largest + (not (finite or to.bits < 16)))
        sign = np.signbit(x) & True
        result = np.where(sign & relu, 0, result | sign.astype(np.int64) << to.bits - 1)
        return np.where(x == x, result, to.nan)

    def execute(*operands: Numbers) -> Numbers:
        *values, rbits = operands
        width = max(to.bits, 8) if type != "e2m1x4" else 4
        total = np.zeros((), np.int64)
        for x, (count, first) in zip(values, RANDOM.get(type, WORDS), strict=True):
            total = total << width | one(x, rbits, count, first)
        bits = total.astype(TYPES[type].unsigned)
        return bits if TYPES[type].lanes == 1 else bits[..., None].view(TYPES[type].numpy)

    return execute


STOCHASTIC = only("sm_100a", "sm_103a")
CHAPTER = "Data Movement and Conversion Instructions"
RELU, FINITE = flag("relu"), flag("satfinite")
scalar(
    "cvt.rs",
    "a:f32 b:f32 rbits:b32",
    ("cvt.rs{relu}{finite}{type}.f32", {"type": words("f16x2", "bf16x2"), "relu": RELU, "finite": FINITE}, stochastic,
     STOCHASTIC),
    doc="Two float32 as narrower floats, a in the upper half, rounded away from zero where ``rbits``, of which each "
    "gets a half (its lower 13 bits for f16), carry over from the bits that are cut off.",
    chapter=CHAPTER,
)  # fmt: skip
scalar(
    "cvt.rs.of_four",
    "a:f32 b:f32 e:f32 f:f32 rbits:b32",
    (
        "cvt.rs{relu}.satfinite{type}.f32",
        {"type": words("e4m3x4", "e5m2x4", "e2m3x4", "e3m2x4", "e2m1x4"), "relu": RELU, "finite": {True: ""}},
        stochastic,
        STOCHASTIC,
        "{result}, {{{a}, {b}, {e}, {f}}}, {rbits}",
    ),
    doc="Four float32 as narrow floats, a above, rounded as in cvt.rs: a and b by the upper half of ``rbits``, e and f "
    "by the lower one; of e2m1 each by a byte of its own. The manual does not say at which of the bits that are cut "
    "off the random ones begin; here it is the first.",
    chapter=CHAPTER,
)
