"""Calls of rows that only compute, each lane by itself: one function on arrays of any shapes."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from tilewright.isa import bind
from tilewright.sim.checks.arithmetic import OpenResult
from tilewright.sim.codegen.emitter import Operand
from tilewright.sim.machine.convert import to_bits

if TYPE_CHECKING:
    from tilewright.ir import Call, Expr
    from tilewright.sim.codegen.emitter import Emitter
    from tilewright.sim.machine.arrays import Array

__all__ = ["computed", "is_pure", "pure_value"]


def is_pure(call: Call) -> bool:
    """Has the row a meaning that is a function of its operands alone?"""
    return bind(call).form.meaning.of_lanes is not None


@lru_cache(maxsize=1 << 14)
def computed(call: Call) -> tuple[Callable[..., Array], tuple[Expr, ...]]:
    """The function that such a call computes, and its operands."""
    bound = bind(call)
    meaning = bound.form.meaning.of_lanes
    assert meaning is not None, "asked of calls that only compute"
    return meaning(bound.mods), tuple(expr for row in bound.arguments for expr in bound.operands[row.name])


def pure_value(e: Emitter, call: Call, mask: str) -> Operand:
    """The call as one call of its function."""
    function, operands = computed(call)
    name = bind(call).instruction.name
    given = [e.array(expr, e.sound(expr, mask, f"an operand of {name}")) for expr in operands]
    if not e.program.follows and e.program.may_be_open(call):
        given = [e.out.named("v", text) for text in given]
        way = "leave" if e.unknowns else "refuse"
        e.out.line(f"{e.out.constant('O', OpenResult(call, e.at))}.{way}(b, {mask}, {', '.join(given)})")
    texts = []
    for expr, text in zip(operands, given, strict=True):
        unsigned = expr.dtype.kind in ("uint", "bool")
        texts.append(text if unsigned else f"{e.out.constant('B', to_bits(expr.dtype))}({text})")
    return Operand(e.unpacked(call, f"{e.out.constant('F', function)}({', '.join(texts)})"))
