"""dp4a, dp2a, and the video instructions on four bytes or two halves of a register.

Source: PTX ISA, "Integer Arithmetic Instructions: dp4a, dp2a", "SIMD Video Instructions".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.isa.scalar.comparing import COMPARE
from tilewright.isa.scalar.rows import scalar, words
from tilewright.isa.types import Numbers

__all__: list[str] = []

INTEGERS, VIDEO = "Integer Arithmetic Instructions", "SIMD Video Instructions"
NUMBERS = words("u32", "s32")


def _parts(word: str, register: Numbers, count: int) -> Numbers:
    """(..., count) numbers of a register, the low ones first."""
    kind = f"{'i' if word[0] == 's' else 'u'}{4 // count}"
    return np.ascontiguousarray(register)[..., None].view(kind).astype(np.int64)


def _wrapped(total: Numbers) -> Numbers:
    return (total & 0xFFFFFFFF).astype(np.uint32)


def _four(*, atype: str, btype: str, **_: object) -> Callable[..., Numbers]:
    return lambda a, b, c: _wrapped((_parts(atype, a, 4) * _parts(btype, b, 4)).sum(-1) + c)


def _two(*, atype: str, btype: str, half: str, **_: object) -> Callable[..., Numbers]:
    place = slice(0, 2) if half == "lo" else slice(2, 4)
    return lambda a, b, c: _wrapped((_parts(atype, a, 2) * _parts(btype, b, 4)[..., place]).sum(-1) + c)


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


def _joined(found: Numbers, word: str, c: Numbers, *, count: int, sat: bool, add: bool) -> Numbers:
    """The numbers in a register of their own, clamped or chopped; or their sum with c."""
    width = 32 // count
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if word[0] == "s" else (0, (1 << width) - 1)
    if sat:
        found = found.clip(low, high)
    if add:
        return _wrapped(found.sum(-1) + c)
    return np.ascontiguousarray(found & (1 << width) - 1, f"u{width // 8}").view(np.uint32)[..., 0]


def _lanewise(name: str, count: int) -> Callable[..., Callable[..., Numbers]]:
    def meaning(
        *, type: str, atype: str, btype: str, sat: bool = False, add: bool = False, **_: object
    ) -> Callable[..., Numbers]:
        operation = LANEWISE[name]
        return lambda a, b, c: _joined(
            operation(_parts(atype, a, count), _parts(btype, b, count)), type, c, count=count, sat=sat, add=add
        )

    return meaning


def _compared(count: int) -> Callable[..., Callable[..., Numbers]]:
    def meaning(*, atype: str, btype: str, compare: str, add: bool = False, **_: object) -> Callable[..., Numbers]:
        test = COMPARE[compare]
        return lambda a, b, c: _joined(
            test(_parts(atype, a, count), _parts(btype, b, count)).astype(np.int64),
            "u32",
            c,
            count=count,
            sat=False,
            add=add,
        )

    return meaning


for _count in (2, 4):
    for _name in LANEWISE:
        _types = {"type": NUMBERS, "atype": NUMBERS, "btype": NUMBERS}
        _text = f"{_name}{_count}{{type}}{{atype}}{{btype}}"
        scalar(
            f"{_name}{_count}",
            "a:b32 b:b32 c:b32",
            (_text, _types, _lanewise(_name, _count)),
            (f"{_text}.sat", _types | {"sat": {True: ""}}, _lanewise(_name, _count)),
            (f"{_text}.add", _types | {"add": {True: ""}}, _lanewise(_name, _count)),
            doc=f"{_name} of the {_count} parts of a and b, side by side, or their sum with c.",
            chapter=VIDEO,
            result="b32",
        )
    _types = {"atype": NUMBERS, "btype": NUMBERS, "compare": words(*COMPARE)}
    scalar(
        f"vset{_count}",
        "a:b32 b:b32 c:b32",
        (f"vset{_count}{{atype}}{{btype}}{{compare}}", _types, _compared(_count)),
        (f"vset{_count}{{atype}}{{btype}}{{compare}}.add", _types | {"add": {True: ""}}, _compared(_count)),
        doc=f"1 where a comparison of the {_count} parts of a and b holds, side by side, or their sum with c.",
        chapter=VIDEO,
        result="b32",
    )
