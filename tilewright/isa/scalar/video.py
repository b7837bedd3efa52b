"""The video instructions on words: parts of registers as numbers, clamped, and a second operation with c.

A result has 33 bits and a sign before it is clamped or chopped. Source: PTX ISA, "Scalar Video Instructions".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any

import numpy as np

from tilewright.isa.forms import GIVEN, Numbers, Spellings
from tilewright.isa.scalar.arithmetic import NUMBERS, parts, wrapped
from tilewright.isa.scalar.floats import family
from tilewright.isa.scalar.logic import COMPARE
from tilewright.isa.scalar.rows import flag, maybe, scalar, words

VIDEO = "Scalar Video Instructions"
OTHERS = words("s32", "u32")  # the types of b, so that those of a and b differ where tables are walked
PART: Spellings = maybe("b0", "b1", "b2", "b3", "h0", "h1")
SECOND = words("add", "min", "max")
PARTS = {"a_part": PART, "b_part": PART}
LOW = 0xFFFFFFFF


def _place(part: str | None) -> tuple[int, int]:
    """The lowest bit of a part, and its width."""
    width = {"b": 8, "h": 16}[part[0]] if part else 32
    return (width * int(part[1]) if part else 0), width


def _number(register: Numbers, word: str, part: str | None) -> Numbers:
    """The number that a part is, as int64."""
    low, width = _place(part)
    up = np.int64(64 - width)
    moved = (register.astype(np.uint64) >> np.uint64(low)).astype(np.int64) << up
    return moved >> up if word[0] == "s" else (moved.view(np.uint64) >> np.uint64(up)).astype(np.int64)


def _sources(mods: Mapping[str, Any]) -> tuple[Callable[[Numbers], Numbers], Callable[[Numbers], Numbers]]:
    """From the registers a and b to the numbers that their parts are."""
    first, second = (mods["atype"], mods["a_part"]), (mods.get("btype", "u32"), mods["b_part"])
    return lambda a: _number(a, *first), lambda b: _number(b, *second)


def _clamped(result: Numbers, word: str, part: str | None) -> Numbers:
    _, width = _place(part)
    return result.clip(*((-(1 << width - 1), (1 << width - 1) - 1) if word[0] == "s" else (0, (1 << width) - 1)))


def _with_third(result: Numbers, c: Numbers, word: str, op2: str | None, part: str | None) -> Numbers:
    """The second operation, or c with the number in the place of a part."""
    if op2 is None:
        low, width = _place(part)
        mask = (1 << width) - 1
        return wrapped(c.astype(np.int64) & ~(mask << low) | (result & mask) << low)
    inside = result << np.int64(31) >> np.int64(31)  # 33 bits
    third = _number(c, word, None)
    return wrapped({"add": np.add, "min": np.minimum, "max": np.maximum}[op2](inside, third))


def _shifted(way: str) -> Callable[..., Numbers]:
    def execute(x: Numbers, y: Numbers, mode: str) -> Numbers:
        by = np.minimum(y, 32) if mode == "clamp" else y & 31
        if way == "r":
            return x >> by
        beyond = np.sign(x) << np.int64(62)  # more than any number that is clamped, and no low bits
        return np.where(by > 31, beyond, x << np.minimum(by, 31))

    return execute


WORDS: dict[str, Callable[..., Numbers]] = {
    "vadd": np.add,
    "vsub": np.subtract,
    "vabsdiff": lambda x, y: np.abs(x - y),
    "vmin": np.minimum,
    "vmax": np.maximum,
    "vshl": _shifted("l"),
    "vshr": _shifted("r"),
}


@family
def _on_words(
    operation: Callable[..., Numbers], *, type: str, sat: bool = False, op2: str | None = None,
    d_part: str | None = None, mode: str | None = None, **mods: Any,
) -> Callable[..., Numbers]:  # fmt: skip
    more, (first, second) = (mode,) if mode else (), _sources(mods)

    def execute(a: Numbers, b: Numbers, *c: Numbers) -> Numbers:
        result = operation(first(a), second(b), *more)
        result = _clamped(result, type, d_part) if sat else result
        return _with_third(result, c[0], type, op2, d_part) if c else wrapped(result)

    return execute


def _on_comparison(*, compare: str, atype: str, **mods: Any) -> Callable[..., Numbers]:
    """The second operation has the sign of a, as an H200 has it."""
    test = COMPARE[compare]
    return _on_words(lambda x, y: test(x, y).astype(np.int64))(type=atype, atype=atype, **mods)


def _times(x: Numbers, y: Numbers) -> tuple[Numbers, Numbers]:
    """The product as an upper word with a sign and a lower one of 32 bits."""
    high, low = x * (y >> 16), x * (y & 0xFFFF)
    lower = ((high & 0xFFFF) << 16) + (low & LOW)
    return (high >> 16) + (low >> 32) + (lower >> 32), lower & LOW


def _multiplied(
    *, sat: bool = False, scale: str | None = None, a_sign: bool = False, c_sign: bool = False, po: bool = False,
    **mods: Any,
) -> Callable[[Numbers, Numbers, Numbers], Numbers]:  # fmt: skip
    """The product and c, one of the two perhaps negated, or both and one more; moved down by the scale."""
    signed = "s32" in (mods["atype"], mods["btype"]) or a_sign or c_sign
    down, (first, second) = np.int64(int(scale[3:]) if scale else 0), _sources(mods)

    def execute(a: Numbers, b: Numbers, c: Numbers) -> Numbers:
        high, low = _times(first(a), second(b))
        third = _number(c, "s32" if signed else "u32", None)
        if a_sign:
            high, low = ~high, ~low & LOW
        third = ~third if c_sign else third
        low = low + (third & LOW) + int(a_sign or c_sign or po)
        high = high + (third >> 32) + (low >> 32)
        below = (high << (np.int64(32) - down) | (low & LOW) >> down) & LOW
        return wrapped(_ended(high >> down, below, signed=signed) if sat else below)

    return execute


def _ended(high: Numbers, low: Numbers, *, signed: bool) -> Numbers:
    """The nearest number of 32 bits."""
    if not signed:
        return np.where(high > 0, LOW, np.where(high < 0, 0, low))
    top = 1 << 31
    above, beneath = (high > 0) | ((high == 0) & (low >= top)), (high < -1) | ((high == -1) & (low < top))
    return np.where(above, top - 1, np.where(beneath, top, low))


ALONE = "{mnemonic} {result}, {a}{a_part}, {b}{b_part};"
SECONDLY = "{mnemonic} {result}{d_part}, {a}{a_part}, {b}{b_part}, {c};"
MULTIPLIED = "{mnemonic} {result}, {a_sign}{a}{a_part}, {b}{b_part}, {c_sign}{c};"


def _rows(name: str, text: str, table: Mapping[str, Spellings], meaning: Any, doc: str) -> None:
    """Without c, and with it: a second operation, or a part of c that the number takes the place of."""
    second: dict[str, Spellings] = {**table, "op2": SECOND, "c": GIVEN}
    merged: dict[str, Spellings] = {**table, "d_part": {part: text for part, text in PART.items() if part}, "c": GIVEN}
    scalar(
        name,
        "a:b32 b:b32 c:b32",
        (text, table, meaning, "sm_75", ALONE),
        (f"{text}{{op2}}", second, meaning, "sm_75", SECONDLY),
        (text, merged, meaning, "sm_75", SECONDLY),
        doc=f"{doc}, of parts of a and b; with c a second operation, or c with the number as its part ``d_part``.",
        chapter=VIDEO,
        result="u32",
    )


for _name, _doc in (
    ("vadd", "The sum"),
    ("vsub", "The difference"),
    ("vabsdiff", "The magnitude of the difference"),
    ("vmin", "The smaller one"),
    ("vmax", "The larger one"),
):
    _types = {"type": NUMBERS, "atype": NUMBERS, "btype": OTHERS, "sat": flag("sat"), **PARTS}
    _rows(_name, f"{_name}{{type}}{{atype}}{{btype}}{{sat}}", _types, _on_words(WORDS[_name]), _doc)
for _name, _way in (("vshl", "up"), ("vshr", "down")):
    _types = {"type": NUMBERS, "atype": OTHERS, "sat": flag("sat"), "mode": words("clamp", "wrap"), **PARTS}
    _text = f"{_name}{{type}}{{atype}}.u32{{sat}}{{mode}}"
    _rows(_name, _text, _types, _on_words(WORDS[_name]), f"The first moved {_way} by the second")
_rows(
    "vset",
    "vset{atype}{btype}{compare}",
    {"atype": NUMBERS, "btype": OTHERS, "compare": words(*COMPARE), **PARTS},
    _on_comparison,
    "1 where a comparison holds",
)
_types = {"type": NUMBERS, "atype": NUMBERS, "btype": OTHERS, "sat": flag("sat"), **PARTS}
_types |= {"scale": maybe("shr7", "shr15")}
_text = "vmad{type}{atype}{btype}{po}{sat}{scale}"
_sign, _none = {True: "-"}, {False: ""}
scalar(
    "vmad",
    "a:b32 b:b32 c:b32",
    *(
        (_text, _types | {"a_sign": a, "c_sign": c, "po": po}, _multiplied, "sm_75", MULTIPLIED)
        for a, c, po in (
            (_none, _none, _none),
            (_sign, _none, _none),
            (_none, _sign, _none),
            (_none, _none, {True: ".po"}),
        )
    ),
    doc="The product of parts of a and b, and c; one of them negated, or one more (``po``); moved down and clamped.",
    chapter=VIDEO,
    result="u32",
)

# The video instructions on two halves or four bytes of a register at once.
#
# A selector of an operand (``a.h32``) is a `prmt` of both operands, and no part of these rows. Source: PTX ISA, "SIMD
# Video Instructions".

PART_VIDEO = "SIMD Video Instructions"
PATTERN = "{mnemonic} {result}{d_part}, {a}, {b}, {c};"


def _masks(count: int) -> Spellings:
    """Which of the parts are computed: all, or those that are named, the highest first."""
    places = [chosen for size in range(1, count + 1) for chosen in combinations(range(count - 1, -1, -1), size)]
    names = [f"{'hb'[count == 4]}{''.join(map(str, positions))}" for positions in places]
    return {None: "", **words(*names)}


def _average(a: Numbers, b: Numbers) -> Numbers:
    """The average, rounded up: away from zero where it is positive."""
    total = a + b
    return np.where(total >= 0, total + 1 >> 1, -(-total + 1 >> 1))


LANEWISE: dict[str, Callable[..., Numbers]] = {
    "vadd": np.add,
    "vsub": np.subtract,
    "vabsdiff": lambda a, b: np.abs(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
    "vavrg": _average,
}


def _joined(
    result: Numbers, word: str, c: Numbers, count: int, *, sat: bool = False, add: bool = False,
    d_part: str | None = None, **_: object,
) -> Numbers:  # fmt: skip
    """The numbers side by side, clamped or chopped, those of c where they are not asked for; or their sum with c."""
    width = 32 // count
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if word[0] == "s" else (0, (1 << width) - 1)
    if sat:
        result = result.clip(low, high)
    asked = np.array([d_part is None or str(place) in d_part for place in range(count)])
    if add:
        return wrapped(np.where(asked, result, 0).sum(-1) + c)
    kept: Numbers = np.where(asked, result, parts("u32", c, count))
    return np.ascontiguousarray(kept & (1 << width) - 1, f"u{width // 8}").view(np.uint32)[..., 0]


@family
def _on_parts(
    operation: Callable[..., Numbers], count: int, *, atype: str, btype: str, type: str = "u32", **mods: Any
) -> Callable[..., Numbers]:
    def execute(a: Numbers, b: Numbers, c: Numbers) -> Numbers:
        result = operation(parts(atype, a, count), parts(btype, b, count))
        return _joined(result, type, c, count, **mods)

    return execute


@family
def _compared(count: int, *, compare: str, **mods: Any) -> Callable[..., Numbers]:
    test = COMPARE[compare]
    return _on_parts(lambda x, y: test(x, y).astype(np.int64), count)(**mods)


for _count in (2, 4):
    _part = {"d_part": _masks(_count)}
    for _name, _operation in LANEWISE.items():
        _types = {"type": NUMBERS, "atype": NUMBERS, "btype": OTHERS, **_part}
        _text, _meaning = f"{_name}{_count}{{type}}{{atype}}{{btype}}", _on_parts(_operation, _count)
        scalar(
            f"{_name}{_count}",
            "a:b32 b:b32 c:b32",
            (_text, _types, _meaning, "sm_75", PATTERN),
            (f"{_text}.sat", _types | {"sat": {True: ""}}, _meaning, "sm_75", PATTERN),
            (f"{_text}.add", _types | {"add": {True: ""}}, _meaning, "sm_75", PATTERN),
            doc=f"{_name} of the {_count} parts of a and b, those of c where ``d_part`` lacks one, or their sum.",
            chapter=PART_VIDEO,
            result="b32",
        )
    _types = {"atype": NUMBERS, "btype": OTHERS, "compare": words(*COMPARE), **_part}
    _text = f"vset{_count}{{atype}}{{btype}}{{compare}}"
    scalar(
        f"vset{_count}",
        "a:b32 b:b32 c:b32",
        (_text, _types, _compared(_count), "sm_75", PATTERN),
        (f"{_text}.add", _types | {"add": {True: ""}}, _compared(_count), "sm_75", PATTERN),
        doc=f"1 where a comparison of the {_count} parts of a and b holds, side by side, or their sum with c.",
        chapter=PART_VIDEO,
        result="b32",
    )
