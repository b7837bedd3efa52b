"""The operands of PTX instructions, from text: names, numbers, addresses, vectors, constant expressions.

The same few texts come again and again, so that results are kept. Source: PTX ISA, "Instruction Operands" and
"Constants".
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from functools import lru_cache

from tilewright.ptx.lexer import NAME, NUMBER
from tilewright.ptx.tree import Address, Immediate, Name, Not, Operand, Pair, Sum, Vector

__all__ = ["Unreadable", "operands", "split"]

_SPECIAL = rf"{NAME}(?:\.\w+)*"  # %tid.x, and elements of vector registers
_NAME = re.compile(_SPECIAL)
_NUMBER = re.compile(rf"(-?)\s*({NUMBER})")
_ADDRESS = re.compile(rf"\[\s*({NAME})\s*(?:\+?\s*(-?)\s*(\d+|0[xX][\da-fA-F]+))?\s*\]")
_PART = re.compile(r"((?:[^,{}\[\]()]|\{[^{}]*\}|\[[^\[\]]*\]|\((?:[^()]|\([^()]*\))*\))*)(,|$)")
_SUM = re.compile(rf"({NAME})\s*([+-])\s*(-?\s*\w+)")
_PAIR = re.compile(rf"({_SPECIAL})\s*\|\s*({_SPECIAL})")
_NOT = re.compile(rf"([!-])\s*({_SPECIAL})")


class Unreadable(Exception):
    """offset: where in the text it ceases to be an operand. what: what was expected there."""

    def __init__(self, offset: int, what: str) -> None:
        super().__init__(what)
        self.offset = offset
        self.what = what


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
    if text[:1] in ("{", "(") and text[-1:] == {"{": "}", "(": ")"}[text[0]] and not _is_arithmetic(text):
        inner = text[1:-1]
        return Vector(tuple(_operand(part) for part in split(inner)) if inner.strip() else (), text[0] + text[-1])
    if text[:1] == "[" and text[-1:] == "]":
        return _in_brackets(text[1:-1])
    if _is_arithmetic(text):
        return Immediate(text, _Arithmetic(text).value())
    raise Unreadable(0, "an operand")


def _number(found: re.Match[str]) -> Immediate:
    negative, text = found[1] == "-", found[2]
    kind = text[1:2].lower() if text[0] == "0" else ""
    if kind in ("f", "d") and len(text) in (10, 18):
        bits = 32 if kind == "f" else 64
        return Immediate(found[0], int(text[2:], 16) ^ (negative << bits - 1), bits)
    if re.search(r"[.eE]", text) and kind not in ("x", "b"):
        return Immediate(found[0], int.from_bytes(struct.pack(">d", float(text)), "big") ^ (negative << 63), 64)
    return Immediate(found[0], (-1 if negative else 1) * _integer(text))


def _integer(text: str) -> int:
    text = text.rstrip("U")
    octal = len(text) > 1 and text[0] == "0" and text.isdigit()
    try:
        return int(text, 8 if octal else 0)
    except ValueError:
        raise Unreadable(0, "a whole number") from None


def _address(found: re.Match[str]) -> Address:
    offset = int(found[3], 0) if found[3] else 0
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
    sign = -1 if found[2] == "-" else 1
    text = re.sub(r"\s", "", found[3])
    if not re.fullmatch(NUMBER, text.lstrip("-")):
        raise Unreadable(found.start(3), "a whole number")
    return Sum(Name(found[1]), sign * (-1 if text[0] == "-" else 1) * _integer(text.lstrip("-")))


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
)


# Constant expressions, which are C's


_ARITHMETIC = re.compile(r"(?:\b0[xX][\da-fA-F]+U?\b|\b0[bB][01]+U?\b|\b\d+U?\b|[\s()+*/%<>&|^~!?:=-])+")


def _is_arithmetic(text: str) -> bool:
    return _ARITHMETIC.fullmatch(text) is not None and bool(re.search(r"\d", text))


_LEVELS: tuple[Mapping[str, Callable[[int, int], int]], ...] = (  # the operators that bind least come first
    {"||": lambda a, b: int(bool(a or b))},
    {"&&": lambda a, b: int(bool(a and b))},
    {"|": lambda a, b: a | b},
    {"^": lambda a, b: a ^ b},
    {"&": lambda a, b: a & b},
    {"==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b)},
    {"<=": lambda a, b: int(a <= b), ">=": lambda a, b: int(a >= b), "<": lambda a, b: int(a < b),
     ">": lambda a, b: int(a > b)},
    {"<<": lambda a, b: a << (b & 63), ">>": lambda a, b: a >> (b & 63)},
    {"+": lambda a, b: a + b, "-": lambda a, b: a - b},
    {"*": lambda a, b: a * b, "/": lambda a, b: abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1) if b else 0,
     "%": lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1) if b else 0},
)  # fmt: skip
_UNARY: Mapping[str, Callable[[int], int]] = {
    "-": lambda a: -a, "+": lambda a: a, "~": lambda a: ~a, "!": lambda a: int(not a)
}  # fmt: skip


class _Arithmetic:
    """A constant expression: goes through its tokens."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = re.findall(r"0[xX][\da-fA-F]+U?|\d+U?|<<|>>|<=|>=|==|!=|&&|\|\||\S", text)

    def value(self) -> int:
        found = self._chosen()
        if self.tokens:
            raise Unreadable(len(self.text), "the end of a constant expression")
        return found

    def _chosen(self) -> int:
        cond = self._level(0)
        if not self._take("?"):
            return cond
        then = self._chosen()
        if not self._take(":"):
            raise Unreadable(len(self.text), "`:` of a constant expression")
        orelse = self._chosen()
        return then if cond else orelse

    def _take(self, *tokens: str) -> str:
        return self.tokens.pop(0) if self.tokens and self.tokens[0] in tokens else ""

    def _level(self, level: int) -> int:
        if level == len(_LEVELS):
            return self._single()
        found = self._level(level + 1)
        while op := self._take(*_LEVELS[level]):
            found = _LEVELS[level][op](found, self._level(level + 1))
        return found

    def _single(self) -> int:
        if op := self._take(*_UNARY):
            return _UNARY[op](self._single())
        if self._take("("):
            found = self._chosen()
            if not self._take(")"):
                raise Unreadable(len(self.text), "`)` of a constant expression")
            return found
        if not self.tokens or not self.tokens[0][0].isdigit():
            raise Unreadable(0, "a number")
        return _integer(self.tokens.pop(0))
