"""Instruction descriptors: 32 bits that tell tcgen05.mma which product it computes.

`InstructionDescriptor` is one, readable: types and shape, majorness and signs. The kind, a word of the instruction,
says how the codes of the types are meant.

    >>> product = InstructionDescriptor("f16", "float32", "bfloat16", "bfloat16", M=128, N=256)
    >>> hex(product.encode())
    '0x8400490'
    >>> InstructionDescriptor.decode(0x8400490, "f16") == product
    True

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
    "PRODUCT_FIELDS",
    "PRODUCT_KINDS",
    "PRODUCT_ROWS",
    "InstructionDescriptor",
    "MultiplicationKind",
    "product_descriptor",
    "product_widths",
]

OPERAND_BYTES = 32  # of each row of A and each column of B, elements narrower than a byte in one of their own


class MultiplicationKind(NamedTuple):
    """A kind of product. elements: of A and B, results: of D, each with its code. signs: may A and B be negated?"""

    k: int
    elements: Mapping[str, int]
    results: Mapping[str, int]
    signs: bool = True

    @property
    def element_bytes(self) -> int:
        """Bytes that an element of A or B takes along K."""
        return OPERAND_BYTES // self.k

    def elements_for(self, result: str) -> Mapping[str, int]:
        """The elements whose products D may have as ``result``."""
        return {name: code for name, code in self.elements.items() if (name, result) != ("bfloat16", "float16")}


_F32 = {"float32": 1}
_NARROW = {"float8_e4m3fn": 0, "float8_e5m2": 1, "float6_e2m3fn": 3, "float6_e3m2fn": 4, "float4_e2m1fn": 5}
PRODUCT_KINDS: Mapping[str, MultiplicationKind] = {
    "f16": MultiplicationKind(16, {"float16": 0, "bfloat16": 1}, {**_F32, "float16": 0}),
    "tf32": MultiplicationKind(8, {"tf32": 2}, _F32),
    "f8f6f4": MultiplicationKind(32, _NARROW, {**_F32, "float16": 0}),
    "i8": MultiplicationKind(32, {"uint8": 0, "int8": 1}, {"int32": 2}, signs=False),
}
PRODUCT_FIELDS: Mapping[str, Bits] = {
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
}
TYPES = ("d_dtype", "a_dtype", "b_dtype")
PRODUCT_ROWS = {1: (64, 128), 2: (128, 256)}  # M, by the CTAs that compute together


def product_widths(kind: str, cta_group: int = 1, *, trans_b: bool = False) -> tuple[int, ...]:
    """Every N of a kind. CUTLASS asks for multiples of 16 where M is 128; the manual does not."""
    step = 8 * cta_group
    if kind == "i8":
        narrow = (8, 16, 24) if cta_group == 1 else ()
        every = (*narrow, *range(32, 257, 2 * step))
    else:
        every = tuple(range(step, 257, step))
    bytewise = PRODUCT_KINDS[kind].element_bytes == 1
    return tuple(n for n in every if not (trans_b and bytewise) or n % (2 * step) == 0)


@dataclass(frozen=True, slots=True)
class InstructionDescriptor:
    """A product D = A * B + D. kind: a key of `PRODUCT_KINDS`. M, N: rows and columns of D, of both CTAs together where
    ``cta_group`` is 2. trans_a, trans_b: is the operand MN-major? neg_a, neg_b: is it negated? sat_d: integers are
    clamped.

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

    def __post_init__(self) -> None:
        row = PRODUCT_KINDS.get(self.kind)
        if row is None:
            raise _refused("kind", self.kind, choices(self.kind, PRODUCT_KINDS))
        for name in TYPES:
            _check(name, getattr(self, name), _types(row, name))
        if not {self.a_dtype, self.b_dtype} <= row.elements_for(self.d_dtype).keys():
            raise _refused("d_dtype", "float16 with bfloat16 operands", "float32")
        if (self.neg_a or self.neg_b) and not row.signs:
            raise _refused("neg_a" if self.neg_a else "neg_b", "set", "clear: integers are not negated")
        if self.sat_d and row.signs:
            raise _refused("sat_d", "set", "clear: only integers are clamped")
        _check("M", self.M, PRODUCT_ROWS[self.cta_group])
        widths = product_widths(self.kind, self.cta_group, trans_b=self.trans_b)
        if self.N not in widths:
            step = f"a multiple of {widths[-1] - widths[-2]}, {widths[0]} to {widths[-1]}"
            more = "" if len(widths) == widths[-1] // (widths[-1] - widths[-2]) else f", or one of {widths[:3]}"
            raise _refused("N", self.N, f"{step}{more}, for kind {self.kind}")

    def encode(self) -> int:
        """The 32 bits."""
        row = PRODUCT_KINDS[self.kind]
        return sum(
            (_types(row, name)[value] if name in TYPES else int(value) // at.step) << at.first
            for name, at in PRODUCT_FIELDS.items()
            for value in (getattr(self, name),)
        )

    @classmethod
    def decode(cls, bits: int, kind: str, cta_group: int = 1) -> InstructionDescriptor:
        """The descriptor that these bits are for a kind. Raises InstructionError for bits that are none."""
        values: dict[str, object] = {}
        for name, at in PRODUCT_FIELDS.items():
            code = bits >> at.first & (1 << at.width) - 1
            values[name] = code * at.step if at.step > 1 else bool(code)
            if name in TYPES:
                known = _types(PRODUCT_KINDS[kind], name)
                if code not in known.values():
                    listed = ", ".join(f"{number} ({each})" for each, number in known.items())
                    raise _refused(name, f"code {code} in {at}", f"{listed} for kind {kind}")
                values[name] = next(each for each, number in known.items() if number == code)
        others = bits & ~sum((1 << at.width) - 1 << at.first for at in PRODUCT_FIELDS.values())
        if others:
            listed = ", ".join(str(place) for place in range(32) if others >> place & 1)
            raise _refused("reserved bits", f"{bits:#010x}, which sets bits {listed}", "0 there, for dense products")
        return cls(kind=kind, cta_group=cta_group, **values)  # type: ignore[arg-type]  # each of its field's type


def _types(row: MultiplicationKind, name: str) -> Mapping[str, int]:
    return row.results if name == "d_dtype" else row.elements


def _check(name: str, value: object, known: Mapping[str, int] | tuple[int, ...]) -> None:
    if value not in known:
        raise _refused(name, value, ", ".join(map(str, known)))


def _refused(name: str, given: object, allowed: str) -> InstructionError:
    return InstructionError(f"instruction descriptor: {name}", given=str(given), allowed=allowed)


@lru_cache(maxsize=1024)
def product_descriptor(bits: int, kind: str, cta_group: int) -> InstructionDescriptor | str:
    """The descriptor that these bits are, or why they are none."""
    try:
        return InstructionDescriptor.decode(int(np.uint32(bits)), kind, cta_group)
    except InstructionError as error:
        return f"{error.what} is {error.given}; it may be {error.allowed}"
