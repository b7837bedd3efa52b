"""The meaning of carries, dot products and the video instructions by the manual, one register at a time."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from tests.isa.numbers import bits_of, integer, signed, wrapped
from tests.isa.registry import scalar
from tests.isa.scalar_oracles import compared, half


@scalar("add.cc", "addc", "sub.cc", "subc")
def carried(mods: dict[str, Any], a: int, b: int, carry: int = 0) -> int:
    width = bits_of(mods["type"])
    total = a + b + carry if mods["name"].startswith("add") else a - b - carry
    return int(not 0 <= total < 1 << width) if mods["out"] == "cc" else total & (1 << width) - 1


@scalar("mad.cc", "madc")
def mad_carried(mods: dict[str, Any], a: int, b: int, c: int, carry: int = 0) -> int:
    word, width = mods["type"], bits_of(mods["type"])
    total = half(mods, integer(word, a) * integer(word, b)) + c + carry
    return total >> width if mods["out"] == "cc" else total & (1 << width) - 1


def parts(word: str, register: int, count: int) -> list[int]:
    width = 32 // count
    found = [register >> width * i & (1 << width) - 1 for i in range(count)]
    return [signed(one, width) for one in found] if word[0] == "s" else found


@scalar("dp4a", "dp2a")
def dot(mods: dict[str, Any], a: int, b: int, c: int) -> int:
    x, y = parts(mods["atype"], a, 4 if mods["name"] == "dp4a" else 2), parts(mods["btype"], b, 4)
    if mods["name"] == "dp2a":
        y = y[:2] if mods["half"] == "lo" else y[2:]
    return c + sum(i * j for i, j in zip(x, y, strict=True)) & 0xFFFFFFFF


VIDEO = ("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vavrg", "vset")


@scalar(*(f"{name}{count}" for name in VIDEO for count in (2, 4)))
def video(mods: dict[str, Any], a: int, b: int, c: int) -> int:
    name, count = mods["name"][:-1], int(mods["name"][-1])
    width, word = 32 // count, mods.get("type", "u32")
    found = []
    for x, y in zip(parts(mods["atype"], a, count), parts(mods["btype"], b, count), strict=True):
        average = math.floor(Fraction(x + y + 1, 2)) if x + y >= 0 else math.ceil(Fraction(x + y - 1, 2))
        value = {
            "vadd": x + y,
            "vsub": x - y,
            "vabsdiff": abs(x - y),
            "vmin": min(x, y),
            "vmax": max(x, y),
            "vavrg": average,
            "vset": name == "vset" and compared("s32", mods["compare"], x, y, ftz=False),
        }[name]
        low, high = (-(1 << width - 1), (1 << width - 1) - 1) if word[0] == "s" else (0, (1 << width) - 1)
        found.append(min(max(value, low), high) if mods.get("sat") else int(value))
    asked = mods.get("d_part") or "0123"
    if mods.get("add"):
        return sum(one for i, one in enumerate(found) if str(i) in asked) + c & 0xFFFFFFFF
    third = parts("u32", c, count)
    kept = [one if str(i) in asked else third[i] for i, one in enumerate(found)]
    return sum((one & (1 << width) - 1) << width * i for i, one in enumerate(kept))


def video_part(word: str, register: int, part: str | None) -> tuple[int, int, int]:
    """A part as a number; its lowest bit and its width."""
    width = 32 if part is None else {"b": 8, "h": 16}[part[0]]
    low = 0 if part is None else int(part[1:]) * width
    bits = register >> low & (1 << width) - 1
    return (signed(bits, width) if word[0] == "s" else bits), low, width


WORDS = ("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vset")


@scalar(*WORDS)
def video_word(mods: dict[str, Any], a: int, b: int, c: int | None = None) -> int:
    name, word = mods["name"].partition(".")[0], mods.get("type", mods["atype"])
    x, _, _ = video_part(mods["atype"], a, mods["a_part"])
    y, _, _ = video_part(mods.get("btype", "u32"), b, mods["b_part"])
    if name in ("vshl", "vshr"):
        y = min(y, 32) if mods["mode"] == "clamp" else y % 32
    found = int(
        {
            "vadd": lambda: x + y,
            "vsub": lambda: x - y,
            "vabsdiff": lambda: abs(x - y),
            "vmin": lambda: min(x, y),
            "vmax": lambda: max(x, y),
            "vshl": lambda: x * 2**y,
            "vshr": lambda: x // 2**y,
            "vset": lambda: compared("s64", mods["compare"], x % 2**64, y % 2**64, ftz=False),
        }[name]()
    )
    _, low, width = video_part("u32", 0, mods.get("d_part"))
    if mods.get("sat"):
        least, most = (-(1 << width - 1), (1 << width - 1) - 1) if word[0] == "s" else (0, (1 << width) - 1)
        found = min(max(found, least), most)
    if c is None:
        return found % 2**32
    if mods["op2"] is None:
        mask = (1 << width) - 1
        return c & ~(mask << low) | (found & mask) << low
    third, within = integer(word, c), signed(found % 2**33, 33)
    return {"add": within + third, "min": min(within, third), "max": max(within, third)}[mods["op2"]] % 2**32


@scalar("vmad")
def video_product(mods: dict[str, Any], a: int, b: int, c: int) -> int:
    x, _, _ = video_part(mods["atype"], a, mods["a_part"])
    y, _, _ = video_part(mods["btype"], b, mods["b_part"])
    has_sign = "s32" in (mods["atype"], mods["btype"]) or mods["a_sign"] or mods["c_sign"]
    third = signed(c, 32) if has_sign else c
    total = (-x * y if mods["a_sign"] else x * y) + (-third if mods["c_sign"] else third) + bool(mods["po"])
    total >>= int((mods["scale"] or "shr0")[3:])
    return wrapped("s32" if has_sign else "u32", total, sat=mods["sat"])
