"""A lowered kernel compiled for the simulator: its segments, live variables and possible poison, then a Python function
for each segment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, cast

from tilewright import ir
from tilewright.dtypes import HANDLE, dtype
from tilewright.ir.debts import MAPPINGS, SUMS, Origins, Pointers, pointers
from tilewright.ir.numbers import evaluate
from tilewright.ir.printer import heads_of
from tilewright.ir.tensor_map import mapped
from tilewright.isa import bind
from tilewright.isa.calls import calls_in
from tilewright.sim.checks import checks_of, values_of
from tilewright.sim.codegen.axes import ALL, UNIFORM
from tilewright.sim.codegen.cut import cut
from tilewright.sim.codegen.functions import NAMESPACE, SegmentEmitter, parts_of
from tilewright.sim.codegen.loops import polls
from tilewright.sim.codegen.prepare import prepared
from tilewright.sim.codegen.source import PySource, compiled
from tilewright.sim.codegen.values import ById, acts, calls_of, given_in, is_collective, is_of_all, names_in, read_by
from tilewright.sim.machine import ALONE, Batch, Everyone, Group, Place, Ranks, Shape, Site, Subject
from tilewright.sim.record import Recorder

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.codegen.axes import Axes
    from tilewright.sim.codegen.cut import Segment

Function: TypeAlias = "Callable[[Batch], int | None]"  # of a segment: which one comes next


def with_arrays_of_maps(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel with a buffer for the array of each tensor map that is an argument."""
    arrays = (mapped(tensor_map.name) for tensor_map in kernel.maps if not tensor_map.is_made)
    hidden = (ir.Buffer(name, dtype("uint8"), (1,), "global", None, data=ir.Var(name, HANDLE)) for name in arrays)
    return replace(kernel, buffers=(*kernel.buffers, *hidden))


def handles(kernel: ir.Kernel) -> Iterator[tuple[ir.Buffer, ir.Var]]:
    """The global buffers and their parameters."""
    for buffer in kernel.buffers:
        assert isinstance(buffer.data, ir.Var)
        yield buffer, buffer.data


class Compiled(Subject):
    """A kernel that is cut into segments, and their functions, ``segments``. Emitters add sites and instructions that
    are counted. `source` shows the functions; they run in `namespace`.

    raw: is it code that others compiled? Its registers hold raw bits, and it computes its addresses itself.
    pauses: is it cut before strong accesses, where others may overtake a thread? recorder: of one whose runs may be
    recorded; the code of all others knows nothing of that.
    """

    axes: Axes

    @ir.deep_recursion()
    def __init__(
        self,
        kernel: ir.Kernel,
        checks: frozenset[str],
        groups: tuple[Group, ...] = (),
        ranks: Ranks = ALONE,
        *,
        pauses: bool = False,
        recorded: bool = False,
    ) -> None:
        super().__init__(prepared(kernel), checks, groups, ranks)
        names = [var.name for var in (*kernel.params, *kernel.symbols)]
        self.parameters = frozenset(names + [tensor_map.name for tensor_map in kernel.maps])
        self.raw = kernel.compiled
        self.part_ids: dict[str, int] = {}
        self.own_checks = [*checks_of(checks, self), *(check(self) for check in kernel.checks)]
        self.values = values_of(checks)
        self.recorder = Recorder(self) if recorded else None
        if self.recorder is not None:
            self.own_checks.insert(0, self.recorder)  # what a check finds has been recorded
        self.everyone = Everyone(self.own_checks)
        self._reads: dict[int, frozenset[str]] = {}
        self.may_be_poison = ById(self._may_be_poison)
        self._site_of: dict[object, Site] = {}  # by what it does
        orders = ("accesses" if pauses else "branches") if "races" in checks else ""
        self.axes, self.cut, live_in, self.skips = cut(self.kernel, self.parameters, orders=orders)
        self.shadowed = self._shadowed()
        self.fixed = self.parameters | self._fixed(self.parameters)
        self.of_threads = self._fixed(frozenset())
        self.live_in = [self._with_flags(names) for names in live_in]
        calls = [call for stmt in ir.statements(self.kernel.body) for call in calls_of(stmt)]
        self.tells_ends = any(is_collective(call) if self.raw else is_of_all(call) for call in calls)
        self.spans = {segment.index: segment.end.at for segment in self.cut}
        self.live = [self._axes_of(names) for names in self.live_in]
        self._write()

    def _write(self) -> None:
        """The functions of all segments."""
        rec = self.recorder
        told = {name: getattr(rec, name) for name in ("executed", "asks", "asked", "kept", "marked")} if rec else {}
        out = PySource(NAMESPACE | told)
        for segment in self.cut:
            live_out = frozenset().union(*(self.live_in[k] for k in segment.end.targets))
            SegmentEmitter(self, out, segment, live_out).emit()
        self.source = out.text
        self.namespace = out.namespace
        self._spans = out.spans
        exec(compiled(out.lines, f"<segments of {self.kernel.name}>"), out.namespace)
        self.segments = [cast("Function", out.namespace[f"segment_{segment.index}"]) for segment in self.cut]

    @cached_property
    def pointers(self) -> Pointers:
        """What each variable that may be a pointer is given."""
        return pointers(self.kernel.body)

    @cached_property
    def origins(self) -> Origins:
        """The buffers from whose addresses its pointers are made, in the memory of whichever CTA."""
        body, maps = ir.statements(self.kernel.body), {**SUMS, **MAPPINGS}
        return Origins(body, maps, lambda buffer: frozenset((buffer,)) if self.home_of(buffer) else None)

    @cached_property
    def maps(self) -> bool:
        """Is any address mapped into another CTA's shared memory?"""
        return any(bound.instruction.name in MAPPINGS for _, bound in calls_in(self.kernel.body))

    @property
    def decides(self) -> bool:
        return bool(self.axes.decisions)

    # Arguments

    def bound_scalars(self, scalars: Mapping[str, ir.Number]) -> dict[str, ir.Number]:
        """Parameters as the generated code wants them: Python integers, NumPy floats, pointers as addresses."""
        bound: dict[str, ir.Number] = {}
        for buffer, handle in handles(self.kernel):
            bound[handle.name] = self.places.by_name[buffer.name].base
        for var in (*self.kernel.params, *self.kernel.symbols):
            if var.name in bound:
                continue
            value = scalars[var.name]
            if var.dtype.is_float:
                bound[var.name] = var.dtype.numpy.type(value)  # type: ignore[assignment]  # a number of NumPy
            else:
                bound[var.name] = bool(value) if var.dtype.kind == "bool" else int(value)
        return bound

    def grid(self, scalars: Mapping[str, ir.Number]) -> Shape:
        """How many CTAs, which may be expressions over the scalars."""
        x, y, z = (int(evaluate(extent, scalars)) for extent in self.launch.grid)
        return x, y, z

    @property
    def may_wait(self) -> bool:
        """Does any loop poll memory, so that CTAs may wait for others?"""
        return any(polls(stmt, compiled=self.kernel.compiled) for stmt in ir.statements(self.kernel.body))

    # What emitters add

    def add_site(self, site: Site) -> Site:
        """Registers a site, of which the checks hear; statements of one line that do the same share one."""
        first = self._site_of.setdefault(site.key, site)
        if first is not site and self.recorder is None:
            return first
        site.subscribe(self.own_checks)
        self.sites.append(site)
        return site

    @cached_property
    def head_of(self) -> Callable[[ir.Stmt], str]:
        """What gives the first line of a statement as text."""
        return heads_of(self.kernel)

    def add_tally(self, name: str) -> int:
        """The place in `Device.tally` where an instruction is counted."""
        if name not in self.tallies:
            self.tallies.append(name)
        return self.tallies.index(name)

    # Lines of the kernel

    def line(self, number: int) -> Span | None:
        """The kernel's line that a line of `source` comes from, counted from 1."""
        return self._spans[number - 1]

    def place_of(self, segment: int) -> Span | None:
        """The line at which a segment ends, else the last line before that."""
        spans = (self.spans[segment], *(stmt.at for stmt in reversed(self.cut[segment].body)))
        return next((span for span in spans if span is not None), None)

    def line_of(self, place: Place | None) -> Span | None:
        """The line that declares a buffer; the kernel's for none."""
        stmts = (stmt for stmt in ir.statements(self.kernel.body) if isinstance(stmt, ir.AllocBuffer))
        spans = (stmt.at for stmt in stmts if place is not None and stmt.buffer.name == place.name)
        return next(spans, self.kernel.at)

    # Live variables

    def reads(self, segment: Segment) -> frozenset[str]:
        """Variables that a segment takes from outside: parameters and live values, with their flags."""
        if segment.index not in self._reads:
            names = self._mentioned(segment) & (self.parameters | self.live_in[segment.index])
            self._reads[segment.index] = self._with_flags(names)
        return self._reads[segment.index]

    def writes(self, segment: Segment) -> frozenset[str]:
        """Variables that a segment leaves changed."""
        assigned = {stmt.var.name for stmt in given_in(ir.statements(segment.body))}
        return self._with_flags(frozenset(assigned))

    def ends_at(self, segment: int) -> bool:
        """Is a thread's end all that there is, and does another thread ask for it?"""
        here = self.cut[segment]
        return self.raw and self.tells_ends and isinstance(here.end, ir.Exit) and not here.body

    def _mentioned(self, segment: Segment) -> frozenset[str]:
        names = {s.var.name for s in ir.statements(segment.body) if isinstance(s, ir.Assign)}
        exprs = [expr for stmt in ir.statements(segment.body) for expr in ir.expressions(stmt)]
        exprs += segment.end.reads
        return frozenset(names | names_in(exprs))

    def _with_flags(self, names: frozenset[str]) -> frozenset[str]:
        return names | {f"{name}_s" for name in names if name in self.shadowed}

    def _axes_of(self, names: frozenset[str]) -> dict[str, int]:
        unknown = {name: ALL if name.endswith("_s") else UNIFORM for name in sorted(names)}
        return unknown | {name: axes for name, axes in self.axes.variables.items() if name in names}

    def _fixed(self, names: frozenset[str]) -> frozenset[str]:
        """Registers of compiled code that depend on a thread's place and these names alone, wherever they are read."""
        fixed, wrong = names | self._computed.keys(), {""}
        while wrong:
            wrong = {name for name in self._computed.keys() & fixed if not self._computed[name] <= fixed}
            fixed -= wrong
        return fixed - self.shadowed if self.raw else frozenset()

    @cached_property
    def _computed(self) -> dict[str, set[str]]:
        """What those registers depend on that are given a value once, which is computed."""
        stmts = given_in(stmt for segment in self.cut for stmt in ir.statements(segment.body)) if self.raw else []
        times = Counter(stmt.var.name for stmt in stmts)
        nodes = {stmt.var.name: ir.walk(stmt.value) for stmt in stmts if times[stmt.var.name] == 1}
        return {name: names_in(of) for name, of in nodes.items() if not any(map(acts, of))}

    @cached_property
    def passed_on(self) -> frozenset[str]:
        """Variables that are given a value once, and read by one statement or condition."""
        stmts = [stmt for segment in self.cut for stmt in ir.statements(segment.body)]
        times_given = Counter(stmt.var.name for stmt in given_in(stmts))
        reads = [names_in(read_by(stmt)) for stmt in stmts]
        reads += [names_in(segment.end.reads) for segment in self.cut]
        read = Counter(name for names in reads for name in names)
        return frozenset(name for name, times in read.items() if times == 1 and times_given[name] == 1)

    # Which values may be uninitialised

    def _may_be_poison(self, expr: ir.Expr) -> bool:
        """May this value have uninitialised bits? A computed one cannot, since computing with such bits is an error."""
        if not self.with_shadows:
            return False
        if isinstance(expr, ir.Load) and self.raw and not self.places.stored:
            return False
        if isinstance(expr, ir.Load):
            return not (expr.buffer.space == "global" and self.places.of(expr.buffer) is not None)
        if isinstance(expr, ir.Var):
            return expr.name in self.shadowed
        if isinstance(expr, ir.Select):
            return self.may_be_poison(expr.a) or self.may_be_poison(expr.b)
        if isinstance(expr, ir.Reinterpret):
            return self.may_be_poison(expr.a)
        if self.raw and (parts := parts_of(expr)):
            return any(map(self.may_be_poison, parts)) or self.may_be_open(expr)
        return isinstance(expr, ir.Call) and bind(expr).form.meaning.moves and expr.dtype.bits > 0

    def may_be_open(self, expr: ir.Expr) -> bool:
        """May this value be any, as a quotient by zero is, and is that looked at?"""
        return isinstance(expr, ir.Call) and self.hears("result", expr) is not None

    def hears(self, kind: str, *fields: object) -> object | None:
        """What a check makes to look at values of a kind at a place; None where none does."""
        maker = self.values.get(kind)
        return None if maker is None else maker(*fields)

    def _shadowed(self) -> frozenset[str]:
        undefined = (stmt.var.name for stmt in self.axes.undefined if isinstance(stmt, ir.Bind))
        self.shadowed = frozenset(undefined if self.with_shadows else ())
        stmts = [(stmt, names_in(ir.walk(stmt.value))) for stmt in given_in(ir.statements(self.kernel.body))]
        left = stmts if self.with_shadows else []
        while left:
            names = {stmt.var.name for stmt, _ in left if self.may_be_poison(stmt.value)} - self.shadowed
            self.shadowed |= names
            self.may_be_poison.answers.clear()
            left = [(stmt, read) for stmt, read in stmts if not read.isdisjoint(names)]
        return self.shadowed
