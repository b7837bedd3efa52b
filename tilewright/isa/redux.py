"""redux.sync: one instruction joins a 32-bit integer of every lane of a warp.

Source: CUDA C++ Programming Guide, "Warp Reduce Functions".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tilewright.isa.arch import since
from tilewright.isa.machine import Lanes, Machine
from tilewright.isa.table import BY_MASK, Cuda, Meaning, counts, reads, single
from tilewright.isa.warp import voters

SOURCE = 'CUDA C++ Programming Guide, "Warp Reduce Functions"'
NUMBERS = {"int32": "int", "uint32": "unsigned int"}


class Join(NamedTuple):
    """How values of lanes are joined. nothing: the number of a dtype that changes no other."""

    join: np.ufunc
    nothing: Callable[[np.dtype[Any]], int]
    doc: str


def _zero(kind: np.dtype[Any]) -> int:
    return 0


JOINS = {
    "add": Join(np.add, _zero, "The sum, modulo 2^32, over the lanes of ``mask``."),
    "min": Join(np.minimum, lambda kind: int(np.iinfo(kind).max), "The smallest of the lanes of ``mask``."),
    "max": Join(np.maximum, lambda kind: int(np.iinfo(kind).min), "The largest of the lanes of ``mask``."),
    "and": Join(np.bitwise_and, lambda kind: int(~kind.type(0)), "The bits that all lanes of ``mask`` have."),
    "or": Join(np.bitwise_or, _zero, "The bits that some lane of ``mask`` has."),
    "xor": Join(np.bitwise_xor, _zero, "The bits that an odd number of lanes of ``mask`` have."),
}


def reduced_by(name: str) -> Callable[[Machine, Lanes, Lanes], Lanes]:
    """The values of all lanes that ``mask`` names, joined; each of these lanes gets the result."""
    join, nothing, _ = JOINS[name]

    def execute(machine: Machine, mask: Lanes, value: Lanes) -> Lanes:
        votes = np.where(voters(machine, mask), value, value.dtype.type(nothing(value.dtype)))
        with np.errstate(over="ignore"):
            total: Lanes = join.reduce(votes, axis=-1, keepdims=True, dtype=value.dtype)
        return np.broadcast_to(total, votes.shape)

    return execute


for _name, _join in JOINS.items():
    single(
        f"cuda.reduce_{_name}_sync",
        Cuda(f"({{dtype}})__reduce_{_name}_sync({{mask}}, {{value}})", {"dtype": NUMBERS}),
        since("sm_80"),
        SOURCE,
        Meaning(reduced_by(_name), on="machine"),
        operands=(counts("mask"), reads("value", "typed")),
        lanes=BY_MASK,
        doc=_join.doc,
        result="value",
    )
