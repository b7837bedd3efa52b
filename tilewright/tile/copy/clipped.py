"""Regions that may leave their buffers, ``clip=True`` and ``fill=``: runs that are tested for being inside."""

from __future__ import annotations

from tilewright.primitives.copy import ASKED
from tilewright.tile.builder import Builder
from tilewright.tile.call import TileCall
from tilewright.tile.conditions import bits_only, one_place_each, only_in, registers_inside
from tilewright.tile.dispatch import condition, variant
from tilewright.tile.flow import TileFlow, emit_flow, flowing
from tilewright.tile.round_loops import emit_rounds
from tilewright.tile.rounds import MOST_LISTED, Rounds, by_holders, by_turns, registers_alike

__all__ = ["by_runs", "clipped", "emit_runs"]


@condition("clip= or fill= says that regions may leave their buffers")
def asked(call: TileCall) -> str | None:
    if any(operand.role.may_leave(dict(call.config)) for operand in call.row.operands):
        return None
    return "neither clip=True nor fill= is given"


def by_runs(call: TileCall) -> Rounds | TileFlow:
    """The plan of a copy between any memories, of extents that numbers or the run give."""
    size = call["dst"].size
    if size is None or (size > MOST_LISTED and "local" not in call.spaces):
        return flowing(call)
    leading = registers_alike(call)
    return by_turns(call) if leading is None else by_holders(call, leading)


def emit_runs(plan: Rounds | TileFlow, call: TileCall, out: Builder) -> None:
    """Writes such a plan."""
    if isinstance(plan, TileFlow):
        emit_flow(plan, call, out)
    else:
        emit_rounds(plan, call, out)


@variant(
    "copy",
    priority=3,
    keywords=("vec_len", *ASKED),
    when=[asked, only_in("local", "shared", "global"), bits_only, one_place_each, registers_inside],
)
def clipped(call: TileCall) -> Rounds | TileFlow:
    """Runs of up to 128 bits, of which those that a buffer ends in are copied element by element."""
    return by_runs(call)


clipped.emit(emit_runs)
