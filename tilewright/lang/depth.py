"""Expressions of any depth: what is nested deeper than a few dozen levels is computed in steps, each bound to a name.

Python, C++ compilers and our own passes go into an expression level by level, and each has an end to that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tilewright.ir import Binary, Call, Expr, Load, Select, expressions, is_small, parts, substituted, walk
from tilewright.lang.moments import inside

__all__ = ["in_steps"]

DEEPEST = 40  # levels; Python takes 200 brackets, and a level may need several
FEW = 7  # nodes that cannot be nested so deep, however often each is used
DOUBLED = 15  # nodes of a part that is used twice by one expression
LARGEST = 250  # nodes, each counted as often as it stands there: what a helper uses twice doubles
_MAY_FAIL = ("//", "%", "/", "truncdiv", "truncmod")


def in_steps(node: object, bind: Callable[[Expr], Expr], renewed: Callable[[object, object], None]) -> object:
    """``node`` with every part that is too deep bound; ``renewed`` hears of nodes that were built again."""
    found = walk(node) if isinstance(node, (Expr, tuple)) else expressions(node)  # type: ignore[arg-type]  # a Stmt
    if len(found) < FEW or is_small(node, DEEPEST):
        return node
    names: dict[int, Expr] = {}
    extents: dict[int, Extent] = {}
    certain: frozenset[int] | None = None  # computed where it is asked for
    todo: list[tuple[object, object, bool]] = [(node, None, False)]
    while todo:
        part, choice, complete = todo.pop()
        inner = inside(part, None, False)
        if not complete and id(part) not in extents:
            todo.append((part, choice, True))
            todo += [(child, around if choice is None else choice, False) for child, around, _ in inner]
        elif complete:
            extent = Extent.of(part, [(id(child), extents[id(child)]) for child, _, _ in inner if id(child) in extents])
            may_go_first = choice is None or not extent.may_fail  # even where the choice around it would leave it out
            if extent.is_large and not may_go_first:
                certain = _always(node) if certain is None else certain
                may_go_first = id(part) in certain  # it is in both arms
            if extent.is_large and isinstance(part, Expr) and part is not node and may_go_first:
                names[id(part)] = bind(substituted(part, names, renewed))
                extent = Extent(0, 1, extent.may_fail)
            extents[id(part)] = extent
    return substituted(node, names, renewed) if names else node


def _always(node: object) -> frozenset[int]:
    """The ids of what is evaluated whatever the choices in ``node`` are."""
    known: dict[int, frozenset[int]] = {}

    def visit(part: object) -> frozenset[int]:
        found = known.get(id(part))
        if found is None:
            if isinstance(part, Select):
                found = visit(part.cond) | (visit(part.a) & visit(part.b))
            elif isinstance(part, Binary) and part.op in Binary.LOGIC:
                found = visit(part.a)
            else:
                found = frozenset().union(*map(visit, parts(part)))
            found = known[id(part)] = found | {id(part)}
        return found

    return visit(node)


class Extent(NamedTuple):
    """Of an expression: its levels, its nodes, and whether it may fail where nobody asked for it."""

    levels: int
    nodes: int
    may_fail: bool
    twice: bool = False  # a part of some size stands in it twice: the next such step doubles it again

    @staticmethod
    def of(part: object, parts: list[tuple[int, Extent]]) -> Extent:
        """From those of its parts, each with the part's id."""
        inner = [extent for _, extent in parts]
        twice = len(dict(parts)) < len(parts) and any(each.nodes > DOUBLED for each in inner)
        fails = isinstance(part, (Load, Call)) or (isinstance(part, Binary) and part.op in _MAY_FAIL)
        return Extent(
            1 + max((each.levels for each in inner), default=0),
            1 + sum(each.nodes for each in inner),
            fails or any(each.may_fail for each in inner),
            twice,
        )

    @property
    def is_large(self) -> bool:
        """Is it to be computed on its own?"""
        return self.levels > DEEPEST or self.nodes > LARGEST or self.twice
