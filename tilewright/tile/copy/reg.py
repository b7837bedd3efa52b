"""Registers to or from any other memory: each thread copies what the register layout says is its own."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.ir import Expr
from tilewright.tile.builder import Builder
from tilewright.tile.call import TileCall
from tilewright.tile.conditions import constant_extents, one_place_each, plain_registers
from tilewright.tile.dispatch import Decline, condition, variant
from tilewright.tile.hints import wider
from tilewright.tile.owners import accesses
from tilewright.tile.partition import tracked
from tilewright.tile.walks import Offset, walk_of

__all__ = ["reg"]


@condition("exactly one side is in registers, the other in shared or global memory")
def one_side_in_registers(call: TileCall) -> str | None:
    if call.spaces.count("local") == 1 and "tmem" not in call.spaces:
        return None
    return f"copies from {call['src'].space} to {call['dst'].space} memory; exactly one side must be in registers"


@dataclass(frozen=True, slots=True)
class VectorPlan:
    """vector: elements of one access. rounds: accesses of a thread. slots, memory: where each round starts on either
    side. guard: holds in the threads that take part. limit: why no access has 16 bytes. widened: what would make them
    wider.
    """

    vector: int
    nbytes: int
    rounds: int
    slots: Offset
    memory: Offset
    guard: Expr | None
    limit: str
    widened: str | None = None

    def summary(self) -> str:
        """``2 x 16 bytes (8 elements) per thread``, and why not fewer and wider."""
        why = f"; not by 16 bytes, as {self.limit}" if self.limit else ""
        return f"{self.rounds} x {self.nbytes} bytes ({self.vector} elements) per thread{why}"


@variant(
    "copy",
    priority=10,
    keywords=("vec_len",),
    when=[one_side_in_registers, constant_extents, plain_registers, one_place_each],
)
def reg(call: TileCall) -> VectorPlan:
    """Each thread copies the elements it holds, in accesses of up to 128 bits."""
    plan = _plan(call)
    return replace(plan, widened=wider(call, plan, _plan)) if plan.limit else plan


def _plan(call: TileCall) -> VectorPlan:
    local = call.side("local")
    memory = call.other(local)
    held, where, vector, limit = accesses(call, local)
    starts = held.elements[:, ::vector]
    slots = walk_of(held.slots[::vector])
    offset = tracked(call, memory, where, starts, [held.rank])
    if slots is None or offset is None:
        raise Decline(f"the registers of {local.name} and the addresses of {memory.name} follow no common pattern")
    return VectorPlan(
        vector,
        vector * call.dtype.bits // 8,
        starts.shape[1],
        Offset(held.base, ((1, slots),)),
        offset,
        held.guard(storing=local is call["src"]),
        limit,
    )


@reg.emit
def _(plan: VectorPlan, call: TileCall, out: Builder) -> None:
    local = call.side("local")
    memory = call.other(local)
    registers, storage = local.buffer.flat(), memory.buffer.flat()
    with out.when(plan.guard):
        slot, address = out.offsets(plan.slots, "r"), out.offsets(plan.memory, "s")
        with out.loop("f", plan.rounds) as f:
            s_ptr = out.pointer("s_ptr", storage, address(f))
            r_ptr = out.pointer("r_ptr", registers, slot(f))
            out.call("cuda.copy_bytes", *((r_ptr, s_ptr) if local is call["dst"] else (s_ptr, r_ptr)), plan.nbytes)
