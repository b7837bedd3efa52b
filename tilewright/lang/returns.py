"""Early ``return``: kernels have no jumps, so the statements that follow are put under a branch for the threads that
have not returned.

Where one arm of an ``if`` always returns, the rest goes into the other arm. Otherwise, in loops above all, a scalar of
each thread is set when it returns, and its loops end.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TypeVar

from tilewright.ir import Break, as_expr
from tilewright.lang.assignments import assigned
from tilewright.lang.parser import Parser, statement

Placed = TypeVar("Placed", bound=ast.AST)
FLAG = "return"  # the flag's name in the kernel, which no Python name can be


class _Returned(ast.stmt):
    """The thread has returned."""


class _Unless(ast.stmt):
    """``body`` for the threads that have not returned. is_head: it is all of a loop's body."""

    def __init__(self, body: Sequence[ast.stmt], *, is_head: bool = False) -> None:
        super().__init__()
        self.body, self.is_head = list(body), is_head


def without_early_returns(parser: Parser, body: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
    """The statements of a function without ``return`` in front of others. One with a value stays where it is."""
    returns = [part for stmt in body for part in ast.walk(stmt) if isinstance(part, ast.Return)]
    if not returns or any(part.value is not None for part in returns) or returns == [body[-1]]:
        return body
    parted = _sequence(body, marked=False)
    if any(isinstance(part, _Returned) for stmt in parted for part in _walk(stmt)):
        flag = parser.builder.bind("returned", as_expr(False), mutable=True)
        parser.builder.first[flag.name] = as_expr(False)
        parser.env.define(FLAG, flag, "scalar")
    return parted


def _walk(stmt: ast.AST) -> list[ast.AST]:
    inner = [*ast.iter_child_nodes(stmt), *(stmt.body if isinstance(stmt, _Unless) else ())]
    return [stmt, *(part for child in inner for part in _walk(child))]


def _sequence(body: Sequence[ast.stmt], *, marked: bool) -> list[ast.stmt]:
    """Statements, each for the threads that have not returned before it. marked: must a return set the flag?"""
    for number, stmt in enumerate(body):
        if isinstance(stmt, ast.Return):
            return [*body[:number], *([ast.copy_location(_Returned(), stmt)] if marked else ())]
        if _returns(stmt):
            return [*body[:number], *_statement(stmt, body[number + 1 :], marked=marked)]
    return list(body)


def _statement(stmt: ast.stmt, rest: Sequence[ast.stmt], *, marked: bool) -> list[ast.stmt]:
    """A statement that may return, and then what follows it."""
    if isinstance(stmt, ast.If) and (_always(stmt.body) or _always(stmt.orelse)):
        return [_parted(stmt, *(_sequence([*arm, *rest], marked=marked) for arm in (stmt.body, stmt.orelse)))]
    if isinstance(stmt, ast.If):
        parted: ast.stmt = _parted(stmt, *(_sequence(arm, marked=True) for arm in (stmt.body, stmt.orelse)))
    elif isinstance(stmt, ast.While):
        test = ast.BoolOp(ast.And(), [ast.UnaryOp(ast.Not(), ast.Name(FLAG, ast.Load())), stmt.test])
        parted = ast.While(_placed(test, stmt.test), _sequence(stmt.body, marked=True), stmt.orelse)
    elif isinstance(stmt, ast.For):
        head = ast.copy_location(_Unless(_sequence(stmt.body, marked=True), is_head=True), stmt.body[0])
        parted = ast.For(stmt.target, stmt.iter, [head], stmt.orelse)
    else:
        assert isinstance(stmt, ast.With), "these have statements"
        parted = ast.With(stmt.items, _sequence(stmt.body, marked=True))
    tail = _Unless(_sequence(rest, marked=marked))
    return [ast.copy_location(parted, stmt), ast.copy_location(tail, rest[0] if rest else stmt)]


def _parted(stmt: ast.If, body: list[ast.stmt], orelse: list[ast.stmt]) -> ast.If:
    return ast.copy_location(ast.If(stmt.test, body or [ast.copy_location(ast.Pass(), stmt)], orelse), stmt)


def _placed(node: Placed, old: ast.AST) -> Placed:
    """A new node, and the new parts in it, where an old one is."""
    return ast.fix_missing_locations(ast.copy_location(node, old))


def _returns(stmt: ast.stmt) -> bool:
    inside = (ast.If, ast.For, ast.While, ast.With)
    return isinstance(stmt, inside) and any(isinstance(part, ast.Return) for part in ast.walk(stmt))


def _always(body: Sequence[ast.stmt]) -> bool:
    """Does every way through it return?"""
    return any(
        isinstance(stmt, ast.Return) or (isinstance(stmt, ast.If) and _always(stmt.body) and _always(stmt.orelse))
        for stmt in body
    )


@statement(_Returned)
def returned(parser: Parser, node: _Returned) -> None:
    """The flag is set; a loop of run time ends here."""
    assigned(parser, ast.copy_location(ast.Name(FLAG, ast.Store()), node), True)
    if parser.loops and parser.loops[-1][0] == "run":
        parser.builder.emit(Break(at=parser.builder.at))


@statement(_Unless)
def unless(parser: Parser, node: _Unless) -> None:
    """A branch on the flag; a loop of run time, which a return ends, is left instead."""
    in_loop = bool(parser.loops) and parser.loops[-1][0] == "run"
    if not (in_loop and node.is_head):
        has_returned = ast.Name(FLAG, ast.Load())
        if in_loop:
            parser.run([_placed(ast.If(has_returned, [ast.Break()], []), node)])
        elif node.body:
            parser.run([_placed(ast.If(ast.UnaryOp(ast.Not(), has_returned), node.body, []), node)])
            return
    parser.run(node.body)
