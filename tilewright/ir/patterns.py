"""Rewrite rules written as they are read: ``Rule("x % c % d", "x % d", when="c % d == 0")``.

In a pattern ``c`` and ``d`` are constants, ``tid laneid warpid`` special registers, and other names stand for any
expression; a name that occurs twice stands for equal expressions. In ``when`` and in the result the constants are
Python numbers. A rule becomes a Python function the first time it is needed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from tilewright.ir import build, guards
from tilewright.ir import expr as nodes
from tilewright.ir.expr import Expr, Number
from tilewright.ir.operators import SYMBOLS
from tilewright.ir.special import SPECIALS, special

if TYPE_CHECKING:
    from tilewright.ir.ranges import RangeFacts

__all__ = ["Function", "Rule"]

Function: TypeAlias = "Callable[[Expr, RangeFacts], Expr | Number | None]"

CONSTANTS = ("c", "d")
REGISTERS = [row.name for row in SPECIALS.values() if row.axis is not None]


@dataclass(frozen=True)
class Rule:
    """``pattern`` becomes ``result`` where ``when`` holds. result may be a function of the node and the facts.

    A function returns None where it does not apply.
    """

    pattern: str
    result: str | Function
    when: str = ""

    @property
    def op(self) -> str:
        """The operator at the root of the pattern."""
        return _root(self.tree)

    @property
    def tree(self) -> ast.expr:
        return ast.parse(self.pattern, mode="eval").body

    @cached_property
    def apply(self) -> Function:
        """The new expression (or number), or None where the rule does not fit."""
        tests = _matcher(self.tree)
        lines = ["def rule(e, facts):", *tests]
        if self.when:
            lines.append(f"    if not ({_python(self.when, _Guard())}): return None")
        result = _python(self.result, _Result()) if isinstance(self.result, str) else "function(e, facts)"
        lines.append(f"    return {result}")
        made: dict[str, Function] = {}
        exec(
            compile("\n".join(lines), f"<rule {self.pattern}>", "exec"), {**_namespace(), "function": self.result}, made
        )
        return made["rule"]


def _root(tree: ast.expr) -> str:
    match tree:
        case ast.BinOp(op=op) | ast.UnaryOp(op=op) | ast.BoolOp(op=op):
            return SYMBOLS[type(op)]
        case ast.Compare():
            return SYMBOLS[type(tree.ops[0])]
        case ast.Call(func=ast.Name()):
            return str(tree.func.id)  # type: ignore[attr-defined]  # a Name
    raise ValueError(f"not a pattern: {ast.unparse(tree)}")


_CLASSES = {
    "cast": ("Cast", ("a",)),
    "select": ("Select", ("cond", "a", "b")),
    "reinterpret": ("Reinterpret", ("a",)),
    "vector": ("Vector", ("parts",)),
}


def _parts(tree: ast.expr) -> tuple[str, list[tuple[str, ast.expr]]]:
    """The node class that a pattern asks for, and the field and pattern of each part."""
    match tree:
        case ast.BinOp():
            return "Binary", [("a", tree.left), ("b", tree.right)]
        case ast.BoolOp():
            return "Binary", [("a", tree.values[0]), ("b", tree.values[1])]
        case ast.Compare():
            return "Binary", [("a", tree.left), ("b", tree.comparators[0])]
        case ast.UnaryOp():
            return "Unary", [("a", tree.operand)]
        case ast.Call(func=ast.Name(id=name), args=args) if name in _CLASSES:
            kind, names = _CLASSES[name]
            return kind, list(zip(names, args, strict=True))
        case ast.Call(args=args):
            return "Binary", list(zip("ab", args, strict=True))
    raise ValueError(f"not a pattern: {ast.unparse(tree)}")


def _matcher(tree: ast.expr) -> list[str]:
    """Lines of Python that return None unless ``e`` matches, and bind the pattern's names."""
    lines: list[str] = []
    bound: set[str] = set()
    todo = [("e", tree, True)]
    while todo:
        path, node, is_root = todo.pop(0)
        if isinstance(node, ast.Constant):
            lines.append(f"    if type({path}) is not Const or {path}.value != {node.value!r}: return None")
        elif isinstance(node, ast.Name):
            lines += _bind(path, node.id, bound)
        else:
            kind, parts = _parts(node)
            if not is_root:  # rules are found by their root
                has_op = f" or {path}.op != {_root(node)!r}" if kind in ("Binary", "Unary") else ""
                lines.append(f"    if type({path}) is not {kind}{has_op}: return None")
            todo += [(f"{path}.{name}", part, False) for name, part in parts]
    return lines


def _bind(path: str, name: str, bound: set[str]) -> list[str]:
    if name in bound:
        return [f"    if not same({path}, {name}): return None"]
    if name in REGISTERS:
        return [f"    if type({path}) is not Special or {path}.name != {name!r}: return None"]
    bound.add(name)
    if name in CONSTANTS:
        return [f"    if type({path}) is not Const: return None", f"    {name} = {path}.value"]
    return [f"    {name} = {path}"]


class _Guard(ast.NodeTransformer):
    """Rewrites a guard, in which every function asks the facts: ``low(x)`` is ``low(facts, x)``."""

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        return ast.Call(node.func, [ast.Name("facts", ast.Load()), *node.args], [])


class _Result(ast.NodeTransformer):
    """Rewrites a result, in which ``and``, ``or`` and ``not`` build nodes, and special registers are themselves."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        return _call("binary", ast.Constant(SYMBOLS[type(node.op)]), *node.values)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return _call("unary", ast.Constant("not"), node.operand) if isinstance(node.op, ast.Not) else node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        asks = isinstance(node.func, ast.Name) and node.func.id in guards.__all__
        self.generic_visit(node)
        return ast.Call(node.func, [ast.Name("facts", ast.Load()), *node.args], []) if asks else node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return _call("special", ast.Constant(node.id)) if node.id in REGISTERS else node


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(args), [])


def _python(text: str, change: ast.NodeTransformer) -> str:
    return ast.unparse(change.visit(ast.parse(text, mode="eval").body))


def _namespace() -> dict[str, object]:
    """What the text of a rule may name."""
    return {
        **vars(nodes),
        **vars(build),
        **{name: getattr(guards, name) for name in guards.__all__},
        "special": special,
        "min": lambda a, b: build.binary("min", a, b),
        "max": lambda a, b: build.binary("max", a, b),
    }
