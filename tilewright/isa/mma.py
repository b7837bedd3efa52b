"""mma.sync: a warp multiplies a 16 x K by a K x 8 matrix and adds a 16 x 8 one, all three spread over its registers.

Floats: exact products, summed in float32 in an unspecified order, rounded once more for a float16 result; compare with
a tolerance. Integers are exact and wrap in int32, or saturate.
Source: PTX ISA, "Warp-level Matrix Instructions: mma" and "Matrix Fragments for mma.m16n8k...".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import dtype
from tilewright.isa.arch import Requirement, since
from tilewright.isa.fragments import mma_shape
from tilewright.isa.machine import Lanes
from tilewright.isa.products import MatrixProduct, float_product
from tilewright.isa.table import WHOLE_WARP, Form, Meaning, Mods, Ptx, Spellings, instruction, reads, writes
from tilewright.isa.widen import Floats, Patterns, widened

__all__ = ["DTYPES", "MMA", "matrix_product"]

SOURCE = 'PTX ISA, "Warp-level Matrix Instructions: mma"'

DTYPES = {  # PTX's name of an element -> ours
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "tf32": "tf32",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "s8": "int8",
    "u8": "uint8",
    "s32": "int32",
}


def _as_floats(words: Lanes, element: str) -> Floats:
    """(..., words) as (..., elements), the low bits of a word first."""
    kind = DTYPES[element]
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


def _registers(operand: str, mods: Mods) -> int:
    """32-bit registers of a lane: the operand's elements times their bits, over the 32 lanes."""
    m, n, k = mma_shape(str(mods["shape"]))
    d, a, b, c = str(mods["types"]).split(".")
    elements, element = {"d": (m * n, d), "a": (m * k, a), "b": (k * n, b), "c": (m * n, c)}[operand]
    return elements * dtype(DTYPES[element]).bits // (32 * 32)


@cache
def _product(shape: str, types: str) -> MatrixProduct | None:
    result, left, right, _ = types.split(".")
    return float_product(shape, DTYPES[left], DTYPES[right]) if result == "f32" else None


def _as_product(mods: Mods) -> MatrixProduct | None:
    """The product, if larger ones may replace it: only sums in float32, which instructions do not round or wrap."""
    return _product(str(mods["shape"]), str(mods["types"]))


REGISTERS: Mapping[str, Callable[[Mods], int]] = {name: partial(_registers, name) for name in "dabc"}

HALVES = ("f32.f16.f16.f32", "f16.f16.f16.f16")
BFLOAT = ("f32.bf16.bf16.f32",)
TF32 = ("f32.tf32.tf32.f32",)
BYTES = tuple(f"s32.{a}.{b}.s32" for a in ("s8", "u8") for b in ("s8", "u8"))
FLOAT8 = tuple(f"{c}.{a}.{b}.{c}" for c in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2"))
SATURATE: Spellings = {False: "", True: ".satfinite"}


def _form(shape: str, types: tuple[str, ...], first: Requirement) -> Form:
    return Form(
        Ptx(
            "mma.sync.aligned{shape}.row.col{saturate}{types}",
            {
                "shape": {shape: f".{shape}"},
                "types": {name: f".{name}" for name in types},
                "saturate": SATURATE if types == BYTES else {False: ""},
            },
        ),
        first,
        SOURCE,
        Meaning(matrix_product, passes=("shape", "types", "saturate"), product=_as_product),
        registers=REGISTERS,
    )


MMA = instruction(
    "ptx.mma",
    params=("shape", "types", "d", "a", "b", "c"),
    keywords={"saturate": False},
    operands=(writes("*d", "b32"), reads("*a", "b32"), reads("*b", "b32"), reads("*c", "b32")),
    lanes=WHOLE_WARP,
    doc="A warp computes D = A * B + C on matrices in its registers; ``types`` names the elements of D, A, B and C.",
    forms=(
        _form("m16n8k8", HALVES, since("sm_75")),
        _form("m16n8k8", BFLOAT, since("sm_80")),
        _form("m16n8k16", (*HALVES, *BFLOAT), since("sm_80")),
        _form("m16n8k4", TF32, since("sm_80")),
        _form("m16n8k8", TF32, since("sm_80")),
        _form("m16n8k16", BYTES, since("sm_80")),
        _form("m16n8k32", BYTES, since("sm_80")),
        _form("m16n8k16", FLOAT8, since("sm_89")),
        _form("m16n8k32", FLOAT8, since("sm_89")),
    ),
)
