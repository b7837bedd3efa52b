"""The pieces of a graph: its blocks under numbers, cut where threads may wait.

A statement under a condition that may wait becomes a block of its own, so that every wait stands in the open. Which
collectives are cut at depends on which lanes may be apart there (`tilewright.sim.codegen.divergence`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from tilewright.ir import Assign, Bind, Body, Call, Evaluate, Expr, Graph, If, Jump, Load, Stmt, Var, statements, walk
from tilewright.ir import Branch as GraphBranch
from tilewright.ir.flow import Flow, Loop
from tilewright.isa import WARPGROUP, WHOLE_WARP, bind
from tilewright.sim.codegen.axes import LANE
from tilewright.sim.codegen.loops import asks, is_strong
from tilewright.sim.codegen.prepare import calls_of, is_collective
from tilewright.sim.codegen.segments import Branch, Done, End, Goto, Poll, Synchronise, renumbered, targets

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tilewright.sim.codegen.divergence import Divergence

__all__ = ["Piece", "expanded", "flow_of", "may_wait", "parted", "polls"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Statements one after the other, and what comes after them. Ends have the numbers of pieces."""

    body: Body
    end: End

    def successors(self) -> tuple[int, ...]:
        """The pieces that its lanes may go on with."""
        return targets(self.end)


Pieces: TypeAlias = "list[Piece]"


def flow_of(pieces: Iterable[Piece]) -> Flow:
    """The shape of their control flow."""
    return Flow([piece.successors() for piece in pieces])


def expanded(graph: Graph) -> Pieces:
    """The blocks as pieces, behind one that is entered once. Statements are objects of their own; each side of an `If`
    that waits is a piece.
    """
    numbers = {block.label: number for number, block in enumerate(graph.blocks, start=1)}
    made: list[Piece | None] = [Piece((), Goto(1)), *[None] * len(numbers)]
    for block in graph.blocks:
        end: End = Done(block.end.at)
        if isinstance(block.end, Jump):
            end = Goto(numbers[block.end.to], at=block.end.at)
        elif isinstance(block.end, GraphBranch):
            end = Branch(block.end.cond, numbers[block.end.then], numbers[block.end.orelse], block.end.at)
        _expand(made, numbers[block.label], block.body, end)
    return [piece for piece in made if piece is not None]


def _expand(made: list[Piece | None], number: int, body: Body, end: End) -> None:
    kept: list[Stmt] = []
    for stmt in body:
        if not (isinstance(stmt, If) and any(map(_may_wait, statements((stmt,))))):
            kept.append(_own(stmt))
            continue
        then, orelse, after = (len(made) + k for k in range(3))
        made += [None, None, None]
        made[number] = Piece(tuple(kept), Branch(stmt.cond, then, orelse, stmt.at))
        _expand(made, then, stmt.then, Goto(after, at=stmt.at))
        _expand(made, orelse, stmt.orelse, Goto(after, at=stmt.at))
        number, kept = after, []
    made[number] = Piece(tuple(kept), end)


def _own(stmt: Stmt) -> Stmt:
    """A copy of the statement: pieces are told apart by the identity of their statements."""
    if isinstance(stmt, If):
        return replace(stmt, then=tuple(map(_own, stmt.then)), orelse=tuple(map(_own, stmt.orelse)))
    return replace(stmt)


# Where threads may wait


def may_wait(piece: Piece) -> bool:
    """Is there a statement that some lanes might have to wait at?"""
    return any(map(_may_wait, piece.body))


def _may_wait(stmt: Stmt) -> bool:
    return any(is_collective(call) or bind(call).form.ready is not None for call in calls_of(stmt))


def polls(loop: Loop, pieces: Sequence[Piece]) -> bool:
    """Does a loop go different ways by what it reads again and again until somebody else has written there?"""
    inside = [pieces[number] for number in loop.blocks()]
    stmts = [stmt for piece in inside for stmt in statements(piece.body)]
    exprs = [piece.end.cond for piece in inside if isinstance(piece.end, Branch)]
    exprs += [stmt.cond for stmt in stmts if isinstance(stmt, If)]
    values: dict[str, list[Expr]] = {}
    for stmt in stmts:
        if isinstance(stmt, (Assign, Bind)):
            values.setdefault(stmt.var.name, []).append(stmt.value)
    seen: set[str] = set()
    while exprs:
        for node in walk(exprs.pop()):
            if _reads_again(node, values):
                return True
            if isinstance(node, Var) and node.name not in seen:
                seen.add(node.name)
                exprs += values.get(node.name, ())
    return False


def _reads_again(node: Expr, changing: dict[str, list[Expr]]) -> bool:
    if isinstance(node, Call):
        return is_strong(node) or asks(node)
    if isinstance(node, Load) and node.buffer.space != "local":
        return not any(isinstance(part, Var) and part.name in changing for part in walk((node.buffer, node.indices)))
    return False


class _Cuts:
    """Which statements and branches of the pieces are cut at."""

    def __init__(self, pieces: Pieces, apart: Divergence, *, orders: bool) -> None:
        self.pieces = pieces
        self.apart = apart
        self.polling = [loop for loop in apart.flow.loops if polls(loop, pieces)]
        self.branches = {number for number in apart.flow.line if orders and self._shows_order(number)}
        self.lanes_part = bool(self.polling) or any(self._part(number) for number in apart.flow.line)

    def _shows_order(self, number: int) -> bool:
        """Do warps part here on the way to accesses that tell who came first?"""
        end = self.pieces[number].end
        if not isinstance(end, Branch) or not self.apart.of(end.cond) & ~LANE:
            return False
        sides = self.apart.flow.between(number)
        ahead = [piece for k, piece in enumerate(self.pieces) if any(side >> k & 1 for side in sides)]
        calls = (call for piece in ahead for stmt in statements(piece.body) for call in calls_of(stmt))
        return any(is_strong(call) and bind(call).form.signal is None for call in calls)

    def _part(self, number: int) -> bool:
        """Can lanes of a warp be in different pieces after this one, in batches of their own?"""
        if number in self.branches:
            return True
        return bool(self.apart.around[number] & LANE) and any(map(_may_wait, self.pieces[number].body))

    def waits(self, stmt: Stmt, number: int) -> bool:
        """Must this statement of a piece begin a new one?"""
        for call in calls_of(stmt):
            form, lanes = bind(call).form, bind(call).instruction.lanes
            if form.ready is not None or lanes == WARPGROUP or (form.sync is not None and form.sync.scope != "warp"):
                return True
            if is_collective(call) and (self.lanes_part or self.apart.around[number] & LANE):
                return True
        return False

    def cut(self, made: list[Piece | None], number: int) -> int:
        """Cuts one piece where it waits; the number of its last part."""
        piece, place = self.pieces[number], number
        kept: list[Stmt] = []
        for stmt in piece.body:
            if self.waits(stmt, place):
                kept, number = self._meet(made, number, kept, stmt), len(made) - 1
            else:
                kept.append(stmt)
        made[number] = Piece(tuple(kept), piece.end)
        return number

    def _meet(self, made: list[Piece | None], number: int, kept: list[Stmt], stmt: Stmt) -> list[Stmt]:
        """Ends a piece where a statement waits; what the next one begins with."""
        call = next(call for call in calls_of(stmt) if is_collective(call) or bind(call).form.ready is not None)
        bound = bind(call)
        sync = bound.form.sync
        asking = bound.form.ready is not None or (sync is not None and sync.scope == "poll")
        if not asking or (bound.instruction.lanes == WHOLE_WARP and self.lanes_part):
            made[number] = Piece(tuple(kept), Synchronise(call, len(made), stmt.at))
            number, kept = len(made), []
            made.append(None)
        if asking:
            again = len(made)
            made[number] = Piece(tuple(kept), Goto(again, at=stmt.at))
            made += [Piece((), Poll(call, again + 1, again, stmt.at)), None]
            kept = []
        return kept if isinstance(stmt, Evaluate) and sync else [stmt]


def parted(pieces: Pieces, apart: Divergence, *, orders: bool) -> tuple[Pieces, frozenset[int]]:
    """The pieces cut at every wait, and the numbers of those whose branch leads out of the function they are in.

    orders: also where threads part on the way to accesses that show who came first, so that either may go first.
    """
    cuts = _Cuts(pieces, apart, orders=orders)
    made: list[Piece | None] = [*pieces]
    outer: set[int] = set()
    for number in apart.flow.line:
        last = cuts.cut(made, number)
        if number in cuts.branches:
            outer.add(last)
        for loop in cuts.polling:
            if number in loop.blocks() and loop.head in pieces[number].successors():
                _yield(made, last, loop.head)
    return [piece for piece in made if piece is not None], frozenset(outer)


def _yield(made: list[Piece | None], number: int, head: int) -> None:
    """On the way back to the head of a polling loop others go first."""
    piece, between = made[number], len(made)
    assert piece is not None
    made[number] = Piece(piece.body, renumbered(piece.end, lambda k: between if k == head else k))
    made.append(Piece((), Goto(head, polls=True, at=piece.end.at)))
