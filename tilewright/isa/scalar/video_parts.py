"""The video instructions on two halves or four bytes of a register at once.

A selector of an operand (``a.h32``) is a `prmt` of both operands, and no part of these rows. Source: PTX ISA, "SIMD
Video Instructions".
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np

from tilewright.isa.scalar.comparing import COMPARE
from tilewright.isa.scalar.dots import NUMBERS, parts, wrapped
from tilewright.isa.scalar.rows import scalar, words
from tilewright.isa.table import Spellings
from tilewright.isa.types import Numbers

VIDEO = "SIMD Video Instructions"
OTHERS = words("s32", "u32")  # the types of b, so that those of a and b differ where tables are walked
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


def _joined(result: Numbers, word: str, c: Numbers, *, count: int, sat: bool, add: bool, d_part: str | None) -> Numbers:
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


def _on_parts(operation: Callable[..., Numbers], count: int) -> Callable[..., Callable[..., Numbers]]:
    def meaning(
        *,
        atype: str,
        btype: str,
        type: str = "u32",
        sat: bool = False,
        add: bool = False,
        d_part: str | None = None,
        **_: object,
    ) -> Callable[..., Numbers]:
        def execute(a: Numbers, b: Numbers, c: Numbers) -> Numbers:
            result = operation(parts(atype, a, count), parts(btype, b, count))
            return _joined(result, type, c, count=count, sat=sat, add=add, d_part=d_part)

        return execute

    return meaning


def _compared(count: int) -> Callable[..., Callable[..., Numbers]]:
    def meaning(*, compare: str, **mods: Any) -> Callable[..., Numbers]:
        test = COMPARE[compare]
        return _on_parts(lambda x, y: test(x, y).astype(np.int64), count)(**mods)

    return meaning


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
            chapter=VIDEO,
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
        chapter=VIDEO,
        result="b32",
    )
