"""Plain reads that a compare-and-swap finds out: what is read leads to what it compares or writes, or to whether it is.

An old value costs such a kernel a turn of its loop. A read that leads anywhere else may see either value.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from tilewright import ir
from tilewright.isa.calls import calls_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tilewright.errors import Span

_SHARED_BY_ALL = ("global", "generic")  # memories that no value is followed through


class SwapReads:
    """Of one kernel: what leads where, in any order of its statements. Registers in memory go by their space."""

    def __init__(self, body: ir.Body) -> None:
        self.body = body
        self.known: dict[Span, set[str]] = {}

    @cached_property
    def statements(self) -> list[ir.Stmt]:
        return ir.statements(self.body)

    @cached_property
    def sources(self) -> dict[str, set[str]]:
        """The names from which each name may have its value."""
        sources: dict[str, set[str]] = {}
        for stmt in self.statements:
            names = set(_names(stmt))
            for name in _written(stmt, names):
                sources.setdefault(name, set()).update(names)
        return sources

    def finds_out(self, read: Span | None, swap: Span | None) -> bool:
        """May what is read at one place decide what a compare-and-swap at another one does?"""
        if read is None or swap is None:
            return False
        if swap not in self.known:
            self.known[swap] = self._leading_to(swap)
        reads = (stmt for stmt in self.statements if stmt.at == read and _reads(stmt))
        return any(not self.known[swap].isdisjoint(_written(stmt, set(_names(stmt)))) for stmt in reads)

    def _leading_to(self, swap: Span) -> set[str]:
        """The names on which a compare-and-swap depends: its operands, and the conditions around it."""
        around = [
            stmt for stmt in self.statements if _swaps(stmt, swap) or any(_swaps(part, swap) for part in _inside(stmt))
        ]
        todo = [name for stmt in around for name in _names(stmt)]
        leading = set[str]()
        while todo:
            if (name := todo.pop()) not in leading:
                leading.add(name)
                todo += self.sources.get(name, ())
        return leading


def _inside(stmt: ir.Stmt) -> Iterator[ir.Stmt]:
    return (inner for body in ir.bodies(stmt) for inner in ir.statements(body))


def _swaps(stmt: ir.Stmt, at: Span) -> bool:
    """Is there a compare-and-swap in a statement itself, at this place?"""
    return stmt.at == at and any(access.compares for call in calls_at(stmt) for access in call.form.accesses)


def _reads(stmt: ir.Stmt) -> bool:
    """Does a statement read memory, other than by a compare-and-swap?"""
    accesses = [access for call in calls_at(stmt) for access in call.form.accesses]
    loads = any(isinstance(part, ir.Load) for part in ir.expressions(stmt)) and not isinstance(stmt, ir.Store)
    return loads or any(not (access.write or access.compares) for access in accesses)


def _names(stmt: ir.Stmt) -> Iterator[str]:
    """What a statement reads: variables, and the spaces of memories that each thread or CTA has to itself."""
    for part in ir.expressions(stmt):
        if isinstance(part, ir.Var):
            yield part.name
        elif isinstance(part, ir.Load) and part.buffer.space not in _SHARED_BY_ALL:
            yield part.buffer.space
    yield from _spaces(stmt, write=False)


def _written(stmt: ir.Stmt, names: set[str]) -> set[str]:
    """What gets its value from a statement; any operand of a call without a result may."""
    if isinstance(stmt, (ir.Bind, ir.Assign, ir.For)):
        written = {stmt.var.name}
    elif isinstance(stmt, ir.Store):
        written = {stmt.place.buffer.space} - {*_SHARED_BY_ALL}
    else:
        written = names if isinstance(stmt, ir.Evaluate) else set()
    return written | {*_spaces(stmt, write=True)}


def _spaces(stmt: ir.Stmt, *, write: bool) -> Iterator[str]:
    accesses = (access for call in calls_at(stmt) for access in call.form.accesses)
    return (access.space for access in accesses if access.write == write and isinstance(access.space, str)
            and access.space not in _SHARED_BY_ALL)  # fmt: skip
