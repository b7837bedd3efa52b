"""The operands of PTX instructions, from text: names, numbers, addresses, vectors, constant expressions.

The same few texts come again and again, so that results are kept. Source: PTX ISA, "Instruction Operands" and
"Constants".
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import lru_cache

from tilewright.ptx.constants import Unreadable, evaluated, float_bits, is_arithmetic, whole_number
from tilewright.ptx.lexer import NAME, NUMBER
from tilewright.ptx.tree import Address, Immediate, Name, Not, Operand, Pair, Sum, Vector

__all__ = ["operands", "split"]

_SPECIAL = rf"{NAME}(?:\.\w+)*"  # %tid.x, and elements of vector registers
_NAME = re.compile(_SPECIAL)
_NUMBER = re.compile(rf"(-?)\s*({NUMBER})")
_ADDRESS = re.compile(rf"\[\s*({NAME})\s*(?:\+?\s*(-?)\s*(0[xX][\da-fA-F]+|\d+)U?)?\s*\]")
_PART = re.compile(r"((?:[^,{}\[\]()]|\{[^{}]*\}|\[[^\[\]]*\]|\((?:[^()]|\([^()]*\))*\))*)(,|$)")
_SUM = re.compile(rf"({NAME})\s*([+-].*)", re.DOTALL)
_ELEMENT = re.compile(rf"({NAME})\s*\[([^\[\]]*)\]")
_PAIR = re.compile(rf"({_SPECIAL})\s*\|\s*({_SPECIAL})")
_NOT = re.compile(rf"([!-])\s*({_SPECIAL})")


@lru_cache(maxsize=1 << 14)
def operands(text: str) -> tuple[Operand, ...]:
    """The operands of an instruction. Raises Unreadable."""
    if not text or text.isspace():
        return ()
    if "{" not in text and "(" not in text and "[" not in text:
        return tuple([_operand(part) for part in text.split(",")])
    return tuple([_operand(part) for part in split(text)])


def split(text: str) -> list[str]:
    """What commas part, but for those in brackets of any kind."""
    parts, position = [], 0
    while True:
        found = _PART.match(text, position)
        if found is None:
            unclosed = _PART.match(text + "}", position) or _PART.match(text + "]", position)
            raise Unreadable(len(text) if unclosed else position, "a closing bracket")
        parts.append(found[1])
        if not found[2]:
            return parts
        position = found.end()


@lru_cache(maxsize=1 << 14)
def _operand(text: str) -> Operand:
    text = text.strip()
    for pattern, make in _SHAPES:
        found = pattern.fullmatch(text)
        if found is not None:
            return make(found)
    if text[:1] in ("{", "(") and text[-1:] == {"{": "}", "(": ")"}[text[0]] and not is_arithmetic(text):
        inner = text[1:-1]
        return Vector(tuple(_operand(part) for part in split(inner)) if inner.strip() else (), text[0] + text[-1])
    if text[:1] == "[" and text[-1:] == "]":
        return _in_brackets(text[1:-1])
    if is_arithmetic(text):
        return _constant(text)
    raise Unreadable(0, "an operand")


def _constant(text: str) -> Immediate:
    """What a constant expression gives, an integer or a float."""
    value = evaluated(text)
    if isinstance(value, float):
        return Immediate(text, int.from_bytes(struct.pack(">d", value), "big"), 64)
    return Immediate(text, int(value))


def _number(found: re.Match[str]) -> Immediate:
    negative, text = found[1] == "-", found[2]
    float_ = float_bits(text)
    if float_ is None:
        return Immediate(found[0], (-1 if negative else 1) * whole_number(text))
    value, bits = float_
    return Immediate(found[0], value ^ (negative << bits - 1), bits)


def _address(found: re.Match[str]) -> Address:
    offset = whole_number(found[3]) if found[3] else 0
    return Address(Name(found[1]), -offset if found[2] else offset)


def _in_brackets(text: str) -> Address:
    """An address with coordinates, or one that is a number."""
    first, *rest = split(text)
    base = _operand(first)
    more = tuple(map(_operand, rest))
    if isinstance(base, Immediate) and not base.bits:
        return Address(None, base.value, more)
    if isinstance(base, Sum):
        return Address(base.name, base.offset, more)
    if isinstance(base, Name):
        return Address(base, 0, more)
    raise Unreadable(0, "an address: [register+number] or [variable+number]")


def _sum(found: re.Match[str]) -> Sum:
    return Sum(Name(found[1]), _offset(found[2], found.start(2)))


def _element(found: re.Match[str]) -> Sum:
    return Sum(Name(found[1]), _offset(found[2], found.start(2)), element=True)


def _offset(text: str, start: int) -> int:
    """A whole number, which may be an expression."""
    value = evaluated(text) if is_arithmetic(text) else None
    if not isinstance(value, int):
        raise Unreadable(start, "a whole number")
    return int(value)


def _not(found: re.Match[str]) -> Not:
    return Not(Name(found[2]), found[1])


_SHAPES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Operand]], ...] = (
    (re.compile("WARP_SZ"), lambda found: Immediate(found[0], 32)),
    (_NAME, lambda found: Name(found[0])),
    (_NUMBER, _number),
    (_ADDRESS, _address),
    (_PAIR, lambda found: Pair(Name(found[1]), Name(found[2]))),
    (_NOT, _not),
    (_SUM, _sum),
    (_ELEMENT, _element),
)
