"""Registers: each thread stores to those that the layout says are its own, all replicas among them."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir import Expr
from tilewright.tile.builder import Builder
from tilewright.tile.call import TileCall
from tilewright.tile.conditions import constant_extents, kept_inside, only_in
from tilewright.tile.dispatch import FILLS, Decline, variant
from tilewright.tile.owners import owners
from tilewright.tile.values import filling
from tilewright.tile.walks import Offset


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """slots: where each of the rounds stores, one element. guard: holds in the threads that have elements."""

    rounds: int
    slots: Offset
    guard: Expr | None

    def summary(self) -> str:
        """``8 registers per thread``."""
        return f"{self.rounds} elements in registers per thread"


@variant(*FILLS, priority=10, keywords=("vec_len",), when=[only_in("local"), constant_extents, kept_inside])
def registers(call: TileCall) -> SlotPlan:
    """Each thread stores to the registers that it holds."""
    dst = call["dst"]
    held = owners(call, dst, loading=True)
    slots = held.offset_of(held.slots)
    if slots is None:
        raise Decline(f"the slots of {dst.name} follow no pattern")
    return SlotPlan(len(held.slots), slots, held.guard(storing=False))


@registers.emit
def _(plan: SlotPlan, call: TileCall, out: Builder) -> None:
    value, flat = filling(call, out), call["dst"].buffer.flat()
    with out.when(plan.guard), out.loop("f", plan.rounds) as f:
        out.store(flat, out.offsets(plan.slots, "r")(f), value)
