"""Cutting a kernel into segments, each of which runs from its first to its last statement without waiting.

Cuts are at every place that may wait, and at every branch or loop that has such a place inside. What is left of control
flow inside a segment is masked execution; between segments it is a `Branch`, a `Goto` or a `Synchronise`. Loops that
are cut become plain statements on their counter. Segments are numbered in the order of the kernel's text, so that
running the lowest number first brings lanes that parted together again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilewright.ir import (
    Assign,
    Bind,
    Body,
    Break,
    Call,
    Continue,
    Evaluate,
    Expr,
    For,
    If,
    Kernel,
    Stmt,
    While,
    as_expr,
    binary,
    bodies,
    walk,
)
from tilewright.isa import WARPGROUP, WHOLE_WARP, bind
from tilewright.sim.codegen.axes import LANE, Axes, stop_of
from tilewright.sim.codegen.loops import polls, shows_order
from tilewright.sim.codegen.prepare import calls_of, is_collective

if TYPE_CHECKING:
    from collections.abc import Callable

    from tilewright.errors import Span
    from tilewright.sim.codegen.regions import Region

__all__ = [
    "Branch",
    "Done",
    "End",
    "Goto",
    "Leave",
    "Poll",
    "Segment",
    "Synchronise",
    "cut",
    "of_end",
    "renumbered",
    "targets",
]


@dataclass(frozen=True, slots=True)
class Goto:
    """On with segment ``to``. polls: the back edge of a loop that reads memory until somebody changes it."""

    to: int
    polls: bool = False
    at: Span | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    """On with ``then`` where ``cond`` holds, else with ``orelse``; lanes may part here."""

    cond: Expr
    then: int
    orelse: int
    at: Span | None = None


@dataclass(frozen=True, slots=True)
class Synchronise:
    """Arrive at ``call``'s barrier, wait as it says, then on with segment ``to``.

    A call that is no barrier is a collective of a warp whose lanes may have parted: they gather first.
    """

    call: Call
    to: int
    at: Span | None = None


@dataclass(frozen=True, slots=True)
class Poll:
    """Lanes for which ``call`` is true, or ready, go on with ``to``, the others ask again at segment ``again``."""

    call: Call
    to: int
    again: int
    at: Span | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """The end of the kernel."""

    at: Span | None = None


@dataclass(frozen=True, slots=True)
class Leave:
    """The end of a region: lanes go on with several segments, or have ended."""

    to: tuple[int, ...]
    at: Span | None = None


End = Goto | Branch | Synchronise | Poll | Done | Leave


def targets(end: End) -> tuple[int, ...]:
    """The segments that lanes may go on with."""
    if isinstance(end, Branch):
        return (end.then, end.orelse)
    if isinstance(end, Poll):
        return (end.to, end.again)
    if isinstance(end, Leave):
        return end.to
    return () if isinstance(end, Done) else (end.to,)


def of_end(end: End) -> tuple[Expr, ...]:
    """The expressions that an end reads."""
    if isinstance(end, Branch):
        return walk(end.cond)
    return walk(end.call) if isinstance(end, (Synchronise, Poll)) else ()


def renumbered(end: End, number: Callable[[int], int]) -> End:
    """The same end, its segments under other numbers."""
    if isinstance(end, Done):
        return end
    if isinstance(end, Poll):
        return replace(end, to=number(end.to), again=number(end.again))
    if isinstance(end, Branch):
        return replace(end, then=number(end.then), orelse=number(end.orelse))
    if isinstance(end, Leave):
        return replace(end, to=tuple(map(number, end.to)))
    return replace(end, to=number(end.to))


@dataclass(frozen=True, slots=True)
class Segment:
    """Statements without a wait, and what comes after them. region: of a graph, where they stand in several pieces."""

    index: int
    body: Body
    end: End
    region: Region | None = None

    def successors(self) -> tuple[int, ...]:
        """The segments that its lanes may go on with."""
        return targets(self.end)


def cut(kernel: Kernel, axes: Axes, *, apart: bool = False) -> tuple[Segment, ...]:
    """The segments of a lowered kernel whose body is `prepared`; the first one is entered first.

    apart: also where threads part on the way to accesses that show who came first, so that either may go first.
    """
    waits = _Waits(kernel, axes, apart)
    cutter = _Cutter(waits)
    cutter.start(0)
    cutter.body(kernel.body)
    cutter.finish(Done())
    return cutter.numbered()


class _Waits:
    """Which statements may wait. Collectives of a warp do once its lanes can be in different segments."""

    def __init__(self, kernel: Kernel, axes: Axes, apart: bool) -> None:
        self.axes = axes
        self.apart = apart
        self.cut: set[int] = set()
        self.lanes_part = False
        before = -1
        while before != len(self.cut):
            before = len(self.cut)
            self._mark(kernel.body, ())

    def __contains__(self, stmt: Stmt) -> bool:
        """Must the kernel be cut at this statement?"""
        return id(stmt) in self.cut

    def _mark(self, body: Body, around: tuple[Stmt, ...]) -> None:
        for stmt in body:
            if self._waits(stmt, around):
                self._add(stmt, around)
            if isinstance(stmt, (Break, Continue)) and (loop := _loop_of(around)) is not None and loop in self:
                self._add(stmt, around)
            for inner in bodies(stmt):
                self._mark(inner, (*around, stmt))

    def _add(self, stmt: Stmt, around: tuple[Stmt, ...]) -> None:
        self.cut |= {id(stmt), *map(id, around)}
        self.lanes_part |= any(self._parts(outer) & LANE for outer in (*around, stmt))

    def _parts(self, stmt: Stmt) -> int:
        if isinstance(stmt, If):
            return self.axes.of(stmt.cond)
        return self.axes.divergence(stmt) if isinstance(stmt, (For, While)) else 0

    def _waits(self, stmt: Stmt, around: tuple[Stmt, ...]) -> bool:
        if isinstance(stmt, (For, While)):
            return polls(stmt)
        if self.apart and isinstance(stmt, If) and self._parts(stmt) & ~LANE and shows_order(stmt):
            return True
        for call in calls_of(stmt):
            form = bind(call).form
            sync = form.sync
            if form.ready is not None:
                return True
            if sync is not None and (sync.scope != "warp" or any(self._parts(outer) & LANE for outer in around)):
                return True
            if bind(call).instruction.lanes == WARPGROUP or (self.lanes_part and is_collective(call)):
                return True
        return False


def _loop_of(around: tuple[Stmt, ...]) -> Stmt | None:
    return next((stmt for stmt in reversed(around) if isinstance(stmt, (For, While))), None)


class _Cutter:
    """Lays out segments under labels, and numbers them at the end."""

    def __init__(self, waits: _Waits) -> None:
        self.waits = waits
        self.labels = 0
        self.order: list[int] = []  # labels as they are started
        self.segments: dict[int, Segment] = {}
        self.statements: list[Stmt] = []
        self.loops: list[tuple[int, int]] = []  # labels of (continue, break)

    def label(self) -> int:
        """A new name for a segment that is yet to come."""
        self.labels += 1
        return self.labels

    def start(self, label: int) -> None:
        """The statements from here on are those of the segment ``label``."""
        self.order.append(label)
        self.statements = []

    def finish(self, end: End) -> None:
        """The segment ends here."""
        label = self.order[-1]
        self.segments[label] = Segment(label, tuple(self.statements), end)

    def body(self, body: Body) -> None:
        """Statements one after the other; those that wait, or have a wait inside, are cut."""
        for stmt in body:
            if stmt not in self.waits:
                self.statements.append(stmt)
            elif isinstance(stmt, If):
                self.branch(stmt)
            elif isinstance(stmt, For):
                self.counted(stmt)
            elif isinstance(stmt, While):
                self.loop(stmt.cond, stmt.body, stmt)
            elif isinstance(stmt, (Break, Continue)):
                self.leave(stmt)
            else:
                self.meet(stmt)

    def then(self, end: End, label: int) -> None:
        """The segment ends here, and the next one starts."""
        self.finish(end)
        self.start(label)

    def meet(self, stmt: Stmt) -> None:
        """The call waits; what is left of the statement, if anything, comes after."""
        call, after = next(filter(is_collective, calls_of(stmt))), self.label()
        bound = bind(call)
        sync = bound.form.sync
        asks = bound.form.ready is not None or (sync is not None and sync.scope == "poll")
        if not asks or (bound.instruction.lanes == WHOLE_WARP and self.waits.lanes_part):
            gathered = self.label() if asks else after
            self.then(Synchronise(call, gathered, stmt.at), gathered)
        if asks:
            again = self.label()
            self.then(Goto(again), again)
            self.then(Poll(call, after, again, stmt.at), after)
        if not (isinstance(stmt, Evaluate) and sync):
            self.statements.append(stmt)

    def branch(self, stmt: If) -> None:
        then, orelse, join = self.label(), self.label(), self.label()
        self.then(Branch(stmt.cond, then, orelse, stmt.at), then)
        self.body(stmt.then)
        self.then(Goto(join), orelse)
        self.body(stmt.orelse)
        self.then(Goto(join), join)

    def leave(self, stmt: Break | Continue) -> None:
        again, leave = self.loops[-1]
        self.then(Goto(leave if isinstance(stmt, Break) else again), self.label())

    def counted(self, stmt: For) -> None:
        stop = stop_of(stmt)
        self.statements += [Bind(stmt.var, stmt.start, at=stmt.at), Bind(stop, stmt.stop, mutable=False, at=stmt.at)]
        onward = Assign(stmt.var, stmt.var + as_expr(stmt.step, stmt.var.dtype), at=stmt.at)
        self.loop(binary("<" if stmt.step > 0 else ">", stmt.var, stop), stmt.body, stmt, onward)

    def loop(self, cond: Expr, body: Body, stmt: For | While, onward: Stmt | None = None) -> None:
        head, inside, latch, leave = self.label(), self.label(), self.label(), self.label()
        self.then(Goto(head), head)
        self.then(Branch(cond, inside, leave, stmt.at), inside)
        self.loops.append((latch, leave))
        self.body(body)
        self.loops.pop()
        self.then(Goto(latch), latch)
        if onward is not None:
            self.statements.append(onward)
        self.then(Goto(head, polls=polls(stmt), at=stmt.at), leave)

    def numbered(self) -> tuple[Segment, ...]:
        """The segments that can be reached, with the numbers of their order instead of labels, empty ones skipped."""
        reachable = self._reachable()
        kept = [label for label in self.order if label in reachable]
        number = {label: index for index, label in enumerate(kept)}

        def through(label: int) -> int:
            return number[self._through(label)]

        return tuple(
            Segment(number[label], self.segments[label].body, renumbered(self.segments[label].end, through))
            for label in kept
        )

    def _through(self, label: int) -> int:
        """Where an empty segment that only goes on leads."""
        seen = {label}
        while not (at := self.segments[label]).body and isinstance(at.end, Goto) and not at.end.polls:
            label = at.end.to
            if label in seen:
                break
            seen.add(label)
        return label

    def _reachable(self) -> set[int]:
        found: set[int] = set()
        todo = [self.order[0]]
        while todo:
            label = todo.pop()
            if label not in found:
                found.add(label)
                todo += map(self._through, self.segments[label].successors())
        return found
