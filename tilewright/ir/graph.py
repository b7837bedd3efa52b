"""Control-flow graphs: blocks of statements, where each block goes on, where threads may wait.

Compilers write graphs, of which `tilewright.ir.structure` makes statements; the simulator cuts statements into blocks
where threads may wait (`graph_of`). Rules of a graph, for code that makes one (with `Blocks`):

- Blocks have numbers, their places in the graph, in any order. Block 0 is entered first, and no edge leads back to it;
unreachable blocks are no error. A jump through a table is a chain of branches.
- A block's statements never leave it: `Bind`, `Assign`, `Store`, `Evaluate`, and `If` for what is predicated; of what
the simulator cuts also loops. A `Bind` declares: the variable's earlier value is dead.
- Any statement may wait (a barrier, a collective): the simulator finds that out, and cuts blocks so that they end
there, in a `Meet` or an `Ask`.
- A register is a `Var`. It is declared nowhere and starts undefined; `Assign` gives it a value. Values are raw bits
(uint16, uint32, uint64, bool of a predicate); an operation on typed values gets them by `Reinterpret`.
- A pointer of run time is a `Buffer` without a place of its own: ``data`` is an expression of 64 bits, a generic
address; of a shared buffer it may have 32 bits, the offset in the CTA's shared memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeVar

from tilewright.errors import KernelError
from tilewright.ir.build import as_expr, binary
from tilewright.ir.expr import Call, Expr, Var
from tilewright.ir.stmt import (
    AllocBuffer,
    Assign,
    Attr,
    Bind,
    Body,
    Break,
    Continue,
    DeclBuffer,
    For,
    If,
    Kernel,
    Stmt,
    While,
)
from tilewright.ir.walk import walk
from tilewright.records import replace

if TYPE_CHECKING:
    from tilewright.errors import Span

__all__ = [
    "Ask",
    "Block",
    "Blocks",
    "Branch",
    "Ending",
    "Exit",
    "Graph",
    "Jump",
    "Meet",
    "graph_of",
    "stop_of",
]


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
    def reads(self) -> tuple[Expr, ...]:
        """The expressions that it reads."""
        return walk(getattr(self, self._read)) if self._read else ()

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
    cond: Expr
    then: int
    orelse: int


@dataclass(frozen=True, slots=True)
class Meet(Ending):
    """Threads arrive at ``call``'s barrier, wait for it, and go on with the block ``to``.

    A call that is no barrier is a warp collective: lanes that have diverged reconverge before it.
    """

    _ways = ("to",)
    _read = "call"
    call: Call
    to: int


@dataclass(frozen=True, slots=True)
class Ask(Ending):
    """Lanes for which ``call`` is true, or ready, go on with ``to``, the others ask again at the block ``again``."""

    _ways = ("to", "again")
    _read = "call"
    call: Call
    to: int
    again: int


@dataclass(frozen=True, slots=True)
class Exit(Ending):
    """The thread ends."""


@dataclass(frozen=True, slots=True)
class Block:
    """Statements one after the other, and where their threads go on."""

    body: Body
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

    def __init__(self, known: int = 1) -> None:
        self.ended: dict[int, Block] = {}
        self.open: int | None = 0
        self.statements: list[Stmt] = []
        self._last = known - 1

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
    kernel: Kernel,
    is_apart: Callable[[Stmt], bool] = lambda stmt: True,
    yields: Callable[[Stmt], bool] = lambda loop: False,
) -> Graph:
    """The graph of a lowered kernel.

    is_apart: which branches and loops become blocks; all that enclose one must be among them, and each `break` and
    `continue` of such a loop. The others stay statements. yields: do other threads run between the turns of a loop?
    """
    made = _Laid(1, is_apart, yields)
    made.body(kernel.body)
    made.end(Exit())
    return made.graph()


def stop_of(loop: For) -> Var:
    """The variable that holds the end of a loop that has become blocks."""
    return Var(f"{loop.var.name}.stop", loop.stop.dtype)


class _Laid(Blocks):
    """The blocks of structured statements."""

    def __init__(self, known: int, is_apart: Callable[[Stmt], bool], yields: Callable[[Stmt], bool]) -> None:
        super().__init__(known)
        self.is_apart = is_apart
        self.yields = yields
        self.loops: list[tuple[int, int]] = []  # the blocks of (continue, break)

    def body(self, body: Body) -> None:
        """Statements one after the other."""
        for stmt in body:
            if isinstance(stmt, (AllocBuffer, DeclBuffer)) or (isinstance(stmt, Attr) and stmt.mark is None):
                continue
            if not isinstance(stmt, (If, For, While, Break, Continue)) or not self.is_apart(stmt):
                self.statements.append(stmt)
            elif isinstance(stmt, If):
                self.branch(stmt)
            elif isinstance(stmt, For):
                self.counted(stmt)
            elif isinstance(stmt, While):
                self.loop(stmt, stmt.cond)
            else:
                again, leave = self.loops[-1]
                self.end(Jump(leave if isinstance(stmt, Break) else again, at=stmt.at))

    def branch(self, stmt: If) -> None:
        then, orelse, join = self.new(), self.new(), self.new()
        self.end(Branch(stmt.cond, then, orelse, at=stmt.at), then)
        self.body(stmt.then)
        self.end(Jump(join), orelse)
        self.body(stmt.orelse)
        self.end(Jump(join), join)

    def counted(self, stmt: For) -> None:
        stop = stop_of(stmt)
        self.statements += [Bind(stmt.var, stmt.start, at=stmt.at), Bind(stop, stmt.stop, mutable=False, at=stmt.at)]
        onward = Assign(stmt.var, stmt.var + as_expr(stmt.step, stmt.var.dtype), at=stmt.at)
        self.loop(stmt, binary("<" if stmt.step > 0 else ">", stmt.var, stop), onward)

    def loop(self, stmt: For | While, cond: Expr, *onward: Stmt) -> None:
        head, inside, latch, leave = self.new(), self.new(), self.new(), self.new()
        self.end(Jump(head), head)
        self.end(Branch(cond, inside, leave, at=stmt.at), inside)
        self.loops.append((latch, leave))
        self.body(stmt.body)
        self.loops.pop()
        self.end(Jump(latch), latch)
        self.statements += onward
        self.end(Jump(head, "poll" if self.yields(stmt) else "", at=stmt.at), leave)
