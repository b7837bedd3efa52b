"""Matrices in registers, as products and matrix copies have them: which lane holds which element, and what elements are
widened to.

With this, products that follow each other on fragments side by side are one product of larger matrices.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import dtype
from tilewright.errors import InstructionError, choices
from tilewright.isa.effects import Mods
from tilewright.isa.machine import Lanes
from tilewright.layout import S, TileLayout, laneid, mma_fragment_layout

__all__ = [
    "Accumulator",
    "Floats",
    "MatrixProduct",
    "Patterns",
    "Spots",
    "float_product",
    "matrix_fragment",
    "mma_fragment",
    "mma_shape",
    "spots_of",
    "widened",
]

# Narrow numbers as float32: what a matrix product does to its operands before it multiplies.


Floats = NDArray[np.float32]
Patterns = NDArray[np.unsignedinteger[Any]]

_REBIAS = np.float32(2.0**112)  # float32's exponents count from -127, those of float16 from -15
_WITHOUT_COPIES = np.int32(-0x70002000)  # 0x8FFFE000: the sign, and 15 bits from bit 13 on


def widened(patterns: Patterns, kind: str) -> Floats:
    """The value of each bit pattern of a dtype, in an array of its own. Nothing is rounded.

    patterns: unsigned integers as wide as the dtype; of "tf32" the low 13 of 32 bits do not take part.
    """
    if kind == "float16":
        return _from_halves(patterns)
    if kind == "bfloat16":  # the upper half of a float32
        return (patterns.astype(np.uint32) << 16).view(np.float32)
    if kind == "tf32":
        return (patterns & np.uint32(0xFFFFE000)).view(np.float32)
    return _values(kind).take(patterns)


def _from_halves(patterns: Patterns) -> Floats:
    """Exponent and mantissa moved to where float32 has them, then the exponent set right by a multiplication.

    Infinities and NaNs would become numbers, so that arrays with one are looked up in a table of all values.
    """
    signed = patterns.view(np.int16)
    if patterns.size and (signed.max() >= 0x7C00 or patterns.max() >= 0xFC00):
        return _values("float16").take(patterns)
    wide = signed.astype(np.int32)
    wide <<= 13
    wide &= _WITHOUT_COPIES
    values = wide.view(np.float32)
    values *= _REBIAS
    return values


@cache
def _values(kind: str) -> Floats:
    """The float32 value of each bit pattern of a dtype of 8 or 16 bits."""
    narrow = dtype(kind)
    patterns = np.arange(1 << narrow.bits, dtype=np.dtype(f"u{narrow.bits // 8}"))
    return patterns.view(narrow.numpy).astype(np.float32)


# Which lane holds which element of a matrix: the fragments of mma and of the matrix copies, as layouts.
#
# The lanes of a warp are 8 groups of 4: lane 4g+t. A register holds neighbours: two halves, four bytes or one word.
# Every fragment here is g along one dimension and t (times what a register holds) along the other. Source: PTX ISA,
# "Matrix Fragments for mma.m16n8k..." and "Warp-level matrix load instruction: ldmatrix".


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


Spots = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class MatrixProduct:
    """D = A * B + C, of any size along rows, columns and K: in exact products, summed in float32 in any order.

    left: (rows, K), right: (columns, K), total: (rows, columns): for each element its *spot*, which counts through the
    operand's registers, in each of them through the lanes, in each lane through the elements of the register.
    left_kind, right_kind: the dtypes of A and B, in float32's place "tf32"; C and D are float32.
    """

    left: Spots
    right: Spots
    total: Spots
    left_kind: str
    right_kind: str


@dataclass(frozen=True, eq=False, slots=True)
class Accumulator:
    """The matrix in the registers that an operation of warps updates.

    total: (rows, columns), for each element of a warp's part of it the register, times 32, and the lane. ``add(matrix,
    *found, *values, **keywords)`` is `AsyncMeaning.execute` on (n, rows of all warps, columns), in place; of sources
    that the issuers of a CTA have in common ``found`` has one row for these. element: of the matrix.
    """

    total: Spots
    element: np.dtype[Any]
    add: Callable[..., None]


def float_product(shape: str, left_kind: str, right_kind: str) -> MatrixProduct:
    """The product that ``mma.sync`` computes with sums in float32."""
    m, n, k = mma_shape(shape)
    return MatrixProduct(
        spots_of(mma_fragment(shape, "A", left_kind), (m, k), 32 // dtype(left_kind).bits),
        spots_of(mma_fragment(shape, "B", right_kind), (k, n), 32 // dtype(right_kind).bits).T,
        spots_of(mma_fragment(shape, "C", "float32"), (m, n), 1),
        left_kind,
        right_kind,
    )


def spots_of(fragment: TileLayout, shape: tuple[int, int], per_register: int) -> Spots:
    """A fragment's elements: its slots count the elements of a lane, the low bits of the first register first."""
    table = fragment.table(shape)
    lane, slot = (np.asarray(table[axis])[..., 0].astype(np.int64) for axis in ("laneid", "m"))
    return (slot // per_register * 32 + lane) * per_register + slot % per_register


# Matrices that a warp holds in registers, of any shape of ``mma`` and any width of elements: put together, and taken
# apart.
#
# Lane 4g+t holds the rows g (and g+8 of 16) of A, C and D, and the column g of B; a register holds neighbours along K.
# Source: PTX ISA, "Matrix Fragments for mma.m8n8k...", "... for mma.m16n8k...", "Alternate Floating Point Data
# Formats".


Matrix = NDArray[Any]


class RegisterElement(NamedTuple):
    """Elements of a register. bits: of one, in its container. word: of the register. values: of each pattern."""

    bits: int
    word: str = "u4"
    values: Any = None

    @property
    def per_register(self) -> int:
        """Elements of a register."""
        return max(1, 32 // self.bits)


def _counting(bits: int, *, signed: bool) -> Matrix:
    """The number that each pattern of so many bits is."""
    patterns = np.arange(1 << bits)
    return np.where(signed & (patterns >> bits - 1 == 1), patterns - (1 << bits), patterns).astype(np.float32)


def _contained(kind: Any, bits: int, shift: int) -> Matrix:
    """The number in each byte that contains a narrow float, some bits up."""
    narrow = (np.arange(256) >> shift & (1 << bits) - 1).astype(np.uint8)
    values: Matrix = narrow.view(kind).astype(np.float32)
    return values


ELEMENTS = {
    "f64": RegisterElement(64, "u8"),
    "f32": RegisterElement(32),
    "s32": RegisterElement(32),
    "tf32": RegisterElement(32),
    "f16": RegisterElement(16),
    "bf16": RegisterElement(16),
    "e4m3": RegisterElement(8),
    "e5m2": RegisterElement(8),
    **{f"{letter}{bits}": RegisterElement(bits, values=_counting(bits, signed=letter == "s"))
       for letter in "su" for bits in (8, 4)},
    "b1": RegisterElement(1, values=_counting(1, signed=False)),
    "e2m1": RegisterElement(8, values=_contained(ml_dtypes.float4_e2m1fn, 4, 2)),
    "e2m3": RegisterElement(8, values=_contained(ml_dtypes.float6_e2m3fn, 6, 0)),
    "e3m2": RegisterElement(8, values=_contained(ml_dtypes.float6_e3m2fn, 6, 0)),
}  # fmt: skip
"""PTX's words for the elements of a matrix. Those of 4 and 6 bits beside 8-bit ones have a byte each."""

WIDENED = {"f16": "float16", "bf16": "bfloat16", "tf32": "tf32", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}
PLAIN = {"f64": np.float64, "f32": np.float32, "s32": np.int32}


def extents(shape: str) -> tuple[int, int, int]:
    """M, N and K of "m16n8k16"."""
    m, n, k = (int(number) for number in shape[1:].replace("n", "k").split("k"))
    return m, n, k


def fragment(operand: str, rows: int, columns: int, per_register: int) -> TileLayout:
    """The lane that holds each element of "A", "B" or "C" (also D); slots count elements, those of the first register
    first.

    >>> print(fragment("A", 8, 32, 8))
    S[(1, 8, 1, 4, 8):(8, 4@laneid, 8, 1@laneid, 1)]
    """
    g, t, per = 4 @ laneid, 1 @ laneid, per_register
    halves, units = max(1, rows // 8), max(1, columns // (4 * per))
    return {
        "A": S[(halves, 8, units, 4, per) : (per, g, halves * per, t, 1)],
        "B": S[(max(1, rows // (4 * per)), 4, per, 8) : (per, t, 1, g)],
        "C": S[(halves, 8, 4, 2) : (2, g, t, 1)],
    }[operand]


@cache
def _places(operand: str, rows: int, columns: int, per_register: int) -> Matrix:
    """The place of each element: registers count first, then lanes, then the elements of a register."""
    return spots_of(fragment(operand, rows, columns, per_register), (rows, columns), per_register)


@cache
def _order(rows: int, columns: int, per_register: int) -> Matrix:
    """The element of each place of C."""
    return np.argsort(_places("C", rows, columns, per_register), axis=None)


class HeldMatrix(NamedTuple):
    """A matrix in registers. operand: whose fragment it has, "A", "B" or "C". kind: of its elements."""

    operand: str
    rows: int
    columns: int
    kind: str

    @property
    def registers(self) -> int:
        """The registers of a lane."""
        return self.rows * self.columns // (32 * ELEMENTS[self.kind].per_register)

    def matrix(self, words: Lanes) -> Matrix:
        """(..., registers, 32) as (..., rows, columns) values; nothing is rounded."""
        values = numbers(words, self.kind)
        places = _places(self.operand, self.rows, self.columns, ELEMENTS[self.kind].per_register)
        return values.reshape(*values.shape[:-3], -1).take(places, axis=-1)


def numbers(words: Lanes, kind: str) -> Matrix:
    """(..., elements of a register) values of registers."""
    element = ELEMENTS[kind]
    registers = np.ascontiguousarray(words)[..., None]
    if kind in PLAIN:
        return registers.view(PLAIN[kind])
    if element.bits < 8:
        parts = registers >> np.arange(0, 32, element.bits, dtype=np.uint32) & ((1 << element.bits) - 1)
        values: Matrix = element.values.take(parts)
        return values
    patterns = registers.view(f"u{element.bits // 8}")
    return widened(patterns, WIDENED[kind]) if kind in WIDENED else element.values.take(patterns)


def dealt_out(matrix: Matrix, kind: str) -> Lanes:
    """(..., rows, columns) of D as (..., registers, 32)."""
    element = ELEMENTS[kind]
    rows, columns = matrix.shape[-2:]
    flat = matrix.reshape(*matrix.shape[:-2], -1).take(_order(rows, columns, element.per_register), axis=-1)
    words = np.ascontiguousarray(flat).view(element.word)
    return words.reshape(*words.shape[:-1], -1, 32)


def sides_of(mods: Mods) -> dict[str, HeldMatrix]:
    """The elements of each operand."""
    m, n, k = extents(str(mods["shape"]))
    d, a, b, c = str(mods["types"]).split(".")
    return {
        "d": HeldMatrix("C", m, n, d),
        "a": HeldMatrix("A", m, k, a),
        "b": HeldMatrix("B", k, n, b),
        "c": HeldMatrix("C", m, n, c),
    }


def _registers(operand: str, mods: Mods) -> int:
    return sides_of(mods)[operand].registers


REGISTERS: Mapping[str, Callable[[Mods], int]] = {name: partial(_registers, name) for name in "dabc"}
