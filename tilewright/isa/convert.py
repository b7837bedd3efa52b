"""Conversions between numbers: the PTX ``cvt`` instructions that a cast may become, with their exact meaning.

These rows are no names of the language (``T.cast`` is). The meaning of a cast is its dtype's rounding to nearest even,
as NumPy and ml_dtypes have it (tf32: ties away from zero); where an instruction differs (fp8 saturates, NaN becomes the
largest int64) the emitter mends it. Source: PTX ISA, "Data Movement and Conversion Instructions: cvt".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import ml_dtypes
import numpy as np

from tilewright.dtypes import DType, dtype
from tilewright.isa.arch import Requirement, since, suffixed
from tilewright.isa.arith import NumberRow, half_bits, single_to_odd
from tilewright.isa.machine import Lanes
from tilewright.isa.table import Cuda, Form, Meaning, instruction, reads

# What casts and quotients of a kernel's numbers mean where NumPy's differ: one rounding, tf32, integers that
# saturate.
#
# A cast means its dtype's rounding to nearest even, as NumPy and ml_dtypes have it (tf32: ties away from zero). What
# is wider than float32 is first rounded to float32 *to odd*: an inexact value takes the neighbour whose last bit is
# set, so that rounding once more rounds as if once. tests/gpu/test_numbers.py compares all of this with an H200, bit
# for bit. Source: PTX ISA, "Data Movement and Conversion Instructions: cvt".

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


SOURCE = 'PTX ISA, "Data Movement and Conversion Instructions: cvt"'
FP8 = since("sm_89")
FP6_FP4 = suffixed(100, 103, 110, 120, 121)


def float_to_int(values: Lanes, name: str) -> Lanes:
    """Toward zero; what is out of range takes the nearest end.

    NaN is 0, but the topmost bit alone where either side has 64 bits, as the manual has it.
    """
    kind = np.dtype(name)
    ends, top_bit = np.iinfo(kind), np.array(1 << 8 * kind.itemsize - 1, f"u{kind.itemsize}").view(kind)
    with np.errstate(invalid="ignore"):
        inside = np.trunc(values).astype(kind)
    clamped = np.where(values <= float(ends.min), ends.min, np.where(values >= float(ends.max), ends.max, inside))
    wide = 8 in (kind.itemsize, values.dtype.itemsize)
    return np.where(np.isnan(values), top_bit if wide else 0, clamped).astype(kind)


def _row(text: str, result: str, operands: str, arch: Requirement, execute: Callable[..., Lanes]) -> NumberRow:
    return NumberRow(text, result, tuple(operands.split()), arch, SOURCE, execute)


def _integer(name: str) -> Callable[[Lanes], Lanes]:
    return lambda values: float_to_int(values, name).view(f"u{dtype(name).bits // 8}")


def _rounded(name: str) -> Callable[[Lanes], Lanes]:
    return lambda values: half_bits(values, dtype(name).numpy)


def _saturated(name: str) -> Callable[[Lanes, Lanes], Lanes]:
    """Two floats in one register, the first in the upper half; the largest finite value is the end.

    NaN has all bits but the sign: fp8's NaN, and the largest value of what has none.
    """
    kind = dtype(name).numpy
    largest = float(ml_dtypes.finfo(kind).max)  # type: ignore[no-untyped-call]
    nan = np.uint16((1 << dtype(name).value_bits - 1) - 1)

    def codes(values: Lanes) -> Lanes:
        finite = np.where(np.isnan(values), np.float32(0), values).clip(-largest, largest)
        return np.where(np.isnan(values), nan, finite.astype(kind).view(np.uint8).astype(np.uint16))

    return lambda high, low: codes(high) << _width(name) | codes(low)


def _width(name: str) -> np.uint16:
    """The distance of a pair's two values, in bits."""
    return np.uint16(dtype(name).bits)


def _tf32(values: Lanes) -> Lanes:
    """Ten bits of fraction, nearest, ties away from zero; the other thirteen are 0."""
    bits = values.view(np.uint32)
    rounded = (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where((bits & 0x7F800000) == 0x7F800000, bits, rounded)


def _pair_of_halves(name: str) -> Callable[[Lanes], Lanes]:
    """Two narrow floats of one register as two halves of another."""
    kind = dtype(name).numpy
    mask = np.uint16((1 << dtype(name).value_bits) - 1)

    def half(codes: Lanes) -> Lanes:
        values = (codes & mask).astype(np.uint8).view(kind).astype(np.float32)
        return half_bits(values, np.dtype(np.float16)).astype(np.uint32)

    return lambda pair: half(pair >> _width(name)) << np.uint32(16) | half(pair)


_NARROW = {
    "float8_e4m3fn": ("e4m3", FP8),
    "float8_e5m2": ("e5m2", FP8),
    "float6_e2m3fn": ("e2m3", FP6_FP4),
    "float6_e3m2fn": ("e3m2", FP6_FP4),
}

# (from, to): narrow floats go in pairs, and back to half, which holds each of them exactly.
CONVERSIONS: dict[tuple[str, str], NumberRow] = {
    ("float32", "float16"): _row("cvt.rn.f16.f32 %0, %1;", "b16", "f32", since("sm_75"), _rounded("float16")),
    ("float16", "float32"): _row(
        "cvt.f32.f16 %0, %1;", "f32", "b16", since("sm_75"), lambda half: half.view(np.float16).astype(np.float32)
    ),
    ("float32", "bfloat16"): _row("cvt.rn.bf16.f32 %0, %1;", "b16", "f32", since("sm_80"), _rounded("bfloat16")),
    ("float32", "tf32"): _row("cvt.rna.tf32.f32 %0, %1;", "b32", "f32", since("sm_80"), _tf32),
    **{
        ("float32", name): _row(f"cvt.rn.satfinite.{ptx}x2.f32 %0, %1, %2;", "b16", "f32 f32", arch, _saturated(name))
        for name, (ptx, arch) in _NARROW.items()
    },
    **{
        (name, "float16x2"): _row(f"cvt.rn.f16x2.{ptx}x2 %0, %1;", "b32", "b16", arch, _pair_of_halves(name))
        for name, (ptx, arch) in _NARROW.items()
    },
    # Two 4-bit values fill a byte, for which inline assembly has no register: the text declares one.
    ("float32", "float4_e2m1fn"): _row(
        "{ .reg .b8 pair; cvt.rn.satfinite.e2m1x2.f32 pair, %1, %2; cvt.u16.u8 %0, pair; }",
        "b16",
        "f32 f32",
        FP6_FP4,
        _saturated("float4_e2m1fn"),
    ),
    ("float4_e2m1fn", "float16x2"): _row(
        "{ .reg .b8 pair; cvt.u8.u16 pair, %1; cvt.rn.f16x2.e2m1x2 %0, pair; }",
        "b32",
        "b16",
        FP6_FP4,
        _pair_of_halves("float4_e2m1fn"),
    ),
    **{
        (source, name): _row(f"cvt.rzi.{ptx}.{word} %0, %1;", f"b{ptx[1:]}", word, since("sm_75"), _integer(name))
        for source, word in (("float32", "f32"), ("float64", "f64"))
        for name, ptx in (("int32", "s32"), ("uint32", "u32"), ("int64", "s64"), ("uint64", "u64"))
    },
}

# float32 as a narrow float, the largest finite one where the number is beyond the range: one `cvt` with satfinite.
#
# ``T.cast`` gives NaN or an infinity there, or the largest value of a type that has neither. Source: PTX ISA, "Data
# Movement and Conversion Instructions: cvt".

SATURATING = tuple(to for (_, to), row in CONVERSIONS.items() if row.operands == ("f32", "f32"))
"""The dtypes that numbers are saturated to."""

HELPER = """\
__device__ __forceinline__ unsigned char tw_saturated_{name}(float x) {{
  unsigned short d;
  asm("{text}" : "=h"(d) : "f"(0.0f), "f"(x));
  return (unsigned char)(d & {mask});
}}
"""


def _helper(name: str) -> str:
    return HELPER.format(name=name, text=CONVERSIONS["float32", name].text, mask=(1 << dtype(name).bits) - 1)


def _meaning(name: str) -> Callable[[Lanes], Lanes]:
    """The lower half of the pair that the instruction makes with a zero."""
    both, mask = CONVERSIONS["float32", name].execute, np.uint16((1 << dtype(name).bits) - 1)
    return lambda x: (both(np.zeros_like(x), x) & mask).astype(np.uint8).view(dtype(name).numpy)


instruction(
    "saturated",
    operands=(reads("x", "typed"),),
    keywords={"to": SATURATING[0]},
    doc="The float32 x as a float of 8, 6 or 4 bits, the dtype `to`; beyond the range the largest or smallest value.",
    forms=tuple(
        Form(
            Cuda("{to}({x})", {"dtype": {"float32": ""}, "to": {name: f"tw_saturated_{name}"}}, helper=_helper(name)),
            CONVERSIONS["float32", name].arch,
            SOURCE,
            Meaning(_meaning(name)),
            result=dtype(name),
        )
        for name in SATURATING
    ),
)
