"""A source in registers: each thread joins what it holds, lanes join by shuffles, warps through shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from tilewright.ir import Expr, Load, Value, as_expr
from tilewright.tile.builder import Builder
from tilewright.tile.call import TileCall
from tilewright.tile.conditions import constant_extents, from_registers, kept_inside
from tilewright.tile.dispatch import Decline, variant
from tilewright.tile.owners import owners
from tilewright.tile.partition import element_numbers
from tilewright.tile.reductions import (
    KEYWORDS,
    OPERATIONS,
    Delivery,
    Lanes,
    Partial,
    at_once,
    begin_with_nothing,
    delivery,
    emit_delivery,
    emit_lanes,
    joined_by_lanes,
    numbered,
    parts_of,
    pieces_of,
    reduction_of,
    registers_for,
    spread,
    take_in,
)
from tilewright.tile.walks import Offset, plus, times

AT_ONCE = 4  # elements whose largest is found before it is compared with that of others, which are a chain


@dataclass(frozen=True, slots=True)
class RegisterReduction:
    """parts: partial results of a thread, each of ``length`` elements. slots: where they are, one part after the other.
    positions: what argmax counts, likewise. guard: holds in threads that hold some.
    """

    parts: int
    length: int
    slots: Offset
    positions: Offset | None
    guard: Expr | None
    lanes: Lanes
    delivery: Delivery

    def summary(self) -> str:
        """``4 x 8 elements per thread, 8 shuffles``."""
        return ", ".join(
            [f"{self.parts} x {self.length} elements per thread", *self.lanes.steps(self.parts), *self.delivery.steps()]
        )


@variant(
    *OPERATIONS,
    priority=10,
    keywords=KEYWORDS,
    when=[from_registers, constant_extents, kept_inside],
)
def registers(call: TileCall) -> RegisterReduction:
    """Each thread joins the registers that it holds; lanes join by shuffles, warps through shared memory."""
    src = call["src"]
    held = owners(call, src, loading=True)
    results, positions = numbered(call)
    order = parts_of(results[held.elements], "results")
    elements = held.elements[:, order]
    of_part = spread(call, held, results[elements[:, :, 0]])
    every = spread(call, held, elements.reshape(len(elements), -1)).reshape(len(of_part), *order.shape)
    lanes, joined = joined_by_lanes(call, pieces_of(of_part, every, len(results) // int(results.max() + 1)))
    slots = held.offset_of(held.slots[order].reshape(-1))
    counted = element_numbers(positions[elements].reshape(len(elements), -1), [held.rank])
    if slots is None or counted is None:
        raise Decline(f"the slots of {src.name} that make a result follow no pattern")
    finds = OPERATIONS[call.stmt.primitive].finds
    guard, lanes = held.guard(storing=False), at_once(call, lanes, reduction_of(call, order.shape[1]))
    parts, length = order.shape
    return RegisterReduction(parts, length, slots, counted if finds else None, guard, lanes, delivery(call, joined))


@registers.emit
def _(plan: RegisterReduction, call: TileCall, out: Builder) -> None:
    src, reduction = call["src"], reduction_of(call, plan.length)
    parts = registers_for(reduction, out, plan.parts)
    begin_with_nothing(reduction, out, parts, plan.parts)
    with out.when(plan.guard):
        slot = out.offsets(plan.slots, "r")
        position = None if plan.positions is None else out.offsets(plan.positions, "n")
        at_once = gcd(plan.length, AT_ONCE) if reduction.row.ordered else 1

        def element(number: Value) -> Partial:
            value = Load(src.buffer.flat(), (as_expr(slot(number)),))
            return reduction.of_element(value, None if position is None else as_expr(position(number)))

        with out.each("j", plan.parts) as j, out.each("i", plan.length // at_once) as i:
            first = plus(times(j, plan.length), times(i, at_once))
            run = [element(plus(first, k)) for k in range(at_once)]
            while len(run) > 1:
                run = [reduction.joined(*pair) for pair in zip(run[::2], run[1::2], strict=True)]
            take_in(reduction, out, parts, j, run[0])
    emit_lanes(reduction, plan.lanes, out, parts, plan.parts)
    emit_delivery(plan.delivery, reduction, call, out, parts, plan.parts)
