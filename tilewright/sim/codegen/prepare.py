"""What is done to a lowered kernel before it is cut.

Collectives are moved out of the conditions of branches and loops, so that lanes can reconverge before them. Named
pointers and indices are replaced by their expressions: a name for ``address_of(A[4 * tid])`` would hide from the
addressing code what a pointer points into and how it varies. Scalars that an operation holds until it is complete
become buffers in registers, of which the checks see every access.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from tilewright.dtypes import BOOL, INT32
from tilewright.ir import (
    AddressOf,
    AllocBuffer,
    Assign,
    Bind,
    Body,
    Break,
    Buffer,
    Call,
    Const,
    Expr,
    For,
    Graph,
    If,
    Kernel,
    Load,
    Stmt,
    Store,
    Var,
    While,
    assigned,
    expressions,
    map_body,
    rewrite,
    statements,
    unary,
    walk,
)
from tilewright.isa import ANY_LANES, bind

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["calls_of", "is_collective", "prepared"]

Node = TypeVar("Node")  # an expression, or a tuple of them


def calls_of(stmt: Stmt) -> list[Call]:
    """The calls in a statement's own expressions."""
    return [expr for expr in expressions(stmt) if isinstance(expr, Call)]


def is_collective(call: Call) -> bool:
    """Does this call concern several lanes together?"""
    bound = bind(call)
    return bound.form.sync is not None or bound.instruction.lanes != ANY_LANES


def prepared(kernel: Kernel) -> Kernel:
    """The kernel with every statement an object of its own, collectives out of the conditions of branches, and names
    of addresses put in where they are used.

    ``if elect(): ...`` becomes ``cond = elect(); if cond: ...``, since lanes may have to reconverge before the call.
    """
    loaded = map_body(kernel.body, _loads_apart)
    body = _apart(_in_registers(_inlined(loaded, _definitions(loaded))))
    blocks = kernel.graph.blocks if kernel.graph is not None else ()
    graph = Graph(tuple(replace(block, body=_apart(block.body)) for block in blocks)) if blocks else None
    return replace(kernel, body=body, graph=graph)


def _loads_apart(stmt: Stmt) -> Body | None:
    """A named pointer whose address is made of loaded values, with names for these: it can then be put in where it is
    used, and brings what its indices owe.
    """
    if not (isinstance(stmt, Bind) and isinstance(stmt.value, AddressOf) and stmt.value.owed) or stmt.mutable:
        return None
    names: dict[Expr, Var] = {}

    def named(node: Expr) -> Expr | None:
        if not isinstance(node, Load):
            return None
        return names.setdefault(node, Var(f"{stmt.var.name}.{len(names)}", node.dtype))

    value = rewrite(stmt.value, named)
    if not names:
        return None
    loads = (Bind(var, load, mutable=False, at=stmt.at) for load, var in names.items())
    return (*loads, replace(stmt, value=value))


def _definitions(body: Body) -> dict[str, Expr]:
    """Variables that only ever stand for one expression without memory or calls: what each stands for."""
    changed = assigned(body)
    found: dict[str, Expr] = {}
    for stmt in statements(body):
        if isinstance(stmt, Bind) and stmt.var.name not in changed:
            value = _put_in(stmt.value, found)
            nodes = walk(value)
            changing = any(isinstance(node, Var) and node.name in changed for node in nodes)
            if not changing and not any(isinstance(node, (Load, Call)) for node in nodes):
                found[stmt.var.name] = value
    return found


def _put_in(node: Node, definitions: Mapping[str, Expr]) -> Node:
    if not any(isinstance(part, Var) and part.name in definitions for part in walk(node)):
        return node
    return rewrite(node, lambda node: definitions.get(node.name) if isinstance(node, Var) else None)


def _inlined(body: Body, definitions: Mapping[str, Expr]) -> Body:
    """Pointers everywhere, integers in indices only: elsewhere a name saves computing them again."""
    pointers = {name: expr for name, expr in definitions.items() if expr.dtype.kind == "handle"}

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Var):
            return pointers.get(node.name)
        if isinstance(node, (Load, AddressOf)):
            indices, owed = _put_in(node.indices, definitions), _put_in(node.owed, definitions)
            is_kept = indices is node.indices and owed is node.owed
            return None if is_kept else replace(node, indices=indices, owed=owed)
        return None

    named = map_body(body, lambda stmt: () if isinstance(stmt, Bind) and stmt.var.name in pointers else None)
    return rewrite(named, change)


def _in_registers(body: Body) -> Body:
    """Scalars that change, and that some operation reads while it is under way, as buffers of one element."""
    changed = assigned(body)
    held = {var.name: var for stmt in statements(body) for call in calls_of(stmt) for var in _held_by(call)}
    buffers = {name: Buffer(name, var.dtype, (1,), "local", None) for name, var in held.items() if name in changed}
    if not buffers:
        return body
    places = {name: Load(buffer, (Const(0, INT32),)) for name, buffer in buffers.items()}

    def stored(stmt: Stmt) -> Body | None:
        if isinstance(stmt, (Bind, Assign)) and stmt.var.name in places:
            return (Store(places[stmt.var.name], stmt.value, at=stmt.at),)
        return None

    stores = rewrite(map_body(body, stored), lambda node: places.get(node.name) if isinstance(node, Var) else None)
    return (*map(AllocBuffer, buffers.values()), *stores)


def _held_by(call: Call) -> list[Var]:
    """The scalars that the operation which a call issues reads until it is complete."""
    bound = bind(call)
    names = bound.form.issue.holds if bound.form.issue is not None else ()
    return [one for name in names for one in bound.operands[name] if isinstance(one, Var)]


def _apart(body: Body) -> Body:
    """Every statement an object of its own, and collectives in front of the branches that depend on them."""
    result: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, If):
            cond = stmt.cond
            if any(map(is_collective, calls_of(stmt))):
                cond = Var(f"cond.{id(stmt):x}", BOOL)
                result.append(Bind(cond, stmt.cond, mutable=False, at=stmt.at))
            stmt = replace(stmt, cond=cond, then=_apart(stmt.then), orelse=_apart(stmt.orelse))
        elif isinstance(stmt, While) and any(map(is_collective, calls_of(stmt))):
            leave = If(unary("not", stmt.cond), (Break(at=stmt.at),), at=stmt.at)
            stmt = While(Const(True, BOOL), _apart((leave, *stmt.body)), at=stmt.at)
        elif isinstance(stmt, (For, While)):
            stmt = replace(stmt, body=_apart(stmt.body))
        else:
            stmt = replace(stmt)
        result.append(stmt)
    return tuple(result)
