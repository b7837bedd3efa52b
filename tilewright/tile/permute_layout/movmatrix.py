"""Registers to registers of other lanes by movmatrix: a warp transposes 8x8 matrices of 16-bit elements."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.ir import Load, as_expr
from tilewright.tile.builder import Builder
from tilewright.tile.call import TileCall
from tilewright.tile.conditions import constant_extents, element_bits, only_in, whole_warps
from tilewright.tile.dispatch import SHUFFLE, Decline, cheapest, told, variant
from tilewright.tile.owners import owners, registers_of
from tilewright.tile.walks import Offset, plus


@dataclass(frozen=True, slots=True)
class Transposes:
    """pairs: for each instruction the first slots of its registers in the destination and in the source."""

    count: int
    dst: Offset
    src: Offset
    others: tuple[tuple[str, int], ...] = ()

    @property
    def cost(self) -> int:
        """The cost: each instruction counts as a shuffle and a move."""
        return self.count * (SHUFFLE + 1)

    def summary(self) -> str:
        """``4 movmatrix; cost 12``."""
        return f"{self.count} movmatrix; {told(self)}"


@variant("permute_layout", priority=10, when=[only_in("local"), whole_warps, element_bits(16), constant_extents])
def movmatrix(call: TileCall) -> Transposes:
    """Warps transpose 8x8 matrices of 16-bit elements in their registers."""
    dst, src = call["dst"], call["src"]
    into, held = owners(call, dst, loading=True), owners(call, src, loading=True)
    wanted, has = registers_of(call, dst, into, 16), registers_of(call, src, held, 16)
    if (
        len(wanted) != len(has)
        or not np.array_equal(into.threads, held.threads)
        or len(into.threads) < call.scope.threads
    ):
        raise Decline(f"{dst.name} and {src.name} are held by different warps")
    warps, _, registers, _ = has.shape
    turned = has.reshape(warps, 8, 4, registers, 2).transpose(0, 3, 1, 2, 4).reshape(warps, registers, 8, 8)
    offered = turned.swapaxes(-1, -2).reshape(warps, registers, 32, 2)
    asked = wanted.transpose(0, 2, 1, 3)
    fits = (asked[:, :, None] == offered[:, None]).all(axis=(0, 3, 4))
    if not fits.any(axis=1).all():
        raise Decline(f"the registers of {dst.name} are no transposed matrices of {src.name}")
    to, source = into.offset_of(into.slots[::2]), held.offset_of(held.slots[::2][fits.argmax(axis=1)])
    if to is None or source is None:
        raise Decline(f"the slots of {dst.name} and {src.name} follow no common pattern")
    return cheapest(call, "movmatrix", Transposes(len(fits), to, source))


@movmatrix.emit
def _(plan: Transposes, call: TileCall, out: Builder) -> None:
    dst, src = call["dst"].buffer.flat(), call["src"].buffer.flat()
    run = out.local("run", 2 * plan.count, str(call.dtype)).flat()
    to, source = out.offsets(plan.dst, "r"), out.offsets(plan.src, "r")
    with out.each("j", plan.count) as j:
        place, source_value = (Load(flat, (as_expr(at),)) for flat, at in ((run, plus(j, j)), (src, source(j))))
        out.call("ptx.movmatrix", place, source_value, shape="m8n8", trans=True, type=".b16")
    with out.each("j", plan.count) as j:
        for half in (0, 1):
            out.store(dst, plus(to(j), half), Load(run, (as_expr(plus(plus(j, j), half)),)))
