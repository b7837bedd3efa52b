"""add, sub, mul, mad, fma, div, rem, abs, neg, min, max and their like, integers and floats of all widths; and
approximations, from rcp to tanh.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilewright.isa.arith import narrowed
from tilewright.isa.forms import GIVEN, TYPES, Numbers, Operand, Undefined
from tilewright.isa.scalar import floats
from tilewright.isa.scalar.floats import canonical, family, flushed
from tilewright.isa.scalar.rows import flag, maybe, registers, scalar, words

BOTH = "Integer Arithmetic Instructions, Floating Point Instructions"
INTEGERS, FLOATS = "Integer Arithmetic Instructions", "Floating Point Instructions"
HALF = "Half Precision Floating Point Instructions"
WHOLE = words("u16", "s16", "u32", "s32", "u64", "s64")
SIGNED = words("s16", "s32", "s64")
PAIRS = words("u16x2", "s16x2")
NARROW = words("u16", "s16", "u32", "s32")
ROUNDINGS = maybe("rn", "rz", "rm", "rp")
WRITTEN = words("rn", "rz", "rm", "rp")
NEAREST = maybe("rn")
RN = words("rn")
F32, F64, BRAIN, PACKED = words("f32"), words("f64"), words("bf16", "bf16x2"), words("f32x2")
HALVES = words("f16", "f16x2")
BY_ZERO = Undefined("b", lambda b: b == 0, "divides by zero", "a divisor other than 0; by 0 the result may be any")
FTZ, SAT, RELU = flag("ftz"), flag("sat"), {True: ".relu"}

# The meaning of integer operations: sums, products, quotients, extremes; modulo their width, unless they saturate.
#
# Source: PTX ISA, "Integer Arithmetic Instructions".


DOUBLE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}


def plain(function: Callable[..., Any]) -> Callable[..., Callable[..., Any]]:
    """A meaning that is one function, whatever its modifiers."""
    return lambda **mods: function


def _clipped(function: Callable[..., Numbers]) -> Callable[..., Numbers]:
    """The number as int32; what is out of range takes the nearest end."""
    ends = np.iinfo(np.int32)
    return lambda *values: function(*(value.astype(np.int64) for value in values)).clip(ends.min, ends.max)


def wide(mods: Mapping[str, object]) -> str:
    """The type of twice the width."""
    word = str(mods["type"])
    return DOUBLE[word] if mods["half"] == "wide" else word


def high_product(a: Numbers, b: Numbers) -> Numbers:
    """The upper half of the product."""
    bits = 8 * a.dtype.itemsize
    if bits < 64:
        kind = np.dtype(f"{a.dtype.kind}{2 * a.dtype.itemsize}")
        return (np.multiply(a, b, dtype=kind) >> bits).astype(a.dtype)
    x, y = a.view(np.uint64), b.view(np.uint64)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    lows, cross = (x & low) * (y & low), (x >> half) * (y & low)
    middle = cross + (lows >> half)
    other = (x & low) * (y >> half) + (middle & low)
    high = (x >> half) * (y >> half) + (middle >> half) + (other >> half)
    if a.dtype.kind == "i":  # unsigned, a negative factor is 2**64 too large
        high = high - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    return high.view(a.dtype)


def _product(half: str, word: str) -> Callable[[Numbers, Numbers], Numbers]:
    if half == "lo":
        return np.multiply
    if half == "hi":
        return high_product
    kind = TYPES[DOUBLE[word]].numpy
    return lambda a, b: np.multiply(a, b, dtype=kind)


def mul(*, type: str, half: str, **_: object) -> Callable[[Numbers, Numbers], Numbers]:
    """The low or high half of the product, or all of it."""
    return _product(half, type)


def mad(*, type: str, half: str, sat: bool = False, **_: object) -> Callable[[Numbers, Numbers, Numbers], Numbers]:
    """The product, or half of it, and c."""
    product = _product(half, type)
    total = _clipped(np.add) if sat else np.add
    return lambda a, b, c: total(product(a, b), c)


def _low24(a: Numbers) -> Numbers:
    """The low 24 bits as a number, with their sign where the type has one."""
    wide = a.astype(np.int64) << 40
    return wide >> 40 if a.dtype.kind == "i" else wide.view(np.uint64) >> np.uint64(40)


def mul24(*, half: str, sat: bool = False, **_: object) -> Callable[..., Numbers]:
    """The low 32 bits of the 48-bit product, or bits 16 to 47; and c, where there is one."""

    def execute(a: Numbers, b: Numbers, *c: Numbers) -> Numbers:
        product = _low24(a) * _low24(b)
        part = (product if half == "lo" else product >> product.dtype.type(16)).astype(a.dtype)
        return (_clipped(np.add) if sat else np.add)(part, *c) if c else part

    return execute


def difference_sum(**_: object) -> Callable[[Numbers, Numbers, Numbers], Numbers]:
    """The sum of c and the magnitude of a - b."""
    return lambda a, b, c: c + np.where(a < b, b - a, a - b)


def divided(*, type: str, **_: object) -> Callable[[Numbers, Numbers], Numbers]:
    """Toward zero; all ones where b is 0; the smallest number by -1 is itself."""
    return lambda a, b: _whole_quotient(a, b)[0]


def remainder(*, type: str, **_: object) -> Callable[[Numbers, Numbers], Numbers]:
    """With the sign of a; all ones where b is 0."""
    return lambda a, b: _whole_quotient(a, b)[1]


def _whole_quotient(a: Numbers, b: Numbers) -> tuple[Numbers, Numbers]:
    ones = np.array(-1).astype(a.dtype)
    if a.dtype.kind == "u":
        by = np.where(b == 0, a.dtype.type(1), b)
        return np.where(b == 0, ones, a // by), np.where(b == 0, ones, a % by)
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    x, y = (np.where(v < 0, -v, v).astype(unsigned) for v in (a, b))
    by = np.where(y == 0, unsigned.type(1), y)
    quotient, rest = (x // by).astype(a.dtype), (x % by).astype(a.dtype)
    quotient, rest = np.where((a < 0) != (b < 0), -quotient, quotient), np.where(a < 0, -rest, rest)
    return np.where(b == 0, ones, quotient), np.where(b == 0, ones, rest)


absolute, negated = plain(np.abs), plain(np.negative)


@family
def _extreme(function: Any, *, relu: bool = False, **_: object) -> Callable[..., Numbers]:
    return (lambda a, b: np.maximum(function(a, b), 0).astype(a.dtype)) if relu else function


smaller_of, larger_of = _extreme(np.minimum), _extreme(np.maximum)


# Approximations: rcp, sqrt, rsqrt, div, sin, cos, lg2, ex2, tanh, each within a stated error.
#
# Their bits are not specified. The simulator computes in float64 and rounds once; hardware is within `ERRORS` of that.
# Source: PTX ISA, "Floating Point Instructions"; the bounds were measured on an H200.


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


@family
def near(op: str, *, type: str, ftz: bool = False, rnd: str = "approx", **_: object) -> Callable[..., Numbers]:
    """The meaning of an approximation."""
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


for _name, _of_integers, _doc in (
    ("add", np.add, "The sum of a and b"),
    ("sub", np.subtract, "The difference of a and b"),
):
    _float = floats.arithmetic(_name)
    scalar(
        _name,
        "a b",
        (f"{_name}{{type}}", {"type": WHOLE}, plain(_of_integers)),
        (f"{_name}.sat{{type}}", {"type": words("s32"), "sat": {True: ""}}, plain(_clipped(_of_integers))),
        (f"{_name}{{rnd}}{{ftz}}{{sat}}{{type}}", {"type": F32, "rnd": ROUNDINGS, "ftz": FTZ, "sat": SAT}, _float),
        (f"{_name}{{rnd}}{{type}}", {"type": F64, "rnd": ROUNDINGS}, _float),
        (f"{_name}{{rnd}}{{ftz}}{{sat}}{{type}}", {"type": HALVES, "rnd": NEAREST, "ftz": FTZ, "sat": SAT}, _float),
        (f"{_name}{{rnd}}{{type}}", {"type": BRAIN, "rnd": NEAREST}, _float, "sm_90"),
        (f"{_name}{{rnd}}{{ftz}}{{type}}", {"type": PACKED, "rnd": ROUNDINGS, "ftz": FTZ}, _float, "sm_100"),
        *(((f"{_name}{{type}}", {"type": PAIRS}, plain(np.add), "sm_90"),) if _name == "add" else ()),
        doc=f"{_doc}: integers modulo their width, or clamped; floats rounded once.",
        chapter=BOTH,
    )

_mul, _fma, _oob = floats.arithmetic("mul"), floats.arithmetic("fma"), floats.out_of_bounds("fma")
scalar(
    "mul",
    "a b",
    ("mul{half}{type}", {"type": WHOLE, "half": words("lo", "hi")}, mul),
    ("mul{half}{type}", {"type": NARROW, "half": words("wide")}, mul),
    ("mul{rnd}{ftz}{sat}{type}", {"type": F32, "rnd": ROUNDINGS, "ftz": FTZ, "sat": SAT}, _mul),
    ("mul{rnd}{type}", {"type": F64, "rnd": ROUNDINGS}, _mul),
    ("mul{rnd}{ftz}{sat}{type}", {"type": HALVES, "rnd": NEAREST, "ftz": FTZ, "sat": SAT}, _mul),
    ("mul{rnd}{type}", {"type": BRAIN, "rnd": NEAREST}, _mul, "sm_90"),
    ("mul{rnd}{ftz}{type}", {"type": PACKED, "rnd": ROUNDINGS, "ftz": FTZ}, _mul, "sm_100"),
    doc="The product of a and b: of integers its low or high half, or all of it; of floats rounded once.",
    chapter=BOTH,
    result=wide,
)
scalar(
    "mad",
    (*registers("a b"), Operand("c", "bits", of=wide)),
    ("mad{half}{type}", {"type": WHOLE, "half": words("lo", "hi")}, mad),
    ("mad{half}{type}", {"type": NARROW, "half": words("wide")}, mad),
    ("mad{half}.sat{type}", {"type": words("s32"), "half": words("hi"), "sat": {True: ""}}, mad),
    ("mad{rnd}{ftz}{sat}{type}", {"type": F32, "rnd": WRITTEN, "ftz": FTZ, "sat": SAT}, _fma),
    ("mad{rnd}{type}", {"type": F64, "rnd": WRITTEN}, _fma),
    doc="The product of a and b, or half of it, and c; of floats rounded once, as fma.",
    chapter=BOTH,
    result=wide,
)
scalar(
    "fma",
    "a b c",
    ("fma{rnd}{ftz}{sat}{type}", {"type": F32, "rnd": WRITTEN, "ftz": FTZ, "sat": SAT}, _fma),
    ("fma{rnd}{type}", {"type": F64, "rnd": WRITTEN}, _fma),
    ("fma{rnd}{ftz}{sat}{type}", {"type": HALVES, "rnd": RN, "ftz": FTZ, "sat": SAT}, _fma),
    ("fma{rnd}{ftz}.relu{type}", {"type": HALVES, "rnd": RN, "ftz": FTZ, "relu": {True: ""}}, _fma, "sm_80"),
    ("fma{rnd}{type}", {"type": BRAIN, "rnd": RN}, _fma, "sm_80"),
    ("fma{rnd}.relu{type}", {"type": BRAIN, "rnd": RN, "relu": {True: ""}}, _fma, "sm_80"),
    ("fma{rnd}{ftz}{type}", {"type": PACKED, "rnd": WRITTEN, "ftz": FTZ}, _fma, "sm_100"),
    *(
        (f"fma{{rnd}}.oob{word}{{type}}", {"type": types, "rnd": RN, "oob": {True: ""}, **more}, _oob, "sm_90")
        for types, word, more in (
            ({**HALVES, **BRAIN}, "", {}),
            ({**HALVES, **BRAIN}, ".relu", {"relu": {True: ""}}),
            (HALVES, ".sat", {"sat": {True: ""}}),
        )
    ),
    doc="The value of a * b + c, rounded once; with ``oob`` 0 where one of them is the NaN of what is out of bounds.",
    chapter=FLOATS,
)
for _name, _operands in (("mul24", "a b"), ("mad24", "a b c")):
    _add = ", and c" if _name == "mad24" else ""
    _clamped = {"type": words("s32"), "half": words("hi"), "sat": {True: ""}}
    scalar(
        _name,
        _operands,
        (f"{_name}{{half}}{{type}}", {"type": words("u32", "s32"), "half": words("lo", "hi")}, mul24),
        *(((f"{_name}{{half}}.sat{{type}}", _clamped, mul24),) if _add else ()),
        doc=f"Of the product of 24-bit numbers the low 32 bits, or bits 16 to 47{_add}.",
        chapter=INTEGERS,
    )
scalar(
    "sad",
    (*registers("a b"), *registers("c")),
    ("sad{type}", {"type": WHOLE}, difference_sum),
    doc="The sum of c and the magnitude of a - b.",
    chapter=INTEGERS,
)

_div = floats.arithmetic("div")
scalar(
    "div",
    "a b",
    ("div{type}", {"type": WHOLE}, divided, "sm_75", "", BY_ZERO),
    ("div{rnd}{ftz}{type}", {"type": F32, "rnd": WRITTEN, "ftz": FTZ}, _div),
    ("div{rnd}{type}", {"type": F64, "rnd": WRITTEN}, _div),
    ("div{rnd}{ftz}{type}", {"type": F32, "rnd": words("approx", "full"), "ftz": FTZ}, near("div")),
    doc="The quotient: of integers toward zero, all ones by 0; of floats rounded once, or approximately.",
    chapter=BOTH,
)
scalar(
    "rem",
    "a b",
    ("rem{type}", {"type": WHOLE}, remainder, "sm_75", "", BY_ZERO),
    doc="The remainder of a / b, with the sign of a; all ones by 0.",
    chapter=INTEGERS,
)
for _name, _doc in (("sqrt", "The square root"), ("rcp", "The reciprocal")):
    scalar(
        _name,
        "a",
        (f"{_name}{{rnd}}{{ftz}}{{type}}", {"type": F32, "rnd": WRITTEN, "ftz": FTZ}, floats.arithmetic(_name)),
        (f"{_name}{{rnd}}{{type}}", {"type": F64, "rnd": WRITTEN}, floats.arithmetic(_name)),
        (f"{_name}{{rnd}}{{ftz}}{{type}}", {"type": F32, "rnd": words("approx"), "ftz": FTZ}, near(_name)),
        *(
            (("rcp{rnd}.ftz{type}", {"type": F64, "rnd": words("approx"), "ftz": {True: ""}}, near("rcp")),)
            if _name == "rcp"
            else ()
        ),
        doc=f"{_doc}, rounded once, or approximately.",
        chapter=FLOATS,
    )
for _name, _doc, _whole, _float in (
    ("abs", "The magnitude of a; the smallest integer stays as it is.", absolute, floats.magnitude),
    ("neg", "The other sign; the smallest integer stays as it is.", negated, floats.opposite),
):
    scalar(
        _name,
        "a",
        (f"{_name}{{type}}", {"type": SIGNED}, _whole),
        (f"{_name}{{ftz}}{{type}}", {"type": F32, "ftz": FTZ}, _float),
        (f"{_name}{{type}}", {"type": F64}, _float),
        (f"{_name}{{ftz}}{{type}}", {"type": HALVES, "ftz": FTZ}, _float),
        (f"{_name}{{type}}", {"type": BRAIN}, _float, "sm_80"),
        doc=_doc,
        chapter=BOTH,
    )
for _name, _doc, _whole in (
    ("min", "The smaller one", smaller_of),
    ("max", "The larger one", larger_of),
):
    _float = floats.extreme(_name)
    _nan, _xor = flag("NaN"), {"xorsign": ".xorsign.abs"}
    scalar(
        _name,
        "a b c",
        (f"{_name}{{type}}", {"type": WHOLE}, _whole),
        (f"{_name}{{type}}", {"type": PAIRS}, _whole, "sm_90"),
        (f"{_name}.relu{{type}}", {"type": words("s32", "s16x2"), "relu": {True: ""}}, _whole, "sm_90"),
        (f"{_name}{{ftz}}{{type}}", {"type": F32, "ftz": FTZ}, _float),
        (f"{_name}{{ftz}}.NaN{{type}}", {"type": F32, "ftz": FTZ, "nan": {True: ""}}, _float, "sm_80"),
        (
            f"{_name}{{ftz}}{{nan}}{{magnitudes}}{{type}}",
            {"type": F32, "ftz": FTZ, "nan": _nan, "magnitudes": _xor},
            _float,
            "sm_86",
        ),
        (f"{_name}{{type}}", {"type": F64}, _float),
        (f"{_name}{{ftz}}{{nan}}{{type}}", {"type": HALVES, "ftz": FTZ, "nan": _nan}, _float, "sm_80"),
        (f"{_name}{{nan}}{{type}}", {"type": BRAIN, "nan": _nan}, _float, "sm_80"),
        (
            f"{_name}{{ftz}}{{nan}}{{magnitudes}}{{type}}",
            {"type": HALVES, "ftz": FTZ, "nan": _nan, "magnitudes": _xor},
            _float,
            "sm_86",
        ),
        (f"{_name}{{nan}}{{magnitudes}}{{type}}", {"type": BRAIN, "nan": _nan, "magnitudes": _xor}, _float, "sm_86"),
        (
            f"{_name}{{ftz}}{{nan}}{{magnitudes}}{{type}}",
            {"type": F32, "ftz": FTZ, "nan": _nan, "magnitudes": {None: "", "abs": ".abs"}, "c": GIVEN},
            _float,
            "sm_100",
        ),
        doc=f"{_doc}, or of three; of floats the number where one is NaN, unless ``nan``; -0 is less than +0.",
        chapter=BOTH,
    )
_mixed = {"atype": words("f16", "bf16"), "rnd": ROUNDINGS, "sat": SAT}
for _name, _operands, _table in (
    ("add", "a:atype b:f32", _mixed),
    ("sub", "a:atype b:f32", _mixed),
    ("fma", "a:atype b:atype c:f32", _mixed | {"rnd": WRITTEN}),
):
    scalar(
        f"{_name}.mixed",
        _operands,
        (f"{_name}{{rnd}}{{sat}}.f32{{atype}}", _table, floats.mixed(_name), "sm_100"),
        doc=f"{_name} of numbers of 16 bits and the last one of 32, rounded once.",
        chapter="Mixed Precision Floating Point Instructions",
        result="f32",
    )
scalar(
    "copysign",
    "a b",
    ("copysign{type}", {"type": words("f32", "f64")}, floats.copied_sign),
    doc="The magnitude of b with the sign of a.",
    chapter=FLOATS,
)
scalar(
    "testp",
    "a",
    (
        "testp{test}{type}",
        {
            "type": words("f32", "f64"),
            "test": words("finite", "infinite", "number", "notanumber", "normal", "subnormal"),
        },
        floats.tested,
    ),
    doc="Whether a is a number of this kind; zeros are normal.",
    chapter=FLOATS,
    result="pred",
)

# Sums of numbers that are wider than a register: the carry, or the borrow, of one instruction goes into the next.
#
# PTX keeps it in a bit of the thread that no register names. Here it is an operand, ``carry``, and ``out="cc"`` asks
# for the one that an instruction leaves. Source: PTX ISA, "Extended-Precision Arithmetic Instructions".

CHAPTER = "Extended-Precision Integer Arithmetic Instructions"
TYPES_OF_CARRY = words("u32", "s32", "u64", "s64")
GIVE = {"add": "add.cc.u32 t_, {carry}, 0xffffffff;", "sub": "sub.cc.u32 t_, 0, {carry};"}
TAKE = {"add": "addc.u32 {result}, 0, 0;", "sub": "subc.u32 t_, 0, 0; and.b32 {result}, t_, 1;"}


def _bits(word: str, *values: Numbers) -> list[Numbers]:
    return [value.view(TYPES[word].unsigned) for value in values]


@family
def _total(operation: str, *, type: str, out: str, **_: object) -> Callable[..., Numbers]:
    """The sum or difference with a carry in; or its carry out."""
    unit = TYPES[type].unsigned.type

    def execute(a: Numbers, b: Numbers, carry: Numbers = False) -> Numbers:
        x, y = _bits(type, a, b)
        more = np.asarray(carry).astype(unit)
        first = x + y if operation == "add" else x - y
        if out == "d":
            return first + more if operation == "add" else first - more
        if operation == "add":
            return (first < x) | (first + more < first)
        return (x < y) | (first < more)

    return execute


def _product_with_carry(*, type: str, half: str, out: str, **mods: object) -> Callable[..., Numbers]:
    """Half of the product, plus c and a carry in; or the carry out."""
    part = mad(type=type, half=half)
    total = _total("add")(type=type, out=out)
    kind = TYPES[type].numpy

    def execute(a: Numbers, b: Numbers, c: Numbers, carry: Numbers = False) -> Numbers:
        return total(part(a, b, kind.type(0)), c, carry)

    return execute


def _row(name: str, operands: str, operation: str, meaning: Any, doc: str, **modifiers: Any) -> None:
    """Three forms: the sum that leaves no carry, the sum that leaves one, and that carry."""
    takes = "carry" in operands
    listed = ", ".join(f"{{{name}}}" for name in operands.replace(" carry:pred", "").split())
    before = f"{GIVE[operation]} " if takes else ""
    half = "{half}" if modifiers else ""
    opcode = f"{name}c" if takes else name
    shapes: list[tuple[Any, ...]] = []
    for out, cc in (("d", False), ("d", True), ("cc", True)):
        if not takes and not cc:
            continue
        table = {"type": TYPES_OF_CARRY, "out": {out: ""}, "cc": {cc: ""}, **modifiers}
        target, after = ("{result}", "") if out == "d" else ("d_", f" {TAKE[operation]}")
        registers = ".reg .u32 t_; .reg .b{bits} d_;"
        for bits in (32, 64):
            types = {word: text for word, text in TYPES_OF_CARRY.items() if TYPES[str(word)].bits == bits}
            pattern = f"{{{{ {registers.format(bits=bits)} {before}{{mnemonic}} {target}, {listed};{after} }}}}"
            text = f"{opcode}{half}{'.cc' if cc else ''}{{type}}"
            shapes.append((text, table | {"type": types}, meaning, "sm_75", pattern))
    scalar(
        opcode if takes else f"{name}.cc",
        operands,
        *shapes,
        doc=doc,
        chapter=CHAPTER,
        result=lambda mods: "pred" if mods["out"] == "cc" else str(mods["type"]),
        keywords={"out": "d", "cc": not takes},
    )


for _name, _word in (("add", "sum"), ("sub", "difference")):
    _kept = "carry" if _name == "add" else "borrow"
    _row(_name, "a b", _name, _total(_name), f"The {_word} of a and b; ``out='cc'``: its {_kept}.")
    _row(
        _name, "a b carry:pred", _name, _total(_name), f"The {_word} of a, b and a {_kept}; ``out='cc'``: the next one."
    )
for _operands, _more in (("a b c", ""), ("a b c carry:pred", " and a carry")):
    _row(
        "mad",
        _operands,
        "add",
        _product_with_carry,
        f"Half of the product of a and b, with c{_more}; ``out='cc'``: the carry of the sum.",
        half=words("lo", "hi"),
    )

# dp4a, dp2a: sums of products of the bytes and halves of registers.
#
# Source: PTX ISA, "Integer Arithmetic Instructions: dp4a, dp2a".

NUMBERS = words("u32", "s32")


def parts(word: str, register: Numbers, count: int) -> Numbers:
    """(..., count) numbers of a register, the low ones first."""
    kind = f"{'i' if word[0] == 's' else 'u'}{4 // count}"
    return np.ascontiguousarray(register)[..., None].view(kind).astype(np.int64)


def wrapped(total: Numbers) -> Numbers:
    """The low 32 bits."""
    return (total & 0xFFFFFFFF).astype(np.uint32)


def _four(*, atype: str, btype: str, **_: object) -> Callable[..., Numbers]:
    return lambda a, b, c: wrapped((parts(atype, a, 4) * parts(btype, b, 4)).sum(-1) + c)


def _two(*, atype: str, btype: str, half: str, **_: object) -> Callable[..., Numbers]:
    place = slice(0, 2) if half == "lo" else slice(2, 4)
    return lambda a, b, c: wrapped((parts(atype, a, 2) * parts(btype, b, 4)[..., place]).sum(-1) + c)


scalar(
    "dp4a",
    "a:b32 b:b32 c:b32",
    ("dp4a{atype}{btype}", {"atype": NUMBERS, "btype": NUMBERS}, _four),
    doc="The sum of c and the products of four bytes of a with four of b.",
    chapter=INTEGERS,
    result="b32",
)
scalar(
    "dp2a",
    "a:b32 b:b32 c:b32",
    ("dp2a{half}{atype}{btype}", {"atype": NUMBERS, "btype": NUMBERS, "half": words("lo", "hi")}, _two),
    doc="The sum of c and the products of two halves of a with two bytes of b, the low or the high ones.",
    chapter=INTEGERS,
    result="b32",
)
