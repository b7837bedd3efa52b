"""A source in registers that follow no pattern: its elements go to scratch memory, and are reduced from there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.tile.call import Side, TileCall
from tilewright.tile.conditions import by_several, constant_extents, from_registers, kept_inside
from tilewright.tile.dispatch import variant
from tilewright.tile.reductions import KEYWORDS, OPERATIONS
from tilewright.tile.steps import CallSteps, emit_steps, in_steps, inner_call, staging


@variant(
    *OPERATIONS,
    priority=5,
    keywords=KEYWORDS,
    when=[from_registers, by_several, constant_extents, kept_inside],
)
def staged(call: TileCall) -> CallSteps:
    """The elements go to shared memory, and are reduced from there."""
    plan = in_steps(call, _calls, {"src": staging(call, call["src"].shape, call["src"].dtype)})
    return replace(plan, words=f"through shared memory: {plan.summary()}")


def _calls(call: TileCall, scratch: Mapping[str, Side]) -> list[TileCall]:
    return [
        inner_call(call, "copy", {"dst": scratch["src"], "src": call["src"]}),
        inner_call(call, call.stmt.primitive, {"dst": call["dst"], **scratch}, **dict(call.config)),
    ]


staged.emit(emit_steps)
