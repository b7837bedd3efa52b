"""How far a value varies in the simulator: over the CTAs of a batch, the warps of a CTA, the lanes of a warp.

What varies over nothing is a plain Python number and steers Python's own ``if`` and ``for``; the rest are arrays of the
smallest shape that broadcasts to (CTAs, warps, 32).
"""

from __future__ import annotations

from tilewright.ir import Call, Expr, For, Stmt, stop_of
from tilewright.ir.special import ALL, CTA, LANE, UNIFORM, WARP
from tilewright.ir.uniformity import Uniformity
from tilewright.isa import ANY_LANES, bind

__all__ = ["ALL", "CTA", "LANE", "UNIFORM", "WARP", "Axes", "operand_expressions"]


def operand_expressions(call: Call) -> list[Expr]:
    """The operands of a call, registers of vectors one by one."""
    return [expr for exprs in bind(call).operands.values() for expr in exprs]


class Axes(Uniformity):
    """The axes of every variable of a kernel, those that hold the ends of loops too."""

    undefined: tuple[Stmt, ...] = ()  # that declare a graph's registers, with no known bit
    polled: frozenset[int] = frozenset()  # the ``id`` of each statement of a graph on which it depends whether a loop
    # that polls memory ends; and, below, a predicate; where the kernel has volatile accesses
    compared: frozenset[int] = frozenset()

    def _call(self, expr: Call) -> int:
        bound = bind(expr)
        operands = self.of_all(operand_expressions(expr))
        return operands if bound.instruction.lanes == ANY_LANES and not bound.form.meaning.on else ALL

    def _statement(self, stmt: Stmt) -> None:
        super()._statement(stmt)
        if isinstance(stmt, For):
            self._join(stop_of(stmt), self.of(stmt.stop))

    def is_blended(self, stmt: Stmt) -> bool:
        """Do other lanes need the variable's earlier value, though all lanes that come here assign it?"""
        return False
