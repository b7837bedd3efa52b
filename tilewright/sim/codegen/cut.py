"""Cutting a kernel into segments: it becomes blocks where threads may wait, and blocks between waits are functions.

The branches and loops in which nobody waits stay as they are, and run under masks within a segment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilewright import ir
from tilewright.errors import KernelError
from tilewright.ir.flow import Flow
from tilewright.ir.launch import LANE
from tilewright.isa import WHOLE_WARP, bind
from tilewright.sim.codegen import loops
from tilewright.sim.codegen.axes import Axes
from tilewright.sim.codegen.prepare import live_in, needed
from tilewright.sim.codegen.substitution import written_out
from tilewright.sim.codegen.values import calls_of, given_in, is_collective, read_by, waits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tilewright.errors import Span

# Segments: blocks that become one function, since threads go from one to the next without a wait or another way.


@dataclass(frozen=True, slots=True)
class Segment:
    """Statements, and what comes after them: the ways of ``end`` are segments. blocks: those that it is made of."""

    index: int
    body: ir.Body
    end: ir.Ending
    blocks: tuple[int, ...]


def segments(blocks: Sequence[ir.Block], flow: Flow) -> tuple[Segment, ...]:
    """The segments of a graph, the one that is entered first before all others."""
    chains: list[list[int]] = []
    for number in flow.line:
        before = flow.predecessors[number]
        end = blocks[before[0]].end if len(before) == 1 else None
        at_once = isinstance(end, ir.Jump) and not end.yields  # do all threads go on at once, at the same block?
        if at_once and not flow.leads_back(before[0], number):
            next(chain for chain in reversed(chains) if chain[-1] == before[0]).append(number)
        else:
            chains.append([number])
    index = {chain[0]: k for k, chain in enumerate(chains)}
    bodies = (tuple(stmt for number in chain for stmt in blocks[number].body) for chain in chains)
    ends = (blocks[chain[-1]].end.renumbered(index.__getitem__) for chain in chains)
    every = zip(bodies, ends, chains, strict=True)
    return tuple(Segment(k, body, end, tuple(chain)) for k, (body, end, chain) in enumerate(every))


MOST_LOOPS = 256  # in one another: as many as C++ asks a compiler to take; the time to cut grows with their cube


def cut(
    kernel: ir.Kernel, parameters: frozenset[str], *, orders: str
) -> tuple[Axes, tuple[Segment, ...], list[frozenset[str]], loops.Skips]:
    """Cuts a `prepared` kernel: the axes of all variables, the segments, of which the first is entered first, the
    variables that are live before each, and the barriers that threads may skip.

    orders: it is also cut where threads diverge on the way to accesses that show which came first, so that either may:
    "branches"; and before each such access, where others may overtake a thread: "accesses". Empty for neither.
    """
    _check_nesting(kernel.body)
    axes, blocks = _compiled(kernel, parameters, orders) if kernel.compiled else _cut(kernel, Axes(kernel), orders)
    blocks = _threaded(blocks)
    if orders and not kernel.compiled:
        axes.decisions = loops.decisions(blocks, parameters)
    flow = Flow([block.end.targets for block in blocks])
    chains = segments(blocks, flow)
    live = live_in(blocks, flow, parameters)
    skips = loops.skips(blocks, flow, axes, compiled=kernel.compiled)
    return axes, chains, [live[segment.blocks[0]] for segment in chains], skips


def _cut(kernel: ir.Kernel, axes: Axes, orders: str) -> tuple[Axes, list[ir.Block]]:
    """The blocks of a kernel. Those that end in a branch have a wait behind it: each side leads out."""
    where = Structured(kernel, axes, orders=orders)
    graph = ir.graph_of(kernel, where.__contains__, lambda loop: loops.polls(loop, compiled=kernel.compiled))
    return axes, cut_at_waits(graph.blocks, where)


def _compiled(kernel: ir.Kernel, parameters: frozenset[str], orders: str) -> tuple[Axes, list[ir.Block]]:
    """The blocks of compiled code."""
    body = needed(written_out(kernel.body, parameters), parameters)
    undefined = _first_values(body, parameters)
    kernel = replace(kernel, body=(*undefined, *body))
    axes = Axes(kernel)
    axes.undefined = undefined
    axes.ending = frozenset(map(id, ends_behind(kernel.body)))
    stmts = ir.statements(kernel.body)
    if any(loops.is_volatile(stmt) or loops.takes_number(stmt) for stmt in stmts):
        polling = (stmt for stmt in stmts if isinstance(stmt, (ir.For, ir.While)) and loops.polls(stmt, compiled=True))
        axes.polled = frozenset(id(stmt) for loop in polling for stmt in loops.polled(loop))
        axes.compared = frozenset(map(id, loops.compared(kernel.body)))
    if orders:
        axes.decisions = loops.decisions(ir.graph_of(kernel).blocks, parameters)
    return _cut(kernel, axes, orders)


def _check_nesting(body: ir.Body) -> None:
    """Raises KernelError where more loops than `MOST_LOOPS` are in one another."""
    todo = [(stmt, 0) for stmt in body]
    deepest: tuple[int, ir.Stmt | None] = (0, None)
    while todo:
        stmt, loops = todo.pop()
        loops += isinstance(stmt, (ir.For, ir.While))
        deepest = max(deepest, (loops, stmt), key=lambda depth: depth[0])
        todo += [(inner, loops) for body in ir.bodies(stmt) for inner in body]
    if deepest[0] > MOST_LOOPS:
        shown, allowed = f"{deepest[0]} loops in one another", f"{MOST_LOOPS}"
        at = deepest[1].at if deepest[1] is not None else None
        raise KernelError("loops are nested too deeply", given=shown, allowed=allowed, at=at)


def _first_values(body: ir.Body, parameters: frozenset[str]) -> tuple[ir.Bind, ...]:
    """Statements that give registers which may be read before they are written a value without a known bit."""
    stmts = ir.statements(body)
    kinds = {stmt.var.name: stmt.var for stmt in given_in(stmts)}
    kinds |= {node.name: node for stmt in stmts for node in read_by(stmt) if isinstance(node, ir.Var)}
    names = kinds.keys() - parameters - {name for stmt in stmts for name in ir.introduced(stmt)}
    return tuple(ir.Bind(kinds[name], ir.Const(0, kinds[name].dtype)) for name in sorted(names))


def _threaded(blocks: Sequence[ir.Block]) -> list[ir.Block]:
    """The blocks, with edges that skip empty blocks."""

    def through(number: int) -> int:
        seen = {number}
        while not (at := blocks[number]).body and isinstance(at.end, ir.Jump) and not at.end.yields:
            number = at.end.to
            if number in seen:
                break
            seen.add(number)
        return number

    return [ir.Block(block.body, block.end.renumbered(through)) for block in blocks]


# Where threads may wait, and blocks cut there: each wait becomes the end of a block.
#
# Every barrier is a wait. A collective of a warp is one where lanes of that warp can be in different segments. That is
# found first, and only statements with a wait inside become blocks.


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
            if apart or (self.pauses and loops.shows_order((stmt,))):
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
            return loops.polls(stmt, compiled=self.compiled)
        if isinstance(stmt, (ir.Break, ir.Continue)):
            return next(outer for outer in reversed(around) if isinstance(outer, (ir.For, ir.While))) in self
        if isinstance(stmt, ir.If):
            if self.pauses:
                return loops.shows_order((stmt,))
            return bool(self.orders and self._parts(stmt) & ~LANE) and loops.shows_order((*stmt.then, *stmt.orelse))
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
            if self.where.pauses and loops.shows_order((stmt,)):
                self.pause(stmt.at)
            if stmt in self.where:
                self.meet(stmt)
            else:
                self.statements.append(stmt)
        if self.where.pauses and any(isinstance(node, ir.Call) and loops.shows(node) for node in block.end.reads):
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
