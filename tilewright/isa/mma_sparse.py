"""mma.sp: a warp multiplies a matrix of which every other element is zero, and stored nowhere, by a matrix.

A is held as mma holds a matrix of half its K. Metadata say where its elements belong: of every four units in a row of
the full matrix two are stored, and two bits count the place of each. A unit is an element, two elements of 4 bits, or
half a tf32. Source: PTX ISA, "Matrix multiply-accumulate operation using mma.sp instruction with sparse matrix A". Its
figures of the metadata are pictures: whose bits are which row's was found on an H200.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np

from tilewright.ir import Argument
from tilewright.isa.arch import Requirement, since
from tilewright.isa.machine import Lanes
from tilewright.isa.mma import BFLOAT, BYTES, HALVES, TF32, pairs_of, saturation
from tilewright.isa.mma_families import NIBBLES, added
from tilewright.isa.table import WHOLE_WARP, Form, Meaning, Mods, Ptx, Spellings, Unlisted, instruction, reads, writes
from tilewright.isa.warp_matrices import ELEMENTS, REGISTERS, Matrix, dealt_out, extents, sides_of

SOURCE = 'PTX ISA, "Warp-level Matrix Instructions: mma.sp"'

Places = Callable[[Matrix, Matrix, int], tuple[Matrix, Matrix]]
METADATA: Mapping[tuple[int, bool], Places] = {
    (16, True): lambda row, bit, selector: (row % 8 * 4 + selector, row // 8 * 16 + bit),
    (32, True): lambda row, bit, selector: (row % 8 * 4 + 2 * selector + bit // 16, row // 8 * 16 + bit % 16),
    (32, False): lambda row, bit, selector: (row % 8 * 4 + 2 * selector + row // 8, bit),
    (64, False): lambda row, bit, selector: (row % 8 * 4 + row // 8 + 2 * (bit // 32), bit % 32),
}
"""By the bits of a row of A, and whether an element has 16 bits or more: the lane whose register holds a bit of a row,
and which bit of the register it is. An H200 has them so."""


def _units(mods: Mods) -> tuple[int, float, bool]:
    """Units in a row of A, the elements of a unit, and whether an element has 16 bits or more."""
    k, bits = extents(str(mods["shape"]))[2], ELEMENTS[str(mods["types"]).split(".")[1]].bits
    elements = {32: 0.5, 4: 2.0}.get(bits, 1.0)
    return int(k / elements), elements, bits >= 16


@cache
def fields(bits: int, has_16_bits: bool, selector: int) -> tuple[Matrix, Matrix]:
    """Of each two bits of each row: the lane that holds them, and how far up."""
    row, bit = np.arange(16)[:, None], np.arange(0, bits, 2)[None]
    lane, shift = np.broadcast_arrays(*METADATA[bits, has_16_bits](row, bit, selector))
    return lane, shift.astype(np.uint32)


def codes(metadata: Lanes, bits: int, has_16_bits: bool, selector: int) -> Matrix:
    """Of each row of 16 the codes of its chunks, numbers of 4 bits, from the registers of 32 lanes: the place of one
    unit of four, and of another.
    """
    lane, shift = fields(bits, has_16_bits, selector)
    places = (np.asarray(metadata, np.uint32).take(lane, axis=-1) >> shift & 3).astype(np.int64)
    return np.asarray(places[..., ::2] | places[..., 1::2] << 2)


def spread(stored: Matrix, code: Matrix, elements: float) -> Matrix:
    """The full rows, with zeros where the codes of their chunks have no element. elements: of a unit."""
    if elements < 1:  # both units of a chunk are one element of two
        wide, places = 1, code[..., None] >> 1 & 1
    else:
        wide, places = int(elements), np.stack((code & 3, code >> 2), axis=-1)
    groups = stored.reshape(*stored.shape[:-1], -1, places.shape[-1], wide)
    shape = np.broadcast_shapes(groups.shape[:-1], places.shape)
    full = np.zeros((*shape[:-1], 2 * shape[-1], wide), stored.dtype)
    np.put_along_axis(full, np.broadcast_to(places, shape)[..., None], np.broadcast_to(groups, (*shape, wide)), axis=-2)
    return full.reshape(*shape[:-2], -1)


WHOLE = (0b0100, 0b1110)  # both units of an element
SORTED = (0b0100, 0b1000, 0b1001, 0b1100, 0b1101, 0b1110)
LISTED = (0b0100, 0b0110, 0b1000, 0b1001, 0b1100, 0b1101, 0b1110)  # of tcgen05, one of which is in falling order
PLACES = tuple(code for code in range(16) if code & 3 != code >> 2)  # of two units, in any order


def unlisted_codes(code: Matrix, legal: tuple[int, ...]) -> Unlisted | None:
    """The codes, (..., rows, chunks), that the manual does not list."""
    wrong = ~np.isin(code, legal)
    if not wrong.any():
        return None
    *_, row, chunk = first = tuple(np.argwhere(wrong)[0])
    text = f"0b{int(code[first]):04b} for chunk {chunk} of row {int(row)} of A"
    return Unlisted(np.asarray(wrong.any(axis=(-2, -1))), text, ", ".join(f"0b{code:04b}" for code in legal))


def _codes(e: Lanes, selector: int, mods: Mods) -> Matrix:
    units, _, has_16_bits = _units(mods)
    return codes(e, units, has_16_bits, selector)


def _expanded(stored: Matrix, metadata: Lanes, selector: int, mods: Mods) -> Matrix:
    """The full A: elements where the metadata say, zeros elsewhere."""
    return spread(stored, _codes(metadata, selector, mods), _units(mods)[1])


def _unlisted(
    a: Lanes, b: Lanes, c: Lanes, e: Lanes, *, selector: int, ordered: bool, **mods: Argument
) -> Unlisted | None:
    legal = WHOLE if _units(mods)[1] < 1 else SORTED if ordered else PLACES
    return unlisted_codes(_codes(e, selector, mods), legal)


def _sparse(
    a: Lanes, b: Lanes, c: Lanes, e: Lanes, *, selector: int, saturate: bool, ordered: bool, **mods: Argument
) -> Lanes:
    """Products of integers and narrow floats are exact in float32."""
    sides = sides_of(mods)
    half = sides["a"]._replace(columns=sides["a"].columns // 2)
    left, right, before = _expanded(half.matrix(a), e, selector, mods), sides["b"].matrix(b), sides["c"].matrix(c)
    return dealt_out(added(left @ right, before, sides["d"].kind, saturate=saturate), sides["d"].kind)


def _registers_of_a(mods: Mods) -> int:
    return REGISTERS["a"](mods) // 2


FLOATS = (*HALVES, *BFLOAT)
FLOAT8 = pairs_of("f32", "e4m3", "e5m2")
ORDERED: Spellings = {False: ".sp", True: ".sp::ordered_metadata"}
PRODUCTS: tuple[tuple[str, tuple[str, ...], Requirement, int], ...] = (  # shape, types, first, selectors
    ("m16n8k16", FLOATS, since("sm_80"), 4),
    ("m16n8k32", FLOATS, since("sm_80"), 2),
    ("m16n8k8", TF32, since("sm_80"), 4),
    ("m16n8k16", TF32, since("sm_80"), 2),
    ("m16n8k32", BYTES, since("sm_80"), 2),
    ("m16n8k64", BYTES, since("sm_80"), 1),
    ("m16n8k64", NIBBLES, since("sm_80"), 2),
    ("m16n8k128", NIBBLES, since("sm_80"), 1),
    ("m16n8k64", FLOAT8, since("sm_89"), 1),
)

instruction(
    "ptx.mma.sp",
    params=("shape", "types", "d", "a", "b", "c", "e"),
    keywords={"selector": 0, "ordered": True, "saturate": False},
    operands=(writes("*d", "b32"), *(reads(name, "b32") for name in ("*a", "*b", "*c", "e"))),
    pattern="{mnemonic} {d}, {a}, {b}, {c}, {e}, {selector};",
    lanes=WHOLE_WARP,
    doc="A warp computes D = A * B + C where A has two elements of every four; ``e`` says which, of the lanes that the "
    "selector names.",
    forms=tuple(
        Form(
            Ptx(
                "mma{ordered}.sync.aligned{shape}.row.col{saturate}{types}",
                {
                    "shape": {shape: f".{shape}"},
                    "types": {kind: f".{kind}" for kind in types},
                    "selector": {number: f"{number}" for number in range(selectors)},
                    "ordered": ORDERED,
                    "saturate": saturation(types),
                },
            ),
            first,
            SOURCE,
            Meaning(_sparse, passes=("shape", "types", "selector", "saturate", "ordered"), unlisted=_unlisted),
            registers={**REGISTERS, "a": _registers_of_a, "e": 1},
        )
        for shape, types, first, selectors in PRODUCTS
    ),
)
