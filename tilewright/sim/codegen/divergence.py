"""Over what the values of a graph vary, and where lanes that have parted wait for each other.

Lanes that part at a branch are apart until its ways join. What they assign meanwhile is blended into the variable where
lanes that went the other way still need its value; else it is simply the value, and varies as that does. So a counter
stays uniform though some lanes leave the loop early, or have ended before.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from tilewright.ir import Assign, Bind, Body, If, Stmt, statements
from tilewright.sim.codegen.axes import UNIFORM, Axes
from tilewright.sim.codegen.live import Liveness
from tilewright.sim.codegen.pieces import may_wait
from tilewright.sim.codegen.segments import Branch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilewright.ir.flow import Flow
    from tilewright.sim.codegen.pieces import Piece

__all__ = ["Divergence"]


class Divergence(Axes):
    """The axes of every variable of a graph. around: for each piece the axes over which its lanes may be apart from
    others of their batch. blended: the ``id`` of each assignment whose variable other lanes still need.
    """

    def __init__(self, pieces: Sequence[Piece], flow: Flow, live: Liveness) -> None:
        self.variables: dict[str, int] = {}
        self.flow = flow
        self.pieces = pieces
        self.blended: set[int] = set()
        self._conditions: list[int] = []
        self.branches = [number for number in flow.line if len(set(pieces[number].successors())) > 1]
        self._sides = {number: flow.between(number) for number in self.branches}
        self._waiting = reduce(or_, (1 << k for k in flow.line if may_wait(pieces[k])), 0)
        self._passed = {number: self._passed_by(number) for number in flow.line}
        self._live = live
        before: dict[str, int] | None = None
        while before != self.variables:
            before = dict(self.variables)
            self.around = {number: self._around(number) for number in flow.line}
            for number in flow.line:
                self._piece(number)

    def _passed_by(self, number: int) -> int:
        """The pieces at which nobody can stand that needs what was there before this piece was passed, as bits."""
        around = self.flow.around[number]
        if any(may_wait(self.pieces[block]) for loop in around[:1] for block in loop.blocks()):
            return 0
        return reduce(
            or_,
            (
                1 << k
                for k in self.flow.line
                if k != number and self.flow.around[k][: len(around)] == around and self.flow.dominates(number, k)
            ),
            0,
        )

    def _parting(self, number: int) -> int:
        """The axes over which lanes part at the end of a piece."""
        end = self.pieces[number].end
        return self.of(end.cond) if isinstance(end, Branch) else UNIFORM

    def _around(self, number: int) -> int:
        """Those who took a way on which nobody waits until it ends are no concern of the others."""
        bit, found = 1 << number, UNIFORM
        for branch, sides in self._sides.items():
            others = [b for a, b in (sides, sides[::-1]) if a & bit]
            if others and (self.flow.joins[branch] >= 0 or any(other & self._waiting for other in others)):
                found |= self._parting(branch)
        return found

    def _needed_by(self, number: int) -> list[tuple[int, int]]:
        """For each branch that lanes in a piece have taken: over what they part there, and where the others may be."""
        bit, found = 1 << number, []
        for branch, sides in self._sides.items():
            axes = self._parting(branch)
            others = [b for a, b in (sides, sides[::-1]) if a & bit]
            if axes and others:
                join = self.flow.joins[branch]
                found.append((axes, reduce(or_, others, 1 << join if join >= 0 else 0) & ~bit))
        return found

    def _piece(self, number: int) -> None:
        apart = self._needed_by(number)
        passed = self._passed[number]
        for stmt in self.pieces[number].body:
            if isinstance(stmt, (Bind, Assign)):
                needed = self._live.where(stmt.var.name) & ~passed
                axes = reduce(or_, (axes for axes, there in apart if there & needed), UNIFORM)
                if axes:
                    self.blended.add(id(stmt))
                self._join(stmt.var, self.of(stmt.value) | axes)
            elif isinstance(stmt, If):
                self._predicated(stmt.then, self.of(stmt.cond), apart)
                self._predicated(stmt.orelse, self.of(stmt.cond), apart)

    def _predicated(self, body: Body, cond: int, apart: list[tuple[int, int]]) -> None:
        around = reduce(or_, (axes for axes, _ in apart), cond)
        for stmt in statements(body):
            if isinstance(stmt, (Bind, Assign)):
                self.blended.add(id(stmt))
                self._join(stmt.var, self.of(stmt.value) | around)
            elif isinstance(stmt, If):
                around |= self.of(stmt.cond)

    def is_blended(self, stmt: Stmt) -> bool:
        """Do lanes elsewhere need what the variable held?"""
        return id(stmt) in self.blended
