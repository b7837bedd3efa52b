"""Which lane holds which element of a matrix: the fragments of mma and of the matrix copies, as layouts.

The lanes of a warp are 8 groups of 4: lane 4g+t. A register holds neighbours: two halves, four bytes or one word. Every
fragment here is g along one dimension and t (times what a register holds) along the other. Source: PTX ISA, "Matrix
Fragments for mma.m16n8k..." and "Warp-level matrix load instruction: ldmatrix".
"""

from __future__ import annotations

import re

from tilewright.dtypes import dtype
from tilewright.errors import InstructionError, choices
from tilewright.layout import S, TileLayout, laneid, mma_fragment_layout

__all__ = ["matrix_fragment", "mma_fragment", "mma_shape"]


def mma_shape(name: str) -> tuple[int, int, int]:
    """M, N and K of "m16n8k16". Raises InstructionError for a name that is no shape of mma.sync here."""
    match = re.fullmatch(r"m16n8k(\d+)", name)
    if match is None:
        raise InstructionError(
            f"unknown mma shape {name!r}", given=name, allowed="m16n8k4, m16n8k8, m16n8k16, m16n8k32"
        )
    return 16, 8, int(match[1])


def mma_fragment(shape: str, operand: str, element: str) -> TileLayout:
    """The fragment of operand "A" (M x K), "B" (K x N) or "C" (M x N, also D) of ``mma.sync`` with ``element`` dtype.

    Storage slots count elements, the low bits of the first register first.

    >>> print(mma_fragment("m16n8k16", "A", "float16"))
    S[(2, 8, 2, 4, 2):(2, 4@laneid, 4, 1@laneid, 1)]

    Raises InstructionError for an unknown operand, or a dtype whose row of K is not 16 or 32 bytes.
    """
    m, n, k = mma_shape(shape)
    bits = dtype(element).bits
    if operand not in ("A", "B", "C", "D"):
        raise InstructionError(f"mma has no operand {operand!r}", given=operand, allowed=choices(operand, "ABCD"))
    if operand in ("A", "B") and k * bits not in (128, 256):
        raise InstructionError(
            f"{shape} has no {element}", given=f"{k} elements of {bits} bits along K", allowed="128 or 256 bits along K"
        )
    sizes = {"A": (m, k), "B": (k, n), "C": (m, n), "D": (m, n)}
    return mma_fragment_layout(operand, sizes[operand], element)


def matrix_fragment(shape: str, num: int, *, trans: bool) -> TileLayout:
    """The registers of ``ldmatrix`` or ``stmatrix`` over (num, rows in memory, elements of a row).

    Elements are 16 bits in m8n8, else bytes.

    >>> print(matrix_fragment("m8n8", 4, trans=True))
    S[(4, 4, 2, 8):(2, 1@laneid, 1, 4@laneid)]

    Raises InstructionError for a shape that has no such form.
    """
    g, t = 4 @ laneid, 1 @ laneid
    rows = {
        ("m8n8", False): S[(num, 8, 4, 2) : (2, g, t, 1)],
        ("m8n8", True): S[(num, 4, 2, 8) : (2, t, 1, g)],
        ("m8n16", False): S[(num, 8, 4, 4) : (4, g, t, 1)],
        ("m16n16", True): S[(num, 4, 4, 2, 8) : (8, t, 1, 4, g)],
        ("m16n8", True): S[(num, 4, 2, 2, 8) : (4, t, 1, 2, g)],
    }
    if (shape, trans) not in rows:
        spelled = ", ".join(f"{name}{'.trans' if way else ''}" for name, way in rows)
        raise InstructionError(f"no matrix copy is {shape}{'.trans' if trans else ''}", given=shape, allowed=spelled)
    return rows[shape, trans]
