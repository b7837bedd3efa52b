"""How values and constants are written in C++: the type of each dtype, literals, and pieces of code with precedence.

Half, bfloat16 and the narrow floats have no type without headers: they are carried as bits in unsigned integers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tilewright.dtypes import DType
from tilewright.ir import Const

__all__ = ["LEVELS", "Cpp", "Level", "computed_through_float", "cpp_type", "literal", "unsigned_type"]


class Level:
    """How tightly C++ operators bind: the higher, the tighter."""

    ANY = 0
    CONDITIONAL = 2
    OR = 3
    AND = 4
    BIT_OR = 5
    BIT_XOR = 6
    BIT_AND = 7
    EQUALITY = 8
    RELATION = 9
    SHIFT = 10
    SUM = 11
    PRODUCT = 12
    UNARY = 14
    ATOM = 16


LEVELS = {
    **dict.fromkeys(("*", "/", "%"), Level.PRODUCT),
    **dict.fromkeys(("+", "-"), Level.SUM),
    **dict.fromkeys(("<<", ">>"), Level.SHIFT),
    **dict.fromkeys(("<", "<=", ">", ">="), Level.RELATION),
    **dict.fromkeys(("==", "!="), Level.EQUALITY),
    "&": Level.BIT_AND,
    "^": Level.BIT_XOR,
    "|": Level.BIT_OR,
    "&&": Level.AND,
    "||": Level.OR,
}
"""How tightly each operator of C++ binds."""


class Cpp(NamedTuple):
    """A C++ expression and how tightly its outermost operator binds."""

    text: str
    level: int = Level.ATOM

    def at(self, level: int) -> str:
        """The text, in parentheses where it binds less tightly than ``level``."""
        return self.text if self.level >= level else f"({self.text})"

    def cast(self, kind: str) -> Cpp:
        """Converted to the C++ type ``kind``."""
        return Cpp(f"({kind}){self.at(Level.UNARY)}", Level.UNARY)


def called(name: str, *args: Cpp) -> Cpp:
    """A call of a function."""
    return Cpp(f"{name}({', '.join(arg.text for arg in args)})")


_UNSIGNED = {8: "unsigned char", 16: "unsigned short", 32: "unsigned int", 64: "unsigned long long"}


def unsigned_type(bits: int) -> str:
    """The unsigned integer of so many bits."""
    return _UNSIGNED[bits]


def computed_through_float(kind: DType) -> bool:
    """Has the dtype no C++ type to compute with (half, bfloat16, the narrow floats)?"""
    return kind.is_float and not kind.cuda


def cpp_type(kind: DType) -> str:
    """The C++ type of a value: bits for what is computed through float, a struct of that name for a vector."""
    if kind.lanes > 1:
        return str(kind)
    if kind.kind == "handle":
        return "void*"
    return kind.cuda or kind.storage


_INFINITY = {32: "__int_as_float(0x7f800000)", 64: "__longlong_as_double(0x7ff0000000000000ll)"}
_NAN = {32: "__int_as_float(0x7fffffff)", 64: "__longlong_as_double(0x7fffffffffffffffll)"}
_SUFFIX = {"int32": "", "int64": "ll", "uint32": "u", "uint64": "ull", "handle": "ll"}


def literal(const: Const) -> Cpp:
    """A constant of a scalar dtype."""
    kind, value = const.dtype, const.value
    if kind.kind == "bool":
        return Cpp("true" if value else "false")
    if kind.is_float:
        return _bits(float(value), kind) if computed_through_float(kind) else _float(float(value), kind)
    if kind.kind == "handle":
        return Cpp(f"(void*){int(value)}", Level.UNARY)
    return _integer(int(value), kind)


def _integer(value: int, kind: DType) -> Cpp:
    suffix = _SUFFIX.get(kind, "")
    if kind.is_signed and kind.bits >= 32 and value == -(1 << kind.bits - 1):
        return Cpp(f"-{-value - 1}{suffix} - 1", Level.SUM)  # C++ has no negative literals: -2147483648 is a long
    digits = f"{value:#x}" if kind.kind == "uint" and value >= 1 << 31 else str(value)  # a mask, most likely
    return Cpp(f"{digits}{suffix}", Level.UNARY if value < 0 else Level.ATOM)


def _rounded_to_tf32(value: float) -> float:
    """Eleven significant bits, ties away from zero, as a cast to tf32 rounds."""
    fraction, exponent = math.frexp(abs(value))
    return math.copysign(math.ldexp(math.floor(fraction * 2048 + 0.5), exponent - 11), value)


def _float(value: float, kind: DType) -> Cpp:
    if kind == "tf32" and math.isfinite(value):
        value = _rounded_to_tf32(value)
    if math.isnan(value):
        return Cpp(_NAN[kind.bits])
    if math.isinf(value):
        return Cpp(_INFINITY[kind.bits]) if value > 0 else Cpp(f"-{_INFINITY[kind.bits]}", Level.UNARY)
    digits = str(np.float32(value)) if kind.bits == 32 else repr(value)
    text = digits if set(digits) & set(".e") else f"{digits}.0"
    return Cpp(text + ("f" if kind.bits == 32 else ""), Level.UNARY if text.startswith("-") else Level.ATOM)


def _bits(value: float, kind: DType) -> Cpp:
    with np.errstate(all="ignore"):
        code = np.asarray(value, np.float64).astype(kind.numpy).view(f"u{kind.numpy.itemsize}")
    return Cpp(f"0x{int(code):0{kind.numpy.itemsize * 2}x} /* {value:g} */")
