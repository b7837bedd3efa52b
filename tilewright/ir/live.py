"""Which registers of a graph are live: needed later as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tilewright.ir.expr import Var
from tilewright.ir.stmt import Assign, Bind
from tilewright.ir.walk import expressions, statements, walk

if TYPE_CHECKING:
    from tilewright.ir.graph import Block

__all__ = ["live_before"]


def live_before(blocks: Mapping[int, Block], following: Mapping[int, Sequence[int]]) -> dict[int, set[Var]]:
    """The registers that each block, or one after it, reads before they get a value."""
    summaries = {number: _summary(block) for number, block in blocks.items()}
    live: dict[int, set[Var]] = {number: set() for number in blocks}
    before: dict[int, list[int]] = {number: [] for number in blocks}
    for number in blocks:
        for to in following[number]:
            before[to].append(number)
    todo = set(blocks)
    while todo:
        number = todo.pop()
        read, given = summaries[number]
        now = read.union(*(live[to] - given for to in following[number]))
        if now != live[number]:
            live[number] = now
            todo.update(before[number])
    return live


def _summary(block: Block) -> tuple[set[Var], set[Var]]:
    """The registers that a block reads before it sets them, and those that it sets in all lanes."""
    read: set[Var] = set()
    given: set[Var] = set()
    always = set(map(id, block.body))
    for stmt in statements(block.body):
        if isinstance(stmt, (Assign, Bind)) and id(stmt) in always:
            read |= {each for each in walk(stmt.value) if isinstance(each, Var)} - given
            given.add(stmt.var)
        else:
            read |= {each for each in expressions(stmt) if isinstance(each, Var)} - given
    return read | ({each for each in block.end.reads if isinstance(each, Var)} - given), given
