"""Undefined integer arithmetic: division by zero, the least number by -1, shifts by the width or more.

``python -m tests.gpu.undefined`` prints the GPU's results beside the simulator's, for each operator and type.
"""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray

from tests.gpu.hardware import Bench
from tests.gpu.numbers import computing, corners, whole_rounds
from tilewright.dtypes import DType, dtype
from tilewright.ir import binary

KINDS = [dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]
DIVISIONS = ("//", "%", "truncdiv", "truncmod")
SHIFTS = ("<<", ">>")
Numbers = NDArray[np.generic]


def operands(kind: DType, op: str) -> tuple[Numbers, Numbers]:
    """Each corner of the type with each divisor or count that the operator has no value for, and those beside them."""
    ends = np.iinfo(str(kind))
    width = kind.bits
    wanted = (
        [0, 1, -1] if op in DIVISIONS else [width - 1, width, width + 1, 2 * width, 31, 32, 33, 63, 64, 65, 255, -1]
    )
    wanted += [] if op in DIVISIONS else [ends.max, ends.min]
    right = np.array(sorted({value for value in wanted if ends.min <= value <= ends.max}), kind.numpy)
    left = corners(kind)
    return whole_rounds(np.repeat(left, right.size)), whole_rounds(np.tile(right, left.size))


def measured(kind: DType, op: str, bench: Bench, *, judged: bool) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Operands, and results on the GPU and on the simulator; operands come from memory, unfolded."""
    a, b = operands(kind, op)
    values = {"out": lambda x, y: binary(op, x, y)}
    kernel, arrays = computing({"a": (kind, a), "b": (kind, b)}, values)
    with np.errstate(all="ignore"):
        hardware, simulated = bench.run(kernel.kernel(), arrays, check="none", judged=judged)["out"]
    return a, b, hardware, simulated


def main() -> int:
    """Every case once: operator, type, operands, the GPU's value, and the simulator's where it differs."""
    differ = 0
    for kind in KINDS:
        for op in (*DIVISIONS, *SHIFTS):
            rows = zip(*measured(kind, op, Bench(), judged=False), strict=True)
            for a, b, hardware, simulated in sorted({tuple(map(int, row)) for row in rows}):
                differ += hardware != simulated
                note = "" if hardware == simulated else f"   simulator {simulated}"
                print(f"{kind:7} {a} {op} {b} = {hardware}{note}")
    print(f"{differ} differ")
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())
