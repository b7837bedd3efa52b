"""PTX text, read piece by piece: its tokens, its constant expressions, the operands of its instructions."""

from __future__ import annotations

import linecache
import operator
import re
import struct
from bisect import bisect_right
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from itertools import count
from typing import Any, TypeVar

from tilewright.errors import KernelError, Span
from tilewright.ptx.tree import Address, Immediate, Name, Not, Operand, Pair, Sum, Vector

# PTX text as tokens, with the places they have in it.
#
# A body is long and simple, so that the parser takes whole statements by one regular expression (`STATEMENT`);
# headers and rare directives go token by token through a `Scanner`. Source: PTX ISA, "Syntax".

NAME = r"(?:[A-Za-z_$%][\w$]*)"
NUMBER = (
    r"(?:0[fF][\da-fA-F]{8}|0[dD][\da-fA-F]{16}|(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+"
    r"|0[xX][\da-fA-F]+U?|0[bB][01]+U?|\d+U?)"
)

STATEMENT = re.compile(
    rf"""\s*(?:
    (?P<open>\{{) | (?P<close>\}}) | (?P<nothing>;)
    | \.loc\s+(?P<file>\d+)\s+(?P<line>\d+)\s+(?P<column>\d+)(?P<inlined>[^\n;]*);?
    | (?P<directive>\.[A-Za-z_]\w*)
    | (?P<label>{NAME})\s*:(?!:)
    | (?:@\s*(?P<guard>!?\s*{NAME})\s+)?(?P<mnemonic>[a-z]\w*(?:\.[\w:]+)*)(?P<operands>[^;]*);
    )""",
    re.VERBOSE,
)
"""One statement of a body: ``lastgroup`` says of which kind; comments are blanked before."""

_ASSEMBLY = re.compile(r"// begin inline asm\n.*?// end inline asm", re.DOTALL)
_LOC = re.compile(r"^([ \t]*\.loc[ \t]+\d+[ \t]+)(\d+)(.*)$", re.MULTILINE)
_BLANKED = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/|^[ \t]*\#[^\n]*', re.DOTALL | re.MULTILINE)
_TOKEN = re.compile(
    rf'\s*(?:(?P<word>\.{NAME}(?:::\w+)*|{NAME}(?:\.\w+|::\w+)*)|(?P<number>{NUMBER})|(?P<string>"[^"]*")|(?P<mark>\S))'
)
_names = count(1)

Item = TypeVar("Item")


def _blank(match: re.Match[str]) -> str:
    text = match[0]
    return text if text[0] == '"' else re.sub(r"[^\n]", " ", text)


class Text:
    """A PTX text whose comments are blanked, so that every place stays where it was. file: its path, "" without one."""

    def __init__(self, text: str, file: str = "") -> None:
        self.file = file or f"<ptx {next(_names)}>"
        if not file:  # reports show its lines
            lines = text.splitlines(keepends=True)
            linecache.cache[self.file] = (len(text), None, lines, self.file)
        self.clean = _BLANKED.sub(_blank, text) if "/" in text or "#" in text else text

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(newline.end() for newline in re.finditer("\n", self.clean))]

    def line(self, position: int) -> int:
        """The line, from 1 on, that has the character at ``position``."""
        return bisect_right(self._starts, position)

    def column(self, position: int) -> int:
        """Its place in that line, from 0 on."""
        return position - self._starts[self.line(position) - 1]

    def skipped(self, position: int) -> int:
        """The place of the next character that is no blank."""
        return len(self.clean) - len(self.clean[position:].lstrip()) if position < len(self.clean) else position

    def span(self, start: int, length: int = 1) -> Span:
        column = self.column(start)
        return Span(self.file, self.line(start), column, column + length)

    def expected(self, what: str, position: int) -> KernelError:
        """The error for a text in which ``what`` is expected and something else found."""
        start = self.skipped(position)
        match = _TOKEN.match(self.clean, start)
        token = match[0].strip() if match else "the end of the text"
        at = self.span(min(start, max(0, len(self.clean) - 1)), len(token) if match else 1)
        return KernelError(f"PTX expects {what}", given=f"{token} in column {at.column + 1}", allowed=what, at=at)


def with_lines_of_assembly(text: str) -> str:
    """The text, each piece of inline assembly of one line of its author's: LLVM counts on with the assembly's lines, so
    that an empty first line puts all of it a line too late.
    """
    return _ASSEMBLY.sub(_with_one_line, text) if _LOC.search(text) else text


def _with_one_line(assembly: re.Match[str]) -> str:
    """The assembly with its first `.loc` alone, less the lines before that one."""
    first = _LOC.search(assembly[0])
    if first is None:
        return assembly[0]
    before, after = assembly[0][: first.start()], assembly[0][first.end() :]
    line = max(1, int(first[2]) - before.count("\n") + 1)
    return f"{before}{first[1]}{line}{first[3]}{_LOC.sub('', after)}"


class Scanner:
    """Goes through a text token by token, from a place on."""

    def __init__(self, text: Text, position: int = 0) -> None:
        self.text = text
        self.position = position
        self.end = len(text.clean)

    def _token(self) -> tuple[str, int]:
        """The next token, empty at the end, and where it stops."""
        match = _TOKEN.match(self.text.clean, self.position, self.end)
        return (match[0].strip(), match.end()) if match else ("", self.position)

    def peek(self) -> str:
        """The next token; empty at the end."""
        return self._token()[0]

    def next(self) -> str:
        """Read the next token."""
        token, self.position = self._token()
        return token

    def accept(self, token: str) -> bool:
        """Is this the next token? If so, read it."""
        next_token, stop = self._token()
        if next_token == token:
            self.position = stop
        return next_token == token

    def listed(self, item: Callable[[], Item]) -> list[Item]:
        """What ``item`` reads, as often as a comma follows."""
        items = [item()]
        while self.accept(","):
            items.append(item())
        return items

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise self.text.expected(f"`{token}`", self.position)

    def of(self, pattern: str, what: str) -> str:
        """Read the next token, which must match ``pattern``. Raises KernelError where it does not."""
        token = self.peek()
        if not re.fullmatch(pattern, token):
            raise self.text.expected(what, self.position)
        self.next()
        return token

    def name(self, what: str = "a name") -> str:
        return self.of(NAME, what)

    def integer(self, what: str = "a whole number") -> int:
        """A number with its sign."""
        sign = -1 if self.accept("-") else 1
        return sign * whole_number(self.of(r"0[xX][\da-fA-F]+U?|0[bB][01]+U?|0[0-7]*U?|[1-9]\d*U?", what))

    def until(self, mark: str) -> str:
        """Read the text up to the next ``mark``, and the mark."""
        stop = self.text.clean.find(mark, self.position, self.end)
        if stop < 0:
            raise self.text.expected(f"`{mark}`", self.end)
        skipped = self.text.clean[self.position : stop]
        self.position = stop + len(mark)
        return skipped.strip()


# Constant expressions, which are C's, on integers of 64 bits with or without a sign, and on floats.
#
# Source: PTX ISA, "Constant Expressions"; where that leaves a choice (the types of ``|`` and ``~``, shifts by more than
# 63), what ptxas 13.5 makes of it.


Value = int | float


class Unreadable(Exception):
    """offset: where in the text it ceases to be an operand. what: what was expected there."""

    def __init__(self, offset: int, what: str) -> None:
        super().__init__(what)
        self.offset = offset
        self.what = what


class _Unsigned(int):
    """A number of the type .u64."""


def _typed(value: int, *, unsigned: bool) -> int:
    """The low 64 bits, as a number with or without a sign."""
    bits = value & (1 << 64) - 1
    return _Unsigned(bits) if unsigned else (bits ^ 1 << 63) - (1 << 63)


def _same(a: Value, b: Value) -> tuple[Value, Value]:
    """Both in one type: float where one is a float, .u64 where one is."""
    if isinstance(a, float) or isinstance(b, float):
        return float(a), float(b)
    unsigned = isinstance(a, _Unsigned) or isinstance(b, _Unsigned)
    return _typed(a, unsigned=unsigned), _typed(b, unsigned=unsigned)


def _arithmetic(op: Callable[[Any, Any], Value]) -> Callable[[Value, Value], Value]:
    def apply(a: Value, b: Value) -> Value:
        a, b = _same(a, b)
        result = op(a, b)
        return result if isinstance(result, float) else _typed(result, unsigned=isinstance(a, _Unsigned))

    return apply


def _comparison(op: Callable[[Any, Any], bool]) -> Callable[[Value, Value], Value]:
    return lambda a, b: int(op(*_same(a, b)))


def _shift(op: Callable[[int, int], int]) -> Callable[[Any, Any], Value]:
    return lambda a, b: _typed(op(a, b & 63), unsigned=isinstance(a, _Unsigned))


def _quotient(a: Value, b: Value) -> Value:
    if not b:
        raise Unreadable(0, "a divisor other than 0")
    if isinstance(a, float):
        return a / b
    return int(abs(a) // abs(b)) * (-1 if (a < 0) != (b < 0) else 1)


def _remainder(a: Any, b: Any) -> Value:
    a, b = _typed(a, unsigned=True), _typed(b, unsigned=True)
    if not b:
        raise Unreadable(0, "a divisor other than 0")
    return _typed(a % b, unsigned=True)


_LEVELS: tuple[Mapping[str, Callable[[Any, Any], Value]], ...] = (  # what binds least first
    {"||": lambda a, b: int(bool(a or b))},
    {"&&": lambda a, b: int(bool(a and b))},
    {"|": _arithmetic(operator.or_)},
    {"^": _arithmetic(operator.xor)},
    {"&": _arithmetic(operator.and_)},
    {"==": _comparison(operator.eq), "!=": _comparison(operator.ne)},
    {"<=": _comparison(operator.le), ">=": _comparison(operator.ge), "<": _comparison(operator.lt),
     ">": _comparison(operator.gt)},
    {"<<": _shift(operator.lshift), ">>": _shift(operator.rshift)},
    {"+": _arithmetic(operator.add), "-": _arithmetic(operator.sub)},
    {"*": _arithmetic(operator.mul), "/": _arithmetic(_quotient), "%": _remainder},
)  # fmt: skip
_UNARY: Mapping[str, Callable[[Any], Value]] = {
    "-": lambda a: -a if isinstance(a, float) else _typed(-a, unsigned=isinstance(a, _Unsigned)),
    "+": lambda a: a,
    "~": lambda a: _typed(~a, unsigned=True),
    "!": lambda a: int(not a),
    "(.s64)": lambda a: _typed(a, unsigned=False),
    "(.u64)": lambda a: _typed(a, unsigned=True),
}
_EXPRESSION_TOKEN = re.compile(
    rf"\s*({NUMBER}(?!\w)|WARP_SZ\b|\(\s*\.[su]64\s*\)|<<|>>|<=|>=|==|!=|&&|\|\||[()+*/%<>&|^~!?:-])"
)


def is_arithmetic(text: str) -> bool:
    """Is it a constant expression, by its tokens?"""
    return _tokens(text) is not None and re.search(r"\d|WARP_SZ", text) is not None


def _tokens(text: str) -> list[str] | None:
    text, tokens, position = text.rstrip(), list[str](), 0
    while position < len(text):
        token = _EXPRESSION_TOKEN.match(text, position)
        if token is None:
            return None
        tokens.append(re.sub(r"\s", "", token[1]))
        position = token.end()
    return tokens


def whole_number(text: str) -> int:
    """An integer as PTX writes it: decimal, octal, hexadecimal or binary. Raises Unreadable."""
    text = text.rstrip("U")
    octal = len(text) > 1 and text[0] == "0" and text.isdigit()
    try:
        return int(text, 8 if octal else 0)
    except ValueError:
        raise Unreadable(0, "a whole number") from None


def float_bits(text: str) -> tuple[int, int] | None:
    """The bits of a float without a sign, and how many they are; None for an integer."""
    kind = text[1:2].lower() if text[0] == "0" else ""
    if kind in ("f", "d") and len(text) in (10, 18):
        return int(text[2:], 16), 32 if kind == "f" else 64
    if re.search(r"[.eE]", text) and kind not in ("x", "b"):
        return int.from_bytes(struct.pack(">d", float(text)), "big"), 64
    return None


def single(double: int) -> int:
    """The bits of a float of 64 bits, rounded to 32."""
    return int.from_bytes(struct.pack(">f", *struct.unpack(">d", double.to_bytes(8, "big"))), "big")


def _literal(text: str) -> Value:
    bits = float_bits(text)
    if bits is not None:
        number: float = struct.unpack(">f" if bits[1] == 32 else ">d", bits[0].to_bytes(bits[1] // 8, "big"))[0]
        return number
    value = whole_number(text)
    return _typed(value, unsigned=text.endswith("U") or value >> 63 != 0)


def evaluated(text: str) -> Value:
    """The value of a constant expression. Raises Unreadable."""
    return _Expression(text).value()


class _Expression:
    """Goes through the tokens of a constant expression."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text) or []

    def value(self) -> Value:
        try:
            number = self._chosen()
        except TypeError:  # bits of a float
            raise Unreadable(0, "whole numbers between such operators") from None
        if self.tokens:
            raise Unreadable(len(self.text), "the end of a constant expression")
        return number

    def _chosen(self) -> Value:
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

    def _level(self, level: int) -> Value:
        if level == len(_LEVELS):
            return self._single()
        number = self._level(level + 1)
        while op := self._take(*_LEVELS[level]):
            number = _LEVELS[level][op](number, self._level(level + 1))
        return number

    def _single(self) -> Value:
        if op := self._take(*_UNARY):
            return _UNARY[op](self._single())
        if self._take("("):
            number = self._chosen()
            if not self._take(")"):
                raise Unreadable(len(self.text), "`)` of a constant expression")
            return number
        if self._take("WARP_SZ"):
            return 32
        if not self.tokens or not re.match(r"[\d.]", self.tokens[0]):
            raise Unreadable(0, "a number")
        return _literal(self.tokens.pop(0))


# The operands of PTX instructions, from text: names, numbers, addresses, vectors, constant expressions.
#
# The same few texts come again and again, so that results are kept. Source: PTX ISA, "Instruction Operands" and
# "Constants".


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
        match = _PART.match(text, position)
        if match is None:
            unclosed = _PART.match(text + "}", position) or _PART.match(text + "]", position)
            raise Unreadable(len(text) if unclosed else position, "a closing bracket")
        parts.append(match[1])
        if not match[2]:
            return parts
        position = match.end()


@lru_cache(maxsize=1 << 14)
def _operand(text: str) -> Operand:
    text = text.strip()
    for pattern, make in _SHAPES:
        match = pattern.fullmatch(text)
        if match is not None:
            return make(match)
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


def _number(match: re.Match[str]) -> Immediate:
    negative, text = match[1] == "-", match[2]
    float_ = float_bits(text)
    if float_ is None:
        return Immediate(match[0], (-1 if negative else 1) * whole_number(text))
    value, bits = float_
    return Immediate(match[0], value ^ (negative << bits - 1), bits)


def _address(match: re.Match[str]) -> Address:
    offset = whole_number(match[3]) if match[3] else 0
    return Address(Name(match[1]), -offset if match[2] else offset)


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


def _sum(match: re.Match[str]) -> Sum:
    return Sum(Name(match[1]), _offset(match[2], match.start(2)))


def _element(match: re.Match[str]) -> Sum:
    return Sum(Name(match[1]), _offset(match[2], match.start(2)), element=True)


def _offset(text: str, start: int) -> int:
    """A whole number, which may be an expression."""
    value = evaluated(text) if is_arithmetic(text) else None
    if not isinstance(value, int):
        raise Unreadable(start, "a whole number")
    return int(value)


def _not(match: re.Match[str]) -> Not:
    return Not(Name(match[2]), match[1])


_SHAPES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Operand]], ...] = (
    (re.compile("WARP_SZ"), lambda match: Immediate(match[0], 32)),
    (_NAME, lambda match: Name(match[0])),
    (_NUMBER, _number),
    (_ADDRESS, _address),
    (_PAIR, lambda match: Pair(Name(match[1]), Name(match[2]))),
    (_NOT, _not),
    (_SUM, _sum),
    (_ELEMENT, _element),
)
