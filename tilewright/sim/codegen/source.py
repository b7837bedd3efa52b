"""Generated Python: lines, indentation, the constants that they name, and code that is nested too deep for Python."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.errors import Span

__all__ = ["PySource", "compiled"]


class PySource:
    """A mutable text of Python functions. `namespace` is what the text is executed in."""

    def __init__(self, namespace: dict[str, object]) -> None:
        self.namespace = namespace
        self.lines: list[str] = []
        self.at: Span | None = None  # the kernel's line that is written
        self.spans: list[Span | None] = []  # of each line
        self._indent = 0
        self._names = 0
        self._constants: dict[tuple[str, int], str] = {}

    def line(self, text: str) -> None:
        """One line, at the depth of the open blocks."""
        self.lines.append("    " * self._indent + text)
        self.spans.append(self.at)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A line that ends in a colon, and what stands under it."""
        self.line(head)
        self._indent += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self._indent -= 1

    def indent(self) -> int:
        """The depth, to come back to with `dedent` from however many open blocks."""
        return self._indent

    def open(self, head: str) -> None:
        """A block that stays open until `dedent`."""
        self.line(head)
        self._indent += 1

    def dedent(self, depth: int) -> None:
        """Close all blocks that were opened since `indent` gave ``depth``."""
        self._indent = depth

    def fresh(self, stem: str) -> str:
        """A name that nothing has yet: ``m7``."""
        self._names += 1
        return f"{stem}{self._names}"

    def named(self, stem: str, text: str) -> str:
        """The text's value under a name; a name stays as it is."""
        if text.isidentifier():
            return text
        name = self.fresh(stem)
        self.line(f"{name} = {text}")
        return name

    def constant(self, stem: str, value: object) -> str:
        """A name for a Python object."""
        key = (stem, id(value))
        if key not in self._constants:
            name = f"{stem}_{len(self._constants)}"
            self._constants[key] = name
            self.namespace[name] = value  # kept alive here, so that its id is not reused
        return self._constants[key]

    @property
    def text(self) -> str:
        """All lines."""
        return "\n".join(self.lines) + "\n"


# Python reads a hundred levels of indentation and compiles twenty loops in one another. Its syntax tree has no limit of
# indentation: deeper lines are parsed on their own and put where they belong. A loop too many becomes a function.

SHALLOW = 16  # levels that any text may have: so many loops in one another compile
AT_ONCE = 60  # levels of indentation that are parsed together
INDENT = 4  # spaces of a level


def compiled(lines: list[str], name: str) -> CodeType:
    """The code of these lines, however deep they are nested; line numbers stay."""
    if all(_depth(line) <= SHALLOW for line in lines):
        return compile("\n".join(lines) + "\n", name, "exec")
    tree = ast.Module(_parsed(lines, 0, 1), type_ignores=[])
    for function in tree.body:
        if isinstance(function, ast.FunctionDef):
            _LoopsAsFunctions().apply(function)
    return compile(ast.fix_missing_locations(tree), name, "exec")


def _depth(line: str) -> int:
    return (len(line) - len(line.lstrip())) // INDENT


def _parsed(lines: list[str], base: int, first: int) -> list[ast.stmt]:
    """The statements of lines from the depth ``base`` on; the number of the first line is ``first``."""
    text: list[str] = []
    deeper: dict[int, list[str]] = {}  # by the number of the line where they start
    start = 0
    for number, line in enumerate(lines, 1):
        if _depth(line) < base + AT_ONCE:
            text.append(line[base * INDENT :])
            start = 0
        else:
            text.append("" if start else " " * AT_ONCE * INDENT + "pass")
            start = start or number
            deeper.setdefault(start, []).append(line)
    tree = ast.parse("\n".join(text) + "\n")
    ast.increment_lineno(tree, first - 1)
    inner = {first - 1 + at: _parsed(block, base + AT_ONCE, first - 1 + at) for at, block in deeper.items()}
    return list(_InPlace(inner).visit(tree).body)


class _InPlace(ast.NodeTransformer):
    """Statements in place of the `pass` that stands in their first line."""

    def __init__(self, blocks: dict[int, list[ast.stmt]]) -> None:
        self.blocks = blocks

    def visit_Pass(self, node: ast.Pass) -> ast.stmt | list[ast.stmt]:
        return self.blocks.get(node.lineno, node)


class _LoopsAsFunctions(ast.NodeTransformer):
    """Each sixteenth loop of a nest as a function of its own that changes the variables of the one around it."""

    def __init__(self) -> None:
        self.loops = 0
        self.made = 0
        self.changed: set[str] = set()

    def apply(self, function: ast.FunctionDef) -> None:
        """Change the function; every variable of the new ones is known to it."""
        self.generic_visit(function)
        names = [ast.Name(name, ast.Store()) for name in sorted(self.changed)]
        function.body[:0] = [ast.Assign([name], ast.Constant(None)) for name in names]

    def loop(self, node: ast.For | ast.While) -> ast.stmt | list[ast.stmt]:
        """The loop, or a function of it and its call."""
        self.loops += 1
        self.generic_visit(node)
        self.loops -= 1
        if not self.loops or self.loops % SHALLOW:
            return node
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
        self.changed |= names
        self.made += 1
        name = f"nest{self.made}"
        plain = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        body: list[ast.stmt] = [ast.Nonlocal(sorted(names)), node]
        function = ast.FunctionDef(name, plain, body, decorator_list=[], lineno=node.lineno, col_offset=0)
        return [function, ast.Expr(ast.Call(ast.Name(name, ast.Load()), [], []))]

    visit_For = visit_While = loop
