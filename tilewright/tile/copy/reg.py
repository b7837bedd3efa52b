"""Registers to or from any other memory: each thread copies what the register layout says is its own."""

from __future__ import annotations

from tilewright.tile.call import TileCall
from tilewright.tile.conditions import bits_only, constant_extents, one_place_each, plain_registers
from tilewright.tile.dispatch import Decline, condition, variant
from tilewright.tile.distribution import Distribution, emit_copies, goes_longer, held_by, widened
from tilewright.tile.pieces import by_fewer_accesses


@condition("exactly one side is in registers, the other in shared or global memory")
def one_side_in_registers(call: TileCall) -> str | None:
    if call.spaces.count("local") == 1 and "tmem" not in call.spaces:
        return None
    return f"copies from {call['src'].space} to {call['dst'].space} memory; exactly one side must be in registers"


@variant(
    "copy",
    priority=10,
    keywords=("vec_len",),
    when=[one_side_in_registers, bits_only, constant_extents, plain_registers, one_place_each],
)
def reg(call: TileCall) -> Distribution:
    """Each thread copies the elements it holds, in accesses of up to 128 bits."""
    plan = widened(call, lambda wide: held_by(wide, wide.side("local")))
    if better := by_fewer_accesses(call, plan):
        raise better
    if plan.limit and call.stmt.dispatch is None and goes_longer(call, call.side("local"), plan.vector):
        raise Decline(f"{plan.vector} elements at a time; in the order of the memory, not of the registers, more")
    return plan


reg.emit(emit_copies)
