"""A part of registers that ends inside of what a thread holds: boxes of registers, one call each."""

from __future__ import annotations

from tilewright.tile.call import TileCall
from tilewright.tile.conditions import only_in
from tilewright.tile.dispatch import elementwise
from tilewright.tile.pieces import emit_pieces, in_pieces, registers_cut
from tilewright.tile.steps import Steps


@elementwise(priority=15, when=[registers_cut, only_in("local", "shared", "global")])
def parts(call: TileCall) -> Steps:
    """A part of registers that no layout describes is computed in several boxes that layouts describe."""
    return in_pieces(call)


parts.emit(emit_pieces)
