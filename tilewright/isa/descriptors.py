"""Descriptors: 64 bits that tell the tensor cores where in shared memory a matrix lies, 32 that tell tcgen05.mma which
product it computes, and the rows that make and move them in a kernel.

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

Instruction descriptors: 32 bits that tell tcgen05.mma which product it computes.

`InstructionDescriptor` is one, readable: types and shape, majorness and signs. The kind, a word of the instruction,
says how the codes of the types are meant.

    >>> product = InstructionDescriptor("f16", "float32", "bfloat16", "bfloat16", M=128, N=256)
    >>> hex(product.encode())
    '0x8400490'
    >>> InstructionDescriptor.decode(0x8400490, "f16") == product
    True

A block-scaled product has other fields: whose scales it takes is by their bytes in a cell of tensor memory.

    >>> scaled = InstructionDescriptor("mxf4nvf4", "float32", "float4_e2m1fn", "float4_e2m1fn", M=128, N=128,
    ...                                sf_dtype="float8_e4m3fn")
    >>> hex(scaled.encode())
    '0x8200480'

Sources: PTX ISA, "TensorCore 5th Generation: Instruction descriptor, Matrix Shape".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product as combined
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import dtype
from tilewright.errors import InstructionError, choices
from tilewright.ir import Argument, const_value
from tilewright.isa.arch import since
from tilewright.isa.forms import Cuda, Form, Meaning, Mods, Operand, Spellings, counts, reads, updates, writes
from tilewright.isa.machine import Lanes, Machine
from tilewright.isa.table import REQUIRED, Bound, instruction, single
from tilewright.layout import SwizzleMode

__all__ = [
    "GENERATIONS", "PRODUCT_FIELDS", "PRODUCT_KINDS", "SCALED_FIELDS", "WORD_BLOCKS", "InstructionDescriptor",
    "MatrixDescriptor", "MultiplicationKind", "descriptor_addresses", "descriptor_trouble", "product_descriptor",
    "product_heights", "product_widths", "swizzle_codes",
]  # fmt: skip


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


# Instruction descriptors: which product tcgen05.mma computes.


OPERAND_BYTES = 32  # of each row of A and each column of B, elements narrower than a byte in one of their own
WORD_BLOCKS = {"1X": 32, "2X": 32, "4X": 16, "block32": 32, "block16": 16}
"""Elements along K that share a scale, by the word of the instruction that says so."""


class MultiplicationKind(NamedTuple):
    """A kind of product. k: elements along K of a dense one. elements: of A and B, results: of D, each with its code.
    signs: may A and B be negated? scales: the types of scales of blocks, each with its code and the words that say how
    long a block is, the one that is meant without a word first; none for products without scales. wide: a longer K that
    the kind has, too, on sm_103a.
    """

    k: int
    elements: Mapping[str, int]
    results: Mapping[str, int]
    signs: bool = True
    scales: Mapping[str, tuple[int, tuple[str, ...]]] = {}
    wide: int = 0

    @property
    def element_bits(self) -> int:
        """Bits that an element of A or B takes along K."""
        return 8 * OPERAND_BYTES // self.k

    def block(self, sf_dtype: str, word: str | None) -> int:
        """Elements along K that share a scale of this type; 0 without scales."""
        return WORD_BLOCKS[word or self.scales[sf_dtype][1][0]] if self.scales else 0

    def elements_for(self, result: str) -> Mapping[str, int]:
        """The elements whose products D may have as ``result``."""
        return {name: code for name, code in self.elements.items() if (name, result) != ("bfloat16", "float16")}


_F32 = {"float32": 1}
_NARROW = {"float8_e4m3fn": 0, "float8_e5m2": 1, "float6_e2m3fn": 3, "float6_e3m2fn": 4, "float4_e2m1fn": 5}
_FP4 = {"float4_e2m1fn": 1}
_UE8M0, _UE4M3 = "float8_e8m0fnu", "float8_e4m3fn"
PRODUCT_KINDS: Mapping[str, MultiplicationKind] = {
    "f16": MultiplicationKind(16, {"float16": 0, "bfloat16": 1}, {**_F32, "float16": 0}),
    "tf32": MultiplicationKind(8, {"tf32": 2}, _F32),
    "f8f6f4": MultiplicationKind(32, _NARROW, {**_F32, "float16": 0}),
    "i8": MultiplicationKind(32, {"uint8": 0, "int8": 1}, {"int32": 2}, signs=False),
    "mxf8f6f4": MultiplicationKind(32, _NARROW, _F32, scales={_UE8M0: (1, ("block32", "1X"))}),
    "mxf4": MultiplicationKind(64, _FP4, _F32, scales={_UE8M0: (1, ("block32", "2X"))}, wide=96),
    "mxf4nvf4": MultiplicationKind(
        64, _FP4, _F32, scales={_UE4M3: (0, ("block16", "4X")), _UE8M0: (1, ("block32", "2X", "block16", "4X"))},
        wide=96,
    ),
}  # fmt: skip
PRODUCT_FIELDS: Mapping[str, Bits] = {
    "selector": Bits(0, 2),
    "sparse": Bits(2, 1),
    "sat_d": Bits(3, 1),
    "d_dtype": Bits(4, 2),
    "a_dtype": Bits(7, 3),
    "b_dtype": Bits(10, 3),
    "neg_a": Bits(13, 1),
    "neg_b": Bits(14, 1),
    "trans_a": Bits(15, 1),
    "trans_b": Bits(16, 1),
    "N": Bits(17, 6, 8),
    "M": Bits(24, 5, 16),
    "max_shift": Bits(30, 2),
}
SCALED_FIELDS: Mapping[str, Bits] = {
    "sparse": Bits(2, 1),
    "sfb_id": Bits(4, 2),
    **{name: PRODUCT_FIELDS[name] for name in ("a_dtype", "b_dtype", "neg_a", "neg_b", "trans_a", "trans_b", "N")},
    "sf_dtype": Bits(23, 1),
    "M": Bits(27, 2, 128),
    "sfa_id": Bits(29, 2),
    "wide": Bits(31, 1),
}
TYPES = ("d_dtype", "a_dtype", "b_dtype", "sf_dtype")
FLAGS = ("sparse", "sat_d", "neg_a", "neg_b", "trans_a", "trans_b", "wide")
ROWS = {(1, False): (64, 128), (2, False): (128, 256), (1, True): (32, 64, 128)}
"""M, by the CTAs that compute together, and whether B's columns are kept."""
SPARSE_ROWS = {1: (128,), 2: (256,)}  # where the metadata of others are is unconfirmed
KEPT_WIDTHS = (64, 128, 256)  # N where B's columns are kept


def product_heights(kind: str, cta_group: int = 1, *, keeps_b: bool = False, sparse: bool = False) -> tuple[int, ...]:
    """Every M of a kind, of both CTAs of a pair together."""
    row = PRODUCT_KINDS[kind]
    if sparse and not keeps_b:
        return SPARSE_ROWS[cta_group]
    if row.scales:
        return (128,) if cta_group == 1 else (128, 256)[row.element_bits < 8 :]
    return ROWS[cta_group, keeps_b]


def product_widths(
    kind: str, cta_group: int = 1, *, trans_b: bool = False, keeps_b: bool = False, sparse: bool = False
) -> tuple[int, ...]:
    """Every N of a kind. CUTLASS asks for multiples of 16 where M is 128; the manual does not."""
    if keeps_b:
        return KEPT_WIDTHS[: 2 if sparse else 3]
    step = 8 * cta_group
    if kind == "i8":
        narrow = (8, 16, 24) if cta_group == 1 else ()
        every = (*narrow, *range(32, 257, 2 * step))
    else:
        every = tuple(range(step, 257, step))
    bytewise = PRODUCT_KINDS[kind].element_bits == 8
    return tuple(n for n in every if not (trans_b and bytewise) or n % (2 * step) == 0)


@dataclass(frozen=True, slots=True)
class InstructionDescriptor:
    """A product D = A * B + D. kind: a key of `PRODUCT_KINDS`. M, N: rows and columns of D, of both CTAs together where
    ``cta_group`` is 2. trans_a, trans_b: is the operand MN-major? neg_a, neg_b: is it negated? sat_d: integers are
    clamped. sparse: A has half of its elements, and metadata; selector: in which of two columns those are. keeps_b: is
    it an instruction that keeps B's columns, ``.ws``? max_shift: of those, a code. sf_dtype: of the scales of a
    block-scaled kind; sfa_id, sfb_id: the byte of a cell that has the first of A's and B's. wide: is K 96?

    Raises InstructionError, naming the field, for a product that the kind does not have.
    """

    kind: str
    d_dtype: str
    a_dtype: str
    b_dtype: str
    M: int
    N: int
    trans_a: bool = False
    trans_b: bool = False
    neg_a: bool = False
    neg_b: bool = False
    sat_d: bool = False
    cta_group: int = 1
    sparse: bool = False
    selector: int = 0
    keeps_b: bool = False
    max_shift: int = 0
    sf_dtype: str = ""
    sfa_id: int = 0
    sfb_id: int = 0
    wide: bool = False

    def __post_init__(self) -> None:
        row = PRODUCT_KINDS.get(self.kind)
        if row is None:
            raise _no_product("kind", self.kind, choices(self.kind, PRODUCT_KINDS))
        for name in TYPES[: 4 if row.scales else 3]:
            _check(name, getattr(self, name), _types(row, name))
        if not {self.a_dtype, self.b_dtype} <= row.elements_for(self.d_dtype).keys():
            raise _no_product("d_dtype", "float16 with bfloat16 operands", "float32")
        self._check_flags(row)
        self._check_shape(row)

    def _check_flags(self, row: MultiplicationKind) -> None:
        if (self.neg_a or self.neg_b) and not row.signs:
            raise _no_product("neg_a" if self.neg_a else "neg_b", "set", "clear: integers are not negated")
        if self.sat_d and row.signs:
            raise _no_product("sat_d", "set", "clear: only integers are clamped")
        if self.wide and (not row.wide or self.sparse):
            raise _no_product("wide", "set", "clear: K is 96 for dense products of 4-bit elements alone")
        if row.element_bits < 8 and (self.trans_a or self.trans_b):
            raise _no_product("trans_a" if self.trans_a else "trans_b", "set", "clear: 4-bit elements are K-major")
        most = {"max_shift": 4 if self.keeps_b else 1, "selector": self.selectors}
        for name, count in (most | dict.fromkeys(("sfa_id", "sfb_id"), 4)).items():
            if not 0 <= getattr(self, name) < count:
                raise _no_product(name, getattr(self, name), ", ".join(map(str, range(count))))

    def _check_shape(self, row: MultiplicationKind) -> None:
        if self.keeps_b and self.cta_group == 2:
            raise _no_product("cta_group", 2, "1 where B's columns are kept")
        form = {"keeps_b": self.keeps_b, "sparse": self.sparse}
        _check("M", self.M, product_heights(self.kind, self.cta_group, **form))
        widths = product_widths(self.kind, self.cta_group, trans_b=self.trans_b, **form)
        if self.keeps_b:
            _check("N", self.N, widths)
            return
        if self.N not in widths:
            step = f"a multiple of {widths[-1] - widths[-2]}, {widths[0]} to {widths[-1]}"
            more = "" if len(widths) == widths[-1] // (widths[-1] - widths[-2]) else f", or one of {widths[:3]}"
            raise _no_product("N", self.N, f"{step}{more}, for kind {self.kind}")

    @property
    def K(self) -> int:
        """Elements along K of an instruction, zeros of a sparse A among them."""
        return self.row.wide if self.wide else self.row.k * (2 if self.sparse else 1)

    @property
    def row(self) -> MultiplicationKind:
        """Its kind."""
        return PRODUCT_KINDS[self.kind]

    @property
    def selectors(self) -> int:
        """How many columns of metadata there are to select from."""
        return 2 if self.sparse and self.row.element_bits > 8 else 1

    @property
    def a_bytes(self) -> int:
        """Bytes along K of a row of A."""
        return self.b_bytes // 2 if self.sparse else self.b_bytes

    @property
    def b_bytes(self) -> int:
        """Bytes along K of a column of B."""
        return self.K * self.row.element_bits // 8

    def encode(self) -> int:
        """The 32 bits."""
        row = PRODUCT_KINDS[self.kind]
        return sum(
            (_types(row, name)[value] if name in TYPES else int(value) // at.step) << at.first
            for name, at in _fields(row).items()
            for value in (getattr(self, name),)
        )

    @classmethod
    def decode(cls, bits: int, kind: str, cta_group: int = 1, *, keeps_b: bool = False) -> InstructionDescriptor:
        """The descriptor that these bits are for a kind. Raises InstructionError for bits that are none."""
        row = PRODUCT_KINDS[kind]
        values: dict[str, object] = {"d_dtype": "float32"} if row.scales else {}
        for name, at in _fields(row).items():
            code = bits >> at.first & (1 << at.width) - 1
            values[name] = bool(code) if name in FLAGS else code * at.step
            if name in TYPES:
                types = _types(row, name)
                if code not in types.values():
                    listed = ", ".join(f"{number} ({kind})" for kind, number in types.items())
                    raise _no_product(name, f"code {code} in {at}", f"{listed} for kind {kind}")
                values[name] = next(kind for kind, number in types.items() if number == code)
        others = bits & ~sum((1 << at.width) - 1 << at.first for at in _fields(row).values())
        if others:
            listed = ", ".join(str(place) for place in range(32) if others >> place & 1)
            raise _no_product("reserved bits", f"{bits:#010x}, which sets bits {listed}", "0 there")
        return cls(kind=kind, cta_group=cta_group, keeps_b=keeps_b, **values)  # type: ignore[arg-type]  # each of its field's type


def _fields(row: MultiplicationKind) -> Mapping[str, Bits]:
    return SCALED_FIELDS if row.scales else PRODUCT_FIELDS


def _types(row: MultiplicationKind, name: str) -> Mapping[str, int]:
    if name == "sf_dtype":
        return {kind: code for kind, (code, _) in row.scales.items()}
    return row.results if name == "d_dtype" else row.elements


def _check(name: str, value: object, codes: Mapping[str, int] | tuple[int, ...]) -> None:
    if value not in codes:
        raise _no_product(name, value, ", ".join(map(str, codes)))


def _no_product(name: str, value: object, allowed: str) -> InstructionError:
    return InstructionError(f"instruction descriptor: {name}", given=str(value), allowed=allowed)


@lru_cache(maxsize=1024)
def product_descriptor(bits: int, kind: str, cta_group: int, *, keeps_b: bool = False) -> InstructionDescriptor | str:
    """The descriptor that these bits are, or why they are none."""
    try:
        return InstructionDescriptor.decode(int(np.uint32(bits)), kind, cta_group, keeps_b=keeps_b)
    except InstructionError as error:
        return f"{error.what} is {error.given}; it may be {error.allowed}"


# Making and moving descriptors in a kernel. What their bits mean stands above.


SOURCES = {
    "sm_90": 'PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions: Matrix Descriptor Format"',
    "sm_100": 'PTX ISA, "TensorCore 5th Generation: Shared memory descriptor"',
}

ENCODE = """\
__device__ __forceinline__ unsigned long long tw_matrix_descriptor(
    unsigned int start, unsigned int leading, unsigned int stride, unsigned long long mode) {
  // from the lowest bit: start address, leading and stride offset, each in units of 16 bytes; then version and swizzle.
  // In a cluster the bits of an address above the 18th say whose shared memory it is: they have no place here.
  return (unsigned long long)((start & 0x3ffffu) >> 4) | (unsigned long long)leading << 16 |
         (unsigned long long)stride << 32 | mode;
}
"""
ADD = """\
__device__ __forceinline__ unsigned long long tw_smem_desc_add_16B_offset(unsigned long long desc, unsigned int units) {
  return (desc & ~0xffffffffull) | (unsigned int)(desc + units);  // one addition: no address is beyond its 14 bits
}
"""


class DescriptorField(NamedTuple):
    """A field of a descriptor: 14 bits, for a number that is a multiple of ``step``."""

    name: str
    step: int
    allowed: str

    def admits(self, value: Lanes | np.int64) -> Lanes:
        """Can the field hold this number?"""
        ok: Lanes = (value >= 0) & (value <= MOST * self.step) & (value % self.step == 0)
        return ok


MOST = (1 << 14) - 1
OFFSET = 0x3FFFF  # the bits of a shared address that are the offset in the CTA's window
FIELDS = {
    "ptr": DescriptorField("the start address", UNIT, f"a multiple of 16, at most {MOST * UNIT:#x}"),
    "ldo": DescriptorField("ldo", 1, f"0..{MOST}, in units of 16 bytes"),
    "sdo": DescriptorField("sdo", 1, f"0..{MOST}, in units of 16 bytes"),
}


def _check_fields(machine: Machine, **values: Lanes) -> None:
    for name, value in values.items():
        wrong = machine.active & ~FIELDS[name].admits(value)
        if wrong.any():
            sample = np.broadcast_to(value, wrong.shape)[wrong][0]
            field = FIELDS[name]
            machine.fault(f"{field.name} of a matrix descriptor is {field.allowed}; it is {sample}", wrong)


def encoder(modes: Mapping[int, int]) -> Callable[..., Lanes]:
    """The meaning of an encoding instruction. modes: for each swizzle mode its bits, and those that are always set."""

    def encode(machine: Machine, start: Lanes, ldo: Lanes, sdo: Lanes, *, swizzle: int) -> Lanes:
        """Start address, leading and stride offset and the swizzle's code, each in its field."""
        start = start & np.asarray(OFFSET, start.dtype)
        _check_fields(machine, ptr=start, ldo=ldo, sdo=sdo)
        near, far = ldo.astype(np.uint64) << np.uint64(16), sdo.astype(np.uint64) << np.uint64(32)
        words: Lanes = start.astype(np.uint64) >> np.uint64(4) | near | far | np.uint64(modes[swizzle])
        return words

    return encode


def add_units(desc: Lanes, units: Lanes) -> Lanes:
    """The start address moved by ``units`` of 16 bytes, as a sum of the low words, which is right in its 14 bits."""
    low = np.uint64(0xFFFFFFFF)
    return (desc & ~low) | ((desc + units.astype(np.uint64)) & low)


def _check_constants(bound: Bound) -> None:
    for name, field in FIELDS.items():
        number = const_value(bound.operands[name][0])
        if number is not None and not field.admits(np.int64(number)):
            raise InstructionError(f"T.{bound.instruction.name}: {field.name}", given=number, allowed=field.allowed)


for _generation, _format in GENERATIONS.items():
    _modes = {
        int(mode): code << _format.fields["swizzle"].first | _format.constant
        for mode, code in sorted(swizzle_codes(_generation).items())
    }
    single(
        f"ptx.{_format.name}.encode_matrix_descriptor",
        Cuda(
            "{desc} = tw_matrix_descriptor({ptr}, {ldo}, {sdo}, {swizzle})",
            {"swizzle": {mode: f"{bits:#x}ull" for mode, bits in _modes.items()}},
            helper=ENCODE,
        ),
        since("sm_75"),
        SOURCES[_generation],
        Meaning(encoder(_modes), on="machine", passes=("swizzle",)),
        params=("desc", "ptr", "ldo", "sdo", "swizzle"),
        operands=(writes("desc", "b64"), reads("ptr", "shared"), counts("ldo"), counts("sdo")),
        check=_check_constants,
        doc=f"The matrix descriptor of {_format.name} for a tile at ``ptr``; ldo and sdo are in units of 16 bytes.",
    )

for _name in ("smem_desc_add_16B_offset", "cuda.smem_desc_add_16B_offset", "ptx.tcgen05.smem_desc_add_16B_offset"):
    single(
        _name,
        Cuda("tw_smem_desc_add_16B_offset({desc}, {units})", helper=ADD),
        since("sm_75"),
        SOURCES["sm_100"],
        Meaning(add_units),
        operands=(counts("desc", "b64"), counts("units")),
        doc="The matrix descriptor of a tile that starts ``units`` times 16 bytes later.",
        result=dtype("uint64"),
    )

# Making instruction descriptors.

PRODUCT_TYPES = ("d_dtype", "a_dtype", "b_dtype")
SIGNS = ("trans_a", "trans_b", "neg_a", "neg_b")


class Encoder(NamedTuple):
    """An instruction that encodes descriptors. helper: its C++ function of ``fields``, in their order. numbers, flags:
    its operands, in their order.
    """

    helper: str
    fields: Mapping[str, Bits]
    numbers: tuple[str, ...]
    flags: tuple[str, ...]

    @property
    def text(self) -> str:
        """The C++ function, which gets fields as numbers before their step divides them."""
        steps = ((name, at.first, at.step) for name, at in self.fields.items())
        parts = (f"({f} / {step}) << {first}" if step > 1 else f"{f} << {first}" for f, first, step in steps)
        return f"""\
__device__ __forceinline__ unsigned int {self.helper}(
    {", ".join(f"unsigned int {name}" for name in self.fields)}) {{
  return {" | ".join(parts)};
}}
"""

    def product(self, kind: str, mods: Mods, values: Mapping[str, int]) -> InstructionDescriptor:
        """The product that modifiers and operands say."""
        fields: dict[str, Any] = {name: str(mods[name]) for name in PRODUCT_TYPES}
        fields |= {name: bool(value) if name in self.flags else value for name, value in values.items()}
        fields |= {"sf_dtype": str(mods["sfa_dtype"])} if "sfa_dtype" in mods else {"keeps_b": bool(mods["ws"])}
        fields |= {"sparse": bool(mods["is_sparse"]), "wide": mods["K"] == PRODUCT_KINDS[kind].wide}
        return InstructionDescriptor(kind, cta_group=int(str(mods["n_cta_groups"])), **fields)

    def check(self, bound: Bound) -> None:
        """Raises InstructionError for operands that are no constants, and for what is no product."""
        numbers = {name: const_value(bound.operands[name][0]) for name in (*self.numbers, *self.flags)}
        if unknown := [name for name, value in numbers.items() if value is None]:
            text = ", ".join(f"{name} = {bound.operands[name][0]}" for name in unknown)
            raise InstructionError(f"T.{bound.instruction.name}: {unknown[0]}", given=text, allowed="a constant")
        kind = bound.form.meaning.execute.keywords["kind"]  # type: ignore[union-attr]  # a partial
        self.product(kind, bound.mods, numbers)  # type: ignore[arg-type]  # numbers

    def encoded(self, machine: Machine, *values: Lanes, kind: str, **mods: Argument) -> Lanes:
        """The word, equal in all lanes: everything is known when the kernel is compiled."""
        numbers = {name: int(value.flat[0]) for name, value in zip((*self.numbers, *self.flags), values, strict=True)}
        return np.full((*machine.active.shape[:-1], 1), self.product(kind, mods, numbers).encode(), np.uint32)

    def form(
        self, kind: str, result: str, k: int, modifiers: Mapping[str, Spellings], settings: Mapping[str, str]
    ) -> Form:
        """A form for products of a kind. settings: fields that are neither operands nor modifiers."""
        row = PRODUCT_KINDS[kind]
        elements = {element: str(code) for element, code in row.elements_for(result).items()}
        listed = ", ".join(settings.get(name, f"{{{name}}}") for name in self.fields)
        table: dict[str, Spellings] = {"a_dtype": elements, "b_dtype": elements, "K": {k: ""}}
        table |= {"d_dtype": {result: str(row.results[result])}, "n_cta_groups": {1: "", 2: ""}, **modifiers}
        return Form(
            Cuda(f"{{desc}} = {self.helper}({listed})", table, helper=self.text),
            since("sm_75"),
            'PTX ISA, "TensorCore 5th Generation: Instruction descriptor"',
            Meaning(partial(self.encoded, kind=kind), on="machine", passes=tuple(table)),
        )

    def operands(self) -> tuple[Operand, ...]:
        """Those of the row."""
        return (
            writes("desc", "b32"),
            *(reads(m, "imm") for m in self.numbers),
            *(reads(m, "pred") for m in self.flags),
        )


PLAIN = Encoder("tw_instruction_descriptor", PRODUCT_FIELDS, ("M", "N", "selector", "max_shift"), (*SIGNS, "sat_d"))
SCALED = Encoder("tw_scaled_instruction_descriptor", SCALED_FIELDS, ("M", "N", "sfa_id", "sfb_id"), SIGNS)


def _lengths(row: MultiplicationKind) -> Iterator[tuple[int, bool, bool]]:
    """K, and whether A is sparse, and whether it is the longer one of dense products."""
    yield row.k, False, False
    yield 2 * row.k, True, False
    if row.wide:
        yield row.wide, False, True


def _plain_forms() -> Iterator[Form]:
    for kind, row in PRODUCT_KINDS.items():
        for result, (k, sparse, _) in combined(() if row.scales else row.results, _lengths(row)):
            for ws, ctas in ((False, (1, 2)), (True, (1,))):  # a pair keeps no columns
                modifiers: dict[str, Spellings] = {"is_sparse": {sparse: ""}, "ws": {ws: ""}}
                modifiers["n_cta_groups"] = dict.fromkeys(ctas, "")
                yield PLAIN.form(kind, result, k, modifiers, {"sparse": str(int(sparse))})


def _scaled_forms() -> Iterator[Form]:
    """Of kinds with the same bits, the one that has all of their products."""
    for kind in ("mxf8f6f4", "mxf4nvf4"):
        row = PRODUCT_KINDS[kind]
        for (sf_dtype, (code, _)), (k, sparse, wide) in combined(row.scales.items(), _lengths(row)):
            types: dict[str, Spellings] = {
                "is_sparse": {sparse: ""},
                "sfa_dtype": {sf_dtype: ""},
                "sfb_dtype": {sf_dtype: ""},
            }
            settings = {"sparse": str(int(sparse)), "sf_dtype": str(code), "wide": str(int(wide))}
            yield SCALED.form(kind, "float32", k, types, settings)


def with_scale_id(desc: Lanes, sf_id: Lanes) -> Lanes:
    """The descriptor with other bytes for the first scales of A and B."""
    first = [SCALED_FIELDS[name].first for name in ("sfa_id", "sfb_id")]
    number = sf_id.astype(np.uint32) & np.uint32(3)
    return np.asarray(desc & ~np.uint32(sum(3 << at for at in first)) | sum(number << np.uint32(at) for at in first))


_DEFAULTS = {"trans_a": False, "trans_b": False, "n_cta_groups": 1, "neg_a": False, "neg_b": False, "is_sparse": False}
instruction(
    "ptx.tcgen05.encode_instr_descriptor",
    params=("desc",),
    keywords={
        **dict.fromkeys((*PRODUCT_TYPES, "M", "N", "K"), REQUIRED),
        **_DEFAULTS, "sat_d": False, "selector": 0, "max_shift": 0, "ws": False,
    },
    operands=PLAIN.operands(),
    check=PLAIN.check,
    doc="The instruction descriptor of tcgen05.mma for D = A * B; ``trans_a`` and ``trans_b`` for MN-major operands.",
    forms=tuple(_plain_forms()),
)  # fmt: skip
instruction(
    "ptx.tcgen05.encode_instr_descriptor_block_scaled",
    params=("desc",),
    keywords={
        **dict.fromkeys((*PRODUCT_TYPES, "sfa_dtype", "sfb_dtype", "M", "N", "K"), REQUIRED),
        **_DEFAULTS, "sfa_id": 0, "sfb_id": 0,
    },
    operands=SCALED.operands(),
    check=SCALED.check,
    doc="The same for products with scales of blocks; ``sfa_id`` and ``sfb_id`` are the bytes of the first scales.",
    forms=tuple(_scaled_forms()),
)  # fmt: skip
single(
    "cuda.runtime_instr_desc",
    Cuda("{desc} = ({desc} & 0x9fffffcfu) | (({sf_id} & 3u) << 29) | (({sf_id} & 3u) << 4)"),
    since("sm_75"),
    'PTX ISA, "TensorCore 5th Generation: Instruction descriptor"',
    Meaning(with_scale_id),
    operands=(updates("desc", "b32"), counts("sf_id")),
    doc="Changes, in an instruction descriptor, the byte that has the first scale of a block, for A and for B.",
)
