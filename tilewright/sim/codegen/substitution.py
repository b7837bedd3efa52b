"""Addresses of compiled code written out: registers that depend on a thread's place alone, put in where they are used;
and vectors that are taken apart and put together again left whole.

Compiled code computes an address in many steps, each a register. Written out as one expression of thread numbers,
parameters and constants it can be taken apart again, into what varies over CTAs and what over threads.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tilewright import ir
from tilewright.ir.walk import is_small
from tilewright.isa import bind
from tilewright.sim.codegen.addressing import with_turns
from tilewright.sim.codegen.values import given_in, is_closed, is_pure, names_in, put_in, read_by

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tilewright.sim.codegen.addressing import Induction

LARGEST = 48  # nodes of an address that is written out
POINTERS = ("shared", "global", "generic", "place")


def written_out(body: ir.Body, parameters: frozenset[str]) -> ir.Body:
    """The statements with addresses written out, without the registers that are then dead."""
    body, inductions = with_turns(body, parameters)
    writer = _Writer(body, parameters, inductions)
    return _moved_from_registers(_without_dead(writer.body(body, {}), frozenset(writer.names)))


class _Writer:
    """names: registers that are assigned once, and are parts of a vector or depend on thread numbers and parameters."""

    def __init__(self, body: ir.Body, parameters: frozenset[str], inductions: Mapping[str, Induction]) -> None:
        self.inductions = inductions
        kept = {name for induction in inductions.values() for name in (induction.start.name, induction.turn.name)}
        self.closed = parameters | kept
        self.given = Counter(stmt.var.name for stmt in given_in(ir.statements(body)))
        self.names = kept | {induction.var.name for induction in inductions.values()}
        self.parts: dict[str, ir.Component] = {}  # by register, the component of a vector that it is

    def body(self, body: ir.Body, values: dict[str, ir.Expr]) -> ir.Body:
        """known: the expressions of such registers that every way to here has assigned; those of the body are added."""
        stmts: list[ir.Stmt] = []
        for stmt in body:
            inside = tuple(nested for side in ir.bodies(stmt) for nested in side)
            if isinstance(stmt, (ir.For, ir.While)):
                self.turned(inside, values)
            inner = [self.body(side, dict(values)) for side in ir.bodies(stmt)]
            new = ir.with_bodies(stmt, inner)
            if any(isinstance(node, (ir.Vector, ir.Load, ir.AddressOf, ir.Call)) for node in ir.expressions(stmt)):
                new = ir.rewrite_values(new, partial(self.changed, values))
            if isinstance(new, (ir.Assign, ir.Bind)):
                self.define(new, values)
            self.turned((stmt, *inside), values)
            stmts.append(new)
        return tuple(stmts)

    def turned(self, body: ir.Body, values: dict[str, ir.Expr]) -> None:
        """Forgets what some statements change: what depends on how often registers have gone on.

        Of a register that goes on itself its first value stays, by its name.
        """
        stmts = ir.statements(body) if self.inductions else []
        turns = {stmt.var.name for stmt in stmts if isinstance(stmt, ir.Assign) and stmt.var.name in self.inductions}
        moved = {self.inductions[turn].var.name: self.inductions[turn] for turn in turns}
        for name, expr in [*values.items()] if turns else ():
            held = moved.get(name)
            if not names_in(ir.walk(expr)) & turns - ({held.turn.name} if held is not None else set()):
                continue
            if held is None:
                del values[name]
            else:
                values[name] = held.after(held.start)

    def changed(self, values: Mapping[str, ir.Expr], node: ir.Expr) -> ir.Expr | None:
        """A node with its address written out, or the vector that it puts together again; None where it is neither."""
        if not isinstance(node, ir.Vector):
            return _in_address(values, node)
        parts = [self.parts.get(part.name) if isinstance(part, ir.Var) else None for part in node.parts]
        whole = parts[0].a if parts[0] is not None else None
        is_whole = (
            isinstance(whole, ir.Var)
            and whole.dtype == node.dtype
            and all(
                part is not None and part.index == k and _name(part.a) == whole.name for k, part in enumerate(parts)
            )
        )
        return whole if is_whole else None

    def define(self, stmt: ir.Assign | ir.Bind, values: dict[str, ir.Expr]) -> None:
        """Adds a register that is assigned once, if what it depends on is known."""
        if (induction := self.inductions.get(stmt.var.name)) is not None:
            values[induction.var.name] = induction.after(values.get(induction.start.name, induction.start))
            return
        value = stmt.value
        once = self.given[stmt.var.name] == 1
        if once and isinstance(value, ir.Component) and isinstance(value.a, ir.Var) and self.given[value.a.name] == 1:
            self.parts[stmt.var.name] = value
            self.names.add(stmt.var.name)
        elif once and stmt.var.dtype.lanes == 1:
            value = put_in(stmt.value, values)
            if is_small(value, LARGEST) and all(is_closed(node, self.closed) for node in ir.walk(value)):
                values[stmt.var.name] = value
                self.names.add(stmt.var.name)


def _moved_from_registers(body: ir.Body) -> ir.Body:
    """The statements, where calls that move registers name those that hold the results of others, and no copies that
    nothing else reads.
    """
    stmts = ir.statements(body)
    reads = Counter(name for stmt in stmts for name in names_in(read_by(stmt)))
    assigned = Counter(stmt.var.name for stmt in given_in(stmts))

    def go(body: ir.Body) -> ir.Body:
        loads: dict[str, ir.Load] = {}
        kept: list[ir.Stmt] = []
        for stmt in body:
            if isinstance(stmt, ir.Evaluate) and isinstance(stmt.value, ir.Call) and _moves(stmt.value):
                used = names_in(ir.walk(stmt.value)) & loads.keys()
                kept = [old for old in kept if not (isinstance(old, ir.Bind) and old.var.name in used)]
                kept.append(replace(stmt, value=put_in(stmt.value, {name: loads[name] for name in used})))
                continue
            if isinstance(stmt, ir.Bind) and reads[stmt.var.name] == assigned[stmt.var.name] == 1:
                if isinstance(stmt.value, ir.Load) and own_register(stmt.value) is not None:
                    loads[stmt.var.name] = stmt.value
            elif inner := ir.bodies(stmt):
                loads.clear()
                stmt = ir.with_bodies(stmt, [go(side) for side in inner])
            buffers = {node.buffer.name for node in ir.expressions(stmt) if isinstance(node, (ir.Load, ir.AddressOf))}
            if not isinstance(stmt, (ir.Bind, ir.Assign)):
                loads = {name: load for name, load in loads.items() if load.buffer.name not in buffers}
            kept.append(stmt)
        return tuple(kept)

    return go(body)


def _moves(call: ir.Call) -> bool:
    """Does a call move the bits of registers to memory?"""
    form = bind(call).form
    return form.meaning.moves and form.meaning.on == "shared" and [access.write for access in form.accesses] == [True]


def own_register(value: ir.Expr) -> str | None:
    """The buffer of a register of compiled code that nothing else shares, if a value is one."""
    if not isinstance(value, ir.Load) or value.buffer.space != "local" or value.buffer.data is not None:
        return None
    return value.buffer.name if all(ir.const_value(index) is not None for index in value.indices) else None


def _name(expr: ir.Expr) -> str | None:
    return expr.name if isinstance(expr, ir.Var) else None


def _in_address(values: Mapping[str, ir.Expr], node: ir.Expr) -> ir.Expr | None:
    """A node with the address that it has written out; None where it has none."""
    if isinstance(node, (ir.Load, ir.AddressOf)) and node.buffer.data is not None:
        data = put_in(node.buffer.data, values)
        return node if data is node.buffer.data else replace(node, buffer=replace(node.buffer, data=data))
    return _in_call(node, values) if isinstance(node, ir.Call) and not is_pure(node) else None


def _in_call(call: ir.Call, values: Mapping[str, ir.Expr]) -> ir.Call:
    bound = bind(call)
    pointers = {id(arg) for row in bound.arguments if row.kind in POINTERS for arg in bound.operands.get(row.name, ())}
    args = tuple(put_in(arg, values) if isinstance(arg, ir.Expr) and id(arg) in pointers else arg for arg in call.args)
    return replace(call, args=args) if any(a is not b for a, b in zip(args, call.args, strict=True)) else call


def _without_dead(body: ir.Body, names: frozenset[str]) -> ir.Body:
    """The statements without the dead registers among ``names``; their instructions are still counted."""
    reads: dict[int, tuple[ir.Stmt, set[str]]] = {}
    while names:
        stmts = ir.statements(body)
        reads |= {id(stmt): (stmt, _read(stmt)) for stmt in stmts if id(stmt) not in reads}
        dead = names.difference(*(reads[id(stmt)][1] for stmt in stmts))
        if not dead:
            break
        body, names = ir.map_body(body, partial(_cleared, dead)), names - dead
    return body


def _read(stmt: ir.Stmt) -> set[str]:
    """The variables that a statement reads, but for one that goes on from what it was."""
    return names_in(read_by(stmt)) - ({stmt.var.name} if isinstance(stmt, ir.Assign) else set())


def _cleared(dead: frozenset[str], stmt: ir.Stmt) -> ir.Body | None:
    if not isinstance(stmt, (ir.Assign, ir.Bind)) or stmt.var.name not in dead:
        return None
    calls = (node for node in ir.walk(stmt.value) if isinstance(node, ir.Call))
    return tuple(ir.Evaluate(call, at=stmt.at) for call in calls)
