"""Where threads may wait, and blocks cut there: each wait becomes the end of a block.

Every barrier is a wait. A collective of a warp is one where lanes of that warp can be in different segments. For a
structured body that is found first, and only statements with a wait inside become blocks (`Structured`); for a graph it
follows from where lanes may be apart (`Open`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tilewright import ir
from tilewright.ir.special import LANE
from tilewright.isa import WARPGROUP, WHOLE_WARP, bind
from tilewright.sim.codegen.loops import polls, polls_in_graph, shows, shows_order
from tilewright.sim.codegen.values import calls_of, is_collective

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.codegen.axes import Axes, Divergence

__all__ = ["Open", "Structured", "cut_at_waits", "waits"]


def waits(stmt: ir.Stmt) -> bool | None:
    """Do threads wait at this statement? None: only where the lanes of a warp can come to it one after the other."""
    found: bool | None = False
    for call in calls_of(stmt):
        form, lanes = bind(call).form, bind(call).instruction.lanes
        meets = form.sync is not None and form.sync.scope != "warp"
        if meets or form.meaning.ready is not None or lanes == WARPGROUP:
            return True
        if is_collective(call):
            found = None
    return found


class Structured:
    """The statements at which a structured body is cut, and the branches and loops that become blocks.

    orders: as `cut` has it; "branches" become blocks, and whatever encloses such "accesses".
    """

    def __init__(self, kernel: ir.Kernel, axes: Axes, *, orders: str) -> None:
        self.axes = axes
        self.orders = orders
        self.pauses = orders == "accesses"
        self.cut: set[int] = set()
        self.loops: set[int] = set()  # of those, the loops
        self.lanes_part = self.pauses
        self._waits: dict[int, bool | None] = {}
        before: tuple[bool, int] | None = None
        while before != (now := (self.lanes_part, len(self.loops))):  # these cause further cuts
            before = now
            self._mark(kernel.body, ())

    def __contains__(self, stmt: object) -> bool:
        """Must the kernel be cut at this statement, or inside of it?"""
        return id(stmt) in self.cut

    def _mark(self, body: ir.Body, around: tuple[ir.Stmt, ...]) -> None:
        for stmt in body:
            apart = self._is_cut(stmt, around)
            if apart or (self.pauses and shows_order((stmt,))):
                self.cut |= {*map(id, around)} | ({id(stmt)} if apart else set())
                self.loops |= {id(loop) for loop in (*around, stmt) if isinstance(loop, (ir.For, ir.While))}
                self.lanes_part |= any(self._parts(outer) & LANE for outer in (*around, stmt))
            for inner in ir.bodies(stmt):
                self._mark(inner, (*around, stmt))

    def _parts(self, stmt: ir.Stmt) -> int:
        if isinstance(stmt, ir.If):
            return self.axes.of(stmt.cond)
        return self.axes.divergence(stmt) if isinstance(stmt, (ir.For, ir.While)) else 0

    def _is_cut(self, stmt: ir.Stmt, around: tuple[ir.Stmt, ...]) -> bool:
        if isinstance(stmt, (ir.For, ir.While)):
            return polls(stmt)
        if isinstance(stmt, (ir.Break, ir.Continue)):
            return next(outer for outer in reversed(around) if isinstance(outer, (ir.For, ir.While))) in self
        if isinstance(stmt, ir.If):
            if self.pauses:
                return shows_order((stmt,))
            return bool(self.orders and self._parts(stmt) & ~LANE) and shows_order((*stmt.then, *stmt.orelse))
        if id(stmt) not in self._waits:
            self._waits[id(stmt)] = waits(stmt)
        found = self._waits[id(stmt)]
        return self.lanes_part or any(self._parts(outer) & LANE for outer in around) if found is None else found


class Open:
    """The statements at which a graph is cut. branches: those that lead out of their function.

    orders: as for `Structured`.
    """

    def __init__(self, blocks: Sequence[ir.Block], apart: Divergence, *, orders: str) -> None:
        self.blocks = blocks
        self.apart = apart
        line = apart.flow.line
        self.branches = frozenset(number for number in line if orders and self._shows_order(number))
        self.polling = [loop for loop in apart.flow.loops if polls_in_graph(loop, blocks)]
        self.pauses = orders == "accesses"
        self.lanes_part = self.pauses or bool(self.polling) or any(map(self._part, line))

    def cuts(self, stmt: ir.Stmt, number: int) -> bool:
        """Must this statement of a block end it?"""
        found = waits(stmt)
        return self.lanes_part or bool(self.apart.around.get(number, 0) & LANE) if found is None else found

    def _shows_order(self, number: int) -> bool:
        """Do warps diverge here on the way to accesses that show which came first?"""
        end = self.blocks[number].end
        if not isinstance(end, ir.Branch) or not self.apart.of(end.cond) & ~LANE:
            return False
        ahead = self.apart.flow.between(number)
        inside = (block for k, block in enumerate(self.blocks) if any(side >> k & 1 for side in ahead))
        return any(shows_order(block.body) for block in inside)

    def _part(self, number: int) -> bool:
        """Can lanes of a warp be in different blocks after this one, in batches of their own?"""
        some = any(waits(stmt) is not False for stmt in ir.statements(self.blocks[number].body))
        return number in self.branches or (some and bool(self.apart.around[number] & LANE))

    def yielding(self, blocks: list[ir.Block], ends: Sequence[int]) -> None:
        """Puts a block on each back edge of a polling loop, at which the batch yields.

        ends: the last part of each block before the cut.
        """
        for loop in self.polling:
            for number in loop.blocks:
                block = blocks[ends[number]]
                if loop.head in block.end.targets:
                    ways = {loop.head: len(blocks)}
                    blocks[ends[number]] = ir.Block(block.body, block.end.renumbered(partial(_changed, ways)))
                    blocks.append(ir.Block((), ir.Jump(loop.head, yields="poll", at=block.end.at)))


def _changed(ways: dict[int, int], number: int) -> int:
    return ways.get(number, number)


def cut_at_waits(
    blocks: Sequence[ir.Block], cuts: Callable[[ir.Stmt, int], bool], where: Structured | Open
) -> tuple[list[ir.Block], list[int]]:
    """The blocks cut at every wait, and of each of them its last part.

    where: do the lanes of a warp reconverge before they ask together; may others overtake a thread at strong accesses?
    """
    cutter = _Cutter(len(blocks), where)
    ends = [cutter.block(number, block, cuts) for number, block in enumerate(blocks)]
    return list(cutter.graph().blocks), ends


class _Cutter(ir.Blocks):
    def __init__(self, known: int, where: Structured | Open) -> None:
        super().__init__(known)
        self.where = where

    def block(self, number: int, block: ir.Block, cuts: Callable[[ir.Stmt, int], bool]) -> int:
        """Cuts a block; the number of its last part."""
        self.open = number
        last = number
        for stmt in block.body:
            if self.where.pauses and shows_order((stmt,)):
                last = self.pause(stmt.at)
            if cuts(stmt, number):
                last = self.meet(stmt)
            else:
                self.statements.append(stmt)
        if self.where.pauses and any(isinstance(node, ir.Call) and shows(node) for node in block.end.reads):
            last = self.pause(block.end.at)
        self.end(block.end)
        return last

    def pause(self, at: Span | None) -> int:
        """Others may run here; the number of the block that follows."""
        after = self.new()
        self.end(ir.Jump(after, "pause", at=at), after)
        return after

    def meet(self, stmt: ir.Stmt) -> int:
        """The call waits; what is left of the statement, if anything, begins the block whose number is returned."""
        call = next(call for call in calls_of(stmt) if is_collective(call) or bind(call).form.meaning.ready is not None)
        bound, after = bind(call), self.new()
        sync = bound.form.sync
        asks = bound.form.meaning.ready is not None or (sync is not None and sync.scope == "poll")
        if not asks or (bound.instruction.lanes == WHOLE_WARP and self.where.lanes_part):
            gathered = self.new() if asks else after
            self.end(ir.Meet(call, gathered, at=stmt.at), gathered)
        if asks:
            again = self.new()
            self.end(ir.Jump(again, at=stmt.at), again)
            self.end(ir.Ask(call, after, again, at=stmt.at), after)
        if not (isinstance(stmt, ir.Evaluate) and sync):
            self.statements.append(stmt)
        return after
