"""Registers of compiled code that go on by a fixed step, as compilers make of an index: where they began, and how often
they have gone on.

A pointer that a loop advances is another one in each turn. Written as its start and a multiple of the step, only a
number changes from turn to turn, and what depends on threads is computed once.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright import ir
from tilewright.ir import as_expr, binary
from tilewright.sim.codegen.lifting import number_of, plain
from tilewright.sim.codegen.values import Given, given_in, is_closed

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Induction", "with_turns"]


@dataclass(frozen=True, slots=True)
class Induction:
    """A register, its first value, how often it has gone on, and by how much each time."""

    var: ir.Var
    start: ir.Var
    turn: ir.Var
    step: ir.Expr

    def after(self, start: ir.Expr) -> ir.Expr:
        """Its value, as one of the first."""
        return binary("+", start, binary("*", self.turn, self.step))


def with_turns(body: ir.Body, parameters: frozenset[str]) -> tuple[ir.Body, dict[str, Induction]]:
    """The statements, which also keep start and turns of such registers; and these, by the names of their turns."""
    given: dict[str, list[Given]] = defaultdict(list)
    for stmt in given_in(ir.statements(body)):
        given[stmt.var.name].append(stmt)
    found = {name: made for name in given if (made := _induction(name, given, parameters)) is not None}
    if not found:
        return body, {}

    def more(stmt: ir.Stmt) -> ir.Body | None:
        if not isinstance(stmt, (ir.Bind, ir.Assign)) or (own := found.get(stmt.var.name)) is None:
            return None
        zero, turned = as_expr(0, own.turn.dtype), binary("+", own.turn, as_expr(1, own.turn.dtype))
        if isinstance(stmt, ir.Assign):
            return stmt, ir.Assign(own.turn, turned, at=stmt.at)
        first = ir.Bind(own.start, stmt.value, at=stmt.at)
        return first, ir.Bind(own.var, own.start, at=stmt.at), ir.Bind(own.turn, zero, at=stmt.at)

    return ir.map_body(body, more), {made.turn.name: made for made in found.values()}


def _induction(name: str, given: Mapping[str, list[Given]], parameters: frozenset[str]) -> Induction | None:
    """A register that is bound once, and goes on in one place."""
    values = given[name]
    var = values[0].var
    if [type(stmt) for stmt in values] != [ir.Bind, ir.Assign] or var.dtype.kind != "uint" or var.dtype.lanes > 1:
        return None
    then = plain(values[1].value)
    if isinstance(then, ir.Var) and len(given[then.name]) == 1:  # a copy of what has been computed before
        then = plain(given[then.name][0].value)
    if not isinstance(then, ir.Binary) or then.op not in ("+", "-"):
        return None
    before, step = plain(then.a), then.b
    if then.op == "+" and not _is(before, name):
        before, step = plain(then.b), then.a
    if not _is(before, name) or not all(is_closed(node, parameters) for node in ir.walk(step)):
        return None
    if (known := number_of(step)) is not None:
        step = as_expr(known % 2**var.dtype.bits, var.dtype)
    elif step.dtype != var.dtype:
        step = ir.Reinterpret(step, var.dtype)
    step = step if then.op == "+" else binary("-", as_expr(0, var.dtype), step)
    return Induction(var, ir.Var(f"{name}.start", var.dtype), ir.Var(f"{name}.turn", var.dtype), step)


def _is(expr: ir.Expr, name: str) -> bool:
    return isinstance(expr, ir.Var) and expr.name == name
