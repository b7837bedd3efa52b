"""The pass that makes variables of scalars in registers, ``T.local_scalar``, where only their values are used.

The uniformity of a variable is known: whether a loop on it keeps warps whole, and how small its array is in the
simulator.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright import ir, isa
from tilewright.ir import AllocBuffer, Assign, Bind, Body, Buffer, Expr, Kernel, Load, Region, Stmt, Store, Var

__all__ = ["with_variables"]


def with_variables(kernel: Kernel) -> Kernel:
    """The kernel with a variable for every one-element local buffer whose first store comes before every other use.

    One whose address is taken, which an instruction writes or which a tile call has for a tile stays a buffer.
    """
    every = ir.statements(kernel.body)
    scalars = {stmt.buffer.name for stmt in every if isinstance(stmt, AllocBuffer) and _is_scalar(stmt.buffer)}
    for stmt in every if scalars else ():
        scalars -= _held(stmt)
    mentions = _mentions(kernel.body, scalars) if scalars else {}
    first = {name: store for name in scalars if (store := _first_store(kernel.body, name, mentions)) is not None}
    return replace(kernel, body=_rewritten(kernel.body, first)) if first else kernel


def _is_scalar(buffer: Buffer) -> bool:
    return (
        buffer.space == "local"
        and buffer.shape == (1,)
        and buffer.dtype.lanes == 1
        and buffer.data is None
        and (buffer.layout is None or buffer.layout == ir.row_major((1,)))
    )


def _held(stmt: Stmt) -> set[str]:
    """The buffers of which a statement uses more than the value."""
    found: set[str] = set()
    if isinstance(stmt, ir.TileCallStmt):
        found |= {part.buffer.name for part in stmt.args if isinstance(part, Region)}
    for node in ir.expressions(stmt):
        if isinstance(node, ir.AddressOf):
            found.add(node.buffer.name)
        elif isinstance(node, ir.Call):
            bound = isa.bind(node)
            places = (place for one in bound.given if one.written for place in bound.operands[one.name])
            found |= {place.buffer.name for place in places if isinstance(place, Load)}
    return found


def _mentions(body: Body, scalars: set[str]) -> dict[int, set[str]]:
    """The scalars that each statement, given by its `id`, or one inside it, reads or writes."""
    found: dict[int, set[str]] = {}
    for stmt in body:
        own = {node.buffer.name for node in ir.expressions(stmt) if isinstance(node, Load)} & scalars
        for inner in ir.bodies(stmt):
            found |= _mentions(inner, scalars)
            own |= set().union(*(found[id(each)] for each in inner))
        found[id(stmt)] = own
    return found


def _first_store(body: Body, name: str, mentions: dict[int, set[str]]) -> Store | None:
    """The store that comes before everything else that names the scalar, and whose block holds all of that."""
    stmts = [stmt for stmt in body if name in mentions[id(stmt)]]
    if not stmts:
        return None
    first = stmts[0]
    if isinstance(first, Store):
        is_first = first.place.buffer.name == name and not any(_reads(node, name) for node in ir.walk(first.value))
        return first if is_first else None
    heads = {node.buffer.name for node in ir.expressions(first) if isinstance(node, Load)}
    inner = [part for part in ir.bodies(first) if any(name in mentions[id(stmt)] for stmt in part)]
    alone = len(stmts) == 1 and len(inner) == 1 and name not in heads
    return _first_store(inner[0], name, mentions) if alone else None


def _reads(node: Expr, name: str) -> bool:
    return isinstance(node, Load) and node.buffer.name == name


def _rewritten(body: Body, first: dict[str, Store]) -> Body:
    def value(node: Expr) -> Expr | None:
        return Var(node.buffer.name, node.dtype) if isinstance(node, Load) and node.buffer.name in first else None

    def change(stmt: Stmt) -> Body | None:
        if isinstance(stmt, AllocBuffer) and stmt.buffer.name in first:
            return ()
        if isinstance(stmt, Store) and stmt.place.buffer.name in first:
            var, new = Var(stmt.place.buffer.name, stmt.place.dtype), ir.rewrite(stmt.value, value)
            begins = first[var.name] is stmt
            return (Bind(var, new, at=stmt.at) if begins else Assign(var, new, at=stmt.at),)
        new_stmt = ir.rewrite_values(stmt, value)
        if isinstance(new_stmt, ir.If):
            then, orelse = (ir.map_body(part, change) for part in (new_stmt.then, new_stmt.orelse))
            return (replace(new_stmt, then=then, orelse=orelse),)
        if isinstance(new_stmt, (ir.For, ir.While)):
            return (replace(new_stmt, body=ir.map_body(new_stmt.body, change)),)
        return (new_stmt,)

    return ir.map_body(body, change)
