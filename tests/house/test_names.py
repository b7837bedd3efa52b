"""What is no noun is no name: of a variable or a parameter that is called so, nobody knows what it holds."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.house.sources import parse, sources

NO_NOUNS = {"found", "made", "own", "each", "one", "given", "known"}
MOST = 680  # in the package: it only falls

CLEAN = ("cuda", "ir", "layout", "view", "lower", "advise", "demo", "lang", "tile", "ptx", "isa", "kernels", "serve",
         "cli", "host.py", "inputs.py")  # fmt: skip
"""Rooms that have none."""


def unnamed(tree: ast.AST) -> Iterator[str]:
    """The variables and parameters that are called by no noun."""
    for node in ast.walk(tree):
        name = getattr(node, "id", None) if isinstance(getattr(node, "ctx", None), ast.Store) else None
        name = node.arg if isinstance(node, ast.arg) else node.name if isinstance(node, ast.MatchAs) else name
        if name in NO_NOUNS:
            yield name


def test_fewer_and_fewer_variables_are_called_by_no_noun() -> None:
    assert sum(1 for source in sources() for _ in unnamed(source.tree)) <= MOST


def test_rooms_that_name_what_they_hold_stay_so() -> None:
    rooms = [source for source in sources() if source.name.split("/")[1] in CLEAN]

    assert {source.name: names for source in rooms if (names := [*unnamed(source.tree)])} == {}


def test_a_variable_a_parameter_and_a_pattern_count() -> None:
    text = "def f(given):\n    found = given\n    match found:\n        case [*_] as known:\n            return known\n"

    assert sorted(unnamed(parse(Path("names.py"), text).tree)) == ["found", "given", "known"]
