"""Loops that wait: for another thread's store, for an m-barrier, or for nothing at all."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from tilewright import ir
from tilewright.dtypes import VOID
from tilewright.isa import bind
from tilewright.sim.codegen.values import acts, calls_of, given_in, names_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = [
    "changed_names",
    "compared",
    "is_closed",
    "is_long",
    "is_volatile",
    "leaves",
    "parts_from",
    "polled",
    "polls",
    "reads_nothing",
    "shows",
    "shows_order",
    "spins",
    "takes_number",
]

FEW_TURNS = 4096  # loops of so many turns need no watch


def polls(loop: ir.Stmt, *, compiled: bool) -> bool:
    """Does this loop poll memory until another thread has written there?

    A `while` with a strong access in it, or whose end depends on a load from a fixed place; a `for` that tests an
    m-barrier a number of times. In compiled code one that branches on memory which it reads in each turn.
    """
    if not isinstance(loop, (ir.For, ir.While)):
        return False
    if compiled:
        return _read_again(*_turn_of(loop))
    inner = [call for stmt in (loop, *ir.statements(loop.body)) for call in calls_of(stmt)]
    if isinstance(loop, ir.For):
        return any(map(asks, inner)) and any(isinstance(stmt, ir.Break) for stmt in ir.statements(loop.body))
    return any(map(is_strong, inner)) or _read_again(_exits(loop), ir.statements(loop.body))


def polled(loop: ir.For | ir.While) -> Iterator[ir.Stmt]:
    """The statements of such a loop that give variables on which its branches depend."""
    return _giving(*_turn_of(loop))


def compared(body: ir.Body) -> Iterator[ir.Stmt]:
    """The statements that give variables on which a predicate depends."""
    stmts = ir.statements(body)
    return _giving((stmt.value for stmt in given_in(stmts) if stmt.var.dtype.kind == "bool"), stmts)


def _turn_of(loop: ir.For | ir.While) -> tuple[list[ir.Expr], list[ir.Stmt]]:
    """The conditions of a loop, and its statements."""
    stmts = ir.statements(loop.body)
    return [stmt.cond for stmt in (loop, *stmts) if isinstance(stmt, (ir.If, ir.While))], stmts


def _giving(exprs: Iterable[ir.Expr], stmts: Sequence[ir.Stmt]) -> Iterator[ir.Stmt]:
    """The statements that give variables on which expressions depend."""
    names = names_in(_dependences(exprs, _values(stmts)))
    return (stmt for stmt in given_in(stmts) if stmt.var.name in names)


def _values(stmts: Iterable[ir.Stmt]) -> dict[str, list[ir.Expr]]:
    """What statements give to each variable."""
    values: dict[str, list[ir.Expr]] = {}
    for stmt in stmts:
        if isinstance(stmt, (ir.Assign, ir.Bind)):
            values.setdefault(stmt.var.name, []).append(stmt.value)
        elif isinstance(stmt, ir.For):
            values.setdefault(stmt.var.name, []).extend((stmt.start, stmt.stop))
    return values


def _dependences(exprs: Iterable[ir.Expr], values: dict[str, list[ir.Expr]]) -> Iterator[ir.Expr]:
    """Every node that expressions depend on, directly or by the values of variables."""
    todo, left = list(exprs), dict(values)
    while todo:
        for node in ir.walk(todo.pop()):
            yield node
            todo += left.pop(node.name, ()) if isinstance(node, ir.Var) else ()


def _read_again(conds: Iterable[ir.Expr], turn: Iterable[ir.Stmt]) -> bool:
    """Do conditions depend, through variables that a turn assigns, on memory at the same place in each turn?"""
    values = _values(turn)
    for node in _dependences(conds, values):
        if isinstance(node, ir.Call) and (is_strong(node) or asks(node)):
            return True
        if isinstance(node, ir.Load) and node.buffer.space != "local":
            address = names_in(ir.walk((node.buffer, node.indices)))
            if address.isdisjoint(values):
                return True
    return False


def spins(loop: ir.While) -> bool:
    """Does no lane that takes a second turn of a loop of compiled code ever leave it: is there no way out, or none that
    depends on what a turn changes?
    """
    assigned = {stmt.var.name for stmt in given_in(ir.statements(loop.body))}
    conds = [loop.cond, *_conditions_of_breaks(loop.body, None)]
    return all(cond is not None and not _may_change(cond, assigned) for cond in conds)


def _conditions_of_breaks(body: ir.Body, cond: ir.Expr | None) -> Iterator[ir.Expr | None]:
    """The condition of the nearest branch around each `break` that leaves the loop around some statements."""
    for stmt in body:
        if isinstance(stmt, ir.Break):
            yield cond
        elif isinstance(stmt, ir.If):
            yield from _conditions_of_breaks((*stmt.then, *stmt.orelse), stmt.cond)


def _may_change(cond: ir.Expr, assigned: set[str]) -> bool:
    return any(
        isinstance(part, (ir.Load, ir.Call)) or (isinstance(part, ir.Var) and part.name in assigned)
        for part in ir.walk(cond)
    )


def reads_nothing(loop: ir.While) -> bool:
    """Does no statement of a loop touch memory?"""
    stmts = ir.statements(loop.body)
    return not any(isinstance(stmt, ir.Store) or any(map(acts, ir.expressions(stmt))) for stmt in stmts)


def shows_order(body: ir.Body) -> bool:
    """Do statements access memory in a way that may show which thread came first? m-barriers do not: they count."""
    return any(shows(call) for stmt in ir.statements(body) for call in calls_of(stmt))


def shows(call: ir.Call) -> bool:
    """The same of a call."""
    return is_strong(call) and not bind(call).form.signals


def is_strong(call: ir.Call) -> bool:
    """Does a call access memory strongly: an atomic, or a load or store with an order?"""
    bound = bind(call)
    return any(bound.word(access.sem) != "weak" for access in bound.form.accesses)


def is_volatile(stmt: ir.Stmt) -> bool:
    """Does a statement access memory by a volatile instruction?"""
    bounds = map(bind, calls_of(stmt))
    return any(one.word(access.sem) == "volatile" for one in bounds for access in one.form.accesses)


def takes_number(stmt: ir.Stmt) -> bool:
    """Does a statement change memory by an atomic that tells what was there?"""
    bounds = map(bind, calls_of(stmt))
    return any(one.form.result != VOID and any(access.rmw for access in one.form.accesses) for one in bounds)


def asks(call: ir.Call) -> bool:
    """Does a call test an m-barrier, and go on whatever the result?"""
    form = bind(call).form
    return form.sync is None and form.signal_of("wait") is not None


def _exits(loop: ir.While) -> Iterator[ir.Expr]:
    """The conditions that end a loop."""
    yield loop.cond
    for stmt in ir.statements(loop.body):
        if isinstance(stmt, ir.If) and any(
            isinstance(part, ir.Break) for part in ir.statements((*stmt.then, *stmt.orelse))
        ):
            yield stmt.cond


def changed_names(loop: ir.While) -> set[str]:
    """The variables from before the loop that a turn of it may change."""
    inner = tuple(ir.statements(loop.body))
    begun = {stmt.var.name for stmt in inner if isinstance(stmt, (ir.Bind, ir.For))}
    return {stmt.var.name for stmt in inner if isinstance(stmt, ir.Assign)} - begun


def is_closed(loop: ir.While) -> bool:
    """Does a turn depend on nothing but the loop's own variables, and change nothing else?"""
    return not any(isinstance(stmt, (ir.Store, ir.Evaluate)) or calls_of(stmt) for stmt in ir.statements(loop.body))


def leaves(loop: ir.While) -> bool:
    """Does a condition or a `break` end it?"""
    return not ir.const_value(loop.cond) or _breaks(loop.body)


def _breaks(body: ir.Body) -> bool:
    """Does a `break` leave the loop around these statements?"""
    return any(
        isinstance(stmt, ir.Break) or (isinstance(stmt, ir.If) and (_breaks(stmt.then) or _breaks(stmt.orelse)))
        for stmt in body
    )


def parts_from(stmt: ir.Stmt) -> bool:
    """May this statement leave the loop around it, or its turn, in some lanes?"""
    if isinstance(stmt, (ir.Break, ir.Continue)):
        return True
    return isinstance(stmt, ir.If) and any(map(parts_from, (*stmt.then, *stmt.orelse)))


def is_long(loop: ir.For) -> bool:
    """May it take more than `FEW_TURNS` with those of the loops inside of it?"""
    return _turns((loop,)) > FEW_TURNS


def _turns(body: ir.Body) -> float:
    """The turns of all loops in some statements; infinite where that is not known."""
    return sum(_turns_of(stmt) for stmt in body)


def _turns_of(stmt: ir.Stmt) -> float:
    if isinstance(stmt, ir.While):
        return inf
    inner = sum(map(_turns, ir.bodies(stmt)))
    if not isinstance(stmt, ir.For):
        return inner
    start, stop = ir.const_value(stmt.start), ir.const_value(stmt.stop)
    if start is None or stop is None:
        return inf
    return len(range(int(start), int(stop), stmt.step)) * (1 + inner)
