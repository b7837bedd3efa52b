"""Registers whose lines follow no pattern, and sides in different memories: through scratch memory."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.tile.builder import Builder, Staging, inner_call, planned, staging
from tilewright.tile.call import Side, TileCall
from tilewright.tile.conditions import constant_extents, kept_inside, only_in
from tilewright.tile.dispatch import Chosen, variant


@dataclass(frozen=True, slots=True, eq=False)
class StagedScan:
    """steps: a copy to scratch memory where the source is in registers, the scan, a copy from there likewise."""

    staging: tuple[Staging | None, Staging | None]
    steps: tuple[Chosen, ...]

    def summary(self) -> str:
        """``through shared memory: ...; ...``."""
        return f"through shared memory: {'; '.join(step.plan.summary() for step in self.steps)}"


@variant(
    "scan",
    priority=5,
    keywords=("axis", "op", "exclusive"),
    when=[only_in("local", "shared", "global"), constant_extents, kept_inside],
)
def staged(call: TileCall) -> StagedScan:
    """The elements go to shared memory, and are scanned there."""
    before, after = (
        staging(call, side.shape, side.dtype) if side.space == "local" else None for side in (call["src"], call["dst"])
    )
    inner = _steps(call, before.side if before else None, after.side if after else None)
    return StagedScan((before, after), tuple(map(planned, inner)))


def _steps(call: TileCall, before: Side | None, after: Side | None) -> list[TileCall]:
    """The calls one after the other."""
    src, dst = call["src"], call["dst"]
    sides = {"dst": after or dst, "src": before or src}
    steps = [inner_call(call, "copy", {"dst": before, "src": src})] if before else []
    steps.append(inner_call(call, "scan", sides, **dict(call.config)))
    return [*steps, *([inner_call(call, "copy", {"dst": dst, "src": after})] if after else [])]


@staged.emit
def _(plan: StagedScan, call: TileCall, out: Builder) -> None:
    before, after = (None if room is None else room.allocated(call, out) for room in plan.staging)
    for step, inner in zip(plan.steps, _steps(call, before, after), strict=True):
        step.write(inner, out)
        out.meet(call)
