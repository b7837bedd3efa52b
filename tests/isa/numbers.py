"""What the bits of numbers mean, and how values are rounded, by the manual: one number at a time, in Python's integers,
floats and fractions. Shares no code with the table.

A value that has no fraction is one of the words inf, -inf, nan, -0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

FORMATS = {  # bits of exponent and fraction
    "f16": (5, 10),
    "bf16": (8, 7),
    "f32": (8, 23),
    "f64": (11, 52),
    "e4m3": (4, 3),
    "e5m2": (5, 2),
    "e2m3": (2, 3),
    "e3m2": (3, 2),
    "e2m1": (2, 1),
}
ENDLESS = ("f16", "bf16", "f32", "f64", "e5m2")  # which have infinities, and several NaN
OURS = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}


@cache
def bits_of(word: str) -> int:
    """Of one number of the type."""
    return int("".join(c for c in word.split("x")[0] if c.isdigit()))


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def integer(word: str, bits: int) -> int:
    """An integer of the type."""
    width = bits_of(word)
    return signed(bits, width) if word[0] == "s" else bits & (1 << width) - 1


@lru_cache(1 << 16)
def value_of(word: str, bits: int) -> float:
    """The number that some bits are."""
    if word in ("ue8m0", "ue4m3"):
        return value_of("e4m3", bits & 0x7F) if word == "ue4m3" else math.nan if bits == 255 else 2.0 ** (bits - 127)
    if word[0] in "su":
        return integer(word, bits)
    if word in ("b1", "tf32"):
        return bits if word == "b1" else value_of("f32", bits & ~0x1FFF)
    exponent_bits, fraction_bits = FORMATS[word]
    sign = -1.0 if bits >> exponent_bits + fraction_bits & 1 else 1.0
    exponent, fraction = bits >> fraction_bits & (1 << exponent_bits) - 1, bits & (1 << fraction_bits) - 1
    bias = (1 << exponent_bits - 1) - 1
    if word in ENDLESS and exponent == (1 << exponent_bits) - 1:
        return math.nan if fraction else sign * math.inf
    if word == "e4m3" and bits & 0x7F == 0x7F:
        return math.nan
    top = fraction + (1 << fraction_bits if exponent else 0)
    return sign * math.ldexp(top, max(exponent, 1) - bias - fraction_bits)


def decoded(word: str, bits: int) -> Any:
    """The same as a fraction, or one of the words."""
    value = value_of(word, bits)
    if not math.isfinite(value):
        return str(value)
    return "-0" if value == 0 and math.copysign(1, value) < 0 else Fraction(value)


def encoded(word: str, value: Any, rounding: str = "rn") -> int:
    """Rounded once."""
    exponent_bits, fraction_bits = FORMATS[word]
    full, place = (1 << exponent_bits) - 1, exponent_bits + fraction_bits
    bias = (1 << exponent_bits - 1) - 1
    if value == "nan":
        return {"f64": 0xFFF8000000000000}.get(word, (1 << place) - 1)
    if value in ("inf", "-inf"):
        return full << fraction_bits | int(value == "-inf") << place
    if value == "-0":
        return 1 << place
    if value == 0:
        return 0
    sign, size = bool(value < 0), Fraction(abs(value))
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    exponent = max(exponent, 1 - bias)
    quantum = Fraction(2) ** (exponent - fraction_bits)
    whole = rounded(size / quantum, {"rm": "rp", "rp": "rm"}.get(rounding, rounding) if sign else rounding)
    if whole >= 1 << fraction_bits + 1:
        whole, exponent = whole >> 1, exponent + 1
    if exponent > bias:
        turns = rounding == "rz" or rounding == ("rp" if sign else "rm")
        return (
            ((full - 1) << fraction_bits | (1 << fraction_bits) - 1) if turns else full << fraction_bits
        ) | sign << place
    subnormal = whole < 1 << fraction_bits
    return whole + ((0 if subnormal else exponent + bias - 1) << fraction_bits) | sign << place


def nearest(word: str, value: Any, rounding: str = "rn") -> float:
    """The number of the type that a value is rounded to."""
    if word == "f64" and rounding == "rn":  # as Python divides
        return float(Fraction(value))
    return value_of(word, encoded(word, value, rounding))


def rounded(value: Fraction, rounding: str) -> int:
    if rounding in ("rn", "rni"):
        return round(value)
    whole: dict[str, Callable[[Fraction], int]] = {"z": math.trunc, "m": math.floor, "p": math.ceil}
    return whole[rounding[1]](value)


def is_float(word: str) -> bool:
    return word[0] == "f" or word.startswith("bf")


def is_negative(value: Any) -> bool:
    return value in ("-0", "-inf") or (not isinstance(value, str) and value < 0)


def negated(value: Any) -> Any:
    if isinstance(value, str):
        return {"nan": "nan", "inf": "-inf", "-inf": "inf", "-0": Fraction(0)}[value]
    return "-0" if value == 0 else -value


def flushed(word: str, bits: int) -> int:
    exponent_bits, fraction_bits = FORMATS[word]
    small = bits >> fraction_bits & (1 << exponent_bits) - 1 == 0
    return bits >> exponent_bits + fraction_bits << exponent_bits + fraction_bits if small else bits


def clamped(word: str, bits: int) -> int:
    value = decoded(word, bits)
    if value in ("nan", "-0", "-inf") or (not isinstance(value, str) and value <= 0):
        return 0
    return encoded(word, Fraction(1)) if value == "inf" or value >= 1 else bits


def each(word: str, registers: tuple[int, ...], one: Callable[..., int]) -> int:
    """The numbers of a pair, the low ones first."""
    if "x2" not in word:
        return one(word, *registers)
    width, inner = bits_of(word), word[:-2]
    mask = (1 << width) - 1
    return one(inner, *(r & mask for r in registers)) | one(inner, *(r >> width & mask for r in registers)) << width


def is_tiny(word: str, value: Fraction, rounding: str) -> bool:
    """Whether it is below the normal numbers when it is rounded as if exponents had no end."""
    normal = Fraction(2) ** (2 - (1 << FORMATS[word][0] - 1))  # the smallest normal number
    spacing = normal / (2 << FORMATS[word][1])  # of the numbers just below
    return abs(rounded(value / spacing, rounding)) * spacing < normal


def ends(word: str) -> tuple[int, int]:
    """The smallest and the largest integer of the type."""
    width = bits_of(word)
    return (-(1 << width - 1), (1 << width - 1) - 1) if word[0] == "s" else (0, (1 << width) - 1)


def wrapped(word: str, value: int, *, sat: bool = False) -> int:
    low, high = ends(word)
    return (min(max(value, low), high) if sat else value) & (1 << bits_of(word)) - 1


def within(value: Any, largest: Fraction) -> Any:
    if value in ("inf", "-inf"):
        return largest if value == "inf" else -largest
    return value if value == "-0" else min(max(value, -largest), largest)


@cache
def magnitudes(word: str) -> tuple[int, list[Fraction]]:
    """The code of the sign alone, and the finite numbers without a sign, by their codes."""
    top = 1 << sum(FORMATS[word])
    values = (decoded(word, code) for code in range(top))
    return top, [value for value in values if not isinstance(value, str)]
