"""Votes, shuffles and reductions in forms that are no row: without ``.sync``, and at a barrier.

Before sm_70 lanes of a warp ran together, and votes and shuffles had no mask: the active lanes take part. A barrier
that also counts (``bar.red``) is three barriers around a counter that the CTA has for it, 0 before and afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright import isa
from tilewright.dtypes import BOOL
from tilewright.errors import InstructionError
from tilewright.ir import Assign, Bind, Evaluate, Expr, Stmt, Var, binary, cast, const, select
from tilewright.ptx.bits import start_of
from tilewright.ptx.names import nbytes
from tilewright.ptx.special import cta_number
from tilewright.ptx.state import UINT32, UINT64, Lowering, Step
from tilewright.ptx.tree import Immediate, Name, Operand, Variable
from tilewright.ptx.values import assigned, read

SYNC_SINCE = 70  # the architecture from which on lanes may be apart
BARRIERS = 16
COUNTERS = "counters of bar.red"


def with_mask(low: Lowering, step: Step) -> tuple[list[Stmt], Step]:
    """``vote`` or ``shfl`` without ``.sync`` as one of all the lanes that are there."""
    words = step.ins.modifiers
    if "sync" in words:
        return [], step
    if low.target_number >= SYNC_SINCE:
        raise InstructionError(f"{step.ins.mnemonic} needs .sync from sm_{SYNC_SINCE} on", given=low.module.target[0])
    mask = Var(low.fresh("mask"), UINT32)
    step.scope.symbols[mask.name] = mask
    name = ".".join([step.ins.opcode, "sync", *words])
    ins = replace(step.ins, mnemonic=name, operands=(*step.ins.operands, Name(mask.name)))
    return [Assign(mask, isa.call("ptx.activemask"), at=step.at)], replace(step, ins=ins)


def reduce_at_barrier(low: Lowering, step: Step) -> Sequence[Stmt]:
    """``bar.red``: all threads get the number of those whose predicate holds, or whether all or any do."""
    op = next((word for word in step.ins.modifiers if word in ("popc", "and", "or")), "")
    if not op or not 3 <= len(step.ins.operands) <= 4:
        raise InstructionError(f"{step.ins.mnemonic} has other operands", allowed="d, barrier{, threads}, predicate")
    target, barrier, *threads, predicate = step.ins.operands
    held = read(low, predicate, step, BOOL)
    counted = select(held, const(int(op != "and"), UINT32), const(int(op == "and"), UINT32))
    mine, number, total = (Var(low.fresh(name), UINT32) for name in ("mine", "barrier", "total"))
    place = Var(low.fresh("counter"), UINT64)
    if not threads and isinstance(barrier, Immediate) and barrier.value == 0:
        meeting = isa.call("cuda.cta_sync")
    else:
        meeting = isa.call("ptx.barrier.sync", number, _threads(low, threads, step))
    meet = Evaluate(meeting, at=step.at)
    stmts: list[Stmt] = [
        Bind(mine, counted, mutable=False, at=step.at),
        Bind(number, read(low, barrier, step, UINT32), mutable=False, at=step.at),
        Bind(place, _counter(low, number), mutable=False, at=step.at),
        _add(place, mine, step),
        meet,
        Assign(total, cast(_add_of(place, const(0, UINT32)), UINT32), at=step.at),
        meet,
        _add(place, binary("-", const(0, UINT32), mine), step),
        meet,
    ]
    value: Expr = total if op == "popc" else total == 0 if op == "and" else total != 0
    return [*stmts, *assigned(low, target, value, step)]


def _threads(low: Lowering, operands: Sequence[Operand], step: Step) -> Expr:
    return read(low, operands[0], step, UINT32) if operands else const(low.machine.launch.warps * 32, UINT32)


def _add_of(place: Expr, value: Expr) -> Expr:
    return isa.call("ptx.atom.add", place, value, scope="cta", space="global")


def _add(place: Expr, value: Expr, step: Step) -> Stmt:
    return Evaluate(_add_of(place, value), at=step.at)


def _counter(low: Lowering, number: Expr) -> Expr:
    """The address of the counter that the CTA has for a barrier."""
    x, y, z = low.machine.grid
    variable = Variable("global", "b32", COUNTERS, (x * y * z * BARRIERS,))
    low.globals[COUNTERS] = variable
    buffer = low.global_bytes(COUNTERS, nbytes(variable), 256)
    offset = (cta_number(low.machine) * BARRIERS + (number & (BARRIERS - 1))) * 4
    return start_of(buffer) + cast(offset, UINT64)
