"""What an operand of an instruction may be: registers, addresses, values, and constants in the text itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from tilewright.dtypes import DType, dtype
from tilewright.ir import Argument

# PTX's words for types: how wide a register of the type is, and which numbers its bits are.
#
# Registers have widths, instructions have types. A narrow pair (``f16x2``) is one register of bits, as is a number
# that NumPy lacks. Source: PTX ISA, "Types".

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
NARROW = {f"{word}x2": ELEMENTS[word] for word in ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")}
"""The dtypes of the numbers in pairs of narrow floats, by PTX's word."""
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


@dataclass(frozen=True, slots=True)
class OperandKind:
    """What an operand may be. letter: the constraint of inline assembly; none where it is no register. ctype: of the
    register in C++. nbytes: of a register that holds bits (floats too); 0 for addresses and all else.
    """

    doc: str
    letter: str = ""
    ctype: str = ""
    nbytes: int = 0


_BITS, _FLOAT = "a register; `execute` gets unsigned bits", "a register; `execute` gets floats"
_GENERIC = "const void*"
KINDS = {
    "b8": OperandKind(_BITS, "h", "unsigned short", 1),
    "b16": OperandKind(_BITS, "h", "unsigned short", 2),
    "b32": OperandKind(_BITS, "r", "unsigned int", 4),
    "b64": OperandKind(_BITS, "l", "unsigned long long", 8),
    "f32": OperandKind(_FLOAT, "f", "float", 4),
    "f64": OperandKind(_FLOAT, "d", "double", 8),
    "shared": OperandKind("an offset in the CTA's shared window; a handle is converted to one", "r", "unsigned int"),
    "tmem": OperandKind("an address of tensor memory: lane in bits 16 to 31, 32-bit column below", "r", "unsigned int"),
    "global": OperandKind("a handle that points to global memory", "l", _GENERIC),
    "generic": OperandKind("a handle that points anywhere", "l", _GENERIC),
    "place": OperandKind("an address in the memory that the modifier `space` names, see `SPACE_KINDS`"),
    "pred": OperandKind("a condition; `execute` gets bools"),
    "typed": OperandKind(
        "a value; all typed operands of a call are brought to one dtype, which is the modifier `dtype`"
    ),
    "bits": OperandKind("a register as wide as its type, see `Operand.of`; `execute` gets unsigned bits"),
    "value": OperandKind("a value of whatever dtype it has; `execute` gets a tuple of arrays for ``*args``"),
    "text": OperandKind("a Python string; `execute` gets it as it is"),
    "symbol": OperandKind("a Python string that stands in C++ as it is: a name, or the text of functions"),
    "imm": OperandKind("an integer constant that stands in the text itself"),
    "note": OperandKind("a number for the simulator alone: it never reaches the text"),
}
CONSTRAINTS = {name: kind.letter for name, kind in KINDS.items() if kind.letter}
"""The operand kinds that inline assembly gets in registers of their own, and the letter of each."""

ADDRESSES = ("shared", "tmem", "global", "generic", "place")
"""The operand kinds that are addresses."""

SPACE_KINDS: Mapping[Argument, str] = {
    None: "generic",
    "global": "global",
    **dict.fromkeys(("local", "const", "param"), "generic"),
}
"""The kind of a "place" by its modifier ``space``: "shared" for all others."""


def register_kind(kind: DType) -> str:
    """The kind of register that holds a value of a dtype: a float that assembly knows, else its bits."""
    return f"f{kind.bits}" if kind.is_float and kind.cuda else f"b{max(16, kind.bits)}"


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand. kind: a key of `KINDS`. many: a vector of `Form.registers`, or any number of kind "value".

    read, written: by the instruction; a register may be both. counts: an integer, where a register of kind b16, b32
    or b64 may hold any bits. optional: left out where it is None or the constant 0, see `LEFT_OUT`. of: of kind "bits",
    PTX's word for its type, or the modifier that is one, or what tells it from the modifiers.
    """

    name: str
    kind: str
    read: bool = True
    written: bool = False
    many: bool = False
    counts: bool = False
    optional: bool = False
    of: str | Callable[[Mapping[str, Argument]], str] = ""

    @property
    def in_register(self) -> bool:
        """Does assembly get the operand in a register, as a value or an address?"""
        return self.kind in CONSTRAINTS or self.kind in ("pred", "typed", "bits")

    @property
    def in_text(self) -> str:
        """The operand in a pattern, an address in brackets."""
        return f"[{{{self.name}}}]" if self.kind in ADDRESSES else f"{{{self.name}}}"

    def resolved(self, mods: Mapping[str, Argument]) -> Operand:
        """The operand with a kind that no longer depends on modifiers: that of its memory, or of its register."""
        if self.kind == "place":
            return replace(self, kind=SPACE_KINDS.get(mods["space"], "shared"))
        if self.kind == "bits":
            word = self.type_of(mods)
            return replace(self, kind="pred" if word == "pred" else f"b{TYPES[word].bits}")
        return self

    def type_of(self, mods: Mapping[str, Argument]) -> str:
        """PTX's word for the type of an operand of kind "bits"."""
        return self.of(mods) if callable(self.of) else str(mods.get(self.of, self.of))


def reads(name: str, kind: str) -> Operand:
    """An operand that is read; ``*r`` is a vector of registers."""
    return Operand(name.lstrip("*"), kind, many=name.startswith("*"))


def counts(name: str, kind: str = "b32") -> Operand:
    """An operand that is read and must be an integer: a number of something, a mask, a parity."""
    return Operand(name, kind, counts=True)


def may_lack(operand: Operand) -> Operand:
    """An operand in the middle of a call's arguments that None or 0 leaves out."""
    return replace(operand, optional=True)


def writes(name: str, kind: str) -> Operand:
    """A register operand that is written: a place, `ptr_to` or element of a local buffer."""
    return Operand(name.lstrip("*"), kind, read=False, written=True, many=name.startswith("*"))


def updates(name: str, kind: str) -> Operand:
    """A register operand that is read and written, such as an accumulator."""
    return Operand(name.lstrip("*"), kind, written=True, many=name.startswith("*"))
