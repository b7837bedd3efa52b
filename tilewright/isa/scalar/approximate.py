"""Approximations: rcp, sqrt, rsqrt, div, sin, cos, lg2, ex2, tanh, each within a stated error.

Their bits are not specified. The simulator computes in float64 and rounds once; hardware is within `ERRORS` of that.
Source: PTX ISA, "Floating Point Instructions"; the bounds were measured on an H200.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.isa.operands import TYPES, Numbers
from tilewright.isa.scalar.converting import narrowed
from tilewright.isa.scalar.floats import canonical, flushed
from tilewright.isa.scalar.rows import flag, scalar, words

FLOATS, HALF = "Floating Point Instructions", "Half Precision Floating Point Instructions"
FTZ = flag("ftz")

# The largest error: (relative to the value, absolute), beside one rounding to the type.
ERRORS: dict[tuple[str, str], tuple[float, float]] = {
    ("rcp", "f32"): (2.0**-23, 0.0),
    ("rcp", "f64"): (2.0**-19, 0.0),
    ("sqrt", "f32"): (2.0**-22, 0.0),
    ("rsqrt", "f32"): (2.0**-22, 0.0),
    ("rsqrt", "f64"): (2.0**-19, 0.0),
    ("div", "f32"): (2.0**-22, 0.0),
    ("sin", "f32"): (0.0, 2.0**-20),
    ("cos", "f32"): (0.0, 2.0**-20),
    ("lg2", "f32"): (2.0**-22, 2.0**-22),
    ("ex2", "f32"): (2.0**-21, 0.0),
    ("ex2", "f16"): (2.0**-9, 0.0),
    ("ex2", "bf16"): (2.0**-7, 0.0),
    ("tanh", "f32"): (2.0**-10, 0.0),
    ("tanh", "f16"): (2.0**-10, 2.0**-14),
    ("tanh", "bf16"): (2.0**-7, 0.0),
}


def _quotient(a: Numbers, b: Numbers) -> Numbers:
    return a / b


def _fast_quotient(a: Numbers, b: Numbers) -> Numbers:
    """The quotient by way of the reciprocal, which is 0 for divisors near the largest numbers."""
    beyond = (np.abs(b) > 2.0**126) & np.isfinite(b)
    return np.where(beyond, a * np.copysign(0.0, b), a / b)


_EXACT: dict[str, Callable[..., Numbers]] = {
    "rcp": lambda a: 1 / a,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "sin": np.sin,
    "cos": np.cos,
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
}


def _same(x: Numbers) -> Numbers:
    return x


def _upper_half(x: Numbers) -> Numbers:
    """The value whose upper 32 bits alone count, as for approximations of float64; subnormals become zeros."""
    return flushed((x.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64))


def near(op: str) -> Callable[..., Callable[..., Numbers]]:
    """The meaning of an approximation."""

    def meaning(*, type: str, ftz: bool = False, rnd: str = "approx", **_: object) -> Callable[..., Numbers]:
        kind = TYPES[type].numpy
        exact = _EXACT[op] if op != "div" else _fast_quotient if rnd == "approx" else _quotient
        flush = flushed if ftz else _same
        if type == "f64" and ftz:
            flush = _upper_half

        def execute(*values: Numbers) -> Numbers:
            wide = exact(
                *(np.asarray(flush(value)).astype(np.float32 if kind.itemsize == 2 else np.float64) for value in values)
            )
            result = wide if kind.itemsize == 8 else narrowed(np.asarray(wide, np.float64), kind, "rn")
            return (flushed if ftz else _same)(canonical(np.asarray(result)))

        return execute

    return meaning


for _name, _doc in (
    ("sin", "The sine of a radians"),
    ("cos", "The cosine of a radians"),
    ("lg2", "The logarithm to base 2"),
):
    scalar(
        _name,
        "a",
        (f"{_name}.approx{{ftz}}{{type}}", {"type": words("f32"), "ftz": FTZ}, near(_name)),
        doc=f"{_doc}, approximately.",
        chapter=FLOATS,
    )
scalar(
    "rsqrt",
    "a",
    ("rsqrt.approx{ftz}{type}", {"type": words("f32", "f64"), "ftz": FTZ}, near("rsqrt")),
    doc="1 / sqrt(a), approximately.",
    chapter=FLOATS,
)
scalar(
    "ex2",
    "a",
    ("ex2.approx{ftz}{type}", {"type": words("f32"), "ftz": FTZ}, near("ex2")),
    ("ex2.approx{type}", {"type": words("f16", "f16x2")}, near("ex2")),
    ("ex2.approx.ftz{type}", {"type": words("bf16", "bf16x2"), "ftz": {True: ""}}, near("ex2"), "sm_90"),
    doc="2 to the power a, approximately.",
    chapter=f"{FLOATS}, {HALF}",
)
scalar(
    "tanh",
    "a",
    ("tanh.approx{type}", {"type": words("f32", "f16", "f16x2")}, near("tanh")),
    ("tanh.approx{type}", {"type": words("bf16", "bf16x2")}, near("tanh"), "sm_90"),
    doc="The hyperbolic tangent, approximately.",
    chapter=f"{FLOATS}, {HALF}",
)
