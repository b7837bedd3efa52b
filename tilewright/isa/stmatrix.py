"""stmatrix: a warp writes 8x8 or 16x8 matrices from its registers to shared memory; ldmatrix in the other direction.

Source: PTX ISA, "Warp-level matrix store instruction: stmatrix".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.isa.arch import Requirement, since
from tilewright.isa.atoms import ATOMS, copy_atom
from tilewright.isa.ldmatrix import BYTE_MATRICES, NUM, TRANS, matrix_forms
from tilewright.isa.machine import Lanes, Memory
from tilewright.isa.places import OWN
from tilewright.isa.table import WHOLE_WARP, Form, Meaning, Spellings, instruction, reads

SOURCE = 'PTX ISA, "Warp-level matrix store instruction: stmatrix"'


def store_m8n8(shared: Memory, address: Lanes, registers: Lanes, *, num: int, trans: bool) -> None:
    """Lane 4g+t's register m holds columns 2t and 2t+1 of row g of matrix m, or with trans rows 2t and 2t+1 of
    column g; lane 8m+i names where row i of matrix m goes.

    address: (..., 32) bytes, multiples of 16. registers: (..., num, 32) uint32.
    """
    tiles = np.ascontiguousarray(registers).view(np.uint16).reshape(*registers.shape[:-2], num, 8, 8)
    if trans:
        tiles = np.ascontiguousarray(tiles.swapaxes(-1, -2))
    rows = tiles.reshape(*tiles.shape[:-3], 8 * num, 8).view(np.uint8)  # (..., 8*num, 16)
    shared.store_rows(address[..., : 8 * num], rows)


def store_m16n8(shared: Memory, address: Lanes, registers: Lanes, *, num: int) -> None:
    """Lane 4g+t's register m holds of matrix m, 8 rows of 16 bytes in memory, bytes g (low half) and g+8 (high half)
    of rows 2t and 2t+1; lane 8m+i names where row i of matrix m goes.

    Read as a 16x8 matrix stored column by column, these are rows g and g+8 of columns 2t and 2t+1: the accumulators
    c0 to c3 of an m16n8 product, narrowed to a byte each.
    """
    tiles = np.ascontiguousarray(registers).view(np.uint8).reshape(*registers.shape[:-2], num, 8, 4, 2, 2)
    rows = np.moveaxis(tiles, (-3, -1, -2, -4), (-4, -3, -2, -1))  # t, which of its rows, half, g
    shared.store_rows(address[..., : 8 * num], np.ascontiguousarray(rows).reshape(*tiles.shape[:-5], 8 * num, 16))


def _forms(
    shape: str, execute: Callable[..., None], arch: Requirement, type: str, trans: Spellings
) -> tuple[Form, ...]:
    meaning = Meaning(execute, on="shared", passes=("num", "trans") if shape == "m8n8" else ("num",), moves=True)
    modifiers = {"shape": {shape: f".{shape}"}, "num": NUM, "trans": trans, "space": OWN, "type": {type: type}}
    return matrix_forms("stmatrix", modifiers, meaning, arch, SOURCE, "[anywhere], {r}")


STMATRIX = instruction(
    "ptx.stmatrix",
    params=("trans", "num", "type", "p", "*r"),
    keywords={"shape": "m8n8", "space": "shared"},
    operands=(reads("p", "shared"), reads("*r", "b32")),
    lanes=WHOLE_WARP,
    doc="A warp stores 1, 2 or 4 matrices to shared memory; each lane gives a row's address and its fragment.",
    forms=(
        *_forms("m8n8", store_m8n8, since("sm_90"), ".b16", TRANS),
        *_forms("m16n8", store_m16n8, BYTE_MATRICES, ".b8", {True: ".trans"}),
    ),
)

# CuTe's copy atoms: those of m8n8 are the loads' with the sides exchanged.
for _num in (1, 2, 4):
    _mods = {"num": _num, "space": "shared"}
    for _name, _load, _trans in (
        (f"SM90_U32x{_num}_STSM_N", f"SM75_U32x{_num}_LDSM_N", False),
        (f"SM90_U16x{2 * _num}_STSM_T", f"SM75_U16x{2 * _num}_LDSM_T", True),
    ):
        copy_atom(
            _name,
            STMATRIX,
            {**_mods, "shape": "m8n8", "trans": _trans, "type": ".b16"},
            element_bits=ATOMS[_load].element_bits,
            source=ATOMS[_load].destination_cute,
            destination=ATOMS[_load].source_cute,
        )
    copy_atom(
        f"SM100_U8x{4 * _num}_STSM_T",
        STMATRIX,
        {**_mods, "shape": "m16n8", "trans": True, "type": ".b8"},
        element_bits=8,
        source={
            1: "((4,8),(8,2,2)):((256,8),(1,128,64))",
            2: "((4,8),(8,2,2,2)):((256,8),(1,128,64,1024))",
            4: "((4,8),(8,2,2,4)):((256,8),(1,128,64,1024))",
        }[_num],
        destination=ATOMS[f"SM75_U32x{_num}_LDSM_N"].source_cute,
    )
