"""Registers that other threads hold: copies bring them to the threads that compute, then another variant takes the
call.

An operand as large as the result goes to scratch registers by `permute_layout`. One that broadcasts goes to shared
memory, where each thread finds what it needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.ir import Buffer
from tilewright.layout import TileLayout
from tilewright.records import replace
from tilewright.tile.builder import Builder, ScratchRegisters, Staging, inner_call, planned, staging
from tilewright.tile.call import Side, TileCall, side_of
from tilewright.tile.conditions import by_several, constant_extents, one_place_each, only_in, registers_inside
from tilewright.tile.copy.converted import dtypes_differ
from tilewright.tile.dispatch import Chosen, Decline, elementwise, variant
from tilewright.tile.distribution import held_elsewhere, registers_alike
from tilewright.tile.elementwise.holders import some_registers


@dataclass(frozen=True, slots=True, eq=False)
class Brought:
    """An operand, a tile of the user's: where it goes, by which primitive and variant."""

    name: str
    tile: str
    to: ScratchRegisters | Staging
    primitive: str
    way: Chosen

    def call(self, call: TileCall, to: Side) -> TileCall:
        """The tile call that brings the operand there."""
        return inner_call(call, self.primitive, {"dst": to, "src": call[self.name]})


@dataclass(frozen=True, slots=True, eq=False)
class StagedOperands:
    """brought: the operands that other threads hold. rest: computes with what they have become."""

    brought: tuple[Brought, ...]
    rest: Chosen

    def summary(self) -> str:
        """``B by permute_layout/shuffles (4 shuffles; cost 16), then holders: 1 x 2 elements per thread``."""
        ways = "; ".join(
            f"{operand.tile} by {operand.primitive}/{operand.way.variant.name} ({operand.way.plan.summary()})"
            for operand in self.brought
        )
        return f"{ways}, then {self.rest.variant.name}: {self.rest.plan.summary()}"


CONDITIONS = (some_registers, only_in("local", "shared", "global"), by_several, constant_extents, one_place_each,
              registers_inside)  # fmt: skip


def plan_staged(call: TileCall) -> StagedOperands:
    """The operands that other threads hold are brought to those that compute. Raises Decline."""
    leading = registers_alike(call)
    names = [] if leading is None else held_elsewhere(call, leading)
    if leading is None or not names:
        raise Decline("no tile is held by other threads than those that compute")
    brought = tuple(_brought(call, name, leading) for name in names)
    return StagedOperands(brought, planned(_rest(call, {operand.name: operand.to.side for operand in brought})))


def _brought(call: TileCall, name: str, leading: Side) -> Brought:
    side = call[name]
    shape = side.shape
    if side.size == leading.size == call["dst"].size and leading.tile is not None and leading.swizzle is None:
        layout = TileLayout(
            leading.tile.shard, leading.tile.replica, [term for term in leading.tile.offset if term.axis.name != "m"]
        )
        registers = ScratchRegisters(side_of(Buffer("staged", side.dtype, shape, "local", layout).region(), call.facts))
        try:
            inner = inner_call(call, "permute_layout", {"dst": registers.side, "src": side})
            return Brought(name, side.name, registers, "permute_layout", planned(inner))
        except Decline:
            pass  # every thread finds it in shared memory
    memory = staging(call, shape, side.dtype)
    return Brought(
        name, side.name, memory, "copy", planned(inner_call(call, "copy", {"dst": memory.side, "src": side}))
    )


def _rest(call: TileCall, sides: Mapping[str, Side]) -> TileCall:
    stmt = replace(call.stmt, dispatch=None)
    return replace(call, stmt=stmt, sides={name: sides.get(name, side) for name, side in call.sides.items()})


def emit_staged(plan: StagedOperands, call: TileCall, out: Builder) -> None:
    """Brings the operands, then computes."""
    sides = {operand.name: operand.to.allocated(call, out) for operand in plan.brought}
    for operand in plan.brought:
        operand.way.write(operand.call(call, sides[operand.name]), out)
    through_memory = any(isinstance(operand.to, Staging) for operand in plan.brought)
    if through_memory:
        out.meet(call)
    plan.rest.write(_rest(call, sides), out)
    if through_memory:
        out.meet(call)


@elementwise(priority=5, when=CONDITIONS)
def staged(call: TileCall) -> StagedOperands:
    """Operands that other threads hold are brought to those that compute, by permute_layout or shared memory."""
    return plan_staged(call)


@variant("copy", priority=1, when=[dtypes_differ, *CONDITIONS])
def permuted_and_converted(call: TileCall) -> StagedOperands:
    """The elements are brought to the threads that hold them in the destination, and converted there."""
    return plan_staged(call)


staged.emit(emit_staged)
permuted_and_converted.emit(emit_staged)
