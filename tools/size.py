"""Code lines per room, without comments, docstrings and blank lines: ``python -m tools.size``."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "tilewright"


def docstrings(tree: ast.AST) -> list[ast.Constant]:
    """The docstring nodes of a module, its classes and its functions."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                found.append(first.value)
    return found


def code_lines(source: str, tree: ast.Module | None = None) -> int:
    """Lines that hold code. tree: of the source, where it is there.

    >>> code_lines('"docstring"\\n\\nx = 1  # why\\n# comment\\n')
    1
    """
    tree = tree or ast.parse(source)
    written = (line.strip() for line in source.split("\n"))
    lines = {number for number, line in enumerate(written, 1) if line and not line.startswith("#")}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    for doc in docstrings(tree):
        lines.difference_update(range(doc.lineno, (doc.end_lineno or doc.lineno) + 1))
    return len(lines)


def lines_per_room() -> Counter[str]:
    """Code lines of each room; the files beside the rooms count under their own names."""
    rooms: Counter[str] = Counter()
    for path in sorted(PACKAGE.rglob("*.py")):
        rooms[path.relative_to(PACKAGE).parts[0]] += code_lines(path.read_text(encoding="utf-8"))
    return rooms


def main() -> None:
    rooms = lines_per_room()
    for room, lines in rooms.most_common():
        print(f"{lines:6}  {room}")
    print(f"{rooms.total():6}  all of tilewright")


if __name__ == "__main__":
    main()
