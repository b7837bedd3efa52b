"""PTX text as tokens, with the places they have in it.

A body is long and simple, so that the parser takes whole statements by one regular expression (`STATEMENT`); headers
and rare directives go token by token through a `Scanner`. Source: PTX ISA, "Syntax".
"""

from __future__ import annotations

import linecache
import re
from bisect import bisect_right
from collections.abc import Callable
from functools import cached_property
from itertools import count
from typing import TypeVar

from tilewright.errors import KernelError, Span

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


class Scanner:
    """Goes through a text token by token, from a place on."""

    def __init__(self, text: Text, position: int = 0, end: int | None = None) -> None:
        self.text = text
        self.position = position
        self.end = len(text.clean) if end is None else end

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
        token = self.of(r"0[xX][\da-fA-F]+U?|0[bB][01]+U?|0[0-7]*U?|[1-9]\d*U?", what).rstrip("U")
        octal = len(token) > 1 and token[0] == "0" and token.isdigit()
        return sign * int(token, 8 if octal else 0)

    def until(self, mark: str) -> str:
        """Read the text up to the next ``mark``, and the mark."""
        stop = self.text.clean.find(mark, self.position, self.end)
        if stop < 0:
            raise self.text.expected(f"`{mark}`", self.end)
        skipped = self.text.clean[self.position : stop]
        self.position = stop + len(mark)
        return skipped.strip()
