"""float32 as a narrow float, the largest finite one where the number is beyond the range: one `cvt` with satfinite.

``T.cast`` gives NaN or an infinity there, or the largest value of a type that has neither. Source: PTX ISA, "Data
Movement and Conversion Instructions: cvt".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.dtypes import dtype
from tilewright.isa.convert import CONVERSIONS, SOURCE
from tilewright.isa.machine import Lanes
from tilewright.isa.table import Cuda, Form, Meaning, instruction, reads

SATURATING = tuple(to for (_, to), row in CONVERSIONS.items() if row.operands == ("f32", "f32"))
"""The dtypes that numbers are saturated to."""

HELPER = """\
__device__ __forceinline__ unsigned char tw_saturated_{name}(float x) {{
  unsigned short d;
  asm("{text}" : "=h"(d) : "f"(0.0f), "f"(x));
  return (unsigned char)(d & {mask});
}}
"""


def _helper(name: str) -> str:
    return HELPER.format(name=name, text=CONVERSIONS["float32", name].text, mask=(1 << dtype(name).bits) - 1)


def _meaning(name: str) -> Callable[[Lanes], Lanes]:
    """The lower half of the pair that the instruction makes with a zero."""
    both, mask = CONVERSIONS["float32", name].execute, np.uint16((1 << dtype(name).bits) - 1)
    return lambda x: (both(np.zeros_like(x), x) & mask).astype(np.uint8).view(dtype(name).numpy)


instruction(
    "saturated",
    operands=(reads("x", "typed"),),
    keywords={"to": SATURATING[0]},
    doc="The float32 x as a float of 8, 6 or 4 bits, the dtype `to`; beyond the range the largest or smallest value.",
    forms=tuple(
        Form(
            Cuda(
                "{to}({x})",
                {"dtype": {"float32": ""}, "to": {name: f"tw_saturated_{name}"}},
                helper=_helper(name),
            ),
            CONVERSIONS["float32", name].arch,
            SOURCE,
            Meaning(_meaning(name)),
            result=dtype(name),
        )
        for name in SATURATING
    ),
)
