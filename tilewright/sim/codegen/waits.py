"""Where threads may wait, and blocks cut there: each wait becomes the end of a block.

Every barrier is a wait. A collective of a warp is one where lanes of that warp can be in different segments. That is
found first, and only statements with a wait inside become blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tilewright import ir
from tilewright.ir.launch import LANE
from tilewright.isa import WARPGROUP, WHOLE_WARP, bind
from tilewright.sim.codegen.loops import polls, shows, shows_order
from tilewright.sim.codegen.values import calls_of, is_collective

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.codegen.axes import Axes


def waits(stmt: ir.Stmt) -> bool | None:
    """Do threads wait at this statement? None: only where the lanes of a warp can come to it one after the other."""
    answer: bool | None = False
    for call in calls_of(stmt):
        form, lanes = bind(call).form, bind(call).instruction.lanes
        meets = form.sync is not None and form.sync.scope != "warp"
        if meets or form.meaning.ready is not None or lanes == WARPGROUP:
            return True
        if is_collective(call):
            answer = None
    return answer


class Structured:
    """The statements at which a structured body is cut, and the branches and loops that become blocks.

    orders: as `cut` has it; "branches" become blocks, and whatever encloses such "accesses".
    """

    def __init__(self, kernel: ir.Kernel, axes: Axes, *, orders: str) -> None:
        self.axes = axes
        self.compiled = kernel.compiled
        self.orders = orders
        self.pauses = orders == "accesses"
        self.cut: set[int] = set()
        self.lanes_part = self.pauses
        self._waits: dict[int, bool | None] = {}
        before: tuple[bool, int] | None = None
        while before != (now := (self.lanes_part, len(self.cut))):  # these cause further cuts
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
                self.lanes_part |= any(self._parts(outer) & LANE for outer in (*around, stmt))
            for inner in ir.bodies(stmt):
                self._mark(inner, (*around, stmt))

    def _parts(self, stmt: ir.Stmt) -> int:
        if isinstance(stmt, ir.If):
            others_end = id(stmt) in self.axes.ending and (stmt not in self or not stmt.orelse)
            return 0 if others_end else self.axes.of(stmt.cond)
        return self.axes.divergence(stmt) if isinstance(stmt, (ir.For, ir.While)) else 0

    def _is_cut(self, stmt: ir.Stmt, around: tuple[ir.Stmt, ...]) -> bool:
        if isinstance(stmt, (ir.For, ir.While)):
            return polls(stmt, compiled=self.compiled)
        if isinstance(stmt, (ir.Break, ir.Continue)):
            return next(outer for outer in reversed(around) if isinstance(outer, (ir.For, ir.While))) in self
        if isinstance(stmt, ir.If):
            if self.pauses:
                return shows_order((stmt,))
            return bool(self.orders and self._parts(stmt) & ~LANE) and shows_order((*stmt.then, *stmt.orelse))
        if id(stmt) not in self._waits:
            self._waits[id(stmt)] = waits(stmt)
        waiting = self._waits[id(stmt)]
        return self.lanes_part or any(self._parts(outer) & LANE for outer in around) if waiting is None else waiting


def ends_behind(body: ir.Body) -> Iterator[ir.If]:
    """The branches at the end of a kernel of which one side waits nowhere: its lanes have ended, if others wait."""
    last = body[-1] if body else None
    if not isinstance(last, ir.If):
        return
    for side in (last.then, last.orelse):
        if all(waits(stmt) is False for stmt in ir.statements(side)):
            yield last
            break
    yield from ends_behind(last.then)
    yield from ends_behind(last.orelse)


def cut_at_waits(blocks: Sequence[ir.Block], where: Structured) -> list[ir.Block]:
    """The blocks cut at every wait.

    where: do the lanes of a warp reconverge before they ask together; may others overtake a thread at strong accesses?
    """
    cutter = _Cutter(len(blocks), where)
    for number, block in enumerate(blocks):
        cutter.block(number, block)
    return list(cutter.graph().blocks)


class _Cutter(ir.Blocks):
    def __init__(self, blocks: int, where: Structured) -> None:
        super().__init__(blocks)
        self.where = where

    def block(self, number: int, block: ir.Block) -> None:
        """Cuts a block."""
        self.open = number
        for stmt in block.body:
            if self.where.pauses and shows_order((stmt,)):
                self.pause(stmt.at)
            if stmt in self.where:
                self.meet(stmt)
            else:
                self.statements.append(stmt)
        if self.where.pauses and any(isinstance(node, ir.Call) and shows(node) for node in block.end.reads):
            self.pause(block.end.at)
        self.end(block.end)

    def pause(self, at: Span | None) -> None:
        """Others may run here."""
        after = self.new()
        self.end(ir.Jump(after, "pause", at=at), after)

    def meet(self, stmt: ir.Stmt) -> None:
        """The call waits; what is left of the statement, if anything, begins the next block."""
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
