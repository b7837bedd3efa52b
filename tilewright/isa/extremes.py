"""The larger and the smaller number as NumPy has them: NaN where either side is NaN. (``fmax`` and ``fmin`` take the
number.) float32 has an instruction for it. Source: PTX ISA, "Floating Point Instructions: max".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.isa.arch import since
from tilewright.isa.arith import larger, smaller
from tilewright.isa.machine import Lanes
from tilewright.isa.table import Cuda, Form, Meaning, instruction, reads

SOURCE = 'PTX ISA, "Floating Point Instructions: max"'
_SINGLE = """\
__device__ __forceinline__ float tw_{name}f(float a, float b) {{
#if __CUDA_ARCH__ >= 800
  float d;
  asm("{opcode}.NaN.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
  return d;
#else
  return a != a || b != b ? __int_as_float(0x7fffffff) : f{opcode}f(a, b);
#endif
}}
"""
_DOUBLE = """\
__device__ __forceinline__ double tw_{name}(double a, double b) {{
  return a != a || b != b ? __longlong_as_double(0x7fffffffffffffffll) : f{opcode}(a, b);
}}
"""
_HELPERS = {"float32": ("f", _SINGLE), "tf32": ("f", _SINGLE), "float64": ("", _DOUBLE)}
_QUIET: dict[int, Lanes] = {
    4: np.array(0x7FFFFFFF, np.uint32),
    8: np.array(0x7FFFFFFFFFFFFFFF, np.uint64),
}  # the NaN that these instructions give


def extreme_helper(name: str, kind: str) -> tuple[str, str]:
    """The C++ function that is ``minimum`` or ``maximum`` of this dtype: its name and its text."""
    suffix, helper = _HELPERS[kind]
    return f"tw_{name}{suffix}", helper.format(name=name, opcode=name[:3])


def _with_nan(extreme: Callable[[Lanes, Lanes], Lanes]) -> Callable[[Lanes, Lanes], Lanes]:
    def execute(a: Lanes, b: Lanes) -> Lanes:
        nan: Lanes = _QUIET[a.dtype.itemsize].view(a.dtype)
        return np.where(np.isnan(a) | np.isnan(b), nan, extreme(a, b)).astype(a.dtype)

    return execute


def _row(name: str, extreme: Callable[[Lanes, Lanes], Lanes], doc: str) -> None:
    instruction(
        name,
        operands=(reads("a", "typed"), reads("b", "typed")),
        widens=True,
        doc=doc,
        forms=tuple(
            Form(
                Cuda("{dtype}({a}, {b})", {"dtype": {kind: called}}, helper=helper),
                since("sm_75"),
                SOURCE,
                Meaning(_with_nan(extreme)),
                result="a",
            )
            for kind in _HELPERS
            for called, helper in (extreme_helper(name, kind),)
        ),
    )


_row("maximum", larger, "The larger one; NaN where either is NaN.")
_row("minimum", smaller, "The smaller one; NaN where either is NaN.")
