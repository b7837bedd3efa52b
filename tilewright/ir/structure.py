"""Structured statements of a control-flow graph: branches as `If`, loops as `While`, with `Break` and `Continue`.

A block stands where the block that dominates it ends: in one side of its branch if no other block leads there, else
behind the branch, where its ways join. What a loop dominates and does not hold stands behind the loop. So threads that
part at a branch meet where their ways join, at the latest, and those that leave a loop behind it.

Where several ways may follow, a flag for each says which one a thread takes: `if` it is set. A loop that is entered at
several blocks gets a head, at which a goal says where a thread goes on. Source for the shape: Ramsey, "Beyond Relooper:
Recursive Translation of Unstructured Control Flow to Structured Control Flow".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from tilewright import ir
from tilewright.dtypes import BOOL, INT32
from tilewright.records import replace

if TYPE_CHECKING:
    from tilewright.errors import Span

# Registers, which are declared nowhere, bound where their values live.
#
# A compiler's registers are names for a whole function; most hold a value for a few statements. Bound there, a register
# varies only as its value does, and as the branches do between its binding and what it is given later.


Step: TypeAlias = "tuple[int, int]"  # the number of a statement, and which of its bodies
Path: TypeAlias = "tuple[Step, ...]"


def bound(body: ir.Body, undefined: frozenset[str]) -> ir.Body:
    """The statements with a `Bind` for each register in the innermost body around all that name it.

    Its first assignment is that; where none comes first for sure, a 0 that nothing reads. undefined: the registers that
    may be read before they get a value, which stay as they are.
    """
    homes: dict[str, tuple[Path, int]] = {}
    declared: set[str] = set()
    kinds: dict[str, ir.Var] = {}
    for path, stmt in _each(body, ()):
        declared |= {stmt.var.name} if isinstance(stmt, (ir.Bind, ir.For)) else set()
        for var in _named(stmt):
            kinds[var.name] = var
            homes[var.name] = _common(*homes[var.name], path) if var.name in homes else (path, len(path) - 1)
    assigned = {stmt.var.name for _, stmt in _each(body, ()) if isinstance(stmt, ir.Assign)}
    places: dict[Path, dict[int, list[ir.Var]]] = {}
    for name, (path, depth) in homes.items():
        if name in assigned and name not in undefined and name not in declared:
            places.setdefault(path[:depth], {}).setdefault(path[depth][0], []).append(kinds[name])
    return _bound(body, (), places)


def _each(body: ir.Body, path: Path) -> Iterator[tuple[Path, ir.Stmt]]:
    """Every statement with the way to it; the last step is its own number."""
    for number, stmt in enumerate(body):
        yield (*path, (number, 0)), stmt
        for side, inner in enumerate(ir.bodies(stmt)):
            yield from _each(inner, (*path, (number, side)))


def _named(stmt: ir.Stmt) -> list[ir.Var]:
    targets = [stmt.var] if isinstance(stmt, (ir.Assign, ir.Bind, ir.For)) else []
    return targets + [part for part in ir.expressions(stmt) if isinstance(part, ir.Var)]


def _common(first: Path, depth: int, path: Path) -> tuple[Path, int]:
    """The first mention of a name, and how deep the body is that has all of its mentions."""
    most = min(depth, len(path) - 1)
    return first, next((k for k in range(most) if first[k] != path[k]), most)


def _bound(body: ir.Body, path: Path, places: dict[Path, dict[int, list[ir.Var]]]) -> ir.Body:
    here = places.get(path, {})
    lines: list[ir.Stmt] = []
    for number, stmt in enumerate(body):
        registers = here.get(number, [])
        inner = _inside(stmt, (*path, (number, 0)), (*path, (number, 1)), places)
        for var in registers:
            if isinstance(inner, ir.Assign) and inner.var == var and var.name not in ir.names_in(ir.walk(inner.value)):
                inner = ir.Bind(var, inner.value, at=inner.at)
            else:
                lines.append(ir.Bind(var, ir.Const(0, var.dtype), at=stmt.at))
        lines.append(inner)
    return tuple(lines)


def _inside(stmt: ir.Stmt, first: Path, second: Path, places: dict[Path, dict[int, list[ir.Var]]]) -> ir.Stmt:
    if isinstance(stmt, ir.If):
        return replace(stmt, then=_bound(stmt.then, first, places), orelse=_bound(stmt.orelse, second, places))
    return replace(stmt, body=_bound(stmt.body, first, places)) if isinstance(stmt, (ir.For, ir.While)) else stmt


@ir.deep_recursion()
def body_of(graph: ir.Graph) -> ir.Body:
    """The statements of a graph, with its registers bound where their values live.

    Those that may be read before they get a value are bound nowhere.
    """
    blocks = dict(enumerate(graph.blocks))
    live = ir.live_before(blocks, {number: block.end.targets for number, block in blocks.items()})
    return bound(structured(graph), frozenset(var.name for var in live[0]))


@ir.deep_recursion()
def structured(graph: ir.Graph) -> ir.Body:
    """The statements of a graph whose blocks end in `Jump`, `Branch` and `Exit`, for each thread in the same order.

    They add flags and goals, whose names have a point; unreachable blocks are left out.
    """
    blocks = _entered_at_heads(list(graph.blocks))
    flow = _flow_of(blocks)
    return _Writer(flow).kernel(_Tree(blocks, flow).at(0))


def _flow_of(blocks: Sequence[ir.Block]) -> ir.Flow:
    return ir.Flow([_ways(block.end) for block in blocks])


def _ways(end: ir.Ending) -> tuple[int, ...]:
    return tuple(dict.fromkeys(end.targets))


# Loops that are entered at several blocks


def _entered_at_heads(blocks: list[ir.Block]) -> list[ir.Block]:
    """The same with one entry for each loop: a new head, at which threads branch on their goal."""
    while True:
        flow = _flow_of(blocks)
        loop = next((loop for loop in flow.loops if len(_entries(flow, loop)) > 1), None)
        if loop is None:
            return blocks
        _give_head(blocks, _entries(flow, loop), frozenset(loop.blocks))


def _entries(flow: ir.Flow, loop: ir.Loop) -> list[int]:
    """The head of a loop, and the other blocks of it to which edges lead from outside."""
    inside = frozenset(loop.blocks)
    others = (k for k in loop.blocks if any(before not in inside for before in flow.predecessors[k]))
    return list(dict.fromkeys((loop.head, *others)))


def _give_head(blocks: list[ir.Block], entries: Sequence[int], inside: frozenset[int]) -> None:
    """Turns every edge to one of the entries into one to a new head, from which threads go on to their goal."""
    goal, first = ir.Var(f"goal.{len(blocks)}", INT32), len(blocks)
    head = first + 2 * len(entries)  # behind the blocks that set the goal, in turns of the loop and outside of it
    for number in range(first):
        ways = {entry: first + 2 * k + (number in inside) for k, entry in enumerate(entries)}
        end = blocks[number].end
        blocks[number] = ir.Block(blocks[number].body, end.renumbered(lambda to, ways=ways: ways.get(to, to)))  # type: ignore[misc]
    at = blocks[entries[0]].end.at
    goals = (ir.const(k // 2, INT32) for k in range(2 * len(entries)))
    blocks += [ir.Block((ir.Assign(goal, value, at=at),), ir.Jump(head, at=at)) for value in goals]
    for k, entry in enumerate(entries[:-1]):
        following = len(blocks) + 1 if k < len(entries) - 2 else entries[-1]
        blocks.append(ir.Block((), ir.Branch(goal == ir.const(k, INT32), entry, following, at=at)))


# The tree of statements, with jumps


@dataclass(frozen=True, slots=True)
class _Go:
    """A jump to what follows in a sequence around, to the head of a loop around, or to the end of the kernel."""

    to: int
    at: Span | None


@dataclass(frozen=True, slots=True)
class _Fork:
    cond: ir.Expr
    then: Sequence[_Part]
    orelse: Sequence[_Part]
    at: Span | None


@dataclass(frozen=True, slots=True)
class _Turns:
    """A loop. inside: its blocks. exits: those outside to which threads leave it."""

    head: int
    inside: frozenset[int]
    exits: frozenset[int]
    body: Sequence[_Part]
    at: Span | None


@dataclass(frozen=True, slots=True)
class _Label:
    """The statements of threads that jump to this block."""

    to: int
    body: Sequence[_Part]


_Part: TypeAlias = "ir.Stmt | _Go | _Fork | _Turns | _Label"


class _Tree:
    """Where each block stands. inline: in the side of a branch, by block the one before it; within and behind: after
    what the block does, or after the loop of which it is the head.
    """

    def __init__(self, blocks: Sequence[ir.Block], flow: ir.Flow) -> None:
        self.blocks = blocks
        self.flow = flow
        self.loops = {loop.head: loop for loop in flow.loops}
        self.inline: dict[int, int] = {}
        self.within: dict[int, list[int]] = {}
        self.behind: dict[int, list[int]] = {}
        for number in flow.line[1:]:
            self._place(number)

    def _around(self, number: int) -> tuple[ir.Loop, ...]:
        """The loops that a block stands in; a head stands for its loop."""
        around = self.flow.around[number]
        return around[:-1] if number in self.loops else around

    def _place(self, number: int) -> None:
        before = [k for k in self.flow.predecessors[number] if not self.flow.leads_back(k, number)]
        dominator, loops = self.flow.dominators[number], self._around(number)
        around = self.flow.around[dominator]
        if around != loops:
            self.behind.setdefault(around[len(loops)].head, []).append(number)
        elif before == [dominator]:
            self.inline[number] = dominator
        else:
            self.within.setdefault(dominator, []).append(number)

    def at(self, number: int) -> list[_Part]:
        """A block and all that it dominates."""
        parts: list[_Part] = []
        while number not in self.loops:
            following = self._block(number, parts)
            if following is None:
                return parts
            number = following
        loop = self.loops[number]
        inside = frozenset(loop.blocks)
        exits = frozenset(k for block in inside for k in self._ways(block) if k not in inside)
        body: list[_Part] = []
        following = self._block(number, body)
        body += self.at(following) if following is not None else ()
        parts.append(_Turns(number, inside, exits, body, self.blocks[number].end.at))
        parts += self._labels(self.behind, number)
        return parts

    def _ways(self, block: int) -> Sequence[int]:
        return (ir.END,) if isinstance(self.blocks[block].end, ir.Exit) else self.flow.successors[block]

    def _block(self, number: int, parts: list[_Part]) -> int | None:
        """Adds a block and what stands behind it. The block that follows instead, if it is the only one after it."""
        block = self.blocks[number]
        parts += block.body
        ways = self._ways(number)
        if len(ways) == 1 and self.inline.get(ways[0]) == number:
            return ways[0]
        if len(ways) == 1:
            parts.append(_Go(ways[0], block.end.at))
        else:
            assert isinstance(block.end, ir.Branch), "only branches have two ways"
            then, orelse = (self._side(number, to, block.end.at) for to in ways)
            parts.append(_Fork(block.end.cond, then, orelse, block.end.at))
        parts += self._labels(self.within, number)
        return None

    def _side(self, number: int, to: int, at: Span | None) -> list[_Part]:
        return self.at(to) if self.inline.get(to) == number else [_Go(to, at)]

    def _labels(self, where: dict[int, list[int]], number: int) -> Iterator[_Label]:
        for to in where.get(number, ()):
            yield _Label(to, self.at(to))


# The tree written as statements.


class _Writer:
    """Writes the parts of a tree as statements. tested: the blocks for which a flag says that a thread goes there."""

    def __init__(self, flow: ir.Flow) -> None:
        self.flow = flow
        self.tested: set[int] = set()
        self._falls: dict[int, frozenset[int]] = {}

    def kernel(self, parts: Sequence[_Part]) -> ir.Body:
        """All statements."""
        self.falls(parts, None)
        return tuple(self.body(parts, None, is_last=False))

    def falls(self, parts: Sequence[_Part], loop: _Turns | None) -> frozenset[int]:
        """Where threads go on that come to the end of some parts, in a turn of this loop; notes what is tested."""
        if id(parts) not in self._falls:
            targets: frozenset[int] = frozenset()
            for part in parts:
                targets = self._behind(part, targets, loop)
            self._falls[id(parts)] = targets
        return self._falls[id(parts)]

    def _behind(self, part: _Part, before: frozenset[int], loop: _Turns | None) -> frozenset[int]:
        """Where threads go on behind one of the parts. before: where those before it go on."""
        if isinstance(part, _Go):
            return frozenset((part.to,) if _way(part.to, loop) is None else ())
        if isinstance(part, _Fork):
            return self.falls(part.then, loop) | self.falls(part.orelse, loop)
        if isinstance(part, _Turns):
            self.falls(part.body, part)
            self.tested |= {to for to, _ in _onward(part, loop) if to is not None}
            return frozenset(to for to in part.exits if _way(to, loop) is None)
        if isinstance(part, _Label):
            self.tested |= {part.to} if before != {part.to} else set()
            return (before - {part.to}) | self.falls(part.body, loop)
        return before

    def _flags(self, blocks: Iterable[int]) -> list[ir.Stmt]:
        return [ir.Bind(_flag(number), ir.Const(False, BOOL)) for number in blocks if number in self.tested]

    def body(self, parts: Sequence[_Part], loop: _Turns | None, *, is_last: bool) -> list[ir.Stmt]:
        """The statements of some parts. is_last: does a turn of the loop end behind them?"""
        lines: list[ir.Stmt] = []
        falls: frozenset[int] = frozenset()
        for k, part in enumerate(parts):
            ends = is_last and k == len(parts) - 1
            if isinstance(part, _Label):
                inner = self.body(part.body, loop, is_last=ends)
                lines += inner if falls == {part.to} else _branch(_flag(part.to), tuple(inner), (), _line(inner))
            elif isinstance(part, (_Go, _Fork, _Turns)):
                lines += self._flags(label.to for label in parts[k + 1 :] if isinstance(label, _Label))
                lines += self._jumping(part, loop, is_last=ends)
            else:
                lines.append(part)
            falls = self._behind(part, falls, loop)
        return lines

    def _jumping(self, part: _Go | _Fork | _Turns, loop: _Turns | None, *, is_last: bool) -> list[ir.Stmt]:
        if isinstance(part, _Fork):
            then, orelse = (tuple(self.body(side, loop, is_last=is_last)) for side in (part.then, part.orelse))
            return _branch(part.cond, then, orelse, part.at)
        if isinstance(part, _Go):
            flag: list[ir.Stmt] = (
                [ir.Assign(_flag(part.to), ir.Const(True, BOOL), at=part.at)] if part.to in self.tested else []
            )
            way = _way(part.to, loop)
            return flag if way is None or (way is ir.Continue and is_last) else [*flag, way(at=part.at)]
        body = [*self._flags([part.head]), *self.body(part.body, part, is_last=True)]
        lines: list[ir.Stmt] = [_loop(body, part.at)]
        for to, way in _onward(part, loop):
            if way is ir.Continue and is_last:
                continue
            lines += [way(at=part.at)] if to is None else [ir.If(_flag(to), (way(at=part.at),), at=part.at)]
        return lines


def _flag(number: int) -> ir.Var:
    return ir.Var(f"go.{number}", BOOL)


def _way(to: int, loop: _Turns | None) -> type[ir.Break | ir.Continue] | None:
    """How threads in a turn of a loop come to a block: None where it only follows."""
    if loop is None or (to in loop.inside and to != loop.head):
        return None
    return ir.Continue if to == loop.head else ir.Break


def _onward(part: _Turns, loop: _Turns | None) -> list[tuple[int | None, type[ir.Break | ir.Continue]]]:
    """How threads that have left a loop leave the turn of the loop around: by block; None for all that come there."""
    ways = [(to, way) for to in sorted(part.exits) if (way := _way(to, loop)) is not None]
    if len(ways) == len(part.exits) and len({way for _, way in ways}) == 1:
        return [(None, ways[0][1])]
    return list(ways)


def _branch(cond: ir.Expr, then: ir.Body, orelse: ir.Body, at: Span | None) -> list[ir.Stmt]:
    if then and isinstance(then[-1], ir.Break):
        return [ir.If(cond, then, at=at), *orelse]
    if orelse and isinstance(orelse[-1], ir.Break):
        return [ir.If(_not(cond), orelse, at=at), *then]
    return [ir.If(cond, then, orelse, at=at) if then or not orelse else ir.If(_not(cond), orelse, at=at)]


def _not(cond: ir.Expr) -> ir.Expr:
    return cond.a if isinstance(cond, ir.Unary) and cond.op == "not" else ir.unary("not", cond)


def _loop(body: Sequence[ir.Stmt], at: Span | None) -> ir.While:
    """A loop; a condition that ends it first is its own."""
    first = body[0] if body else None
    if isinstance(first, ir.If) and len(first.then) == 1 and isinstance(first.then[0], ir.Break):
        return ir.While(_not(first.cond), tuple(body[1:]), at=first.at)
    return ir.While(ir.Const(True, BOOL), tuple(body), at=at)


def _line(body: Sequence[ir.Stmt]) -> Span | None:
    return next((stmt.at for stmt in body if stmt.at is not None), None)
