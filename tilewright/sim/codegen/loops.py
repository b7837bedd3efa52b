"""Loops that wait: for another thread's store, for an m-barrier, or for nothing at all."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from tilewright.dtypes import VOID
from tilewright.ir import (
    Assign,
    Bind,
    Body,
    Branch,
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
    expressions,
    statements,
    walk,
)
from tilewright.isa import bind
from tilewright.sim.codegen.prepare import calls_of
from tilewright.sim.codegen.pure import is_pure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tilewright.ir import Block
    from tilewright.ir.flow import Loop

__all__ = [
    "asks",
    "changed_names",
    "compared_in_graph",
    "is_closed",
    "is_long",
    "is_strong",
    "is_volatile",
    "leaves",
    "parts_from",
    "polled_in_graph",
    "polls",
    "polls_in_graph",
    "reads_nothing",
    "shows_order",
    "spins",
    "takes_number",
]

FEW_TURNS = 4096  # loops of so many turns need no watch


def polls(loop: Stmt) -> bool:
    """Does this loop poll memory until another thread has written there?

    A `while` with a strong access in it, or whose end depends on a load from a fixed place; a `for` that tests an
    m-barrier a number of times.
    """
    if not isinstance(loop, (For, While)):
        return False
    inner = [call for stmt in (loop, *statements(loop.body)) for call in calls_of(stmt)]
    if isinstance(loop, For):
        return any(map(asks, inner)) and any(isinstance(stmt, Break) for stmt in statements(loop.body))
    return any(map(is_strong, inner)) or _read_again(_exits(loop), statements(loop.body))


def polls_in_graph(loop: Loop, blocks: Sequence[Block]) -> bool:
    """Does a loop of a graph branch on memory that it reads in each turn, until another thread writes there?"""
    return _read_again(*_turn_of(loop, blocks))


def polled_in_graph(loop: Loop, blocks: Sequence[Block]) -> Iterator[Stmt]:
    """The statements of such a loop that give variables on which its branches depend."""
    return _giving(*_turn_of(loop, blocks))


def compared_in_graph(blocks: Sequence[Block]) -> Iterator[Stmt]:
    """The statements that give variables on which a predicate depends."""
    stmts = [stmt for block in blocks for stmt in statements(block.body)]
    predicates = (stmt.value for stmt in stmts if isinstance(stmt, (Assign, Bind)) and stmt.var.dtype.kind == "bool")
    return _giving(predicates, stmts)


def _giving(exprs: Iterable[Expr], stmts: Iterable[Stmt]) -> Iterator[Stmt]:
    """The statements that give variables on which expressions depend."""
    values: dict[str, list[Stmt]] = {}
    for stmt in stmts:
        if isinstance(stmt, (Assign, Bind)):
            values.setdefault(stmt.var.name, []).append(stmt)
    todo = list(exprs)
    while todo:
        for node in walk(todo.pop()):
            for stmt in values.pop(node.name, ()) if isinstance(node, Var) else ():
                yield stmt
                todo += expressions(stmt)


def _turn_of(loop: Loop, blocks: Sequence[Block]) -> tuple[list[Expr], list[Stmt]]:
    """The conditions of a loop of a graph, and its statements."""
    inside = [blocks[number] for number in loop.blocks]
    stmts = [stmt for block in inside for stmt in statements(block.body)]
    conds = [block.end.cond for block in inside if isinstance(block.end, Branch)]
    return [*conds, *(stmt.cond for stmt in stmts if isinstance(stmt, If))], stmts


def spins(loop: Loop, blocks: Mapping[int, Block]) -> bool:
    """Does no lane that takes a second turn of a loop of compiled code ever leave it: is there no way out, or none that
    depends on what a turn changes?
    """
    inside = set(loop.blocks)
    if not inside <= blocks.keys():
        return False
    turn = (stmt for n in inside for stmt in statements(blocks[n].body))
    assigned = {stmt.var.name for stmt in turn if isinstance(stmt, (Assign, Bind))}
    exits = [blocks[n].end for n in inside if not set(blocks[n].end.targets) <= inside or not blocks[n].end.targets]
    conds = [end.cond if isinstance(end, Branch) else None for end in exits]
    return all(cond is not None and not _may_change(cond, assigned) for cond in conds)


def _may_change(cond: Expr, assigned: set[str]) -> bool:
    return any(
        isinstance(part, (Load, Call)) or (isinstance(part, Var) and part.name in assigned) for part in walk(cond)
    )


def reads_nothing(loop: Loop, blocks: Mapping[int, Block]) -> bool:
    """Does no block of a loop touch memory?"""
    each = (expr for n in loop.blocks for stmt in statements(blocks[n].body) for expr in (stmt, *expressions(stmt)))
    return not any(isinstance(part, (Load, Store)) or (isinstance(part, Call) and not is_pure(part)) for part in each)


def _read_again(conds: Iterable[Expr], turn: Iterable[Stmt]) -> bool:
    """Do conditions depend, through variables that a turn assigns, on memory at the same place in each turn?"""
    values: dict[str, list[Expr]] = {}
    for stmt in turn:
        if isinstance(stmt, (Assign, Bind)):
            values.setdefault(stmt.var.name, []).append(stmt.value)
        elif isinstance(stmt, For):
            values.setdefault(stmt.var.name, []).extend((stmt.start, stmt.stop))
    todo, seen = list(conds), set[str]()
    while todo:
        for node in walk(todo.pop()):
            if isinstance(node, Call) and (is_strong(node) or asks(node)):
                return True
            if isinstance(node, Load) and node.buffer.space != "local":
                address = walk((node.buffer, node.indices))
                if not any(isinstance(part, Var) and part.name in values for part in address):
                    return True
            if isinstance(node, Var) and node.name not in seen:
                seen.add(node.name)
                todo += values.get(node.name, ())
    return False


def shows_order(body: Body) -> bool:
    """Do statements access memory in a way that may show which thread came first? m-barriers do not: they count."""
    inner = (call for stmt in statements(body) for call in calls_of(stmt))
    return any(is_strong(call) and not bind(call).form.signals for call in inner)


def is_strong(call: Call) -> bool:
    """Does a call access memory strongly: an atomic, or a load or store with an order?"""
    bound = bind(call)
    return any(bound.word(access.sem) != "weak" for access in bound.form.accesses)


def is_volatile(stmt: Stmt) -> bool:
    """Does a statement access memory by a volatile instruction?"""
    bounds = map(bind, calls_of(stmt))
    return any(one.word(access.sem) == "volatile" for one in bounds for access in one.form.accesses)


def takes_number(stmt: Stmt) -> bool:
    """Does a statement change memory by an atomic that tells what was there?"""
    bounds = map(bind, calls_of(stmt))
    return any(one.form.result != VOID and any(access.rmw for access in one.form.accesses) for one in bounds)


def asks(call: Call) -> bool:
    """Does a call test an m-barrier, and go on whatever the result?"""
    form = bind(call).form
    return form.sync is None and form.signal_of("wait") is not None


def _exits(loop: While) -> Iterator[Expr]:
    """The conditions that end a loop."""
    yield loop.cond
    for stmt in statements(loop.body):
        if isinstance(stmt, If) and any(isinstance(part, Break) for part in statements((*stmt.then, *stmt.orelse))):
            yield stmt.cond


def changed_names(loop: While) -> set[str]:
    """The variables from before the loop that a turn of it may change."""
    inner = tuple(statements(loop.body))
    begun = {stmt.var.name for stmt in inner if isinstance(stmt, (Bind, For))}
    return {stmt.var.name for stmt in inner if isinstance(stmt, Assign)} - begun


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
    """The turns of all loops in some statements; infinite where that is not known."""
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
