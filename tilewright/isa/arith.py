"""Arithmetic of half, bfloat16 and pairs of float32: one instruction, one rounding. Operations that halves lack are
computed in float32.

These rows are no names of the language (``a + b`` is); they say how the operators of two dtypes are spelled in PTX,
from which architecture on, and what they mean. Source: PTX ISA, "Half Precision Floating Point Instructions"; for
`smaller` and `larger`, which floats of all widths share, "Floating Point Instructions: min".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilewright.dtypes import dtype
from tilewright.isa.arch import Requirement, since
from tilewright.isa.machine import Lanes

SOURCE = 'PTX ISA, "Half Precision Floating Point Instructions"'


@dataclass(frozen=True, slots=True)
class NumberRow:
    """An instruction on numbers: no memory, no other lane.

    text: the assembly; ``%0`` is the result, ``%1`` and on the operands. result, operands: kinds of register, as in
    `tilewright.isa.CONSTRAINTS`. execute: the meaning, on arrays of register bits (f32 and f64: of floats).
    """

    text: str
    result: str
    operands: tuple[str, ...]
    arch: Requirement
    source: str
    execute: Callable[..., Lanes]


_OPERATORS = {"+": ("add", np.add), "-": ("sub", np.subtract), "*": ("mul", np.multiply)}
_TYPES = {  # PTX's name, elements, the first architecture with add, sub and mul
    "float16": ("f16", 1, "sm_75"),
    "float16x2": ("f16x2", 2, "sm_75"),
    "bfloat16": ("bf16", 1, "sm_90"),
    "bfloat16x2": ("bf16x2", 2, "sm_90"),
    "float32x2": ("f32x2", 2, "sm_100"),
}


def _on_bits(operator: Callable[..., Lanes], name: str) -> Callable[[Lanes, Lanes], Lanes]:
    """``operator`` on the elements that registers hold, rounded to their dtype."""
    element = dtype(name).element.numpy
    register = np.dtype(f"u{dtype(name).bits // 8}")

    def execute(a: Lanes, b: Lanes) -> Lanes:
        exact = operator(*(np.ascontiguousarray(side).view(element).astype(np.float32) for side in (a, b)))
        if element == np.float32:
            return np.asarray(exact).view(register)
        return half_bits(exact, element).view(register)

    return execute


def half_bits(values: Lanes, element: np.dtype[np.generic]) -> Lanes:
    """float32 values rounded to half or bfloat16, as bits; every NaN is 0x7fff, as the hardware has it."""
    with np.errstate(over="ignore"):
        return np.where(np.isnan(values), np.uint16(0x7FFF), values.astype(element).view(np.uint16))


def smaller(a: Lanes, b: Lanes) -> Lanes:
    """The smaller number, or the one that is no NaN; -0 is smaller than +0.

    NumPy's ``fmin`` does not define this for zeros of both signs and for signalling NaNs.
    """
    return np.where((a < b) | np.isnan(b) | ((a == b) & np.signbit(a)), a, b)


def larger(a: Lanes, b: Lanes) -> Lanes:
    """The larger number, or the one that is no NaN; +0 is larger than -0."""
    return np.where((a > b) | np.isnan(b) | ((a == b) & np.signbit(b)), a, b)


def least(a: Lanes, b: Lanes) -> Lanes:
    """The smaller number; NaN where either is NaN. So are ``T.min`` and ``Tx.minimum``."""
    return np.where(np.isnan(a), a, np.where(np.isnan(b), b, smaller(a, b)))


def greatest(a: Lanes, b: Lanes) -> Lanes:
    """The larger number; NaN where either is NaN."""
    return np.where(np.isnan(a), a, np.where(np.isnan(b), b, larger(a, b)))


ARITHMETIC = {
    (op, name): NumberRow(
        f"{opcode}.rn.{ptx} %0, %1, %2;",
        f"b{dtype(name).bits}",
        (f"b{dtype(name).bits}",) * 2,
        since(first),
        SOURCE,
        _on_bits(operator, name),
    )
    for op, (opcode, operator) in _OPERATORS.items()
    for name, (ptx, _, first) in _TYPES.items()
}
