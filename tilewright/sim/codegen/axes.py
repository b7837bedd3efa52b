"""How far a value varies: over the CTAs of a batch, the warps of a CTA, the lanes of a warp, or not at all.

Known before a kernel runs, for every scalar variable: what varies over nothing is a plain Python number and steers
Python's own ``if`` and ``for``; the rest are arrays of the smallest shape that broadcasts to (CTAs, warps, 32).
A variable that is assigned under a condition varies at least as that condition does.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from tilewright.ir import (
    SPECIALS,
    AddressOf,
    Assign,
    Binary,
    Bind,
    Body,
    Break,
    Call,
    Cast,
    Component,
    Const,
    Continue,
    Expr,
    For,
    If,
    Kernel,
    Load,
    Reinterpret,
    Select,
    Special,
    Stmt,
    Unary,
    Var,
    Vector,
    While,
)
from tilewright.isa import ANY_LANES, bind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["ALL", "CTA", "LANE", "UNIFORM", "WARP", "Axes", "operand_expressions", "stop_of"]

UNIFORM, LANE, WARP, CTA = 0, 1, 2, 4
ALL = CTA | WARP | LANE

VARIES = {"lane": LANE, "warp": WARP, "thread": WARP | LANE, "cta": CTA, "grid": UNIFORM}


def stop_of(loop: For) -> Var:
    """The variable that holds the end of a loop that is cut into segments."""
    return Var(f"{loop.var.name}.stop", loop.stop.dtype)


def operand_expressions(call: Call) -> list[Expr]:
    """The operands of a call, registers of vectors one by one."""
    return [expr for exprs in bind(call).operands.values() for expr in exprs]


class Axes:
    """The axes of every variable of a kernel, found by going over it until nothing changes. Poll `of`."""

    def __init__(self, kernel: Kernel) -> None:
        self.variables: dict[str, int] = {}
        self._depth: dict[str, int] = {}  # of the variable's declaration: how many conditions stood around it
        self._conditions: list[int] = []
        before: dict[str, int] | None = None
        while before != self.variables:
            before = dict(self.variables)
            self._body(kernel.body)

    def of(self, expr: Expr) -> int:
        """The axes over which the value of ``expr`` may differ."""
        return _RULES[type(expr)](self, expr)

    def of_all(self, exprs: Iterable[Expr]) -> int:
        """Those over which any of the values may differ."""
        return reduce(or_, map(self.of, exprs), UNIFORM)

    # Expressions

    def _const(self, expr: Const) -> int:
        return UNIFORM

    def _var(self, expr: Var) -> int:
        return self.variables.get(expr.name, UNIFORM)

    def _special(self, expr: Special) -> int:
        return VARIES[SPECIALS[expr.name].varies]

    def _of_one(self, expr: Unary | Cast | Reinterpret | Component) -> int:
        return self.of(expr.a)

    def _vector(self, expr: Vector) -> int:
        return self.of_all(expr.parts)

    def _of_two(self, expr: Binary) -> int:
        return self.of_all((expr.a, expr.b))

    def _select(self, expr: Select) -> int:
        return self.of_all((expr.cond, expr.a, expr.b))

    def _load(self, expr: Load) -> int:
        if expr.buffer.space == "local":
            return ALL
        own = CTA if expr.buffer.is_shared else UNIFORM
        return own | self._address(AddressOf(expr.buffer, expr.indices))

    def _address(self, expr: AddressOf) -> int:
        data = expr.buffer.data
        return self.of_all(expr.indices) | (self.of(data) if data is not None else UNIFORM)

    def _call(self, expr: Call) -> int:
        bound = bind(expr)
        operands = self.of_all(operand_expressions(expr))
        return operands if bound.instruction.lanes == ANY_LANES and not bound.form.on else ALL

    # Statements

    def _body(self, body: Body) -> None:
        for stmt in body:
            self._statement(stmt)

    def _statement(self, stmt: Stmt) -> None:
        if isinstance(stmt, Bind):
            self._depth[stmt.var.name] = len(self._conditions)
            self._join(stmt.var, self.of(stmt.value))
        elif isinstance(stmt, Assign):
            around = self._conditions[self._depth.get(stmt.var.name, 0) :]
            self._join(stmt.var, reduce(or_, around, self.of(stmt.value)))
        elif isinstance(stmt, If):
            self._under(self.of(stmt.cond), stmt.then)
            self._under(self.of(stmt.cond), stmt.orelse)
        elif isinstance(stmt, For):
            self._depth[stmt.var.name] = len(self._conditions)
            self._join(stmt.var, self.of(stmt.start))
            self._join(stop_of(stmt), self.of(stmt.stop))
            self._under(self.divergence(stmt), stmt.body)
        elif isinstance(stmt, While):
            self._under(self.divergence(stmt), stmt.body)

    def _under(self, axes: int, body: Body) -> None:
        self._conditions.append(axes)
        self._body(body)
        self._conditions.pop()

    def _join(self, var: Var, axes: int) -> None:
        self.variables[var.name] = self.variables.get(var.name, UNIFORM) | axes

    def divergence(self, loop: For | While) -> int:
        """The axes over which the lanes of a loop part: by its bounds or condition, and by break and continue."""
        entry = self.of_all((loop.start, loop.stop)) if isinstance(loop, For) else self.of(loop.cond)
        return entry | self._leaving(loop.body, UNIFORM)

    def _leaving(self, body: Body, around: int) -> int:
        found = UNIFORM
        for stmt in body:
            if isinstance(stmt, (Break, Continue)):
                found |= around
            elif isinstance(stmt, If):
                inner = around | self.of(stmt.cond)
                found |= self._leaving(stmt.then, inner) | self._leaving(stmt.orelse, inner)
        return found


_RULES: dict[type[Expr], Callable[..., int]] = {
    Const: Axes._const,
    Var: Axes._var,
    Special: Axes._special,
    Unary: Axes._of_one,
    Binary: Axes._of_two,
    Select: Axes._select,
    Cast: Axes._of_one,
    Reinterpret: Axes._of_one,
    Vector: Axes._vector,
    Component: Axes._of_one,
    Load: Axes._load,
    AddressOf: Axes._address,
    Call: Axes._call,
}
