"""Regions that may leave their buffers, ``clip=True`` and ``fill=``: runs that are tested for being inside."""

from __future__ import annotations

from tilewright.primitives.copy import ASKED
from tilewright.tile.call import TileCall
from tilewright.tile.conditions import bits_only, one_place_each, only_in, registers_inside
from tilewright.tile.dispatch import condition, variant
from tilewright.tile.distribution import Distribution
from tilewright.tile.flow import by_runs
from tilewright.tile.round_loops import emit_runs


@condition("clip= or fill= says that regions may leave their buffers")
def asked(call: TileCall) -> str | None:
    if any(operand.role.may_leave(dict(call.config)) for operand in call.row.operands):
        return None
    return "neither clip=True nor fill= is given"


@variant(
    "copy",
    priority=3,
    keywords=("vec_len", *ASKED),
    when=[asked, only_in("local", "shared", "global"), bits_only, one_place_each, registers_inside],
)
def clipped(call: TileCall) -> Distribution:
    """Runs of up to 128 bits, of which those that a buffer ends in are copied element by element."""
    return by_runs(call)


clipped.emit(emit_runs)
