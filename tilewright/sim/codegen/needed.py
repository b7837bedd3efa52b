"""Loads of compiled code in the lanes that need them.

Triton reads a scalar in every thread of a program, and stores one in its first thread. Threads that do nothing with
what they read do not race: from an address that is the same for all, only those load that use the value.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import reduce
from typing import TYPE_CHECKING

from tilewright.dtypes import BOOL
from tilewright.ir import (
    Assign,
    Binary,
    Bind,
    Block,
    Call,
    If,
    Load,
    Special,
    Var,
    rewrite,
    statements,
    walk,
)
from tilewright.ir.special import CTA, SPECIALS, UNIFORM
from tilewright.sim.codegen.live import read_by
from tilewright.sim.codegen.pure import is_pure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeAlias

    from tilewright.ir import Expr, Stmt

    Uses: TypeAlias = "dict[str, dict[Expr | str | None, None]]"

__all__ = ["needed"]

LARGEST = 32  # nodes of a condition


def needed(blocks: Sequence[Block], parameters: frozenset[str]) -> list[Block]:
    """The blocks, with each load of a scalar under the conditions under which its value is used."""
    stmts = [stmt for block in blocks for stmt in block.body]
    loads = [stmt for stmt in stmts if isinstance(stmt, Assign) and _is_scalar(stmt.value, parameters)]
    if not loads:
        return list(blocks)
    used = _uses(blocks, _of_threads(stmts))
    guarded: dict[int, Stmt] = {}
    for stmt in loads:
        conditions = _conditions(stmt.var.name, used)
        if conditions:
            cond = reduce(lambda a, b: Binary("or", a, b, BOOL), conditions)
            guarded[id(stmt)] = If(cond, (stmt,), (), at=stmt.at)
    return [Block(tuple(guarded.get(id(stmt), stmt) for stmt in block.body), block.end) for block in blocks]


def _is_scalar(value: Expr, parameters: frozenset[str]) -> bool:
    """Is it a load from global memory, at an address that all threads of a CTA have in common?"""
    loads = [node for node in walk(value) if isinstance(node, Load)]
    if len(loads) != 1 or loads[0].buffer.space != "global" or not _computes(value, beside=loads[0]):
        return False
    for node in walk(loads[0].buffer.data) if loads[0].buffer.data is not None else (loads[0],):
        if isinstance(node, Var) and node.name not in parameters:
            return False
        if isinstance(node, Special) and SPECIALS[node.name].varies not in (UNIFORM, CTA):
            return False
        if isinstance(node, Load) or (isinstance(node, Call) and not is_pure(node)):
            return False
    return True


def _computes(value: Expr, beside: Expr | None = None) -> bool:
    """Is it arithmetic alone, beside one node?"""
    return not any(
        (isinstance(node, Load) and node is not beside) or (isinstance(node, Call) and not is_pure(node))
        for node in walk(value)
    )


def _of_threads(stmts: Sequence[Stmt]) -> dict[str, Expr]:
    """The expressions of registers that are assigned once, and depend on thread numbers alone."""
    given = [stmt for stmt in statements(tuple(stmts)) if isinstance(stmt, (Assign, Bind))]
    counts = Counter(stmt.var.name for stmt in given)
    known: dict[str, Expr] = {}
    for stmt in given:
        value = _put_in(stmt.value, known) if counts[stmt.var.name] == 1 else stmt.var
        if _is_closed(value):
            known[stmt.var.name] = value
    return known


def _is_closed(value: Expr) -> bool:
    nodes = walk(value)
    return len(nodes) <= LARGEST and not any(isinstance(node, Var) for node in nodes) and _computes(value)


def _put_in(value: Expr, known: Mapping[str, Expr]) -> Expr:
    return rewrite(value, lambda node: known.get(node.name) if isinstance(node, Var) else None)


def _uses(blocks: Sequence[Block], known: Mapping[str, Expr]) -> Uses:
    """For what each variable is used: a condition, under it; the name of what it computes; None, for anything else."""
    used: Uses = defaultdict(dict)

    def add(nodes: Sequence[object], use: Expr | str | None) -> None:
        for node in nodes:
            if isinstance(node, Var):
                used[node.name][use] = None

    for block in blocks:
        add(block.end.reads, None)
        for stmt in block.body:
            if isinstance(stmt, Assign) and _computes(stmt.value):
                add(walk(stmt.value), stmt.var.name)
                continue
            cond = _put_in(stmt.cond, known) if isinstance(stmt, If) and not stmt.orelse else None
            add(read_by(stmt), None)
            for inner in statements((stmt,))[1:]:
                add(read_by(inner), cond if cond is not None and _is_closed(cond) else None)
    return used


def _conditions(name: str, used: Uses) -> list[Expr]:
    """The conditions under which a value is used, directly or for others; none where it is used without one."""
    found: dict[Expr, None] = {}
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
