"""tcgen05.cp and .shift: one thread issues a copy of shared memory to tensor memory, or a move of tensor memory by a
lane.

The source is a matrix of rows of 16 or 32 bytes, which a matrix descriptor names, K-major. Byte c of row r goes to
byte c%4 of column c/4 from the address on, in the lanes that the shape and its multicast say:

    shape      rows x bytes   multicast        lanes of row r
    128x256b   128 x 32                        r
    128x128b   128 x 16                        r
    4x256b       4 x 32                        32 r, from the address's lane on
    64x128b     64 x 16       warpx2::02_13    r, r + 64
    64x128b     64 x 16       warpx2::01_23    r%32 + 64 (r/32), and that + 32
    32x128b     32 x 16       warpx4           r, r + 32, r + 64, r + 96

The copy reads shared memory as the asynchronous units see it, and is complete when a commit after it has arrived.
With ``cta_group=2`` both CTAs of a pair copy, each from its own shared memory; that the descriptor names the same
addresses in both is unconfirmed.

Sources: PTX ISA, "TensorCore 5th Generation: tcgen05.cp, tcgen05.shift"; the lanes as in CuTe's traits, NVIDIA/cutlass,
include/cute/atom/copy_traits_sm100.hpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.arch import only
from tilewright.isa.descriptors import descriptor_addresses, descriptor_trouble
from tilewright.isa.ldmatrix import FOUR_BITS, SIX_BITS, UNPACK, VALID, Unpack
from tilewright.isa.machine import Addresses, Lanes, Unit
from tilewright.isa.operations import access_of_unit, in_pairs
from tilewright.isa.table import REQUIRED, Access, AsyncMeaning, Form, Issue, Ptx, counts, instruction, reads, single
from tilewright.isa.tcgen05_alloc import CTA_GROUP, PLACE, SOURCE, TMEM_ARCHS

__all__ = ["COPY_SHAPES", "EXPAND", "CopyShape", "copied_lanes"]

PRODUCTS = tuple(f"ptx.tcgen05.{name}" for name in ("mma", "mma.block_scale", "mma.sp", "mma.sp.block_scale"))


class CopyShape(NamedTuple):
    """The source matrix of a copy, and for each multicast the lane at which each copy begins."""

    rows: int
    row_bytes: int
    multicasts: Mapping[str, tuple[int, ...]]


COPY_SHAPES = {
    "128x256b": CopyShape(128, 32, {"": (0,)}),
    "128x128b": CopyShape(128, 16, {"": (0,)}),
    "4x256b": CopyShape(4, 32, {"": (0,)}),
    "64x128b": CopyShape(64, 16, {"warpx2::02_13": (0, 64), "warpx2::01_23": (0, 32)}),
    "32x128b": CopyShape(32, 16, {"warpx4": (0, 32, 64, 96)}),
}


def copied_lanes(shape: str, multicast: str = "") -> NDArray[np.int64]:
    """The lanes of tensor memory that each row is copied to, (copies, rows), from the address's lane on.

    >>> copied_lanes("64x128b", "warpx2::01_23")[:, [0, 31, 32, 63]]
    array([[  0,  31,  64,  95],
           [ 32,  63,  96, 127]])
    """
    form = COPY_SHAPES[shape]
    rows = np.arange(form.rows)
    if shape == "4x256b":
        rows = 32 * rows
    elif multicast == "warpx2::01_23":
        rows = rows + rows // 32 * 32
    lanes: NDArray[np.int64] = rows + np.array(form.multicasts[multicast])[:, None]
    return lanes


def _as_they_are(units: Lanes) -> Lanes:
    return units


def _four_bits(units: Lanes) -> Lanes:
    """Four bits go to bits 2 to 5 of a byte, where the matrix product looks for them; ldmatrix puts them lower."""
    return UNPACK[FOUR_BITS](units) << np.uint8(2)


FORMATS = {"": "", "b6x16_p32": SIX_BITS, "b4x16_p64": FOUR_BITS}
EXPAND: Mapping[str, Unpack] = {"": _as_they_are, "b6x16_p32": UNPACK[SIX_BITS], "b4x16_p64": _four_bits}
VALID_AFTER: Mapping[str, Unpack] = {"": _as_they_are, "b6x16_p32": VALID[SIX_BITS], "b4x16_p64": VALID[FOUR_BITS]}


def addresses(
    unit: Unit, taddr: Lanes, desc: Lanes, *, shape: str, multicast: str, cta_group: int, fmt: str
) -> Mapping[str, Addresses]:
    """From where the descriptor says, 16 bytes at a time, to the lanes of the shape; of both CTAs of a pair."""
    form = COPY_SHAPES[shape]
    _check_lane(unit, taddr, 32 if shape == "4x256b" else 1)
    for word in np.unique(desc):
        if trouble := descriptor_trouble(int(word), form.rows, form.row_bytes):
            unit.fault(trouble, desc == word)
    issuer, rank = _issuers(unit, cta_group)
    first = taddr.astype(np.int64)[issuer, None, None, None]
    lane = (first >> 16) + copied_lanes(shape, multicast)[None, :, :, None]
    column = (first & 0xFFFF) + np.arange(form.row_bytes // 4)
    lane, column = np.broadcast_arrays(lane, column)  # (m, copies, rows, columns)
    source = descriptor_addresses(desc[issuer], form.rows, form.row_bytes)  # (m, rows, units)
    return {"desc": Addresses(source, None, issuer, rank), "taddr": Addresses(lane, column, issuer, rank)}


def _issuers(unit: Unit, cta_group: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return in_pairs(unit) if cta_group == 2 else (np.arange(len(unit.rank)), unit.rank)


def copy(units: Lanes, *, fmt: str, expand: Mapping[str, Unpack] = EXPAND, **shape: object) -> Lanes:
    """Row by row, 16 bytes at a time, from where the descriptor says to the lanes of the shape.

    With a format, 16 elements of 6 or 4 bits, packed at the low end of each 16 bytes, become a byte each: 6 bits its
    low ones, 4 bits its bits 2 to 5. Where in the byte they come is unconfirmed.
    """
    rows: Lanes = np.ascontiguousarray(expand[fmt](units)).view(np.uint32)  # (m, rows, units, 4)
    return rows.reshape(len(rows), 1, rows.shape[1], -1)


def copy_valid(units: Lanes, **mods: str) -> Lanes:
    """The same on validity: a byte is valid where all bits of its element are."""
    return copy(units, **mods, expand=VALID_AFTER)


def _check_lane(unit: Unit, taddr: Lanes, lanes: int) -> None:
    wrong = taddr >> 16 >= lanes
    if wrong.any():
        allowed = "0 to 31" if lanes == 32 else "0, since the copy spans all lanes"
        unit.fault(f"taddr is in lane {int(taddr[wrong][0]) >> 16}; it is {allowed}", wrong)


def shifted(unit: Unit, taddr: Lanes, *, cta_group: int) -> Mapping[str, Addresses]:
    """8 columns of 32 lanes: each lane but the last, and where it gets its cells from.

    That the last lane stays, and that `cp` with 4x256b is what fills it, is unconfirmed.
    """
    wrong = taddr >> 16 & 31 != 0
    if wrong.any():
        unit.fault(f"taddr is in lane {int(taddr[wrong][0]) >> 16}; it is a multiple of 32", wrong)
    issuer, rank = _issuers(unit, cta_group)
    first = taddr.astype(np.int64)[issuer, None, None]
    lane, column = np.broadcast_arrays((first >> 16) + np.arange(31)[:, None], (first & 0xFFFF) + np.arange(8))
    return {"from": Addresses(lane + 1, column, issuer, rank), "taddr": Addresses(lane, column, issuer, rank)}


def shift(cells: Lanes, **mods: object) -> Lanes:
    """In 8 columns of 32 lanes, each lane but the last gets what is in the lane after it."""
    return cells


UNCONFIRMED = (
    "where 4 and 6 bits come in their byte, what cta_group 2 reads in the second CTA, and that taddr is in lane 0 "
    "(4x256b: in 0 to 31)"
)

instruction(
    "ptx.tcgen05.cp",
    keywords={"shape": REQUIRED, "cta_group": 1, "multicast": "", "fmt": "", "row": 0, "col": 0},
    operands=(reads("taddr", "tmem"), counts("desc", "b64")),
    folds=PLACE,
    agrees="cta_group",
    doc="A thread has a matrix of shared memory copied to tensor memory; `commit` tells when that is done.",
    forms=tuple(
        Form(
            Ptx(
                "tcgen05.cp{cta_group}{shape}{multicast}{fmt}",
                {
                    "shape": {shape: f".{shape}"},
                    "cta_group": CTA_GROUP,
                    "multicast": {name: f".{name}" if name else "" for name in form.multicasts},
                    "fmt": FORMATS,
                },
            ),
            TMEM_ARCHS,
            f"{SOURCE.format('tcgen05.cp')}; unconfirmed: {UNCONFIRMED}",
            AsyncMeaning(
                copy,
                addresses=addresses,
                passes=("shape", "multicast", "cta_group", "fmt"),
                moves=True,
                validity=copy_valid,
            ),
            effects=(
                access_of_unit("desc", "shared", write=False, unfenced=True),
                Access("taddr", "tmem", 4, write=True, proxy="tmem", computed=True),
                Issue("tmem", in_order_after=("ptx.tcgen05.shift",) if shape == "4x256b" else ()),
            ),
        )
        for shape, form in COPY_SHAPES.items()
    ),
)
single(
    "ptx.tcgen05.shift",
    Ptx("tcgen05.shift{cta_group}.down", {"cta_group": CTA_GROUP}),
    only("sm_100a", "sm_103a", "sm_110a"),
    f"{SOURCE.format('tcgen05.shift')}; unconfirmed: which way is down, and that the last lane stays as it is",
    AsyncMeaning(shift, addresses=shifted, passes=("cta_group",), moves=True),
    keywords={"cta_group": 1, "row": 0, "col": 0},
    operands=(reads("taddr", "tmem"),),
    folds=PLACE,
    agrees="cta_group",
    doc="A thread has 8 columns of 32 lanes moved up by one lane; `commit` tells when that is done.",
    effects=(
        Access("from", "tmem", 4, write=False, proxy="tmem", computed=True),
        Access("taddr", "tmem", 4, write=True, proxy="tmem", computed=True),
        Issue("tmem", in_order_after=PRODUCTS),
    ),
)
