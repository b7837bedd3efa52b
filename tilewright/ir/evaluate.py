"""The value of an expression, given those of its variables: what ``T.assume``, grids and extents need on the host."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.errors import KernelError
from tilewright.ir.build import const
from tilewright.ir.expr import Binary, Cast, Const, Expr, Number, Select, Special, Unary, Value, Var
from tilewright.ir.fold import fold


def evaluate(value: Value, env: Mapping[str, Number]) -> Number:
    """The number that ``value`` is where its variables (and special registers) have the values of ``env``, by name.

    In the arithmetic of its dtypes: int32 wraps, ``//`` floors, floats round once an operation.
    Raises KernelError for a name that ``env`` lacks, a division by zero, a load or a call.
    """
    if not isinstance(value, Expr):
        return value
    if isinstance(value, Const):
        return value.value
    if isinstance(value, (Var, Special)):
        if value.name not in env:
            raise KernelError(f"the value of {value.name} is not known here", given=str(value), allowed=", ".join(env))
        return const(env[value.name], value.dtype).value
    if isinstance(value, Select):
        return evaluate(value.a if evaluate(value.cond, env) else value.b, env)
    if isinstance(value, Binary) and value.op in ("and", "or"):
        return _logic(value, env)
    if isinstance(value, (Binary, Unary, Cast)):
        return _folded(value, env)
    raise KernelError(f"`{value}` has no value outside of a running kernel", given=str(value))


def _logic(value: Binary, env: Mapping[str, Number]) -> bool:
    """The right side counts only where the left one does not decide."""
    left = bool(evaluate(value.a, env))
    return bool(evaluate(value.b, env)) if left == (value.op == "and") else left


def _folded(value: Binary | Unary | Cast, env: Mapping[str, Number]) -> Number:
    op = "cast" if isinstance(value, Cast) else value.op
    operands = (value.a, value.b) if isinstance(value, Binary) else (value.a,)
    numbers = tuple(evaluate(operand, env) for operand in operands)
    result = fold(op, numbers, value.dtype if op == "cast" else value.a.dtype)
    if result is None:
        raise KernelError(f"`{value}` has no value", given=", ".join(map(str, numbers)), allowed="no division by zero")
    return const(result, value.dtype).value
