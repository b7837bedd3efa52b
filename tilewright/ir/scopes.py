"""Registers, which are declared nowhere, bound where their values live.

A compiler's registers are names for a whole function; most hold a value for a few statements. Bound there, a register
varies only as its value does, and as the branches do between its binding and what it is given later.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from tilewright.ir.expr import Const, Var
from tilewright.ir.stmt import Assign, Bind, Body, For, If, Stmt, While
from tilewright.ir.walk import bodies, expressions, names_in, walk
from tilewright.records import replace

__all__ = ["bound"]

Step: TypeAlias = "tuple[int, int]"  # the number of a statement, and which of its bodies
Path: TypeAlias = "tuple[Step, ...]"


def bound(body: Body, undefined: frozenset[str]) -> Body:
    """The statements with a `Bind` for each register in the innermost body around all that name it.

    Its first assignment is that; where none comes first for sure, a 0 that nothing reads. undefined: the registers that
    may be read before they get a value, which stay as they are.
    """
    homes: dict[str, tuple[Path, int]] = {}
    declared: set[str] = set()
    kinds: dict[str, Var] = {}
    for path, stmt in _each(body, ()):
        declared |= {stmt.var.name} if isinstance(stmt, (Bind, For)) else set()
        for var in _named(stmt):
            kinds[var.name] = var
            homes[var.name] = _common(*homes[var.name], path) if var.name in homes else (path, len(path) - 1)
    assigned = {stmt.var.name for _, stmt in _each(body, ()) if isinstance(stmt, Assign)}
    places: dict[Path, dict[int, list[Var]]] = {}
    for name, (path, depth) in homes.items():
        if name in assigned and name not in undefined and name not in declared:
            places.setdefault(path[:depth], {}).setdefault(path[depth][0], []).append(kinds[name])
    return _bound(body, (), places)


def _each(body: Body, path: Path) -> Iterator[tuple[Path, Stmt]]:
    """Every statement with the way to it; the last step is its own number."""
    for number, stmt in enumerate(body):
        yield (*path, (number, 0)), stmt
        for side, inner in enumerate(bodies(stmt)):
            yield from _each(inner, (*path, (number, side)))


def _named(stmt: Stmt) -> list[Var]:
    given = [stmt.var] if isinstance(stmt, (Assign, Bind, For)) else []
    return given + [part for part in expressions(stmt) if isinstance(part, Var)]


def _common(first: Path, depth: int, path: Path) -> tuple[Path, int]:
    """The first mention of a name, and how deep the body is that has all of its mentions."""
    most = min(depth, len(path) - 1)
    return first, next((k for k in range(most) if first[k] != path[k]), most)


def _bound(body: Body, path: Path, places: dict[Path, dict[int, list[Var]]]) -> Body:
    here = places.get(path, {})
    made: list[Stmt] = []
    for number, stmt in enumerate(body):
        own = here.get(number, [])
        inner = _inside(stmt, (*path, (number, 0)), (*path, (number, 1)), places)
        for var in own:
            if isinstance(inner, Assign) and inner.var == var and var.name not in names_in(walk(inner.value)):
                inner = Bind(var, inner.value, at=inner.at)
            else:
                made.append(Bind(var, Const(0, var.dtype), at=stmt.at))
        made.append(inner)
    return tuple(made)


def _inside(stmt: Stmt, first: Path, second: Path, places: dict[Path, dict[int, list[Var]]]) -> Stmt:
    if isinstance(stmt, If):
        return replace(stmt, then=_bound(stmt.then, first, places), orelse=_bound(stmt.orelse, second, places))
    return replace(stmt, body=_bound(stmt.body, first, places)) if isinstance(stmt, (For, While)) else stmt
