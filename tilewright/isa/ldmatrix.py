"""ldmatrix: a warp reads 8x8 or 16x16 matrices from shared memory and deals them out to its registers.

Every lane of the first 8 (or 16) times ``num`` gives the address of one 16-byte row; a lane does not receive the row
whose address it gave. Source: PTX ISA, "Warp-level matrix load instruction: ldmatrix".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.arch import Requirement, since, suffixed
from tilewright.isa.atoms import ATOMS, copy_atom
from tilewright.isa.forms import Access, Form, Meaning, Mods, Ptx, Spellings, reads, writes
from tilewright.isa.machine import Lanes, Memory
from tilewright.isa.places import OWN
from tilewright.isa.table import WHOLE_WARP, instruction, single

NUM: Spellings = {1: ".x1", 2: ".x2", 4: ".x4"}
TRANS: Spellings = {False: "", True: ".trans"}
BYTE_MATRICES = suffixed(100, 103, 110, 120, 121)
ROWS_AT_ONCE = 16384  # of 6- and 4-bit elements
SOURCE = 'PTX ISA, "Warp-level matrix load instruction: ldmatrix"'
PACKING = "that packed elements fill a row from its low bits up, and that the rest of a register's byte is zero"
UNCONFIRMED = {
    "m8n8": "",
    "m16n16": f"; unconfirmed: that its 16 rows are served in two phases of 8, {PACKING}",
    "m8n16": f"; unconfirmed: {PACKING}",
}

# Without a state space the assembler takes a generic address: the shared one, converted back.
GENERIC = "{{ .reg .u64 anywhere; cvt.u64.u32 anywhere, {p}; cvta.shared.u64 anywhere, anywhere; {mnemonic} %s; }}"


def load_m8n8(shared: Memory, address: Lanes, *, num: int, trans: bool) -> Lanes:
    """Lane 8m+i names row i of matrix m; lane 4g+t then holds columns 2t and 2t+1 of row g of each matrix,
    or with trans rows 2t and 2t+1 of column g.

    address: (..., 32) bytes, multiples of 16. Returns (..., num, 32) uint32, the first element in the low half.
    """
    rows = shared.rows(address[..., : 8 * num], 16).view(np.uint16)  # (..., 8*num, 8)
    tiles = rows.reshape(*rows.shape[:-2], num, 8, 8)
    return dealt(tiles.swapaxes(-1, -2) if trans else tiles)


def dealt(tiles: NDArray[Any]) -> Lanes:
    """Matrices of 8 rows as one register per lane: of (..., g, k), lane 4g+t gets the t-th quarter of row g."""
    words = np.ascontiguousarray(tiles).view(np.uint32)  # (..., 8, 4)
    return words.reshape(*words.shape[:-2], 32)


Words = NDArray[np.unsignedinteger[Any]]


def _bytes_as_they_are(rows: Lanes) -> Lanes:
    return rows


def _four_bits_in_words(rows: Lanes, words: Words) -> None:
    """Element j lies in bits 4j to 4j+3 of the low 8 bytes: four are 16 bits."""
    low = np.ascontiguousarray(rows.view(np.uint64)[:, 0])
    words[...] = low.view(np.uint16).reshape(-1, 4)


def _six_bits_in_words(rows: Lanes, words: Words) -> None:
    """Element j lies in bits 6j to 6j+5 of the low 12 bytes: eight are 6 bytes, with what lies behind them cleared."""
    words.view(np.uint8).reshape(-1)[2:] = rows.reshape(-1)[:-2]  # the second word; moving everything is fast
    words[:, 0] = rows.view(np.uint64)[:, 0]
    words &= np.uint64((1 << 48) - 1)


def _steps(bits: int, count: int) -> tuple[tuple[Any, Any], ...]:
    """The steps that spread ``count`` packed elements to a byte each, by halves: which bits of a word of ``count``
    bytes move up, and by which factor they are multiplied and added to themselves, 2**n - 1 to move n bits. Then the
    same in each half.
    """
    steps = []
    while count > 1:
        word, half = np.dtype(f"u{count}").type, count // 2
        steps.append((word((1 << half * bits) - 1 << half * bits), word((1 << half * (8 - bits)) - 1)))
        count = half
    return tuple(steps)


def _in_bytes(rows: Lanes, fill: Callable[[Lanes, Words], None], steps: tuple[tuple[Any, Any], ...]) -> Lanes:
    """Element j of each row in the low bits of byte j. ``fill`` puts a row's elements into words, as many as bytes.

    All words take a step at once, in blocks whose scratch space stays in the cache.
    """
    flat = rows.reshape(-1, 16)
    out = np.empty(flat.shape, np.uint8).view(steps[0][0].dtype)
    scratch = np.empty_like(out[:ROWS_AT_ONCE])
    for first in range(0, len(flat), ROWS_AT_ONCE):
        words = out[first : first + ROWS_AT_ONCE]
        moving = scratch[: len(words)]
        fill(flat[first : first + ROWS_AT_ONCE], words)
        for goes, grows in steps:
            part = words.view(goes.dtype)
            grown = np.bitwise_and(part, goes, out=moving.view(goes.dtype))
            grown *= grows
            part += grown
    octets: Lanes = out.view(np.uint8).reshape(rows.shape)
    return octets


def _valid_four_bits(rows: Lanes) -> Lanes:
    return rows[..., :8].repeat(2, axis=-1)


def _valid_six_bits(rows: Lanes) -> Lanes:
    first, second, third = np.moveaxis(rows[..., :12].reshape(*rows.shape[:-1], 4, 3), -1, 0)
    return np.stack((first, first & second, second & third, third), axis=-1).reshape(*rows.shape[:-1], 16)


Unpack = Callable[[Lanes], Lanes]
BYTES, SIX_BITS, FOUR_BITS = ".b8", ".b8x16.b6x16_p32", ".b8x16.b4x16_p64"
UNPACK: Mapping[str, Unpack] = {
    BYTES: _bytes_as_they_are,
    SIX_BITS: partial(_in_bytes, fill=_six_bits_in_words, steps=_steps(6, 8)),
    FOUR_BITS: partial(_in_bytes, fill=_four_bits_in_words, steps=_steps(4, 4)),
}
VALID: Mapping[str, Unpack] = {BYTES: _bytes_as_they_are, SIX_BITS: _valid_six_bits, FOUR_BITS: _valid_four_bits}


def load_m16n16(shared: Memory, address: Lanes, *, num: int, type: str, unpack: Mapping[str, Unpack] = UNPACK) -> Lanes:
    """Lane 16m+i names row i of matrix m; lane 4g+t then holds rows 4t to 4t+3 of columns g (register 2m) and g+8
    (register 2m+1), a byte each.

    A row is 16 bytes: 16 elements, or 6- or 4-bit elements with padding behind them, which is not looked at.
    """
    rows = unpack[type](shared.rows(address[..., : 16 * num], 16))  # (..., 16*num, 16)
    halves = rows.reshape(*rows.shape[:-2], num, 16, 2, 8)  # row 4t+b, half of the columns, g
    words = dealt(np.moveaxis(halves, -3, -1))  # (..., num, half, 32)
    return words.reshape(*words.shape[:-3], 2 * num, 32)


def load_m8n16(shared: Memory, address: Lanes, *, num: int, type: str, unpack: Mapping[str, Unpack] = UNPACK) -> Lanes:
    """Lane 8m+i names row i of matrix m; lane 4g+t then holds columns 4t to 4t+3 of row g of each, a byte each."""
    rows = unpack[type](shared.rows(address[..., : 8 * num], 16))  # (..., 8*num, 16)
    return dealt(rows.reshape(*rows.shape[:-2], num, 8, 16))


def matrix_registers(mods: Mods) -> int:
    """One register per matrix; two where a matrix has 256 elements."""
    return int(mods["num"]) * (2 if mods["shape"] == "m16n16" else 1)  # type: ignore[arg-type]  # a key of NUM


def address_lanes(mods: Mods) -> int:
    """Lanes whose address counts: one for each row of each matrix."""
    return int(mods["num"]) * (16 if mods["shape"] == "m16n16" else 8)  # type: ignore[arg-type]


def matrix_forms(
    opcode: str, modifiers: Mapping[str, Spellings], meaning: Meaning, arch: Requirement, source: str, listed: str
) -> tuple[Form, ...]:
    """The form on shared addresses, and the one that the assembler wants a generic address for, with these operands."""
    return tuple(
        Form(
            Ptx(
                f"{opcode}.sync.aligned{{shape}}{{num}}{{trans}}{{space}}{{type}}",
                {**modifiers, "space": spaces},
                pattern=pattern,
            ),
            arch,
            source,
            meaning,
            effects=(Access("p", "shared", 16, write=opcode == "stmatrix", lanes=address_lanes, phase_lanes=8),),
            registers=matrix_registers,
        )
        for spaces, pattern in ((OWN, ""), ({"": ""}, GENERIC % listed))
    )


def _forms(
    shape: str,
    execute: Callable[..., Lanes],
    arch: Requirement,
    *types: str,
    num: Spellings = NUM,
    trans: Spellings = TRANS,
) -> tuple[Form, ...]:
    packed = shape != "m8n8"
    meaning = Meaning(
        execute,
        on="shared",
        passes=("num", "type" if packed else "trans"),
        moves=True,
        validity=partial(execute, unpack=VALID) if packed else None,
    )
    modifiers = {"shape": {shape: f".{shape}"}, "num": num, "trans": trans, "type": {type: type for type in types}}
    return matrix_forms("ldmatrix", modifiers, meaning, arch, SOURCE + UNCONFIRMED[shape], "{r}, [anywhere]")


LDMATRIX = instruction(
    "ptx.ldmatrix",
    params=("trans", "num", "type", "p", "*r"),
    keywords={"shape": "m8n8", "space": "shared"},
    operands=(writes("*r", "b32"), reads("p", "shared")),
    lanes=WHOLE_WARP,
    doc="A warp loads 1, 2 or 4 matrices from shared memory; each lane gives a row's address and gets its fragment.",
    forms=(
        *_forms("m8n8", load_m8n8, since("sm_75"), ".b16"),
        *_forms(
            "m16n16",
            load_m16n16,
            BYTE_MATRICES,
            *(BYTES, SIX_BITS, FOUR_BITS),
            num={1: ".x1", 2: ".x2"},
            trans={True: ".trans"},
        ),
        *_forms("m8n16", load_m8n16, BYTE_MATRICES, SIX_BITS, FOUR_BITS, trans={False: ""}),
    ),
)

# CuTe's copy atoms. The addresses: lane l gives row l % (8*num); the lanes beyond repeat them. Layouts count bits.
_ROWS = {1: "((8,4),128):((128,0),1)", 2: "((16,2),128):((128,0),1)", 4: "(32,128):(128,1)"}
_WORDS = {1: "(32,32):(32,1)", 2: "(32,(32,2)):(32,(1,1024))", 4: "(32,(32,4)):(32,(1,1024))"}
_HALVES = {
    1: "((4,8),(16,2)):((256,16),(1,128))",
    2: "((4,8),(16,2,2)):((256,16),(1,128,1024))",
    4: "((4,8),(16,2,4)):((256,16),(1,128,1024))",
}

for _num in (1, 2, 4):
    _shared_mods: Mods = {"num": _num, "space": "shared"}
    copy_atom(
        f"SM75_U32x{_num}_LDSM_N",
        LDMATRIX,
        {**_shared_mods, "shape": "m8n8", "trans": False, "type": ".b16"},
        element_bits=16,
        source=_ROWS[_num],
        destination=_WORDS[_num],
    )
    copy_atom(
        f"SM75_U16x{2 * _num}_LDSM_T",
        LDMATRIX,
        {**_shared_mods, "shape": "m8n8", "trans": True, "type": ".b16"},
        element_bits=16,
        source=_ROWS[_num],
        destination=_HALVES[_num],
    )
    for _bits, _type in ((4, FOUR_BITS), (6, SIX_BITS)):
        copy_atom(
            f"SM100_SU{_bits}_DU8x16_x{_num}_LDSM_N",
            LDMATRIX,
            {**_shared_mods, "shape": "m8n16", "trans": False, "type": _type},
            element_bits=8,
            source=_ROWS[_num],
            destination=_WORDS[_num],
        )

for _num, _rows, _permuted, _more in (
    (1, "((16,2),128):((128,0),1)", "((2,2,4,2),128):((128,1024,256,0),1)", ("", "")),
    (2, "(32,128):(128,1)", "((2,2,4,2),128):((128,1024,256,2048),1)", (",2", ",2048")),
):
    _byte_mods: Mods = {"num": _num, "space": "shared", "shape": "m16n16", "trans": True, "type": BYTES}
    copy_atom(
        f"SM100_U8x{8 * _num}_LDSM_T",
        LDMATRIX,
        _byte_mods,
        element_bits=8,
        source=_permuted,
        destination=f"((4,8),(8,2,2,{2 * _num})):((256,8),(1,128,64,1024))",
        recombines=True,
    )
    copy_atom(  # ours: the bare instruction, whose registers are those of an 8-bit mma operand
        f"SM100_U8x{8 * _num}_LDSM_T_RAW",
        LDMATRIX,
        _byte_mods,
        element_bits=8,
        source=_rows,
        destination=f"((4,8),(8,4,2{_more[0]})):((512,8),(1,128,64{_more[1]}))",
    )

# stmatrix: a warp writes 8x8 or 16x8 matrices from its registers to shared memory; ldmatrix in the other direction.
#
# Source: PTX ISA, "Warp-level matrix store instruction: stmatrix".

STORE_SOURCE = 'PTX ISA, "Warp-level matrix store instruction: stmatrix"'


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


def _store_forms(
    shape: str, execute: Callable[..., None], arch: Requirement, type: str, trans: Spellings
) -> tuple[Form, ...]:
    meaning = Meaning(execute, on="shared", passes=("num", "trans") if shape == "m8n8" else ("num",), moves=True)
    modifiers = {"shape": {shape: f".{shape}"}, "num": NUM, "trans": trans, "space": OWN, "type": {type: type}}
    return matrix_forms("stmatrix", modifiers, meaning, arch, STORE_SOURCE, "[anywhere], {r}")


STMATRIX = instruction(
    "ptx.stmatrix",
    params=("trans", "num", "type", "p", "*r"),
    keywords={"shape": "m8n8", "space": "shared"},
    operands=(reads("p", "shared"), reads("*r", "b32")),
    lanes=WHOLE_WARP,
    doc="A warp stores 1, 2 or 4 matrices to shared memory; each lane gives a row's address and its fragment.",
    forms=(
        *_store_forms("m8n8", store_m8n8, since("sm_90"), ".b16", TRANS),
        *_store_forms("m16n8", store_m16n8, BYTE_MATRICES, ".b8", {True: ".trans"}),
    ),
)

# CuTe's copy atoms: those of m8n8 are the loads' with the sides exchanged.
for _num in (1, 2, 4):
    _stored: dict[str, Any] = {"num": _num, "space": "shared"}
    for _name, _load, _trans in (
        (f"SM90_U32x{_num}_STSM_N", f"SM75_U32x{_num}_LDSM_N", False),
        (f"SM90_U16x{2 * _num}_STSM_T", f"SM75_U16x{2 * _num}_LDSM_T", True),
    ):
        copy_atom(
            _name,
            STMATRIX,
            {**_stored, "shape": "m8n8", "trans": _trans, "type": ".b16"},
            element_bits=ATOMS[_load].element_bits,
            source=ATOMS[_load].destination_cute,
            destination=ATOMS[_load].source_cute,
        )
    copy_atom(
        f"SM100_U8x{4 * _num}_STSM_T",
        STMATRIX,
        {**_stored, "shape": "m16n8", "trans": True, "type": ".b8"},
        element_bits=8,
        source={
            1: "((4,8),(8,2,2)):((256,8),(1,128,64))",
            2: "((4,8),(8,2,2,2)):((256,8),(1,128,64,1024))",
            4: "((4,8),(8,2,2,4)):((256,8),(1,128,64,1024))",
        }[_num],
        destination=ATOMS[f"SM75_U32x{_num}_LDSM_N"].source_cute,
    )

# movmatrix: a warp transposes an 8x8 matrix of 16-bit elements that it holds in one register per lane.
#
# Source: PTX ISA, "Warp-level matrix transpose instruction: movmatrix".


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
