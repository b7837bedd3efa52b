"""Pairs of float32 in one 64-bit register, computed by one instruction, and the largest of three numbers.

The rounding is the caller's: rn to nearest even, rz to zero, rm down, rp up; ``ftz`` makes zeros of subnormal numbers.
Sources: PTX ISA, "Floating Point Instructions: add, sub, mul, fma", and "max".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.dtypes import dtype
from tilewright.isa.arch import since
from tilewright.isa.arith import larger, smaller
from tilewright.isa.machine import Lanes
from tilewright.isa.rounded import OPERATIONS
from tilewright.isa.scalar.floats import arithmetic
from tilewright.isa.table import Meaning, Ptx, reads, single, writes

SOURCE = 'PTX ISA, "Floating Point Instructions: {}"'
ROUNDING = {mode: f".{mode}" for mode in ("rn", "rz", "rm", "rp")}
FLUSH = {False: "", True: ".ftz"}


def _on_pairs(name: str) -> Callable[..., Lanes]:
    compute = arithmetic(name)

    def execute(*registers: Lanes, rounding: str, ftz: bool) -> Lanes:
        pairs = (np.ascontiguousarray(one, np.uint64)[..., None].view(np.float32) for one in registers)
        found = compute(type="f32x2", rnd=rounding, ftz=ftz)(*pairs)
        both: Lanes = np.ascontiguousarray(found).view(np.uint64)[..., 0]
        return both

    return execute


for _name, (_formula, _) in OPERATIONS.items():
    _operands = ("a", "b", "c") if _name == "fma" else ("a", "b")
    single(
        f"ptx.{_name}_f32x2",
        Ptx(f"{_name}{{rounding}}{{ftz}}.f32x2", {"rounding": ROUNDING, "ftz": FLUSH}),
        since("sm_100"),
        SOURCE.format(_name),
        Meaning(_on_pairs(_name), passes=("rounding", "ftz")),
        keywords={"rounding": "rn", "ftz": False},
        operands=(writes("d", "b64"), *(reads(_operand, "b64") for _operand in _operands)),
        doc=f"Both float32 of a pair: {_formula}.",
    )


def _of_three(extreme: Callable[[Lanes, Lanes], Lanes]) -> Callable[[Lanes, Lanes, Lanes], Lanes]:
    def execute(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        return extreme(extreme(a, b), c)

    return execute


for _name, _word, _extreme in (("max", "largest", larger), ("min", "smallest", smaller)):
    single(
        f"ptx.reduce3_{_name}_f32",
        Ptx(f"{_name}.f32"),
        since("sm_100"),
        SOURCE.format(_name),
        Meaning(_of_three(_extreme)),
        operands=(reads("a", "f32"), reads("b", "f32"), reads("c", "f32")),
        doc=f"The {_word} of three numbers; NaN only where all are.",
        result=dtype("float32"),
    )
