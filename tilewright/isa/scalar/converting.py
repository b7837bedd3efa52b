"""cvt: integers and floats of all widths, one number or two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import starmap
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.dtypes import dtype
from tilewright.isa.arch import only
from tilewright.isa.arith import FP6_FP4, float_to_int, narrowed, number_row, sum_to_odd
from tilewright.isa.forms import NARROW, TYPES, Cuda, Form, Meaning, Mods, Numbers, Spellings, reads
from tilewright.isa.scalar.floats import (
    BRAIN,
    DOUBLE,
    bits_of,
    canonical,
    carried,
    flushed,
    flushed_as_rounded,
    positive,
    saturated,
)
from tilewright.isa.scalar.rows import flag, maybe, scalar, words
from tilewright.isa.table import instruction

# Floats of 8 bits and less, in pairs and fours: the meaning of cvt on them, and of its stochastic rounding.
#
# Source: PTX ISA, "Data Movement and Conversion Instructions: cvt".

INFINITE, LEAST = 0x7F800000, 0x00400000  # bits of float32: infinity, and 2 ** -127


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
    (
        "cvt.rs{relu}{finite}{type}.f32",
        {"type": words("f16x2", "bf16x2"), "relu": RELU, "finite": FINITE},
        stochastic,
        STOCHASTIC,
    ),
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

# Conversions of numbers with any rounding: the meaning of cvt on integers and floats of all widths.
#
# Source: PTX ISA, "Data Movement and Conversion Instructions: cvt".

SINGLE_KIND, DOUBLE_KIND = np.dtype(np.float32), np.dtype(np.float64)
TO_WHOLE: dict[str, Any] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


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
    return float_to_int(_exact(TO_WHOLE[rounding](_computable(values)), values), name)


def _computable(values: Numbers) -> Numbers:
    return values if values.dtype in (SINGLE_KIND, DOUBLE_KIND) else values.astype(np.float32)


def _exact(result: Numbers, like: Numbers) -> Numbers:
    """Whole numbers as float32, or as float64 for a float64 source: `float_to_int` converts a NaN by that width."""
    return result if like.dtype == DOUBLE_KIND else result.astype(np.float32)


def whole(values: Numbers, rounding: str | None) -> Numbers:
    """Rounded to a whole number, of the same type."""
    return values if rounding is None else TO_WHOLE[rounding](_computable(values)).astype(values.dtype)


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


INTEGERS = "u8 u16 u32 u64 s8 s16 s32 s64"
WIDER = "u16 u32 u64 s16 s32 s64"
FP8, FP6 = "e4m3x2 e5m2x2", "e2m3x2 e3m2x2"
FTZ, SAT = flag("ftz"), flag("sat")
ALWAYS: Spellings = {True: ""}  # of a flag whose word is part of the text
RN, RN_RZ, RND = words("rn"), words("rn", "rz"), words("rn", "rz", "rm", "rp")
WHOLE, MAYBE_WHOLE = words("rni", "rzi", "rmi", "rpi"), maybe("rni", "rzi", "rmi", "rpi")
UP: Mapping[str, Any] = {"rnd": RN, "relu": RELU}
DOWN: Mapping[str, Any] = {"rnd": RN, "finite": ALWAYS, "relu": RELU}
OF_BYTE = "{{ .reg .b8 pair; cvt.u8.u16 pair, {a}; {mnemonic} {result}, pair; }}"
TO_BYTE = "{{ .reg .b8 pair; {mnemonic} pair, {a}; cvt.u16.u8 {result}, pair; }}"
PAIR_TO_BYTE = "{{ .reg .b8 pair; {mnemonic} pair, {a}, {b}; cvt.u16.u8 {result}, pair; }}"


def _flush_if(ftz: bool, word: str) -> Callable[[Numbers], Numbers]:
    """float32 alone is flushed."""
    return flushed if ftz and word == "f32" else (lambda x: x)


def _of_integers(*, type: str, atype: str, sat: bool = False, **_: object) -> Callable[[Numbers], Numbers]:
    return lambda a: between_integers(a, TYPES[type].name, clamped=sat)


def _beyond(to: str) -> list[str]:
    """The types that have numbers which this one lacks: elsewhere nothing is clamped, and the assembler says so."""
    ends = np.iinfo(TYPES[to].numpy)  # type: ignore[type-var]  # an integer
    others = {name: np.iinfo(TYPES[name].numpy) for name in INTEGERS.split()}  # type: ignore[type-var]
    return [name for name, other in others.items() if other.min < ends.min or other.max > ends.max]


def _from_integer(
    *, type: str, atype: str, rnd: str, sat: bool = False, ftz: bool = False, **_: object
) -> Callable[[Numbers], Numbers]:
    kind = TYPES[type].numpy
    clamp = saturated if sat else (lambda x: x)
    return lambda a: clamp(from_integer(a, kind, rnd))


def _to_integer(*, type: str, atype: str, rnd: str, ftz: bool = False, **_: object) -> Callable[[Numbers], Numbers]:
    flush = _flush_if(ftz, atype)
    return lambda a: to_integer(flush(a), TYPES[type].name, rnd)


def _of_floats(
    *, type: str, atype: str, rnd: str | None = None, sat: bool = False, ftz: bool = False, relu: bool = False, **_: Any
) -> Callable[[Numbers], Numbers]:
    kind = TYPES[type].numpy
    before, after = _flush_if(ftz and type != "f16", atype), _flush_if(ftz, type)  # into halves nothing is flushed
    if type == atype:
        if not (sat or ftz or rnd):
            return canonical if type in ("f16", "bf16") else (lambda a: a)
        settle: Callable[..., Numbers] = carried if type == "f64" else (lambda result, a: canonical(result))
        return lambda a: _clamped(settle(whole(before(a), rnd), a), sat=sat, relu=relu)
    convert = between_floats(rnd, kind)
    if ftz and (atype, type) == ("f64", "f32"):
        return lambda a: _clamped(flushed_as_rounded(convert(a), lambda: a, rnd or "rn"), sat=sat, relu=relu)
    return lambda a: _clamped(after(convert(before(a))), sat=sat, relu=relu)


def _clamped(x: Numbers, *, sat: bool, relu: bool) -> Numbers:
    if sat:
        return saturated(x)
    return np.where(x > 0, x, np.where(x <= 0, x.dtype.type(0), x)).astype(x.dtype) if relu else x


def _finite(x: Numbers, largest: float) -> Numbers:
    """The number clamped to the largest finite one; NaN stays."""
    return np.where(x == x, np.clip(x, -largest, largest), x)


def _halves(*, type: str, rnd: str, relu: bool = False, finite: bool = False, **_: object) -> Callable[..., Numbers]:
    """Two float32 in one register, a in the upper half."""
    kind = TYPES[type].numpy
    largest = float(ml_dtypes.finfo(kind).max)  # type: ignore[no-untyped-call]

    def one(x: Numbers) -> Numbers:
        wide = x.astype(np.float64)
        result = narrowed(_finite(wide, largest) if finite else wide, kind, rnd)
        return canonical(_clamped(result, sat=False, relu=relu))

    return lambda a, b: np.stack(np.broadcast_arrays(one(b), one(a)), axis=-1)


def _single(
    *, type: str, rnd: str, relu: bool = False, finite: bool = False, **_: object
) -> Callable[[Numbers], Numbers]:
    pair = _halves(type=type, rnd=rnd, relu=relu, finite=finite)
    return lambda a: pair(a, a)[..., 0]


def _tf32(*, rnd: str, relu: bool = False, finite: bool = False, **_: object) -> Callable[[Numbers], Numbers]:
    """Ten bits of fraction; the other thirteen are 0."""

    def execute(a: Numbers) -> Numbers:
        bits = a.view(np.uint32)
        last = bits >> np.uint32(13) & np.uint32(1)
        more = {"rna": np.uint32(0x1000), "rn": np.uint32(0xFFF) + last, "rz": np.uint32(0)}[rnd]
        rounded = (bits + more) & np.uint32(0xFFFFE000)
        if finite:
            rounded = np.where(rounded & np.uint32(0x7FFFFFFF) == 0x7F800000, rounded - np.uint32(0x2000), rounded)
            largest = bits & np.uint32(0x80000000) | np.uint32(0x7F7FE000)
            rounded = np.where(bits & np.uint32(0x7FFFFFFF) == 0x7F800000, largest, rounded)
        special = (bits & np.uint32(0x7F800000)) == 0x7F800000
        result = np.where(special & ~(finite & (a == a)), bits, rounded)
        nan = bits & np.uint32(0xFFFFE000) if rnd == "rna" else np.uint32(0x7FFFE000)
        result = np.where(a == a, result, nan)
        return np.where((result >> np.uint32(31) != 0) & relu & (a == a), np.uint32(0), result)

    return execute


def _packed_integers(*, type: str, **_: object) -> Callable[..., Numbers]:
    """a and b clamped, side by side, b below; c moves up by what they take."""
    bits = int(type[1:])
    signed = type[0] == "s"
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)

    def one(x: Numbers) -> Numbers:
        return (x.astype(np.int64).clip(low, high) & ((1 << bits) - 1)).astype(np.uint32)

    def execute(a: Numbers, b: Numbers, *c: Numbers) -> Numbers:
        pair = one(a) << np.uint32(bits) | one(b)
        return c[0] << np.uint32(2 * bits) | pair if c else pair

    return execute


def _cvt(
    spelled: str, types: str, sources: str, meaning: Any, first: Any = "sm_75", shape: str = "", **modifiers: Spellings
) -> Any:
    """A shape of cvt. spelled: what stands between the opcode and the types."""
    table = {"type": words(*types.split()), "atype": words(*sources.split()), **modifiers}
    return f"cvt{spelled}{{type}}{{atype}}", table, meaning, first, shape


OF_INTEGERS: tuple[tuple[str, str, str, str, dict[str, Any]], ...] = (
    ("{rnd}{sat}", "f16 f64", INTEGERS, "sm_75", {"sat": SAT}),
    ("{rnd}{ftz}{sat}", "f32", INTEGERS, "sm_75", {"ftz": FTZ, "sat": SAT}),
    ("{rnd}{sat}", "bf16", WIDER, "sm_90", {}),
)
"""Conversions between integers and floats: what is spelled, the types of both, since when, modifiers."""
scalar(
    "cvt",
    "a:atype",
    _cvt("", INTEGERS, INTEGERS, _of_integers),
    *(_cvt(".sat", to, " ".join(_beyond(to)), _of_integers, sat=ALWAYS) for to in INTEGERS.split() if _beyond(to)),
    *(
        shape
        for spelled, floats, integers, first, more in OF_INTEGERS
        for shape in (
            _cvt(spelled, floats, integers, _from_integer, first, rnd=RND, **more),
            _cvt(spelled, integers, floats, _to_integer, first, rnd=WHOLE, **more),
        )
    ),
    _cvt("{rnd}{ftz}{sat}", "f32", "f32", _of_floats, rnd=MAYBE_WHOLE, ftz=FTZ, sat=SAT),
    _cvt("{rnd}{sat}", "f16", "f16", _of_floats, rnd=MAYBE_WHOLE, sat=SAT),
    _cvt("{rnd}{sat}", "f64", "f64", _of_floats, rnd=MAYBE_WHOLE, sat=SAT),
    _cvt("{rnd}{ftz}{sat}", "f16", "f32", _of_floats, rnd=RND, ftz=FTZ, sat=SAT),
    _cvt("{rnd}{ftz}{sat}", "f32", "f64", _of_floats, rnd=RND, ftz=FTZ, sat=SAT),
    _cvt("{rnd}{sat}", "f16", "f64", _of_floats, rnd=RND, sat=SAT),
    _cvt("{ftz}{sat}", "f32", "f16", _of_floats, ftz=FTZ, sat=SAT),
    _cvt("{ftz}{sat}", "f64", "f32", _of_floats, ftz=FTZ, sat=SAT),
    _cvt("{sat}", "f64", "f16", _of_floats, sat=SAT),
    _cvt("", "f32", "bf16", _of_floats, "sm_80"),
    _cvt("", "f64", "bf16", _of_floats, "sm_90"),
    _cvt("{rnd}", "bf16", "f64 f16", _of_floats, "sm_90", rnd=RND),
    _cvt("{rnd}", "f16", "bf16", _of_floats, "sm_90", rnd=RND),
    _cvt("", "bf16", "f16", _of_floats, "sm_90"),
    _cvt("", "f16", "bf16", _of_floats, "sm_90"),
    _cvt("{rnd}{relu}", "bf16", "f32", _single, "sm_80", rnd=RN_RZ, relu=RELU),
    _cvt("{rnd}.relu", "f16", "f32", _single, "sm_80", rnd=RN_RZ, relu=ALWAYS),
    _cvt("{rnd}.satfinite", "f16", "f32", _single, "sm_75", rnd=RN_RZ, finite=ALWAYS),
    _cvt("{rnd}.relu.satfinite", "f16", "f32", _single, "sm_80", rnd=RN_RZ, relu=ALWAYS, finite=ALWAYS),
    _cvt("{rnd}.satfinite", "bf16", "f32", _single, "sm_80", rnd=RN_RZ, finite=ALWAYS),
    _cvt("{rnd}.relu.satfinite", "bf16", "f32", _single, "sm_80", rnd=RN_RZ, relu=ALWAYS, finite=ALWAYS),
    _cvt("{rnd}", "bf16", "f32", _of_floats, "sm_80", rnd=words("rm", "rp")),
    _cvt("{rnd}", "bf16", "bf16", _of_floats, "sm_90", rnd=MAYBE_WHOLE),
    _cvt("{rnd}", "tf32", "f32", _tf32, "sm_80", rnd=words("rna")),
    _cvt("{rnd}{relu}", "tf32", "f32", _tf32, "sm_90", rnd=RN_RZ, relu=RELU),
    _cvt("{rnd}.satfinite", "tf32", "f32", _tf32, "sm_80", rnd=words("rna"), finite=ALWAYS),
    _cvt("{rnd}.satfinite{relu}", "tf32", "f32", _tf32, "sm_100", rnd=RN_RZ, finite=ALWAYS, relu=RELU),
    _cvt("{rnd}{relu}", "f16x2", FP8, widened, "sm_89", **UP),
    _cvt("{rnd}.satfinite{relu}", FP8, "f16x2", packed, "sm_89", **DOWN),
    _cvt(".rn{finite}{relu}", "f16x2", FP6, widened, FP6_FP4, **UP),
    _cvt(".rn{finite}{relu}", "f16x2", "e2m1x2", widened, FP6_FP4, OF_BYTE, **UP),
    _cvt(".rn{finite}{relu}", "bf16x2", f"{FP8} {FP6}", widened, FP6_FP4, **UP, finite=FINITE),
    _cvt(".rn{finite}{relu}", "bf16x2", "e2m1x2", widened, FP6_FP4, OF_BYTE, **UP, finite=FINITE),
    _cvt(".rn.satfinite{relu}", FP8, "bf16x2", packed, FP6_FP4, **DOWN),
    _cvt(".rn.satfinite{relu}", FP6, "f16x2 bf16x2", packed, FP6_FP4, **DOWN),
    _cvt(".rn.satfinite{relu}", "e2m1x2", "f16x2 bf16x2", packed, FP6_FP4, TO_BYTE, **DOWN),
    _cvt("{rnd}{finite}", "ue8m0x2", "bf16x2", exponents, FP6_FP4, rnd=words("rz", "rp"), finite=FINITE),
    _cvt("{rnd}", "bf16x2", "ue8m0x2", of_exponents, FP6_FP4, rnd=RN),
    doc="a as another type: integers chopped or clamped; floats rounded once; floats to integers always clamped.",
    chapter=CHAPTER,
)
PAIR = scalar(
    "cvt.pair",
    "a:atype b:atype",
    _cvt("{rnd}{relu}", "f16x2 bf16x2", "f32", _halves, "sm_80", rnd=RN_RZ, relu=RELU),
    _cvt("{rnd}{relu}.satfinite", "f16x2 bf16x2", "f32", _halves, "sm_80", rnd=RN_RZ, relu=RELU, finite=ALWAYS),
    _cvt("{rnd}.satfinite{relu}", FP8, "f32", packed, "sm_89", **DOWN),
    _cvt("{rnd}.satfinite{relu}", FP6, "f32", packed, FP6_FP4, **DOWN),
    _cvt("{rnd}.satfinite{relu}", "e2m1x2", "f32", packed, FP6_FP4, PAIR_TO_BYTE, **DOWN),
    _cvt("{rnd}{finite}", "ue8m0x2", "f32", exponents, FP6_FP4, rnd=words("rz", "rp"), finite=FINITE),
    doc="Two float32 as narrower floats in one register, a in the upper half.",
    chapter=CHAPTER,
)

# ``T.saturated``: float32 as a narrow float, the largest finite one where the number is beyond the range.
#
# ``T.cast`` gives NaN or an infinity there, or the largest value of a type that has neither.

HELPER = """\
__device__ __forceinline__ unsigned char tw_saturated_{name}(float x) {{
  unsigned short d;
  asm("{text}" : "=h"(d) : "f"(0.0f), "f"(x));
  return (unsigned char)(d & {mask});
}}
"""


def _saturated(word: str, name: str) -> Form:
    """The lower half of the pair that the instruction makes with a zero."""
    mods: Mods = {"type": word, "atype": "f32", "rnd": "rn", "finite": True, "relu": False}
    row = number_row(PAIR, next(form for form in PAIR.forms if form.fits(mods)), mods)
    mask, kind = (1 << dtype(name).bits) - 1, dtype(name)
    helper = HELPER.format(name=name, text=row.text, mask=mask)
    return Form(
        Cuda("{to}({x})", {"dtype": {"float32": ""}, "to": {name: f"tw_saturated_{name}"}}, helper=helper),
        row.arch,
        f'PTX ISA, "{CHAPTER}: cvt"',
        Meaning(lambda x: (row.execute(np.zeros_like(x), x) & mask).astype(np.uint8).view(kind.numpy)),
        result=kind,
    )


SATURATING = tuple(NARROW.values())
"""The dtypes that numbers are saturated to."""
instruction(
    "saturated",
    operands=(reads("x", "typed"),),
    keywords={"to": SATURATING[0]},
    doc="The float32 x as a float of 8, 6 or 4 bits, the dtype `to`; beyond the range the largest or smallest value.",
    forms=tuple(starmap(_saturated, NARROW.items())),
)
scalar(
    "cvt.pack",
    "a:s32 b:s32",
    ("cvt.pack.sat{type}.s32", {"type": words("u16", "s16")}, _packed_integers),
    doc="Two integers clamped and put side by side, a above.",
    chapter=CHAPTER,
    result="b32",
)
scalar(
    "cvt.pack.onto",
    "a:s32 b:s32 c:b32",
    ("cvt.pack.sat{type}.s32.b32", {"type": words("u8", "s8")}, _packed_integers),
    ("cvt.pack.sat{type}.s32.b32", {"type": words("u4", "s4", "u2", "s2")}, _packed_integers),
    doc="Two integers clamped and put side by side, a above, below the bits of c, which move up.",
    chapter=CHAPTER,
    result="b32",
)
