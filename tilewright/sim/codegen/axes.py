"""How far a value varies in the simulator: over the CTAs of a batch, the warps of a CTA, the lanes of a warp.

What varies over nothing is a plain Python number and steers Python's own ``if`` and ``for``; the rest are arrays of the
smallest shape that broadcasts to (CTAs, warps, 32).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from tilewright.ir import Bind, Body, Call, Expr, For, Kernel, Stmt, Var, While, expressions, statements, stop_of
from tilewright.ir.launch import ALL, CTA, LANE, UNIFORM, WARP, Uniformity
from tilewright.isa import ANY_LANES, bind
from tilewright.sim.codegen.loops import polls
from tilewright.sim.codegen.values import ById, waits

if TYPE_CHECKING:
    from collections.abc import Mapping


__all__ = ["ALL", "CTA", "LANE", "UNIFORM", "WARP", "Axes"]


class Axes(Uniformity):
    """The axes of every variable of a kernel, those that hold the ends of loops too."""

    undefined: tuple[Stmt, ...] = ()  # that declare registers of compiled code, with no known bit
    polled: frozenset[int] = frozenset()  # the ``id`` of each statement of compiled code on which it depends whether a
    # loop that polls memory ends; and, below, a predicate; where the kernel has volatile accesses
    compared: frozenset[int] = frozenset()
    ending: frozenset[int] = frozenset()  # the ``id`` of each branch of compiled code behind which lanes only end
    decisions: Mapping[int, Expr] = MappingProxyType({})  # see `tilewright.sim.codegen.loops`

    def __init__(self, kernel: Kernel) -> None:
        self._compiled = kernel.compiled
        self._own: dict[int, frozenset[str]] = {}
        super().__init__(kernel)
        self.of = ById(self.of)  # type: ignore[method-assign]  # the variables are known: no answer changes any more

    def _body(self, body: Body) -> None:
        if any(isinstance(stmt, (For, While)) and id(stmt) not in self._own for stmt in body):
            self._own |= _own_of_loops(body, compiled=self._compiled)
        super()._body(body)

    def _own_of(self, loop: For | While) -> frozenset[str]:
        return self._own[id(loop)]

    def _call(self, expr: Call) -> int:
        bound = bind(expr)
        operands = self.of_all(expr for exprs in bound.operands.values() for expr in exprs)
        return operands if bound.instruction.lanes == ANY_LANES and not bound.form.meaning.on else ALL

    def _statement(self, stmt: Stmt) -> None:
        super()._statement(stmt)
        if isinstance(stmt, For):
            self._join(stop_of(stmt), self.of(stmt.stop))


def _own_of_loops(body: Body, *, compiled: bool) -> dict[int, frozenset[str]]:
    """For each loop among some statements, by its ``id``, the variables that they bind before it and that nothing reads
    after it. None where threads wait in the loop: those of one warp may be in several turns, each with its own value.
    """
    private: dict[int, frozenset[str]] = {}
    after: set[str] = set()
    for stmt in reversed(body):
        if isinstance(stmt, (For, While)):
            inner = statements((stmt,))
            apart = any(waits(nested) is not False or polls(nested, compiled=compiled) for nested in inner)
            bound = frozenset(before.var.name for before in body if isinstance(before, Bind))
            private[id(stmt)] = frozenset() if apart else bound - after
        parts = (part for nested in statements((stmt,)) for part in expressions(nested) if isinstance(part, Var))
        after |= {part.name for part in parts}
    return private
