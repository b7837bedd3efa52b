"""The project's own sources, parsed once, for the house tests."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.size import PACKAGE, ROOT

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    path: Path
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @cache  # noqa: B019  # as long as the sources, which are there until the end
    def nodes(self) -> tuple[ast.AST, ...]:
        """All of its tree."""
        return tuple(ast.walk(self.tree))

    def functions(self) -> Iterator[Function]:
        return (node for node in self.nodes() if isinstance(node, Function))


@cache
def sources() -> tuple[Source, ...]:
    """Every module of tilewright/."""
    return tuple(parse(path, path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py")))


def parse(path: Path, text: str) -> Source:
    return Source(path, text, ast.parse(text))


def table_lines(tree: ast.Module) -> int:
    """Lines of module-level tables beyond their first: assignments and calls that span several lines."""
    tables = (ast.Assign, ast.AnnAssign, ast.Expr)
    return sum((node.end_lineno or node.lineno) - node.lineno for node in tree.body if isinstance(node, tables))


def function_lines(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def setting(name: str) -> str:
    """The value of ``name = ...`` under [tool.tilewright] in pyproject.toml. (Python 3.10 has no tomllib.)"""
    section = (ROOT / "pyproject.toml").read_text(encoding="utf-8").split("[tool.tilewright]")[1].split("\n[")[0]
    match = re.search(rf"^{name} = (.*)$", section, re.MULTILINE)
    assert match, f"pyproject.toml has no {name} under [tool.tilewright]"
    return match[1]
