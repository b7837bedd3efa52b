"""The control-flow graph of a lowered kernel: blocks of statements, and where each block goes on.

Authored kernels have a structured body, compiled ones (PTX) a graph; the simulator cuts and executes graphs. What a
graph may hold, for whoever makes one:

- The first block is entered first. Every block ends in a `Jump`, a `Branch` or an `Exit`; a jump through a table is a
  chain of branches. Labels are unique; blocks stand in any order; those that nobody reaches are no error.
- ``Kernel.graph`` has the code, ``Kernel.body`` then only declarations: `AllocBuffer` of shared and local storage.
- A block's statements never leave it: `Bind`, `Assign`, `Store`, `Evaluate`, and `If` for what is predicated. Any
  of them may wait (a barrier, a collective): the simulator finds that out.
- A register is a `Var`. It is declared nowhere and starts undefined; `Assign` gives it a value. Values are raw bits
  (uint16, uint32, uint64, bool of a predicate); who knows a type says so by `Reinterpret`.
- A pointer of run time is a `Buffer` without a place of its own: ``data`` is an expression of 64 bits, a generic
  address; of a shared buffer it may have 32 bits, the offset in the CTA's shared memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from tilewright.errors import KernelError, choices
from tilewright.ir.build import as_expr, binary
from tilewright.ir.expr import Expr, Var
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
from tilewright.ir.walk import statements

if TYPE_CHECKING:
    from tilewright.errors import Span

__all__ = ["Block", "Branch", "Exit", "Graph", "Jump", "code_of", "graph_of"]


@dataclass(frozen=True, slots=True)
class Jump:
    """On with the block ``to``."""

    to: str
    at: Span | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    """On with ``then`` where ``cond`` holds, else with ``orelse``; lanes may part here."""

    cond: Expr
    then: str
    orelse: str
    at: Span | None = None


@dataclass(frozen=True, slots=True)
class Exit:
    """The thread ends."""

    at: Span | None = None


Ending: TypeAlias = "Jump | Branch | Exit"


@dataclass(frozen=True, slots=True)
class Block:
    """Statements one after the other, and where their threads go on."""

    label: str
    body: Body
    end: Ending

    def successors(self) -> tuple[str, ...]:
        """The labels of the blocks that come next."""
        if isinstance(self.end, Branch):
            return self.end.then, self.end.orelse
        return (self.end.to,) if isinstance(self.end, Jump) else ()


@dataclass(frozen=True, slots=True)
class Graph:
    """The blocks of a kernel, the one that is entered first in front. Raises KernelError for labels that do not fit."""

    blocks: tuple[Block, ...]

    def __post_init__(self) -> None:
        labels = [block.label for block in self.blocks]
        if not labels or len(set(labels)) < len(labels):
            raise KernelError("the labels of a graph name one block each", given=", ".join(labels) or "no blocks")
        for block in self.blocks:
            for label in block.successors():
                if label not in labels:
                    what = f"block {block.label} goes on with {label}, which is no block"
                    raise KernelError(what, given=label, allowed=choices(label, labels), at=block.end.at)


def graph_of(kernel: Kernel) -> Graph:
    """The graph of a lowered kernel; of one with a structured body every branch and loop becomes blocks."""
    if kernel.graph is not None:
        return kernel.graph
    blocks = _Blocks()
    blocks.body(kernel.body)
    blocks.finish(Exit())
    return Graph(tuple(blocks.made))


class _Blocks:
    """Lays out blocks, the one that is being written last."""

    def __init__(self) -> None:
        self.made: list[Block] = []
        self.label = "entry"
        self.kept: list[Stmt] = []
        self.labels = 0
        self.loops: list[tuple[str, str]] = []  # labels of (continue, break)

    def new(self, count: int) -> list[str]:
        """Labels of blocks to come."""
        self.labels += count
        return [f"L{k}" for k in range(self.labels - count, self.labels)]

    def finish(self, end: Ending, label: str = "") -> None:
        """The block ends here, and the next one starts under a label."""
        self.made.append(Block(self.label, tuple(self.kept), end))
        self.label, self.kept = label, []

    def body(self, body: Body) -> None:
        """Statements one after the other."""
        for stmt in body:
            if isinstance(stmt, If):
                self.branch(stmt)
            elif isinstance(stmt, For):
                self.counted(stmt)
            elif isinstance(stmt, While):
                self.loop(stmt.cond, stmt.body, stmt.at)
            elif isinstance(stmt, (Break, Continue)):
                again, leave = self.loops[-1]
                self.finish(Jump(leave if isinstance(stmt, Break) else again, stmt.at), *self.new(1))
            elif not isinstance(stmt, (AllocBuffer, DeclBuffer, Attr)):
                self.kept.append(stmt)

    def branch(self, stmt: If) -> None:
        then, orelse, join = self.new(3)
        self.finish(Branch(stmt.cond, then, orelse, stmt.at), then)
        self.body(stmt.then)
        self.finish(Jump(join), orelse)
        self.body(stmt.orelse)
        self.finish(Jump(join), join)

    def counted(self, stmt: For) -> None:
        stop = Var(f"{stmt.var.name}.stop", stmt.stop.dtype)
        self.kept += [Bind(stmt.var, stmt.start, at=stmt.at), Bind(stop, stmt.stop, mutable=False, at=stmt.at)]
        onward = Assign(stmt.var, stmt.var + as_expr(stmt.step, stmt.var.dtype), at=stmt.at)
        self.loop(binary("<" if stmt.step > 0 else ">", stmt.var, stop), stmt.body, stmt.at, onward)

    def loop(self, cond: Expr, body: Body, at: Span | None, *onward: Stmt) -> None:
        head, inside, latch, leave = self.new(4)
        self.finish(Jump(head), head)
        self.finish(Branch(cond, inside, leave, at), inside)
        self.loops.append((latch, leave))
        self.body(body)
        self.loops.pop()
        self.finish(Jump(latch), latch)
        self.kept += onward
        self.finish(Jump(head, at), leave)


def code_of(kernel: Kernel) -> Iterator[Stmt]:
    """Every statement of a kernel, those of its graph too."""
    yield from statements(kernel.body)
    yield from _of(kernel.graph.blocks if kernel.graph is not None else ())


def _of(blocks: Iterable[Block]) -> Iterator[Stmt]:
    for block in blocks:
        yield from statements(block.body)
