"""Expressions of any depth: what is nested deeper than a few dozen levels is computed in steps, each bound to a name.

Python, C++ compilers and our own passes go into an expression level by level, and each has an end to that.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from tilewright.ir import Binary, Call, Expr, Load, parts, substituted, walk
from tilewright.lang.moments import inside

__all__ = ["in_steps"]

DEEPEST = 40  # levels; Python takes 200 brackets, and a level may need several
_MAY_FAIL = ("//", "%", "/", "truncdiv", "truncmod")


def in_steps(node: object, bind: Callable[[Expr], Expr], renewed: Callable[[object, object], None]) -> object:
    """``node`` with every part that is too deep bound; ``renewed`` hears of nodes that were built again."""
    if not isinstance(node, Expr) and not parts(node):
        return node
    if len(list(islice(walk(tuple(parts(node))), DEEPEST))) < DEEPEST:
        return node
    names: dict[int, Expr] = {}
    depths: dict[int, int] = {}
    todo: list[tuple[object, object, bool]] = [(node, None, False)]
    while todo:
        part, choice, complete = todo.pop()
        inner = inside(part, None, False)
        if not complete and id(part) not in depths:
            todo.append((part, choice, True))
            todo += [(child, around if choice is None else choice, False) for child, around, _ in inner]
        elif complete:
            depth = 1 + max((depths.get(id(child), 0) for child, _, _ in inner), default=0)
            if depth > DEEPEST and isinstance(part, Expr) and part is not node and _may_go_first(part, choice):
                names[id(part)] = bind(substituted(part, names, renewed))
                depth = 0
            depths[id(part)] = depth
    return substituted(node, names, renewed) if names else node


def _may_go_first(part: Expr, choice: object) -> bool:
    """May it be computed before the statement, even where the ``choice`` around it would leave it out?"""
    return choice is None or not any(
        isinstance(inner, (Load, Call)) or (isinstance(inner, Binary) and inner.op in _MAY_FAIL) for inner in walk(part)
    )
