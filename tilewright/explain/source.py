"""The text around a line of compiled code, CUDA C++ or Python: its branches and loops, as their author indents them."""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.errors import Span

_MARKS = str.maketrans("(){};:,", " " * 7)


@dataclass(frozen=True, slots=True)
class SourceText:
    """The lines of a file. Its methods count them from 1."""

    lines: Sequence[str]

    @classmethod
    def around(cls, *places: Span) -> SourceText | None:
        """The text that all of these places are in; None where they are in several, or it cannot be read."""
        lines = linecache.getlines(places[0].file)
        is_one = all(at.file == places[0].file and at.line <= len(lines) for at in places)
        return cls(lines) if is_one else None

    def code(self, line: int) -> str:
        """A line without its comment."""
        return self.lines[line - 1].partition("//")[0].rstrip()

    def words(self, line: int) -> list[str]:
        """What a line says, without brackets: an `elif` is an `else` with an `if`."""
        return self.code(line).translate(_MARKS).replace("elif ", "else if ").split()

    def parts_of(self, array: str, line: int) -> set[str]:
        """The names by which a line has elements of an array: its own, or of pointers that the text makes of it."""
        named = {part.split()[-1] for part in _spaced(self.code(line)).split("[")[:-1] if part.split()}
        before = ";".join(map(self.code, range(1, line))).split(";")
        settings = (_spaced(part).split("=", 1) for part in before if "=" in part)
        pointers = {left.split()[-1] for left, right in settings if "*" in left and array in right.split()}
        return named & {array, *pointers}

    def indent(self, line: int) -> int:
        """Blanks in front of a line."""
        return len(self.lines[line - 1]) - len(self.lines[line - 1].lstrip())

    def is_if(self, line: int) -> bool:
        """Does a branch begin here, with a condition?"""
        words = self.words(line)
        return words[:1] == ["if"] or words[:2] == ["else", "if"]

    def is_else(self, line: int) -> bool:
        """Does another branch of an `if` begin here?"""
        return self.words(line)[:1] == ["else"]

    def is_loop(self, line: int) -> bool:
        """Does a loop begin here?"""
        return self.words(line)[:1] in (["for"], ["while"])

    def leaves(self, line: int) -> bool:
        """Does a line return?"""
        return "return" in self.words(line)

    def ends(self, line: int) -> bool:
        """Does a statement, or its head, end with a line?"""
        return not self.code(line) or self.code(line)[-1] in ";{}:"

    def branches(self, line: int) -> Iterator[tuple[int, int]]:
        """The branches around a line: where each begins with its `if`, and its own head, the innermost first."""
        depth = self.indent(line)
        for head in range(line - 1, 0, -1):
            if not self.lines[head - 1].strip() or self.indent(head) >= depth:
                continue
            depth = self.indent(head) + (self.code(head).strip() == "{")
            if self.is_if(head) or self.is_else(head):
                start = head
                while start > 1 and self.is_else(start):
                    above = (k for k in range(start - 1, 0, -1) if self.words(k) and self.indent(k) <= depth)
                    start = next(above, 1)
                yield start, head


def _spaced(code: str) -> str:
    """The code of a line, its names between blanks."""
    marks = (mark if mark.isalnum() or mark in "_[=" else " * " if mark == "*" else " " for mark in code)
    return "".join(marks)
