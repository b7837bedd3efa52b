"""A part of registers that ends inside of what a thread holds: boxes of registers, one fill each."""

from __future__ import annotations

from tilewright.tile.call import TileCall
from tilewright.tile.dispatch import variant
from tilewright.tile.pieces import emit_pieces, in_pieces, registers_cut
from tilewright.tile.steps import Steps


@variant("fill", "memset", "zero", priority=5, keywords=("vec_len",), when=[registers_cut])
def parts(call: TileCall) -> Steps:
    """A part of registers that no layout describes is filled in several boxes that layouts describe."""
    return in_pieces(call)


parts.emit(emit_pieces)
