"""Expressions of any depth: what is nested deeper than a few dozen levels is computed in steps, each bound to a name.

Python, C++ compilers and our own passes go into an expression level by level, and each has an end to that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tilewright.ir import Binary, Call, Expr, Load, is_small, substituted
from tilewright.lang.moments import inside

__all__ = ["in_steps"]

DEEPEST = 40  # levels; Python takes 200 brackets, and a level may need several
LARGEST = 250  # nodes, each counted as often as it stands there: what a helper uses twice doubles
_MAY_FAIL = ("//", "%", "/", "truncdiv", "truncmod")


def in_steps(node: object, bind: Callable[[Expr], Expr], renewed: Callable[[object, object], None]) -> object:
    """``node`` with every part that is too deep bound; ``renewed`` hears of nodes that were built again."""
    if is_small(node, DEEPEST):
        return node
    names: dict[int, Expr] = {}
    extents: dict[int, Extent] = {}
    todo: list[tuple[object, object, bool]] = [(node, None, False)]
    while todo:
        part, choice, complete = todo.pop()
        inner = inside(part, None, False)
        if not complete and id(part) not in extents:
            todo.append((part, choice, True))
            todo += [(child, around if choice is None else choice, False) for child, around, _ in inner]
        elif complete:
            extent = Extent.of(part, [extents[id(child)] for child, _, _ in inner if id(child) in extents])
            may_go_first = choice is None or not extent.may_fail  # even where the choice around it would leave it out
            if extent.is_large and isinstance(part, Expr) and part is not node and may_go_first:
                names[id(part)] = bind(substituted(part, names, renewed))
                extent = Extent(0, 1, extent.may_fail)
            extents[id(part)] = extent
    return substituted(node, names, renewed) if names else node


class Extent(NamedTuple):
    """Of an expression: its levels, its nodes, and whether it may fail where nobody asked for it."""

    levels: int
    nodes: int
    may_fail: bool

    @staticmethod
    def of(part: object, inner: list[Extent]) -> Extent:
        """From those of its parts."""
        fails = isinstance(part, (Load, Call)) or (isinstance(part, Binary) and part.op in _MAY_FAIL)
        return Extent(
            1 + max((each.levels for each in inner), default=0),
            1 + sum(each.nodes for each in inner),
            fails or any(each.may_fail for each in inner),
        )

    @property
    def is_large(self) -> bool:
        """Is it to be computed on its own?"""
        return self.levels > DEEPEST or self.nodes > LARGEST
