"""Any region outside of tensor memory: element by element, each tested before it is stored to.

This is for extents that only the run knows, and for layouts whose places follow no pattern.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from tilewright.ir import Expr, Value, as_expr, binary, const_value
from tilewright.layout import ComposeLayout, Iter, TileLayout
from tilewright.tile.builder import Builder
from tilewright.tile.call import Side, TileCall
from tilewright.tile.conditions import only_in
from tilewright.tile.dispatch import variant
from tilewright.tile.flow import extents_of_run
from tilewright.tile.inside import inside
from tilewright.tile.owners import all_hold, check_own, held_here
from tilewright.tile.values import filling
from tilewright.tile.walks import digits_of


@dataclass(frozen=True, slots=True)
class TurnsPlan:
    """extents: of the region. replicas: how often each element is there. threads: that take turns; in registers each
    thread goes through all elements and stores its own. guard: holds in those that take part.
    """

    extents: tuple[Value, ...]
    replicas: tuple[Iter, ...]
    threads: int
    guard: Expr | None

    def summary(self) -> str:
        """``element by element, 32 threads in turns``."""
        turns = f", {self.threads} threads in turns" if self.threads > 1 else ""
        return f"element by element{turns}, those inside of the buffer"


@variant("fill", "memset", "zero", priority=0, when=[only_in("local", "shared", "global")])
def fallback(call: TileCall) -> TurnsPlan:
    """Element by element, by threads in turns or by those that hold them."""
    dst, threads, guard = call["dst"], call.scope.threads, None
    if dst.space == "local":
        check_own(call, dst)
        threads = 1
    elif dst.dtype.bits < 8 and threads > 1:  # two elements share a byte, so one thread writes all
        threads, guard = 1, binary("==", call.scope.index, 0)
    extents = extents_of_run(call)
    return TurnsPlan(extents, _plain(dst).replica, threads, guard)


def _plain(side: Side) -> TileLayout:
    """The layout of the buffer without its swizzle."""
    layout = side.buffer.layout
    tile = layout.tile if isinstance(layout, ComposeLayout) else layout
    assert isinstance(tile, TileLayout), "an authored buffer has a layout"
    return tile


@fallback.emit
def _(plan: TurnsPlan, call: TileCall, out: Builder) -> None:
    dst = call["dst"]
    value, size = filling(call, out), as_expr(1)
    for extent in plan.extents:
        size = size * extent
    size = call.facts.simplify(size)
    rounds = call.facts.simplify((size + (plan.threads - 1)) // plan.threads) if plan.threads > 1 else size
    with ExitStack() as stack:
        stack.enter_context(out.when(plan.guard))
        element: Value = stack.enter_context(out.loop("i", rounds))
        if plan.threads > 1:
            element = out.let("element", element * plan.threads + call.scope.index)
            stack.enter_context(out.when(_is_last(element, size, plan.threads)))
        digits = [out.let("d", digit) for digit in digits_of(element, plan.extents)]
        stack.enter_context(out.when(inside(call, dst, digits)))
        copies = [stack.enter_context(out.loop("r", it.extent)) for it in plan.replicas]
        place = _place(call, dst, digits, dict(zip(plan.replicas, copies, strict=True)))
        stack.enter_context(out.when(all_hold(held_here(dst, place))))
        out.store(dst.buffer.flat(), place.get("m", 0), value)


def _is_last(element: Expr, size: Value, threads: int) -> Expr | None:
    """Is there such an element? None where the threads share them out evenly."""
    number = const_value(size)
    return None if number is not None and int(number) % threads == 0 else binary("<", element, size)


def _place(call: TileCall, side: Side, digits: Sequence[Value], copies: dict[Iter, Value]) -> dict[str, Value]:
    """Where this replica of an element is."""
    place = side.place(digits, call.facts, _plain(side))
    for it, digit in copies.items():
        place[it.axis.name] = place.get(it.axis.name, 0) + digit * it.stride
    if isinstance(side.buffer.layout, ComposeLayout) and "m" in place:
        place["m"] = side.buffer.layout.swizzle.address(place["m"])
    return place
