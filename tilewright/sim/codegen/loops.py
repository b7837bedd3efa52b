"""Loops that wait for another thread's store, for an m-barrier, or for nothing at all; reads that only choose a way;
and threads that go past a barrier of all.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from tilewright import ir
from tilewright.dtypes import VOID
from tilewright.ir.flow import END, Flow
from tilewright.ir.launch import LANE, WARP
from tilewright.isa import bind
from tilewright.isa.calls import calls_at
from tilewright.sim.codegen.prepare import live_in
from tilewright.sim.codegen.values import acts, calls_of, given_in, is_of_all, is_pure, names_in, put_in, read_by

if TYPE_CHECKING:
    from collections.abc import Callable

    from tilewright.errors import Span
    from tilewright.isa import Lanes
    from tilewright.sim.codegen.axes import Axes

FEW_TURNS = 4096  # loops of so many turns need no watch


def polls(loop: ir.Stmt, *, compiled: bool) -> bool:
    """Does this loop poll memory until another thread has written there?

    A `while` with a strong access in it, or whose end depends on a load from a fixed place; a `for` that tests an
    m-barrier a number of times. In compiled code one that branches on memory which it reads in each turn: not on shared
    memory where threads of the CTA meet in a turn, as sums over a CTA have it.
    """
    if not isinstance(loop, (ir.For, ir.While)):
        return False
    if compiled:
        return _read_again(*_turn_of(loop))
    inner = [call for stmt in (loop, *ir.statements(loop.body)) for call in calls_of(stmt)]
    if isinstance(loop, ir.For):
        return any(map(asks, inner)) and any(isinstance(stmt, ir.Break) for stmt in ir.statements(loop.body))
    return any(map(is_strong, inner)) or _read_again(_exits(loop), ir.statements(loop.body))


def polled(loop: ir.For | ir.While) -> Iterator[ir.Stmt]:
    """The statements of such a loop that give variables on which its branches depend."""
    return _giving(*_turn_of(loop))


def compared(body: ir.Body) -> Iterator[ir.Stmt]:
    """The statements that give variables on which a predicate depends."""
    stmts = ir.statements(body)
    return _giving((stmt.value for stmt in given_in(stmts) if stmt.var.dtype.kind == "bool"), stmts)


def _turn_of(loop: ir.For | ir.While) -> tuple[list[ir.Expr], list[ir.Stmt]]:
    """The conditions of a loop, and its statements."""
    stmts = ir.statements(loop.body)
    return [stmt.cond for stmt in (loop, *stmts) if isinstance(stmt, (ir.If, ir.While))], stmts


def _giving(exprs: Iterable[ir.Expr], stmts: Sequence[ir.Stmt]) -> Iterator[ir.Stmt]:
    """The statements that give variables on which expressions depend."""
    names = names_in(_dependences(exprs, _values(stmts)))
    return (stmt for stmt in given_in(stmts) if stmt.var.name in names)


def _values(stmts: Iterable[ir.Stmt]) -> dict[str, list[ir.Expr]]:
    """What statements give to each variable."""
    values: dict[str, list[ir.Expr]] = {}
    for stmt in stmts:
        if isinstance(stmt, (ir.Assign, ir.Bind, ir.Store)):  # calls hand values on in local memory
            place = stmt.place.buffer.root if isinstance(stmt, ir.Store) else stmt.var
            values.setdefault(place.name, []).append(stmt.value)
        elif isinstance(stmt, ir.For):
            values.setdefault(stmt.var.name, []).extend((stmt.start, stmt.stop))
    return values


def _dependences(exprs: Iterable[ir.Expr], values: dict[str, list[ir.Expr]]) -> Iterator[ir.Expr]:
    """Every node that expressions depend on, directly or by the values of variables."""
    todo, left = list(exprs), dict(values)
    while todo:
        for node in ir.walk(todo.pop()):
            yield node
            if isinstance(node, ir.Var) or (isinstance(node, ir.Load) and node.buffer.space == "local"):
                todo += left.pop(node.name if isinstance(node, ir.Var) else node.buffer.root.name, ())


def _read_again(conds: Iterable[ir.Expr], turn: Iterable[ir.Stmt]) -> bool:
    """Do conditions depend, through variables that a turn assigns, on memory at the same place in each turn?"""
    turn = [*turn]
    values, syncs = _values(turn), [bind(call).form.sync for stmt in turn for call in calls_of(stmt)]
    meets = any(sync is not None and sync.scope == "cta" for sync in syncs)  # all threads of a CTA
    for node in _dependences(conds, values):
        if isinstance(node, ir.Call) and (is_strong(node) or asks(node)):
            return True
        if isinstance(node, ir.Load) and node.buffer.space not in ("local", *["shared"] * meets):
            address = names_in(ir.walk((node.buffer, node.indices)))
            if address.isdisjoint(values):
                return True
    return False


def spins(loop: ir.While) -> bool:
    """Does no lane that takes a second turn of a loop of compiled code ever leave it: is there no way out, or none that
    depends on what a turn changes?
    """
    assigned = {stmt.var.name for stmt in given_in(ir.statements(loop.body))}
    conds = [loop.cond, *_conditions_of_breaks(loop.body, None)]
    return all(cond is not None and not _may_change(cond, assigned) for cond in conds)


def _conditions_of_breaks(body: ir.Body, cond: ir.Expr | None) -> Iterator[ir.Expr | None]:
    """The condition of the nearest branch around each `break` that leaves the loop around some statements."""
    for stmt in body:
        if isinstance(stmt, ir.Break):
            yield cond
        elif isinstance(stmt, ir.If):
            yield from _conditions_of_breaks((*stmt.then, *stmt.orelse), stmt.cond)


def _may_change(cond: ir.Expr, assigned: set[str]) -> bool:
    return any(
        isinstance(part, (ir.Load, ir.Call)) or (isinstance(part, ir.Var) and part.name in assigned)
        for part in ir.walk(cond)
    )


def reads_nothing(loop: ir.While) -> bool:
    """Does no statement of a loop touch memory?"""
    stmts = ir.statements(loop.body)
    return not any(isinstance(stmt, ir.Store) or any(map(acts, ir.expressions(stmt))) for stmt in stmts)


def shows_order(body: ir.Body) -> bool:
    """Do statements access memory in a way that may show which thread came first? m-barriers do not: they count."""
    return any(shows(call) for stmt in ir.statements(body) for call in calls_of(stmt))


def shows(call: ir.Call) -> bool:
    """The same of a call."""
    return is_strong(call) and not bind(call).form.signals


def is_strong(call: ir.Call) -> bool:
    """Does a call access memory strongly: an atomic, or a load or store with an order?"""
    bound = bind(call)
    return any(bound.word(access.sem) != "weak" for access in bound.form.accesses)


def is_volatile(stmt: ir.Stmt) -> bool:
    """Does a statement access memory by a volatile instruction?"""
    return any(call.word(access.sem) == "volatile" for call in calls_at(stmt) for access in call.form.accesses)


def takes_number(stmt: ir.Stmt) -> bool:
    """Does a statement change memory by an atomic that tells what was there?"""
    return any(call.form.result != VOID and any(access.rmw for access in call.form.accesses) for call in calls_at(stmt))


def asks(call: ir.Call) -> bool:
    """Does a call test an m-barrier, and go on whatever the result?"""
    form = bind(call).form
    return form.sync is None and form.signal_of("wait") is not None


def _exits(loop: ir.While) -> Iterator[ir.Expr]:
    """The conditions that end a loop."""
    yield loop.cond
    for stmt in ir.statements(loop.body):
        if isinstance(stmt, ir.If) and _breaks((stmt,)):
            yield stmt.cond


def changed_names(loop: ir.While) -> set[str]:
    """The variables from before the loop that a turn of it may change."""
    inner = tuple(ir.statements(loop.body))
    begun = {stmt.var.name for stmt in inner if isinstance(stmt, (ir.Bind, ir.For))}
    return {stmt.var.name for stmt in inner if isinstance(stmt, ir.Assign)} - begun


def is_closed(loop: ir.While) -> bool:
    """Does a turn depend on nothing but the loop's own variables, and change nothing else?"""
    return not any(isinstance(stmt, (ir.Store, ir.Evaluate)) or calls_of(stmt) for stmt in ir.statements(loop.body))


def leaves(loop: ir.While) -> bool:
    """Does a condition or a `break` end it?"""
    return not ir.const_value(loop.cond) or _breaks(loop.body)


def _breaks(body: ir.Body) -> bool:
    """Does a `break` leave the loop around these statements?"""
    return any(
        isinstance(stmt, ir.Break) or (isinstance(stmt, ir.If) and (_breaks(stmt.then) or _breaks(stmt.orelse)))
        for stmt in body
    )


def parts_from(stmt: ir.Stmt) -> bool:
    """May this statement leave the loop around it, or its turn, in some lanes?"""
    if isinstance(stmt, (ir.Break, ir.Continue)):
        return True
    return isinstance(stmt, ir.If) and any(map(parts_from, (*stmt.then, *stmt.orelse)))


def is_long(loop: ir.For) -> bool:
    """May it take more than `FEW_TURNS` with those of the loops inside of it?"""
    return _turns((loop,)) > FEW_TURNS


def _turns(body: ir.Body) -> float:
    """The turns of all loops in some statements; infinite where that is not known."""
    return sum(_turns_of(stmt) for stmt in body)


def _turns_of(stmt: ir.Stmt) -> float:
    if isinstance(stmt, ir.While):
        return inf
    inner = sum(map(_turns, ir.bodies(stmt)))
    if not isinstance(stmt, ir.For):
        return inner
    start, stop = ir.const_value(stmt.start), ir.const_value(stmt.stop)
    if start is None or stop is None:
        return inf
    return len(range(int(start), int(stop), stmt.step)) * (1 + inner)


# Strong reads that tell a thread nothing but which way to go, as those of a loop that polls.
#
# A value read earlier, or later, would have done as well if it sends the thread the same way: see `History`.


VALUES = (0, 1, 2, 5, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)  # that memory may hold


def decisions(blocks: Sequence[ir.Block], parameters: frozenset[str]) -> dict[int, ir.Expr]:
    """By the ``id`` of the call that reads: the condition of the branch at the end of its block, in which the call
    stands for what it reads.
    """
    flow = Flow([block.end.targets for block in blocks])
    ends = {number: blocks[number].end for number in flow.line}
    conditions: dict[int, ir.Expr] = {}
    live: dict[int, frozenset[str]] | None = None
    for number, end in ends.items():
        calls = [call for stmt in blocks[number].body for call in calls_of(stmt) if _only_reads(call)]
        if isinstance(end, ir.Branch):
            live = live or live_in(blocks, flow, parameters)
            after = frozenset().union(*(live[k] for k in flow.successors[number]))
            calls += [node for node in end.reads if isinstance(node, ir.Call) and _only_reads(node)]
            every = ((call, _condition(call, blocks[number].body, end.cond, after)) for call in calls)
            conditions |= {id(call): cond for call, cond in every if cond is not None}
    return conditions


def _only_reads(call: ir.Call) -> bool:
    """Does a call read memory strongly, and leave there what it has found?"""
    if not shows(call) or bind(call).form.result == VOID:
        return False
    accesses = bind(call).form.accesses
    return len([access for access in accesses if not access.write]) == 1 and (
        not any(access.write for access in accesses) or _changes_nothing(call)
    )


class _Trial(Exception):
    """Stands for memory at which an atomic is tried; raised where it does something else there. same: did it change
    nothing?
    """

    same = False

    def rows(self, address: Lanes, nbytes: int) -> NoReturn:
        """As of `Memory`."""
        raise self

    def store_rows(self, address: Lanes, data: Lanes) -> NoReturn:
        """As of `Memory`."""
        raise self

    def atomic(self, address: Lanes, combine: Callable[..., Lanes], *values: Lanes) -> Lanes:
        """As of `Memory`."""
        old = np.array(VALUES, np.uint64).astype(values[0].dtype)
        self.same = bool((np.asarray(combine(old, *values)) == old).all())
        return old


def _changes_nothing(call: ir.Call) -> bool:
    """Does an atomic of constants leave every value as it is, as one that adds 0?"""
    bound = bind(call)
    rows = [row for row in bound.arguments if row.kind == "typed"]
    numbers = [ir.const_value(bound.operands[row.name][0]) for row in rows]
    execute, trial = bound.form.meaning.execute, _Trial()
    if execute is None or bound.form.meaning.on != "memory" or len(rows) != len(bound.arguments) - 1:
        return False
    if any(number is None for number in numbers):
        return False
    kinds = [bound.operands[row.name][0].dtype.numpy for row in rows]
    if any(kind.kind not in "iu" for kind in kinds) or any("x2" in str(word) for word in bound.mods.values()):
        return False  # a zero that is added to a float changes -0.0
    terms = [np.array([number]).astype(kind) for number, kind in zip(numbers, kinds, strict=True)]
    with suppress(_Trial, ValueError):  # halves of a word are added in another shape
        execute(trial, np.zeros(1, np.int64), *terms, **{name: bound.mods[name] for name in bound.form.meaning.passes})
    return trial.same


def _condition(call: ir.Call, body: ir.Body, cond: ir.Expr, after: frozenset[str]) -> ir.Expr | None:
    """The condition, with all that is computed from the call put in; None where anything else depends on it."""
    values: dict[str, ir.Expr] = {}
    told: set[str] = set()  # variables that depend on the call
    first = next((k for k, stmt in enumerate(body) if any(node is call for node in read_by(stmt))), len(body))
    for stmt in body[first:]:
        depends = stmt is body[first] or not told.isdisjoint(names_in(read_by(stmt)))
        if not isinstance(stmt, (ir.Bind, ir.Assign)):
            if depends or any(ir.bodies(stmt)):
                return None
        elif depends and any(acts(node) and node is not call for node in ir.walk(stmt.value)):
            return None
        else:
            values[stmt.var.name] = put_in(stmt.value, values)
            told = told | {stmt.var.name} if depends else told - {stmt.var.name}
    whole = put_in(cond, values)
    plain = cond.a if isinstance(cond, ir.Unary) and cond.op == "not" else cond
    name_of = {plain.name} if isinstance(plain, ir.Var) else set()
    nodes = [node for node in ir.walk(whole) if acts(node)]
    is_alone = call in nodes and all(node == call for node in nodes)
    return whole if is_alone and (told - name_of).isdisjoint(after) else None


# Where threads part on the way to a barrier of all, and what they do once their ways have joined again.
#
# Who comes to that behind the barrier without having come to it has skipped it; who ends before has returned early.
# What counts is what others can see: a join may be no more than the kernel's end, or the tests of a flag for `return`.
# Where the source has no `return` on the way, whoever comes to the join has skipped the barrier.


@dataclass(frozen=True, slots=True)
class Skips:
    """Branches and barriers have numbers here. spans: their lines.

    counted: by block, the number of its branch or barrier. around: by the block of a barrier, the branches that it is
    in. behind: by the ``id`` of a statement, or of the end of a block, the branches that it is behind. Empty where no
    barrier can be skipped.
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
    table = Skips()
    barriers = {number: blocks[number].end.at for number in flow.line if _waits_for_all(blocks[number].end)}
    for number in flow.line if barriers else ():
        end = blocks[number].end
        if not isinstance(end, ir.Branch) or not axes.of(end.cond) & (LANE | WARP) or flow.joins[number] == END:
            continue
        sides = flow.between(number)
        inside = [block for block in barriers if any(side >> block & 1 for side in sides)]
        seen, meets = _behind(blocks, flow, number) if inside else ([], False)
        if meets or (seen and not (compiled and _may_be_return(blocks, flow, number, seen))):
            branch = table.number(number, end.at)
            table.around.update({block: (*table.around.get(block, ()), branch) for block in inside})
            joined = [] if _says_return(blocks, end.at, seen) else [_first_at(blocks, flow.joins[number])]
            for stmt in (*seen, *joined):
                table.behind[id(stmt)] = (*table.behind.get(id(stmt), ()), branch)
    for block, at in barriers.items() if table.spans else ():
        table.number(block, at)
    return table


def _waits_for_all(end: ir.Ending) -> bool:
    return isinstance(end, ir.Meet) and is_of_all(end.call)


def _behind(blocks: Sequence[ir.Block], flow: Flow, branch: int) -> tuple[list[ir.Stmt], bool]:
    """What others see first of a thread that is behind a branch; may it be that it comes to a barrier of all?"""
    stmts, meets = list[ir.Stmt](), False
    todo, seen = [flow.joins[branch]], {branch}
    while todo:
        number = todo.pop()
        if number in seen:
            continue
        seen.add(number)
        first = list(_first_seen(blocks[number].body))
        stmts += first
        meets |= _waits_for_all(blocks[number].end)
        if not any(stmt is inner for stmt in first for inner in blocks[number].body):
            todo += flow.successors[number]
    return stmts, meets


def _first_at(blocks: Sequence[ir.Block], number: int) -> ir.Stmt | ir.Ending:
    """What threads do first that come to a block."""
    block = blocks[number]
    while not block.body and isinstance(block.end, ir.Jump):
        block = blocks[block.end.to]
    return block.body[0] if block.body else block.end


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
        assigned = {stmt.var.name for body in sides for stmt in given_in(ir.statements(body))}
        used = names_in(expr for stmt in tail.body for expr in ir.expressions(stmt))
        if not isinstance(tail.end, ir.Exit) or assigned.isdisjoint(used):
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
        part.at.line
        for part in code
        if begin and part.at and (part.at.file, part.at.outer) == (begin.file, begin.outer)
    }


def _first_seen(body: ir.Body) -> Iterator[ir.Stmt]:
    """On each way through a body the first statement that others see."""
    for stmt in body:
        inner = ir.bodies(stmt)
        stored = isinstance(stmt, ir.Store) and stmt.place.buffer.space != "local"
        if stored or any(not is_pure(call) for call in calls_of(stmt)):
            yield stmt
            return
        for side in inner:
            yield from _first_seen(side)
