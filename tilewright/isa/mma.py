"""Products of matrices in registers, mma.sync: which lane holds which element, what elements are widened to, and the
rows, dense and sparse.

Products that follow each other on fragments side by side are one product of larger matrices.

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
from tilewright.ir import Argument
from tilewright.isa.arch import Requirement, since, suffixed
from tilewright.isa.forms import ELEMENTS, Form, Meaning, Mods, Ptx, Spellings, Unlisted, reads, spoken, writes
from tilewright.isa.machine import Lanes
from tilewright.isa.scalar.floats import arithmetic
from tilewright.isa.table import WHOLE_WARP, Bound, Instruction, instruction, single
from tilewright.layout import S, TileLayout, laneid, mma_fragment_layout
from tilewright.records import replace

__all__ = [
    "Accumulator", "Floats", "MatrixProduct", "Patterns", "ProductShape", "Spots", "float_product", "matrix_fragment",
    "mma_fragment", "mma_shape", "product_of", "spots_of", "widened",
]  # fmt: skip


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


REGISTER_ELEMENTS = {
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


class ProductShape(NamedTuple):
    """Extents of the matrices that one instruction multiplies, and bits of an element of A."""

    m: int
    n: int
    k: int
    bits: int


def product_of(bound: Bound) -> ProductShape | None:
    """The product of a call whose modifiers say its shape; None of others: of tcgen05.mma a descriptor says it."""
    mods = bound.mods
    if "shape" in mods and "types" in mods:
        return ProductShape(*extents(str(mods["shape"])), REGISTER_ELEMENTS[str(mods["types"]).split(".")[1]].bits)
    if "in_dtype" not in mods:
        return None
    kind, (m, n, k) = str(mods["in_dtype"]), (int(str(mods[name])) for name in "MNK")
    return ProductShape(m, n, k, {"tf32": 32, "b1": 1}.get(kind) or dtype(kind).bits)


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
        return self.rows * self.columns // (32 * REGISTER_ELEMENTS[self.kind].per_register)

    def matrix(self, words: Lanes) -> Matrix:
        """(..., registers, 32) as (..., rows, columns) values; nothing is rounded."""
        values = numbers(words, self.kind)
        places = _places(self.operand, self.rows, self.columns, REGISTER_ELEMENTS[self.kind].per_register)
        return values.reshape(*values.shape[:-3], -1).take(places, axis=-1)


def numbers(words: Lanes, kind: str) -> Matrix:
    """(..., elements of a register) values of registers."""
    element = REGISTER_ELEMENTS[kind]
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
    element = REGISTER_ELEMENTS[kind]
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


# mma.sync: a warp multiplies a 16 x K by a K x 8 matrix and adds a 16 x 8 one, all three spread over its registers.
#
# Floats: exact products, summed in float32 in an unspecified order, rounded once more for a float16 result; compare
# with a tolerance. Integers are exact and wrap in int32, or saturate. Source: PTX ISA, "Warp-level Matrix Instructions:
# mma" and "Matrix Fragments for mma.m16n8k...".


SOURCE = 'PTX ISA, "Warp-level Matrix Instructions: mma"'


def _as_floats(words: Lanes, element: str) -> Floats:
    """(..., words) as (..., elements), the low bits of a word first."""
    kind = ELEMENTS[element]
    patterns: Patterns = np.ascontiguousarray(words).view(f"u{dtype(kind).bits // 8}")
    return widened(patterns, kind)


def _along_k(registers: Lanes, rows: int, element: str) -> Floats:
    """(..., count, 32) registers of A or B as rows x K: the four lanes of a row hold 16 bytes along K.

    The registers' numbers count rows in steps of 8 first, then steps of 16 bytes.
    """
    units = np.ascontiguousarray(registers, np.uint32).view("V16").reshape(*registers.shape[:-2], -1, rows)
    words = np.stack(tuple(np.moveaxis(units, -2, 0)), axis=-1).view(np.uint32)
    return _as_floats(words, element)


def _accumulated(product: Floats, c: Lanes, element: str) -> NDArray[Any]:
    """A product, 16 x 8, added to the registers of C in their own order."""
    if element == "f16":  # a register holds two neighbours of a row
        halves = np.ascontiguousarray(c).view(np.float16)
        return (product.reshape(halves.shape) + halves.astype(np.float32)).astype(np.float16)
    pairs = product.reshape(*product.shape[:-2], 2, 32, 2).swapaxes(-1, -2)  # half of the rows, column, lane
    exact = element == "s32"  # 32 products of 8-bit numbers stay below 2**24
    before = np.ascontiguousarray(c).view(np.int32 if exact else np.float32).reshape(*c.shape[:-2], 2, 2, 32)
    total: NDArray[Any] = np.add(pairs.astype(np.int64) if exact else pairs, before, order="C")
    return total.reshape(*total.shape[:-3], 4, 32)


def matrix_product(a: Lanes, b: Lanes, c: Lanes, *, shape: str, types: str, saturate: bool) -> Lanes:
    """D = A * B + C. Registers are (..., count, 32) uint32, by the layouts of `mma_fragment`."""
    result, left, right, _ = types.split(".")
    product = _along_k(a, 16, left) @ _along_k(b, 8, right).swapaxes(-1, -2)
    total = _accumulated(product, c, result)
    if result == "s32":
        bounds = np.iinfo(np.int32)
        total = (np.clip(total, bounds.min, bounds.max) if saturate else total).astype(np.int32)
    return total.view(np.uint32)


@cache
def _product(shape: str, types: str) -> MatrixProduct | None:
    result, left, right, _ = types.split(".")
    return float_product(shape, ELEMENTS[left], ELEMENTS[right]) if result == "f32" else None


def _as_product(mods: Mods) -> MatrixProduct | None:
    """The product, if larger ones may replace it: only sums in float32, which instructions do not round or wrap."""
    return _product(str(mods["shape"]), str(mods["types"]))


def pairs_of(result: str, *kinds: str) -> tuple[str, ...]:
    """All types of products whose D and C are of one type: ``s32.s8.u8.s32``."""
    return tuple(f"{result}.{a}.{b}.{result}" for a in kinds for b in kinds)


HALVES = ("f32.f16.f16.f32", "f16.f16.f16.f16")
BFLOAT = ("f32.bf16.bf16.f32",)
TF32 = ("f32.tf32.tf32.f32",)
BYTES = pairs_of("s32", "s8", "u8")
FLOAT8 = (*pairs_of("f32", "e4m3", "e5m2"), *pairs_of("f16", "e4m3", "e5m2"))
SATURATE: Spellings = {False: "", True: ".satfinite"}


def saturation(types: tuple[str, ...]) -> Spellings:
    """Sums of integers alone may be clamped."""
    return SATURATE if types[0].startswith("s32") else {False: ""}


def mma_row(
    name: str,
    text: str,
    products: tuple[tuple[str, tuple[str, ...], Requirement], ...],
    meaning: Meaning,
    doc: str,
    more: Mapping[str, tuple[Argument, Spellings]],
    *,
    register: str = "b32",
) -> Instruction:
    """A row whose forms are shapes and types. more: further modifiers with their defaults; ``meaning`` gets all."""
    meaning = replace(meaning, passes=("shape", "types", *more))

    def form(shape: str, types: tuple[str, ...], first: Requirement) -> Form:
        modifiers: dict[str, Spellings] = {
            "shape": {shape: f".{shape}"},
            "types": {kind: f".{kind}" for kind in types},
            **{key: spelled for key, (_, spelled) in more.items()},
        }
        if "saturate" in more:
            modifiers["saturate"] = saturation(types)
        return Form(Ptx(text, modifiers), first, SOURCE, meaning, registers=REGISTERS)

    return instruction(
        name,
        params=("shape", "types", "d", "a", "b", "c"),
        keywords={key: default for key, (default, _) in more.items()},
        operands=(writes("*d", register), *(reads(f"*{letter}", register) for letter in "abc")),
        lanes=WHOLE_WARP,
        doc=doc,
        forms=tuple(form(*product) for product in products),
    )


MMA = mma_row(
    "ptx.mma",
    "mma.sync.aligned{shape}.row.col{saturate}{types}",
    (
        ("m16n8k8", HALVES, since("sm_75")),
        ("m16n8k8", BFLOAT, since("sm_80")),
        ("m16n8k16", (*HALVES, *BFLOAT), since("sm_80")),
        ("m16n8k4", TF32, since("sm_80")),
        ("m16n8k8", TF32, since("sm_80")),
        ("m16n8k16", BYTES, since("sm_80")),
        ("m16n8k32", BYTES, since("sm_80")),
        ("m16n8k16", FLOAT8, since("sm_89")),
        ("m16n8k32", FLOAT8, since("sm_89")),
    ),
    Meaning(matrix_product, product=_as_product),
    "A warp computes D = A * B + C on matrices in its registers; ``types`` names the elements of D, A, B and C.",
    {"saturate": (False, SATURATE)},
)

# mma.sync beyond 16-bit floats and bytes: float64, four bits and single bits, 8 x 8 matrices, narrow floats of
# sm_120.
#
# Integers are exact and wrap in int32, or saturate. float64: one fused multiply-add after the other along K, from C
# on, each rounded as the instruction says; that the hardware goes in this order PTX does not say. Narrow floats:
# exact products, summed in float32 in an order that nobody specifies. Source: PTX ISA, "Warp-level Matrix
# Instructions: mma", "Matrix Fragments for mma.m8n8k4 with .f64", "... m16n8k256".


def added(product: Matrix, before: Matrix, kind: str, *, saturate: bool = False) -> Matrix:
    """Exact products added to C: in int32, wrapped or clamped; in float32, rounded once more for a float16 result."""
    if kind != "s32":
        total = product + before.astype(np.float32)
        return total.astype(np.float16) if kind == "f16" else total
    exact = product.astype(np.int64) + before
    bounds = np.iinfo(np.int32)
    return (exact.clip(bounds.min, bounds.max) if saturate else exact).astype(np.int32)


def _joined(a: Lanes, b: Lanes, c: Lanes, mods: Mods) -> tuple[Matrix, Matrix, Matrix]:
    sides = sides_of(mods)
    return sides["a"].matrix(a), sides["b"].matrix(b), sides["c"].matrix(c)


def _multiplied(a: Lanes, b: Lanes, c: Lanes, *, saturate: bool = False, **mods: Argument) -> Lanes:
    """Products of integers and narrow floats are exact in float32, sums of integers too."""
    left, right, before = _joined(a, b, c, mods)
    kind = str(mods["types"]).split(".")[0]
    return dealt_out(added(left @ right, before, kind, saturate=saturate), kind)


def _bits(a: Lanes, b: Lanes, c: Lanes, *, op: str, **mods: Argument) -> Lanes:
    """How many bits of a row and a column are set in both, or differ: those of each, less twice those of both."""
    left, right, before = _joined(a, b, c, mods)
    both = left @ right
    if op == "xor":
        both = left.sum(-1)[..., :, None] + right.sum(-2)[..., None, :] - 2 * both
    return dealt_out(added(both, before, "s32"), "s32")


def chain(left: Matrix, right: Matrix, before: Matrix, rounding: str | None) -> Matrix:
    """One multiply-add after the other along K."""
    fused = arithmetic("fma")(type="f64", rnd=rounding or "rn")
    total = before
    for k in range(left.shape[-1]):
        total = fused(left[..., :, k, None], right[..., None, k, :], total)
    return total


def _doubles(a: Lanes, b: Lanes, c: Lanes, *, rnd: str | None, **mods: Argument) -> Lanes:
    return dealt_out(chain(*_joined(a, b, c, mods), rnd), "f64")


NIBBLES = pairs_of("s32", "s4", "u4")
NARROW = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
NARROW_TYPES = (*pairs_of("f32", *NARROW), *pairs_of("f16", *NARROW))

mma_row(
    "ptx.mma.integer",
    "mma.sync.aligned{shape}.row.col{saturate}{types}",
    (
        ("m8n8k16", BYTES, since("sm_75")),
        ("m8n8k32", NIBBLES, since("sm_75")),
        ("m16n8k32", NIBBLES, since("sm_80")),
        ("m16n8k64", NIBBLES, since("sm_80")),
    ),
    Meaning(_multiplied),
    "A warp computes D = A * B + C on 4-bit integers, or on bytes of 8 rows.",
    {"saturate": (False, SATURATE)},
)
for _op, _first in (("xor", "sm_75"), ("and", "sm_80")):
    mma_row(
        f"ptx.mma.{spoken(_op)}",
        "mma.sync.aligned{shape}.row.col{types}{op}.popc",
        (
            ("m8n8k128", ("s32.b1.b1.s32",), since(_first)),
            ("m16n8k128", ("s32.b1.b1.s32",), since("sm_80")),
            ("m16n8k256", ("s32.b1.b1.s32",), since("sm_80")),
        ),
        Meaning(_bits),
        f"A warp adds to C how many bits are set in the {_op} of each row of A with each column of B.",
        {"op": (_op, {_op: f".{_op}"})},
    )
mma_row(
    "ptx.mma.f64",
    "mma.sync.aligned{shape}.row.col{rnd}{types}",
    (
        ("m8n8k4", ("f64.f64.f64.f64",), since("sm_80")),
        *((f"m16n8k{k}", ("f64.f64.f64.f64",), since("sm_90")) for k in (4, 8, 16)),
    ),
    Meaning(_doubles),
    "A warp computes D = A * B + C in float64, each multiply-add along K rounded once.",
    {"rnd": (None, {None: "", **{word: f".{word}" for word in ("rn", "rz", "rm", "rp")}})},
    register="f64",
)
mma_row(
    "ptx.mma.f8f6f4",
    "mma.sync.aligned{shape}.row.col{kind}{types}",
    (
        ("m16n8k32", FLOAT8, suffixed(100, 103, 110, 120, 121)),
        ("m16n8k32", tuple(kind for kind in NARROW_TYPES if kind not in FLOAT8), suffixed(120, 121)),
    ),
    Meaning(_multiplied),
    "A warp computes D = A * B + C on floats of 4, 6 and 8 bits, a byte each: those of 4 bits in bits 2 to 5.",
    {"kind": ("f8f6f4", {"f8f6f4": ".kind::f8f6f4"})},
)

# mma.m8n8k4 on float16: four products of 8 x 4 by 4 x 8 matrices, each held by four lanes and the four 16 further on.
#
# Exact products, summed in float32 in an order that nobody specifies, rounded once more for a float16 result. Source:
# PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f16 floating point type".

Place = Callable[[Matrix, Matrix, Matrix], tuple[Matrix, Matrix]]
PLACES: Mapping[tuple[str, str], tuple[int, Place]] = {
    ("a", "row"): (4, lambda t, upper, i: (t + 4 * upper, i)),
    ("a", "col"): (4, lambda t, upper, i: (i + 4 * upper, t)),
    ("b", "row"): (4, lambda t, upper, i: (t, i + 4 * upper)),
    ("b", "col"): (4, lambda t, upper, i: (i, t + 4 * upper)),
    ("c", "f16"): (8, lambda t, upper, i: (t + 4 * upper, i)),
    ("c", "f32"): (8, lambda t, upper, i: ((t & 1) + (i & 2) + 4 * upper, (i & 4) + (t & 2) + (i & 1))),
}
"""Elements of a lane; row and column of element i of lane t of four, of the upper four or not."""
SIZES = {"a": (8, 4), "b": (4, 8), "c": (8, 8)}


@cache
def _spots(operand: str, way: str, per_register: int) -> Matrix:
    """(products, rows, columns): where each element is, through registers, in each the lanes, in each the elements."""
    count, place = PLACES[operand, way]
    lane, i = np.meshgrid(np.arange(32), np.arange(count), indexing="ij")
    row, column = np.broadcast_arrays(*place(lane % 4, lane // 16, i))
    spots = np.empty((4, *SIZES[operand]), np.int64)
    spots[lane % 16 // 4, row, column] = (i // per_register * 32 + lane) * per_register + i % per_register
    return spots


def _matrices(operand: str, way: str, words: Lanes, kind: str) -> Matrix:
    values = numbers(words, kind)
    return values.reshape(*values.shape[:-3], -1).take(
        _spots(operand, way, REGISTER_ELEMENTS[kind].per_register), axis=-1
    )


def quad_products(a: Lanes, b: Lanes, c: Lanes, *, a_layout: str, b_layout: str, types: str) -> Lanes:
    """D = A * B + C, four times. Registers are (..., count, 32) uint32."""
    d, *_, before = types.split(".")
    product = _matrices("a", a_layout, a, "f16") @ _matrices("b", b_layout, b, "f16")
    total = added(product, _matrices("c", before, c, before), d)
    per_register = REGISTER_ELEMENTS[d].per_register
    order = np.argsort(_spots("c", d, per_register), axis=None)
    words = np.ascontiguousarray(total.reshape(*total.shape[:-3], -1).take(order, axis=-1)).view(np.uint32)
    return words.reshape(*words.shape[:-1], -1, 32)


WAYS: Spellings = {"row": ".row", "col": ".col"}
COUNTS = {"f16": 4, "f32": 8}
TYPES = ("f16.f16.f16.f16", "f32.f16.f16.f32", "f32.f16.f16.f16")

single(
    "ptx.mma.quads",
    Ptx(
        "mma.sync.aligned.m8n8k4{a_layout}{b_layout}{types}",
        {"a_layout": WAYS, "b_layout": WAYS, "types": {kind: f".{kind}" for kind in TYPES}},
    ),
    since("sm_75"),
    SOURCE,
    Meaning(quad_products, passes=("a_layout", "b_layout", "types")),
    params=("types", "d", "a", "b", "c"),
    keywords={"a_layout": "row", "b_layout": "col"},
    operands=(writes("*d", "b32"), *(reads(f"*{letter}", "b32") for letter in "abc")),
    lanes=WHOLE_WARP,
    doc="A warp computes four products D = A * B + C of 8 x 4 and 4 x 8 matrices of float16, each in eight lanes.",
    registers={
        "a": 2,
        "b": 2,
        "d": lambda mods: COUNTS[str(mods["types"])[:3]],
        "c": lambda mods: COUNTS[str(mods["types"])[-3:]],
    },
)

# mma.sp: a warp multiplies a matrix of which every other element is zero, and stored nowhere, by a matrix.
#
# A is held as mma holds a matrix of half its K. Metadata say where its elements belong: of every four units in a row
# of the full matrix two are stored, and two bits count the place of each. A unit is an element, two elements of 4
# bits, or half a tf32. Source: PTX ISA, "Matrix multiply-accumulate operation using mma.sp instruction with sparse
# matrix A". Its figures of the metadata are pictures: whose bits are which row's was found on an H200.


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
    k, bits = extents(str(mods["shape"]))[2], REGISTER_ELEMENTS[str(mods["types"]).split(".")[1]].bits
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
SPARSE_PLACES = tuple(code for code in range(16) if code & 3 != code >> 2)  # of two units, in any order


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
    legal = WHOLE if _units(mods)[1] < 1 else SORTED if ordered else SPARSE_PLACES
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
SPARSE_FLOAT8 = pairs_of("f32", "e4m3", "e5m2")
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
    ("m16n8k64", SPARSE_FLOAT8, since("sm_89"), 1),
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
            'PTX ISA, "Warp-level Matrix Instructions: mma.sp"',
            Meaning(_sparse, passes=("shape", "types", "selector", "saturate", "ordered"), unlisted=_unlisted),
            registers={**REGISTERS, "a": _registers_of_a, "e": 1},
        )
        for shape, types, first, selectors in PRODUCTS
    ),
)
