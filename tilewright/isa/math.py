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

from tilewright.dtypes import BOOL, INT32, dtype
from tilewright.isa.arch import since
from tilewright.isa.arith import larger, smaller
from tilewright.isa.machine import Lanes
from tilewright.isa.table import Cuda, Form, Meaning, instruction, reads, single

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

# Counting and turning the bits of integers. Source: CUDA Math API, "Integer Intrinsics".

_BYTES = np.arange(256, dtype=np.uint8)
_COUNT = np.unpackbits(_BYTES[:, None], axis=1).sum(axis=1, dtype=np.uint8)
_REVERSED = np.packbits(np.unpackbits(_BYTES[:, None], axis=1), axis=1, bitorder="little")[:, 0]


def _bytes(x: Lanes) -> Lanes:
    """The bytes of each element along a new last axis, the lowest first."""
    bytes_of: Lanes = np.ascontiguousarray(x)[..., None].view(np.uint8)
    return bytes_of


def popcount(x: Lanes) -> Lanes:
    """How many bits are set."""
    counts: Lanes = _COUNT.take(_bytes(x))
    total: Lanes = counts.sum(axis=-1, dtype=np.int32)
    return total


def clz(x: Lanes) -> Lanes:
    """Zero bits above the highest set one; all of them for 0."""
    lit = np.unpackbits(_bytes(x)[..., ::-1], axis=-1)  # the highest bit first
    zeros: Lanes = np.where(lit.any(-1), lit.argmax(-1), lit.shape[-1])
    return zeros.astype(np.int32)


def ffs(x: Lanes) -> Lanes:
    """The place of the lowest set bit, counted from 1; 0 for 0."""
    lit = np.unpackbits(_bytes(x), axis=-1, bitorder="little")
    return np.where(lit.any(-1), lit.argmax(-1) + 1, 0).astype(np.int32)


def brev(x: Lanes) -> Lanes:
    """The bits in reverse order."""
    return np.ascontiguousarray(_REVERSED.take(_bytes(x))[..., ::-1]).view(x.dtype)[..., 0]


def _bits_row(name: str, stem: str, execute: Callable[[Lanes], Lanes], doc: str, *, counts: bool) -> None:
    instruction(
        name,
        operands=(reads("x", "typed"),),
        doc=doc,
        forms=tuple(
            Form(
                Cuda(
                    "{dtype}({x})" if counts else f"({kind}){{dtype}}({{x}})",
                    {"dtype": dict.fromkeys(dtypes, stem + suffix)},
                ),
                since("sm_75"),
                'CUDA Math API, "Integer Intrinsics"',
                Meaning(execute),
                result=INT32 if counts else "x",
            )
            for dtypes, kind, suffix in (
                (("int32",), "int", ""),
                (("uint32",), "unsigned int", ""),
                (("int64",), "long long", "ll"),
                (("uint64",), "unsigned long long", "ll"),
            )
        ),
    )


_bits_row("popcount", "__popc", popcount, "How many bits of x are set, an int32.", counts=True)
_bits_row("clz", "__clz", clz, "Zero bits above the highest set bit of x, an int32.", counts=True)
_bits_row("ffs", "__ffs", ffs, "The place of the lowest set bit of x from 1 on, 0 for none, an int32.", counts=True)
_bits_row("brev", "__brev", brev, "The bits of x in reverse order.", counts=False)

# Random numbers that a counter decides: Philox, and a hash of 32 bits. The bits are the same on the GPU and here.
#
# Each number is a function of a seed and of its own number, so that threads need no state, and a run can be repeated.
# Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3" (Philox-4x32-10); the hash is the
# finalizer of MurmurHash3.

ROUNDS = 10
MULTIPLIERS, WEYL = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)
MIXERS = (0x85EBCA6B, 0xC2B2AE35)
LOW, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
INTEGERS = ("int32", "uint32", "int64", "uint64")

PHILOX = f"""\
__device__ __forceinline__ unsigned int tw_philox(unsigned long long seed, unsigned long long offset, int word) {{
  unsigned int k0 = (unsigned int)seed, k1 = (unsigned int)(seed >> 32);
  unsigned int c0 = (unsigned int)offset, c1 = (unsigned int)(offset >> 32), c2 = 0, c3 = 0;
#pragma unroll
  for (int i = 0; i < {ROUNDS}; ++i) {{
    const unsigned int h0 = __umulhi({MULTIPLIERS[0]}u, c0), l0 = {MULTIPLIERS[0]}u * c0;
    const unsigned int h1 = __umulhi({MULTIPLIERS[1]}u, c2), l1 = {MULTIPLIERS[1]}u * c2;
    c0 = h1 ^ c1 ^ k0; c1 = l1; c2 = h0 ^ c3 ^ k1; c3 = l0;
    k0 += {WEYL[0]}u; k1 += {WEYL[1]}u;
  }}
  return word == 0 ? c0 : word == 1 ? c1 : word == 2 ? c2 : c3;
}}
"""
HASH = f"""\
__device__ __forceinline__ unsigned int tw_hash(unsigned int x) {{
  x ^= x >> 16; x *= {MIXERS[0]}u; x ^= x >> 13; x *= {MIXERS[1]}u;
  return x ^ x >> 16;
}}
"""


def philox(seed: Lanes, offset: Lanes, word: int = 0) -> Lanes:
    """A word of Philox-4x32-10 whose key is ``seed`` and whose counter is ``offset``, both of 64 bits."""
    key, counter = (value.astype(np.int64).view(np.uint64) if value.dtype.kind == "i" else value.astype(np.uint64)
                    for value in (seed, offset))  # fmt: skip
    k0, k1, c0, c1 = key & LOW, key >> HALF, counter & LOW, counter >> HALF
    c2 = c3 = np.zeros_like(c0)
    first, second = map(np.uint64, MULTIPLIERS)
    for _ in range(ROUNDS):
        product, other = first * c0, second * c2  # of 32 bits each, so that nothing is lost
        c0, c1, c2, c3 = other >> HALF ^ c1 ^ k0, other & LOW, product >> HALF ^ c3 ^ k1, product & LOW
        k0, k1 = k0 + np.uint64(WEYL[0]) & LOW, k1 + np.uint64(WEYL[1]) & LOW
    return (c0, c1, c2, c3)[word].astype(np.uint32)


def uniform(seed: Lanes, offset: Lanes, word: int = 0) -> Lanes:
    """The upper 24 bits of that word as a float32 from 0 on, below 1."""
    return (philox(seed, offset, word) >> np.uint32(8)).astype(np.float32) * np.float32(2**-24)


def hashed(x: Lanes) -> Lanes:
    """32 bits mixed, each of which depends on all of x."""
    bits = x.astype(np.uint32)
    for shift, mixer in zip((16, 13), MIXERS, strict=True):
        bits = (bits ^ bits >> np.uint32(shift)) * np.uint32(mixer)
    return bits ^ bits >> np.uint32(16)


WORDS = {word: str(word) for word in range(4)}
WORD = dtype("uint32")
for _name, _text, _meaning, _result, _doc in (
    ("randint", "{}", philox, WORD, "A random uint32"),
    ("rand", "((float)({} >> 8) * 5.9604644775390625e-8f)", uniform, dtype("float32"), "A random float32 in [0, 1)"),
):
    single(
        _name,
        Cuda(
            _text.format("{dtype}({seed}, {offset}, {word})"),
            {"dtype": dict.fromkeys(INTEGERS, "tw_philox"), "word": WORDS},
            helper=PHILOX,
        ),
        since("sm_75"),
        'Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3"',
        Meaning(_meaning, passes=("word",)),
        keywords={"word": 0},
        operands=(reads("seed", "typed"), reads("offset", "typed")),
        doc=f"{_doc} that seed and offset, of up to 64 bits, decide by Philox-4x32-10; word: which of four, 0 to 3.",
        result=_result,
    )
single(
    "hash32",
    Cuda("{dtype}({x})", {"dtype": dict.fromkeys(("int32", "uint32"), "tw_hash")}, helper=HASH),
    since("sm_75"),
    'MurmurHash3, "fmix32"',
    Meaning(hashed),
    operands=(reads("x", "typed"),),
    doc="The 32 bits of x mixed to a uint32, each bit of which depends on all of them; 0 stays 0.",
    result=WORD,
)
