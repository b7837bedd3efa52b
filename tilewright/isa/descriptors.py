"""Matrix descriptors: 64 bits that tell the tensor cores where in shared memory a matrix lies.

A matrix is cut into groups of 8 rows, and those into stripes as wide as the swizzle: 16 bytes without one, else 32, 64
or 128. The rows of a stripe follow one another. Two distances say where other stripes and other groups begin, and the
swizzle permutes the 16-byte units of 8 rows among each other, by address bits, so that a column of units touches all
banks. What the rows are depends on the operand: K-major rows run along K, MN-major ones along M or N.

`MatrixDescriptor` is one, readable: of wgmma (``generation="sm_90"``) or of tcgen05 (``"sm_100"``).

    >>> tile = MatrixDescriptor(start=1024, leading=256, stride=128)
    >>> hex(tile.encode())
    '0x400800100040'
    >>> MatrixDescriptor.decode(tile.encode()) == tile
    True
    >>> tile.addresses(rows=2, row_bytes=32)  # (rows, 16-byte units)
    array([[1024, 1280],
           [1040, 1296]])

Sources: PTX ISA, "Matrix Descriptor Format" (wgmma), "Shared memory descriptor" and "Canonical layouts" (tcgen05).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import InstructionError, choices
from tilewright.layout import SwizzleMode

__all__ = ["GENERATIONS", "MatrixDescriptor", "descriptor_addresses", "descriptor_trouble", "swizzle_codes"]

UNIT = 16  # bytes: the unit of start, leading and stride, and what every swizzle but one moves together


class Bits(NamedTuple):
    """A field: its first bit, how many it has, and what one step of it is worth."""

    first: int
    width: int
    step: int = 1

    def __str__(self) -> str:
        last = self.first + self.width - 1
        return f"bits {self.first}-{last}" if self.width > 1 else f"bit {self.first}"


class Generation(NamedTuple):
    """The format of one generation. codes: (mode, bytes of an atom) -> value of the swizzle field."""

    name: str
    fields: dict[str, Bits]
    constant: int
    codes: dict[tuple[SwizzleMode, int], int]


_NONE, _B32, _B64, _B128 = SwizzleMode
_SHARED = {"start": Bits(0, 14, UNIT), "leading": Bits(16, 14, UNIT), "stride": Bits(32, 14, UNIT)}
GENERATIONS = {
    "sm_90": Generation(
        "wgmma",
        {**_SHARED, "base_offset": Bits(49, 3), "swizzle": Bits(62, 2)},
        0,
        {(_NONE, 16): 0, (_B128, 16): 1, (_B64, 16): 2, (_B32, 16): 3},
    ),
    "sm_100": Generation(
        "tcgen05",
        {**_SHARED, "base_offset": Bits(49, 3), "leading_is_absolute": Bits(52, 1), "swizzle": Bits(61, 3)},
        1 << 46,
        {(_NONE, 16): 0, (_B128, 32): 1, (_B128, 16): 2, (_B64, 16): 4, (_B32, 16): 6},
    ),
}
"""The generations by their first architecture. constant: bits that are always set (tcgen05's version)."""


def swizzle_codes(generation: str) -> dict[SwizzleMode, int]:
    """The swizzle field's value for each mode, with atoms of 16 bytes."""
    return {mode: code for (mode, atom), code in GENERATIONS[generation].codes.items() if atom == UNIT}


@dataclass(frozen=True, slots=True)
class MatrixDescriptor:
    """A matrix of shared memory, as a descriptor of wgmma or tcgen05 gives it. All distances are bytes, multiples of
    16.

    start: the shared address of the first row. stride: from 8 rows to the next 8. leading: from a stripe to the next;
    K-major matrices with a swizzle have one stripe, and it does not count. Without a swizzle, MN-major matrices change
    the two: ``stride`` leads to the next 16 bytes along the row, ``leading`` to the next 8 rows.
    swizzle: how wide the pattern is. atom: bytes that it moves together; 32 only with 128 bytes, on tcgen05, MN-major.
    base_offset: which of the pattern's rows of 128 bytes ``start`` would be in if the pattern began at a multiple of
    its size, where it does not. leading_is_absolute: ``leading`` is an address (sm_103a, for a K of 48 bytes).

    Raises InstructionError, naming the field, for what the format cannot express.
    """

    start: int
    leading: int = 0
    stride: int = 0
    swizzle: SwizzleMode | int = SwizzleMode.SWIZZLE_NONE
    generation: str = "sm_100"
    atom: int = UNIT
    base_offset: int = 0
    leading_is_absolute: bool = False

    def __post_init__(self) -> None:
        if self.generation not in GENERATIONS:
            raise _refused("generation", self.generation, choices(self.generation, GENERATIONS))
        for name in ("start", "leading", "stride", "base_offset"):
            _check_field(name, getattr(self, name), self._format.fields[name])
        object.__setattr__(self, "leading_is_absolute", bool(self.leading_is_absolute))
        if self.swizzle not in list(SwizzleMode):
            modes = ", ".join(f"{mode.value} ({mode.name})" for mode in SwizzleMode)
            raise _refused("swizzle", self.swizzle, modes)
        object.__setattr__(self, "swizzle", SwizzleMode(self.swizzle))
        if (self.swizzle, self.atom) not in self._format.codes:
            raise _refused(
                "atom",
                f"{self.atom} bytes with {self._mode.name} on {self.generation}",
                "16 bytes, or 32 with SWIZZLE_128B_ATOM on sm_100",
            )
        if self.leading_is_absolute and (self.generation, self._mode, self.atom, self.base_offset) != (
            "sm_100",
            _B128,
            UNIT,
            0,
        ):
            raise _refused(
                "leading_is_absolute", True, "with SWIZZLE_128B_ATOM, atoms of 16 bytes, base_offset 0, on sm_100"
            )

    @property
    def _format(self) -> Generation:
        return GENERATIONS[self.generation]

    @property
    def _mode(self) -> SwizzleMode:
        return SwizzleMode(self.swizzle)

    def _fields(self) -> Iterator[tuple[str, Bits, int]]:
        """Name, place and value of each field, the lowest bits first."""
        for name, bits in self._format.fields.items():
            value = self._format.codes[self._mode, self.atom] if name == "swizzle" else int(getattr(self, name))
            yield name, bits, value // bits.step

    def encode(self) -> int:
        """The 64 bits."""
        return self._format.constant | sum(value << bits.first for _, bits, value in self._fields())

    @classmethod
    def decode(cls, bits: int, generation: str = "sm_100") -> MatrixDescriptor:
        """The descriptor that these 64 bits are. Raises InstructionError for bits that are none."""
        if generation not in GENERATIONS:
            raise _refused("generation", generation, choices(generation, GENERATIONS))
        if not isinstance(bits, (int, np.integer)) or not 0 <= bits < 1 << 64:
            raise _refused("bits", bits, "a number of 64 bits")
        form = GENERATIONS[generation]
        bits = int(bits)
        values = {name: bits >> at.first & (1 << at.width) - 1 for name, at in form.fields.items()}
        code = values.pop("swizzle")
        modes = [mode for mode, value in form.codes.items() if value == code]
        if not modes:
            listed = ", ".join(f"{c} ({mode.name})" for (mode, _), c in form.codes.items())
            raise _refused("swizzle", f"{form.fields['swizzle']} are {code}", listed)
        (mode, atom), *_ = modes
        descriptor = cls(
            **{name: value * form.fields[name].step for name, value in values.items()},  # type: ignore[arg-type]  # 0, 1
            swizzle=mode,
            atom=atom,
            generation=generation,
        )
        if descriptor.encode() != bits:
            others = bits ^ descriptor.encode()
            raise _refused(
                "constant",
                f"{bits:#018x}, which differs in bits {_listed(others)}",
                f"as {form.name} has it: {form.constant:#x} and the fields, all else 0",
            )
        return descriptor

    def addresses(self, rows: int, row_bytes: int, major: str = "K") -> NDArray[np.int64]:
        """The shared addresses of the 16-byte units of a matrix, (rows, units): as the hardware takes them, row by row.

        major: "K", or "MN" where the rows run along M or N.
        """
        if major not in ("K", "MN"):
            raise _refused("major", major, choices(major, ("K", "MN")))
        if rows <= 0:
            raise _refused("rows", rows, "at least 1")
        self._check_shape(row_bytes, major)
        width, height = self._mode.row_bytes, 8 if self.atom == UNIT else 4
        along, across = self.leading, self.stride
        if major == "MN" and self._mode == _NONE:
            along, across = across, along
        row = np.arange(rows, dtype=np.int64)[:, None]
        column = np.arange(0, row_bytes, UNIT, dtype=np.int64)
        offset = row % height * width + row // height * across + column // width * along + column % width
        return self._swizzled(self.start + offset)

    def _check_shape(self, row_bytes: int, major: str) -> None:
        if row_bytes <= 0 or row_bytes % UNIT:
            raise _refused("row_bytes", row_bytes, "a multiple of 16")
        if self.leading_is_absolute:
            raise _refused("leading_is_absolute", True, "False: nobody has confirmed which addresses it reaches")
        if self.atom != UNIT and major == "K":
            raise _refused("atom", "32 bytes, K-major", "MN-major matrices")
        if major == "K" and self._mode != _NONE and row_bytes > self._mode.row_bytes:
            raise _refused("row_bytes", f"{row_bytes} bytes with {self._mode.name}", f"at most {self._mode.row_bytes}")

    def _swizzled(self, address: NDArray[np.int64]) -> NDArray[np.int64]:
        """Each row of 128 bytes of the pattern has its number XORed into the number of the atom."""
        atoms = self._mode.row_bytes // self.atom
        row = (address >> 7) - self.base_offset
        return address ^ (row & atoms - 1) * self.atom

    def __str__(self) -> str:
        lines = [f"{self.encode():#018x}, a matrix descriptor of {self._format.name} ({self.generation})"]
        shown = {
            "start": f"{self.start:#x}",
            "leading": f"{self.leading:#x}, an address" if self.leading_is_absolute else f"{self.leading} bytes",
            "stride": f"{self.stride} bytes",
            "swizzle": self._mode.name + (f" with atoms of {self.atom} bytes" if self.atom != UNIT else ""),
        }
        for name, bits, value in self._fields():
            lines.append(f"  {bits!s:<11} {name:<20}{value:>6}  {shown.get(name, '')}".rstrip())
        return "\n".join(lines)


def descriptor_addresses(
    bits: NDArray[np.uint64], rows: int, row_bytes: int, major: str = "K", generation: str = "sm_100"
) -> NDArray[np.int64]:
    """`MatrixDescriptor.addresses` of (n,) descriptors: (n, rows, units). Raises InstructionError where one is none."""
    distinct, which = np.unique(bits, return_inverse=True)
    places = np.stack([_addresses_of(int(word), rows, row_bytes, major, generation) for word in distinct])
    return places[which.reshape(-1)]


def descriptor_trouble(bits: int, rows: int, row_bytes: int, major: str = "K", generation: str = "sm_100") -> str:
    """Why `descriptor_addresses` refuses these 64 bits; empty where it does not."""
    try:
        _addresses_of(bits, rows, row_bytes, major, generation)
    except InstructionError as error:
        return f"{error.what} is {error.given}; it may be {error.allowed}"
    return ""


@lru_cache(maxsize=1024)
def _addresses_of(bits: int, rows: int, row_bytes: int, major: str, generation: str) -> NDArray[np.int64]:
    return MatrixDescriptor.decode(bits, generation).addresses(rows, row_bytes, major)


def _check_field(name: str, value: int, bits: Bits) -> None:
    most = ((1 << bits.width) - 1) * bits.step
    if not isinstance(value, (int, np.integer)) or not 0 <= value <= most or value % bits.step:
        allowed = f"0..{most}" if bits.step == 1 else f"a multiple of {bits.step}, at most {most:#x}"
        raise _refused(name, value, allowed)


def _refused(name: str, value: object, allowed: str) -> InstructionError:
    return InstructionError(f"matrix descriptor: {name}", given=str(value), allowed=allowed)


def _listed(bits: int) -> str:
    return ", ".join(str(place) for place in range(64) if bits >> place & 1)
