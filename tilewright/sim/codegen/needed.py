"""Loads of compiled code in the lanes that need them.

Triton reads a scalar in every thread of a program, and stores one in its first thread. Threads that do nothing with
what they read do not race: from an address that is the same for all, only those load that use the value.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import reduce
from typing import TYPE_CHECKING

from tilewright import ir
from tilewright.dtypes import BOOL
from tilewright.ir.special import CTA, SIMULATED, UNIFORM
from tilewright.sim.codegen.values import acts, given_in, is_closed, names_in, put_in, read_by

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeAlias

    Uses: TypeAlias = "dict[str, dict[ir.Expr | str | None, None]]"

__all__ = ["needed"]

LARGEST = 32  # nodes of a condition


def needed(body: ir.Body, parameters: frozenset[str]) -> ir.Body:
    """The statements, with each load of a scalar under the conditions under which its value is used."""
    stmts = ir.statements(body)
    loads = [stmt for stmt in given_in(stmts) if _is_scalar(stmt.value, parameters)]
    if not loads:
        return body
    used, places = _uses(body, _of_threads(stmts))
    guarded: dict[int, ir.Body] = {}
    for stmt in loads:
        conditions = _conditions(stmt.var.name, used)
        if conditions and places.get(id(stmt)) not in conditions:
            cond = reduce(lambda a, b: ir.Binary("or", a, b, BOOL), conditions)
            first = (ir.Bind(stmt.var, ir.Const(0, stmt.var.dtype), at=stmt.at),) if isinstance(stmt, ir.Bind) else ()
            guarded[id(stmt)] = (*first, ir.If(cond, (ir.Assign(stmt.var, stmt.value, at=stmt.at),), (), at=stmt.at))
    return ir.map_body(body, lambda stmt: guarded.get(id(stmt)))


def _is_scalar(value: ir.Expr, parameters: frozenset[str]) -> bool:
    """Is it a load from global memory, at an address that all threads of a CTA have in common?"""
    acting = [node for node in ir.walk(value) if acts(node)]
    if len(acting) != 1 or not isinstance(load := acting[0], ir.Load) or load.buffer.space != "global":
        return False
    return load.buffer.data is not None and all(
        is_closed(node, parameters)
        and not (isinstance(node, ir.Special) and SIMULATED[node.name].varies not in (UNIFORM, CTA))
        for node in ir.walk(load.buffer.data)
    )


def _of_threads(stmts: Sequence[ir.Stmt]) -> dict[str, ir.Expr]:
    """The expressions of registers that are assigned once, and depend on thread numbers alone."""
    given = given_in(stmts)
    counts = Counter(stmt.var.name for stmt in given)
    known: dict[str, ir.Expr] = {}
    for stmt in given:
        value = put_in(stmt.value, known) if counts[stmt.var.name] == 1 else stmt.var
        if _is_condition(value):
            known[stmt.var.name] = value
    return known


def _is_condition(value: ir.Expr) -> bool:
    """Can it be a condition on thread numbers: of few nodes, all of them closed?"""
    nodes = ir.walk(value)
    return len(nodes) <= LARGEST and all(is_closed(node, frozenset()) for node in nodes)


def _uses(body: ir.Body, known: Mapping[str, ir.Expr]) -> tuple[Uses, dict[int, ir.Expr]]:
    """For what each variable is used: a condition, under it; the name of what it computes; None, for anything else.

    And by their ``id`` the conditions of the statements that have one.
    """
    used: Uses = defaultdict(dict)
    places: dict[int, ir.Expr] = {}

    def add(nodes: Sequence[ir.Expr], use: ir.Expr | str | None) -> None:
        for name in names_in(nodes):
            used[name][use] = None

    def go(body: ir.Body, under: ir.Expr | None) -> None:
        for stmt in body:
            if under is not None:
                places[id(stmt)] = under
            if isinstance(stmt, (ir.Assign, ir.Bind)) and under is None and not any(map(acts, ir.walk(stmt.value))):
                add(ir.walk(stmt.value), stmt.var.name)
                continue
            add(read_by(stmt), under)
            cond = put_in(stmt.cond, known) if isinstance(stmt, ir.If) and _is_predicated(stmt) else None
            for inner in ir.bodies(stmt):
                go(inner, cond if cond is not None and _is_condition(cond) else under)

    go(body, None)
    return used, places


def _is_predicated(stmt: ir.If) -> bool:
    """Is it one instruction under a predicate, and no branch?"""
    return not stmt.orelse and all(each.at == stmt.at for each in ir.statements(stmt.then))


def _conditions(name: str, used: Uses) -> list[ir.Expr]:
    """The conditions under which a value is used, directly or for others; none where it is used without one."""
    found: dict[ir.Expr, None] = {}
    todo, seen = [name], {name}
    while todo:
        for use in used.get(todo.pop(), ()):
            if use is None:
                return []
            if not isinstance(use, str):
                found[use] = None
            elif use not in seen:
                seen.add(use)
                todo.append(use)
    return list(found)
