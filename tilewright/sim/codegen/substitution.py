"""Addresses of compiled code written out: registers that depend on a thread's place alone, put in where they are used.

Compiled code computes an address in many steps, each a register. Written out as one expression of thread numbers,
parameters and constants it can be taken apart again, into what varies over CTAs and what over threads.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from tilewright.ir import (
    AddressOf,
    Assign,
    Bind,
    Block,
    Body,
    Call,
    Evaluate,
    Expr,
    If,
    Load,
    Stmt,
    Var,
    rewrite,
    rewrite_values,
    statements,
    walk,
)
from tilewright.ir.walk import is_small
from tilewright.isa import bind
from tilewright.sim.codegen.live import read_by
from tilewright.sim.codegen.pure import is_pure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tilewright.ir.flow import Flow

__all__ = ["is_closed", "written_out"]

Node = TypeVar("Node", bound=Expr)

LARGEST = 48  # nodes of an address that is written out
POINTERS = ("shared", "global", "generic", "place")


def written_out(blocks: Sequence[Block], flow: Flow, parameters: frozenset[str]) -> list[Block]:
    """The blocks with addresses written out, without the registers that are then dead."""
    known = _definitions(blocks, flow, parameters)
    found = list(blocks)
    for number in flow.line:
        body = tuple(_in_statement(stmt, known[number]) for stmt in blocks[number].body)
        found[number] = Block(body, blocks[number].end)
    return _without_dead(found, flow, frozenset().union(*known.values()))


def _definitions(blocks: Sequence[Block], flow: Flow, parameters: frozenset[str]) -> dict[int, dict[str, Expr]]:
    """The expressions of registers that are assigned once and depend on thread numbers and parameters; for each block
    those that every way to its end has assigned.
    """
    given = Counter(
        stmt.var.name for block in blocks for stmt in statements(block.body) if isinstance(stmt, (Assign, Bind))
    )
    known: dict[int, dict[str, Expr]] = {}
    for number in flow.line:
        reached = known[number] = dict(known.get(flow.dominators[number], ()))
        for stmt in blocks[number].body:
            if isinstance(stmt, (Assign, Bind)) and given[stmt.var.name] == 1 and stmt.var.dtype.lanes == 1:
                value = _put_in(stmt.value, reached)
                if is_small(value, LARGEST) and all(is_closed(node, parameters) for node in walk(value)):
                    reached[stmt.var.name] = value
    return known


def is_closed(node: Expr, parameters: frozenset[str]) -> bool:
    """Does an expression's node depend on these variables and on thread numbers only?"""
    if isinstance(node, Var):
        return node.name in parameters
    if isinstance(node, Call):
        return is_pure(node)
    return not isinstance(node, Load)


def _put_in(node: Node, known: Mapping[str, Expr]) -> Node:
    return rewrite(node, lambda part: known.get(part.name) if isinstance(part, Var) else None)


def _in_statement(stmt: Stmt, known: Mapping[str, Expr]) -> Stmt:
    """The addresses of a statement, those inside of an `If` too."""

    def change(node: Expr) -> Expr | None:
        if isinstance(node, (Load, AddressOf)) and node.buffer.data is not None:
            data = _put_in(node.buffer.data, known)
            return node if data is node.buffer.data else replace(node, buffer=replace(node.buffer, data=data))
        if isinstance(node, Call) and not is_pure(node):
            return _in_call(node, known)
        return None

    return _own(rewrite_values(stmt, change), known)


def _own(stmt: Stmt, known: Mapping[str, Expr]) -> Stmt:
    if isinstance(stmt, If):
        then, orelse = (tuple(_in_statement(one, known) for one in body) for body in (stmt.then, stmt.orelse))
        return replace(stmt, then=then, orelse=orelse)
    return stmt


def _in_call(call: Call, known: Mapping[str, Expr]) -> Call:
    bound = bind(call)
    pointers = {id(one) for row in bound.arguments if row.kind in POINTERS for one in bound.operands.get(row.name, ())}
    args = tuple(_put_in(arg, known) if isinstance(arg, Expr) and id(arg) in pointers else arg for arg in call.args)
    return replace(call, args=args) if any(a is not b for a, b in zip(args, call.args, strict=True)) else call


def _without_dead(blocks: list[Block], flow: Flow, names: frozenset[str]) -> list[Block]:
    """The blocks without the dead registers among ``names``; their instructions are still counted."""
    while names:
        read: set[str] = set()
        for number in flow.line:
            block = blocks[number]
            read |= {node.name for node in block.end.reads if isinstance(node, Var)}
            read |= {node.name for stmt in statements(block.body) for node in read_by(stmt) if isinstance(node, Var)}
        dead = names - read
        if not dead:
            break
        blocks, names = [Block(_cleared(block.body, dead), block.end) for block in blocks], names - dead
    return blocks


def _cleared(body: Body, dead: frozenset[str]) -> Body:
    found: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, (Assign, Bind)) and stmt.var.name in dead:
            calls = [node for node in walk(stmt.value) if isinstance(node, Call)]
            found += [Evaluate(call, at=stmt.at) for call in calls]
        else:
            found.append(stmt)
    return tuple(found)
