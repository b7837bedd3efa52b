"""Local memory of a size that only the run knows: ``alloca``, and a stack that is kept and put back.

Each thread has a stack of bytes, which grows downwards. Source: PTX ISA, "Stack Manipulation Instructions".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tilewright.ir import AddressOf, Assign, Stmt, Var, as_expr, binary, cast, const
from tilewright.ptx.declare import in_local
from tilewright.ptx.state import UINT64, Lowering, Step
from tilewright.ptx.tree import Immediate, Variable
from tilewright.ptx.values import assigned, read

__all__ = ["STACK"]

BYTES = 4096  # of each thread's stack
ALIGNED = 8  # bytes, where nothing else is said
TOP = Var("stack__n", UINT64)


def _top(low: Lowering) -> Var:
    """The address that the stack begins at, which is its end at first."""
    if TOP not in low.beginnings:
        memory = in_local(low, Variable("local", "b8", "stack", (BYTES,), 16), "stack")
        low.beginnings[TOP] = cast(AddressOf(memory.buffer, (as_expr(0),)), UINT64) + const(BYTES, UINT64)
    return TOP


def _allocate(low: Lowering, step: Step) -> Sequence[Stmt]:
    target, size, *align = step.ins.operands
    multiple = align[0].value if align and isinstance(align[0], Immediate) else ALIGNED
    top = _top(low)
    lower = binary("&", binary("-", top, read(low, size, step, UINT64)), const(-multiple, UINT64))
    return [Assign(top, lower, at=step.at), *assigned(low, target, top, step)]


def _save(low: Lowering, step: Step) -> Sequence[Stmt]:
    return assigned(low, step.ins.operands[0], _top(low), step)


def _restore(low: Lowering, step: Step) -> Sequence[Stmt]:
    return [Assign(_top(low), read(low, step.ins.operands[0], step, UINT64), at=step.at)]


STACK: Mapping[str, Callable[[Lowering, Step], Sequence[Stmt]]] = {
    "alloca": _allocate,
    "stacksave": _save,
    "stackrestore": _restore,
}
