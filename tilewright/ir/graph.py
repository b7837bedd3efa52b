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
from tilewright.ir.expr import Expr
from tilewright.ir.stmt import Body, Kernel, Stmt
from tilewright.ir.walk import statements

if TYPE_CHECKING:
    from tilewright.errors import Span

__all__ = ["Block", "Branch", "Exit", "Graph", "Jump", "code_of"]


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


def code_of(kernel: Kernel) -> Iterator[Stmt]:
    """Every statement of a kernel, those of its graph too."""
    yield from statements(kernel.body)
    yield from _of(kernel.graph.blocks if kernel.graph is not None else ())


def _of(blocks: Iterable[Block]) -> Iterator[Stmt]:
    for block in blocks:
        yield from statements(block.body)
