"""PTX's words for types: how wide a register of the type is, and which numbers its bits are.

Registers have widths, instructions have types. A narrow pair (``f16x2``) is one register of bits, as is a number
that NumPy lacks. Source: PTX ISA, "Types".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from tilewright.dtypes import DType, dtype

OUTSIDE = 0x7FF7  # the NaN of what is out of bounds of a tensor, its 16 bits repeated: found on an H200

Numbers: TypeAlias = Any  # an array, or a number of NumPy: each meaning knows its dtype


@dataclass(frozen=True)  # no slots: the cached properties need a dict
class PtxType:
    """A type. name: of the dtype that a value of it has. element: of each number in it. lanes: how many there are."""

    name: str
    element: str
    lanes: int = 1

    @cached_property
    def dtype(self) -> DType:
        """The dtype of a value of this type."""
        return dtype(self.name)

    @cached_property
    def bits(self) -> int:
        """Bits of a register of this type."""
        return self.dtype.bits

    @cached_property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy dtype of one number."""
        return dtype(self.element).numpy

    @cached_property
    def unsigned(self) -> np.dtype[np.generic]:
        """The unsigned NumPy dtype of the register's bits."""
        return np.dtype(f"u{self.bits // 8}")

    @property
    def signed(self) -> bool:
        """Is it an integer with a sign?"""
        return dtype(self.element).is_signed


NUMBERS: dict[str, str] = {
    **{f"{letter}{bits}": f"{name}{bits}"
       for letter, name in (("u", "uint"), ("s", "int"), ("b", "uint")) for bits in (8, 16, 32, 64)},
    **{"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"},
}  # fmt: skip
"""The dtypes that registers hold as numbers, by PTX's word."""
ELEMENTS: dict[str, str] = {
    **NUMBERS, "tf32": "tf32", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2",
    "e2m3": "float6_e2m3fn", "e3m2": "float6_e3m2fn", "e2m1": "float4_e2m1fn",
}  # fmt: skip
"""Those of the elements of matrices."""
WORDS = {name: word for word, name in reversed(ELEMENTS.items())}
"""PTX's word for a dtype: u32 of what b32 is, too."""
TYPES: dict[str, PtxType] = {
    "pred": PtxType("bool", "bool"),
    **{word: PtxType(name, name) for word, name in NUMBERS.items()},
    "b128": PtxType("uint64x2", "uint64", 2),
    "tf32": PtxType("uint32", "uint32"),
    "f16x2": PtxType("uint32", "float16", 2),
    "bf16x2": PtxType("uint32", "bfloat16", 2),
    "u16x2": PtxType("uint32", "uint16", 2),
    "s16x2": PtxType("uint32", "int16", 2),
    "f32x2": PtxType("uint64", "float32", 2),
    "e4m3x2": PtxType("uint16", "float8_e4m3fn", 2),
    "e5m2x2": PtxType("uint16", "float8_e5m2", 2),
    "ue8m0x2": PtxType("uint16", "float8_e8m0fnu", 2),
    "e2m3x2": PtxType("uint16", "uint8", 2),
    "e3m2x2": PtxType("uint16", "uint8", 2),
    "e2m1x2": PtxType("uint8", "uint8"),
    **{f"{word}x4": PtxType("uint32", "uint32") for word in ("e4m3", "e5m2", "e2m3", "e3m2")},
    "e2m1x4": PtxType("uint16", "uint16"),
}  # fmt: skip


def register_word(kind: DType) -> str:
    """PTX's word for the type of a register that holds a value of a dtype: its bits, where PTX has no such number.

    >>> register_word(dtype("int32")), register_word(dtype("float16"))
    ('s32', 'b16')
    """
    word = WORDS.get(str(kind), "")
    return word if word and (kind.is_integer or kind.bits >= 32) else f"b{kind.bits}"


def value_dtype(word: str) -> DType:
    """The dtype of a value of a type; ``b32:4`` is a vector of four.

    >>> str(value_dtype("f32:4"))
    'float32x4'
    """
    name, _, lanes = word.partition(":")
    return TYPES[name].dtype.with_lanes(int(lanes)) if lanes else TYPES[name].dtype
