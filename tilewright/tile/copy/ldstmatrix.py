"""Registers from or to shared memory by ldmatrix and stmatrix: a warp moves 8x8 matrices of 16-bit elements.

Lane 4g+t holds in each half h of its register row g, column 2t+h of a matrix, or with ``trans`` row 2t+h, column g.
The eight elements of a row lie in 16 aligned bytes of shared memory, whose address one lane supplies. How registers and
rows are matched is in `tilewright.tile.matrices`.

Other elements are parts of such matrices: a matrix copy moves bits. Without ``trans`` a register is four neighbouring
bytes of a row, whatever they mean: one element of 32 bits, a quarter of the row; four of 8 bits; eight of 4. With
``trans`` units of 16 bits go to different lanes, so no element may be larger. Bytes have forms of their own, on some
architectures, which distribute single bytes of 16 (ldmatrix) or 8 (stmatrix) rows.
"""

from __future__ import annotations

from tilewright.tile.call import TileCall
from tilewright.tile.conditions import between, bits_only, constant_extents, element_bits, one_place_each, whole_warps
from tilewright.tile.dispatch import Decline, condition, variant
from tilewright.tile.matrices import MatrixKind, MatrixPlan, emit_matrices, plan_matrices
from tilewright.tile.owners import accesses


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


WORDS = {op: MatrixKind(op, "m8n8", trans=False, type=".b16") for op in ("ptx.ldmatrix", "ptx.stmatrix")}
BYTES = {
    "ptx.ldmatrix": MatrixKind("ptx.ldmatrix", "m16n16", trans=True, type=".b8"),
    "ptx.stmatrix": MatrixKind("ptx.stmatrix", "m16n8", trans=True, type=".b8"),
}


@condition("plain accesses would move less than 128 bits at a time")
def narrow_accesses(call: TileCall) -> str | None:
    try:
        nbytes = accesses(call, call.side("local"))[2] * call.dtype.bits // 8
    except Decline:
        return None  # no matrix at all
    return None if nbytes < 16 else f"each thread moves {nbytes} bytes at a time without it"


@variant(
    "copy",
    priority=10,
    when=[
        between("local", "shared"),
        bits_only,
        whole_warps,
        element_bits(4, 8, 32),
        constant_extents,
        one_place_each,
        narrow_accesses,
    ],
)
def ldstmatrix_bits(call: TileCall) -> MatrixPlan:
    """ldmatrix or stmatrix for other elements: words and bytes as parts of 16-bit matrices, bytes also transposed."""
    op = "ptx.ldmatrix" if call["dst"].space == "local" else "ptx.stmatrix"
    return plan_matrices(call, [WORDS[op], BYTES[op]] if call.dtype.bits == 8 else [WORDS[op]])


ldstmatrix_bits.emit(emit_matrices)
