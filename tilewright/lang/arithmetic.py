"""What a kernel computes while it is parsed: numbers and sequences that fit a machine, in so many steps."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from tilewright.errors import KernelError

MOST_BITS = 4096  # of a Python integer; those of a kernel have 64
MOST_ENTRIES = 1 << 20  # of a sequence that an operator repeats
MOST_STEPS = 1 << 20  # statements and rounds of comprehensions


BINARY: Mapping[type[ast.operator], Callable[[Any, Any], object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.MatMult: operator.matmul,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}


def _product(left: object, right: object) -> tuple[int, int]:
    """Bits and entries of ``left * right``."""
    for sequence, times in ((left, right), (right, left)):
        if isinstance(sequence, (str, bytes, tuple, list)) and isinstance(times, int):
            return 0, len(sequence) * max(times, 0)
    return _bits(left) + _bits(right), 0


def _power(left: object, right: object) -> tuple[int, int]:
    if not isinstance(left, int) or not isinstance(right, int) or abs(left) < 2:
        return 0, 0
    return (left.bit_length() - 1) * max(right, 0), 0


def _shifted(left: object, right: object) -> tuple[int, int]:
    return (_bits(left) + right, 0) if isinstance(right, int) and isinstance(left, int) and left else (0, 0)


def _bits(value: object) -> int:
    return value.bit_length() if isinstance(value, int) else 0


GROWING: Mapping[type[ast.operator], Callable[[object, object], tuple[int, int]]] = {
    ast.Mult: _product,
    ast.Pow: _power,
    ast.LShift: _shifted,
}


def computed(op: ast.operator, left: object, right: object) -> object:
    """``left op right``. Raises KernelError for a number or a sequence that no kernel has a use for."""
    size = GROWING.get(type(op))
    bits, entries = size(left, right) if size is not None else (0, 0)
    if bits > MOST_BITS:
        amount, allowed = f"more than {bits:,} bits", "constants of a kernel have at most 64"
        raise KernelError("a number grows out of bounds", given=amount, allowed=allowed)
    if entries > MOST_ENTRIES:
        amount, allowed = f"{entries:,} entries", f"{MOST_ENTRIES:,} entries"
        raise KernelError("a sequence grows out of bounds", given=amount, allowed=allowed)
    return BINARY[type(op)](left, right)


def too_many_steps() -> KernelError:
    """The error for a kernel whose parse takes more than `MOST_STEPS`."""
    return KernelError(
        "the kernel takes too many steps to parse",
        given=f"more than {MOST_STEPS:,} statements and rounds of comprehensions",
        allowed=f"{MOST_STEPS:,}",
        hint="range(...), which loops at run time",
    )
