"""Expressions as C++: one rule per node."""

from __future__ import annotations

from collections.abc import Callable

from tilewright import ir
from tilewright.cuda.emit_call import call
from tilewright.cuda.emit_convert import convert, to_float32
from tilewright.cuda.emit_floats import float_binary, float_negated
from tilewright.cuda.emit_integers import abs_bound, integer_binary, integer_unary
from tilewright.cuda.emit_memory import address, load
from tilewright.cuda.emit_types import LEVELS, Cpp, Level, computed_through_float, cpp_type, literal
from tilewright.cuda.emit_unit import Scope
from tilewright.cuda.emit_vectors import broadcast, component, elementwise, joined
from tilewright.dtypes import INT32, DType, dtype
from tilewright.ir.operators import OPERATORS

__all__ = ["expression"]

EXACT_IN_FLOAT32 = 1 << 24
INT16 = dtype("int16")


def expression(node: ir.Expr, scope: Scope) -> Cpp:
    """``node`` as C++, of the type that `cpp_type` gives its dtype (narrow integers may be ints of the same value)."""
    if node.dtype.lanes > 1 and isinstance(node, (ir.Const, ir.Unary, ir.Binary, ir.Cast)):
        return _vector(node, scope)
    return _RULES[type(node)](node, scope)


def _vector(node: ir.Const | ir.Unary | ir.Binary | ir.Cast, scope: Scope) -> Cpp:
    if isinstance(node, ir.Const):
        return broadcast(literal(ir.Const(node.value, node.dtype.element)), node.dtype, scope.unit)
    if isinstance(node, ir.Cast) and node.a.dtype.lanes == 1:
        return broadcast(_converted(node.a, node.dtype.element, scope), node.dtype, scope.unit)
    return elementwise(node, scope)


def _unary(node: ir.Unary, scope: Scope) -> Cpp:
    if node.op == "not" or node.dtype.kind == "bool":
        return Cpp(f"!{expression(node.a, scope).at(Level.UNARY)}", Level.UNARY)
    if node.dtype.is_float:
        return float_negated(expression(node.a, scope), node.dtype, scope.unit)
    return integer_unary(node, scope)


def _binary(node: ir.Binary, scope: Scope) -> Cpp:
    if node.op in ir.Binary.COMPARISONS:
        return _comparison(node, scope)
    if node.op in ir.Binary.LOGIC:
        symbol = OPERATORS[node.op].cuda
        level = LEVELS[symbol]
        sides = (expression(side, scope) for side in (node.a, node.b))
        return Cpp(f" {symbol} ".join(side.at(level if side.level == level else Level.BIT_OR) for side in sides), level)
    if node.dtype.kind == "handle":
        return _pointer_arithmetic(node, scope)
    if node.dtype.is_float:
        return float_binary(node.op, expression(node.a, scope), expression(node.b, scope), node.dtype, scope.unit)
    result = integer_binary(node, scope)
    return convert(result, INT32, node.dtype, scope.unit) if node.dtype.kind == "bool" else result


def _comparison(node: ir.Binary, scope: Scope) -> Cpp:
    a, b = (_comparable(side, scope) for side in (node.a, node.b))
    return Cpp(f"{a.at(Level.SHIFT)} {node.op} {b.at(Level.SHIFT)}", LEVELS[node.op])


def _comparable(node: ir.Expr, scope: Scope) -> Cpp:
    value = expression(node, scope)
    return to_float32(value, node.dtype, scope.unit) if computed_through_float(node.dtype) else value


def _pointer_arithmetic(node: ir.Binary, scope: Scope) -> Cpp:
    """Pointer arithmetic in bytes, with the pointer on either side; other operators take a pointer as an integer."""
    pointer, offset = (node.b, node.a) if isinstance(node.a, ir.Cast) and node.op == "+" else (node.a, node.b)
    if node.op in ("+", "-"):
        start = expression(pointer, scope).cast("char*")
        return Cpp(f"{start.text} {node.op} {_as_number(offset, scope).at(Level.PRODUCT)}", Level.SUM)
    numbers = (Cpp(_as_number(side, scope).at(Level.UNARY)) for side in (node.a, node.b))
    a, b = (number.text for number in numbers)
    return Cpp(f"{a} {node.op} {b}", Level.BIT_OR).cast("void*")


def _as_number(node: ir.Expr, scope: Scope) -> Cpp:
    if isinstance(node, ir.Const):
        return Cpp(f"{int(node.value)}", Level.UNARY if node.value < 0 else Level.ATOM)
    if isinstance(node, ir.Cast) and node.a.dtype.is_integer:
        return expression(node.a, scope)
    return expression(node, scope).cast("long long")


def _select(node: ir.Select, scope: Scope) -> Cpp:
    cond, a, b = (expression(part, scope) for part in (node.cond, node.a, node.b))
    if node.dtype.kind == "handle":
        a, b = a.cast("void*"), b.cast("void*")
    return Cpp(f"{cond.at(Level.OR)} ? {a.at(Level.OR)} : {b.at(Level.CONDITIONAL)}", Level.CONDITIONAL)


def _converted(node: ir.Expr, kind: DType, scope: Scope) -> Cpp:
    source = node.dtype
    if source.is_integer and source.bits > 16 and kind.is_float and abs_bound(node, scope) <= EXACT_IN_FLOAT32:
        source = INT16  # small enough that float32 holds it: no detour through a rounding to odd
    return convert(expression(node, scope), source, kind, scope.unit)


_BIT_CASTS = {
    ("float", "int"): "__float_as_int",
    ("float", "unsigned int"): "__float_as_uint",
    ("int", "float"): "__int_as_float",
    ("unsigned int", "float"): "__uint_as_float",
    ("double", "long long"): "__double_as_longlong",
    ("long long", "double"): "__longlong_as_double",
}
_INTEGRAL = ("char", "short", "int", "long long")


def _reinterpret(node: ir.Reinterpret, scope: Scope) -> Cpp:
    value = expression(node.a, scope)
    source, target = cpp_type(node.a.dtype), cpp_type(node.dtype)
    if source == target:
        return value
    if (source, target) in _BIT_CASTS:
        return Cpp(f"{_BIT_CASTS[source, target]}({value.text})")
    if "void*" in (source, target) or (source.endswith(_INTEGRAL) and target.endswith(_INTEGRAL)):
        return value.cast(target)
    if node.a.dtype.is_integer:
        value = value.cast(source)  # an operator on narrow integers gives an int
    return Cpp(f"__builtin_bit_cast({target}, {value.text})")


_RULES: dict[type, Callable[..., Cpp]] = {  # each takes its own node
    ir.Const: lambda node, scope: literal(node),
    ir.Var: lambda node, scope: Cpp(scope.unit.names.of(node.name)),
    ir.Special: lambda node, scope: Cpp(scope.unit.special(node)),
    ir.Unary: _unary,
    ir.Binary: _binary,
    ir.Select: _select,
    ir.Cast: lambda node, scope: _converted(node.a, node.dtype, scope),
    ir.Reinterpret: _reinterpret,
    ir.Vector: joined,
    ir.Component: component,
    ir.Load: load,
    ir.AddressOf: address,
    ir.Call: call,
}
