"""Mathematical functions of one thread: CUDA's spelling, NumPy's meaning, and how far the two may be apart.

The simulator computes float32 in float64 and rounds once: within one ulp of the exact value; float64 is within two.
``ulp`` bounds the error of CUDA's function, so a kernel's result may differ from the simulator's by that much more. 0
means that both are exact. The bounds were compared with 4000 arguments of each function on an H200 (NVRTC 13.5, without
fast math). Narrow floats are computed in float32. Source: CUDA C++ Programming Guide, "Mathematical Functions".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilewright.dtypes import BOOL
from tilewright.isa.arch import since
from tilewright.isa.arith import larger, smaller
from tilewright.isa.machine import Lanes
from tilewright.isa.table import Cuda, Meaning, reads, single

SOURCE = 'CUDA C++ Programming Guide, "Mathematical Functions"'
ULP: dict[str, tuple[int, int]] = {}  # errors of CUDA's functions in ulp: in float32, in float64
APPROXIMATIONS = {"expf": "__expf", "exp10f": "__exp10f"}  # under fast math: relative errors of 1.2e-7 (2 + 1.2 abs(x))


def in_float64(function: Callable[..., Lanes]) -> Callable[..., Lanes]:
    """``function`` computed in float64 and rounded to the dtype of its first argument."""

    def execute(*values: Lanes) -> Lanes:
        return function(*(value.astype(np.float64) for value in values)).astype(values[0].dtype)

    return execute


def _half_away(x: Lanes) -> Lanes:
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x), whole)


def _reciprocal_root(x: Lanes) -> Lanes:
    return 1 / np.sqrt(x)


@dataclass(frozen=True, slots=True)
class _Function:
    """stem: CUDA's name for double; for float it ends in "f". exact: rounds nothing, so no detour through float64."""

    stem: str
    meaning: Callable[..., Lanes]
    doc: str
    ulp: tuple[int, int] = (0, 0)
    params: tuple[str, ...] = ("x",)
    exact: bool = False


_FUNCTIONS = {
    "exp": _Function("exp", np.exp, "the exponential of x", (2, 1)),
    "exp2": _Function("exp2", np.exp2, "2 to the power x", (2, 1)),
    "exp10": _Function("exp10", lambda x: np.power(10.0, x), "10 to the power x", (2, 1)),
    "expm1": _Function("expm1", np.expm1, "the exponential of x less 1, without cancellation", (1, 2)),
    "log": _Function("log", np.log, "the natural logarithm", (1, 1)),
    "log2": _Function("log2", np.log2, "the logarithm to base 2", (1, 2)),
    "log10": _Function("log10", np.log10, "the logarithm to base 10", (2, 2)),
    "log1p": _Function("log1p", np.log1p, "log(1 + x), without cancellation", (1, 2)),
    "sqrt": _Function("sqrt", np.sqrt, "the square root, correctly rounded", exact=True),
    "rsqrt": _Function("rsqrt", _reciprocal_root, "1 / sqrt(x)", (2, 1)),
    "sin": _Function("sin", np.sin, "the sine of x radians", (2, 2)),
    "cos": _Function("cos", np.cos, "the cosine of x radians", (2, 2)),
    "tan": _Function("tan", np.tan, "the tangent of x radians", (4, 2)),
    "asin": _Function("asin", np.arcsin, "the angle with sine x", (4, 2)),
    "acos": _Function("acos", np.arccos, "the angle with cosine x", (3, 2)),
    "atan": _Function("atan", np.arctan, "the angle with tangent x", (2, 2)),
    "sinh": _Function("sinh", np.sinh, "the hyperbolic sine", (3, 2)),
    "cosh": _Function("cosh", np.cosh, "the hyperbolic cosine", (2, 2)),
    "tanh": _Function("tanh", np.tanh, "the hyperbolic tangent", (2, 2)),
    "erf": _Function("erf", np.vectorize(math.erf, otypes=[np.float64]), "the error function", (2, 2)),
    "atan2": _Function("atan2", np.arctan2, "the angle of the point (x, y)", (3, 2), params=("y", "x")),
    "pow": _Function("pow", np.power, "the power y of x", (4, 2), params=("x", "y")),
    "hypot": _Function("hypot", np.hypot, "the length of (x, y)", (3, 2), params=("x", "y")),
    "fmod": _Function("fmod", np.fmod, "the remainder of x / y with the sign of x", params=("x", "y"), exact=True),
    "floor": _Function("floor", np.floor, "the largest integer not above x", exact=True),
    "ceil": _Function("ceil", np.ceil, "the smallest integer not below x", exact=True),
    "trunc": _Function("trunc", np.trunc, "the integer part of x", exact=True),
    "round": _Function("round", _half_away, "the nearest integer, halves away from zero", exact=True),
    "rint": _Function("rint", np.rint, "the nearest integer, halves to even", exact=True),
    "nearbyint": _Function("nearbyint", np.rint, "the nearest integer, halves to even", exact=True),
    "fabs": _Function("fabs", np.abs, "the magnitude of x", exact=True),
    "fmin": _Function("fmin", smaller, "the smaller; the number where one is NaN", params=("x", "y"), exact=True),
    "fmax": _Function("fmax", larger, "the larger; the number where one is NaN", params=("x", "y"), exact=True),
    "copysign": _Function(
        "copysign", np.copysign, "the magnitude of x with the sign of y", params=("x", "y"), exact=True
    ),
}


def _holes(params: tuple[str, ...]) -> str:
    return ", ".join(f"{{{param}}}" for param in params)


def _function_row(name: str, row: _Function) -> None:
    ULP[name] = row.ulp
    bound = f"; CUDA is within {row.ulp[0]} ulp in float32, {row.ulp[1]} in float64" if any(row.ulp) else ""
    single(
        name,
        Cuda(f"{{dtype}}({_holes(row.params)})", {"dtype": {"float32": f"{row.stem}f", "float64": row.stem}}),
        since("sm_75"),
        SOURCE,
        Meaning(row.meaning if row.exact else in_float64(row.meaning)),
        operands=tuple(reads(param, "typed") for param in row.params),
        widens=True,
        doc=f"{row.doc[0].upper()}{row.doc[1:]}{bound}.",
        result=row.params[0],
    )


for _name, _row in _FUNCTIONS.items():
    _function_row(_name, _row)


def _absolute(x: Lanes) -> Lanes:
    return np.abs(x)


single(
    "abs",
    Cuda(
        "{dtype}({x})",
        {
            "dtype": {
                **dict.fromkeys(("uint8", "uint16", "uint32", "uint64"), ""),
                "int8": "(signed char)abs",
                "int16": "(short)abs",
                "int32": "abs",
                "int64": "llabs",
                "float32": "fabsf",
                "float64": "fabs",
            }
        },
    ),
    since("sm_75"),
    SOURCE,
    Meaning(_absolute),
    operands=(reads("x", "typed"),),
    widens=True,
    doc="The magnitude of x; the smallest integer stays as it is.",
    result="x",
)


def _question_row(name: str, meaning: Callable[[Lanes], Lanes], doc: str) -> None:
    single(
        name,
        Cuda(f"(bool){name}(({{dtype}})({{x}}))", {"dtype": {"float32": "float", "float64": "double"}}),
        since("sm_75"),
        SOURCE,
        Meaning(meaning),
        operands=(reads("x", "typed"),),
        widens=True,
        doc=doc,
        result=BOOL,
    )


_question_row("isnan", np.isnan, "Whether x is not a number.")
_question_row("isinf", np.isinf, "Whether x is infinite.")
_question_row("isfinite", np.isfinite, "Whether x is neither infinite nor NaN.")
