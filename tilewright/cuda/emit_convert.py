"""Casts: one helper function for each pair of dtypes that C++ cannot convert as the language means it.

Half, bfloat16 and the narrow floats convert through float32: up is exact, and down rounds once to nearest even, because
what is wider than float32 is first rounded *to odd* (an inexact value takes the neighbour whose last bit is set, so
that the second rounding sees on which side it lies). Where an architecture has the ``cvt`` it is used.
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.cuda.emit_unit import Cpp, Level, TranslationUnit, assembly, carried_as_bits, cpp_type
from tilewright.dtypes import DType, dtype
from tilewright.ir.intervals import limits
from tilewright.isa.convert import CONVERSIONS

FLOAT32 = dtype("float32")
EXACT_IN_TF32 = ("bool", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float6_e2m3fn",
                 "float6_e3m2fn", "float4_e2m1fn", "int8", "uint8")  # fmt: skip


class _Narrow(NamedTuple):
    """A narrow float. limit: the largest magnitude that does not round beyond its range."""

    mantissa: int
    bias: int
    limit: str
    magnitude: str  # mask of all bits but the sign
    nan: str


_NARROW = {
    "float8_e4m3fn": _Narrow(3, 7, "464.0f", "0x7f", "0x7f"),
    "float8_e5m2": _Narrow(2, 15, "61440.0f", "0x7f", "0x7e"),
    "float6_e2m3fn": _Narrow(3, 1, "7.5f", "0x1f", "0x20"),
    "float6_e3m2fn": _Narrow(2, 3, "28.0f", "0x1f", "0x20"),
    "float4_e2m1fn": _Narrow(1, 1, "6.0f", "0x07", "0x08"),
}


def convert(value: Cpp, source: DType, target: DType, unit: TranslationUnit) -> Cpp:
    """``value`` of scalar dtype ``source`` as ``target``."""
    if target == "tf32" and source not in ("tf32", *EXACT_IN_TF32):
        return Cpp(f"{_tf32_rounding(unit)}({_float32_to_odd(value, source, unit).text})")
    if cpp_type(source) == cpp_type(target) and source.kind == target.kind and not carried_as_bits(target):
        return value
    if target.kind == "bool":
        number = to_float32(value, source, unit) if source.is_float and source.bits < 64 else value
        return Cpp(f"{number.at(Level.RELATION)} != 0", Level.EQUALITY)
    if "handle" in (source.kind, target.kind):
        wide = value.cast("long long") if target.is_integer or source.bits < 64 else value
        return wide.cast(cpp_type(target))
    if source.is_float and target.is_integer:
        return _integer(value, source, target, unit)
    if carried_as_bits(target):
        return from_float32(_float32_to_odd(value, source, unit), target, unit)
    if carried_as_bits(source):
        value = to_float32(value, source, unit)
        return value if target.bits == 32 else value.cast(cpp_type(target))
    return value.cast(cpp_type(target))


# Floats to integers: toward zero, saturating, NaN is 0


def _integer(value: Cpp, source: DType, target: DType, unit: TranslationUnit) -> Cpp:
    if carried_as_bits(source):
        value, source = to_float32(value, source, unit), FLOAT32
    kind, number = cpp_type(target), cpp_type(source)
    name = f"{target}_from_{source}"
    if target.bits < 32:
        low, high, *_ = limits(target)
        wide = _integer(Cpp("x"), source, dtype("int32"), unit).text
        unit.function(
            name,
            f"{kind} ({number} x)",
            f"return ({kind})min(max({wide}, {low}), {high});",
            comment="Saturates; NaN is 0.",
        )
        return Cpp.call(name, value)
    row = CONVERSIONS["float64" if source.bits == 64 else "float32", target]
    if source.bits == 32 and target.bits == 32:
        unit.number_instruction(name, row, kind, (number,))
        return Cpp.call(name, value)
    inner = unit.number_instruction(f"{name}_or_nan", row, kind, (number,))
    unit.function(name, f"{kind} ({number} x)", f"return x == x ? {inner}(x) : 0;", comment="Saturates; NaN is 0.")
    return Cpp.call(name, value)


# Into float32, so that one more rounding is still right


def _float32_to_odd(value: Cpp, source: DType, unit: TranslationUnit) -> Cpp:
    if source.is_float and source.bits < 64:
        return to_float32(value, source, unit)
    if source.bits < 32:
        return value.cast("float")
    if source.is_float:
        kind, rounded, same = "double", "__double2float_rz(x)", "(double)y == x || x != x"
    elif source.is_signed:
        kind, rounded, same = "long long", "__ll2float_rz(x)", "(long long)y == x"
    else:
        kind, rounded, same = "unsigned long long", "__ull2float_rz(x)", "(unsigned long long)y == x"
    name = f"odd_float32_from_{'float64' if source.is_float else 'int64' if source.is_signed else 'uint64'}"
    unit.function(
        name,
        f"float ({kind} x)",
        f"float y = {rounded};",
        f"return {same} ? y : __uint_as_float(__float_as_uint(y) | 1u);",
        comment="Toward zero; an inexact result gets its last bit set, so that rounding it again rounds x once.",
    )
    return Cpp.call(name, value)


def _tf32_rounding(unit: TranslationUnit) -> str:
    """The function that rounds a float to the ten bits of fraction that matrix instructions look at."""
    row = CONVERSIONS["float32", "tf32"]
    if row.arch.admits(unit.arch):
        bits = unit.number_instruction("tf32_bits", row, "unsigned int", ("float",))
        return unit.function("tf32_from_float32", "float (float a)", f"return __uint_as_float({bits}(a));")
    return unit.function(
        "tf32_from_float32",
        "float (float a)",
        "unsigned int x = __float_as_uint(a);",
        "return (x & 0x7f800000u) == 0x7f800000u ? a : __uint_as_float(x + 0x1000u & 0xffffe000u);",
        comment="Ten bits of fraction, nearest, ties away from zero.",
    )


def to_float32(value: Cpp, source: DType, unit: TranslationUnit) -> Cpp:
    """A value of 32 bits or fewer as a float; exact for floats."""
    if not carried_as_bits(source):
        return value if source.is_float else value.cast("float")
    name = f"float32_from_{source}"
    if name not in unit.helpers:
        _WIDEN.get(source, _widen_narrow)(name, source, unit)
    return Cpp.call(name, value)


def from_float32(value: Cpp, target: DType, unit: TranslationUnit) -> Cpp:
    """A float rounded to ``target``, to nearest even."""
    if not carried_as_bits(target):
        return value
    name = f"{target}_from_float32"
    if name not in unit.helpers:
        _ROUND.get(target, _round_narrow)(name, target, unit)
    return Cpp.call(name, value)


# The helper functions, by dtype


def _widen_half(name: str, source: DType, unit: TranslationUnit) -> None:
    unit.number_instruction(name, CONVERSIONS["float16", "float32"], "float", ("unsigned short",))


def _widen_bfloat16(name: str, source: DType, unit: TranslationUnit) -> None:
    unit.function(
        name,
        "float (unsigned short a)",
        "float d;",
        *assembly("asm", "mov.b32 %0, {%1, %2};", '"=f"(d)', '"h"((unsigned short)0), "h"(a)'),
        "return d;",
        comment="A bfloat16 is the upper half of a float.",
    )


def _widen_exponent(name: str, source: DType, unit: TranslationUnit) -> None:
    unit.function(
        name,
        "float (unsigned char a)",
        "if (a == 0xff) return __int_as_float(0x7fffffff);",
        "return a ? __uint_as_float((unsigned int)a << 23) : 0x1p-127f;",
        comment="The byte is the exponent of a power of two; 0xff is NaN.",
    )


def _widen_narrow(name: str, source: DType, unit: TranslationUnit) -> None:
    row = CONVERSIONS[source, "float16x2"]
    if row.arch.admits(unit.arch):
        half = to_float32(Cpp("(unsigned short)pair"), dtype("float16"), unit).text
        pair = unit.number_instruction(f"float16x2_from_{source}x2", row, "unsigned int", ("unsigned short",))
        unit.function(name, "float (unsigned char a)", f"unsigned int pair = {pair}(a);", f"return {half};")
        return
    form = _NARROW[source]
    special = {
        "float8_e4m3fn": ["if ((a & 0x7f) == 0x7f) return __int_as_float(0x7fffffff);"],
        "float8_e5m2": [
            "if ((a & 0x7f) >= 0x7c) return __uint_as_float((a & 0x80u) << 24 | 0x7f800000u | (a & 3u) << 21);"
        ],
    }
    unit.function(
        name,
        "float (unsigned char a)",
        *special.get(source, []),
        f"float x = __uint_as_float((a & {form.magnitude}u) << {23 - form.mantissa}) * 0x1p{127 - form.bias}f;",
        f"return a & {_sign(form)} ? -x : x;",
        comment=f"Where a float has them, the bits are off by the difference of the biases, {127 - form.bias}.",
    )


def _round_half(name: str, target: DType, unit: TranslationUnit) -> None:
    unit.number_instruction(name, CONVERSIONS["float32", "float16"], "unsigned short", ("float",))


def _round_bfloat16(name: str, target: DType, unit: TranslationUnit) -> None:
    row = CONVERSIONS["float32", "bfloat16"]
    if row.arch.admits(unit.arch):
        unit.number_instruction(name, row, "unsigned short", ("float",))
        return
    unit.function(
        name,
        "unsigned short (float a)",
        "unsigned int x = __float_as_uint(a);",
        "if (a != a) return 0x7fff;",
        "return (unsigned short)((x + 0x7fffu + (x >> 16 & 1u)) >> 16);",
        comment="The upper half, rounded to nearest even.",
    )


def _round_exponent(name: str, target: DType, unit: TranslationUnit) -> None:
    unit.function(
        name,
        "unsigned char (float a)",
        "unsigned int x = __float_as_uint(a);",
        "if (!(a > 0.0f)) return 0xff;",
        "if (x < 0x800000u) return x > 0x400000u;",
        "return (unsigned char)min((x + 0x400000u) >> 23, 0xffu);",
        comment="The nearest power of two, halves up; what is not positive has none: NaN.",
    )


def _round_narrow(name: str, target: DType, unit: TranslationUnit) -> None:
    form = _NARROW[target]
    sign = f"(x >> 31 ? {_sign(form)} : 0)"
    special = {
        "float8_e4m3fn": [f"if (!(fabsf(a) <= {form.limit})) return {sign} | {form.nan};"],
        "float8_e5m2": [f"if (!(fabsf(a) < {form.limit})) return {sign} | (a == a ? 0x7c : {form.nan});"],
    }
    row = CONVERSIONS["float32", target]
    lines = ["unsigned int x = __float_as_uint(a);", *special.get(target, [f"if (a != a) return {form.nan};"])]
    if row.arch.admits(unit.arch):
        pair = unit.number_instruction(f"{target}x2_from_float32", row, "unsigned short", ("float", "float"))
        lines += [f"return (unsigned char){pair}(0.0f, a);"]
        comment = "Beyond the range lies NaN or infinity; the instruction would saturate."
    else:
        lines += [
            f"float magnitude = fminf(fabsf(a), {form.limit});",
            f"int exponent = max((int)(__float_as_uint(magnitude) >> 23), {128 - form.bias});",
            f"int steps = (int)rintf(magnitude * __int_as_float(({254 + form.mantissa} - exponent) << 23));",
            f"return (unsigned char)({sign} | (((exponent - {128 - form.bias}) << {form.mantissa}) + steps));",
        ]
        comment = "Counts in steps of the last bit at this exponent; rintf rounds to nearest even."
    unit.function(name, "unsigned char (float a)", *lines, comment=comment)


def _sign(form: _Narrow) -> str:
    return f"0x{int(form.magnitude, 16) + 1:02x}"


_WIDEN = {"float16": _widen_half, "bfloat16": _widen_bfloat16, "float8_e8m0fnu": _widen_exponent}
_ROUND = {"float16": _round_half, "bfloat16": _round_bfloat16, "float8_e8m0fnu": _round_exponent}
