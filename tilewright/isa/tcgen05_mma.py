"""tcgen05.mma: one thread has the tensor cores multiply matrices into tensor memory.

D = A * B + D, or A * B where ``enable_input_d`` is false; ``scale_input_d`` of s makes D * 2**-s of what is added. B
is found by a matrix descriptor, A by another or in tensor memory, 32 bytes of each row along K. Types, shape,
majorness and signs are in an instruction descriptor, a register. With ``cta_group=2`` both CTAs of a pair have half
of A's rows and half of B's columns in their shared memory, and half of D's rows:

    CTAs   M     lane of row m of the CTA             column of n
    1      64    m%16 + 32 (m/16), from d's lane on   n
    1      128   m                                    n
    2      128   m, of 64, + 64 where n >= N/2        n % (N/2)
    2      256   m, of 128                            n
    .ws    64    m + 64 where n >= N/2                n % (N/2)
    .ws    32    m + 32 (n/(N/4))                     n % (N/4)

A in tensor memory is in the same lanes, 8 columns; where parts of N have lanes of their own, its rows are there for
each. Values of 16 bits in D have a cell each. Operands of 4 and 6 bits have 16 bytes for 16 elements in shared
memory, packed at the low end, and a byte each in tensor memory: 4 bits in its bits 2 to 5, 6 in its low ones. The
kinds mxf4 and mxf4nvf4 have two elements in a byte in both.

``.block_scale``: D = (A * SA) (B * SB) + D, a scale for each block of 16 or 32 elements along K, in tensor memory.
``.sp``: A has half of its elements, and metadata in tensor memory say which. ``.ws``: the tensor cores may keep B's
columns for later products; what is computed is the same.
``ashift`` takes the next row of A in the place of each, within 32 of them, the last of which stays.
``zero_column_mask`` has columns of a kept B count as zeros. ``collector`` says that A, or columns of B, come from a
buffer of the tensor cores, which an earlier product has filled: a use of one that it has not is an error of the
simulator.

The operation reads shared memory as the asynchronous units see it, and is complete when a commit after it has
arrived.

Sources: PTX ISA, "TensorCore 5th Generation: tcgen05.mma, Matrix Shape, Data Path Layout, Packing formats, Block
scaling, Sparse matrices"; lanes as in CuTe's traits, NVIDIA/cutlass, include/cute/atom/mma_traits_sm100_frag.hpp.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from itertools import product as combined
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tilewright.isa.arch import Requirement, only
from tilewright.isa.descriptors import (
    PRODUCT_KINDS,
    UNIT,
    InstructionDescriptor,
    MatrixDescriptor,
    descriptor_addresses,
    descriptor_trouble,
    product_descriptor,
)
from tilewright.isa.forms import (
    GIVEN,
    KEEPING,
    LEFT_OUT,
    WORDS,
    Access,
    AsyncMeaning,
    Form,
    Issue,
    Keeps,
    Mods,
    Operand,
    Ptx,
    Spellings,
    Unlisted,
    counts,
    reads,
)
from tilewright.isa.machine import Addresses, Lanes, Unit, access_of_unit, in_pairs
from tilewright.isa.mma import LISTED, WHOLE, numbers, spread, unlisted_codes
from tilewright.isa.table import REQUIRED, instruction
from tilewright.isa.tcgen05 import CTA_GROUP, EVERY_LANE, EXPAND, SOURCE, TMEM_ARCHS, DataPath, path_of
from tilewright.isa.wgmma import RESULTS, rounded_sum

__all__ = [
    "MMA_KIND_OF", "collector_words",
]  # fmt: skip


# What is computed: integers are exact. Floats: products, and elements times their scales, are exact; their sum and D
# are rounded once. The hardware's order is its own. Each quarter of the lanes has scales of its own: those of A count
# in their rows' lanes, of B's the first of the quarters that share columns.

Array = NDArray[Any]
ATOM_OF_WIDE = 32  # bytes that a swizzle moves together in transposed tf32
PACKED = {"float6_e2m3fn": "b6x16_p32", "float6_e3m2fn": "b6x16_p32", "float4_e2m1fn": "b4x16_p64"}
NIBBLES = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float64)
SCALE_VALUES: Mapping[str, Array] = {
    "float8_e8m0fnu": np.ldexp(1.0, np.arange(256) - 127),
    "float8_e4m3fn": (np.arange(256) & 0x7F).astype(np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float64),
}
"""The number that each byte is. ue4m3 has no sign."""
SCALE_VALUES["float8_e8m0fnu"][255] = np.nan


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
    scales = SCALE_VALUES[desc.sf_dtype].take(octets[:, lane, at.reshape(column.shape), byte])
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


# The products of each kind, as their forms say them.


class ProductForm(NamedTuple):
    """How a form says its product. kind: a key of `PRODUCT_KINDS`. extras: its operands after the instruction
    descriptor. sparse: has A metadata? keeps_b: is it ``.ws``? in_tmem: is A in tensor memory? shifts: with its rows
    one further?
    """

    kind: str
    extras: tuple[str, ...]
    sparse: bool = False
    keeps_b: bool = False
    in_tmem: bool = False
    shifts: bool = False

    @property
    def operands(self) -> tuple[str, ...]:
        """Their names, in the order in which a meaning gets them."""
        scales = ("sfa", "sfb") if PRODUCT_KINDS[self.kind].scales else ()
        return ("d", "a", "b_desc", *("sp_meta",) * self.sparse, *scales, "i_desc", *self.extras)

    @property
    def cells(self) -> tuple[str, ...]:
        """Those in tensor memory beside D."""
        return (*("a",) * self.in_tmem, *(name for name in self.operands if name in ("sp_meta", "sfa", "sfb")))


def product(
    a: Lanes, b: Lanes, before: Lanes, *more: Lanes, way: ProductForm, cta_group: int, scale_input_d: int = 0,
    scale_vec: str | None = None, **_: object,
) -> Lanes:  # fmt: skip
    """The cells of D after the operation, from the units of A (or its cells) and B and the cells before; then the cells
    of metadata and of scales, where there are any, the descriptor and its shape.
    """
    *extra, i_desc, shape = more[: -1 if ZERO_MASK in way.extras else None]
    out = np.zeros(before.shape, np.uint32)
    for which, issuers, desc in _products(i_desc, shape, way, cta_group):
        path, cells = path_of(desc), [part[issuers] for part in extra]
        block = desc.row.block(desc.sf_dtype, scale_vec)
        left, right = _factors(a[issuers], b[issuers], cells, desc, block, in_tmem=way.in_tmem)
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
    i_desc: Lanes, shape: Lanes, way: ProductForm, cta_group: int
) -> Iterator[tuple[Array, slice | Array, InstructionDescriptor]]:
    """The products of each kind: which issuers have it, which of their CTAs, and what it is."""
    for bits in np.unique(i_desc[shape[:, 0] > 0]).tolist():
        which = (shape[:, 0] > 0) & (i_desc == bits)
        desc = product_descriptor(bits, way.kind, cta_group, keeps_b=way.keeps_b)
        assert isinstance(desc, InstructionDescriptor)
        yield which, slice(None) if which.all() else np.flatnonzero(which.repeat(cta_group)), desc


def unlisted(
    a: Lanes, b: Lanes, before: Lanes, *more: Lanes, way: ProductForm, cta_group: int, **_: object
) -> Unlisted | None:
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
    a: Lanes, b: Lanes, cells: list[Lanes], desc: InstructionDescriptor, block: int, *, in_tmem: bool
) -> tuple[Array, Array]:
    """A and B by issuer, CTA, part of the columns, row and K, each axis as long as there are different ones."""
    path = path_of(desc)
    left = _in_tmem(a, desc) if in_tmem else _in_shared(a, "a", desc)
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


# Where tcgen05.mma finds its operands: units of shared memory by matrix descriptors, cells of tensor memory by lanes.
#
# Scales of blocks are bytes of cells. Row r of A (column r of B) has its scales in lane ``r % 32``, again in each
# quarter of the lanes, from column ``r // 32`` on; the descriptor says in which byte the first is. Four are in a
# cell, and the next cell is as many columns further as the rows take. Metadata of a sparse A are four bits for each
# chunk of its row:
#
#   elements of A     chunks   lane of row r                                            column   place in the cell
#   16 or 32 bits     8        32 (r/32) + r%8 + 16 ((r%32)/16) + 8 (chunk/4)           selector 4 ((r%16)/8) + chunk%4
#   fewer             16       r                                                        chunk/8  chunk%8
#


VALID_BYTES = {"b6x16_p32": 12, "b4x16_p64": 8}


class SameProduct(NamedTuple):
    """The issuers of an operation with one instruction descriptor. which: (n,) bools."""

    which: Array
    product: InstructionDescriptor

    @property
    def path(self) -> DataPath:
        """Where D is."""
        return path_of(self.product)

    @property
    def columns(self) -> int:
        """Columns of tensor memory that D takes."""
        return self.product.N // self.path.halves


class OperandCells(NamedTuple):
    """Cells of one operand, of each product: lanes (height,) and columns (height, width), from its address on."""

    lanes: Array
    columns: Array


def addresses(
    unit: Unit, *operands: Lanes, way: ProductForm, cta_group: int, collector: str, scale_vec: str | None = None,
    **_: object,
) -> Mapping[str, Addresses]:  # fmt: skip
    """The 16-byte units of A and B, the cells of D, of A in tensor memory, of scales and metadata."""
    values = dict(zip(way.operands, operands, strict=True))
    i_desc, d = values["i_desc"], values["d"]
    active = values.get("pred", np.ones(len(d), np.bool_)).astype(np.bool_)
    batches = list(_batches(unit, i_desc, active, way, cta_group, scale_vec))
    issuer, rank = in_pairs(unit) if cta_group == 2 else (None, None)
    _check_lanes(unit, values, batches, way)
    enabled = values["enable_input_d"].astype(np.bool_)
    kept = _lanes_kept(values["lanes"], cta_group) if "lanes" in values else None
    lane, column, nbytes = _spread(d, batches, [_of_d(batch) for batch in batches], cta_group, kept)
    places = {"d": Addresses(lane, column, issuer, rank, nbytes)}
    places["before"] = Addresses(lane, column, issuer, rank, _read_before(batches, nbytes, enabled, cta_group))
    for name in way.cells:
        cells = [_CELLS[name](batch, scale_vec) for batch in batches]
        lane, column, nbytes = _spread(_start(unit, name, values[name], batches), batches, cells, cta_group)
        places[name] = Addresses(lane, column, issuer, rank, nbytes)
    for name in ("b_desc",) if way.in_tmem else ("a", "b_desc"):
        places[name] = _units(unit, name, values[name], batches, issuer, rank)
    _check_apart(unit, values, batches, way, scale_vec)
    _collect(unit, values, active, way, collector)
    if ZERO_MASK in values and (wrong := active & (values[ZERO_MASK].astype(np.uint64) >> 56 & 63 != 0)).any():
        unit.fault("a zero-column mask that shifts columns is not simulated: bits 56 to 61 are 0", wrong)
    shape = np.zeros((len(d), 3), np.int64)
    for batch in batches:
        shape[batch.which] = batch.product.M, batch.product.N, list(PRODUCT_KINDS).index(way.kind)
    return {**places, "shape": Addresses(shape)}


def _batches(
    unit: Unit, i_desc: Lanes, active: Array, way: ProductForm, cta_group: int, scale_vec: str | None
) -> Iterator[SameProduct]:
    for bits in np.unique(i_desc[active]).tolist():
        which = active & (i_desc == bits)
        product = product_descriptor(bits, way.kind, cta_group, keeps_b=way.keeps_b)
        if isinstance(product, str):
            unit.fault(product, which)
        if trouble := _mismatch(product, way, scale_vec):
            unit.fault(f"instruction descriptor: {trouble}", which)
        yield SameProduct(which, product)


def _collect(unit: Unit, values: Mapping[str, Lanes], active: Array, way: ProductForm, collector: str) -> None:
    """Keep track of what the buffers of the tensor cores hold: a use finds what an earlier product has filled in."""
    buffer, _, use = (collector or f"{'b0' if way.keeps_b else 'a'}::discard").partition("::")
    held, cta = unit.kept(buffer), unit.cta
    matrix = values["a" if buffer == "a" else "b_desc"].astype(np.uint64) + np.uint64(1)  # 0 is none
    if use in ("use", "lastuse") and (wrong := active & (held[cta] != matrix)).any():
        holds = "another matrix" if held[cta][wrong][0] else "nothing"
        unit.fault(
            f"collector::{collector} of a buffer that holds {holds}: a product with {buffer}::fill comes first", wrong
        )
    if use != "use":
        held[cta[active]] = matrix[active] if collector.endswith("::fill") else 0


def _mismatch(product: InstructionDescriptor, way: ProductForm, scale_vec: str | None) -> str:
    """What an instruction and its descriptor do not agree in."""
    if product.sparse != way.sparse:
        has = (
            "set, and the instruction has no metadata" if product.sparse else "clear, and the instruction has metadata"
        )
        return f"sparse is {has}"
    if product.sparse and 128 * product.cta_group != product.M:
        return f"M is {product.M}, with metadata, whose places for so many rows the manual has in figures alone"
    if way.shifts and 128 * product.cta_group != product.M:
        return f"M is {product.M}; with ashift it is {128 * product.cta_group}"
    if not product.sf_dtype:
        return ""
    words = product.row.scales[product.sf_dtype][1]
    if scale_vec is not None and scale_vec not in words:
        return f"sf_dtype is {product.sf_dtype}, with which a block is {' or '.join(words)}, not {scale_vec}"
    count = scale_places(product, "a", product.row.block(product.sf_dtype, scale_vec))[0].shape[1]
    step = {1: 1, 2: 2, 3: 1, 6: 2}.get(count, 4)
    for name in ("sfa_id", "sfb_id"):
        if (number := getattr(product, name)) % step:
            return f"{name} is {number}; with {count} scales it is {', '.join(map(str, range(0, 4, step)))}"
    return ""


def _lanes_kept(masks: Lanes, cta_group: int) -> Array:
    """(n of each CTA, 128) bools: the lanes that no bit of the masks disables."""
    words = masks.astype(np.uint32).reshape(len(masks) * cta_group, 4)
    bits = words[:, EVERY_LANE // 32] >> (EVERY_LANE % 32).astype(np.uint32) & 1
    return np.asarray(bits == 0)


def _check_lanes(unit: Unit, values: Mapping[str, Lanes], batches: list[SameProduct], way: ProductForm) -> None:
    """D, and A in the same lanes, are at lanes where the path of the data may begin; scales are at lane 0."""
    for batch in batches:
        d, product = values["d"], batch.product
        if (wrong := batch.which & ~np.isin(d >> 16, batch.path.origins)).any():
            allowed = " or ".join(map(str, batch.path.origins))
            unit.fault(f"d is in lane {int(d[wrong][0]) >> 16}; with M {product.M} it is {allowed}", wrong)
        if way.in_tmem and product.trans_a:
            unit.fault("instruction descriptor: trans_a is set; A in tensor memory is K-major", batch.which)
        for name in ("a",) * way.in_tmem + ("sp_meta",) * product.sparse:
            if (wrong := batch.which & (values[name] >> 16 != d >> 16)).any():
                lanes = f"{name} is in lane {int(values[name][wrong][0]) >> 16} and d in lane {int(d[wrong][0]) >> 16}"
                unit.fault(f"{lanes}; they are in the same", wrong)


def _check_apart(
    unit: Unit, values: Mapping[str, Lanes], batches: list[SameProduct], way: ProductForm, scale_vec: str | None
) -> None:
    """D has columns of its own: what the product reads beside it is elsewhere in tensor memory."""
    first = (values["d"] & 0xFFFF).astype(np.int64)
    for name in way.cells:
        for batch in batches:
            columns = _CELLS[name](batch, scale_vec).columns
            start = (values[name] & 0xFFFF).astype(np.int64)
            apart = (start + columns.max() < first) | (start + columns.min() >= first + batch.columns)
            if (wrong := batch.which & ~apart).any():
                unit.fault(f"d and {name} overlap in tensor memory: d has {batch.columns} columns", wrong)


SCALE_ADDRESS = 0x3FFFFFFF  # CuTe keeps the number of the byte in the upper bits, where only descriptors count


def _start(unit: Unit, name: str, address: Lanes, batches: list[SameProduct]) -> Lanes:
    """The address of an operand in tensor memory."""
    active = np.logical_or.reduce([batch.which for batch in batches]) if batches else np.zeros(len(address), np.bool_)
    if name in ("sfa", "sfb"):
        address = address & np.asarray(SCALE_ADDRESS, address.dtype)
        if (wrong := active & (address >> 16 != 0)).any():
            unit.fault(f"{name} is in lane {int(address[wrong][0]) >> 16}; scales of blocks begin in lane 0", wrong)
    if name == "sp_meta" and (wrong := active & (address % 2 != 0)).any():
        unit.fault(f"sp_meta is in column {int(address[wrong][0]) & 0xFFFF}; it begins in an even one", wrong)
    return address


def _of_d(batch: SameProduct) -> OperandCells:
    lanes = batch.path.lanes
    return OperandCells(lanes, np.broadcast_to(np.arange(batch.columns), (len(lanes), batch.columns)))


def _of_a(batch: SameProduct, scale_vec: str | None) -> OperandCells:
    lanes, width = batch.path.lanes, batch.product.a_bytes // 4
    return OperandCells(lanes, np.broadcast_to(np.arange(width), (len(lanes), width)))


def _of_scales(name: str) -> Any:
    def cells(batch: SameProduct, scale_vec: str | None) -> OperandCells:
        """All lanes: each quarter has the scales of 32 rows in a column."""
        block = batch.product.row.block(batch.product.sf_dtype, scale_vec)
        used = np.unique(scale_places(batch.product, name, block)[0])
        return OperandCells(EVERY_LANE, np.broadcast_to(used, (128, len(used))))

    return cells


def _of_metadata(batch: SameProduct, scale_vec: str | None) -> OperandCells:
    lane, column, _ = metadata_places(batch.product)
    used = np.unique(column)
    return OperandCells(np.unique(lane), np.broadcast_to(used, (len(np.unique(lane)), len(used))))


_CELLS = {"a": _of_a, "sfa": _of_scales("a"), "sfb": _of_scales("b_desc"), "sp_meta": _of_metadata}
"""The cells of an operand in tensor memory, by its name."""


def _spread(
    address: Lanes, batches: list[SameProduct], cells: list[OperandCells], cta_group: int, kept: Array | None = None
) -> tuple[Array, Array, Array | None]:
    """Lanes, columns and bytes that count, for each issuer and CTA; once where these are the same for all."""
    if len(batches) == 1 and kept is None and batches[0].which.all() and (address == address[:1]).all():
        address, batches = address[:1], [SameProduct(batches[0].which[:1], batches[0].product)]
    height = max((len(cell.lanes) for cell in cells), default=1)
    width = max((cell.columns.shape[1] for cell in cells), default=1)
    lanes: Array = np.zeros((len(address), height), np.int64)
    columns: Array = np.zeros((len(address), height, width), np.int64)
    counted: Array = np.zeros((len(address), height, width), np.bool_)
    for batch, cell in zip(batches, cells, strict=True):
        here = np.s_[batch.which, : len(cell.lanes), : cell.columns.shape[1]]
        lanes[batch.which, : len(cell.lanes)] = (address[batch.which] >> 16)[:, None] + cell.lanes
        columns[here], counted[here] = cell.columns, True
    lanes, columns, counted = (part.repeat(cta_group, axis=0) for part in (lanes, columns, counted))
    first = (address & 0xFFFF).astype(np.int64).repeat(cta_group)
    lane, column = np.broadcast_arrays(lanes[..., None], first[:, None, None] + columns)
    if kept is not None:
        counted &= np.take_along_axis(kept, lanes, axis=1)[..., None]
    return lane, column, None if counted.all() else 4 * counted


def _read_before(batches: list[SameProduct], nbytes: Array | None, enabled: Array, cta_group: int) -> Array | None:
    """The bytes of each cell of D that are added to the product: of 16-bit ones the low half."""
    width = np.zeros(len(enabled), np.int64)
    for batch in batches:
        width[batch.which] = RESULTS[batch.product.d_dtype].itemsize
    width = (width * enabled).repeat(cta_group)
    if nbytes is None and (width == 4).all():
        return None
    return np.minimum(width[:, None, None], 4 if nbytes is None else nbytes)


# Units of shared memory, as descriptors name them.


def _units(
    unit: Unit, name: str, descs: Lanes, batches: list[SameProduct], issuer: Array | None, rank: Array | None
) -> Addresses:
    """The units of A or B, for each issuer and CTA in a row, as many as the longest has."""
    rows = [_units_of(unit, name, descs[batch.which], batch) for batch in batches]
    size, counted = 1 if issuer is None else 2, [_counted_bytes(name, batch.product) for batch in batches]
    if len(rows) == 1 and batches[0].which.all() and counted == [UNIT]:
        return Addresses(rows[0].repeat(size, axis=0), None, issuer, rank)
    width = max((row.shape[1] for row in rows), default=1)
    at, nbytes = np.zeros((2, len(descs), width), np.int64)
    for batch, row, count in zip(batches, rows, counted, strict=True):
        at[batch.which, : row.shape[1]], nbytes[batch.which, : row.shape[1]] = row, count
    return Addresses(at.repeat(size, axis=0), None, issuer, rank, nbytes.repeat(size, axis=0))


def _counted_bytes(name: str, product: InstructionDescriptor) -> int:
    """Bytes of a unit that have elements: 16 of 4 or 6 bits leave the others free."""
    element = operand_of(name, product).element
    return VALID_BYTES[PACKED[element]] if element in PACKED and product.row.element_bits == 8 else UNIT


def _units_of(unit: Unit, name: str, descs: Lanes, batch: SameProduct) -> Array:
    """(n, units), in the order in which the matrix has them, row by row."""
    operand, row = operand_of(name, batch.product), batch.product.row
    trans, count = operand.trans, operand.lines
    shape = (operand.k, row.element_bits * count // 8, "MN") if trans else (count, operand.row_bytes, "K")
    for bits in np.unique(descs).tolist():
        trouble = descriptor_trouble(bits, *shape)
        wide = not trouble and MatrixDescriptor.decode(bits).atom == ATOM_OF_WIDE
        if not trouble and wide != (trans and batch.product.kind == "tf32"):
            trouble = "matrix descriptor: atoms are of 32 bytes for MN-major tf32, and of 16 for all else"
        if trouble:
            wrong = batch.which.copy()
            wrong[batch.which] = descs == bits
            unit.fault(f"{name}: {trouble}", wrong)
    return descriptor_addresses(descs, *shape).reshape(len(descs), -1)


# The rows of the table.


MMA_KIND_OF = {element: kind for kind, row in PRODUCT_KINDS.items() if not row.scales for element in row.elements}
"""The kind of product without scales by an element of A or B."""

BOTH = (False, True)
FAMILIES = ("mma", "mma.block_scale", "mma.sp", "mma.sp.block_scale", "mma.ws", "mma.ws.sp")
UNSHIFTED = ("a::fill", "a::use")  # words of a collector that A has not while its rows shift
EARLIER = (*(f"ptx.tcgen05.{name}" for name in FAMILIES), "ptx.tcgen05.cp", "ptx.tcgen05.shift")
I8_ARCHS = only("sm_100a", "sm_110a")
EXACT_ARCHS = only("sm_100a", "sm_103a", "sm_110a")
SCALING_ARCHS = only("sm_100a", "sm_100f", "sm_103a", "sm_103f")
SCALES: Spellings = {shift: str(shift) for shift in range(1, 16)}
ADDS = ".reg .pred p; setp.ne.b32 p, {enable_input_d}, 0; "
UNSCALED: Spellings = {0: ""}
PASSED = ("cta_group", "collector", "scale_input_d", "scale_vec")
UNCONFIRMED = (
    "N that is no multiple of 16 where M is 128, f16 beside bf16, the upper half of cells with 16-bit results, here "
    "zero, and in which order sums are rounded"
)
SCALED_UNCONFIRMED = f"which quarter's scales count where they differ; {UNCONFIRMED}"
SPARSE_UNCONFIRMED = f"codes of metadata that the manual does not list; {UNCONFIRMED}"


def collector_words(*, keeps_b: bool) -> tuple[str, ...]:
    """What a product may say of the buffers of A, or of B where it keeps columns of that; "" first, for nothing."""
    buffers = ("b0", "b1", "b2", "b3") if keeps_b else ("a",)
    return ("", *(f"{buffer}{use}" for buffer in buffers for use in (*KEEPING, "::discard")))


class Variety(NamedTuple):
    """Forms of one kind that differ only in their modifiers.

    scales: what D may be scaled by. sf_dtype: of the scales of blocks; words: that say how long blocks are. kinds: how
    a call may name the kind. elements: of A and of B, where not all of the kind's.
    """

    kind: str
    archs: Requirement
    scales: Spellings = UNSCALED
    sf_dtype: str = ""
    words: Spellings = LEFT_OUT
    kinds: Spellings = LEFT_OUT
    elements: tuple[tuple[str, ...], ...] = ()


def _masks(mods: Mods) -> int:
    return 4 * int(mods["cta_group"]) if mods["lanes"] else 0  # type: ignore[arg-type]  # 1 or 2


def _plain(*, scaling: bool) -> Iterator[Variety]:
    """The kinds without scales, with what they may scale D by, and where."""
    for kind, row in PRODUCT_KINDS.items():
        if not row.scales:
            yield Variety(kind, I8_ARCHS if kind == "i8" else TMEM_ARCHS)
            if scaling and kind in ("f16", "tf32"):
                yield Variety(kind, SCALING_ARCHS, SCALES)


def _with_scales(*, sparse: bool) -> Iterator[Variety]:
    """The kinds with scales. Products of 4-bit elements by the kind that packs them are meant where no kind is said."""
    for kind, row in PRODUCT_KINDS.items():
        for number, (sf_dtype, (_, words)) in enumerate(row.scales.items()):
            exact: Spellings = {word: f".scale_vec::{word}" for word in words if word.endswith("X")}
            named: Spellings = {word: f".{word}" for word in words if word not in exact}
            silent: Spellings = {None: named[words[0]] if kind == "mxf4nvf4" else ""}
            everywhere = EXACT_ARCHS if sparse and kind != "mxf8f6f4" else TMEM_ARCHS
            for archs, spelled in ((everywhere, {**silent, **named}), (EXACT_ARCHS, exact)):
                for elements, is_usual in _pairs(tuple(row.elements), is_usual=kind == "mxf4" or not number):
                    yield Variety(
                        kind,
                        archs,
                        UNSCALED,
                        sf_dtype,
                        spelled,
                        {None: "", kind: ""} if is_usual else {kind: ""},
                        elements,
                    )


def _pairs(elements: tuple[str, ...], *, is_usual: bool) -> Iterator[tuple[tuple[tuple[str, ...], ...], bool]]:
    """The elements of A and of B that products have, and whether they are meant where no kind is said."""
    if len(elements) == 1:
        yield (elements, elements), is_usual
        return
    *others, packed = elements
    yield (tuple(others), elements), True
    yield ((packed,), tuple(others)), True
    yield ((packed,), (packed,)), False


def _of_cells(name: str, *, write: bool) -> Access:
    return Access(name, "tmem", 4, write=write, proxy="tmem", computed=True)


def _effects(way: ProductForm) -> Iterator[Access | Issue | Keeps]:
    yield _of_cells("a", write=False) if way.in_tmem else access_of_unit("a", "shared", write=False)
    yield access_of_unit("b_desc", "shared", write=False)
    yield _of_cells("before", write=False)
    yield from (_of_cells(name, write=False) for name in way.cells if name != "a")
    yield _of_cells("d", write=True)
    yield Issue("tmem", in_order_after=EARLIER, alike=("d", "shape"))
    yield Keeps("b_desc" if way.keeps_b else "a", "collector")


def _modifiers(variety: Variety, way: ProductForm) -> dict[str, Spellings]:
    row = PRODUCT_KINDS[variety.kind]
    left, right = variety.elements or (tuple(row.elements),) * 2
    modifiers: dict[str, Spellings] = {
        "collector": {word: f".collector::{word}" if word else "" for word in collector_words(keeps_b=way.keeps_b)},
        "cta_group": {1: CTA_GROUP[1]} if way.keeps_b else CTA_GROUP,
        "a_dtype": {element: f".kind::{variety.kind}" for element in left},
        "b_dtype": dict.fromkeys(right, ""),
        "d_dtype": dict.fromkeys(row.results, ""),
        "use_a_tmem": {way.in_tmem: ""},
    }
    if variety.sf_dtype:
        types: Spellings = {variety.sf_dtype: ""}
        return modifiers | {"scale_vec": variety.words, "kind": variety.kinds, "sfa_dtype": types, "sfb_dtype": types}
    if way.shifts:
        modifiers["collector"] = {word: text for word, text in modifiers["collector"].items() if word not in UNSHIFTED}
    if way.keeps_b:
        modifiers[ZERO_MASK] = GIVEN if ZERO_MASK in way.extras else LEFT_OUT
    elif not way.sparse:
        modifiers["ashift"] = {way.shifts: ".ashift" if way.shifts else ""}
    if not way.keeps_b:
        modifiers |= {"scale_input_d": variety.scales, "lanes": GIVEN if "lanes" in way.extras else LEFT_OUT}
    return modifiers


def _pattern(row: Variety, way: ProductForm) -> str:
    listed = ["[{d}]", "[{a}]" if way.in_tmem else "{a}", "{b_desc}", *("[{sp_meta}]",) * way.sparse, "{i_desc}"]
    listed += ["[{sfa}]", "[{sfb}]"] if row.sf_dtype else []
    listed += ["{lanes}"] * ("lanes" in way.extras) + ["p"] + ["{scale_input_d}"] * (row.scales is SCALES)
    listed += [f"{{{ZERO_MASK}}}"] * (ZERO_MASK in way.extras)
    is_guarded = "pred" in way.extras
    guard, issues = (".reg .pred q; setp.ne.b32 q, {pred}, 0; ", "@q ") if is_guarded else ("", "")
    return f"{{{{ {ADDS}{guard}{issues}{{mnemonic}} {', '.join(listed)}; }}}}"


def _forms(name: str, varieties: Iterator[Variety], *, masks: bool = False, guards: bool = False) -> Iterator[Form]:
    sparse, keeps_b = "sp" in name.split("."), "ws" in name.split(".")
    more = BOTH if keeps_b or name == "mma" else BOTH[:1]
    for row, in_tmem, masked, guarded, other in combined(varieties, BOTH, BOTH[: 1 + masks], BOTH[: 1 + guards], more):
        if other and not (keeps_b or in_tmem):
            continue
        extras = (*("lanes",) * masked, "enable_input_d", *("pred",) * guarded, *(ZERO_MASK,) * (other and keeps_b))
        way = ProductForm(row.kind, extras, sparse, keeps_b, in_tmem, other and not keeps_b)
        mods = _modifiers(row, way)
        if guards:
            mods["pred"] = GIVEN if guarded else LEFT_OUT
        scales, shift = ".block_scale{scale_vec}" if row.sf_dtype else "", "{ashift}" if "ashift" in mods else ""
        opcode = ".".join(word for word in name.split(".") if word != "block_scale")
        unconfirmed = SCALED_UNCONFIRMED if scales else SPARSE_UNCONFIRMED if sparse else UNCONFIRMED
        yield Form(
            Ptx(
                f"tcgen05.{opcode}{{cta_group}}{{a_dtype}}{shift}{scales}{{collector}}",
                mods,
                pattern=_pattern(row, way),
            ),
            row.archs,
            f"{SOURCE.format('tcgen05.mma')}; unconfirmed: {unconfirmed}",
            AsyncMeaning(
                partial(product, way=way),
                addresses=partial(addresses, way=way),
                takes=("i_desc", "shape", *(ZERO_MASK,) * (ZERO_MASK in extras)),
                passes=tuple(name for name in PASSED if name in mods),
                unlisted=partial(unlisted, way=way) if sparse else None,
            ),
            effects=tuple(_effects(way)),
            registers=_masks if masks else 1,
        )


TYPES = ("d_dtype", "a_dtype", "b_dtype")
CHOICES = {"use_a_tmem": False, "cta_group": 1, "enable_input_d": True, "collector": ""}
D, I_DESC = reads("d", "tmem"), counts("i_desc")
A = Operand("a", "bits", of=lambda mods: "u32" if mods["use_a_tmem"] else "u64")
B = counts("b_desc", "b64")
METADATA, SFA, SFB = reads("sp_meta", "tmem"), reads("sfa", "tmem"), reads("sfb", "tmem")
ZERO_COLUMNS = counts(ZERO_MASK, "b64")
MASKS = Operand("lanes", "b32", many=True, counts=True, optional=True)
ADDED, GUARD = reads("enable_input_d", "pred"), reads("pred", "pred")
OF_SCALES = {"sfa_dtype": REQUIRED, "sfb_dtype": REQUIRED, "scale_vec": None, "kind": None}

instruction(
    "ptx.tcgen05.mma",
    params=("d", "a", "b_desc", "i_desc", "*lanes"),
    keywords={**dict.fromkeys(TYPES, REQUIRED), **CHOICES, "scale_input_d": 0, "pred": None, "ashift": False},
    operands=(D, A, B, I_DESC, MASKS, ADDED, GUARD),
    agrees="cta_group",
    doc="A thread has D += A * B computed into tensor memory; ``i_desc`` says which product, `commit` when it is done.",
    forms=tuple(_forms("mma", _plain(scaling=True), masks=True, guards=True)),
)
instruction(
    "ptx.tcgen05.mma.block_scale",
    params=("d", "a", "b_desc", "sfa", "sfb", "i_desc"),
    keywords={**dict.fromkeys(TYPES, REQUIRED), **OF_SCALES, **CHOICES, "pred": None},
    operands=(D, A, B, SFA, SFB, I_DESC, ADDED, GUARD),
    agrees="cta_group",
    doc="A thread has D += A * B computed, each block of A's rows and B's columns along K times its scale in tensor "
    "memory; ``scale_vec`` says how long blocks are, ``kind`` which product of 4-bit elements it is.",
    forms=tuple(_forms("mma.block_scale", _with_scales(sparse=False), guards=True)),
)
instruction(
    "ptx.tcgen05.mma.sp",
    params=("d", "a", "b_desc", "sp_meta", "i_desc", "*lanes"),
    keywords={**dict.fromkeys(TYPES, REQUIRED), **CHOICES, "scale_input_d": 0},
    operands=(D, A, B, METADATA, I_DESC, MASKS, ADDED),
    agrees="cta_group",
    doc="A thread has D += A * B computed; A has half of its elements, metadata in tensor memory say which.",
    forms=tuple(_forms("mma.sp", _plain(scaling=True), masks=True)),
)
instruction(
    "ptx.tcgen05.mma.sp.block_scale",
    params=("d", "a", "b_desc", "sp_meta", "sfa", "sfb", "i_desc"),
    keywords={**dict.fromkeys(TYPES, REQUIRED), **OF_SCALES, **CHOICES},
    operands=(D, A, B, METADATA, SFA, SFB, I_DESC, ADDED),
    agrees="cta_group",
    doc="The same with a scale for each block along K; a block spans twice as many elements of the full A.",
    forms=tuple(_forms("mma.sp.block_scale", _with_scales(sparse=True))),
)
for _name, _operands in (("mma.ws", (D, A, B)), ("mma.ws.sp", (D, A, B, METADATA))):
    instruction(
        f"ptx.tcgen05.{_name}",
        keywords={**dict.fromkeys(TYPES, REQUIRED), **CHOICES, ZERO_MASK: None},
        operands=(*_operands, I_DESC, ADDED, ZERO_COLUMNS),
        agrees="cta_group",
        doc="A thread has D += A * B computed, with B's columns kept for later products; M is 32, 64 or 128.",
        forms=tuple(_forms(_name, _plain(scaling=False))),
    )
