"""The table of element types: one row each, with its bits, its kind, its NumPy and its CUDA storage.

A `DType` is its name: it compares and hashes as the string ``"float16"`` does, so that kernels may write either.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property

import ml_dtypes
import numpy as np

from tilewright.errors import KernelError, choices, described


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of the table."""

    bits: int  # of one element, packed
    kind: str  # bool, int, uint, float, handle, void
    numpy: type  # holds the value of one element
    storage: str  # the unsigned CUDA type that moves its bits
    cuda: str  # the CUDA type that computes with it; "" where it is computed through float32
    container: int = 0  # bits of the addressable cell, where it is wider than the element


_U8, _U16, _U32, _U64 = "unsigned char", "unsigned short", "unsigned int", "unsigned long long"

_ROWS = {
    "bool": _Row(8, "bool", np.bool_, _U8, "bool"),
    "int8": _Row(8, "int", np.int8, _U8, "signed char"),
    "int16": _Row(16, "int", np.int16, _U16, "short"),
    "int32": _Row(32, "int", np.int32, _U32, "int"),
    "int64": _Row(64, "int", np.int64, _U64, "long long"),
    "uint8": _Row(8, "uint", np.uint8, _U8, _U8),
    "uint16": _Row(16, "uint", np.uint16, _U16, _U16),
    "uint32": _Row(32, "uint", np.uint32, _U32, _U32),
    "uint64": _Row(64, "uint", np.uint64, _U64, _U64),
    "float16": _Row(16, "float", np.float16, _U16, ""),
    "bfloat16": _Row(16, "float", ml_dtypes.bfloat16, _U16, ""),
    "float32": _Row(32, "float", np.float32, _U32, "float"),
    "tf32": _Row(32, "float", np.float32, _U32, "float"),
    "float64": _Row(64, "float", np.float64, _U64, "double"),
    "float8_e4m3fn": _Row(8, "float", ml_dtypes.float8_e4m3fn, _U8, ""),
    "float8_e5m2": _Row(8, "float", ml_dtypes.float8_e5m2, _U8, ""),
    "float8_e8m0fnu": _Row(8, "float", ml_dtypes.float8_e8m0fnu, _U8, ""),
    "float6_e2m3fn": _Row(6, "float", ml_dtypes.float6_e2m3fn, _U8, "", container=8),
    "float6_e3m2fn": _Row(6, "float", ml_dtypes.float6_e3m2fn, _U8, "", container=8),
    "float4_e2m1fn": _Row(4, "float", ml_dtypes.float4_e2m1fn, _U8, ""),
    "handle": _Row(64, "handle", np.int64, _U64, _U64),
    "void": _Row(0, "void", np.void, "void", "void"),
}

NAMES = tuple(_ROWS)
"""Every scalar dtype by name."""

_ALIASES = {
    "float8_e4m3": "float8_e4m3fn",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "float8_e8m0": "float8_e8m0fnu",
    "e8m0": "float8_e8m0fnu",
    "float6_e2m3": "float6_e2m3fn",
    "float6_e3m2": "float6_e3m2fn",
    "float4_e2m1": "float4_e2m1fn",
    "half": "float16",
    "bf16": "bfloat16",
    "float": "float32",
    "double": "float64",
    "int": "int32",
}


class DType(str):
    """An element type by name, ``float16`` or ``float16x4``. Get one with `dtype`.

    A vector of `lanes` elements has the bits of all of them.
    """

    @cached_property
    def _split(self) -> tuple[str, int]:
        match = re.fullmatch(r"(.+?)x(\d+)", self)
        if match and match[1] in _ROWS:
            return match[1], int(match[2])
        return str(self), 1

    @cached_property
    def _row(self) -> _Row:
        return _ROWS[self._split[0]]

    @cached_property
    def lanes(self) -> int:
        """Elements of a vector; 1 for a scalar."""
        return self._split[1]

    @property
    def element(self) -> DType:
        """The type of one lane of a vector; itself for a scalar."""
        return dtype(self._split[0])

    @cached_property
    def kind(self) -> str:
        """bool, int, uint, float, handle or void."""
        return self._row.kind

    @cached_property
    def bits(self) -> int:
        """Bits in memory: float4 packs (4), float6 lives in 8-bit containers (8)."""
        return (self._row.container or self._row.bits) * self.lanes

    @property
    def value_bits(self) -> int:
        """Bits that carry a value: 6 for float6."""
        return self._row.bits * self.lanes

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy type of one element's value (float4 and float6: one per byte)."""
        return np.dtype(self._row.numpy)

    @property
    def storage(self) -> str:
        """The unsigned CUDA type of an element's bits."""
        return self._row.storage

    @property
    def cuda(self) -> str:
        """The CUDA type that computes with it; empty where CUDA without headers has none (computed through float)."""
        return self._row.cuda

    @cached_property
    def is_float(self) -> bool:
        return self.kind == "float"

    @cached_property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def is_signed(self) -> bool:
        return self.kind == "int"

    def with_lanes(self, lanes: int) -> DType:
        """A vector of this element type."""
        if not isinstance(lanes, int):
            raise KernelError(f"lanes of {self}", given=described(lanes), allowed="an int")
        return dtype(f"{self.element}x{lanes}" if lanes > 1 else str(self.element))


_ELSEWHERE = {
    "fp16": "float16", "f16": "float16", "fp32": "float32", "f32": "float32", "fp64": "float64", "f64": "float64",
    "int": "int32", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "s8": "int8", "s32": "int32",
    "uint": "uint32", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "long": "int64",
    "bool_": "bool", "fp8": "float8_e4m3fn", "float8e4nv": "float8_e4m3fn", "float8e5": "float8_e5m2",
}  # fmt: skip
"""What C, Triton and PTX call them, for hints."""


def dtype(name: str) -> DType:
    """The element type called ``name``: a row of the table, an alias, or a row with ``x2`` or ``x4``.

    >>> dtype("float16x4").bits
    64

    Raises KernelError for a name that is not in the table.
    """
    if not isinstance(name, str):
        raise KernelError("a dtype is a name", given=described(name), allowed='"float16", or T.float16')
    return _named(name)


@cache
def _named(name: str) -> DType:
    match = re.fullmatch(r"(.+?)(?:x([248]))?", name)
    base, lanes = (match[1], match[2]) if match else (name, None)
    base = _ALIASES.get(base, base)
    if base not in _ROWS:
        bare = name.rpartition(".")[2]
        hint = _ELSEWHERE.get(bare) or _ALIASES.get(bare) or (bare if bare in _ROWS else None)
        raise KernelError(f"unknown dtype {name!r}", given=name, allowed=choices(name, _ROWS), hint=hint)
    if lanes and _ROWS[base].kind in ("handle", "void"):
        raise KernelError(f"no vectors of {base}", given=name, allowed="vectors of numbers")
    return DType(f"{base}x{lanes}" if lanes else base)


BOOL = dtype("bool")
INT32 = dtype("int32")
INT64 = dtype("int64")
HANDLE = dtype("handle")
VOID = dtype("void")


def keeps(source: DType, target: DType) -> bool:
    """Is ``source`` converted to ``target`` without being asked? Integers keep their value (types of one
    width share their bits), and floats stay floats, rounded to the precision of ``target``.
    """
    if source.is_float or not (source.is_integer and target.is_integer):
        return not source.is_float or target.is_float or target.kind == "handle"
    return source.bits <= target.bits


def common_dtype(a: DType, b: DType) -> DType:
    """The dtype that both operands of ``a op b`` are brought to.

    Floats win over integers, wider over narrower, unsigned over signed of the same width; a number next to a vector
    counts for each of its components.
    Raises KernelError where neither holds the other (float16 with bfloat16).
    """
    if a == b:
        return a
    if "handle" in (a.kind, b.kind):
        return HANDLE
    if 1 in (a.lanes, b.lanes) and a.lanes != b.lanes:
        return common_dtype(a.element, b.element).with_lanes(max(a.lanes, b.lanes))
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if a.lanes != b.lanes or (a.is_float and a.bits == b.bits):
        raise KernelError(
            f"operands of {a} and {b} have no common dtype", given=f"{a} and {b}", hint="T.cast one of them"
        )
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    return max(a, b, key=lambda kind: ("bool", "int", "uint").index(kind.kind))
