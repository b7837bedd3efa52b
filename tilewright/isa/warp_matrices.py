"""Matrices that a warp holds in registers, of any shape of ``mma`` and any width of elements: put together, and taken
apart.

Lane 4g+t holds the rows g (and g+8 of 16) of A, C and D, and the column g of B; a register holds neighbours along K.
Source: PTX ISA, "Matrix Fragments for mma.m8n8k...", "... for mma.m16n8k...", "Alternate Floating Point Data Formats".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tilewright.isa.effects import Mods
from tilewright.isa.machine import Lanes
from tilewright.isa.products import spots_of, widened
from tilewright.layout import S, TileLayout, laneid

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
