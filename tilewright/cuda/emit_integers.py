"""Integer operators: the language's wrap-around and flooring, in C++ that has neither.

Signed overflow, division by zero and shifts by the width are undefined in C++, and ``/`` and ``%`` truncate. Where the
ranges of the operands exclude all of that, the plain operator is written; else the operator on unsigned numbers, or a
helper that does what the hardware does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.cuda.emit_types import LEVELS, Cpp, Level, cpp_type, unsigned_type
from tilewright.dtypes import DType
from tilewright.ir import Binary, Const, Expr, Unary, const_value
from tilewright.ir.intervals import Interval, limits
from tilewright.ir.operators import DIVIDED_BY_ZERO, DIVISIONS, MODULAR, OPERATORS, SHIFTS, transfer

if TYPE_CHECKING:
    from tilewright.cuda.emit_unit import Scope

__all__ = ["abs_bound", "infix", "integer_binary", "integer_unary"]


def infix(op: str, a: Cpp, b: Cpp) -> Cpp:
    """``a op b``; operands of shifts and bit operators keep their parentheses, for readers."""
    symbol = OPERATORS[op].cuda
    level = LEVELS[symbol]
    left, right = level, level + 1
    if op in ("<<", ">>", "&", "^", "|"):
        left = level if a.level == level and op not in SHIFTS else Level.UNARY
        right = Level.UNARY
    return Cpp(f"{a.at(left)} {symbol} {b.at(right)}", level)


def integer_binary(node: Binary, scope: Scope) -> Cpp:
    """An arithmetic or bit operator on integers of one dtype."""
    if node.op in ("min", "max"):
        return Cpp(f"{node.op}({scope.cpp(node.a).text}, {scope.cpp(node.b).text})")
    if node.op in DIVISIONS:
        return _divided(node, scope)
    if node.op in MODULAR and not _fits(node, scope):
        return _modular(node, scope).cast(cpp_type(node.dtype))
    a, b = scope.cpp(node.a), scope.cpp(node.b)
    return _shifted(node, a, b, scope) if node.op == ">>" and not _counts(node, scope) else infix(node.op, a, b)


def integer_unary(node: Unary, scope: Scope) -> Cpp:
    """``-a`` or ``~a``."""
    a = scope.cpp(node.a)
    if node.op == "-":
        if _negation_fits(node, scope):
            return Cpp(f"-{a.at(Level.ATOM)}", Level.UNARY)
        return _modular(node, scope).cast(cpp_type(node.dtype))
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
    if node.op == "<<" and not _counts(node, scope):
        return False
    if kind.kind == "uint" and kind.bits >= 32:
        return True
    a, b = _interval(node.a, scope), _interval(node.b, scope)
    if node.op == "<<" and (a.low < 0 or b.high >= kind.bits):
        return False
    ideal = transfer(node.op, a, b, kind.bits)
    return ideal is not None and ideal.inside(limits(kind))


def _counts(node: Binary, scope: Scope) -> bool:
    """Is the second operand of a shift certainly a count for which C++ defines the result?"""
    count = _interval(node.b, scope)
    return count.low >= 0 and count.high < max(32, node.dtype.bits)


def _negation_fits(node: Unary, scope: Scope) -> bool:
    if node.dtype.kind == "uint":
        return node.dtype.bits >= 32
    return _interval(node.a, scope).low > limits(node.dtype).low


def _modular(node: Expr, scope: Scope) -> Cpp:
    """The value modulo 2**bits, as an unsigned integer of at least 32 bits: sums of sums stay unsigned in between."""
    bits = max(32, node.dtype.bits)
    if isinstance(node, Const):
        suffix = "u" if bits == 32 else "ull"
        return Cpp(f"{int(node.value) & ((1 << bits) - 1)}{suffix}")
    if isinstance(node, Binary) and node.op in MODULAR and not _fits(node, scope):
        a = _modular(node.a, scope)
        if node.op == "<<":
            b = scope.cpp(node.b)
            return infix(node.op, a, b) if _counts(node, scope) else _shifted(node, a, b, scope)
        return infix(node.op, a, _modular(node.b, scope))
    if isinstance(node, Unary) and node.op == "-":
        return Cpp(f"-{_modular(node.a, scope).at(Level.UNARY)}", Level.UNARY)
    value = scope.cpp(node)
    return value if node.dtype.kind == "uint" and node.dtype.bits >= 32 else value.cast(unsigned_type(bits))


def _shifted(node: Binary, a: Cpp, b: Cpp, scope: Scope) -> Cpp:
    """A shift by any count: one that is negative or not below the width leaves the sign, and of ``<<`` nothing."""
    bits = max(32, node.dtype.bits)
    count = unsigned_type(bits)
    keeps_sign = node.op == ">>" and node.dtype.is_signed
    number = cpp_type(DType(f"int{bits}")) if keeps_sign else count
    name = f"shift_{'left' if node.op == '<<' else 'right'}_{'' if keeps_sign else 'u'}int{bits}"
    result = f"a >> (b < {bits} ? b : {bits - 1})" if keeps_sign else f"b < {bits} ? a {node.op} b : 0"
    comment = "What is shifted by the width or more is gone, where C++ leaves it open."
    scope.unit.function(name, f"{number} ({number} a, {count} b)", f"return {result};", comment=comment)
    return Cpp(f"{name}({a.text}, {b.text})")


def _divided(node: Binary, scope: Scope) -> Cpp:
    """``//`` and ``%`` round down: what C++ does for operands that are not negative, and a shift or mask for 2**k."""
    a, b = scope.cpp(node.a), scope.cpp(node.b)
    left, right = _interval(node.a, scope), _interval(node.b, scope)
    floors = node.op in ("//", "%")
    overflows = left.low == limits(node.dtype).low and right.low <= -1 <= right.high
    any_divisor = overflows or right.low <= 0 <= right.high
    if not any_divisor and (not floors or (left.low >= 0 and right.low >= 0)):
        return infix(node.op, a, b)
    divisor = const_value(node.b)
    if floors and divisor is not None and divisor > 0 and (int(divisor) & int(divisor) - 1) == 0:
        return _by_power(node, a, int(divisor))
    name = _division_helper(node.op, node.dtype, scope, any_divisor=any_divisor)
    return Cpp(f"{name}({a.text}, {b.text})")


def _by_power(node: Binary, a: Cpp, divisor: int) -> Cpp:
    if node.op == "//":
        return infix(">>", a, Cpp(str(divisor.bit_length() - 1)))
    return infix("&", a, Cpp(str(divisor - 1) + ("ll" if node.dtype.bits == 64 else "")))


_QUOTIENT = {  # where C++ defines a / b; the first two round down
    "//": ("{number} q = ({number})(a / b);", "return ({number})(q - (a % b != 0 && (a ^ b) < 0));"),
    "%": ("{number} r = ({number})(a % b);", "return ({number})(r + (r != 0 && (r ^ b) < 0 ? b : 0));"),
    "truncdiv": ("return ({number})(a / b);",),
    "truncmod": ("return ({number})(a % b);",),
}
_COMMENTS = {
    "//": "Rounds down, where C++ rounds toward zero.",
    "%": "Has the sign of b, where C++ gives it a's.",
}
_DEFINED = "Says what the hardware does where b is 0, which C++ leaves open."


def _division_helper(op: str, kind: DType, scope: Scope, *, any_divisor: bool) -> str:
    """A function for operands that C++ divides otherwise, and on request for those that it cannot divide."""
    number = cpp_type(kind)
    rounding = op if kind.is_signed else {"//": "truncdiv", "%": "truncmod"}.get(op, op)
    lines = [line.format(number=number) for line in _QUOTIENT[rounding]]
    comments = [_COMMENTS[rounding]] if rounding in _COMMENTS else []
    if any_divisor:
        lines = [f"if (b == 0) return ({number}){DIVIDED_BY_ZERO};", *_by_minus_one(op, kind), *lines]
        comments.append(_DEFINED)
    name = f"{OPERATORS[op].word}_{'any_' if any_divisor else ''}{kind}"
    return scope.unit.function(name, f"{number} ({number} a, {number} b)", *lines, comment="\n".join(comments))


def _by_minus_one(op: str, kind: DType) -> list[str]:
    """Signed numbers, of which the smallest has no positive counterpart: it stays what it is."""
    if not kind.is_signed:
        return []
    zero = "0ull" if kind.bits == 64 else "0u"
    quotient = f"({cpp_type(kind)})({zero} - a)" if op in ("//", "truncdiv") else "0"
    return [f"if (b == -1) return {quotient};"]
