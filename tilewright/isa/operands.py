"""What an operand of an instruction may be: registers, addresses, values, and constants in the text itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tilewright.dtypes import DType
from tilewright.ir import Argument
from tilewright.isa.types import TYPES


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
