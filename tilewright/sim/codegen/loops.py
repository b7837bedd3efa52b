"""Loops that wait: for somebody's store, for an m-barrier, or for nothing at all."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from tilewright.ir import (
    Assign,
    Bind,
    Body,
    Break,
    Call,
    Continue,
    Evaluate,
    Expr,
    For,
    If,
    Load,
    Stmt,
    Store,
    Var,
    While,
    bodies,
    const_value,
    statements,
    walk,
)
from tilewright.isa import bind
from tilewright.sim.codegen.prepare import calls_of

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["asks", "changed_names", "is_closed", "is_long", "is_strong", "leaves", "parts_from", "polls", "shows_order"]

FEW_TURNS = 4096  # loops of so many turns need no watch


def polls(loop: Stmt) -> bool:
    """Does this loop ask memory again and again until somebody else has written there?

    A `while` with a strong access in it, or one that ends when a place says so that stays where it is; a `for`
    that asks an m-barrier so often, and no more.
    """
    if not isinstance(loop, (For, While)):
        return False
    inner = [call for stmt in (loop, *statements(loop.body)) for call in calls_of(stmt)]
    if isinstance(loop, For):
        return any(map(asks, inner)) and any(isinstance(stmt, Break) for stmt in statements(loop.body))
    if any(is_strong(call) for call in inner):
        return True
    changing = changed_names(loop)
    exits = list(_exits(loop))
    deciding = {node.name for cond in exits for node in walk(cond) if isinstance(node, Var)}
    exits += [s.value for s in statements(loop.body) if isinstance(s, (Assign, Bind)) and s.var.name in deciding]
    return any(_asks_memory(cond, changing) for cond in exits)


def shows_order(stmt: If) -> bool:
    """Does a branch ask memory in a way that may tell who came first? m-barriers do not: they count."""
    inner = (call for part in statements((*stmt.then, *stmt.orelse)) for call in calls_of(part))
    return any(is_strong(call) and bind(call).form.signal is None for call in inner)


def is_strong(call: Call) -> bool:
    """Does a call touch memory as others may see it: an atomic, or a load or store with an order?"""
    bound = bind(call)
    return any(bound.form.word(access.sem, bound.mods) != "weak" for access in bound.form.accesses)


def asks(call: Call) -> bool:
    """Does a call ask an m-barrier, and go on whatever the answer?"""
    form = bind(call).form
    return form.sync is None and form.signal is not None and form.signal.kind == "wait"


def _exits(loop: While) -> Iterator[Expr]:
    """The conditions that end a loop."""
    yield loop.cond
    for stmt in statements(loop.body):
        if isinstance(stmt, If) and any(isinstance(part, Break) for part in statements((*stmt.then, *stmt.orelse))):
            yield stmt.cond


def _asks_memory(expr: Expr, changing: set[str]) -> bool:
    for node in walk(expr):
        if isinstance(node, Load) and node.buffer.space != "local":
            names = {part.name for part in walk(node.indices) if isinstance(part, Var)}
            if not names & changing:
                return True
    return False


def changed_names(loop: While) -> set[str]:
    """The variables that a turn of the loop may change."""
    return {stmt.var.name for stmt in statements(loop.body) if isinstance(stmt, (Assign, For))}


def is_closed(loop: While) -> bool:
    """Does a turn depend on nothing but the loop's own variables, and change nothing else?"""
    return not any(isinstance(stmt, (Store, Evaluate)) or calls_of(stmt) for stmt in statements(loop.body))


def leaves(loop: While) -> bool:
    """Does a condition or a `break` end it?"""
    return not const_value(loop.cond) or _breaks(loop.body)


def _breaks(body: Body) -> bool:
    """Does a `break` leave the loop around these statements?"""
    return any(
        isinstance(stmt, Break) or (isinstance(stmt, If) and (_breaks(stmt.then) or _breaks(stmt.orelse)))
        for stmt in body
    )


def parts_from(stmt: Stmt) -> bool:
    """May this statement leave the loop around it, or its turn, in some lanes?"""
    if isinstance(stmt, (Break, Continue)):
        return True
    return isinstance(stmt, If) and any(map(parts_from, (*stmt.then, *stmt.orelse)))


def is_long(loop: For) -> bool:
    """May it take more than `FEW_TURNS` with those of the loops inside of it?"""
    return _turns((loop,)) > FEW_TURNS


def _turns(body: Body) -> float:
    """The turns of all loops in some statements; infinite where nobody knows."""
    return sum(_turns_of(stmt) for stmt in body)


def _turns_of(stmt: Stmt) -> float:
    if isinstance(stmt, While):
        return inf
    inner = sum(map(_turns, bodies(stmt)))
    if not isinstance(stmt, For):
        return inner
    start, stop = const_value(stmt.start), const_value(stmt.stop)
    if start is None or stop is None:
        return inf
    return len(range(int(start), int(stop), stmt.step)) * (1 + inner)
