"""The meaning of conversions by the manual, one number at a time."""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction
from typing import Any

from tests.isa.numbers import (
    FORMATS,
    bits_of,
    clamped,
    decoded,
    encoded,
    ends,
    flushed,
    integer,
    is_float,
    is_negative,
    is_tiny,
    magnitudes,
    rounded,
    signed,
    within,
    wrapped,
)
from tests.isa.registry import scalar

NARROW = ("e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "e2m1x2")


def of_one(word: str) -> str:
    """The type of one number of several."""
    return word.removesuffix("x2").removesuffix("x4")


def cvt_of_pair(mods: dict[str, Any], to: str, word: str, a: int) -> int:
    if word in ("f16x2", "bf16x2"):
        halves = [decoded(word[:-2], a >> 16 * i & 0xFFFF) for i in (0, 1)]
        return packed_codes(mods, to, halves) if to in NARROW else packed_powers(mods, halves)
    half = to[:-2]
    largest = decoded(half, encoded(half, "inf") - 1)
    if word == "ue8m0x2":
        values = [decoded("ue8m0", a >> 8 * i & 0xFF) for i in (0, 1)]
    else:
        values = [decoded(of_one(word), code) for code in codes_of(word, a)]
    values = [value if value == "nan" or not mods["finite"] else within(value, largest) for value in values]
    return sum(positive(mods, encoded(half, value), half) << 16 * i for i, value in enumerate(values))


@scalar("cvt")
def cvt(mods: dict[str, Any], a: int) -> int:
    to, word = mods["type"], mods["atype"]
    if word[-2:] == "x2":
        return cvt_of_pair(mods, to, word, a)
    if not is_float(word) and not is_float(to):
        if to == "tf32":
            return tf32(mods, a)
        return wrapped(to, integer(word, a), sat=bool(mods["sat"]))
    if to == "tf32":
        return tf32(mods, a)
    if not is_float(word):
        value: Any = Fraction(integer(word, a))
    else:
        value = decoded(word, flushed(word, a) if mods["ftz"] and word == "f32" and to != "f16" else a)
    if not is_float(to):
        return to_integer(mods, word, to, value)
    if to == word and not (mods["rnd"] or mods["sat"] or mods["ftz"]):
        return a
    if to == word and mods["rnd"] and not isinstance(value, str):
        whole = Fraction(rounded(value, mods["rnd"]))
        value = "-0" if whole == 0 and value < 0 else whole
    return finished(mods, to, value)


def finished(mods: dict[str, Any], to: str, value: Any) -> int:
    """Rounded, and clamped as the modifiers say."""
    if mods.get("finite") and value != "nan":
        value = within(value, decoded(to, encoded(to, "inf") - 1))
    rounding = (mods["rnd"] or "rn")[:2]
    if mods.get("ftz") and to == "f32" and not isinstance(value, str) and is_tiny(to, value, rounding):
        value = "-0" if value < 0 else Fraction(0)
    bits = encoded(to, value, rounding)
    return clamped(to, bits) if mods.get("sat") else positive(mods, bits, to)


def positive(mods: dict[str, Any], bits: int, word: str = "f16") -> int:
    value = decoded(word, bits)
    return 0 if mods.get("relu") and value != "nan" and is_negative(value) else bits


def to_integer(mods: dict[str, Any], word: str, to: str, value: Any) -> int:
    low, high = ends(to)
    if value == "nan":
        return 1 << bits_of(to) - 1 if 64 in (bits_of(word), bits_of(to)) else 0
    whole = {"inf": high, "-inf": low, "-0": 0}[value] if isinstance(value, str) else rounded(value, mods["rnd"])
    return wrapped(to, whole, sat=True)


def tf32(mods: dict[str, Any], a: int) -> int:
    value = decoded("f32", a)
    if value == "nan":
        return a & 0xFFFFE000 if mods["rnd"] == "rna" else 0x7FFFE000
    if isinstance(value, str):
        bits = a
        if mods.get("finite") and value != "-0":
            bits = a & 0x80000000 | 0x7F7FE000
    else:
        step = a & 0x1FFF
        low = a & ~0x1FFF
        up = {"rna": step >= 0x1000, "rz": False, "rn": step > 0x1000 or (step == 0x1000 and a >> 13 & 1)}[mods["rnd"]]
        bits = low + (0x2000 if up else 0)
        if mods.get("finite") and bits & 0x7FFFFFFF == 0x7F800000:
            bits -= 0x2000
    return 0 if mods.get("relu") and bits >> 31 else bits


def codes_of(word: str, a: int) -> list[int]:
    width = 4 if word == "e2m1x2" else 8
    return [a >> width * i & (2 << sum(FORMATS[of_one(word)])) - 1 for i in (0, 1)]


def packed_codes(mods: dict[str, Any], to: str, values: list[Any]) -> int:
    """Each the nearest code, ties to the even one; what is beyond takes the largest."""
    top, codes = magnitudes(of_one(to))

    def one(value: Any) -> int:
        if value == "nan":
            return top - 1
        value = within(value, codes[-1])
        negative = is_negative(value)
        size = 0 if value == "-0" else abs(value)
        near = min(range(len(codes)), key=lambda code: (abs(codes[code] - size), code & 1))
        return 0 if negative and mods.get("relu") else near | negative * top

    width = 4 if to == "e2m1x2" else 8
    return one(values[0]) | one(values[1]) << width


def packed_powers(mods: dict[str, Any], values: list[Any]) -> int:
    """Of the size of each the power of two below or above; beyond the largest there is NaN, or the largest itself."""

    def one(value: Any) -> int:
        if isinstance(value, str):
            return 0 if value == "-0" else 254 if mods["finite"] and value != "nan" else 255
        codes = range(256)
        below = max((code for code in codes if Fraction(2) ** (code - 127) <= abs(value)), default=0)
        above = min(code for code in codes if Fraction(2) ** (code - 127) >= abs(value))
        code = below if mods["rnd"] == "rz" else above
        return min(code, 254) if mods["finite"] else code

    return one(values[0]) | one(values[1]) << 8


def stochastic(mods: dict[str, Any], to: str, bits: int, share: Fraction) -> int:
    """The code below the size, or the next one if ``share`` of the step to it and what is cut off are one step."""
    value, one = decoded("f32", bits), of_one(to)
    top, codes = magnitudes(one)
    last = len(codes) - 1
    if value == "nan":
        return top - 1
    size = within(value, codes[last]) if mods["finite"] else value
    size = 0 if size == "-0" else size if isinstance(size, str) else abs(size)
    if isinstance(size, str):
        code = encoded(one, "inf")
    else:
        code = bisect_right(codes, size) - 1
        step = codes[code + 1] - codes[code] if code < last else codes[code] - codes[code - 1]
        code += size - codes[code] >= (1 - share) * step
    code = min(code, last) if mods["finite"] else min(code, encoded(one, "inf"))
    negative = is_negative(value)
    return 0 if negative and mods["relu"] else code | negative * top


@scalar("cvt.rs")
def cvt_rs(mods: dict[str, Any], a: int, b: int, rbits: int) -> int:
    count = 13 if mods["type"] == "f16x2" else 16
    shares = [Fraction(rbits >> place & (1 << count) - 1, 1 << count) for place in (16, 0)]
    upper, lower = (stochastic(mods, mods["type"], x, share) for x, share in zip((a, b), shares, strict=True))
    return upper << 16 | lower


@scalar("cvt.rs.of_four")
def cvt_rs_of_four(mods: dict[str, Any], a: int, b: int, e: int, f: int, rbits: int) -> int:
    octets = [Fraction(rbits >> place & 0xFF, 256) for place in (24, 8, 16, 0)]
    halves = [Fraction(rbits >> place & 0xFFFF, 65536) for place in (16, 16, 0, 0)]
    width, shares = (4, octets) if mods["type"] == "e2m1x4" else (8, halves)
    found = 0
    for x, share in zip((a, b, e, f), shares, strict=True):
        found = found << width | stochastic(mods, mods["type"], x, share)
    return found


@scalar("cvt.pair")
def cvt_pair(mods: dict[str, Any], a: int, b: int) -> int:
    to = mods["type"]
    values = [decoded("f32", b), decoded("f32", a)]
    if to == "ue8m0x2":
        return packed_powers(mods, values)
    if to in NARROW:
        return packed_codes(mods, to, values)
    return finished(mods, to[:-2], values[0]) | finished(mods, to[:-2], values[1]) << 16


@scalar("cvt.pack", "cvt.pack.onto")
def cvt_pack(mods: dict[str, Any], a: int, b: int, c: int = 0) -> int:
    to, width = mods["type"], int(mods["type"][1:])
    if width < 8:
        low, high = (-(1 << width - 1), (1 << width - 1) - 1) if to[0] == "s" else (0, (1 << width) - 1)
        upper, lower = (min(max(signed(each, 32), low), high) % (1 << width) for each in (a, b))
        return (c << 2 * width | upper << width | lower) & 0xFFFFFFFF
    return (
        c << 2 * width | wrapped(to, signed(a, 32), sat=True) << width | wrapped(to, signed(b, 32), sat=True)
    ) & 0xFFFFFFFF
