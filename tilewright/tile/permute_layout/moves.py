"""Registers to registers of the same thread: moves."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir import Expr, Load, as_expr
from tilewright.tile.builder import Builder
from tilewright.tile.call import TileCall
from tilewright.tile.conditions import constant_extents, only_in
from tilewright.tile.dispatch import Decline, cheapest, told, variant
from tilewright.tile.owners import owners
from tilewright.tile.reductions import spread
from tilewright.tile.walks import Offset


@dataclass(frozen=True, slots=True)
class Moves:
    """dst, src: the slots of each move. guard: holds in threads with some of dst. shared: may both be one storage?"""

    count: int
    dst: Offset
    src: Offset
    guard: Expr | None
    others: tuple[tuple[str, int], ...] = ()

    @property
    def cost(self) -> int:
        """The cost: one issue slot for each move."""
        return self.count

    def summary(self) -> str:
        """``8 moves per thread``."""
        return f"{self.count} moves per thread; {told(self)}"


@variant("permute_layout", priority=10, when=[only_in("local"), constant_extents])
def moves(call: TileCall) -> Moves:
    """Each thread has what it needs already, and moves it."""
    dst, src = call["dst"], call["src"]
    into, held = owners(call, dst, loading=True), owners(call, src, loading=True)
    wanted, has = spread(call, into, into.elements), spread(call, held, held.elements)
    fits = ((wanted[:, :, None] == has[:, None, :]) | (wanted < 0)[:, :, None]).all(axis=0)
    if not fits.any(axis=1).all():
        raise Decline(f"elements of {src.name} are held by other threads in {dst.name}, or in registers that differ")
    to, source = into.offset_of(into.slots), held.offset_of(held.slots[fits.argmax(axis=1)])
    if to is None or source is None:
        raise Decline(f"the slots of {dst.name} and {src.name} follow no common pattern")
    return cheapest(call, "moves", Moves(len(into.slots), to, source, into.guard(storing=False)))


@moves.emit
def _(plan: Moves, call: TileCall, out: Builder) -> None:
    dst, src = call["dst"].buffer.flat(), call["src"].buffer.flat()
    run = out.local("run", plan.count, str(call.dtype)).flat()
    with out.when(plan.guard):
        to, source = out.offsets(plan.dst, "r"), out.offsets(plan.src, "r")
        with out.each("j", plan.count) as j:
            out.store(run, j, Load(src, (as_expr(source(j)),)))
        with out.each("j", plan.count) as j:
            out.store(dst, to(j), Load(run, (as_expr(j),)))
