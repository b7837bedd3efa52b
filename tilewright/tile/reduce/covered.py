"""Registers whose extents only the run knows: what is before the end is copied to scratch registers of neutral
elements, which have extents that are numbers, and is reduced or scanned there. Results that go to memory, as many as
only the run knows, are all written to scratch memory, and those that count are copied from there.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.ir import Buffer, Region, Value, const_value
from tilewright.primitives.copy import copy
from tilewright.primitives.fill import fill
from tilewright.primitives.scan import scan
from tilewright.records import replace
from tilewright.tile.call import Side, TileCall, side_of
from tilewright.tile.conditions import from_registers
from tilewright.tile.dispatch import Decline, condition, variant
from tilewright.tile.reductions import KEYWORDS, OPERATIONS, reduction_of
from tilewright.tile.steps import CallSteps, ScratchRegisters, Staging, emit_steps, in_steps, inner_call, staging


@condition("an extent is known to the run alone")
def of_the_run(call: TileCall) -> str | None:
    return None if any(side.size is None for side in call.tiles) else "all extents are numbers"


@variant(
    *OPERATIONS,
    scan.name,
    priority=4,
    keywords=(*KEYWORDS, "axis", "op", "exclusive"),
    when=[of_the_run, from_registers],
)
def covered(call: TileCall) -> CallSteps:
    """Registers up to an end that only the run knows are reduced together with neutral elements behind it."""
    scratch = {name: _scratch(call, side) for name, side in call.sides.items() if side.size is None}
    plan = in_steps(call, _calls, scratch)
    calls = _calls(call, {name: staged.side for name, staged in scratch.items()})
    work = next(step for step, inner in zip(plan.chosen, calls, strict=True)
                if inner.stmt.primitive == call.stmt.primitive)  # fmt: skip
    shapes = ", ".join(" x ".join(map(str, staged.side.extents)) for staged in scratch.values())
    return replace(plan, words=f"{shapes} elements with neutral ones: {work.plan.summary()}")


def _scratch(call: TileCall, side: Side) -> ScratchRegisters | Staging:
    """Registers as those that a side is a region of; memory for as many results as the source's registers may have."""
    if side.space != "local":
        return staging(call, tuple(_most(call, extent) for extent in side.extents), side.dtype)
    if any(const_value(start) is None for start in side.starts):
        raise Decline(f"where the region {side} of registers begins is no constant")
    buffer = Buffer("covered", side.dtype, side.buffer.shape, "local", side.buffer.layout)
    return ScratchRegisters(side_of(buffer.region(), call.facts))


def _most(call: TileCall, extent: Value) -> int:
    """An extent, or how much of the source's registers it may be. Raises Decline where that is no number."""
    number, src = const_value(extent), call["src"]
    if number is not None:
        return int(number)
    dims = (dim for dim, size in enumerate(src.extents) if call.facts.equal(size, extent))
    rooms = (const_value(src.buffer.shape[dim] - src.starts[dim]) for dim in dims)
    most = next((int(room) for room in rooms if room is not None), None)
    if most is None:
        raise Decline(f"{extent} is no extent of {src.name}, which says how many results there are at most")
    return most


def _calls(call: TileCall, scratch: Mapping[str, Side]) -> list[TileCall]:
    """Neutral elements, the source, what dst has if it counts, the call itself, and the results."""
    wide = {name: _on_room(call, side, scratch.get(name)) for name, side in call.sides.items()}
    moved = {name: _moved(call, call[name], whole) for name, whole in scratch.items()}
    steps = []
    if "src" in scratch:
        value = reduction_of(call, None if call.stmt.primitive in ("argmax", "argmin") else wide["src"].size).padding
        steps.append(replace(inner_call(call, fill.name, {"dst": scratch["src"]}), scalars={"value": value}))
        steps.append(inner_call(call, copy.name, {"dst": moved["src"], "src": call["src"]}))
    if "dst" in scratch and call.option("accum"):
        has = _whole(call, call["dst"]) if call["dst"].space == "local" else call["dst"]
        to = scratch["dst"] if call["dst"].space == "local" else moved["dst"]
        steps.append(inner_call(call, copy.name, {"dst": to, "src": has}))
    steps.append(inner_call(call, call.stmt.primitive, wide, **dict(call.config)))
    if "dst" in scratch:
        steps.append(inner_call(call, copy.name, {"dst": call["dst"], "src": moved["dst"]}))
    return steps


def _on_room(call: TileCall, side: Side, scratch: Side | None) -> Side:
    """The part of the scratch registers that a side may be, where only the run knows how much it is."""
    if scratch is None or side.space != "local":
        return scratch or side
    pairs = zip(side.region.box, side.buffer.shape, strict=True)
    box = tuple(
        (start, extent if const_value(extent) is not None else total - start) for (start, extent), total in pairs
    )
    return side_of(Region(scratch.buffer, box), call.facts)


def _moved(call: TileCall, side: Side, scratch: Side) -> Side:
    """The part of the scratch that the side really is."""
    box = side.region.box if side.space == "local" else tuple((0, extent) for extent in side.extents)
    return side_of(Region(scratch.buffer, box), call.facts)


def _whole(call: TileCall, side: Side) -> Side:
    return side_of(side.buffer.region(), call.facts)


covered.emit(emit_steps)
