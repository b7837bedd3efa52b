"""Instruction descriptors: 32 bits that tell tcgen05.mma which product it computes.

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

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tilewright.errors import InstructionError, choices
from tilewright.isa.descriptors import Bits

__all__ = [
    "PRODUCT_FIELDS", "PRODUCT_KINDS", "SCALED_FIELDS", "WORD_BLOCKS", "InstructionDescriptor", "MultiplicationKind",
    "product_descriptor", "product_heights", "product_widths",
]  # fmt: skip

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
            raise _refused("kind", self.kind, choices(self.kind, PRODUCT_KINDS))
        for name in TYPES[: 4 if row.scales else 3]:
            _check(name, getattr(self, name), _types(row, name))
        if not {self.a_dtype, self.b_dtype} <= row.elements_for(self.d_dtype).keys():
            raise _refused("d_dtype", "float16 with bfloat16 operands", "float32")
        self._check_flags(row)
        self._check_shape(row)

    def _check_flags(self, row: MultiplicationKind) -> None:
        if (self.neg_a or self.neg_b) and not row.signs:
            raise _refused("neg_a" if self.neg_a else "neg_b", "set", "clear: integers are not negated")
        if self.sat_d and row.signs:
            raise _refused("sat_d", "set", "clear: only integers are clamped")
        if self.wide and (not row.wide or self.sparse):
            raise _refused("wide", "set", "clear: K is 96 for dense products of 4-bit elements alone")
        if row.element_bits < 8 and (self.trans_a or self.trans_b):
            raise _refused("trans_a" if self.trans_a else "trans_b", "set", "clear: 4-bit elements are K-major")
        most = {"max_shift": 4 if self.keeps_b else 1, "selector": self.selectors}
        for name, count in (most | dict.fromkeys(("sfa_id", "sfb_id"), 4)).items():
            if not 0 <= getattr(self, name) < count:
                raise _refused(name, getattr(self, name), ", ".join(map(str, range(count))))

    def _check_shape(self, row: MultiplicationKind) -> None:
        if self.keeps_b and self.cta_group == 2:
            raise _refused("cta_group", 2, "1 where B's columns are kept")
        form = {"keeps_b": self.keeps_b, "sparse": self.sparse}
        _check("M", self.M, product_heights(self.kind, self.cta_group, **form))
        widths = product_widths(self.kind, self.cta_group, trans_b=self.trans_b, **form)
        if self.keeps_b:
            _check("N", self.N, widths)
            return
        if self.N not in widths:
            step = f"a multiple of {widths[-1] - widths[-2]}, {widths[0]} to {widths[-1]}"
            more = "" if len(widths) == widths[-1] // (widths[-1] - widths[-2]) else f", or one of {widths[:3]}"
            raise _refused("N", self.N, f"{step}{more}, for kind {self.kind}")

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
                    raise _refused(name, f"code {code} in {at}", f"{listed} for kind {kind}")
                values[name] = next(kind for kind, number in types.items() if number == code)
        others = bits & ~sum((1 << at.width) - 1 << at.first for at in _fields(row).values())
        if others:
            listed = ", ".join(str(place) for place in range(32) if others >> place & 1)
            raise _refused("reserved bits", f"{bits:#010x}, which sets bits {listed}", "0 there")
        return cls(kind=kind, cta_group=cta_group, keeps_b=keeps_b, **values)  # type: ignore[arg-type]  # each of its field's type


def _fields(row: MultiplicationKind) -> Mapping[str, Bits]:
    return SCALED_FIELDS if row.scales else PRODUCT_FIELDS


def _types(row: MultiplicationKind, name: str) -> Mapping[str, int]:
    if name == "sf_dtype":
        return {kind: code for kind, (code, _) in row.scales.items()}
    return row.results if name == "d_dtype" else row.elements


def _check(name: str, value: object, codes: Mapping[str, int] | tuple[int, ...]) -> None:
    if value not in codes:
        raise _refused(name, value, ", ".join(map(str, codes)))


def _refused(name: str, value: object, allowed: str) -> InstructionError:
    return InstructionError(f"instruction descriptor: {name}", given=str(value), allowed=allowed)


@lru_cache(maxsize=1024)
def product_descriptor(bits: int, kind: str, cta_group: int, *, keeps_b: bool = False) -> InstructionDescriptor | str:
    """The descriptor that these bits are, or why they are none."""
    try:
        return InstructionDescriptor.decode(int(np.uint32(bits)), kind, cta_group, keeps_b=keeps_b)
    except InstructionError as error:
        return f"{error.what} is {error.given}; it may be {error.allowed}"
