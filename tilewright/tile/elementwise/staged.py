"""Registers that other threads hold: copies bring them to the threads that compute, then another variant takes the
call.

An operand as large as the result goes to scratch registers by `permute_layout`. One that broadcasts goes to shared
memory, where each thread finds what it needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from tilewright.ir import Buffer
from tilewright.layout import TileLayout
from tilewright.records import replace
from tilewright.tile.call import Side, TileCall, side_of
from tilewright.tile.conditions import by_several, constant_extents, one_place_each, only_in, registers_inside
from tilewright.tile.dispatch import Decline, elementwise, variant
from tilewright.tile.distribution import held_elsewhere, registers_alike
from tilewright.tile.runs import dtypes_differ, some_registers
from tilewright.tile.steps import (
    CallSteps,
    Scratch,
    ScratchRegisters,
    emit_steps,
    in_steps,
    inner_call,
    planned,
    staging,
)

CONDITIONS = (some_registers, only_in("local", "shared", "global"), by_several, constant_extents, one_place_each,
              registers_inside)  # fmt: skip


def plan_staged(call: TileCall) -> CallSteps:
    """The operands that other threads hold are brought to those that compute. Raises Decline."""
    leading = registers_alike(call)
    names = [] if leading is None else held_elsewhere(call, leading)
    if leading is None or not names:
        raise Decline("no tile is held by other threads than those that compute")
    plan = in_steps(call, _calls, {name: _scratch(call, call[name], leading) for name in names})
    *ways, rest = plan.chosen
    told = "; ".join(
        f"{call[name].name} by {_primitive(room.side)}/{way.variant.name} ({way.plan.summary()})"
        for (name, room), way in zip(plan.scratch.items(), ways, strict=True)
    )
    return replace(plan, words=f"{told}, then {rest.variant.name}: {rest.plan.summary()}")


def _primitive(scratch: Side) -> str:
    """What brings an operand there."""
    return "permute_layout" if scratch.space == "local" else "copy"


def _scratch(call: TileCall, side: Side, leading: Side) -> Scratch:
    """Registers of the threads that compute, if `permute_layout` brings the operand there; else memory."""
    if side.size == leading.size == call["dst"].size and leading.tile is not None and leading.swizzle is None:
        layout = TileLayout(
            leading.tile.shard, leading.tile.replica, [term for term in leading.tile.offset if term.axis.name != "m"]
        )
        buffer = Buffer("staged", side.dtype, side.shape, "local", layout)
        registers = ScratchRegisters(side_of(buffer.region(), call.facts))
        with suppress(Decline):  # every thread finds it in shared memory
            planned(inner_call(call, "permute_layout", {"dst": registers.side, "src": side}))
            return registers
    return staging(call, side.shape, side.dtype)


def _calls(call: TileCall, scratch: Mapping[str, Side]) -> list[TileCall]:
    brought = [
        inner_call(call, _primitive(there), {"dst": there, "src": call[name]}) for name, there in scratch.items()
    ]
    return [*brought, replace(call, stmt=replace(call.stmt, dispatch=None), sides={**call.sides, **scratch})]


@elementwise(priority=5, when=CONDITIONS)
def staged(call: TileCall) -> CallSteps:
    """Operands that other threads hold are brought to those that compute, by permute_layout or shared memory."""
    return plan_staged(call)


@variant("copy", priority=0, when=[dtypes_differ, *CONDITIONS])
def permuted_and_converted(call: TileCall) -> CallSteps:
    """The elements are brought to the threads that hold them in the destination, and converted there."""
    return plan_staged(call)


staged.emit(emit_steps)
permuted_and_converted.emit(emit_steps)
