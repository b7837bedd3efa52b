"""redux.sync: one instruction joins a 32-bit integer of every lane of a warp.

Source: CUDA C++ Programming Guide, "Warp Reduce Functions".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.isa.arch import since
from tilewright.isa.machine import Lanes, Machine
from tilewright.isa.table import BY_MASK, Cuda, Meaning, counts, reads, single

__all__ = ["NUMBERS", "reduced_by"]

SOURCE = 'CUDA C++ Programming Guide, "Warp Reduce Functions"'
NUMBERS = {"int32": "int", "uint32": "unsigned int"}


def reduced_by(join: Any, nothing: Callable[[np.dtype[np.generic]], int]) -> Callable[[Machine, Lanes, Lanes], Lanes]:
    """The values of all lanes that ``mask`` names, reduced; each of these lanes gets the result."""

    def execute(machine: Machine, mask: Lanes, value: Lanes) -> Lanes:
        voters = machine.active & ((mask.astype(np.int64) >> np.arange(32) & 1) != 0)
        given = np.where(voters, value, value.dtype.type(nothing(value.dtype)))
        with np.errstate(over="ignore"):
            found: Lanes = join.reduce(given, axis=-1, keepdims=True, dtype=value.dtype)
        return np.broadcast_to(found, given.shape)

    return execute


def _row(name: str, execute: Callable[[Machine, Lanes, Lanes], Lanes], doc: str, kinds: dict[str, str]) -> None:
    single(
        f"cuda.reduce_{name}_sync",
        Cuda(f"({{dtype}})__reduce_{name}_sync({{mask}}, {{value}})", {"dtype": kinds}),
        since("sm_80"),
        SOURCE,
        Meaning(execute, on="machine"),
        operands=(counts("mask"), reads("value", "typed")),
        lanes=BY_MASK,
        doc=doc,
        result="value",
    )


def _all_bits(kind: np.dtype[np.generic]) -> int:
    return (1 << 32) - 1 if kind.kind == "u" else -1


_row("add", reduced_by(np.add, lambda _: 0), "The sum, modulo 2^32, over the lanes of ``mask``.", NUMBERS)
_row(
    "min",
    reduced_by(np.minimum, lambda kind: _all_bits(kind) if kind.kind == "u" else (1 << 31) - 1),
    "The smallest of the lanes of ``mask``.",
    NUMBERS,
)
_row(
    "max",
    reduced_by(np.maximum, lambda kind: 0 if kind.kind == "u" else -(1 << 31)),
    "The largest of the lanes of ``mask``.",
    NUMBERS,
)
_row("and", reduced_by(np.bitwise_and, _all_bits), "The bits that all lanes of ``mask`` have.", NUMBERS)
_row("or", reduced_by(np.bitwise_or, lambda _: 0), "The bits that some lane of ``mask`` has.", NUMBERS)
_row("xor", reduced_by(np.bitwise_xor, lambda _: 0), "The bits that an odd number of lanes of ``mask`` have.", NUMBERS)
