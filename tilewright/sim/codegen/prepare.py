"""What is done to a lowered kernel before it is cut.

Collectives are moved out of the conditions of branches and loops, so that lanes can reconverge before them. Named
pointers and indices are replaced by their expressions: a name for ``address_of(A[4 * tid])`` would hide from the
addressing code what a pointer points into and how it varies. Scalars that an operation holds until it is complete
become buffers in registers, of which the checks see every access.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tilewright import ir
from tilewright.dtypes import BOOL, INT32
from tilewright.isa import bind
from tilewright.sim.codegen.values import calls_of, is_collective, names_in, put_in

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["prepared"]


def prepared(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel with every statement an object of its own, collectives out of the conditions of branches, and names
    of addresses put in where they are used.

    ``if elect(): ...`` becomes ``cond = elect(); if cond: ...``, since lanes may have to reconverge before the call.
    """
    if kernel.compiled:
        return replace(kernel, body=_apart(kernel.body))
    loaded = ir.map_body(kernel.body, _loads_apart)
    return replace(kernel, body=_apart(_in_registers(_inlined(loaded, _definitions(loaded)))))


def _loads_apart(stmt: ir.Stmt) -> ir.Body | None:
    """A named pointer whose address is made of loaded values, with names for these: it can then be put in where it is
    used, and brings what its indices owe.
    """
    if not (isinstance(stmt, ir.Bind) and isinstance(stmt.value, ir.AddressOf) and stmt.value.owed) or stmt.mutable:
        return None
    names: dict[ir.Expr, ir.Var] = {}

    def named(node: ir.Expr) -> ir.Expr | None:
        if not isinstance(node, ir.Load):
            return None
        return names.setdefault(node, ir.Var(f"{stmt.var.name}.{len(names)}", node.dtype))

    value = ir.rewrite(stmt.value, named)
    if not names:
        return None
    loads = (ir.Bind(var, load, mutable=False, at=stmt.at) for load, var in names.items())
    return (*loads, replace(stmt, value=value))


def _definitions(body: ir.Body) -> dict[str, ir.Expr]:
    """Variables that only ever stand for one expression without memory or calls: what each stands for."""
    changed = ir.assigned(body)
    found: dict[str, ir.Expr] = {}
    for stmt in ir.statements(body):
        if isinstance(stmt, ir.Bind) and stmt.var.name not in changed:
            value = put_in(stmt.value, found)
            nodes = ir.walk(value)
            changing = not names_in(nodes).isdisjoint(changed)
            if not changing and not any(isinstance(node, (ir.Load, ir.Call)) for node in nodes):
                found[stmt.var.name] = value
    return found


def _inlined(body: ir.Body, definitions: Mapping[str, ir.Expr]) -> ir.Body:
    """Pointers everywhere, integers in indices only: elsewhere a name saves computing them again."""
    pointers = {name: expr for name, expr in definitions.items() if expr.dtype.kind == "handle"}

    def change(node: ir.Expr) -> ir.Expr | None:
        if isinstance(node, ir.Var):
            return pointers.get(node.name)
        if isinstance(node, (ir.Load, ir.AddressOf)):
            indices, owed = put_in(node.indices, definitions), put_in(node.owed, definitions)
            is_kept = indices is node.indices and owed is node.owed
            return None if is_kept else replace(node, indices=indices, owed=owed)
        return None

    named = ir.map_body(body, lambda stmt: () if isinstance(stmt, ir.Bind) and stmt.var.name in pointers else None)
    return ir.rewrite(named, change)


def _in_registers(body: ir.Body) -> ir.Body:
    """Scalars that change, and that some operation reads while it is under way, as buffers of one element."""
    changed = ir.assigned(body)
    held = {var.name: var for stmt in ir.statements(body) for call in calls_of(stmt) for var in _held_by(call)}
    buffers = {name: ir.Buffer(name, var.dtype, (1,), "local", None) for name, var in held.items() if name in changed}
    if not buffers:
        return body
    places = {name: ir.Load(buffer, (ir.Const(0, INT32),)) for name, buffer in buffers.items()}

    def stored(stmt: ir.Stmt) -> ir.Body | None:
        if isinstance(stmt, (ir.Bind, ir.Assign)) and stmt.var.name in places:
            return (ir.Store(places[stmt.var.name], stmt.value, at=stmt.at),)
        return None

    stores = ir.rewrite(
        ir.map_body(body, stored), lambda node: places.get(node.name) if isinstance(node, ir.Var) else None
    )
    return (*map(ir.AllocBuffer, buffers.values()), *stores)


def _held_by(call: ir.Call) -> list[ir.Var]:
    """The scalars that the operation which a call issues reads until it is complete."""
    bound = bind(call)
    names = bound.form.issue.holds if bound.form.issue is not None else ()
    return [one for name in names for one in bound.operands[name] if isinstance(one, ir.Var)]


def _apart(body: ir.Body) -> ir.Body:
    """Every statement an object of its own, and collectives in front of the branches that depend on them."""
    result: list[ir.Stmt] = []
    for stmt in body:
        if isinstance(stmt, ir.If):
            cond = stmt.cond
            if any(map(is_collective, calls_of(stmt))):
                cond = ir.Var(f"cond.{id(stmt):x}", BOOL)
                result.append(ir.Bind(cond, stmt.cond, mutable=False, at=stmt.at))
            stmt = replace(stmt, cond=cond, then=_apart(stmt.then), orelse=_apart(stmt.orelse))
        elif isinstance(stmt, ir.While) and any(map(is_collective, calls_of(stmt))):
            leave = ir.If(ir.unary("not", stmt.cond), (ir.Break(at=stmt.at),), at=stmt.at)
            stmt = ir.While(ir.Const(True, BOOL), _apart((leave, *stmt.body)), at=stmt.at)
        elif isinstance(stmt, (ir.For, ir.While)):
            stmt = replace(stmt, body=_apart(stmt.body))
        else:
            stmt = replace(stmt)
        result.append(stmt)
    return tuple(result)
