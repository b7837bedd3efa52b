"""Liveness: for each block of a graph the variables that it, or a later block, may read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.ir import Assign, Bind, Body, For, bodies
from tilewright.sim.codegen.values import names_in, read_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tilewright.ir import Block
    from tilewright.ir.flow import Flow

__all__ = ["live_in"]


def live_in(blocks: Sequence[Block], flow: Flow, parameters: frozenset[str]) -> dict[int, frozenset[str]]:
    """By block. A variable that is assigned under a condition keeps its earlier value in other lanes."""
    used, given = {}, {}
    for number in flow.line:
        used[number], given[number] = _summary(blocks[number], parameters)
    live: dict[int, frozenset[str]] = dict.fromkeys(flow.line, frozenset())
    todo = set(flow.line)
    for number in _backwards(flow, todo):
        after = frozenset().union(*(live[k] for k in flow.successors[number]))
        now = used[number] | (after - given[number])
        if now != live[number]:
            live[number] = now
            todo.update(flow.predecessors[number])
    return live


def _backwards(flow: Flow, todo: set[int]) -> Iterable[int]:
    while todo:
        for number in reversed(flow.line):
            if number in todo:
                todo.discard(number)
                yield number


def _summary(block: Block, parameters: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
    """The variables whose earlier values a block reads, and those that it gives values in all of its lanes."""
    used: set[str] = set()
    given: set[str] = set()
    _go(block.body, used, given, sure=True)
    used |= names_in(block.end.reads) - given
    return frozenset(used - parameters), frozenset(given)


def _go(body: Body, used: set[str], given: set[str], *, sure: bool) -> None:
    """Adds the variables that statements read and assign. One that is bound under a condition ends there."""
    for stmt in body:
        used |= names_in(read_by(stmt)) - given
        if isinstance(stmt, Bind) or (isinstance(stmt, Assign) and sure):
            given.add(stmt.var.name)
        elif isinstance(stmt, Assign):
            used |= {stmt.var.name} - given
        for inner in bodies(stmt):
            _go(inner, used, given | ({stmt.var.name} if isinstance(stmt, For) else set()), sure=False)
