"""How far a value varies in the simulator: over the CTAs of a batch, the warps of a CTA, the lanes of a warp.

What varies over nothing is a plain Python number and steers Python's own ``if`` and ``for``; the rest are arrays of the
smallest shape that broadcasts to (CTAs, warps, 32).
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from types import MappingProxyType
from typing import TYPE_CHECKING

from tilewright.ir import Assign, Bind, Branch, Call, For, Stmt, stop_of
from tilewright.ir.flow import END
from tilewright.ir.special import ALL, CTA, LANE, UNIFORM, WARP
from tilewright.ir.uniformity import Uniformity
from tilewright.isa import ANY_LANES, bind
from tilewright.sim.codegen.loops import polls_in_graph
from tilewright.sim.codegen.waits import waits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tilewright.ir import Block, Expr
    from tilewright.ir.flow import Flow, Loop
    from tilewright.sim.codegen.live import Liveness

__all__ = ["ALL", "CTA", "LANE", "UNIFORM", "WARP", "Axes", "Divergence"]


class Axes(Uniformity):
    """The axes of every variable of a kernel, those that hold the ends of loops too."""

    undefined: tuple[Stmt, ...] = ()  # that declare a graph's registers, with no known bit
    polled: frozenset[int] = frozenset()  # the ``id`` of each statement of a graph on which it depends whether a loop
    # that polls memory ends; and, below, a predicate; where the kernel has volatile accesses
    compared: frozenset[int] = frozenset()
    decisions: Mapping[int, Expr] = MappingProxyType({})  # see `tilewright.sim.codegen.decisions`

    def _call(self, expr: Call) -> int:
        bound = bind(expr)
        operands = self.of_all(expr for exprs in bound.operands.values() for expr in exprs)
        return operands if bound.instruction.lanes == ANY_LANES and not bound.form.meaning.on else ALL

    def _statement(self, stmt: Stmt) -> None:
        super()._statement(stmt)
        if isinstance(stmt, For):
            self._join(stop_of(stmt), self.of(stmt.stop))

    def is_blended(self, stmt: Stmt) -> bool:
        """Do other lanes need the variable's earlier value, though all lanes that come here assign it?"""
        return False


class Divergence(Axes):
    """The axes of every variable of a graph, and where diverged lanes wait for each other. around: for each block the
    axes over which its lanes may be apart from others of their batch. blended: the ``id`` of each assignment whose
    variable other lanes still need.

    Lanes that diverge at a branch are apart until its ways join. An assignment meanwhile is blended into the variable
    if lanes that went the other way still need its value; else the variable is the new value, and varies as that does.
    So a counter stays uniform though some lanes leave the loop early, or have ended before.
    """

    def __init__(self, blocks: Sequence[Block], flow: Flow, live: Liveness) -> None:
        self.flow = flow
        self.blocks = blocks
        self.blended: set[int] = set()
        self._live = live
        self._waiting = _bits(k for k in flow.line if any(waits(stmt) is not False for stmt in blocks[k].body)) | _bits(
            k for loop in flow.loops if polls_in_graph(loop, blocks) for k in loop.blocks
        )
        self._inside = {loop.head: _bits(loop.blocks) for loop in flow.loops}
        self._lockstep = {number: self._whole(flow.around[number]) for number in flow.line}
        branches = [number for number in flow.line if len(set(blocks[number].end.targets)) > 1]
        self._sides = {number: flow.between(number) for number in branches}
        self._turns = {number: flow.in_a_turn(number) for number in branches}
        self._others: dict[tuple[int, int], int] = {}
        self._settle(self._go_over)

    def _whole(self, around: tuple[Loop, ...]) -> Loop | None:
        """The outermost of these loops in which no thread waits, so that its lanes take their turns together."""
        return next((loop for loop in around if not self._inside[loop.head] & self._waiting), None)

    def _apart_from(self, number: int, branch: int) -> int:
        """The blocks, as bits, of lanes that need a variable's value from before a block, and have diverged from the
        lanes in that block.
        """
        bit, loop, join = 1 << number, self._lockstep[number], self.flow.joins[branch]
        once = not self.flow.around[number]
        if once or loop is None or loop is not self._lockstep[branch]:
            if not any(side & bit for side in self._sides[branch]):
                return 0
            there = self.flow.between(branch, number if once else None)
            found = _of_others(self._sides[branch], there, bit) | (1 << join if join != END else 0)
            return found & self._ahead(number) if once else found
        sides = self._turns[branch]
        found = _of_others(sides, self.flow.in_a_turn(branch, number), bit) & self._ahead(number)
        for inner in self.flow.around[branch]:
            blocks = self._inside[inner.head]
            if blocks & bit:  # lanes that have left the loop wait after it until its last turn
                found |= reduce(or_, sides) & ~blocks
        return found & ~bit

    def _ahead(self, number: int) -> int:
        """The blocks that come after one, and the heads of its loops: no lane is left in earlier blocks."""
        rank = self.flow.rank[number]
        return _bits((*self.flow.line[rank + 1 :], *(loop.head for loop in self.flow.around[number])))

    def _parting(self, number: int) -> int:
        """The axes over which lanes diverge at the end of a block."""
        end = self.blocks[number].end
        return self.of(end.cond) if isinstance(end, Branch) else UNIFORM

    def _around(self, number: int) -> int:
        """The axes over which a block's lanes may be apart; a way without a wait ends before the other lanes go on."""
        bit, found = 1 << number, UNIFORM
        for branch, sides in self._sides.items():
            inside = any(side & bit for side in sides)
            if inside and (self.flow.joins[branch] != END or _of_others(sides, sides, bit) & self._waiting):
                found |= self._parting(branch)
        return found

    def _needed_by(self, number: int) -> list[tuple[int, int]]:
        """For each branch that a block's lanes may have taken: the axes of their divergence, and the others' blocks."""
        found = []
        for branch in self._sides:
            if axes := self._parting(branch):
                key = (number, branch)
                if key not in self._others:
                    self._others[key] = self._apart_from(number, branch)
                if there := self._others[key]:
                    found.append((axes, there))
        return found

    def _go_over(self) -> None:
        self.around = {number: self._around(number) for number in self.flow.line}
        for number in self.flow.line:
            self._apart = self._needed_by(number)
            self._body(self.blocks[number].body)

    def _statement(self, stmt: Stmt) -> None:
        if not isinstance(stmt, (Bind, Assign)):
            super()._statement(stmt)
            return
        needed = self._live.where(stmt.var.name)
        axes = reduce(or_, (axes for axes, there in self._apart if there & needed), UNIFORM)
        if axes := reduce(or_, self._conditions, axes):
            self.blended.add(id(stmt))
        self._join(stmt.var, self.of(stmt.value) | axes)

    def is_blended(self, stmt: Stmt) -> bool:
        """Do other lanes need the variable's earlier value?"""
        return id(stmt) in self.blended


def _bits(blocks: Iterable[int]) -> int:
    return reduce(or_, (1 << block for block in blocks), 0)


def _of_others(sides: Sequence[int], there: Sequence[int], bit: int) -> int:
    """The blocks in ``there`` that lanes reach which took another side than the one with this bit."""
    return reduce(or_, (b for a, b in zip(sides, there[::-1], strict=True) if a & bit), 0)
