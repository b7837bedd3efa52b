"""Undefined integer arithmetic: a division by zero, a shift by the width or more. The hardware goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import SimulationError
from tilewright.ir import Binary, const_value
from tilewright.ir.operators import DIVISIONS, SHIFTS
from tilewright.sim.checks.base import register
from tilewright.sim.machine.facets import where_text

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.ir import Expr
    from tilewright.sim.machine.arrays import Bools, Value
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.masks import Mask

__all__ = ["Operands", "may_fault"]


def may_fault(expr: Expr) -> bool:
    """May this integer operation be undefined, by its second operand?"""
    if not isinstance(expr, Binary) or expr.op not in (*DIVISIONS, *SHIFTS) or expr.dtype.is_float:
        return False
    known = const_value(expr.b)
    return known is None or bool(_faults(expr, int(known)))


def _faults(expr: Binary, b: Value) -> Bools | bool:
    return b == 0 if expr.op in DIVISIONS else (b < 0) | (b >= expr.dtype.element.bits)


@dataclass(frozen=True, eq=False)
class Operands:
    """A place where integers are divided or shifted; called with the operands."""

    expr: Binary
    at: Span | None

    def __call__(self, batch: Batch, mask: Mask, a: Value, b: Value) -> None:
        """Raises SimulationError where an active lane's operation is undefined."""
        faults = np.asarray(_faults(self.expr, b))
        if not faults.any():
            return
        lanes = mask.full & (faults.any(-1) if faults.ndim == 4 else faults)
        if lanes.any():
            raise self._error(batch, lanes, a, b)

    def _error(self, batch: Batch, lanes: Bools, a: Value, b: Value) -> SimulationError:
        cta, warp, lane = map(int, np.argwhere(lanes)[0])
        left, right = (np.broadcast_to(np.atleast_3d(v), (*batch.shape, *np.shape(v)[3:])) for v in (a, b))
        values = left[cta, warp, lane], right[cta, warp, lane]
        bits = self.expr.dtype.element.bits
        divides = self.expr.op in DIVISIONS
        holds = f"{self.expr.b} != 0" if divides else f"{self.expr.b} < {bits}"
        if not divides and np.any(values[1] < 0):
            holds = f"{self.expr.b} >= 0"
        return SimulationError(
            f"`{self.expr}` divides by zero" if divides else f"`{self.expr}` shifts out of range",
            given=f"{values[0]} {self.expr.op} {values[1]} in {where_text(batch, cta, warp, lanes[cta, warp])}",
            allowed="a divisor other than 0" if divides else f"a count of 0 to {bits - 1}, for {bits} bits",
            hint=None if const_value(self.expr.b) is not None else f"T.select({holds}, {self.expr}, 0)",
            at=self.at,
        )


register("arithmetic", "integers divided by zero, and shifted by their width or more")
