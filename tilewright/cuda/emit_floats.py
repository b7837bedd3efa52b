"""Operators on floats: plain C++ for float and double, one function per operator for dtypes that C++ does not know."""

from __future__ import annotations

from tilewright.cuda.emit_convert import from_float32, to_float32
from tilewright.cuda.emit_integers import infix
from tilewright.cuda.emit_types import Cpp, Level, called, computed_through_float, cpp_type
from tilewright.cuda.emit_unit import TranslationUnit
from tilewright.dtypes import DType, dtype
from tilewright.ir.operators import OPERATORS
from tilewright.isa.arith import ARITHMETIC
from tilewright.isa.extremes import extreme_helper

__all__ = ["float_binary", "float_negated"]

FLOAT32 = dtype("float32")

_EXTREMES = {"min": "minimum", "max": "maximum"}  # a NaN wins


def float_binary(op: str, a: Cpp, b: Cpp, kind: DType, unit: TranslationUnit) -> Cpp:
    """``a op b`` of scalar floats, rounded once to ``kind``."""
    if not computed_through_float(kind):
        return _plain(op, a, b, kind, unit)
    name = f"{OPERATORS[op].word}_{kind}"
    if name not in unit.helpers:
        _narrow_operator(name, op, kind, unit)
    return called(name, a, b)


def float_negated(a: Cpp, kind: DType, unit: TranslationUnit) -> Cpp:
    """``-a``: the sign bit flipped; a dtype of powers of two has none."""
    if kind == "float8_e8m0fnu":
        return from_float32(Cpp(f"-{to_float32(a, kind, unit).text}"), kind, unit)
    if not computed_through_float(kind):
        return Cpp(f"-{a.at(Level.ATOM)}", Level.UNARY)
    sign = 1 << kind.value_bits - 1
    return Cpp(f"{a.at(Level.UNARY)} ^ 0x{sign:x}", Level.BIT_XOR).cast(cpp_type(kind))


def _plain(op: str, a: Cpp, b: Cpp, kind: DType, unit: TranslationUnit) -> Cpp:
    suffix = "f" if kind.bits == 32 else ""
    if op in ("+", "-", "*", "/"):
        return infix(op, a, b)
    if op in _EXTREMES:
        return called(_extreme(_EXTREMES[op], kind, unit), a, b)
    if op == "truncmod":
        return called(f"fmod{suffix}", a, b)
    if op == "truncdiv":
        return called(f"trunc{suffix}", infix("/", a, b))
    helper = _floor_mod if op == "%" else _floor_div
    return called(helper(kind, suffix, unit), a, b)


def _extreme(name: str, kind: DType, unit: TranslationUnit) -> str:
    called, text = extreme_helper(name, kind)
    return unit.helper(called, text.rstrip())


def _floor_div(kind: DType, suffix: str, unit: TranslationUnit) -> str:
    number = cpp_type(kind)
    return unit.function(
        f"floor_div_{kind}",
        f"{number} ({number} a, {number} b)",
        f"{number} r = fmod{suffix}(a, b);",
        "if (b == 0) return a / b;",
        f"{number} q = rint{suffix}((a - r) / b) - (r != 0 && (r < 0) != (b < 0));",
        f"return q == 0 ? copysign{suffix}(q, a / b) : q;",
        comment="The exact quotient rounded down: a / b might have rounded up before.",
    )


def _floor_mod(kind: DType, suffix: str, unit: TranslationUnit) -> str:
    number = cpp_type(kind)
    return unit.function(
        f"floor_mod_{kind}",
        f"{number} ({number} a, {number} b)",
        f"{number} r = fmod{suffix}(a, b);",
        f"return r == 0 ? copysign{suffix}(r, b) : (r < 0) != (b < 0) ? r + b : r;",
        comment="Has the sign of b, where C's fmod gives it a's.",
    )


def _narrow_operator(name: str, op: str, kind: DType, unit: TranslationUnit) -> None:
    """The target's own instruction, or the same in float32, so wide that rounding twice is rounding once."""
    number = cpp_type(kind)
    row = ARITHMETIC.get((op, kind))
    if row is not None and row.arch.admits(unit.arch):
        unit.number_instruction(name, row, number, (number, number))
        return
    a, b = (to_float32(Cpp(side), kind, unit) for side in "ab")
    result = from_float32(_plain(op, a, b, FLOAT32, unit), kind, unit)
    unit.function(name, f"{number} ({number} a, {number} b)", f"return {result.text};")
