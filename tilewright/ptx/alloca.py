"""alloca: local memory of a size that the run knows, from one block of bytes of each thread, freed as functions return.

Source: PTX ISA, "Stack Manipulation Instructions: stacksave, stackrestore, alloca".
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.dtypes import dtype
from tilewright.ir import AddressOf, AllocBuffer, Assign, Buffer, Stmt, Var, binary, cast, const
from tilewright.ptx.names import all_statements
from tilewright.ptx.state import UINT8, UINT64, Lowering, Step
from tilewright.ptx.tree import Function, Immediate, Instruction
from tilewright.ptx.values import assigned, read

ROOM = 1 << 14  # bytes of each thread
UINT32 = dtype("uint32")


def allocates(function: Function) -> bool:
    """Does the function ask for such memory?"""
    body = all_statements(function.body or ())
    return any(isinstance(statement, Instruction) and statement.opcode == "alloca" for statement in body)


def allocate(low: Lowering, step: Step) -> Sequence[Stmt]:
    """``alloca d, size, alignment``: bounds are those of all bytes that a thread has for this."""
    target, size, *more = step.ins.operands
    align = more[0].value if more and isinstance(more[0], Immediate) else 8
    used = low.room_used
    if low.room is None:
        low.room = Buffer(low.fresh("alloca"), UINT8, (ROOM,), "local", None, align=16)
        low.allocated.append(AllocBuffer(low.room, at=step.at))
    start = Var(low.fresh("allocated"), UINT32)
    up = binary("&", used + const(align - 1, UINT32), const(-align & 0xFFFFFFFF, UINT32))
    address = cast(AddressOf(low.room, (start,)), UINT64)
    wide = step.ins.modifiers[-1] == "u64"
    return [
        Assign(start, up, at=step.at),
        Assign(used, start + cast(read(low, size, step, UINT64 if wide else UINT32), UINT32), at=step.at),
        *assigned(low, target, address if wide else cast(address, UINT32), step),
    ]


def save(low: Lowering, step: Step) -> Sequence[Stmt]:
    """``stacksave``: how much is in use."""
    wide = step.ins.modifiers[-1] == "u64"
    return assigned(low, step.ins.operands[0], cast(low.room_used, UINT64) if wide else low.room_used, step)


def restore(low: Lowering, step: Step) -> Sequence[Stmt]:
    """``stackrestore``: what was allocated since ``stacksave`` is free again."""
    wide = step.ins.modifiers[-1] == "u64"
    before = cast(read(low, step.ins.operands[0], step, UINT64 if wide else UINT32), UINT32)
    return [Assign(low.room_used, before, at=step.at)]
