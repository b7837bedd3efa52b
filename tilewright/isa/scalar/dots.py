"""dp4a, dp2a: sums of products of the bytes and halves of registers.

Source: PTX ISA, "Integer Arithmetic Instructions: dp4a, dp2a".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.isa.scalar.rows import scalar, words
from tilewright.isa.types import Numbers

INTEGERS = "Integer Arithmetic Instructions"
NUMBERS = words("u32", "s32")


def parts(word: str, register: Numbers, count: int) -> Numbers:
    """(..., count) numbers of a register, the low ones first."""
    kind = f"{'i' if word[0] == 's' else 'u'}{4 // count}"
    return np.ascontiguousarray(register)[..., None].view(kind).astype(np.int64)


def wrapped(total: Numbers) -> Numbers:
    """The low 32 bits."""
    return (total & 0xFFFFFFFF).astype(np.uint32)


def _four(*, atype: str, btype: str, **_: object) -> Callable[..., Numbers]:
    return lambda a, b, c: wrapped((parts(atype, a, 4) * parts(btype, b, 4)).sum(-1) + c)


def _two(*, atype: str, btype: str, half: str, **_: object) -> Callable[..., Numbers]:
    place = slice(0, 2) if half == "lo" else slice(2, 4)
    return lambda a, b, c: wrapped((parts(atype, a, 2) * parts(btype, b, 4)[..., place]).sum(-1) + c)


scalar(
    "dp4a",
    "a:b32 b:b32 c:b32",
    ("dp4a{atype}{btype}", {"atype": NUMBERS, "btype": NUMBERS}, _four),
    doc="The sum of c and the products of four bytes of a with four of b.",
    chapter=INTEGERS,
    result="b32",
)
scalar(
    "dp2a",
    "a:b32 b:b32 c:b32",
    ("dp2a{half}{atype}{btype}", {"atype": NUMBERS, "btype": NUMBERS, "half": words("lo", "hi")}, _two),
    doc="The sum of c and the products of two halves of a with two bytes of b, the low or the high ones.",
    chapter=INTEGERS,
    result="b32",
)
