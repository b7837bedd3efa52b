"""The launches of a .cu file in numbers: ``k<<<dim3(n / 32, 4), 128>>>(...)`` where its text says what ``n`` is."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tilewright.load.cu_pieces import launches
from tilewright.load.cu_tree import Tree, below, tree_of

__all__ = ["LaunchShape", "launched"]

_DIM3 = re.compile(r"(?:dim3)?\s*[({](.*)[)}]")
_NUMBER = re.compile(r"\b(\d[\dxXa-fA-F']*?)[uUlL]*\b")
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip
_MOST = 1 << 31  # of a number between the angles


@dataclass(frozen=True, slots=True)
class LaunchShape:
    """A launch in numbers. line: of the file. arguments: the numbers that the text says, other words as they are."""

    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_bytes: int
    line: int
    kernel: str = ""
    arguments: tuple[str | int, ...] = ()


def launched(text: str, kernel: str | None = None) -> list[LaunchShape]:
    """The launches of a kernel, or of all, whose numbers the text has, in order. kernel: as it is written, or its bare
    name.
    """
    tree = tree_of(text)
    bare = kernel.partition("<")[0].rpartition("::")[2] if kernel is not None else None
    found = []
    for launch in launches(text):
        name = launch.kernel.partition("<")[0].rpartition("::")[2]
        if bare not in (None, name) or len(launch.words) < 2:
            continue
        words = [_extents(word, tree, launch.line) for word in launch.words[:3]]
        if all(word is not None for word in words):
            grid, block, *rest = (word or () for word in words)
            values = (_value(word, tree, launch.line) for word in launch.arguments)
            given = tuple(
                word if value is None else value for word, value in zip(launch.arguments, values, strict=True)
            )
            found.append(LaunchShape(grid, block, rest[0][0] if rest else 0, launch.line, launch.kernel, given))
    return found


def _extents(word: str, tree: Tree, line: int) -> tuple[int, ...] | None:
    """One to three numbers; None where the text does not say them."""
    written = _declared(tree, line).get(word, word)
    inside = _DIM3.fullmatch(written) if written.startswith(("dim3", "(", "{")) else None
    values = [_value(part, tree, line) for part in (inside[1].split(",") if inside else [written])]
    return tuple(value for value in values if value is not None) if None not in values else None


def _value(word: str, tree: Tree, line: int, depth: int = 8) -> int | None:
    """An integer of constants; None where a name in it is none."""
    known = {**tree.macros.bodies, **_declared(tree, line)}

    def of(node: ast.expr) -> int | None:
        match node:
            case ast.Constant(value=int(value)):
                return value
            case ast.Name(id=name) if name in known and depth:
                return _value(known[name], tree, line, depth - 1)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                a, b = of(left), of(right)
                if a is None or b is None or (b == 0 and isinstance(op, ast.FloorDiv | ast.Mod)) or b > _MOST:
                    return None
                if isinstance(op, ast.LShift | ast.RShift) and not 0 <= b < 32:
                    return None
                return _OPERATORS[type(op)](a, b)
        return None

    try:
        found = of(ast.parse(_NUMBER.sub(r"\1", word).replace("/", "//").strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return found if found is not None and 0 <= found < _MOST else None


def _declared(tree: Tree, line: int) -> dict[str, str]:
    """Names that are declared with a value above a line, the last of each: ``const int n = 64;``, ``dim3 grid(4, 2);``.

    A name that is assigned again has no value here.
    """
    found: dict[str, str] = {}
    for node in below(tree.root, "init_declarator", "assignment_expression"):
        name = node.child_by_field_name("declarator") or node.child_by_field_name("left")
        value = node.child_by_field_name("value") or node.child_by_field_name("right")
        if name is not None and value is not None and node.start_point[0] < line:
            if node.type == "assignment_expression":
                found.pop(tree.of(name), None)
            else:
                found[tree.of(name)] = tree.of(value)
    return found
