"""movmatrix: a warp transposes an 8x8 matrix of 16-bit elements that it holds in one register per lane.

Source: PTX ISA, "Warp-level matrix transpose instruction: movmatrix".
"""

from __future__ import annotations

import numpy as np

from tilewright.isa.arch import since
from tilewright.isa.atoms import copy_atom
from tilewright.isa.ldmatrix import dealt
from tilewright.isa.machine import Lanes
from tilewright.isa.table import WHOLE_WARP, Meaning, Ptx, reads, single, writes


def transpose(register: Lanes) -> Lanes:
    """Lane 4g+t gives columns 2t and 2t+1 of row g, and gets rows 2t and 2t+1 of column g."""
    tiles = np.ascontiguousarray(register).view(np.uint16).reshape(*register.shape[:-1], 8, 8)
    return dealt(tiles.swapaxes(-1, -2))


MOVMATRIX = single(
    "ptx.movmatrix",
    Ptx(
        "movmatrix.sync.aligned{shape}{trans}{type}",
        {"shape": {"m8n8": ".m8n8"}, "trans": {True: ".trans"}, "type": {".b16": ".b16"}},
    ),
    since("sm_75"),
    'PTX ISA, "Warp-level matrix transpose instruction: movmatrix"',
    Meaning(transpose, moves=True),
    operands=(writes("d", "b32"), reads("a", "b32")),
    lanes=WHOLE_WARP,
    doc="A warp transposes an 8x8 matrix of 16-bit elements from register to register.",
    keywords={"shape": "m8n8", "trans": True, "type": ".b16"},
)

copy_atom(  # CuTe writes "(32,32):(32,1)" on both sides: its model leaves the transposition out
    "SM75_U32x1_MOVM_T",
    MOVMATRIX,
    {"shape": "m8n8", "trans": True, "type": ".b16"},
    element_bits=16,
    source="(32,32):(32,1)",
    destination="((4,8),(16,2)):((256,16),(1,128))",
)
