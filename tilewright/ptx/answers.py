"""clusterlaunchcontrol.query_cancel: what a register of 128 bits says of a request for a cluster that has not begun.

The request itself is a row of the table, and so is what its 16 bytes are: `tilewright.isa.cluster_launch`.

Source: PTX ISA, "Parallel Synchronization and Communication Instructions: clusterlaunchcontrol.query_cancel".
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.errors import InstructionError
from tilewright.ir import Expr, Stmt, binary, cast, const
from tilewright.isa.arch import since
from tilewright.ptx.state import UINT32, UINT64, Lowering, Step
from tilewright.ptx.tree import Vector
from tilewright.ptx.values import assigned, read

FIRST_CTA = "get_first_ctaid"
ALLOWED = (
    "is_canceled.pred.b128 p, answer",
    f"{FIRST_CTA}.v4.b32.b128 {{x, y, z, _}}, answer",
    *(f"{FIRST_CTA}::{dim}.b32.b128 d, answer" for dim in "xyz"),
)


def query(low: Lowering, step: Step) -> Sequence[Stmt] | None:
    """The statements of ``query_cancel``; None for the request, which is a row."""
    words, operands = step.ins.modifiers, step.ins.operands
    if words[0] != "query_cancel":
        return None
    low.check_target(step.ins.mnemonic, since("sm_100"))
    target, answer = operands
    if not isinstance(answer, Vector) or len(answer.parts) != 2:
        raise InstructionError(f"{step.ins.mnemonic} reads no answer", allowed="a register of 128 bits: .reg .b128")
    low_half, high_half = (read(low, part, step, UINT64) for part in answer.parts)
    taken, *first = (_word(half, start) for half in (low_half, high_half) for start in (0, 32))
    match words[1:]:
        case ("is_canceled", "pred", "b128"):
            return assigned(low, target, binary("!=", taken, const(0, UINT32)), step)
        case ("get_first_ctaid", "v4", "b32", "b128") if isinstance(target, Vector) and len(target.parts) == 4:
            parts = zip(target.parts, (*first, const(0, UINT32)), strict=True)
            return [stmt for part, number in parts for stmt in assigned(low, part, number, step)]
        case ("get_first_ctaid::x" | "get_first_ctaid::y" | "get_first_ctaid::z" as which, "b32", "b128"):
            return assigned(low, target, first["xyz".index(which[-1])], step)
    raise InstructionError(f"{step.ins.mnemonic} has other operands", allowed="; ".join(ALLOWED))


def _word(half: Expr, start: int) -> Expr:
    return cast(binary(">>", half, const(start, UINT64)), UINT32)
