"""The initial values of a module's variables: bytes, and addresses that only a launch knows.

Source: PTX ISA, "Initializers": values that are missing are zero; a name stands for an address, ``generic(name)`` for
its generic address.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import KernelError
from tilewright.ptx.names import element_bytes, nbytes
from tilewright.ptx.operands import Unreadable, operands
from tilewright.ptx.tree import Immediate, Name, Sum, Variable

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Pointer", "initial_bytes", "named_in"]

_GENERIC = re.compile(r"generic\s*\(\s*([^)]*)\)")
_MASK = re.compile(r"(0[xX][Ff]+0*|\d+)\s*\(\s*([^)]*)\)")  # one byte of an address


@dataclass(frozen=True, slots=True)
class Pointer:
    """An address among initial values. place: bytes from the start of the variable; of: the name; offset: beyond it.

    byte: the one byte of the address that is stored; None for all of it.
    """

    place: int
    of: str
    offset: int
    byte: int | None = None

    def put(self, data: NDArray[np.uint8], address: int) -> None:
        """Writes the address of the name to its place."""
        whole = (address + self.offset).to_bytes(8, "little")
        part = whole if self.byte is None else whole[self.byte : self.byte + 1]
        data[self.place : self.place + len(part)] = np.frombuffer(part, np.uint8)


def named_in(declared: Variable) -> list[str]:
    """The variables and functions whose addresses are among the initial values."""
    return (
        [pointer.of for pointer in initial_bytes(declared)[1]]
        if re.search(r"(?<![\w.$%])[A-Za-z_$%]", declared.initial)
        else []
    )


def initial_bytes(declared: Variable) -> tuple[bytearray, list[Pointer]]:
    """The bytes of a variable as a launch finds them, and the addresses to be put in."""
    width = element_bytes(declared.type)
    data, pointers = bytearray(max(1, nbytes(declared))), []
    for place, value in _values(declared):
        if isinstance(value, Immediate):
            bits = _bits(value, declared.type, width)
            data[place : place + width] = (bits & (1 << 8 * width) - 1).to_bytes(width, "little")
        else:
            pointers.append(value)
    return data, pointers


def _bits(value: Immediate, kind: str, width: int) -> int:
    if value.bits == 64 and width == 4:
        number = struct.unpack(">d", value.value.to_bytes(8, "big"))[0]
        return int.from_bytes(struct.pack(">f", number), "big")
    if not value.bits and kind in ("f32", "f64"):
        return int.from_bytes(struct.pack(">f" if kind == "f32" else ">d", value.value), "big")
    return value.value


def _values(declared: Variable) -> Iterator[tuple[int, Immediate | Pointer]]:
    """Each value with the place of its first byte."""
    width = element_bytes(declared.type)
    text = _GENERIC.sub(r"\1", declared.initial)
    if not text:
        return
    strides = _strides(declared, width)
    place, level = 0, -1
    starts = [0] * (len(strides) + 1)
    for token in re.findall(r"[{}]|[^{},\s][^{},]*", text):
        if token == "{":
            level += 1
            starts[min(level, len(starts) - 1)] = place
        elif token == "}":
            place = starts[min(level, len(starts) - 1)] + (strides[level - 1] if 0 < level <= len(strides) else 0)
            level -= 1
        else:
            yield place, _value(token.strip(), place, declared)
            place += width


def _strides(declared: Variable, width: int) -> list[int]:
    """The bytes of one step of each dimension, the outermost first."""
    strides = [width * declared.vector]
    for extent in declared.extents[:0:-1]:
        strides.append(strides[-1] * (extent or 1))
    return strides[::-1]


def _value(text: str, place: int, declared: Variable) -> Immediate | Pointer:
    masked = _MASK.fullmatch(text)
    if masked is not None:
        found = _value(masked[2], place, declared)
        if isinstance(found, Pointer):
            return replace(found, byte=(int(masked[1], 0).bit_length() - 1) // 8)
    try:
        (operand,) = operands(text)
    except (Unreadable, ValueError):
        operand = None  # refused below
    if isinstance(operand, Immediate):
        return operand
    if isinstance(operand, Name):
        return Pointer(place, operand.text, 0)
    if isinstance(operand, Sum):
        return Pointer(place, operand.name.text, operand.offset)
    raise KernelError(
        f"{declared.name} has an initial value that cannot be read", given=text, allowed="numbers and names"
    )
