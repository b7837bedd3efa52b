"""No function is written twice under other names, and no name stands for two classes."""

from __future__ import annotations

import ast
import copy
from collections import defaultdict
from pathlib import Path

from tests.house.sources import Function, Source, parse, sources

MINIMUM_LINES = 6


class _Renamer(ast.NodeTransformer):
    """Numbers names in the order in which they appear, so that bodies that differ only in names become equal."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, name: str) -> str:
        return f"_{self.numbers.setdefault(name, len(self.numbers))}"

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.number(node.id), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(self.number(node.arg))


def body_of(function: Function) -> list[ast.stmt]:
    """The statements of a function, less its docstring."""
    return function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body


def normalised(function: Function) -> str:
    renamer = _Renamer()
    return "\n".join(ast.dump(renamer.visit(copy.deepcopy(statement))) for statement in body_of(function))


def duplicates(modules: tuple[Source, ...]) -> list[list[str]]:
    """Groups of functions with equal bodies of at least six lines."""
    alike: defaultdict[tuple[type, ...], list[tuple[str, Function]]] = defaultdict(list)
    for source in modules:
        for function in source.functions():
            body = body_of(function)
            if body and (body[-1].end_lineno or 0) - body[0].lineno + 1 >= MINIMUM_LINES:
                alike[kinds_of(body)].append((f"{source.path.name}:{function.lineno} {function.name}", function))
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name, function in (one for group in alike.values() if len(group) > 1 for one in group):
        groups[normalised(function)].append(name)
    return [group for group in groups.values() if len(group) > 1]


def kinds_of(body: list[ast.stmt]) -> tuple[type, ...]:
    """The kinds of all nodes, in which equal bodies agree, whatever the names in them are."""
    return tuple(type(node) for statement in body for node in ast.walk(statement))


def test_no_two_functions_have_the_same_body() -> None:
    assert duplicates(sources()) == []


BODY = """
def {name}({a}):
    {doc}
    total = 0
    for {b} in {a}:
        if {b} > 3:
            continue
        total += {b}
    return total
"""


def test_a_body_with_other_names_and_another_docstring_is_a_duplicate() -> None:
    text = BODY.format(name="f", a="xs", b="x", doc='"""One."""') + BODY.format(name="g", a="ys", b="y", doc="")

    assert duplicates((parse(Path("twice.py"), text),)) == [["twice.py:2 f", "twice.py:11 g"]]


def test_names_that_are_used_differently_make_another_body() -> None:
    text = BODY.format(name="f", a="xs", b="x", doc="") + BODY.format(name="g", a="xs", b="total", doc="")

    assert duplicates((parse(Path("twice.py"), text),)) == []


OWN_NAMES = "tilewright/ptx/"  # PTX has instructions, operands and scopes of its own
SHARED = {"Operand"}  # of a row, and of a line of generated Python


def class_names(modules: tuple[Source, ...]) -> dict[str, list[str]]:
    """The files of each public class name that stands for several classes, less PTX's own."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for source in modules:
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(source.path))
    others = {name: [path for path in paths if OWN_NAMES not in path] for name, paths in found.items()}
    return {name: paths for name, paths in others.items() if len(paths) > 1}


def test_no_two_classes_have_the_same_name() -> None:
    assert class_names(sources()).keys() <= SHARED


def test_a_name_of_two_classes_is_found_and_that_of_one_in_ptx_is_not() -> None:
    texts = ("tile/rows.py", "isa/rows.py", "ptx/rows.py")
    modules = tuple(parse(Path(f"tilewright/{path}"), "class Row: ...") for path in texts)

    assert class_names(modules) == {"Row": ["tilewright/tile/rows.py", "tilewright/isa/rows.py"]}
    assert class_names(modules[1:]) == {}
