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


def needed(blocks: Sequence[ir.Block], parameters: frozenset[str]) -> list[ir.Block]:
    """The blocks, with each load of a scalar under the conditions under which its value is used."""
    stmts = [stmt for block in blocks for stmt in block.body]
    loads = [stmt for stmt in stmts if isinstance(stmt, ir.Assign) and _is_scalar(stmt.value, parameters)]
    if not loads:
        return list(blocks)
    used = _uses(blocks, _of_threads(stmts))
    guarded: dict[int, ir.Stmt] = {}
    for stmt in loads:
        conditions = _conditions(stmt.var.name, used)
        if conditions:
            cond = reduce(lambda a, b: ir.Binary("or", a, b, BOOL), conditions)
            guarded[id(stmt)] = ir.If(cond, (stmt,), (), at=stmt.at)
    return [ir.Block(tuple(guarded.get(id(stmt), stmt) for stmt in block.body), block.end) for block in blocks]


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
    given = given_in(ir.statements(tuple(stmts)))
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


def _uses(blocks: Sequence[ir.Block], known: Mapping[str, ir.Expr]) -> Uses:
    """For what each variable is used: a condition, under it; the name of what it computes; None, for anything else."""
    used: Uses = defaultdict(dict)

    def add(nodes: Sequence[ir.Expr], use: ir.Expr | str | None) -> None:
        for name in names_in(nodes):
            used[name][use] = None

    for block in blocks:
        add(block.end.reads, None)
        for stmt in block.body:
            if isinstance(stmt, ir.Assign) and not any(map(acts, ir.walk(stmt.value))):
                add(ir.walk(stmt.value), stmt.var.name)
                continue
            cond = put_in(stmt.cond, known) if isinstance(stmt, ir.If) and not stmt.orelse else None
            add(read_by(stmt), None)
            for inner in ir.statements((stmt,))[1:]:
                add(read_by(inner), cond if cond is not None and _is_condition(cond) else None)
    return used


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
