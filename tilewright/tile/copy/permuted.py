"""Registers to registers of other threads, by a variant of `permute_layout`."""

from __future__ import annotations

from dataclasses import replace

from tilewright.tile.call import TileCall
from tilewright.tile.conditions import bits_only, constant_extents, only_in
from tilewright.tile.dispatch import variant
from tilewright.tile.steps import CallSteps, emit_steps, in_steps, inner_call


@variant("copy", priority=1, when=[only_in("local"), bits_only, constant_extents])
def permuted(call: TileCall) -> CallSteps:
    """The threads hand elements to those that hold them in the destination."""
    plan = in_steps(call, lambda call, _: [inner_call(call, "permute_layout", dict(call.sides))])
    return replace(plan, words=f"permute_layout/{plan.chosen[0].variant.name}: {plan.summary()}")


permuted.emit(emit_steps)
