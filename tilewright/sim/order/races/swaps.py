"""Plain reads that a compare-and-swap finds out: what is read leads to what it compares or writes, or to whether it is.

An old value costs such a kernel a turn of its loop. A read that leads anywhere else may see either value.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tilewright import ir
from tilewright.isa.calls import calls_at

if TYPE_CHECKING:
    from tilewright.errors import Span

_SHARED_BY_ALL = {"global", "generic"}  # memories that no value is followed through


@dataclass(frozen=True, slots=True)
class _Flow:
    """What a statement reads, and what gets its value from that: variables, and the spaces of memories that each thread
    or CTA has to itself. loads: does it read memory, other than by a compare-and-swap? swaps: does it have one?
    """

    read: set[str]
    written: set[str]
    loads: bool
    swaps: bool

    @classmethod
    def of(cls, stmt: ir.Stmt) -> _Flow:
        accesses = [access for call in calls_at(stmt) for access in call.form.accesses]
        held = [part for part in ir.expressions(stmt) if isinstance(part, ir.Load)]
        read = {part.name for part in ir.expressions(stmt) if isinstance(part, ir.Var)}
        read |= {part.buffer.space for part in held} | {access.space for access in accesses if not access.write}
        written = {access.space for access in accesses if access.write}
        if isinstance(stmt, (ir.Bind, ir.Assign, ir.For)):
            written.add(stmt.var.name)
        elif isinstance(stmt, ir.Store):
            written.add(stmt.place.buffer.space)
        elif isinstance(stmt, ir.Evaluate):
            written |= read  # any operand of a call without a result may get one
        loads = bool(held) and not isinstance(stmt, ir.Store)
        loads |= any(not (access.write or access.compares) for access in accesses)
        swaps = any(access.compares for access in accesses)
        return cls(read - _SHARED_BY_ALL, written - _SHARED_BY_ALL, loads, swaps)


class SwapReads:
    """Of one kernel: what leads where, in any order of its statements. Registers in memory go by their space."""

    def __init__(self, body: ir.Body) -> None:
        self.body = body
        self.known: dict[Span, set[str]] = {}

    @cached_property
    def flows(self) -> dict[int, tuple[ir.Stmt, _Flow]]:
        """Of each statement, by its ``id``."""
        return {id(stmt): (stmt, _Flow.of(stmt)) for stmt in ir.statements(self.body)}

    def finds_out(self, read: Span | None, swap: Span | None) -> bool:
        """May what is read at one place decide what a compare-and-swap at another one does?"""
        if read is None or swap is None:
            return False
        if swap not in self.known:
            self.known[swap] = self._leading_to(swap)
        here = (flow for stmt, flow in self.flows.values() if stmt.at == read and flow.loads)
        return any(not self.known[swap].isdisjoint(flow.written) for flow in here)

    def _leading_to(self, swap: Span) -> set[str]:
        """The names on which a compare-and-swap depends: its operands, and the conditions around it."""
        sources, leading, todo = defaultdict[str, set[str]](set), set[str](), list[str]()
        swaps = {number for number, (stmt, flow) in self.flows.items() if flow.swaps and stmt.at == swap}
        for stmt, flow in self.flows.values():
            todo += flow.read if not swaps.isdisjoint(map(id, ir.statements((stmt,)))) else ()
            for name in flow.written:
                sources[name] |= flow.read
        while todo:
            if (name := todo.pop()) not in leading:
                leading.add(name)
                todo += sources[name]
        return leading
