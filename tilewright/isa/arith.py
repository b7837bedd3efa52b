"""Numbers of one thread: the arithmetic of halves and float32 that operators and casts name, each instruction with one
rounding, and CUDA's mathematical functions.

Operations that halves lack are computed in float32.

Arithmetic of half, bfloat16 and pairs of float32 is one instruction; operations that halves lack are computed in
float32. These rows are no names of the language (``a + b`` is); they say how the operators of two dtypes are spelled in
PTX, from which architecture on, and what they mean. Source: PTX ISA, "Half Precision Floating Point Instructions"; for
`smaller` and `larger`, which floats of all widths share, "Floating Point Instructions: min".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tilewright.dtypes import BOOL, INT32, DType, dtype
from tilewright.ir import Binary, Call, Cast, Expr, Reinterpret
from tilewright.isa.arch import Arch, Requirement, since, suffixed
from tilewright.isa.calls import bind, spelled
from tilewright.isa.forms import NARROW, TYPES, Cuda, Form, Meaning, Mods, reads, register_kind
from tilewright.isa.machine import Lanes
from tilewright.isa.table import Instruction, instruction, single

# Fused multiply-add: a * b + c with one rounding.
#
# NumPy has no such function. For narrow types the product is exact in float64, and the one sum that is left is
# rounded to odd there (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums"): a last bit that says
# "there was more" makes the second rounding, to the narrow type, the only one that shows. Source: PTX ISA, "Floating
# Point Instructions: fma".

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


@dataclass(frozen=True, slots=True)
class NumberRow:
    """A scalar row as inline assembly on C++'s numbers has it: no memory, no other lane.

    text: ``%0`` is the result, ``%1`` and on the operands. result, operands: kinds of register, as in
    `tilewright.isa.CONSTRAINTS`. execute: on the bits of registers; the number that the instruction gives.
    """

    text: str
    result: str
    operands: tuple[str, ...]
    arch: Requirement
    execute: Callable[..., Lanes]


def number_row(row: Instruction, form: Form, mods: Mods) -> NumberRow:
    """A form of a scalar row, with these modifiers."""
    assert callable(form.result)
    words = [form.result(mods), *(operand.type_of(mods) for operand in row.operands)]
    places = {name: f"%{place}" for place, name in enumerate(["result", *(operand.name for operand in row.operands)])}
    pattern, mnemonic = row.pattern_of(form), form.mnemonic(mods)
    whole = pattern if "{mnemonic}" in pattern else f"{{mnemonic}} {pattern};"
    result, *operands = (register_kind(TYPES[word].dtype) for word in words)
    text = whole.format(mnemonic=mnemonic, **places)
    assert form.meaning.of_lanes is not None
    return NumberRow(text, result, tuple(operands), form.arch, form.meaning.of_lanes(mods))


_OPERATORS = {"+": "add", "-": "sub", "*": "mul"}
_WORDS = {
    "float16": "f16", "float16x2": "f16x2", "bfloat16": "bf16", "bfloat16x2": "bf16x2", "float32x2": "f32x2",
}  # fmt: skip
_NARROW = {name: word for word, name in NARROW.items()}
_INTEGERS = {"int32": "s32", "uint32": "u32", "int64": "s64", "uint64": "u64"}
OPCODES: Mapping[tuple[str, str], str] = {
    **{(op, name): f"{opcode}.rn.{word}" for op, opcode in _OPERATORS.items() for name, word in _WORDS.items()},
    ("float32", "float16"): "cvt.rn.f16.f32",
    ("float16", "float32"): "cvt.f32.f16",
    ("float32", "bfloat16"): "cvt.rn.bf16.f32",
    ("float32", "tf32"): "cvt.rna.tf32.f32",
    **{("float32", name): f"cvt.rn.satfinite.{word}.f32" for name, word in _NARROW.items()},
    **{(name, "float16x2"): f"cvt.rn.f16x2.{word}" for name, word in _NARROW.items()},
    ("float32x2", "float16x2"): "cvt.rn.f16x2.f32",
    ("float32x2", "bfloat16x2"): "cvt.rn.bf16x2.f32",
    **{(f"float{bits}", name): f"cvt.rzi.{word}.f{bits}" for bits in (32, 64) for name, word in _INTEGERS.items()},
}
"""The instruction that an operator on a dtype is, or a cast from one dtype to another. Narrow floats go in pairs, the
first in the upper half, and back to half, which holds each of them exactly."""


@cache
def opcode_row(first: str, second: str) -> NumberRow:
    """The instruction that `OPCODES` has."""
    return number_row(*spelled(OPCODES[first, second]))


def row_of(first: str, second: str, on: Arch) -> NumberRow | None:
    """The instruction for an operator and a dtype, or for two dtypes, if there is one that the target has."""
    row = opcode_row(first, second) if (first, second) in OPCODES else None
    return row if row is not None and row.arch.admits(on) else None


def smaller(a: Lanes, b: Lanes) -> Lanes:
    """The smaller number, or the one that is no NaN; -0 is smaller than +0.

    NumPy's ``fmin`` does not define this for zeros of both signs and for signalling NaNs.
    """
    return np.where((a < b) | np.isnan(b) | ((a == b) & np.signbit(a)), a, b)


def larger(a: Lanes, b: Lanes) -> Lanes:
    """The larger number, or the one that is no NaN; +0 is larger than -0."""
    return np.where((a > b) | np.isnan(b) | ((a == b) & np.signbit(b)), a, b)


def least(a: Lanes, b: Lanes) -> Lanes:
    """The smaller number; NaN where either is NaN. So are ``T.min`` and ``Tx.minimum``."""
    return np.where(np.isnan(a), a, np.where(np.isnan(b), b, smaller(a, b)))


def greatest(a: Lanes, b: Lanes) -> Lanes:
    """The larger number; NaN where either is NaN."""
    return np.where(np.isnan(a), a, np.where(np.isnan(b), b, larger(a, b)))


# Arithmetic of float32 with a rounding of one's choice: rn to nearest even, rz to zero, rm down, rp up.
#
# float64 holds products, and sums rounded to odd; its quotients and roots of float32 lie on the same side of a float32
# as the exact ones, which are 2**-49 of it away or more. Source: CUDA Math API, "Single Precision Intrinsics".

MODES = {"rn": "rn", "rz": "rz", "rm": "rd", "rp": "ru"}  # PTX's word -> CUDA's
F32 = np.float32


def narrowed(wide: Lanes, kind: np.dtype[Any], rounding: str) -> Lanes:
    """float64, perhaps rounded to odd, in another type of floats."""
    near = (single_to_odd(wide) if kind == BRAIN else wide).astype(kind)
    if rounding == "rn":
        return near
    back = near.astype(np.float64)
    sign, magnitude = np.signbit(wide), np.abs(near).view(f"u{kind.itemsize}")
    low = magnitude - (np.abs(back) > np.abs(wide)).astype(magnitude.dtype)
    high = magnitude + (np.abs(back) < np.abs(wide)).astype(magnitude.dtype)
    result = {"rz": low, "rm": np.where(sign, high, low), "rp": np.where(sign, low, high)}[rounding]
    placed = (result | sign.astype(result.dtype) << result.dtype.type(8 * kind.itemsize - 1)).view(kind)
    return np.where(wide == wide, placed, near).astype(kind)


def _single(wide: Lanes, mode: str) -> Lanes:
    return narrowed(np.asarray(wide), np.dtype(F32), mode)


def added(a: Lanes, b: Lanes, mode: str) -> Lanes:
    """The sum of two float64 values as float32: +0 if it cancels out, rounded down -0 (IEEE 754, 6.3)."""
    exact = sum_to_odd(a, b)
    cancels = (exact == 0) & (np.signbit(a) != np.signbit(b))
    return np.where(cancels, F32(-0.0 if mode == "rm" else 0.0), _single(exact, mode))


def _on_singles(compute: Callable[..., Lanes]) -> Callable[..., Lanes]:
    def execute(*operands: Lanes, rounding: str) -> Lanes:
        with np.errstate(all="ignore"):
            return compute(*(operand.astype(np.float64) for operand in operands), rounding)

    return execute


SINGLE: dict[str, Callable[..., Lanes]] = {
    "add": _on_singles(added),
    "sub": _on_singles(lambda a, b, mode: added(a, -b, mode)),
    "mul": _on_singles(lambda a, b, mode: _single(a * b, mode)),
    "fma": _on_singles(lambda a, b, c, mode: added(a * b, c, mode)),
    "div": _on_singles(lambda a, b, mode: _single(a / b, mode)),
    "rcp": _on_singles(lambda a, mode: _single(1 / a, mode)),
    "sqrt": _on_singles(lambda a, mode: _single(np.sqrt(a), mode)),
}
"""Operations of float32 by their names, each with a rounding."""


def _row(name: str, params: tuple[str, ...], stem: str, execute: Callable[..., Lanes], doc: str) -> None:
    single(
        f"rounded_{name}",
        Cuda(
            f"{stem}_{{rounding}}({', '.join(f'{{{param}}}' for param in params)})",
            {"dtype": {"float32": ""}, "rounding": MODES},
        ),
        since("sm_75"),
        'CUDA Math API, "Single Precision Intrinsics"',
        Meaning(execute, passes=("rounding",)),
        keywords={"rounding": "rn"},
        operands=tuple(reads(param, "typed") for param in params),
        doc=f"{doc} of float32, rounded to nearest (rn), to zero (rz), down (rm) or up (rp).",
        result=params[0],
    )


for _name, _params, _doc in (
    ("add", ("a", "b"), "The sum"),
    ("sub", ("a", "b"), "The difference"),
    ("mul", ("a", "b"), "The product"),
    ("fma", ("a", "b", "c"), "The value of a * b + c"),
    ("div", ("a", "b"), "The quotient"),
):
    _row(_name, _params, "__fmaf" if _name == "fma" else f"__f{_name}", SINGLE[_name], _doc)

# The larger and the smaller number as NumPy has them: NaN where either side is NaN. (``fmax`` and ``fmin`` take the
# number.) float32 has an instruction for it. Source: PTX ISA, "Floating Point Instructions: max".

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


def _extreme_row(name: str, extreme: Callable[[Lanes, Lanes], Lanes], doc: str) -> None:
    instruction(
        name,
        operands=(reads("a", "typed"), reads("b", "typed")),
        widens=True,
        doc=doc,
        forms=tuple(
            Form(
                Cuda("{dtype}({a}, {b})", {"dtype": {kind: called}}, helper=helper),
                since("sm_75"),
                'PTX ISA, "Floating Point Instructions: max"',
                Meaning(_with_nan(extreme)),
                result="a",
            )
            for kind in _HELPERS
            for called, helper in (extreme_helper(name, kind),)
        ),
    )


_extreme_row("maximum", larger, "The larger one; NaN where either is NaN.")
_extreme_row("minimum", smaller, "The smaller one; NaN where either is NaN.")

# Rows that compute sums, products and bits of integers, as the language's own arithmetic.
#
# Code that takes addresses apart reads it; the rows themselves, and what they mean, are in `tilewright.isa.scalar`.


def as_arithmetic(call: Call) -> Expr | None:
    """The same value by ``+ - * << & | ^`` and casts between integers; None for other rows."""
    meaning = _ROWS.get(call.op)
    if meaning is None:
        return None
    bound = bind(call)
    word = str(bound.mods["type"])
    if not dtype(TYPES[word].element).is_integer or TYPES[word].lanes > 1 or bound.mods.get("sat"):
        return None
    operands = [operand for row in bound.arguments for operand in bound.operands[row.name]]
    return meaning(bound.mods, TYPES[word].dtype, *operands)


def _typed(value: Expr, kind: DType) -> Expr:
    return value if value.dtype == kind else Reinterpret(value, kind)


def _binary(op: str) -> Callable[..., Expr | None]:
    return lambda mods, kind, a, b: Binary(op, _typed(a, kind), _typed(b, kind), kind)


def _mul(mods: Mapping[str, object], kind: DType, a: Expr, b: Expr) -> Expr | None:
    if mods["half"] == "hi":
        return None
    if mods["half"] == "lo":
        return Binary("*", _typed(a, kind), _typed(b, kind), kind)
    wide = dtype(f"{kind.kind}{2 * kind.bits}")
    return Binary("*", Cast(_typed(a, kind), wide), Cast(_typed(b, kind), wide), wide)


def _mad(mods: Mapping[str, object], kind: DType, a: Expr, b: Expr, c: Expr) -> Expr | None:
    product = _mul(mods, kind, a, b)
    return None if product is None else Binary("+", product, _typed(c, product.dtype), product.dtype)


def _shl(mods: Mapping[str, object], kind: DType, a: Expr, n: Expr) -> Expr | None:
    return Binary("<<", _typed(a, kind), n, kind)


def _cvt(mods: Mapping[str, object], kind: DType, a: Expr) -> Expr | None:
    source = TYPES[str(mods["atype"])]
    if not dtype(source.element).is_integer or source.bits > kind.bits or a.dtype.bits != source.bits:
        return None
    return Cast(_typed(a, source.dtype), kind)


_ROWS: Mapping[str, Callable[..., Expr | None]] = {
    "ptx.add": _binary("+"),
    "ptx.sub": _binary("-"),
    "ptx.mul": _mul,
    "ptx.mad": _mad,
    "ptx.shl": _shl,
    "ptx.and_": _binary("&"),
    "ptx.or_": _binary("|"),
    "ptx.xor": _binary("^"),
    "ptx.cvt": _cvt,
}

# What casts and quotients of a kernel's numbers mean where NumPy's differ: one rounding, tf32, integers that
# saturate.
#
# A cast means its dtype's rounding to nearest even, as NumPy and ml_dtypes have it (tf32: ties away from zero). What
# is wider than float32 is first rounded to float32 *to odd*: an inexact value takes the neighbour whose last bit is
# set, so that rounding once more rounds as if once. tests/gpu/test_numbers.py compares all of this with an H200, bit
# for bit. Source: PTX ISA, "Data Movement and Conversion Instructions: cvt".


@cache
def cast(source: DType, kind: DType) -> Callable[[Lanes], Lanes]:
    """The conversion of an array from one element dtype to another. Uniform integers come as arrays of one element."""
    if kind.kind == "bool":
        return lambda value: np.asarray(value) != 0
    if kind.is_float:
        return _to_float(source, kind)
    if source.is_float:
        return _to_integer(kind)
    return lambda value: np.asarray(value).astype(kind.numpy)


def quotient(a: Lanes, b: Lanes) -> Lanes:
    """``a / b``; 0 / 0 is a NaN whose sign bit is not set, as the GPU's, whatever the CPU's is."""
    ratio = np.divide(a, b)
    kind = np.asarray(ratio).dtype
    if kind.itemsize > 1:
        return ratio
    return _without_nan_sign(np.divide(np.asarray(a).astype(F32), np.asarray(b).astype(F32))).astype(kind)


def _to_integer(kind: DType) -> Callable[[Lanes], Lanes]:
    """float -> integer: toward zero, saturating, NaN is 0."""
    name, zero = str(kind), kind.numpy.type(0)

    def convert(value: Lanes) -> Lanes:
        wide = np.asarray(value).astype(np.float64)
        return np.where(np.isnan(wide), zero, float_to_int(wide, name))

    return convert


def _to_float(source: DType, kind: DType) -> Callable[[Lanes], Lanes]:
    """The conversion of arrays of ``source`` to a float dtype."""
    target = kind.numpy
    if str(kind) == "tf32":
        return lambda value: _to_tf32(_float32_to_odd(np.asarray(value)))
    if kind.bits > 16 or (str(kind) == "float16" and source.is_float):  # NumPy rounds these once
        return lambda value: np.asarray(value).astype(target)
    if kind.value_bits < 8:
        return lambda value: _without_nan_sign(_float32_to_odd(np.asarray(value))).astype(target)
    return lambda value: _float32_to_odd(np.asarray(value)).astype(target)


def _to_tf32(value: Lanes) -> Lanes:
    return opcode_row("float32", "tf32").execute(value.view(np.uint32)).view(F32)


def _without_nan_sign(value: Lanes) -> Lanes:
    """Formats without NaN keep its sign, as that of a zero."""
    return np.where(np.isnan(value), F32(np.nan), value)


def _float32_to_odd(value: Lanes) -> Lanes:
    """Exact where float32 holds the value; else the neighbour with an odd last bit."""
    kind = value.dtype
    if kind.itemsize <= 2 or kind == F32:
        return value.astype(F32)
    return single_to_odd(value if kind == np.float64 else _float64_to_odd(value))


def _float64_to_odd(value: Lanes) -> Lanes:
    """Integers as float64; the last eleven bits of one with more than 53 bits become one bit: was any of them set?"""
    size = np.where(value < 0, np.uint64(0) - value.astype(np.uint64), value.astype(np.uint64))
    cut = (size & ~np.uint64(0x7FF)) | (((size & np.uint64(0x7FF)) != 0).astype(np.uint64) << np.uint64(11))
    magnitude = np.where(size >> np.uint64(53), cut, size).astype(np.float64)
    return np.where(value < 0, -magnitude, magnitude)


FP6_FP4 = suffixed(100, 103, 110, 120, 121)


def float_to_int(values: Lanes, name: str) -> Lanes:
    """Toward zero; what is out of range takes the nearest end.

    NaN is 0, but the topmost bit alone where either side has 64 bits, as the manual has it.
    """
    kind = np.dtype(name)
    ends, top_bit = np.iinfo(kind), np.array(1 << 8 * kind.itemsize - 1, f"u{kind.itemsize}").view(kind)
    with np.errstate(invalid="ignore"):
        inside = np.trunc(values).astype(kind)
    clamped = np.where(values <= float(ends.min), ends.min, np.where(values >= float(ends.max), ends.max, inside))
    wide = 8 in (kind.itemsize, values.dtype.itemsize)
    return np.where(np.isnan(values), top_bit if wide else 0, clamped).astype(kind)


# Mathematical functions of one thread: CUDA's spelling, NumPy's meaning, and how far the two may be apart.
#
# The simulator computes float32 in float64 and rounds once: within one ulp of the exact value; float64 is within two.
# ``ulp`` bounds the error of CUDA's function, so a kernel's result may differ from the simulator's by that much more. 0
# means that both are exact. The bounds were compared with 4000 arguments of each function on an H200 (NVRTC 13.5,
# without fast math). Narrow floats are computed in float32. Source: CUDA C++ Programming Guide, "Mathematical
# Functions".


MATH_SOURCE = 'CUDA C++ Programming Guide, "Mathematical Functions"'
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
        MATH_SOURCE,
        Meaning(row.meaning if row.exact else in_float64(row.meaning)),
        operands=tuple(reads(param, "typed") for param in row.params),
        widens=True,
        doc=f"{row.doc[0].upper()}{row.doc[1:]}{bound}.",
        result=row.params[0],
    )


for _name, _of_floats in _FUNCTIONS.items():
    _function_row(_name, _of_floats)


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
    MATH_SOURCE,
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
        MATH_SOURCE,
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
