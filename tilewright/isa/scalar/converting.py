"""cvt: integers and floats of all widths, one number or two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.isa.convert import FP6_FP4
from tilewright.isa.scalar import narrowing
from tilewright.isa.scalar.floats import canonical, carried, flushed, flushed_as_rounded, saturated
from tilewright.isa.scalar.narrow_floats import exponents, of_exponents, packed, widened
from tilewright.isa.scalar.rows import flag, maybe, scalar, words
from tilewright.isa.table import Spellings
from tilewright.isa.types import TYPES, Numbers

CHAPTER = "Data Movement and Conversion Instructions"
INTEGERS = "u8 u16 u32 u64 s8 s16 s32 s64"
WIDER = "u16 u32 u64 s16 s32 s64"
FP8, FP6 = "e4m3x2 e5m2x2", "e2m3x2 e3m2x2"
FTZ, SAT, RELU, FINITE = flag("ftz"), flag("sat"), flag("relu"), flag("satfinite")
ALWAYS: Spellings = {True: ""}  # of a flag whose word is part of the text
RN, RN_RZ, RND = words("rn"), words("rn", "rz"), words("rn", "rz", "rm", "rp")
WHOLE, MAYBE_WHOLE = words("rni", "rzi", "rmi", "rpi"), maybe("rni", "rzi", "rmi", "rpi")
UP: Mapping[str, Any] = {"rnd": RN, "relu": RELU}
DOWN: Mapping[str, Any] = {"rnd": RN, "finite": ALWAYS, "relu": RELU}
OF_BYTE = "{{ .reg .b8 b_; cvt.u8.u16 b_, {a}; {mnemonic} {result}, b_; }}"
TO_BYTE = "{{ .reg .b8 b_; {mnemonic} b_, {a}; cvt.u16.u8 {result}, b_; }}"
PAIR_TO_BYTE = "{{ .reg .b8 b_; {mnemonic} b_, {a}, {b}; cvt.u16.u8 {result}, b_; }}"


def _flush_if(ftz: bool, word: str) -> Callable[[Numbers], Numbers]:
    """float32 alone is flushed."""
    return flushed if ftz and word == "f32" else (lambda x: x)


def _of_integers(*, type: str, atype: str, sat: bool = False, **_: object) -> Callable[[Numbers], Numbers]:
    return lambda a: narrowing.between_integers(a, TYPES[type].name, clamped=sat)


def _beyond(to: str) -> list[str]:
    """The types that have numbers which this one lacks: elsewhere nothing is clamped, and the assembler says so."""
    ends = np.iinfo(TYPES[to].numpy)  # type: ignore[type-var]  # an integer
    others = {name: np.iinfo(TYPES[name].numpy) for name in INTEGERS.split()}  # type: ignore[type-var]
    return [name for name, other in others.items() if other.min < ends.min or other.max > ends.max]


def _from_integer(
    *, type: str, atype: str, rnd: str, sat: bool = False, ftz: bool = False, **_: object
) -> Callable[[Numbers], Numbers]:
    kind = TYPES[type].numpy
    clamp = saturated if sat else (lambda x: x)
    return lambda a: clamp(narrowing.from_integer(a, kind, rnd))


def _to_integer(*, type: str, atype: str, rnd: str, ftz: bool = False, **_: object) -> Callable[[Numbers], Numbers]:
    flush = _flush_if(ftz, atype)
    return lambda a: narrowing.to_integer(flush(a), TYPES[type].name, rnd)


def _of_floats(
    *, type: str, atype: str, rnd: str | None = None, sat: bool = False, ftz: bool = False, relu: bool = False, **_: Any
) -> Callable[[Numbers], Numbers]:
    kind = TYPES[type].numpy
    before, after = _flush_if(ftz and type != "f16", atype), _flush_if(ftz, type)  # into halves nothing is flushed
    if type == atype:
        if not (sat or ftz or rnd):
            return canonical if type in ("f16", "bf16") else (lambda a: a)
        settle: Callable[..., Numbers] = carried if type == "f64" else (lambda result, a: canonical(result))
        return lambda a: _clamped(settle(narrowing.whole(before(a), rnd), a), sat=sat, relu=relu)
    convert = narrowing.between_floats(rnd, kind)
    if ftz and (atype, type) == ("f64", "f32"):
        return lambda a: _clamped(flushed_as_rounded(convert(a), lambda: a, rnd or "rn"), sat=sat, relu=relu)
    return lambda a: _clamped(after(convert(before(a))), sat=sat, relu=relu)


def _clamped(x: Numbers, *, sat: bool, relu: bool) -> Numbers:
    if sat:
        return saturated(x)
    return np.where(x > 0, x, np.where(x <= 0, x.dtype.type(0), x)).astype(x.dtype) if relu else x


def _finite(x: Numbers, largest: float) -> Numbers:
    """The number clamped to the largest finite one; NaN stays."""
    return np.where(x == x, np.clip(x, -largest, largest), x)


def _halves(*, type: str, rnd: str, relu: bool = False, finite: bool = False, **_: object) -> Callable[..., Numbers]:
    """Two float32 in one register, a in the upper half."""
    kind = TYPES[type].numpy
    largest = float(ml_dtypes.finfo(kind).max)  # type: ignore[no-untyped-call]

    def one(x: Numbers) -> Numbers:
        wide = x.astype(np.float64)
        result = narrowing.narrowed(_finite(wide, largest) if finite else wide, kind, rnd)
        return canonical(_clamped(result, sat=False, relu=relu))

    return lambda a, b: np.stack(np.broadcast_arrays(one(b), one(a)), axis=-1)


def _single(
    *, type: str, rnd: str, relu: bool = False, finite: bool = False, **_: object
) -> Callable[[Numbers], Numbers]:
    pair = _halves(type=type, rnd=rnd, relu=relu, finite=finite)
    return lambda a: pair(a, a)[..., 0]


def _tf32(*, rnd: str, relu: bool = False, finite: bool = False, **_: object) -> Callable[[Numbers], Numbers]:
    """Ten bits of fraction; the other thirteen are 0."""

    def execute(a: Numbers) -> Numbers:
        bits = a.view(np.uint32)
        last = bits >> np.uint32(13) & np.uint32(1)
        more = {"rna": np.uint32(0x1000), "rn": np.uint32(0xFFF) + last, "rz": np.uint32(0)}[rnd]
        rounded = (bits + more) & np.uint32(0xFFFFE000)
        if finite:
            rounded = np.where(rounded & np.uint32(0x7FFFFFFF) == 0x7F800000, rounded - np.uint32(0x2000), rounded)
            largest = bits & np.uint32(0x80000000) | np.uint32(0x7F7FE000)
            rounded = np.where(bits & np.uint32(0x7FFFFFFF) == 0x7F800000, largest, rounded)
        special = (bits & np.uint32(0x7F800000)) == 0x7F800000
        result = np.where(special & ~(finite & (a == a)), bits, rounded)
        nan = bits & np.uint32(0xFFFFE000) if rnd == "rna" else np.uint32(0x7FFFE000)
        result = np.where(a == a, result, nan)
        return np.where((result >> np.uint32(31) != 0) & relu & (a == a), np.uint32(0), result)

    return execute


def _packed_integers(*, type: str, **_: object) -> Callable[..., Numbers]:
    """a and b clamped, side by side, b below; c moves up by what they take."""
    bits = int(type[1:])
    signed = type[0] == "s"
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)

    def one(x: Numbers) -> Numbers:
        return (x.astype(np.int64).clip(low, high) & ((1 << bits) - 1)).astype(np.uint32)

    def execute(a: Numbers, b: Numbers, *c: Numbers) -> Numbers:
        pair = one(a) << np.uint32(bits) | one(b)
        return c[0] << np.uint32(2 * bits) | pair if c else pair

    return execute


def _cvt(
    spelled: str, types: str, sources: str, meaning: Any, first: Any = "sm_75", shape: str = "", **modifiers: Spellings
) -> Any:
    """A shape of cvt. spelled: what stands between the opcode and the types."""
    table = {"type": words(*types.split()), "atype": words(*sources.split()), **modifiers}
    return f"cvt{spelled}{{type}}{{atype}}", table, meaning, first, shape


OF_INTEGERS: tuple[tuple[str, str, str, str, dict[str, Any]], ...] = (
    ("{rnd}{sat}", "f16 f64", INTEGERS, "sm_75", {"sat": SAT}),
    ("{rnd}{ftz}{sat}", "f32", INTEGERS, "sm_75", {"ftz": FTZ, "sat": SAT}),
    ("{rnd}{sat}", "bf16", WIDER, "sm_90", {}),
)
"""Conversions between integers and floats: what is spelled, the types of both, since when, modifiers."""
scalar(
    "cvt",
    "a:atype",
    _cvt("", INTEGERS, INTEGERS, _of_integers),
    *(_cvt(".sat", to, " ".join(_beyond(to)), _of_integers, sat=ALWAYS) for to in INTEGERS.split() if _beyond(to)),
    *(
        shape
        for spelled, floats, integers, first, more in OF_INTEGERS
        for shape in (
            _cvt(spelled, floats, integers, _from_integer, first, rnd=RND, **more),
            _cvt(spelled, integers, floats, _to_integer, first, rnd=WHOLE, **more),
        )
    ),
    _cvt("{rnd}{ftz}{sat}", "f32", "f32", _of_floats, rnd=MAYBE_WHOLE, ftz=FTZ, sat=SAT),
    _cvt("{rnd}{sat}", "f16", "f16", _of_floats, rnd=MAYBE_WHOLE, sat=SAT),
    _cvt("{rnd}{sat}", "f64", "f64", _of_floats, rnd=MAYBE_WHOLE, sat=SAT),
    _cvt("{rnd}{ftz}{sat}", "f16", "f32", _of_floats, rnd=RND, ftz=FTZ, sat=SAT),
    _cvt("{rnd}{ftz}{sat}", "f32", "f64", _of_floats, rnd=RND, ftz=FTZ, sat=SAT),
    _cvt("{rnd}{sat}", "f16", "f64", _of_floats, rnd=RND, sat=SAT),
    _cvt("{ftz}{sat}", "f32", "f16", _of_floats, ftz=FTZ, sat=SAT),
    _cvt("{ftz}{sat}", "f64", "f32", _of_floats, ftz=FTZ, sat=SAT),
    _cvt("{sat}", "f64", "f16", _of_floats, sat=SAT),
    _cvt("", "f32", "bf16", _of_floats, "sm_80"),
    _cvt("", "f64", "bf16", _of_floats, "sm_90"),
    _cvt("{rnd}", "bf16", "f64 f16", _of_floats, "sm_90", rnd=RND),
    _cvt("{rnd}", "f16", "bf16", _of_floats, "sm_90", rnd=RND),
    _cvt("", "bf16", "f16", _of_floats, "sm_90"),
    _cvt("", "f16", "bf16", _of_floats, "sm_90"),
    _cvt("{rnd}{relu}", "bf16", "f32", _single, "sm_80", rnd=RN_RZ, relu=RELU),
    _cvt("{rnd}.relu", "f16", "f32", _single, "sm_80", rnd=RN_RZ, relu=ALWAYS),
    _cvt("{rnd}.satfinite", "f16", "f32", _single, "sm_75", rnd=RN_RZ, finite=ALWAYS),
    _cvt("{rnd}.relu.satfinite", "f16", "f32", _single, "sm_80", rnd=RN_RZ, relu=ALWAYS, finite=ALWAYS),
    _cvt("{rnd}.satfinite", "bf16", "f32", _single, "sm_80", rnd=RN_RZ, finite=ALWAYS),
    _cvt("{rnd}.relu.satfinite", "bf16", "f32", _single, "sm_80", rnd=RN_RZ, relu=ALWAYS, finite=ALWAYS),
    _cvt("{rnd}", "bf16", "f32", _of_floats, "sm_80", rnd=words("rm", "rp")),
    _cvt("{rnd}", "bf16", "bf16", _of_floats, "sm_90", rnd=MAYBE_WHOLE),
    _cvt("{rnd}", "tf32", "f32", _tf32, "sm_80", rnd=words("rna")),
    _cvt("{rnd}{relu}", "tf32", "f32", _tf32, "sm_90", rnd=RN_RZ, relu=RELU),
    _cvt("{rnd}.satfinite", "tf32", "f32", _tf32, "sm_80", rnd=words("rna"), finite=ALWAYS),
    _cvt("{rnd}.satfinite{relu}", "tf32", "f32", _tf32, "sm_100", rnd=RN_RZ, finite=ALWAYS, relu=RELU),
    _cvt("{rnd}{relu}", "f16x2", FP8, widened, "sm_89", **UP),
    _cvt("{rnd}.satfinite{relu}", FP8, "f16x2", packed, "sm_89", **DOWN),
    _cvt(".rn{finite}{relu}", "f16x2", FP6, widened, FP6_FP4, **UP),
    _cvt(".rn{finite}{relu}", "f16x2", "e2m1x2", widened, FP6_FP4, OF_BYTE, **UP),
    _cvt(".rn{finite}{relu}", "bf16x2", f"{FP8} {FP6}", widened, FP6_FP4, **UP, finite=FINITE),
    _cvt(".rn{finite}{relu}", "bf16x2", "e2m1x2", widened, FP6_FP4, OF_BYTE, **UP, finite=FINITE),
    _cvt(".rn.satfinite{relu}", FP8, "bf16x2", packed, FP6_FP4, **DOWN),
    _cvt(".rn.satfinite{relu}", FP6, "f16x2 bf16x2", packed, FP6_FP4, **DOWN),
    _cvt(".rn.satfinite{relu}", "e2m1x2", "f16x2 bf16x2", packed, FP6_FP4, TO_BYTE, **DOWN),
    _cvt("{rnd}{finite}", "ue8m0x2", "bf16x2", exponents, FP6_FP4, rnd=words("rz", "rp"), finite=FINITE),
    _cvt("{rnd}", "bf16x2", "ue8m0x2", of_exponents, FP6_FP4, rnd=RN),
    doc="a as another type: integers chopped or clamped; floats rounded once; floats to integers always clamped.",
    chapter=CHAPTER,
)
scalar(
    "cvt.pair",
    "a:atype b:atype",
    _cvt("{rnd}{relu}", "f16x2 bf16x2", "f32", _halves, "sm_80", rnd=RN_RZ, relu=RELU),
    _cvt("{rnd}{relu}.satfinite", "f16x2 bf16x2", "f32", _halves, "sm_80", rnd=RN_RZ, relu=RELU, finite=ALWAYS),
    _cvt("{rnd}.satfinite{relu}", FP8, "f32", packed, "sm_89", **DOWN),
    _cvt("{rnd}.satfinite{relu}", FP6, "f32", packed, FP6_FP4, **DOWN),
    _cvt("{rnd}.satfinite{relu}", "e2m1x2", "f32", packed, FP6_FP4, PAIR_TO_BYTE, **DOWN),
    _cvt("{rnd}{finite}", "ue8m0x2", "f32", exponents, FP6_FP4, rnd=words("rz", "rp"), finite=FINITE),
    doc="Two float32 as narrower floats in one register, a in the upper half.",
    chapter=CHAPTER,
)
scalar(
    "cvt.pack",
    "a:s32 b:s32",
    ("cvt.pack.sat{type}.s32", {"type": words("u16", "s16")}, _packed_integers),
    doc="Two integers clamped and put side by side, a above.",
    chapter=CHAPTER,
    result="b32",
)
scalar(
    "cvt.pack.onto",
    "a:s32 b:s32 c:b32",
    ("cvt.pack.sat{type}.s32.b32", {"type": words("u8", "s8")}, _packed_integers),
    ("cvt.pack.sat{type}.s32.b32", {"type": words("u4", "s4", "u2", "s2")}, _packed_integers),
    doc="Two integers clamped and put side by side, a above, below the bits of c, which move up.",
    chapter=CHAPTER,
    result="b32",
)
