"""Over what a value varies: the CTAs of a grid, the warps of a CTA, the lanes of a warp, or nothing.

Known before a kernel runs, for every scalar variable; a variable that is assigned under a condition varies at least as
that condition does. The dispatcher derives from it which threads pass a condition, the simulator the shapes of its
arrays.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from tilewright import ir
from tilewright.ir.launch import ALL, CTA, UNIFORM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Uniformity:
    """The axes of every variable of a kernel, found by going over it until nothing changes. Ask with `of`.

    Rooms that know more override `_derived`, or a rule.
    """

    def __init__(self, kernel: ir.Kernel) -> None:
        self._settle(lambda: self._body(kernel.body))

    def _settle(self, go_over: Callable[[], None]) -> None:
        self.variables: dict[str, int] = {}
        self._depth: dict[str, int] = {}  # of the variable's declaration: how many conditions stood around it
        self._conditions: list[tuple[int, int, frozenset[str]]] = []  # see `_under`
        self._answers: dict[int, tuple[ir.Expr, int]] = {}  # by ``id``, until a variable varies more than it did
        before: dict[str, int] | None = None
        while before != self.variables:
            before = dict(self.variables)
            go_over()

    def of(self, expr: ir.Expr) -> int:
        """The axes over which the value of ``expr`` may differ."""
        answer = self._answers.get(id(expr))
        if answer is None:
            answer = self._answers[id(expr)] = (expr, self._derived(expr))
        return answer[1]

    def of_all(self, exprs: Iterable[ir.Expr]) -> int:
        """The axes over which any of the values may differ."""
        return reduce(or_, map(self.of, exprs), UNIFORM)

    def _derived(self, expr: ir.Expr) -> int:
        rule = _RULES.get(type(expr))
        if rule is not None:
            return rule(self, expr)
        parts = expr.parts if isinstance(expr, ir.Vector) else ir.parts(expr)  # it computes with these alone
        return self.of_all(parts)  # type: ignore[arg-type]  # expressions, of which an expression is made

    # Expressions

    def _var(self, expr: ir.Var) -> int:
        return self.variables.get(expr.name, UNIFORM)

    def _special(self, expr: ir.Special) -> int:
        return ir.SIMULATED[expr.name].varies

    def _load(self, expr: ir.Load) -> int:
        if expr.buffer.space == "local":
            return ALL
        axes = CTA if expr.buffer.is_shared else UNIFORM
        return axes | self._address(ir.AddressOf(expr.buffer, expr.indices))

    def _address(self, expr: ir.AddressOf) -> int:
        data = expr.buffer.data
        return self.of_all(expr.indices) | (self.of(data) if data is not None else UNIFORM)

    def _call(self, expr: ir.Call) -> int:
        """What an instruction gives is up to the room that knows instructions."""
        return ALL

    # Statements

    def _body(self, body: ir.Body) -> None:
        for stmt in body:
            self._statement(stmt)

    def _statement(self, stmt: ir.Stmt) -> None:
        if isinstance(stmt, ir.Bind):
            self._depth[stmt.var.name] = len(self._conditions)
            self._join(stmt.var, self.of(stmt.value))
        elif isinstance(stmt, ir.Assign):
            around = self._conditions[self._depth.get(stmt.var.name, 0) :]
            axes = (within if stmt.var.name in names else axes for axes, within, names in around)
            self._join(stmt.var, reduce(or_, axes, self.of(stmt.value)))
        elif isinstance(stmt, ir.If):
            self._under(self.of(stmt.cond), stmt.then)
            self._under(self.of(stmt.cond), stmt.orelse)
        elif isinstance(stmt, ir.For):
            self._depth[stmt.var.name] = len(self._conditions)
            self._join(stmt.var, self.of(stmt.start))
            self._turns(stmt)
        elif isinstance(stmt, ir.While):
            self._turns(stmt)

    def _turns(self, loop: ir.For | ir.While) -> None:
        """What a loop is given in its turns. Lanes that have left the loop need none of the variables of its own."""
        within = self._leaving(loop.body, UNIFORM, (ir.Continue,))
        self._under(self.divergence(loop), loop.body, within, self._own_of(loop))

    def _own_of(self, loop: ir.For | ir.While) -> frozenset[str]:
        """Variables that lanes need no more once they have left a loop: a room may know some."""
        return frozenset()

    def _under(self, axes: int, body: ir.Body, within: int = UNIFORM, names: frozenset[str] = frozenset()) -> None:
        """Statements under a condition over these axes; ``within``, as far as the variables ``own`` are concerned."""
        self._conditions.append((axes, within, names))
        self._body(body)
        self._conditions.pop()

    def _join(self, var: ir.Var, axes: int) -> None:
        if axes & ~self.variables.setdefault(var.name, UNIFORM):
            self.variables[var.name] |= axes
            self._answers.clear()

    def divergence(self, loop: ir.For | ir.While) -> int:
        """The axes over which the lanes of a loop diverge: by its bounds or condition, and by break and continue."""
        entry = self.of_all((loop.start, loop.stop)) if isinstance(loop, ir.For) else self.of(loop.cond)
        return entry | self._leaving(loop.body, UNIFORM, (ir.Break, ir.Continue))

    def _leaving(self, body: ir.Body, around: int, jumps: tuple[type[ir.Stmt], ...]) -> int:
        axes = UNIFORM
        for stmt in body:
            if isinstance(stmt, jumps):
                axes |= around
            elif isinstance(stmt, ir.If):
                inner = around | self.of(stmt.cond)
                axes |= self._leaving(stmt.then, inner, jumps) | self._leaving(stmt.orelse, inner, jumps)
        return axes


_RULES: dict[type[ir.Expr], Callable[..., int]] = {
    ir.Var: Uniformity._var,
    ir.Special: Uniformity._special,
    ir.Load: lambda self, expr: self._load(expr),
    ir.AddressOf: Uniformity._address,
    ir.Call: lambda self, expr: self._call(expr),
}
