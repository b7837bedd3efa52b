"""Generated Python: lines, indentation, and the constants that they name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.errors import Span

__all__ = ["PySource"]


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
