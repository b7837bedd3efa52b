"""Statements as lines of C++: one rule per statement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from tilewright import ir
from tilewright.cuda.emit_call import settled
from tilewright.cuda.emit_expr import expression
from tilewright.cuda.emit_memory import store, view
from tilewright.cuda.emit_types import Cpp, Level, cpp_type
from tilewright.cuda.emit_unit import Scope
from tilewright.ir.ranges import RangeFacts
from tilewright.records import replace

INDENT = "  "


def lines_of(body: ir.Body, scope: Scope) -> list[str]:
    """The lines of a body. Facts from a binding or a condition hold for the statements after or under it."""
    lines: list[str] = []
    for stmt in body:
        scope = replace(scope, at=stmt.at or scope.at)
        lines += _RULES[type(stmt)](stmt, scope)
        if isinstance(stmt, ir.Bind) and not stmt.mutable:
            scope = scope.knowing(partial(RangeFacts.with_binding, var=stmt.var, value=stmt.value))
    return lines


def _block(head: str, body: ir.Body, scope: Scope) -> Iterator[str]:
    yield f"{head} {{"
    for line in lines_of(body, scope):
        yield INDENT + line
    yield "}"


def _comment(stmt: ir.Attr, scope: Scope) -> list[str]:
    return [f"// {line}" for key, text in stmt.settings if key == "comment" for line in str(text).splitlines()]


def _view(stmt: ir.DeclBuffer, scope: Scope) -> list[str]:
    return [view(stmt.buffer, scope)] if stmt.buffer.space != "tmem" and stmt.buffer.data is not None else []


def _bind(stmt: ir.Bind, scope: Scope) -> list[str]:
    kind = cpp_type(stmt.var.dtype)
    const = "" if stmt.mutable else "const " if kind != "void*" else ""
    return [f"{const}{kind} {scope.unit.names.of(stmt.var.name)} = {expression(stmt.value, scope).text};"]


def _assign(stmt: ir.Assign, scope: Scope) -> list[str]:
    return [f"{scope.unit.names.of(stmt.var.name)} = {expression(stmt.value, scope).text};"]


def _store(stmt: ir.Store, scope: Scope) -> list[str]:
    return [store(stmt.place, expression(stmt.value, scope), scope)]


def _evaluate(stmt: ir.Evaluate, scope: Scope) -> list[str]:
    value = expression(stmt.value, scope)
    if isinstance(stmt.value, ir.Call):
        return [f"{value.text};", *settled(stmt.value, scope)]
    return [f"(void){value.at(Level.UNARY)};"]


def _for(stmt: ir.For, scope: Scope) -> list[str]:
    kind, name = cpp_type(stmt.var.dtype), scope.unit.names.of(stmt.var.name)
    start = expression(stmt.start, scope).text
    stop = expression(stmt.stop, scope)
    init = f"{kind} {name} = {start}"
    if not _is_fixed(stmt.stop, stmt.body):
        end = scope.unit.names.fresh(f"{stmt.var.name}_end")
        init, stop = f"{init}, {end} = {stop.text}", Cpp(end)
    step = {1: f"++{name}", -1: f"--{name}"}.get(stmt.step)
    step = step or (f"{name} += {stmt.step}" if stmt.step > 0 else f"{name} -= {-stmt.step}")
    head = f"for ({init}; {name} {'<' if stmt.step > 0 else '>'} {stop.at(Level.SHIFT)}; {step})"
    inner = scope.knowing(lambda facts: facts.with_loop(stmt.var, stmt.start, stmt.stop, stmt.step))
    return [*_pragma(stmt), *_block(head, stmt.body, inner)]


def _pragma(loop: ir.For) -> list[str]:
    """The pragma that unrolls the loop as the kernel asks, or because its index selects registers."""
    asked = dict(loop.annotations).get("unroll", loop.kind != "serial" or _indexes_registers(loop) or None)
    if asked is None:
        return []
    return ["#pragma unroll" if asked is True else f"#pragma unroll {asked or 1}"]


def _if(stmt: ir.If, scope: Scope) -> list[str]:
    known = scope.knowing(lambda facts: facts.with_condition(stmt.cond))
    lines = list(_block(f"if ({expression(stmt.cond, scope).text})", stmt.then, known))
    if not stmt.orelse:
        return lines
    if len(stmt.orelse) == 1 and isinstance(stmt.orelse[0], ir.If):
        first, *rest = lines_of(stmt.orelse, scope)
        return [*lines[:-1], f"}} else {first}", *rest]
    return [*lines[:-1], *_block("} else", stmt.orelse, scope)]


def _is_fixed(stop: ir.Expr, body: ir.Body) -> bool:
    """Does the end of a range keep its value while the body runs? Python evaluates it once."""
    assigned = ir.assigned(body)
    plain = (ir.Const, ir.Var, ir.Special, ir.Binary, ir.Unary, ir.Cast)
    return all(isinstance(node, plain) and getattr(node, "name", "") not in assigned for node in ir.walk(stop))


def _indexes_registers(loop: ir.For) -> bool:
    """Does an index of a local array depend on the loop? Registers have no addresses: then it must unroll."""
    varying = {loop.var.name}
    for stmt in ir.statements(loop.body):
        if (isinstance(stmt, (ir.Bind, ir.Assign)) and _mentions(stmt.value, varying)) or (
            isinstance(stmt, ir.For) and (_mentions(stmt.start, varying) or _mentions(stmt.stop, varying))
        ):
            varying.add(stmt.var.name)
        for node in ir.expressions(stmt):
            if (
                isinstance(node, (ir.Load, ir.AddressOf))
                and node.buffer.space == "local"
                and _mentions(node.indices, varying)
            ):
                return True
    return False


def _mentions(node: object, names: set[str]) -> bool:
    return not names.isdisjoint(ir.names_in(node))


_RULES: dict[type, Callable[..., Iterable[str]]] = {
    ir.AllocBuffer: lambda stmt, scope: [],  # storage is declared at the kernel's top
    ir.Assume: lambda stmt, scope: [],  # the call has checked it
    ir.Attr: _comment,
    ir.DeclBuffer: _view,
    ir.Bind: _bind,
    ir.Assign: _assign,
    ir.Store: _store,
    ir.Evaluate: _evaluate,
    ir.For: _for,
    ir.While: lambda stmt, scope: _block(f"while ({expression(stmt.cond, scope).text})", stmt.body, scope),
    ir.If: _if,
    ir.Break: lambda stmt, scope: ["break;"],
    ir.Continue: lambda stmt, scope: ["continue;"],
}
