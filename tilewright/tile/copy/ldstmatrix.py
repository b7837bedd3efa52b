"""Registers from or to shared memory by ldmatrix and stmatrix: a warp moves 8x8 matrices of 16-bit elements.

Lane 4g+t holds in each half h of its register row g, column 2t+h of a matrix, or with ``trans`` row 2t+h, column g.
The eight elements of a row lie in 16 aligned bytes of shared memory, whose address one lane supplies. How registers and
rows are matched is in `tilewright.tile.matrices`.
"""

from __future__ import annotations

from tilewright.tile.call import TileCall
from tilewright.tile.conditions import between, bits_only, constant_extents, element_bits, one_place_each, whole_warps
from tilewright.tile.dispatch import variant
from tilewright.tile.matrices import MatrixKind, MatrixPlan, emit_matrices, plan_matrices


@variant(
    "copy",
    priority=10,
    when=[between("local", "shared"), bits_only, whole_warps, element_bits(16), constant_extents, one_place_each],
)
def ldstmatrix(call: TileCall) -> MatrixPlan:
    """ldmatrix or stmatrix: one instruction moves up to four 8x8 matrices of 16-bit elements."""
    op = "ptx.ldmatrix" if call["dst"].space == "local" else "ptx.stmatrix"
    return plan_matrices(call, [MatrixKind(op, "m8n8", trans, ".b16") for trans in (False, True)])


ldstmatrix.emit(emit_matrices)
