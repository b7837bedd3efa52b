"""cvt: integers and floats of all widths, one number or two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.isa.convert import FP6_FP4
from tilewright.isa.scalar import narrow_floats, narrowing
from tilewright.isa.scalar.floats import canonical, carried, flushed, flushed_as_rounded, saturated
from tilewright.isa.scalar.rows import flag, scalar, words
from tilewright.isa.types import TYPES, Numbers

__all__: list[str] = []

CHAPTER = "Data Movement and Conversion Instructions"
INTEGERS = words("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64")
WIDER = words("u16", "u32", "u64", "s16", "s32", "s64")
FTZ, SAT, RELU, FINITE = flag("ftz"), flag("sat"), flag("relu"), flag("satfinite")
UP = {"rnd": {"rn": ""}, "relu": RELU}
DOWN = {"rnd": {"rn": ""}, "finite": {True: ""}, "relu": RELU}
OF_BYTE = "{{ .reg .b8 b_; cvt.u8.u16 b_, {a}; {mnemonic} {result}, b_; }}"
TO_BYTE = "{{ .reg .b8 b_; {mnemonic} b_, {a}; cvt.u16.u8 {result}, b_; }}"
RND, IRND = words("rn", "rz", "rm", "rp"), words("rni", "rzi", "rmi", "rpi")


def _flush_if(ftz: bool, word: str) -> Callable[[Numbers], Numbers]:
    """float32 alone is flushed."""
    return flushed if ftz and word == "f32" else (lambda x: x)


def _of_integers(*, type: str, atype: str, sat: bool = False, **_: object) -> Callable[[Numbers], Numbers]:
    return lambda a: narrowing.between_integers(a, TYPES[type].name, clamped=sat)


def _beyond(to: str) -> list[str]:
    """The types that have numbers which this one lacks: elsewhere nothing is clamped, and the assembler says so."""
    ends = np.iinfo(TYPES[to].numpy)  # type: ignore[type-var]  # an integer
    others = {name: np.iinfo(TYPES[name].numpy) for name in INTEGERS}  # type: ignore[type-var]
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
        settle: Callable[..., Numbers] = carried if type == "f64" else (lambda found, a: canonical(found))
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
        found = narrowing.narrowed(_finite(wide, largest) if finite else wide, kind, rnd)
        return canonical(_clamped(found, sat=False, relu=relu))

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
        found = np.where(special & ~(finite & (a == a)), bits, rounded)
        nan = bits & np.uint32(0xFFFFE000) if rnd == "rna" else np.uint32(0x7FFFE000)
        found = np.where(a == a, found, nan)
        return np.where((found >> np.uint32(31) != 0) & relu & (a == a), np.uint32(0), found)

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


scalar(
    "cvt",
    "a:atype",
    ("cvt{type}{atype}", {"type": INTEGERS, "atype": INTEGERS}, _of_integers),
    *(
        ("cvt.sat{type}{atype}", {"type": words(to), "atype": words(*_beyond(to)), "sat": {True: ""}}, _of_integers)
        for to in INTEGERS
        if _beyond(to)
    ),
    *(
        shape
        for floats, first, flushes in (
            (words("f16", "f64"), "sm_75", False),
            (words("f32"), "sm_75", True),
            (words("bf16"), "sm_90", False),  # widths of 16 bits and more
        )
        for shape in (
            (
                "cvt{rnd}{sat}{type}{atype}" if not flushes else "cvt{rnd}{ftz}{sat}{type}{atype}",
                {
                    "type": floats,
                    "atype": WIDER if first == "sm_90" else INTEGERS,
                    "rnd": RND,
                    **({"sat": SAT} if first == "sm_75" else {}),
                }
                | ({"ftz": FTZ} if flushes else {}),
                _from_integer,
                first,
            ),
            (
                "cvt{rnd}{sat}{type}{atype}" if not flushes else "cvt{rnd}{ftz}{sat}{type}{atype}",
                {
                    "type": WIDER if first == "sm_90" else INTEGERS,
                    "atype": floats,
                    "rnd": IRND,
                    **({"sat": SAT} if first == "sm_75" else {}),
                }
                | ({"ftz": FTZ} if flushes else {}),
                _to_integer,
                first,
            ),
        )
    ),
    (
        "cvt{rnd}{ftz}{sat}{type}{atype}",
        {"type": words("f32"), "atype": words("f32"), "rnd": {None: "", **IRND}, "ftz": FTZ, "sat": SAT},
        _of_floats,
    ),
    *(
        (
            "cvt{rnd}{sat}{type}{atype}",
            {"type": words(same), "atype": words(same), "rnd": {None: "", **IRND}, "sat": SAT},
            _of_floats,
        )
        for same in ("f16", "f64")
    ),
    (
        "cvt{rnd}{ftz}{sat}{type}{atype}",
        {"type": words("f16"), "atype": words("f32"), "rnd": RND, "ftz": FTZ, "sat": SAT},
        _of_floats,
    ),
    (
        "cvt{rnd}{ftz}{sat}{type}{atype}",
        {"type": words("f32"), "atype": words("f64"), "rnd": RND, "ftz": FTZ, "sat": SAT},
        _of_floats,
    ),
    ("cvt{rnd}{sat}{type}{atype}", {"type": words("f16"), "atype": words("f64"), "rnd": RND, "sat": SAT}, _of_floats),
    ("cvt{ftz}{sat}{type}{atype}", {"type": words("f32"), "atype": words("f16"), "ftz": FTZ, "sat": SAT}, _of_floats),
    ("cvt{ftz}{sat}{type}{atype}", {"type": words("f64"), "atype": words("f32"), "ftz": FTZ, "sat": SAT}, _of_floats),
    ("cvt{sat}{type}{atype}", {"type": words("f64"), "atype": words("f16"), "sat": SAT}, _of_floats),
    ("cvt{type}{atype}", {"type": words("f32"), "atype": words("bf16")}, _of_floats, "sm_80"),
    ("cvt{type}{atype}", {"type": words("f64"), "atype": words("bf16")}, _of_floats, "sm_90"),
    ("cvt{rnd}{type}{atype}", {"type": words("bf16"), "atype": words("f64", "f16"), "rnd": RND}, _of_floats, "sm_90"),
    ("cvt{rnd}{type}{atype}", {"type": words("f16"), "atype": words("bf16"), "rnd": RND}, _of_floats, "sm_90"),
    *(
        ("cvt{type}{atype}", {"type": words(to), "atype": words(of), "rnd": {None: ""}}, _of_floats, "sm_90")
        for to, of in (("bf16", "f16"), ("f16", "bf16"))
    ),
    (
        "cvt{rnd}{relu}{type}{atype}",
        {"type": words("bf16"), "atype": words("f32"), "rnd": words("rn", "rz"), "relu": RELU},
        _single,
        "sm_80",
    ),
    (
        "cvt{rnd}.relu{type}{atype}",
        {"type": words("f16"), "atype": words("f32"), "rnd": words("rn", "rz"), "relu": {True: ""}},
        _single,
        "sm_80",
    ),
    *(
        (
            f"cvt{{rnd}}{relu}.satfinite{{type}}{{atype}}",
            {
                "type": words(to),
                "atype": words("f32"),
                "rnd": words("rn", "rz"),
                "relu": {bool(relu): ""},
                "finite": {True: ""},
            },
            _single,
            first,
        )
        for to, relu, first in (
            ("f16", "", "sm_75"),
            ("f16", ".relu", "sm_80"),
            ("bf16", "", "sm_80"),
            ("bf16", ".relu", "sm_80"),
        )
    ),
    (
        "cvt{rnd}{type}{atype}",
        {"type": words("bf16"), "atype": words("f32"), "rnd": words("rm", "rp")},
        _of_floats,
        "sm_80",
    ),
    (
        "cvt{rnd}{type}{atype}",
        {"type": words("bf16"), "atype": words("bf16"), "rnd": {None: "", **IRND}},
        _of_floats,
        "sm_90",
    ),
    ("cvt{rnd}{type}{atype}", {"type": words("tf32"), "atype": words("f32"), "rnd": words("rna")}, _tf32, "sm_80"),
    (
        "cvt{rnd}{relu}{type}{atype}",
        {"type": words("tf32"), "atype": words("f32"), "rnd": words("rn", "rz"), "relu": RELU},
        _tf32,
        "sm_90",
    ),
    (
        "cvt{rnd}.satfinite{type}{atype}",
        {"type": words("tf32"), "atype": words("f32"), "rnd": words("rna"), "finite": {True: ""}},
        _tf32,
        "sm_80",
    ),
    (
        "cvt{rnd}.satfinite{relu}{type}{atype}",
        {"type": words("tf32"), "atype": words("f32"), "rnd": words("rn", "rz"), "relu": RELU, "finite": {True: ""}},
        _tf32,
        "sm_100",
    ),
    (
        "cvt{rnd}{relu}{type}{atype}",
        {"type": words("f16x2"), "atype": words("e4m3x2", "e5m2x2"), "rnd": words("rn"), "relu": RELU},
        narrow_floats.widened,
        "sm_89",
    ),
    (
        "cvt{rnd}.satfinite{relu}{type}{atype}",
        {
            "type": words("e4m3x2", "e5m2x2"),
            "atype": words("f16x2"),
            "rnd": words("rn"),
            "relu": RELU,
            "finite": {True: ""},
        },
        narrow_floats.packed,
        "sm_89",
    ),
    *(
        (
            "cvt.rn{finite}{relu}{type}{atype}",
            {"type": words(to), "atype": words(*of), **UP, "finite": FINITE if to == "bf16x2" else {False: ""}},
            narrow_floats.widened,
            FP6_FP4,
            own,
        )
        for to, of, own in (
            ("f16x2", ("e2m3x2", "e3m2x2"), ""),
            ("f16x2", ("e2m1x2",), OF_BYTE),
            ("bf16x2", ("e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2"), ""),
            ("bf16x2", ("e2m1x2",), OF_BYTE),
        )
    ),
    *(
        (
            "cvt.rn.satfinite{relu}{type}{atype}",
            {"type": words(*to), "atype": words(*of), **DOWN},
            narrow_floats.packed,
            FP6_FP4,
            own,
        )
        for to, of, own in (
            (("e4m3x2", "e5m2x2"), ("bf16x2",), ""),
            (("e2m3x2", "e3m2x2"), ("f16x2", "bf16x2"), ""),
            (("e2m1x2",), ("f16x2", "bf16x2"), TO_BYTE),
        )
    ),
    (
        "cvt{rnd}{finite}{type}{atype}",
        {"type": words("ue8m0x2"), "atype": words("bf16x2"), "rnd": words("rz", "rp"), "finite": FINITE},
        narrow_floats.exponents,
        FP6_FP4,
    ),
    (
        "cvt{rnd}{type}{atype}",
        {"type": words("bf16x2"), "atype": words("ue8m0x2"), "rnd": words("rn")},
        narrow_floats.of_exponents,
        FP6_FP4,
    ),
    doc="a as another type: integers chopped or clamped; floats rounded once; floats to integers always clamped.",
    chapter=CHAPTER,
)
PAIR = {"atype": words("f32"), "rnd": words("rn", "rz"), "relu": RELU}
scalar(
    "cvt.pair",
    "a:atype b:atype",
    ("cvt{rnd}{relu}{type}{atype}", {"type": words("f16x2", "bf16x2"), **PAIR}, _halves, "sm_80"),
    (
        "cvt{rnd}{relu}.satfinite{type}{atype}",
        {"type": words("f16x2", "bf16x2"), **PAIR, "finite": {True: ""}},
        _halves,
        "sm_80",
    ),
    (
        "cvt{rnd}.satfinite{relu}{type}{atype}",
        {"type": words("e4m3x2", "e5m2x2"), **PAIR, "rnd": words("rn"), "finite": {True: ""}},
        narrow_floats.packed,
        "sm_89",
    ),
    (
        "cvt{rnd}.satfinite{relu}{type}{atype}",
        {"type": words("e2m3x2", "e3m2x2"), **PAIR, "rnd": words("rn"), "finite": {True: ""}},
        narrow_floats.packed,
        FP6_FP4,
    ),
    (
        "cvt{rnd}.satfinite{relu}{type}{atype}",
        {"type": words("e2m1x2"), **PAIR, "rnd": words("rn"), "finite": {True: ""}},
        narrow_floats.packed,
        FP6_FP4,
        "{{ .reg .b8 b_; {mnemonic} b_, {a}, {b}; cvt.u16.u8 {result}, b_; }}",
    ),
    (
        "cvt{rnd}{finite}{type}{atype}",
        {"type": words("ue8m0x2"), "atype": words("f32"), "rnd": words("rz", "rp"), "finite": FINITE},
        narrow_floats.exponents,
        FP6_FP4,
    ),
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
