"""Addresses of compiled code written out: registers that depend on a thread's place alone, put in where they are used.

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
from tilewright.sim.codegen.values import code_in, given_in, is_closed, is_pure, names_in, put_in, read_by

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tilewright.ir.flow import Flow

__all__ = ["written_out"]

LARGEST = 48  # nodes of an address that is written out
POINTERS = ("shared", "global", "generic", "place")


def written_out(blocks: Sequence[ir.Block], flow: Flow, parameters: frozenset[str]) -> list[ir.Block]:
    """The blocks with addresses written out, without the registers that are then dead."""
    known = _definitions(blocks, flow, parameters)
    found = list(blocks)
    for number in flow.line:
        body = ir.rewrite(blocks[number].body, partial(_in_address, known[number]))
        found[number] = ir.Block(body, blocks[number].end)
    return _without_dead(found, flow, frozenset().union(*known.values()))


def _definitions(blocks: Sequence[ir.Block], flow: Flow, parameters: frozenset[str]) -> dict[int, dict[str, ir.Expr]]:
    """The expressions of registers that are assigned once and depend on thread numbers and parameters; for each block
    those that every way to its end has assigned.
    """
    given = Counter(stmt.var.name for stmt in given_in(code_in(blocks)))
    known: dict[int, dict[str, ir.Expr]] = {}
    for number in flow.line:
        reached = known[number] = dict(known.get(flow.dominators[number], ()))
        for stmt in blocks[number].body:
            if isinstance(stmt, (ir.Assign, ir.Bind)) and given[stmt.var.name] == 1 and stmt.var.dtype.lanes == 1:
                value = put_in(stmt.value, reached)
                if is_small(value, LARGEST) and all(is_closed(node, parameters) for node in ir.walk(value)):
                    reached[stmt.var.name] = value
    return known


def _in_address(known: Mapping[str, ir.Expr], node: ir.Expr) -> ir.Expr | None:
    """A node with the address that it has written out; None where it has none."""
    if isinstance(node, (ir.Load, ir.AddressOf)) and node.buffer.data is not None:
        data = put_in(node.buffer.data, known)
        return node if data is node.buffer.data else replace(node, buffer=replace(node.buffer, data=data))
    return _in_call(node, known) if isinstance(node, ir.Call) and not is_pure(node) else None


def _in_call(call: ir.Call, known: Mapping[str, ir.Expr]) -> ir.Call:
    bound = bind(call)
    pointers = {id(one) for row in bound.arguments if row.kind in POINTERS for one in bound.operands.get(row.name, ())}
    args = tuple(put_in(arg, known) if isinstance(arg, ir.Expr) and id(arg) in pointers else arg for arg in call.args)
    return replace(call, args=args) if any(a is not b for a, b in zip(args, call.args, strict=True)) else call


def _without_dead(blocks: list[ir.Block], flow: Flow, names: frozenset[str]) -> list[ir.Block]:
    """The blocks without the dead registers among ``names``; their instructions are still counted."""
    while names:
        code = [blocks[number] for number in flow.line]
        read = names_in(node for block in code for node in block.end.reads)
        read |= names_in(node for stmt in code_in(code) for node in read_by(stmt))
        dead = names - read
        if not dead:
            break
        blocks, names = [ir.Block(_cleared(block.body, dead), block.end) for block in blocks], names - dead
    return blocks


def _cleared(body: ir.Body, dead: frozenset[str]) -> ir.Body:
    found: list[ir.Stmt] = []
    for stmt in body:
        if isinstance(stmt, (ir.Assign, ir.Bind)) and stmt.var.name in dead:
            calls = [node for node in ir.walk(stmt.value) if isinstance(node, ir.Call)]
            found += [ir.Evaluate(call, at=stmt.at) for call in calls]
        else:
            found.append(stmt)
    return tuple(found)
