"""Conversions between numbers: the PTX ``cvt`` instructions that a cast may become, with their exact meaning.

These rows are no names of the language (``T.cast`` is). The meaning of a cast is its dtype's rounding to nearest even,
as NumPy and ml_dtypes have it (tf32: ties away from zero); where an instruction differs (fp8 saturates, NaN becomes the
largest int64) the emitter mends it. Source: PTX ISA, "Data Movement and Conversion Instructions: cvt".
"""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

from tilewright.dtypes import dtype
from tilewright.isa.arch import Requirement, since, suffixed
from tilewright.isa.arith import NumberRow, half_bits
from tilewright.isa.machine import Lanes

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
