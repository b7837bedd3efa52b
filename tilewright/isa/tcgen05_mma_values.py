"""What tcgen05.mma computes: D from the units of matrices in shared memory, or A's cells, and from D's cells before.

Integers are exact. Floats: products, and elements times their scales, are exact; their sum and D are rounded once. The
hardware's order is its own. Each quarter of the lanes has scales of its own: those of A count in their rows' lanes, of
B's the first of the quarters that share columns.

Sources: PTX ISA, "TensorCore 5th Generation: tcgen05.mma, Data Path Layout, Packing formats, Sparse matrices, Block
scaling"; lanes as in CuTe's traits, NVIDIA/cutlass, include/cute/atom/mma_traits_sm100_frag.hpp.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tilewright.isa.instruction_descriptors import (
    InstructionDescriptor,
    product_descriptor,
)
from tilewright.isa.machine import Lanes
from tilewright.isa.mma_sparse import LISTED, WHOLE, spread, unlisted_codes
from tilewright.isa.table import Unlisted
from tilewright.isa.tcgen05_cp import EXPAND
from tilewright.isa.types import WORDS
from tilewright.isa.warp_matrices import numbers
from tilewright.isa.wgmma_values import rounded_sum

Array = NDArray[Any]
UNIT = 16  # bytes
ATOM_OF_WIDE = 32  # bytes that a swizzle moves together in transposed tf32
PACKED = {"float6_e2m3fn": "b6x16_p32", "float6_e3m2fn": "b6x16_p32", "float4_e2m1fn": "b4x16_p64"}
RESULTS: Mapping[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "int32": np.dtype(np.int32),
}
NIBBLES = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float64)
SCALES: Mapping[str, Array] = {
    "float8_e8m0fnu": np.ldexp(1.0, np.arange(256) - 127),
    "float8_e4m3fn": (np.arange(256) & 0x7F).astype(np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float64),
}
"""The number that each byte is. ue4m3 has no sign."""
SCALES["float8_e8m0fnu"][255] = np.nan


class DataPath(NamedTuple):
    """Where D is in a CTA. lanes: of tensor memory, those of its rows. halves: into how many parts its columns are cut,
    each in lanes of its own. origins: the lanes at which d may be.
    """

    lanes: Array
    halves: int = 1
    origins: tuple[int, ...] = (0,)


EVERY_LANE = np.arange(128)
PATHS = {
    (1, 64, False): DataPath(np.arange(64) % 16 + np.arange(64) // 16 * 32, origins=(0, 16)),
    (1, 128, False): DataPath(EVERY_LANE),
    (2, 128, False): DataPath(EVERY_LANE, halves=2),
    (2, 256, False): DataPath(EVERY_LANE),
    (1, 32, True): DataPath(EVERY_LANE, halves=4),
    (1, 64, True): DataPath(EVERY_LANE, halves=2),
    (1, 128, True): DataPath(EVERY_LANE),
}
"""By CTAs, M, and whether B's columns are kept."""


def path_of(product: InstructionDescriptor) -> DataPath:
    """Where a product's D is."""
    return PATHS[product.cta_group, product.M, product.keeps_b]


class MatrixOperand(NamedTuple):
    """A or B. trans: is it MN-major? lines: its rows or columns in each CTA. k: elements that each has there."""

    element: str
    trans: bool
    lines: int
    k: int
    row_bytes: int


def operand_of(name: str, product: InstructionDescriptor) -> MatrixOperand:
    """The operand called "a" or "b_desc"."""
    if name == "a":
        stored = product.K // (2 if product.sparse else 1)
        count = product.M // product.cta_group
        return MatrixOperand(product.a_dtype, product.trans_a, count, stored, product.a_bytes)
    return MatrixOperand(product.b_dtype, product.trans_b, product.N // product.cta_group, product.K, product.b_bytes)


# Scales and metadata


@lru_cache(maxsize=256)
def scale_places(product: InstructionDescriptor, name: str, block: int) -> tuple[Array, Array]:
    """The column and the byte of each scale, (rows of A or columns of B in a quarter, scales along K)."""
    if name == "a":
        rows, first = product.M // product.cta_group, product.sfa_id
    else:
        rows, first = product.N // path_of(product).halves, product.sfb_id
    byte = first + np.arange(product.K // (2 if product.sparse else 1) // block)
    row = np.arange(rows)[:, None]
    column, byte = np.broadcast_arrays(row // 32 + byte // 4 * (4 * -(-rows // 128)), byte % 4)
    return column, byte


@lru_cache(maxsize=256)
def metadata_places(product: InstructionDescriptor) -> tuple[Array, Array, Array]:
    """The lane, the column and the place in its cell (a number of bits) of each chunk's code, (rows, chunks)."""
    row = np.arange(product.M // product.cta_group)[:, None]
    if product.row.element_bits > 8:
        chunk = np.arange(8)
        lane = row // 32 * 32 + row % 8 + row % 32 // 16 * 16 + chunk // 4 * 8
        nibble = row % 16 // 8 * 4 + chunk % 4
        places = np.broadcast_arrays(lane, np.array(product.selector), 4 * nibble)
    else:
        chunk = np.arange(16)
        places = np.broadcast_arrays(row, chunk // 8, 4 * (chunk % 8))
    lane, column, shift = places
    return lane, column, shift


def _scaled(values: Array, cells: Array, desc: InstructionDescriptor, name: str, block: int) -> Array:
    """A or B, (n, CTAs or 1, parts or 1, rows, K), times its scales: (n, CTAs, parts, rows, K).

    cells: (n CTAs, 128, columns).
    """
    column, byte = scale_places(desc, name, block)
    halves, rows = path_of(desc).halves, column.shape[0]
    used, at = np.unique(column, return_inverse=True)
    row, part = np.arange(rows)[:, None], np.arange(halves)[:, None, None]
    quarter = row // 32 if name == "a" else np.zeros_like(row)
    lane = row % 32 + 32 * (quarter + 4 // halves * part)  # (parts, rows, 1)
    octets = np.ascontiguousarray(cells[:, :, : len(used)]).view(np.uint8).reshape(len(cells), 128, len(used), 4)
    scales = SCALES[desc.sf_dtype].take(octets[:, lane, at.reshape(column.shape), byte])
    spread = scales.reshape(len(values), desc.cta_group, halves, rows, -1).repeat(
        values.shape[-1] // scales.shape[-1], -1
    )
    return np.asarray(values * spread)


def _codes(cells: Array, desc: InstructionDescriptor) -> Array:
    """The code of each chunk, (n CTAs, rows, chunks)."""
    lane, column, shift = metadata_places(desc)
    used, at = np.unique(column, return_inverse=True)
    words = cells[:, :, : len(used)][:, lane, at.reshape(column.shape)]
    return np.asarray((words >> shift.astype(np.uint32) & 15).astype(np.int64))


def _expanded(stored: Array, cells: Array, desc: InstructionDescriptor) -> Array:
    """The full A, (n CTAs, rows, K), from the half that is stored and its metadata."""
    return spread(stored, _codes(cells, desc), {32: 0.5, 4: 2}.get(desc.row.element_bits, 1)).astype(np.float64)


# What an instruction leaves out of A and B

ZERO_MASK = "zero_column_mask"


def shifted_rows(left: Array) -> Array:
    """A, (..., rows, K), whose rows are each the next one of 32, and the last of these itself."""
    row = np.arange(left.shape[-2])
    return np.asarray(left[..., np.where(row % 32 == 31, row, row + 1), :])


def zeroed_columns(masks: Lanes, desc: InstructionDescriptor) -> Array:
    """Which columns of B count as zeros, (n, parts, columns of a part), by masks of 64 bits.

    Each part has 8 bits for the column at which its pattern starts and a bit for the kind of its first span; columns
    that are used, so many and one, and zeros, so many and one, take turns. Source: PTX ISA, "Zero-Column Mask
    Descriptor", whose table and examples name the two spans differently; the examples count.
    """
    parts = path_of(desc).halves
    words, part = masks.astype(np.uint64)[:, None, None], np.arange(parts)[:, None].astype(np.uint64)
    start = _field(words, np.uint64(8) * part, 8)
    zeros, used = _field(words, np.uint64(40), 8) + 1, _field(words, np.uint64(48), 8) + 1
    place = (np.arange(desc.N // parts) + start) % (used + zeros)
    zeros_first, is_on = (_field(words, at, 1) > 0 for at in (np.uint64(32) + part, np.uint64(39)))
    return np.asarray(np.where(zeros_first, place < zeros, place >= used) & is_on)


def _field(words: Array, first: Array | np.uint64, bits: int) -> Array:
    """Bits of words of 64, as numbers."""
    return np.asarray(words >> first & np.uint64((1 << bits) - 1)).astype(np.int64)


# Products


def product(
    a: Lanes, b: Lanes, before: Lanes, *more: Lanes, way: Any, use_a_tmem: bool, cta_group: int,
    collector: str = "", scale_input_d: int = 0, scale_vec: str | None = None,
) -> Lanes:  # fmt: skip
    """The cells of D after the operation, from the units of A (or its cells) and B and the cells before; then the cells
    of metadata and of scales, where there are any, the descriptor and its shape.
    """
    *extra, i_desc, shape = more[: -1 if ZERO_MASK in way.extras else None]
    out = np.zeros(before.shape, np.uint32)
    for which, issuers, desc in _products(i_desc, shape, way, cta_group):
        path, cells = path_of(desc), [part[issuers] for part in extra]
        left, right = _factors(
            a[issuers], b[issuers], cells, desc, desc.row.block(desc.sf_dtype, scale_vec), use_a_tmem=use_a_tmem
        )
        if way.shifts:
            left = shifted_rows(left)
        if ZERO_MASK in way.extras:
            right = np.where(zeroed_columns(more[-1][which], desc)[:, None, ..., None], 0.0, right)
        height, width = len(path.lanes), desc.N // path.halves
        result = RESULTS[desc.d_dtype]
        had = np.ascontiguousarray(before[issuers, :height, :width]).astype(f"u{result.itemsize}").view(result)
        had = np.ldexp(had, -scale_input_d) if scale_input_d else had
        signed = -left if desc.neg_a != desc.neg_b else left
        had = had.reshape(len(left), cta_group, path.halves, -1, width)
        with np.errstate(over="ignore", invalid="ignore"):
            total = rounded_sum(signed, right, had, saturate=desc.sat_d)
        words = total.view(f"u{result.itemsize}").astype(np.uint32).reshape(-1, height, width)
        out[issuers, :height, :width] = words
    return out


def _products(
    i_desc: Lanes, shape: Lanes, way: Any, cta_group: int
) -> Iterator[tuple[Array, slice | Array, InstructionDescriptor]]:
    """The products of each kind: which issuers have it, which of their CTAs, and what it is."""
    for bits in np.unique(i_desc[shape[:, 0] > 0]).tolist():
        which = (shape[:, 0] > 0) & (i_desc == bits)
        desc = product_descriptor(bits, way.kind, cta_group, keeps_b=way.keeps_b)
        assert isinstance(desc, InstructionDescriptor)
        yield which, slice(None) if which.all() else np.flatnonzero(which.repeat(cta_group)), desc


def unlisted(a: Lanes, b: Lanes, before: Lanes, *more: Lanes, way: Any, cta_group: int, **_: object) -> Unlisted | None:
    """Codes of metadata that the manual does not list."""
    meta, *__, i_desc, shape = more[: -1 if ZERO_MASK in way.extras else None]
    for which, issuers, desc in _products(i_desc, shape, way, cta_group):
        codes = _codes(meta[issuers], desc)
        if wrong := unlisted_codes(
            codes.reshape(which.sum(), -1, codes.shape[-1]), WHOLE if way.kind == "tf32" else LISTED
        ):
            where = which.copy()
            where[which] = wrong.where
            return Unlisted(where, wrong.value, wrong.allowed)
    return None


def _factors(
    a: Lanes, b: Lanes, cells: list[Lanes], desc: InstructionDescriptor, block: int, *, use_a_tmem: bool
) -> tuple[Array, Array]:
    """A and B by issuer, CTA, part of the columns, row and K, each axis as long as there are different ones."""
    path = path_of(desc)
    left = _in_tmem(a, desc) if use_a_tmem else _in_shared(a, "a", desc)
    if desc.sparse:
        left = _expanded(left, cells.pop(0), desc)
    rows = desc.M // desc.cta_group
    left = left.reshape(-1, desc.cta_group, left.shape[1] // rows, rows, left.shape[-1])
    right = _in_shared(b, "b_desc", desc).reshape(len(left), 1, path.halves, desc.N // path.halves, -1)
    if cells:
        left, right = _scaled(left, cells[0], desc, "a", block), _scaled(right, cells[1], desc, "b_desc", block)
    return left, right


def _in_shared(units: Lanes, name: str, desc: InstructionDescriptor) -> Array:
    """(n, rows or columns, K), from the units of a row each."""
    operand = operand_of(name, desc)
    units = units[:, : operand.lines * operand.row_bytes // UNIT]
    lines = (operand.k, operand.lines) if operand.trans else (operand.lines, operand.k)
    if desc.row.element_bits == 4:
        return _of_nibbles(units).reshape(len(units), *lines)
    words = np.ascontiguousarray(EXPAND[PACKED.get(operand.element, "")](units)).view(np.uint32)
    values = numbers(words, WORDS[operand.element]).reshape(len(units), *lines)
    return np.asarray(values.swapaxes(-1, -2) if operand.trans else values, np.float64)


def _in_tmem(cells: Lanes, desc: InstructionDescriptor) -> Array:
    """(n, lanes, K)."""
    cells = np.ascontiguousarray(cells[:, : len(path_of(desc).lanes), : desc.a_bytes // 4])
    if desc.row.element_bits == 4:
        return _of_nibbles(cells.view(np.uint8)).reshape(*cells.shape[:2], -1)
    return np.asarray(numbers(cells, WORDS[desc.a_dtype]).reshape(*cells.shape[:2], -1), np.float64)


def _of_nibbles(octets: Lanes) -> Array:
    """Two elements of each byte, the low half first."""
    values: Array = NIBBLES.take(np.stack((octets & 15, octets >> 4), axis=-1))
    return values
