"""A source in registers that follow no pattern: its elements go to scratch memory, and are reduced from there."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.tile.builder import Builder, Staging, inner_call, planned, staging
from tilewright.tile.call import Side, TileCall
from tilewright.tile.conditions import by_several, constant_extents, from_registers, kept_inside
from tilewright.tile.dispatch import Chosen, variant
from tilewright.tile.reductions import KEYWORDS, OPERATIONS


@dataclass(frozen=True, slots=True, eq=False)
class StagedReduction:
    """The copy to scratch memory, and the reduction from there."""

    staging: Staging
    copy: Chosen
    reduce: Chosen

    def summary(self) -> str:
        """``through shared memory: 2 x 4 bytes ...; 32 threads ...``."""
        return f"through shared memory: {self.copy.plan.summary()}; {self.reduce.plan.summary()}"


@variant(
    *OPERATIONS,
    priority=5,
    keywords=KEYWORDS,
    when=[from_registers, by_several, constant_extents, kept_inside],
)
def staged(call: TileCall) -> StagedReduction:
    """The elements go to shared memory, and are reduced from there."""
    src = call["src"]
    room = staging(call, src.shape, src.dtype)
    copy, reduce = _inside(call, room.side)
    return StagedReduction(room, planned(copy), planned(reduce))


def _inside(call: TileCall, scratch: Side) -> tuple[TileCall, TileCall]:
    copy = inner_call(call, "copy", {"dst": scratch, "src": call["src"]})
    sides = {"dst": call["dst"], "src": scratch}
    return copy, inner_call(call, call.stmt.primitive, sides, **dict(call.config))


@staged.emit
def _(plan: StagedReduction, call: TileCall, out: Builder) -> None:
    copy, reduce = _inside(call, plan.staging.allocated(call, out))
    plan.copy.write(copy, out)
    out.meet(call)
    plan.reduce.write(reduce, out)
    out.meet(call)
