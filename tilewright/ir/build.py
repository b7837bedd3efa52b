"""What an operator builds: typed, with constants folded, so that there is one spelling of each constant expression.

Operands are brought to one dtype as C does, but narrow types stay narrow (int8 + int8 is int8 and wraps); a Python
number takes the other side's dtype.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

from tilewright.dtypes import BOOL, HANDLE, INT32, INT64, VOID, DType, common_dtype, dtype
from tilewright.errors import KernelError, described
from tilewright.ir.expr import (
    Binary,
    Call,
    Cast,
    Component,
    Const,
    Expr,
    Load,
    Number,
    Select,
    Unary,
    Value,
    Vector,
    const_value,
    is_being_parsed,
)
from tilewright.ir.numbers import check_number, const, fold
from tilewright.ir.operators import OPERATORS, SHIFTS
from tilewright.ir.tiles import Computed, Tiled

FLOAT32 = dtype("float32")

__all__ = [
    "as_expr", "binary", "cast", "common_dtype", "compare", "component", "const", "named_component", "select", "unary",
    "vector",
]  # fmt: skip

COMPONENTS = "xyzw"


def as_expr(value: Value, like: DType = INT32) -> Expr:
    """``value`` as an expression; a Python number becomes a constant of dtype ``like``, a float beside ints a float32.

    Raises KernelError for anything that is no number, for a call without a value, and in a kernel's text for a number
    that the dtype cannot hold.
    """
    if isinstance(value, Expr):
        if value.dtype == VOID and is_being_parsed():
            raise KernelError(f"`{value}` has no value", given="a call without a result", hint="a statement of its own")
        return value
    if type(value) is int and like is INT32 and -(1 << 31) <= value < 1 << 31:  # nearly always
        return Const(value, INT32)
    const = _literal(value, like)
    if const.value != value:
        check_number(value, const.dtype)
    return const


def _literal(value: Number, like: DType) -> Const:
    if isinstance(value, (bool, np.bool_)):
        return Const(bool(value), BOOL) if not like.is_float else Const(float(value), like)
    if hasattr(type(value), "__index__") and not isinstance(value, np.ndarray):
        return const(operator.index(value), like if like.kind != "bool" else INT32)  # type: ignore[arg-type]  # mypy: hasattr
    if isinstance(value, (float, np.floating)) or type(value).__module__ == "ml_dtypes":
        return const(float(value), like if like.is_float else FLOAT32)
    shown = described(value)
    raise KernelError(f"`{shown}` is not a value of a kernel", given=shown, allowed="an expression or a number")


def cast(value: Value, kind: DType) -> Expr:
    """``value`` converted to ``kind`` as C does; nothing where it has that dtype, a constant where it is one."""
    expr = as_expr(value) if isinstance(value, Expr) else _literal(value, kind)
    if expr.dtype == kind:
        return expr
    if HANDLE in (expr.dtype, kind) and (expr.dtype.is_float or kind.is_float):
        raise KernelError(
            f"`{expr}` of {expr.dtype} has no conversion to {kind}",
            given=f"{expr.dtype} as {kind}",
            allowed="a pointer is a 64-bit integer",
            hint=f'T.cast({expr}, "int64")',
        )
    if expr.dtype.lanes not in (1, kind.lanes):
        raise KernelError(
            f"`{expr}` has {expr.dtype.lanes} components",
            given=f"{expr.dtype} as {kind}",
            allowed=f"a vector of {expr.dtype.lanes}",
            hint=f"a component: {'v.x' if expr.dtype.lanes <= len(COMPONENTS) else 'v[0]'}",
        )
    if isinstance(expr, Const) and (number := fold("cast", (expr.value,), kind)) is not None:
        return const(number, kind)
    return Cast(expr, kind)


def _operands(a: Value, b: Value) -> tuple[Expr, Expr]:
    """Bring both to expressions of one dtype; a Python number takes that of the other side, see `_like`."""
    if not isinstance(a, Expr):
        a = as_expr(a, _like(a, b if isinstance(b, Expr) else None))
    if not isinstance(b, Expr):
        b = as_expr(b, _like(b, a))
    kind = common_dtype(a.dtype, b.dtype)
    return cast(a, kind), cast(b, kind)


def _like(value: Number, other: Expr | None) -> DType:
    """The dtype of a number next to ``other``: its own, but int64 where an int32 index has no room for the number."""
    if other is None or other.dtype is not INT32 or type(value) is not int or -(1 << 31) <= value < 1 << 31:
        return INT32 if other is None else other.dtype
    return INT64 if _is_of_symbols(other) else INT32


def _is_of_symbols(value: Expr) -> bool:
    """Is it made of names alone, without an element or a call in it?"""
    todo, seen = [value], set[int]()
    while todo:
        part = todo.pop()
        if isinstance(part, (Load, Call)):
            return False
        if id(part) not in seen:
            seen.add(id(part))
            todo += [inner for name in part.__slots__ if isinstance(inner := getattr(part, name), Expr)]
    return True


def _counted(*operands: Expr) -> tuple[Expr, ...]:
    """Operands of arithmetic: a bool counts as the int32 0 or 1, as in C."""
    return tuple(cast(operand, INT32) if operand.dtype == BOOL else operand for operand in operands)


def _is_pointer(value: Value) -> bool:
    """A number that was converted to a pointer's dtype, to be added to one, is still a number."""
    return isinstance(value, Expr) and value.dtype == HANDLE and not isinstance(value, (Const, Cast))


STEPS = {"+": ((True, False), (False, True)), "-": ((True, False),)}  # which sides are pointers where the result is one


def _addressed(op: str, left: Value, right: Value) -> tuple[Value, Value]:
    """A pointer plus or minus a number is a pointer; other arithmetic takes a pointer as an integer."""
    pointers = (_is_pointer(left), _is_pointer(right))
    if not any(pointers) or op in Binary.COMPARISONS or pointers in STEPS.get(op, ()):
        return left, right
    return cast(left, INT64), cast(right, INT64)


def binary(op: str, left: Value, right: Value) -> Expr:
    """``left op right``, typed; folded where both are constants and for the neutral elements of integers."""
    if isinstance(left, Tiled) or isinstance(right, Tiled):
        return Computed.of(op, left, right)
    if op in Binary.LOGIC:
        return _logic(op, as_expr(left), as_expr(right))
    if op in SHIFTS:
        (a,) = _counted(as_expr(left))
        b = cast(as_expr(right, a.dtype), a.dtype)
    else:
        a, b = _operands(*_addressed(op, left, right))
        if op in Binary.ARITHMETIC:
            a, b = _counted(a, b)
    _check_operator(op, a.dtype)
    if op in Binary.COMPARISONS and a.dtype.lanes > 1:
        raise KernelError(
            f"`{op}` compares numbers", given=f"operands of {a.dtype}", hint=f"a.x {op} b.x, by component"
        )
    kind = BOOL if op in Binary.COMPARISONS else a.dtype
    if isinstance(a, Const) and isinstance(b, Const):
        number = fold(op, (a.value, b.value), a.dtype)
        if number is not None:
            return const(number, kind)
    simpler = None if a.dtype.is_float else _without_neutral(op, a, b)
    return Binary(op, a, b, kind) if simpler is None else simpler


def _without_neutral(op: str, a: Expr, b: Expr) -> Expr | None:
    """The value of ``a op b`` on integers where one side is neutral or absorbing, else None."""
    left, right = const_value(a), const_value(b)
    row = OPERATORS[op]
    if right is not None and row.neutral == right:
        return a
    if left is not None and row.commutes and row.neutral == left:
        return b
    if (op == "*" and 0 in (left, right)) or (op == "%" and right == 1):
        return const(0, a.dtype)
    return None


def _check_operator(op: str, kind: DType) -> None:
    if op == "/" and not kind.is_float:
        raise KernelError(
            "`/` divides floats only", given=f"operands of {kind}", hint="`//` floors, T.truncdiv truncates"
        )
    if op in (*Binary.BITS, "~") and kind.is_float:
        raise KernelError(f"`{op}` works on bits", given=f"operands of {kind}", hint='T.reinterpret("uint32", x) first')


def _logic(op: str, a: Expr, b: Expr) -> Expr:
    a, b = cast(a, BOOL), cast(b, BOOL)
    for side, other in ((a, b), (b, a)):
        if isinstance(side, Const):
            absorbing = op == "or"
            return Const(absorbing, BOOL) if bool(side.value) is absorbing else other
    return Binary(op, a, b, BOOL)


def compare(op: str, a: Expr, b: object) -> Expr:
    """``==`` and ``!=`` must answer for any object: anything that is no value of a kernel is simply different."""
    if isinstance(b, (Expr, int, float, np.generic)) or hasattr(b, "__index__"):
        if isinstance(b, Expr) and VOID in (a.dtype, b.dtype):  # keys of tables; in a kernel they are no operands
            return Binary(op, a, b, BOOL)
        try:
            different = _is_nan(a) and _is_nan(b)  # the values differ, as IEEE says; the nodes may be equal
            if different or a.dtype.lanes > 1 or a.dtype == VOID:  # nodes alone are compared
                other = b if isinstance(b, Expr) else as_expr(b)  # type: ignore[arg-type]  # __index__ was just checked
                return Binary(op, a, other, BOOL)
            return binary(op, a, b)  # type: ignore[arg-type]  # __index__ was just checked
        except KernelError:
            pass
    return Const(op == "!=", BOOL)


def _is_nan(value: object) -> bool:
    number = const_value(value)
    return number is not None and number != number


def unary(op: str, value: Value) -> Expr:
    """``-a``, ``~a``, ``not a``; folded where ``a`` is a constant."""
    a = cast(value, BOOL) if op == "not" else _counted(as_expr(value))[0]
    _check_operator(op, a.dtype)
    if isinstance(a, Const) and (number := fold(op, (a.value,), a.dtype)) is not None:
        return const(number, a.dtype)
    return Unary(op, a, a.dtype)


def select(cond: Value, a: Value, b: Value) -> Expr:
    """``a`` where ``cond``, else ``b``, of their common dtype; the chosen side where ``cond`` is a constant."""
    test = cast(cond, BOOL)
    left, right = _operands(a, b)
    if isinstance(test, Const):
        return left if test.value else right
    return Select(test, left, right, left.dtype)


# Vectors, and their components.


def vector(parts: Sequence[Value], kind: DType) -> Expr:
    """A vector of these components. Raises KernelError where there are too few or too many."""
    if len(parts) != kind.lanes:
        raise KernelError(
            f"a vector T.{kind}", given=f"{len(parts)} components", allowed=f"{kind.lanes}, or one for all of them"
        )
    return Vector(tuple(cast(part, kind.element) for part in parts), kind)


def component(value: Expr, index: object) -> Expr:
    """Component ``index`` of a vector; IndexError beyond its end, so that Python can unpack it."""
    lanes = value.dtype.lanes
    if lanes == 1:
        raise KernelError(
            f"`{value}` is one number, it has no index", given=f"[{index}]", allowed="vectors have components"
        )
    place = const_value(index) if isinstance(index, Expr) else index
    if not hasattr(place, "__index__") or isinstance(place, bool):
        raise KernelError(
            f"a component of `{value}` is named by a constant",
            given=f"[{index}]",
            allowed=f"0 to {lanes - 1}, known while the kernel is parsed",
            hint="an array for an index of run time: v: T.float32[4]",
        )
    number = operator.index(place)
    if not 0 <= number < lanes:
        raise ComponentError(f"`{value}` has {lanes} components", given=f"[{number}]", allowed=f"0 to {lanes - 1}")
    return Component(value, number)


class ComponentError(KernelError, IndexError):
    """A component that a vector lacks. Also an IndexError, which ends Python's iteration over one."""


def named_component(value: Expr, name: str) -> Expr:
    """``v.x``. Raises AttributeError where the vector has no component of that name."""
    if not COMPONENTS.index(name) < value.dtype.lanes in (2, 4):
        raise AttributeError(f"{value.dtype} has no component {name}")
    return Component(value, COMPONENTS.index(name))
