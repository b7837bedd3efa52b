"""Integer operators: the language's wrap-around and flooring, in C++ that has neither.

Signed overflow is undefined in C++, and ``/`` and ``%`` truncate. Where the ranges of the operands prove that neither
matters, the plain operator is written; else the operator on unsigned numbers, or a helper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.cuda.emit_types import Cpp, Level, cpp_type, unsigned_type
from tilewright.dtypes import DType
from tilewright.ir import Binary, Const, Expr, Unary, const_value
from tilewright.ir.intervals import Interval, limits, transfer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tilewright.cuda.emit_unit import Scope

    Emit = Callable[[Expr, Scope], Cpp]

__all__ = ["abs_bound", "infix", "integer_binary", "integer_unary"]

_LEVEL = {
    "+": Level.SUM,
    "-": Level.SUM,
    "*": Level.PRODUCT,
    "<<": Level.SHIFT,
    ">>": Level.SHIFT,
    "&": Level.BIT_AND,
    "^": Level.BIT_XOR,
    "|": Level.BIT_OR,
    "/": Level.PRODUCT,
    "//": Level.PRODUCT,
    "%": Level.PRODUCT,
    "truncdiv": Level.PRODUCT,
    "truncmod": Level.PRODUCT,
}
_SYMBOL = {"//": "/", "truncdiv": "/", "truncmod": "%"}
_MODULAR = ("+", "-", "*", "<<")  # the low bits of the result depend only on the low bits of the operands


def infix(op: str, a: Cpp, b: Cpp) -> Cpp:
    """``a op b``; operands of shifts and bit operators keep their parentheses, for readers."""
    level = _LEVEL[op]
    left, right = level, level + 1
    if op in ("<<", ">>", "&", "^", "|"):
        left = level if a.level == level and op not in ("<<", ">>") else Level.UNARY
        right = Level.UNARY
    return Cpp(f"{a.at(left)} {_SYMBOL.get(op, op)} {b.at(right)}", level)


def integer_binary(node: Binary, scope: Scope, emit: Emit) -> Cpp:
    """An arithmetic or bit operator on integers of one dtype."""
    if node.op in ("min", "max"):
        return Cpp(f"{node.op}({emit(node.a, scope).text}, {emit(node.b, scope).text})")
    if node.op in ("//", "%"):
        return _floored(node, scope, emit)
    if node.op in _MODULAR and not _fits(node, scope):
        return _modular(node, scope, emit).cast(cpp_type(node.dtype))
    return infix(node.op, emit(node.a, scope), emit(node.b, scope))


def integer_unary(node: Unary, scope: Scope, emit: Emit) -> Cpp:
    """``-a`` or ``~a``."""
    a = emit(node.a, scope)
    if node.op == "-":
        if _negation_fits(node, scope):
            return Cpp(f"-{a.at(Level.ATOM)}", Level.UNARY)
        return _modular(node, scope, emit).cast(cpp_type(node.dtype))
    inverted = Cpp(f"~{a.at(Level.UNARY)}", Level.UNARY)
    return inverted.cast(cpp_type(node.dtype)) if node.dtype.bits < 32 and not node.dtype.is_signed else inverted


def abs_bound(node: Expr, scope: Scope) -> int:
    """The largest magnitude that an integer may have."""
    interval = _interval(node, scope)
    return max(abs(interval.low), abs(interval.high))


def _interval(node: Expr, scope: Scope) -> Interval:
    return scope.facts.interval(node)


def _fits(node: Binary, scope: Scope) -> bool:
    """Can the operator neither overflow nor wrap? Unsigned words wrap in C++ as they do in the language."""
    kind = node.dtype
    if kind.kind == "uint" and kind.bits >= 32:
        return True
    a, b = _interval(node.a, scope), _interval(node.b, scope)
    if node.op == "<<" and (a.low < 0 or b.low < 0 or b.high >= kind.bits):
        return False
    ideal = transfer(node.op, a, b)
    return ideal is not None and ideal.inside(limits(kind))


def _negation_fits(node: Unary, scope: Scope) -> bool:
    if node.dtype.kind == "uint":
        return node.dtype.bits >= 32
    return _interval(node.a, scope).low > limits(node.dtype).low


def _modular(node: Expr, scope: Scope, emit: Emit) -> Cpp:
    """The value modulo 2**bits, as an unsigned integer of at least 32 bits: sums of sums stay unsigned in between."""
    bits = max(32, node.dtype.bits)
    if isinstance(node, Const):
        suffix = "u" if bits == 32 else "ull"
        return Cpp(f"{int(node.value) & ((1 << bits) - 1)}{suffix}")
    if isinstance(node, Binary) and node.op in _MODULAR and not _fits(node, scope):
        b = emit(node.b, scope) if node.op == "<<" else _modular(node.b, scope, emit)
        return infix(node.op, _modular(node.a, scope, emit), b)
    if isinstance(node, Unary) and node.op == "-":
        return Cpp(f"-{_modular(node.a, scope, emit).at(Level.UNARY)}", Level.UNARY)
    value = emit(node, scope)
    return value if node.dtype.kind == "uint" and node.dtype.bits >= 32 else value.cast(unsigned_type(bits))


def _floored(node: Binary, scope: Scope, emit: Emit) -> Cpp:
    """``//`` and ``%`` round down: what C++ does for operands that are not negative, and a shift or mask for 2**k."""
    a, b = emit(node.a, scope), emit(node.b, scope)
    divisor = const_value(node.b)
    if _interval(node.a, scope).low >= 0 and _interval(node.b, scope).low >= 0:
        return infix(node.op, a, b)
    if divisor is not None and divisor > 0 and (int(divisor) & int(divisor) - 1) == 0:
        return _by_power(node, a, int(divisor))
    name = _floor_helper(node.op, node.dtype, scope)
    return Cpp(f"{name}({a.text}, {b.text})")


def _by_power(node: Binary, a: Cpp, divisor: int) -> Cpp:
    if node.op == "//":
        return infix(">>", a, Cpp(str(divisor.bit_length() - 1)))
    return infix("&", a, Cpp(str(divisor - 1) + ("ll" if node.dtype.bits == 64 else "")))


def _floor_helper(op: str, kind: DType, scope: Scope) -> str:
    number = cpp_type(kind)
    if op == "//":
        lines = [f"{number} q = ({number})(a / b);", f"return ({number})(q - (a % b != 0 && (a ^ b) < 0));"]
    else:
        lines = [f"{number} r = ({number})(a % b);", f"return ({number})(r + (r != 0 && (r ^ b) < 0 ? b : 0));"]
    name = f"floor_{'div' if op == '//' else 'mod'}_{kind}"
    comment = (
        "Rounds down, where C++ rounds toward zero." if op == "//" else "Has the sign of b, where C++ gives it a's."
    )
    return scope.unit.function(name, f"{number} ({number} a, {number} b)", *lines, comment=comment)
