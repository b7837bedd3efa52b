"""Functions that a PTX text calls and that the driver has: printf, assertions; and the end of a launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tilewright import isa
from tilewright.ir import Evaluate, Load, Stmt
from tilewright.ptx.names import Memory
from tilewright.ptx.state import UINT32, UINT64, Lowering, Step
from tilewright.ptx.tree import Operand
from tilewright.ptx.values import element, read

__all__ = ["OUTSIDE"]


def _argument(low: Lowering, operand: Operand, step: Step) -> Load | object:
    """The bits of an argument, which lies in a variable of the call or is a register."""
    found = step.scope.named(operand)
    if isinstance(found, Memory):
        kind = UINT64 if found.buffer.storage_size() >= 8 else UINT32
        return element(low, found.at(), kind)
    return read(low, operand, step, UINT64)


def _row(name: str, count: int) -> Callable[[Lowering, Sequence[Operand], Step], Sequence[Stmt]]:
    def made(low: Lowering, arguments: Sequence[Operand], step: Step) -> Sequence[Stmt]:
        given = [_argument(low, operand, step) for operand in arguments[:count]]
        return [Evaluate(isa.call(name, *given), at=step.at)]

    return made


OUTSIDE: Mapping[str, Callable[[Lowering, Sequence[Operand], Step], Sequence[Stmt]]] = {
    "vprintf": _row("cuda.vprintf", 2),
    "__assertfail": _row("cuda.assert_fail", 4),
    "trap": _row("cuda.trap", 0),
}
"""The functions that write a call, by the callee's name."""
