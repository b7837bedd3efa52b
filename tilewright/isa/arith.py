"""Arithmetic of half, bfloat16 and pairs of float32: one instruction, one rounding. Operations that halves lack are
computed in float32.

These rows are no names of the language (``a + b`` is); they say how the operators of two dtypes are spelled in PTX,
from which architecture on, and what they mean. Source: PTX ISA, "Half Precision Floating Point Instructions"; for
`smaller` and `larger`, which floats of all widths share, "Floating Point Instructions: min".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from tilewright.dtypes import DType, dtype
from tilewright.ir import Binary, Call, Cast, Expr, Reinterpret
from tilewright.isa.arch import Arch, Requirement, since, suffixed
from tilewright.isa.calls import bind, spelled
from tilewright.isa.machine import Lanes
from tilewright.isa.operands import NARROW, TYPES, register_kind
from tilewright.isa.table import Cuda, Form, Instruction, Meaning, Mods, instruction, reads, single

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
# The simulator computes a nearby number and on which side of it the exact result lies (Knuth's exact sums), and takes
# the neighbour where the rounding says so. Source: CUDA Math API, "Single Precision Intrinsics".

MODES = {"rn": "rn", "rz": "rz", "rm": "rd", "rp": "ru"}  # PTX's word -> CUDA's


def rounded(exact: Lanes, mode: str) -> Lanes:
    """float64 values, themselves rounded to odd where they are not exact, as float32."""
    near = exact.astype(np.float32)
    if mode == "rn":
        return near
    back = near.astype(np.float64)
    towards = {"rz": np.zeros_like(exact), "rm": np.full_like(exact, -np.inf), "rp": np.full_like(exact, np.inf)}[mode]
    beyond = np.where(towards > exact, back < exact, back > exact)  # on the far side of the exact value
    return np.where(beyond & np.isfinite(exact), np.nextafter(near, towards.astype(np.float32)), near)


def added(a: Lanes, b: Lanes, mode: str) -> Lanes:
    """The sum of two float64 values as float32: +0 if it cancels out, rounded down -0 (IEEE 754, 6.3)."""
    exact = sum_to_odd(a, b)
    cancels = (exact == 0) & (np.signbit(a) != np.signbit(b))
    return np.where(cancels, np.float32(-0.0 if mode == "rm" else 0.0), rounded(exact, mode))


# What they compute, and how, of float32 operands as float64, where a product is exact.
OPERATIONS: dict[str, tuple[str, Callable[..., Lanes]]] = {
    "add": ("a + b", added),
    "sub": ("a - b", lambda a, b, mode: added(a, -b, mode)),
    "mul": ("a * b", lambda a, b, mode: rounded(a * b, mode)),
    "fma": ("a * b + c, rounded once", lambda a, b, c, mode: added(a * b, c, mode)),
}


def _quotient(a: Lanes, b: Lanes, rounding: str) -> Lanes:
    """The remainder of the float64 quotient is exact, and says on which side the exact one lies."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        quotient = x / y
        high = quotient.astype(np.float32)
        rest = x - high.astype(np.float64) * y  # 48 bits
        if rounding == "rn" or not np.size(rest):
            return high
        above = np.where(y > 0, rest > 0, rest < 0)  # the exact quotient is above
        below = np.where(y > 0, rest < 0, rest > 0)
    lower = np.where(below, np.nextafter(high, np.float32(-np.inf)), high)
    upper = np.where(above, np.nextafter(high, np.float32(np.inf)), high)
    chosen = {"rm": lower, "rp": upper, "rz": np.where(np.signbit(quotient), upper, lower)}[rounding]
    usual = np.isfinite(quotient) & (y != 0) & np.isfinite(y)
    return np.where(usual, chosen, high).astype(np.float32)


def _on_singles(compute: Callable[..., Lanes]) -> Callable[..., Lanes]:
    def execute(*operands: Lanes, rounding: str) -> Lanes:
        return compute(*(operand.astype(np.float64) for operand in operands), rounding)

    return execute


def _root(a: Lanes, rounding: str) -> Lanes:
    """The square of a root in float64 shows on which side the exact one lies."""
    near = np.sqrt(a)
    rest = a.astype(np.float64) - near.astype(np.float64) ** 2  # 48 bits
    lower = np.where(rest < 0, np.nextafter(near, np.float32(0)), near)
    upper = np.where(rest > 0, np.nextafter(near, np.float32(np.inf)), near)
    chosen = {"rn": near, "rz": lower, "rm": lower, "rp": upper}[rounding]
    return np.where((a > 0) & np.isfinite(a), chosen, near)


SINGLE: dict[str, Callable[..., Lanes]] = {
    **{name: _on_singles(compute) for name, (_, compute) in OPERATIONS.items()},
    "div": _quotient,
    "rcp": lambda a, rounding: _quotient(np.ones_like(a), a, rounding),
    "sqrt": _root,
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
):
    _row(_name, _params, "__fmaf" if _name == "fma" else f"__f{_name}", SINGLE[_name], _doc)
_row("div", ("a", "b"), "__fdiv", _quotient, "The quotient")

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

F32 = np.float32


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
