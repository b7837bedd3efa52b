"""Unknown bits in generated code: how an operation spreads those of its operands.

See `tilewright.sim.machine.unknown`. An operation whose operands are all known costs one test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tilewright.ir import Binary, Call, Cast, Component, Expr, Reinterpret, Select, Unary, Vector
from tilewright.ir.operators import OPERATORS
from tilewright.isa.casts import cast
from tilewright.sim.checks.arithmetic import OpenResult
from tilewright.sim.codegen.emitter import Operand
from tilewright.sim.codegen.values import computed, is_pure
from tilewright.sim.machine.unknown import ArrayOperation

if TYPE_CHECKING:
    from tilewright.sim.codegen.emitter import Emitter
    from tilewright.sim.machine.arrays import Array

__all__ = ["parts_of", "spread"]


def parts_of(expr: Expr) -> tuple[Expr, ...]:
    """The operands whose unknown bits an operation spreads; none where they must be known."""
    if isinstance(expr, Binary):
        return (expr.a, expr.b)
    if isinstance(expr, Select):
        return (expr.cond, expr.a, expr.b)
    if isinstance(expr, (Unary, Cast, Reinterpret, Component)):
        return (expr.a,)
    if isinstance(expr, Vector):
        return expr.parts
    return computed(expr)[1] if isinstance(expr, Call) and is_pure(expr) else ()


def spread(e: Emitter, expr: Expr, mask: str) -> Operand | None:
    """The value of an operation with its unknown bits; None where its operands must be known."""
    parts = parts_of(expr)
    if not parts or any(e.stays_guarded(part) for part in parts if isinstance(expr, (Select, Binary))):
        return None
    operands = [e.value(part, mask) for part in parts]
    names = [e.out.named("v", operand.text) for operand in operands]
    before = {part: e.known.get(part) for part in parts}
    e.known.update((part, Operand(name)) for part, name in zip(parts, names, strict=True))
    text = e.out.named("v", e.rules[type(expr)](e, expr, mask).text)
    for part, known in before.items():
        if known is None:
            e.known.pop(part, None)
        else:
            e.known[part] = known
    shadows = [operand.shadow or "None" for operand in operands]
    some = [shadow for shadow in dict.fromkeys(shadows) if shadow != "None"]
    is_open = e.program.may_be_open(expr)
    if not some and not is_open:
        return Operand(text)
    given = f"({', '.join(names)},), ({', '.join(shadows)},)"
    unknown = e.out.fresh("s")
    if some:
        made = e.out.constant("U", ArrayOperation(_function(expr), tuple(part.dtype for part in parts), expr.dtype))
        e.out.line(f"{unknown} = None if {' is None and '.join(some)} is None else {made}({given})")
    if is_open:
        assert isinstance(expr, Call), "operators are defined for all operands"
        found = f"{e.out.constant('O', OpenResult(expr, e.at))}(b, {mask}, {given})"
        e.out.line(f"{unknown} = {f'either({unknown}, {found})' if some else found}")
    return Operand(text, unknown)


def _function(expr: Expr) -> Callable[..., Array]:
    """The operation on arrays."""
    if isinstance(expr, Call):
        return computed(expr)[0]
    if isinstance(expr, Binary):
        return _LOGIC.get(expr.op) or OPERATORS[expr.op].array
    if isinstance(expr, Unary):
        return np.negative if expr.op == "-" else np.invert
    if isinstance(expr, Select):
        return np.where
    if isinstance(expr, Cast):
        return cast(expr.a.dtype.element, expr.dtype.element)
    if isinstance(expr, Component):
        return lambda a: a[..., expr.index] if np.ndim(a) > 3 else a
    if isinstance(expr, Vector):
        return lambda *parts: np.stack(np.broadcast_arrays(*map(np.atleast_3d, parts)), axis=-1)
    return lambda a: a.view(expr.dtype.numpy)


_LOGIC: dict[str, Callable[..., Array]] = {"and": np.logical_and, "or": np.logical_or}
