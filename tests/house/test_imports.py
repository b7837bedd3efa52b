"""Modules of the simulator import each other in no circle, not even within functions, except for type checkers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter

from tests.house.sources import sources
from tools.size import ROOT


def imported(node: ast.AST) -> Iterator[str]:
    """The modules that code imports when it runs."""
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.If) and ast.unparse(part.test) == "TYPE_CHECKING":
            continue
        if isinstance(part, ast.ImportFrom) and part.module:
            yield part.module
            yield from (f"{part.module}.{each.name}" for each in part.names)
        elif isinstance(part, ast.Import):
            yield from (each.name for each in part.names)
        yield from imported(part)


def test_the_simulator_has_no_circle_of_imports() -> None:
    trees = {}
    for source in sources():
        if source.name.startswith("tilewright/sim/"):
            trees[".".join(source.path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")] = source.tree

    graph = {name: {each for each in imported(tree) if each in trees and each != name} for name, tree in trees.items()}

    assert len(graph) > 60
    TopologicalSorter(graph).prepare()  # raises CycleError
