"""Expressions of any depth: what is nested deeper than a few dozen levels is computed in steps, each bound to a name.

Python, C++ compilers and our own passes recurse into an expression, and each has a limit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import NamedTuple, TypeAlias

from tilewright import ir
from tilewright.dtypes import HANDLE, VOID
from tilewright.ir import binary, cast, expressions, is_small, parts, select, substituted, unary, walk
from tilewright.lang.moments import inside

__all__ = ["in_steps"]

DEEPEST = 40  # levels; Python takes 200 brackets, and a level may need several
FEW = 7  # nodes that cannot be nested so deep, however often each is used
DOUBLED = 15  # nodes of a part that is used twice by one expression
LARGEST = 250  # nodes, each counted as often as it occurs: a value that a helper uses twice doubles
MOST_WAYS = 4  # ways to one part, each by conditions of its own
_MAY_FAIL = ("//", "%", "/", "truncdiv", "truncmod")


def in_steps(node: object, bind: Callable[[ir.Expr], ir.Expr], renewed: Callable[[object, object], None]) -> object:
    """``node`` with every part that is too deep bound to a name; ``renewed`` is called with each rebuilt node."""
    found = walk(node) if isinstance(node, (ir.Expr, tuple)) else expressions(node)  # type: ignore[arg-type]  # a Stmt
    if len(found) < FEW or is_small(node, DEEPEST):
        return node
    names: dict[int, ir.Expr] = {}
    extents: dict[int, ExprSize] = {}
    guards: Guards | None = None  # where each part is evaluated, once a part is too deep
    todo: list[tuple[object, object, bool]] = [(node, None, False)]
    while todo:
        part, choice, complete = todo.pop()
        inner = inside(part, None, False)
        if not complete and id(part) not in extents:
            todo.append((part, choice, True))
            todo += [(child, around if choice is None else choice, False) for child, around, _ in inner]
        elif complete:
            extent = ExprSize.of(
                part, [(id(child), extents[id(child)]) for child, _, _ in inner if id(child) in extents]
            )
            if extent.is_large and isinstance(part, ir.Expr) and part is not node and part.dtype != VOID:
                made = substituted(part, names, renewed)
                value: ir.Expr | None = made
                if choice is not None and extent.may_fail:  # a part that only some arm of a choice evaluates
                    guards = Guards(node) if guards is None else guards
                    value = guards.guarded(part, made, lambda cond: bind(substituted(cond, names, renewed)))
                if value is not None:
                    names[id(part)] = bind(value)
                    extent = ExprSize(0, 1, extent.may_fail)
            extents[id(part)] = extent
    return substituted(node, names, renewed) if names else node


Way: TypeAlias = tuple[tuple[int, bool], ...]  # ids of conditions, and whether they hold, the outermost first


class Guards:
    """Under which conditions the parts of a node are evaluated: the ways to each part, None where there are many."""

    def __init__(self, node: object) -> None:
        self._ways: dict[int, list[Way] | None] = {id(node): [()]}
        self._conditions: dict[int, ir.Expr] = {}
        self._holding: dict[Way, ir.Expr] = {}
        for part in reversed(_inner_first(node)):
            mine = self._ways[id(part)]
            for child, condition in _conditional(part):
                old = self._ways.get(id(child), [])
                if condition is not None:
                    self._conditions[id(condition[0])] = condition[0]
                step = () if condition is None else ((id(condition[0]), condition[1]),)
                known = old is not None and mine is not None
                self._ways[id(child)] = _joined([*(old or ()), *(way + step for way in mine or ())]) if known else None

    def guarded(self, part: ir.Expr, value: ir.Expr, bind: Callable[[ir.Expr], ir.Expr]) -> ir.Expr | None:
        """The value of a part where the node evaluates it, 0 elsewhere; None where the conditions are not known."""
        ways = self._ways[id(part)]
        if ways == [()]:
            return value
        if ways is None or part.dtype.lanes > 1 or part.dtype == HANDLE or not all(map(self._may_repeat, ways)):
            return None
        asked = [self._all_hold(way, bind) for way in ways]
        return select(reduce(partial(binary, "or"), asked), value, cast(0, part.dtype))

    def _may_repeat(self, way: Way) -> bool:
        return not any(isinstance(each, ir.Call) for cond, _ in way for each in walk(self._conditions[cond]))

    def _all_hold(self, way: Way, bind: Callable[[ir.Expr], ir.Expr]) -> ir.Expr:
        """The conditions of a way, each bound once, and evaluated only where those before it hold."""
        made: ir.Expr | None = None
        for end, (cond, holds) in enumerate(way, 1):
            if (known := self._holding.get(way[:end])) is None:
                test = self._conditions[cond] if holds else unary("not", self._conditions[cond])
                known = self._holding[way[:end]] = bind(test if made is None else binary("and", made, test))
            made = known
        assert made is not None
        return made


def _inner_first(node: object) -> list[object]:
    """Every part once, after those in it."""
    found: list[object] = []
    seen: set[int] = set()
    todo: list[tuple[object, bool]] = [(node, False)]
    while todo:
        part, complete = todo.pop()
        if complete:
            found.append(part)
        elif id(part) not in seen:
            seen.add(id(part))
            todo.append((part, True))
            todo += [(child, False) for child, _ in _conditional(part)]
    return found


def _conditional(part: object) -> list[tuple[object, tuple[ir.Expr, bool] | None]]:
    """The parts of a part, each with the condition under which it is evaluated."""
    if isinstance(part, ir.Select):
        return [(part.cond, None), (part.a, (part.cond, True)), (part.b, (part.cond, False))]
    if isinstance(part, ir.Binary) and part.op in ir.Binary.LOGIC:
        return [(part.a, None), (part.b, (part.a, part.op == "and"))]
    return [(child, None) for child in parts(part)]


def _joined(ways: list[Way]) -> list[Way] | None:
    """Ways without those that others include; two that differ only in whether a condition holds become one."""
    kept: list[Way] = []
    todo = list(dict.fromkeys(ways))
    while todo:
        way = todo.pop()
        for other in kept:
            one = _one_of(way, other)
            if one is not None:
                kept.remove(other)
                todo.append(one)
                break
        else:
            kept.append(way)
    return kept if len(kept) <= MOST_WAYS else None


def _one_of(a: Way, b: Way) -> Way | None:
    """The way that stands for two: the wider one, or what they share where one condition alone tells them apart."""
    mine, theirs = set(a), set(b)
    if mine <= theirs or theirs <= mine:
        return a if mine <= theirs else b
    apart = mine ^ theirs
    if len(apart) == 2 and len({cond for cond, _ in apart}) == 1:
        return tuple(step for step in a if step in theirs)
    return None


class ExprSize(NamedTuple):
    """The size of an expression: its levels, its nodes, and whether evaluating it where it is not needed may fail."""

    levels: int
    nodes: int
    may_fail: bool
    twice: bool = False  # it contains a large part twice: using it twice again would double that

    @staticmethod
    def of(part: object, parts: list[tuple[int, ExprSize]]) -> ExprSize:
        """The extent of a node, from those of its parts; each comes with the part's id."""
        inner = [extent for _, extent in parts]
        twice = len(dict(parts)) < len(parts) and any(each.nodes > DOUBLED for each in inner)
        fails = isinstance(part, (ir.Load, ir.Call)) or (isinstance(part, ir.Binary) and part.op in _MAY_FAIL)
        return ExprSize(
            1 + max((each.levels for each in inner), default=0),
            1 + sum(each.nodes for each in inner),
            fails or any(each.may_fail for each in inner),
            twice,
        )

    @property
    def is_large(self) -> bool:
        """Is the part so large that it is bound to a name?"""
        return self.levels > DEEPEST or self.nodes > LARGEST or self.twice
