"""The text of a kernel: from a Python function to its syntax tree, with the places of nodes in the user's own file.

Only the lines of the function itself are parsed, never the whole file, and equal text is parsed once.
"""

from __future__ import annotations

import ast
import linecache
from dataclasses import dataclass
from functools import lru_cache
from types import FunctionType
from typing import TYPE_CHECKING

from tilewright.errors import KernelError, Span

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Source", "read", "read_text"]

_END_OF_LINE = 1 << 16  # a span that goes on to the next line is shown to the end of its first


@dataclass(frozen=True, slots=True)
class Source:
    """A function's syntax tree. ``offset`` turns the tree's line numbers into those of ``file``."""

    file: str
    offset: int
    function: ast.FunctionDef

    def span(self, node: ast.AST) -> Span:
        """The place of a node; of a call, the name that is called."""
        if isinstance(node, ast.Expr):
            node = node.value
        if isinstance(node, ast.Call):
            node = node.func
            if isinstance(node, ast.Attribute):
                end = node.end_col_offset or 0
                return Span(self.file, (node.end_lineno or node.lineno) + self.offset, end - len(node.attr), end)
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        same_line = getattr(node, "end_lineno", line) == line
        end = getattr(node, "end_col_offset", column) if same_line else _END_OF_LINE
        return Span(self.file, line + self.offset, column, end)


def read(function: object) -> Source:
    """The source of a Python function.

    Raises KernelError where the function has no text that can be read, or is no plain ``def``.
    """
    if not isinstance(function, FunctionType) or function.__name__ == "<lambda>":
        raise KernelError(
            "a kernel is a Python function",
            given=f"{function!r}",
            allowed="`def` with @T.prim_func, @T.jit or @T.inline",
        )
    code = function.__code__
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, function.__globals__)
    first = code.co_firstlineno - 1
    if first >= len(lines):
        raise KernelError(
            f"the source of {function.__name__} cannot be read",
            given=code.co_filename,
            allowed="a function in a file or a notebook cell",
            hint="write the kernel to a .py file and import it, or use tilewright.lang.parse_script(text)",
        )
    indented = lines[first][:1].isspace()
    for text in _candidates(lines, first):
        tree = _parsed(text, indented)
        if tree is not None and tree.name == function.__name__:
            return Source(code.co_filename, first - indented, tree)
    raise KernelError(
        f"the source of {function.__name__} is not where it was",
        given=f"{code.co_filename}, line {first + 1}",
        hint="the file changed after it was imported: import it again",
    )


def _candidates(lines: list[str], first: int) -> Iterator[str]:
    """Texts from line ``first`` to each line that could be the one after the function, the shortest first.

    A line that is indented no deeper than ``def`` ends the function, unless it is inside brackets or a string: then the
    text before it does not parse, and the next candidate is tried.
    """
    indent = _indent(lines[first])
    inside = False
    for number in range(first, len(lines)):
        line = lines[number]
        stripped = line.strip()
        if not stripped or stripped.startswith("#") or _indent(line) > indent:
            continue
        if inside:
            yield "".join(lines[first:number])
        inside = inside or stripped.startswith(("def ", "async def "))
    yield "".join(lines[first:])


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


@lru_cache(maxsize=256)
def _parsed(text: str, indented: bool) -> ast.FunctionDef | None:
    """The function that ``text`` defines, or None. Indented text goes under an ``if``, so that columns stay right."""
    try:
        body: list[ast.stmt] = ast.parse(f"if 1:\n{text}" if indented else text).body
    except SyntaxError:
        return None
    first = body[0].body[0] if indented and isinstance(body[0], ast.If) else body[0]
    return first if isinstance(first, ast.FunctionDef) else None


def read_text(text: str) -> Source:
    """The source of the one function in a script's text, under a file name of its own that `linecache` knows.

    Raises KernelError where the text is not Python, or has no function.
    """
    file = f"<script {hash(text) & 0xFFFFFFFF:08x}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    try:
        body = ast.parse(text).body
    except SyntaxError as error:
        at = Span(file, error.lineno or 1, max(0, (error.offset or 1) - 1), error.end_offset or _END_OF_LINE)
        raise KernelError(f"the script is not Python: {error.msg}", at=at) from None
    for node in body:
        if isinstance(node, ast.FunctionDef):
            return Source(file, 0, node)
    raise KernelError("the script has no function", allowed="one function with @T.prim_func", at=Span(file, 1))
