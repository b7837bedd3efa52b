"""Registers whose lines follow no pattern, and sides in different memories: through scratch memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.tile.call import Side, TileCall
from tilewright.tile.conditions import constant_extents, kept_inside, only_in
from tilewright.tile.dispatch import variant
from tilewright.tile.steps import CallSteps, emit_steps, in_steps, inner_call, staging


@variant(
    "scan",
    priority=5,
    keywords=("axis", "op", "exclusive"),
    when=[only_in("local", "shared", "global"), constant_extents, kept_inside],
)
def staged(call: TileCall) -> CallSteps:
    """The elements go to shared memory, and are scanned there."""
    local = {name: call[name] for name in ("src", "dst") if call[name].space == "local"}
    plan = in_steps(call, _calls, {name: staging(call, side.shape, side.dtype) for name, side in local.items()})
    return replace(plan, words=f"through shared memory: {plan.summary()}")


def _calls(call: TileCall, scratch: Mapping[str, Side]) -> list[TileCall]:
    before = [inner_call(call, "copy", {"dst": scratch["src"], "src": call["src"]})] if "src" in scratch else []
    after = [inner_call(call, "copy", {"dst": call["dst"], "src": scratch["dst"]})] if "dst" in scratch else []
    return [*before, inner_call(call, "scan", {**call.sides, **scratch}, **dict(call.config)), *after]


staged.emit(emit_steps)
