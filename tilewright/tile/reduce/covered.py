"""Registers whose extents only the run knows: what is before the end is copied to scratch registers of neutral
elements, which have extents that are numbers, and is reduced or scanned there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.ir import Buffer, Region, const_value
from tilewright.primitives.copy import copy
from tilewright.primitives.fill import fill
from tilewright.primitives.scan import scan
from tilewright.records import replace
from tilewright.tile.builder import Builder
from tilewright.tile.call import Side, TileCall, side_of
from tilewright.tile.conditions import only_in
from tilewright.tile.dispatch import Chosen, Decline, condition, variant
from tilewright.tile.inner import ScratchRegisters, inner_call, planned
from tilewright.tile.reductions import OPERATIONS, reduction_of

__all__ = ["covered"]


@condition("an extent is known to the run alone")
def of_the_run(call: TileCall) -> str | None:
    return None if any(side.size is None for side in call.tiles) else "all extents are numbers"


@dataclass(frozen=True, slots=True, eq=False)
class CoveredReduction:
    """made: the scratch registers, of the operands that have extents of the run. steps: the calls in their order."""

    made: Mapping[str, ScratchRegisters]
    steps: tuple[Chosen, ...]

    def summary(self) -> str:
        """``32 x 64 elements with neutral ones: 1 x 64 elements per thread``."""
        shapes = ", ".join(" x ".join(map(str, each.side.extents)) for each in self.made.values())
        work = next(each for each in self.steps if each.variant.name not in (fill.name, copy.name))
        return f"{shapes} elements with neutral ones: {work.plan.summary()}"


@variant(
    *OPERATIONS,
    scan.name,
    priority=4,
    keywords=("axes", "accum", "nan", "thread_reduce", "axis", "op", "exclusive"),
    when=[of_the_run, only_in("local")],
)
def covered(call: TileCall) -> CoveredReduction:
    """Registers up to an end that only the run knows are reduced together with neutral elements behind it."""
    made = {name: _scratch(call, side) for name, side in call.sides.items() if side.size is None}
    calls = _steps(call, {name: each.side for name, each in made.items()})
    return CoveredReduction(made, tuple(planned(each) for each in calls))


def _scratch(call: TileCall, side: Side) -> ScratchRegisters:
    """Registers as those that a side is a region of."""
    if any(const_value(start) is None for start in side.starts):
        raise Decline(f"where the region {side} of registers begins is no constant")
    buffer = Buffer("covered", side.dtype, side.buffer.shape, "local", side.buffer.layout)
    return ScratchRegisters(side_of(buffer.region(), call.facts))


def _steps(call: TileCall, scratch: Mapping[str, Side]) -> list[TileCall]:
    """Neutral elements, the source, what dst has if it counts, the call itself, and the results."""
    wide = {name: _on_room(call, side, scratch.get(name)) for name, side in call.sides.items()}
    moved = {name: side_of(Region(scratch[name].buffer, call[name].region.box), call.facts) for name in scratch}
    steps = []
    if "src" in scratch:
        value = reduction_of(call, None if call.stmt.primitive in ("argmax", "argmin") else wide["src"].size).padding
        steps.append(replace(inner_call(call, fill.name, {"dst": scratch["src"]}), scalars={"value": value}))
        steps.append(inner_call(call, copy.name, {"dst": moved["src"], "src": call["src"]}))
    if "dst" in scratch and call.option("accum"):
        steps.append(inner_call(call, copy.name, {"dst": scratch["dst"], "src": _whole(call, call["dst"])}))
    steps.append(inner_call(call, call.stmt.primitive, wide, **dict(call.config)))
    if "dst" in scratch:
        steps.append(inner_call(call, copy.name, {"dst": call["dst"], "src": moved["dst"]}))
    return steps


def _on_room(call: TileCall, side: Side, scratch: Side | None) -> Side:
    """The part of the scratch registers that a side may be, where only the run knows how much it is."""
    if scratch is None:
        return side
    pairs = zip(side.region.box, side.buffer.shape, strict=True)
    box = tuple(
        (start, extent if const_value(extent) is not None else total - start) for (start, extent), total in pairs
    )
    return side_of(Region(scratch.buffer, box), call.facts)


def _whole(call: TileCall, side: Side) -> Side:
    return side_of(side.buffer.region(), call.facts)


@covered.emit
def _(plan: CoveredReduction, call: TileCall, out: Builder) -> None:
    made = {name: each.allocated(call, out) for name, each in plan.made.items()}
    for chosen, inner in zip(plan.steps, _steps(call, made), strict=True):
        chosen.write(inner, out)
