"""Control flow as a graph: blocks of statements, the registers that are live, an order in which each loop is
contiguous, and dominators.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, TypeAlias, TypeVar

from tilewright import ir
from tilewright.errors import KernelError
from tilewright.records import replace

if TYPE_CHECKING:
    from tilewright.errors import Span

__all__ = [
    "END", "Ask", "Block", "Blocks", "Branch", "Ending", "Exit", "Flow", "Graph", "Jump", "Loop", "Meet", "Order",
    "graph_of", "live_before", "stop_of",
]  # fmt: skip


# Control-flow graphs: blocks of statements, where each block goes on, where threads may wait.
#
# Compilers write graphs, of which `tilewright.ir.structure` makes statements; the simulator cuts statements into blocks
# where threads may wait (`graph_of`). Rules of a graph, for code that makes one (with `Blocks`):
#
# - Blocks have numbers, their places in the graph, in any order. Block 0 is entered first, and no edge leads back to
#   it;
# unreachable blocks are no error. A jump through a table is a chain of branches.
# - A block's statements never leave it: `Bind`, `Assign`, `Store`, `Evaluate`, and `If` for what is predicated; of what
# the simulator cuts also loops. A `Bind` declares: the variable's earlier value is dead.
# - Any statement may wait (a barrier, a collective): the simulator finds that out, and cuts blocks so that they end
# there, in a `Meet` or an `Ask`.
# - A register is a `Var`. It is declared nowhere and starts undefined; `Assign` gives it a value. Values are raw bits
# (uint16, uint32, uint64, bool of a predicate); an operation on typed values gets them by `Reinterpret`.
# - A pointer of run time is a `Buffer` without a place of its own: ``data`` is an expression of 64 bits, a generic
# address; of a shared buffer it may have 32 bits, the offset in the CTA's shared memory.


Some = TypeVar("Some", bound="Ending")


@dataclass(frozen=True, slots=True)
class Ending:
    """What comes after a block's statements. ``_ways``: its fields that are numbers of blocks; ``_read``: the one that
    is an expression.
    """

    _ways: ClassVar[tuple[str, ...]] = ()
    _read: ClassVar[str] = ""
    at: Span | None = field(default=None, kw_only=True)

    @property
    def targets(self) -> tuple[int, ...]:
        """The blocks that threads may go on with."""
        return tuple(getattr(self, way) for way in self._ways)

    @property
    def reads(self) -> tuple[ir.Expr, ...]:
        """The expressions that it reads."""
        return ir.walk(getattr(self, self._read)) if self._read else ()

    def renumbered(self: Some, number: Callable[[int], int]) -> Some:
        """The same, its blocks under other numbers."""
        return replace(self, **{way: number(getattr(self, way)) for way in self._ways})


@dataclass(frozen=True, slots=True)
class Jump(Ending):
    """Threads go on with the block ``to``. yields: why others run first: "poll", on the back edge of a loop that polls;
    "pause", before a strong access.
    """

    _ways = ("to",)
    to: int
    yields: str = ""


@dataclass(frozen=True, slots=True)
class Branch(Ending):
    """Threads go on with ``then`` where ``cond`` holds, else with ``orelse``; lanes may diverge here."""

    _ways = ("then", "orelse")
    _read = "cond"
    cond: ir.Expr
    then: int
    orelse: int


@dataclass(frozen=True, slots=True)
class Meet(Ending):
    """Threads arrive at ``call``'s barrier, wait for it, and go on with the block ``to``.

    A call that is no barrier is a warp collective: lanes that have diverged reconverge before it.
    """

    _ways = ("to",)
    _read = "call"
    call: ir.Call
    to: int


@dataclass(frozen=True, slots=True)
class Ask(Ending):
    """Lanes for which ``call`` is true, or ready, go on with ``to``, the others ask again at the block ``again``."""

    _ways = ("to", "again")
    _read = "call"
    call: ir.Call
    to: int
    again: int


@dataclass(frozen=True, slots=True)
class Exit(Ending):
    """The thread ends."""


@dataclass(frozen=True, slots=True)
class Block:
    """Statements one after the other, and where their threads go on."""

    body: ir.Body
    end: Ending


@dataclass(frozen=True, slots=True)
class Graph:
    """The blocks of a kernel by their numbers. Raises KernelError for an end that leads to none of them."""

    blocks: tuple[Block, ...]

    def __post_init__(self) -> None:
        for number, block in enumerate(self.blocks):
            for to in block.end.targets:
                if not 0 < to < len(self.blocks):
                    what = f"block {number} goes on with {to}, " + ("which is entered first" if not to else "no block")
                    raise KernelError(what, given=to, allowed=f"1 to {len(self.blocks) - 1}", at=block.end.at)


class Blocks:
    """Lays out the blocks of a graph. The last that was begun is open: it has the ``statements``.

    known: the blocks 0 to ``known - 1`` have their numbers already.
    """

    def __init__(self, numbered: int = 1) -> None:
        self.ended: dict[int, Block] = {}
        self.open: int | None = 0
        self.statements: list[ir.Stmt] = []
        self._last = numbered - 1

    def new(self) -> int:
        """The number for another block."""
        self._last += 1
        return self._last

    def end(self, ending: Ending, following: int | None = None) -> None:
        """End the open block and begin ``following``; without it, the statements that follow are unreachable."""
        if self.open is not None:
            self.ended[self.open] = Block(tuple(self.statements), ending)
        self.open, self.statements = following, []

    def graph(self) -> Graph:
        """The graph of all blocks."""
        return Graph(tuple(self.ended[number] for number in range(self._last + 1)))


def graph_of(
    kernel: ir.Kernel,
    is_apart: Callable[[ir.Stmt], bool] = lambda stmt: True,
    yields: Callable[[ir.Stmt], bool] = lambda loop: False,
) -> Graph:
    """The graph of a lowered kernel.

    is_apart: which branches and loops become blocks; all that enclose one must be among them, and each `break` and
    `continue` of such a loop. The others stay statements. yields: do other threads run between the turns of a loop?
    """
    blocks = _Laid(1, is_apart, yields)
    blocks.body(kernel.body)
    blocks.end(Exit())
    return blocks.graph()


def stop_of(loop: ir.For) -> ir.Var:
    """The variable that holds the end of a loop that has become blocks."""
    return ir.Var(f"{loop.var.name}.stop", loop.stop.dtype)


class _Laid(Blocks):
    """The blocks of structured statements."""

    def __init__(self, numbered: int, is_apart: Callable[[ir.Stmt], bool], yields: Callable[[ir.Stmt], bool]) -> None:
        super().__init__(numbered)
        self.is_apart = is_apart
        self.yields = yields
        self.loops: list[tuple[int, int]] = []  # the blocks of (continue, break)

    def body(self, body: ir.Body) -> None:
        """Statements one after the other."""
        for stmt in body:
            if isinstance(stmt, (ir.AllocBuffer, ir.DeclBuffer)) or (isinstance(stmt, ir.Attr) and stmt.mark is None):
                continue
            if not isinstance(stmt, (ir.If, ir.For, ir.While, ir.Break, ir.Continue)) or not self.is_apart(stmt):
                self.statements.append(stmt)
            elif isinstance(stmt, ir.If):
                self.branch(stmt)
            elif isinstance(stmt, ir.For):
                self.counted(stmt)
            elif isinstance(stmt, ir.While):
                self.loop(stmt, stmt.cond)
            else:
                again, leave = self.loops[-1]
                self.end(Jump(leave if isinstance(stmt, ir.Break) else again, at=stmt.at))

    def branch(self, stmt: ir.If) -> None:
        then, orelse, join = self.new(), self.new(), self.new()
        self.end(Branch(stmt.cond, then, orelse, at=stmt.at), then)
        self.body(stmt.then)
        self.end(Jump(join), orelse)
        self.body(stmt.orelse)
        self.end(Jump(join), join)

    def counted(self, stmt: ir.For) -> None:
        stop = stop_of(stmt)
        self.statements += [
            ir.Bind(stmt.var, stmt.start, at=stmt.at),
            ir.Bind(stop, stmt.stop, mutable=False, at=stmt.at),
        ]
        onward = ir.Assign(stmt.var, stmt.var + ir.as_expr(stmt.step, stmt.var.dtype), at=stmt.at)
        self.loop(stmt, ir.binary("<" if stmt.step > 0 else ">", stmt.var, stop), onward)

    def loop(self, stmt: ir.For | ir.While, cond: ir.Expr, *onward: ir.Stmt) -> None:
        head, inside, latch, leave = self.new(), self.new(), self.new(), self.new()
        self.end(Jump(head), head)
        self.end(Branch(cond, inside, leave, at=stmt.at), inside)
        self.loops.append((latch, leave))
        self.body(stmt.body)
        self.loops.pop()
        self.end(Jump(latch), latch)
        self.statements += onward
        self.end(Jump(head, "poll" if self.yields(stmt) else "", at=stmt.at), leave)


# Which registers of a graph are live: needed later as they are.


@dataclass(frozen=True)
class Live:
    """Registers that are live before each block: a bit of its number for each of ``registers``."""

    registers: tuple[ir.Var, ...]
    numbers: Mapping[int, int]

    def __getitem__(self, block: int) -> set[ir.Var]:
        number = self.numbers[block]
        return {register for k, register in enumerate(self.registers) if number >> k & 1}


def live_before(blocks: Mapping[int, Block], following: Mapping[int, Sequence[int]]) -> Live:
    """The registers that each block, or one after it, reads before they get a value."""
    bits: dict[ir.Var, int] = {}
    summaries = {number: [sum([bits.setdefault(var, 1 << len(bits)) for var in some]) for some in _summary(block)]
                 for number, block in blocks.items()}  # fmt: skip
    live = dict.fromkeys(blocks, 0)
    before: dict[int, list[int]] = {number: [] for number in blocks}
    for number in blocks:
        for to in following[number]:
            before[to].append(number)
    todo = dict.fromkeys(blocks)  # the last first: most of what follows a block is known then
    while todo:
        number, _ = todo.popitem()
        read, written = summaries[number]
        now = read
        for to in following[number]:
            now |= live[to] & ~written
        if now != live[number]:
            live[number] = now
            todo |= dict.fromkeys(before[number])
    return Live(tuple(bits), live)


def _summary(block: Block) -> tuple[set[ir.Var], set[ir.Var]]:
    """The registers that a block reads before it sets them, and those that it sets in all lanes."""
    read: set[ir.Var] = set()
    written: set[ir.Var] = set()
    always = set(map(id, block.body))
    for stmt in ir.statements(block.body):
        if isinstance(stmt, (ir.Assign, ir.Bind)) and id(stmt) in always:
            read |= {var for var in ir.walk(stmt.value) if isinstance(var, ir.Var)} - written
            written.add(stmt.var)
        else:
            read |= {var for var in ir.expressions(stmt) if isinstance(var, ir.Var)} - written
    return read | ({var for var in block.end.reads if isinstance(var, ir.Var)} - written), written


# The shape of control flow: an order of blocks in which each loop is contiguous, and their dominators. Blocks are
# numbers here; ``successors[k]`` are those that come after block k.


@dataclass(frozen=True, eq=False)  # a loop is itself: to compare or to hash one would go into all inner loops
class Loop:
    """Blocks that reach each other, the head first. ``items`` are ordered as if no edge led back to the head."""

    head: int
    items: Order

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        """All blocks, those of inner loops too."""
        return tuple(blocks_of(self.items))


Order: TypeAlias = "tuple[int | Loop, ...]"


END = -1  # where threads end, as a block


def blocks_of(order: Order) -> Iterator[int]:
    """The blocks of an order, one after the other."""
    for item in order:
        if isinstance(item, Loop):
            yield from item.blocks
        else:
            yield item


class Flow:
    """The control flow that the successors of each block make. Unreachable blocks are left out of everything."""

    def __init__(self, successors: Sequence[Sequence[int]]) -> None:
        self.successors = successors
        self.order = _ordered(_reached(0, successors, frozenset(range(len(successors)))), successors)
        self.line = tuple(blocks_of(self.order))
        self.rank = {block: rank for rank, block in enumerate(self.line)}
        self.predecessors: dict[int, list[int]] = {block: [] for block in self.line}
        for block in self.line:
            for after in dict.fromkeys(successors[block]):
                self.predecessors[after].append(block)
        self.around: dict[int, tuple[Loop, ...]] = {}  # the loops around each block, the outermost first
        self._nest(self.order, ())

    def _nest(self, order: Order, around: tuple[Loop, ...]) -> None:
        for item in order:
            if isinstance(item, Loop):
                self._nest(item.items, (*around, item))
            else:
                self.around[item] = around

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """Every loop, an outer one before those inside of it."""
        return tuple(dict.fromkeys(loop for block in self.line for loop in self.around[block]))

    def leads_back(self, block: int, after: int) -> bool:
        """Is this edge one to the head of a loop from inside of it?"""
        return self.rank[after] <= self.rank[block]

    @cached_property
    def dominators(self) -> dict[int, int]:
        """For each block the nearest one that every way to it passes; the first block has itself."""
        return _nearest(self.line, self.predecessors)

    @cached_property
    def _strict_joins(self) -> dict[int, int]:
        """For each block the nearest one that every way from it passes, `END` where that is the end of the thread.

        An endless loop counts as ending at its head.
        """
        ahead = {block: [*self.successors[block]] or [END] for block in self.line}
        for loop in self.loops:
            inside = set(loop.blocks)
            if all(k in inside for block in inside for k in self.successors[block]):
                ahead[loop.head].append(END)
        return _joins(ahead)

    @cached_property
    def _joins_of_the_rest(self) -> dict[int, int]:
        """The joins if threads that end anywhere but in the last such block are left out."""
        ahead = {block: [*self.successors[block]] for block in self.line}
        last = next((block for block in reversed(self.line) if not ahead[block]), None)
        if last is None:
            return self._strict_joins
        ahead[last] = [END]
        return _joins(ahead)

    @cached_property
    def joins(self) -> dict[int, int]:
        """For each block where all its threads meet next, but for those that have ended by then; else `END`."""
        joins = {}
        for block in self.line:
            join = self._joins_of_the_rest.get(block, END)
            early = join != END and all(
                self.rank[k] < self.rank[join] for after in self.successors[block] for k in self._until(after, join)
            )
            joins[block] = join if early else self._strict_joins[block]
        return joins

    def between(self, block: int) -> list[int]:
        """For each successor of a branch the blocks that are reached from there before the ways join, as bits."""
        stop = self._stops[block]
        return [sum(1 << k for k in self._until(after, stop)) for after in self.successors[block]]

    @cached_property
    def _stops(self) -> dict[int, int]:
        return {block: self._stop(block) for block in self.line}

    def _stop(self, block: int) -> int:
        """The join of a branch; `END` where some paths reach it in a later iteration of a loop than others do."""
        join = self.joins[block]
        for loop in self.around[block]:
            if join not in (END, loop.head) and loop in self.around[join]:
                turns = (self._turn(block, after, join) for after in self.successors[block])
                if any(loop.head in turn for turn in turns):
                    return END
        return join

    def _until(self, start: int, stop: int) -> set[int]:
        reached: set[int] = set()
        todo = [start]
        while todo:
            block = todo.pop()
            if block != stop and block not in reached:
                reached.add(block)
                todo += self.successors[block]
        return reached

    def _turn(self, before: int, start: int, stop: int) -> set[int]:
        """The blocks up to a stop in one turn of each loop, with the heads to which back edges lead."""
        reached, ends = set(), set()
        todo = [(before, start)]
        while todo:
            last, block = todo.pop()
            if block == stop or self.leads_back(last, block):
                ends.add(block)
            elif block not in reached:
                reached.add(block)
                todo += [(block, after) for after in self.successors[block]]
        return (reached | ends) - {END}


Edges: TypeAlias = "Sequence[Sequence[int]] | dict[int, list[int]]"


def _reached(entry: int, successors: Edges, among: Collection[int]) -> list[int]:
    """The blocks among these that are reached from ``entry``, in reverse post-order."""
    done: list[int] = []
    seen = {entry}
    stack = [(entry, iter(successors[entry][::-1]))]
    while stack:
        block, rest = stack[-1]
        after = next((k for k in rest if k in among and k not in seen), None)
        if after is None:
            done.append(block)
            stack.pop()
        else:
            seen.add(after)
            stack.append((after, iter(successors[after][::-1])))
    return done[::-1]


def _joins(ahead: dict[int, list[int]]) -> dict[int, int]:
    """Dominators of the graph turned round."""
    ahead = {**ahead, END: []}
    back: dict[int, list[int]] = {block: [] for block in ahead}
    for block, after in ahead.items():
        for k in after:
            back[k].append(block)
    joins = _nearest(_reached(END, back, frozenset(ahead)), ahead)
    del joins[END]
    return joins


def _ordered(line: list[int], successors: Edges) -> Order:
    """Blocks in reverse post-order as an order in which each loop is one piece: Kosaraju's components, one by one."""
    left = set(line)
    back: dict[int, list[int]] = {block: [] for block in line}
    for block in line:
        for after in successors[block]:
            if after in left:
                back[after].append(block)
    items: list[int | Loop] = []
    for block in line:
        if block not in left:
            continue
        piece = frozenset(_reached(block, back, left))
        left -= piece
        if len(piece) == 1 and block not in back[block]:
            items.append(block)
        else:
            inner = _reached(block, successors, piece)
            items.append(Loop(block, (block, *_ordered(inner[1:], successors))))
    return tuple(items)


def _nearest(line: Sequence[int], before: dict[int, list[int]]) -> dict[int, int]:
    """The nearest dominator of each block. Source: Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm"."""
    rank = {block: number for number, block in enumerate(line)}
    dominators = {line[0]: line[0]}
    changed = True
    while changed:
        changed = False
        for block in line[1:]:
            reached = [k for k in before[block] if k in dominators]
            nearest = reached[0]
            for other in reached[1:]:
                while nearest != other:
                    if rank[nearest] > rank[other]:
                        nearest = dominators[nearest]
                    else:
                        other = dominators[other]
            changed |= dominators.get(block) != nearest
            dominators[block] = nearest
    return dominators
