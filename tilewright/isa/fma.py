"""Fused multiply-add: a * b + c with one rounding.

NumPy has no such function. For narrow types the product is exact in float64, and the one sum that is left is rounded to
odd there (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums"): a last bit that says "there was more"
makes the second rounding, to the narrow type, the only one that shows. Source: PTX ISA, "Floating Point Instructions:
fma".
"""

from __future__ import annotations

import numpy as np

from tilewright.dtypes import dtype
from tilewright.isa.arch import since
from tilewright.isa.machine import Lanes
from tilewright.isa.table import Cuda, Form, Meaning, instruction, reads

SOURCE = 'PTX ISA, "Floating Point Instructions: fma"'
BRAIN = dtype("bfloat16").numpy
_SPLIT = 134217729.0  # 2**27 + 1: cuts a float64 into halves of 26 bits


def two_sum(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """The rounded sum, and what the rounding lost (Knuth)."""
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)


def two_product(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """The rounded product, and what the rounding lost (Dekker)."""
    high_a, high_b = a * _SPLIT - (a * _SPLIT - a), b * _SPLIT - (b * _SPLIT - b)
    low_a, low_b = a - high_a, b - high_b
    product = a * b
    return product, low_a * low_b - (((product - high_a * high_b) - low_a * high_b) - high_a * low_b)


def sum_to_odd(a: Lanes, b: Lanes) -> Lanes:
    """a + b in float64; an inexact sum takes the neighbour whose last bit is 1."""
    total, lost = two_sum(a, b)
    even = (total.view(np.int64) & 1) == 0
    inexact = (lost != 0) & np.isfinite(total) & np.isfinite(lost)
    return np.where(inexact & even, np.nextafter(total, np.where(lost > 0, np.inf, -np.inf)), total)


def single_to_odd(wide: Lanes) -> Lanes:
    """float64 as float32, by which ml_dtypes goes to bfloat16; what is inexact ends in a 1, up or down."""
    near = wide.astype(np.float32)
    bits, back = near.view(np.uint32), near.astype(np.float64)
    truncated = np.where(np.abs(back) > np.abs(wide), bits - np.uint32(1), bits)
    return np.where((back != wide) & ~np.isnan(wide), truncated | np.uint32(1), bits).view(np.float32)


def fma_narrow(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """Exact for float32, float16 and bfloat16."""
    wide_a, wide_b, wide_c = np.broadcast_arrays(*(value.astype(np.float64) for value in (a, b, c)))
    wide = sum_to_odd(wide_a * wide_b, wide_c)
    return (single_to_odd(wide) if a.dtype == BRAIN else wide).astype(a.dtype)


def fma_double(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """Exact for float64, but where an intermediate value over- or underflows: there two roundings."""
    high, low = two_product(a, b)
    total, lost = two_sum(c, low)
    top, rest = two_sum(high, total)
    exact = top + sum_to_odd(lost, rest)
    return np.where(np.isfinite(exact), exact, a * b + c)


_HALF = """\
__device__ __forceinline__ unsigned short tw_fma_{name}(unsigned short a, unsigned short b, unsigned short c) {{
  unsigned short d;
  asm("fma.rn.{name} %0, %1, %2, %3;" : "=h"(d) : "h"(a), "h"(b), "h"(c));
  return d;
}}
"""


def _half_form(kind: str, name: str, first: str) -> Form:
    return Form(
        Cuda("{dtype}({a}, {b}, {c})", {"dtype": {kind: f"tw_fma_{name}"}}, helper=_HALF.format(name=name)),
        since(first),
        SOURCE,
        Meaning(fma_narrow),
        result="a",
    )


instruction(
    "fma",
    operands=(reads("a", "typed"), reads("b", "typed"), reads("c", "typed")),
    doc="The value of a * b + c, rounded once.",
    forms=(
        Form(
            Cuda("{dtype}({a}, {b}, {c})", {"dtype": {"float32": "fmaf"}}),
            since("sm_75"),
            SOURCE,
            Meaning(fma_narrow),
            result="a",
        ),
        Form(
            Cuda("{dtype}({a}, {b}, {c})", {"dtype": {"float64": "fma"}}),
            since("sm_75"),
            SOURCE,
            Meaning(fma_double),
            result="a",
        ),
        _half_form("float16", "f16", "sm_75"),
        _half_form("bfloat16", "bf16", "sm_80"),
    ),
)
