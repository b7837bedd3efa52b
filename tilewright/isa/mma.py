"""mma.sync: a warp multiplies a 16 x K by a K x 8 matrix and adds a 16 x 8 one, all three spread over its registers.

Floats: exact products, summed in float32 in an unspecified order, rounded once more for a float16 result; compare with
a tolerance. Integers are exact and wrap in int32, or saturate.
Source: PTX ISA, "Warp-level Matrix Instructions: mma" and "Matrix Fragments for mma.m16n8k...".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import dtype
from tilewright.ir import Argument
from tilewright.isa.arch import Requirement, since
from tilewright.isa.machine import Lanes
from tilewright.isa.products import Floats, MatrixProduct, Patterns, float_product, widened
from tilewright.isa.table import (
    WHOLE_WARP,
    Form,
    Instruction,
    Meaning,
    Mods,
    Ptx,
    Spellings,
    instruction,
    reads,
    writes,
)
from tilewright.isa.types import ELEMENTS
from tilewright.isa.warp_matrices import REGISTERS
from tilewright.records import replace

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
