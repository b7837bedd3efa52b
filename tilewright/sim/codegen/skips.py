"""Where threads part on the way to a barrier of all, and what they do once their ways have joined again.

Who comes to that behind the barrier without having come to it has skipped it; who ends before has returned early. What
counts is what others can see: a join may be no more than the kernel's end, or the tests of a flag for `return`.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewright import ir
from tilewright.ir.flow import END
from tilewright.ir.special import LANE, WARP
from tilewright.sim.codegen.values import calls_of, given_in, is_of_all, is_pure, names_in

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.ir.flow import Flow
    from tilewright.sim.codegen.axes import Axes

__all__ = ["Skips", "skips"]


@dataclass(frozen=True, slots=True)
class Skips:
    """Branches and barriers have numbers here. spans: their lines.

    counted: by block, the number of its branch or barrier. around: by the block of a barrier, the branches that it is
    in. behind: by the ``id`` of a statement, the branches that are behind it. Empty where no barrier can be skipped.
    """

    spans: list[Span | None] = field(default_factory=list)
    counted: dict[int, int] = field(default_factory=dict)
    around: dict[int, tuple[int, ...]] = field(default_factory=dict)
    behind: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def number(self, block: int, at: Span | None) -> int:
        """The number of the branch or barrier at the end of a block."""
        if block not in self.counted:
            self.counted[block] = len(self.spans)
            self.spans.append(at)
        return self.counted[block]


def skips(blocks: Sequence[ir.Block], flow: Flow, axes: Axes, *, compiled: bool) -> Skips:
    """The barriers that some warps or lanes may skip, and then go on. compiled: has a compiler made the blocks?"""
    found = Skips()
    barriers = {number: blocks[number].end.at for number in flow.line if _waits_for_all(blocks[number].end)}
    for number in flow.line if barriers else ():
        end = blocks[number].end
        if not isinstance(end, ir.Branch) or not axes.of(end.cond) & (LANE | WARP) or flow.joins[number] == END:
            continue
        sides = flow.between(number)
        inside = [block for block in barriers if any(side >> block & 1 for side in sides)]
        seen, meets = _behind(blocks, flow, number) if inside else ([], False)
        if meets or (seen and not (compiled and _may_be_return(blocks, flow, number, seen))):
            branch = found.number(number, end.at)
            found.around.update({block: (*found.around.get(block, ()), branch) for block in inside})
            found.behind.update({id(stmt): (*found.behind.get(id(stmt), ()), branch) for stmt in seen})
    for block, at in barriers.items() if found.spans else ():
        found.number(block, at)
    return found


def _waits_for_all(end: ir.Ending) -> bool:
    return isinstance(end, ir.Meet) and is_of_all(end.call)


def _behind(blocks: Sequence[ir.Block], flow: Flow, branch: int) -> tuple[list[ir.Stmt], bool]:
    """What others see first of a thread that is behind a branch; may it be that it comes to a barrier of all?"""
    found, meets = list[ir.Stmt](), False
    todo, seen = [flow.joins[branch]], {branch}
    while todo:
        number = todo.pop()
        if number in seen:
            continue
        seen.add(number)
        first = list(_first_seen(blocks[number].body))
        found += first
        meets |= _waits_for_all(blocks[number].end)
        if not any(stmt is own for stmt in first for own in blocks[number].body):
            todo += flow.successors[number]
    return found, meets


def _may_be_return(blocks: Sequence[ir.Block], flow: Flow, branch: int, seen: Sequence[ir.Stmt]) -> bool:
    """May what is behind a branch be what threads do before they return early, as far as compiled code tells?

    Compilers move what a loop does before it returns behind the loop. And of both sides of a branch they make one where
    they end alike: that computes with what the sides have left. Only the source tells these from what threads do that
    have skipped the barrier.
    """
    join = flow.joins[branch]
    if all(join in loop.blocks for loop in flow.around[branch]):
        tail = blocks[join]
        while isinstance(tail.end, ir.Jump):
            tail = ir.Block((*tail.body, *blocks[tail.end.to].body), blocks[tail.end.to].end)
        sides = [blocks[k].body for k in flow.line if any(side >> k & 1 for side in flow.between(branch))]
        given = {stmt.var.name for body in sides for stmt in given_in(ir.statements(body))}
        used = names_in(expr for stmt in tail.body for expr in ir.expressions(stmt))
        if not isinstance(tail.end, ir.Exit) or given.isdisjoint(used):
            return False
    return _says_return(blocks, blocks[branch].end.at, seen)


def _says_return(blocks: Sequence[ir.Block], begin: Span | None, seen: Sequence[ir.Stmt]) -> bool:
    """Is there a `return` in the source from a branch to what is behind it, and on to the kernel's next line that
    computes? Also true where there is no source.
    """
    ends = _lines(begin, seen)
    if begin is None or not ends:
        return True
    every = _lines(begin, [*(stmt for block in blocks for stmt in block.body), *(block.end for block in blocks)])
    last = max(begin.line, *ends)
    last = min((line - 1 for line in every if line > last), default=last)
    between = linecache.getlines(begin.file)[min(begin.line, *ends) - 1 : last]
    return not between or any(re.search(r"\b(return|exit|ret)\b", line) for line in between)


def _lines(begin: Span | None, code: Iterable[ir.Stmt | ir.Ending]) -> set[int]:
    """The lines of some code in the function that a line is in."""
    return {
        each.at.line
        for each in code
        if begin and each.at and (each.at.file, each.at.outer) == (begin.file, begin.outer)
    }


def _first_seen(body: ir.Body) -> Iterator[ir.Stmt]:
    """On each way through a body the first statement that others see."""
    for stmt in body:
        inner = ir.bodies(stmt)
        stored = isinstance(stmt, ir.Store) and stmt.place.buffer.space != "local"
        if stored or any(not is_pure(call) for call in calls_of(stmt)):
            yield stmt
            return
        for each in inner:
            yield from _first_seen(each)
