"""A kernel, and what the machine and the checks know of it before any run."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cached_property
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tilewright import ir
from tilewright.explain.steps import KernelText, commit_call, wait_call
from tilewright.isa import Fence
from tilewright.isa.calls import calls_in
from tilewright.sim.machine.places import ALONE, BufferPlaces, Place, Ranks, element_text, storage_bytes
from tilewright.terms import Told, barrier, told

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tilewright.errors import Span
    from tilewright.ir.launch import Uniformity
    from tilewright.isa import Access, Bound
    from tilewright.sim.machine import Events, Group, Operation, Part, Site, UnitView

__all__ = ["Subject", "completion_text", "is_uncommitted"]

# The statements by which threads learn that an operation is complete, in the kernel's own words.


def is_uncommitted(operation: Operation, row: int, thread: int) -> bool:
    """Has this thread, one of those that issued it, closed no group since?"""
    rows, threads = operation.issuers.each()
    commits = operation.team.wave.pending.commits_of(operation.group)
    here = (rows == row) & (threads == thread)
    return bool((commits[rows, threads] == operation.serial)[here].all())


def _signal_text(operation: Operation, signal: UnitView, issuer: int, home: int) -> Told:
    """The wait for an operation's signal; the CTA ``home`` need not be the one that has the m-barrier."""
    wave, there = operation.team.wave, (signal.issuer == issuer) & (signal.rows == home)
    k = int(np.argmax(there if there.any() else signal.issuer == issuer))
    bar = element_text(wave.run.program, wave.run.places.shared_at(int(signal.at[k])), int(signal.at[k]))
    if wave.run.cluster_ctas > 1:
        bar += f" in CTA {wave.cta_name(int(signal.rows[k]))}"
    line = operation.instruction.at.line if operation.instruction.at else 0
    wait = told("a wait for the phase of {} that the {} of line {} completes", bar, operation.name, line)
    return wait if there.any() else told("{}, and {} behind it", wait, barrier("cluster"))


def completion_text(operation: Operation, issuer: int, home: int) -> Told:
    """What threads do so that the CTA ``home`` comes after the part of an issuer."""
    if operation.signals:
        return _signal_text(operation, operation.signals[0], issuer, home)
    reads = not any(access.writes for access in operation.touched if access.space in ("shared", "tmem"))
    group, line = operation.group, operation.instruction.at.line if operation.instruction.at else 0
    if (wait := wait_call(group, reads=reads)) is None:
        commit = commit_call(group, signals=True)
        return told("{} behind line {}, and a wait for the m-barrier's phase", commit, line) if commit else told("")
    row, thread = int(operation.issuers.rows[issuer]), int(operation.issuers.threads[issuer])
    commit, who = commit_call(group, signals=False), "thread" if operation.issuers.lanes == 1 else "warps"
    if commit and is_uncommitted(operation, row, thread):
        return told("{} behind line {}, then {} by the {} that issued it", commit, line, wait, who)
    return told("{} by the {} that issued it", wait, who)


class BufferView(NamedTuple):
    """A buffer that is a part of another one's storage, from a byte on."""

    buffer: ir.Buffer
    start: int
    nbytes: int


class Subject:
    """kernel: of stage "lowered". checks: names out of `CHECKS`. groups: buffers whose arguments share memory.
    ranks: the GPUs that run it.

    axes: over which its values vary. sites: the places of the kernel that touch memory. tallies: the instructions that
    are counted. thread_parts: address parts that depend on thread numbers only, by the warps, kept for all runs.
    fences_shared: is there any fence of shared memory alone? sc_scopes: those of its fences of kind sc.
    """

    axes: Uniformity

    def __init__(
        self, kernel: ir.Kernel, checks: frozenset[str], groups: tuple[Group, ...] = (), ranks: Ranks = ALONE
    ) -> None:
        assert kernel.stage == "lowered", "the simulator runs lowered kernels"
        assert kernel.launch is not None, "a lowered kernel has a launch"
        self.launch: ir.Launch = kernel.launch
        self.kernel = kernel
        self.checks = checks
        self.groups = groups
        self.ranks = ranks
        self.places = BufferPlaces(kernel, groups, ranks)
        self.with_shadows = "poison" in checks
        self.sites: list[Site] = []
        self.tallies: list[str] = []
        self.thread_parts: dict[tuple[int, int, int], dict[int, Part]] = {}
        self.authored = {buffer.name: buffer for buffer in (*kernel.buffers, *kernel.authored)}
        bounds = [bound for _, bound in calls_in(kernel.body)]
        self.operations = [bound for bound in bounds if bound.form.concerns_operations]
        fences = [fence for bound in bounds if (fence := bound.fence) is not None]
        self.fences_shared = any(fence.is_of_shared for fence in fences)
        self.sc_scopes = {str(fence.scope) for fence in fences if isinstance(fence, Fence) and fence.sem == "sc"}

    def subscribe(self, check: Events) -> None:
        """Have one more check hear of its accesses."""
        for site in self.sites:
            site.subscribe((*site.checks, check))

    @property
    def touched(self) -> list[tuple[Bound, Access]]:
        """The accesses of operations."""
        return [(bound, access) for bound in self.operations for access in bound.form.touched]

    @cached_property
    def takes_over(self) -> bool:
        """May CTAs take over the work of others, which have not begun?"""
        return any(bound.form.issue is not None and bound.form.issue.takes_over for bound in self.operations)

    @property
    def has_asynchronous(self) -> bool:
        """Does any instruction begin an operation?"""
        return bool(self.operations)

    @cached_property
    def asks(self) -> bool:
        """Does a thread ask an m-barrier once, and go on whatever the answer?"""
        return any(site.asks for site in self.sites)

    @property
    def decides(self) -> bool:
        """Does any strong read decide a branch, and nothing else?"""
        return False

    @property
    def asynchronous_unit(self) -> int:
        """Bytes of shared memory that operations touch all of, or none: 16 at most."""
        return gcd(16, *(bound.count(access.nbytes) for bound, access in self.touched if access.space == "shared"))

    def home_of(self, buffer: ir.Buffer) -> Place | None:
        """Where a buffer's bytes are, of a view its own ones alone; None where only a run knows where they begin."""
        if (place := self.places.of(buffer)) is not None:
            return place
        for owner, views in self._views.items():
            place = self.places.by_name.get(owner)
            view = next((view for view in views if view.buffer.name == buffer.name), None)
            if place is not None and view is not None:
                return replace(place, name=buffer.name, start=place.start + view.start, nbytes=view.nbytes)
        return None

    # What reports say

    @property
    def written(self) -> ir.Body:
        """The statements as their author has them; of compiled code, whose author wrote others, none."""
        return () if self.kernel.compiled else self.kernel.body

    @cached_property
    def text(self) -> KernelText:
        """What its author's statements tell of a missing step."""
        return KernelText(self.written, self.axes)

    def view_at(self, owner: str, byte: int, at: Span | None = None) -> BufferView | None:
        """The view that has a byte of a buffer; of several one that the statements of a line use."""
        views = [view for view in self._views.get(owner, ()) if view.start <= byte < view.start + view.nbytes]
        if len(views) > 1 and at is not None:
            here = [expr for stmt in ir.statements(self.kernel.body) if stmt.at == at for expr in ir.expressions(stmt)]
            used = {expr.buffer.name for expr in here if isinstance(expr, ir.Load | ir.AddressOf)}
            views = [view for view in views if view.buffer.name in used] or views
        return views[0] if views else None

    def arrays_at(self, byte: int, at: Span | None) -> set[str]:
        """The arrays of shared memory that hold a byte of it, of those that the statements of a line name."""
        here = [expr for stmt in ir.statements(self.kernel.body) if stmt.at == at for expr in ir.expressions(stmt)]
        upper = [expr for expr in here if isinstance(expr, ir.Binary) and expr.op == "&"]  # of a pointer to any array
        named = Counter(self._shared_in(here))
        named -= Counter(self._shared_in(part for expr in upper for part in ir.walk(expr)))
        homes = filter(None, map(self.home_of, named))
        return {home.name for home in homes if home.start <= byte < home.start + home.nbytes}

    def _shared_in(self, exprs: Iterable[ir.Expr]) -> Iterator[ir.Buffer]:
        """The buffers of shared memory that expressions are of, without those that others are views of."""
        used = (expr.buffer for expr in exprs if isinstance(expr, ir.Load | ir.AddressOf))
        return (buffer for buffer in used if buffer.space.startswith("shared") and buffer.name not in self._views)

    def loaded_from(self, registers: str, at: Span | None) -> str | None:
        """The tile of memory that a tile call loads into registers that it has made for itself at this line."""
        body = [stmt for stmt in ir.statements(self.kernel.body) if stmt.at == at]
        if not any(isinstance(stmt, ir.AllocBuffer) and stmt.buffer.name == registers for stmt in body):
            return None
        for loop in (stmt for stmt in body if isinstance(stmt, ir.For)):
            parts = [expr for stmt in ir.statements(loop.body) for expr in ir.expressions(stmt)]
            used = [expr.buffer for expr in parts if isinstance(expr, ir.Load | ir.AddressOf)]
            if registers in (buffer.name for buffer in used):
                return next((buffer.name for buffer in used if buffer.space != "local"), None)
        return None

    @cached_property
    def _views(self) -> dict[str, list[BufferView]]:
        """By the name of a buffer, the views into it that begin at a constant place."""
        views: dict[str, list[BufferView]] = {}
        begins: dict[str, tuple[str, int]] = {}  # the owner of a view, and its first byte there
        for stmt in ir.statements(self.kernel.body):
            if not isinstance(stmt, ir.DeclBuffer) or not isinstance(data := stmt.buffer.data, ir.AddressOf):
                continue
            index = ir.const_value(data.indices[0]) if data.indices else 0
            if index is None or ir.const_value(stmt.buffer.shape[0]) is None:
                continue
            owner, start = begins.get(data.buffer.name, (data.buffer.name, 0))
            start += int(index) * data.buffer.dtype.bits // 8
            begins[stmt.buffer.name] = owner, start
            views.setdefault(owner, []).append(BufferView(stmt.buffer, start, storage_bytes(stmt.buffer)))
        return views

    def extent_text(self, place: Place, size: int, values: Mapping[str, object]) -> str:
        """How large a buffer is, in the words of its author. values: of the symbols."""
        buffer, indexed = self.authored.get(place.name), self.kernel.indexed.get(place.name)
        if indexed is not None and indexed.strides:
            return f"{indexed.element_at(0)} to {indexed.element_at(size - indexed.strides[-1])}, {size} bytes"
        if buffer is None:
            return f"{size} bytes"
        return f"{self.shape_text(place.name, values)}, {size * 8 // buffer.dtype.bits} elements of storage"

    def shape_text(self, name: str, values: Mapping[str, object]) -> str:
        """The shape of a buffer or view as its author has it, with the values of its symbols; empty if not declared."""
        buffer = self.authored.get(name)
        if buffer is None:
            return ""
        used = dict.fromkeys(
            part.name for extent in buffer.shape for part in ir.walk(extent) if isinstance(part, ir.Var)
        )
        values_text = ", ".join(f"{symbol} = {values[symbol]}" for symbol in used if symbol in values)
        return f"shape {' x '.join(map(str, buffer.shape))} of {buffer.dtype}{values_text and f', {values_text}'}"

    def loop_around(self, at: Span) -> Span | None:
        """The outermost loop around the statements of a line."""
        return next((stmt.at for stmt in self._loops if any(part.at == at for part in ir.statements(stmt.body))), None)

    @cached_property
    def _loops(self) -> list[ir.For | ir.While]:
        return [stmt for stmt in ir.statements(self.written) if isinstance(stmt, ir.For | ir.While)]
