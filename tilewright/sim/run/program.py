"""A lowered kernel compiled for the simulator: once, then run as often as one likes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.dtypes import HANDLE, dtype
from tilewright.host import Limits
from tilewright.ir import (
    AllocBuffer,
    Assign,
    Bind,
    Buffer,
    Call,
    Expr,
    For,
    Kernel,
    Launch,
    Load,
    Reinterpret,
    Select,
    Value,
    Var,
    expressions,
    statements,
    walk,
)
from tilewright.ir.evaluate import evaluate
from tilewright.ir.tensor_map import MapFields, mapped
from tilewright.isa import bind
from tilewright.sim.checks import checks_of
from tilewright.sim.checks.bounds import Bounds
from tilewright.sim.codegen.axes import ALL, UNIFORM, Axes
from tilewright.sim.codegen.functions import NAMESPACE, SegmentEmitter
from tilewright.sim.codegen.nesting import compiled
from tilewright.sim.codegen.prepare import calls_of, prepared
from tilewright.sim.codegen.segments import Branch, Poll, Segment, Synchronise, cut
from tilewright.sim.codegen.source import Source
from tilewright.sim.machine.address import Part
from tilewright.sim.machine.batch import Batch
from tilewright.sim.machine.overlaps import Group, groups_of
from tilewright.sim.machine.places import Place, Places
from tilewright.sim.machine.sites import Hook, Site
from tilewright.sim.run.execution import Execution, Run

if TYPE_CHECKING:
    from tilewright.errors import Span

__all__ = ["Program"]


class Program:
    """``run`` executes the kernel on arrays. Compiling generates one Python function per segment; `source` shows them.

    kernel: of stage "lowered". checks: names out of `CHECKS`. groups: buffers whose arguments share memory; `run` makes
    a program of its own for those, and keeps it.
    """

    def __init__(self, kernel: Kernel, checks: frozenset[str], groups: tuple[Group, ...] = ()) -> None:
        assert kernel.stage == "lowered", "the simulator runs lowered kernels"
        assert kernel.launch is not None, "a lowered kernel has a launch"
        self.launch: Launch = kernel.launch
        arrays = (mapped(each.name) for each in kernel.maps if not each.is_made)
        hidden = (Buffer(name, dtype("uint8"), (1,), "global", None, data=Var(name, HANDLE)) for name in arrays)
        self.groups = groups
        self._overlapping = {groups: self}
        self._lowered = kernel
        buffers = (*kernel.buffers, *hidden)
        self.kernel = kernel = replace(kernel, body=prepared(kernel.body), buffers=buffers)
        self.checks = checks
        self.axes = Axes(kernel)
        self.places = Places(kernel, groups)
        self.parameters = frozenset(
            [*(var.name for var in (*kernel.params, *kernel.symbols)), *(each.name for each in kernel.maps)]
        )
        self.authored = {buffer.name: buffer for buffer in (*kernel.buffers, *kernel.authored)}
        self.with_shadows = "poison" in checks
        calls = [bind(call) for stmt in statements(kernel.body) for call in calls_of(stmt)]
        self.operations = [bound for bound in calls if bound.form.asynchronous]
        self.sites: list[Site] = []
        self.tallies: list[str] = []
        self.part_ids: dict[str, int] = {}
        self.thread_parts: dict[tuple[int, int, int], dict[int, Part]] = {}
        self.own_checks = checks_of(checks, self)
        self.shadowed = self._shadowed()
        self.cut = cut(kernel, self.axes, apart="races" in checks)
        self.spans = {segment.index: segment.end.at for segment in self.cut}
        self._reads: dict[int, frozenset[str]] = {}
        self.live_in = self._liveness()
        self.live = [self._axes_of(names) for names in self.live_in]
        self._compile()

    @property
    def has_asynchronous(self) -> bool:
        """Does any instruction go on after it was issued?"""
        return bool(self.operations)

    @property
    def asynchronous_unit(self) -> int:
        """Bytes of shared memory that operations touch all of, or none: 16 at most."""
        touched = ((bound, access) for bound in self.operations for access in bound.form.touched)
        return gcd(16, *(b.form.count(a.nbytes, b.mods) for b, a in touched if a.space == "shared"))

    # Running

    def run(
        self,
        arrays: Mapping[str, np.ndarray[Any, Any]],
        scalars: Mapping[str, Any],
        maps: Mapping[str, MapFields] = {},
        *,
        progress: Callable[[int, int], None] | None = None,
        limits: Limits | None = None,
    ) -> Run:
        """Execute the whole grid; arrays are changed in place.

        arrays: by the name of the handle parameter, C-contiguous, with the buffer's bytes. scalars: parameters and
        symbols by name. maps: the tensor maps that are arguments; ``arrays`` has their arrays as `mapped`.
        progress: called with CTAs done and CTAs in all. limits: what the run may take.
        Raises SimulationError for what a check finds, and at a limit.
        """
        own = {each.name for each in self.kernel.maps}
        named = {buffer.name: arrays[handle.name] for buffer, handle in self._handles() if buffer.name not in own}
        groups = groups_of(named)
        if groups not in self._overlapping:
            self._overlapping[groups] = Program(self._lowered, self.checks, groups)
        program = self._overlapping[groups]
        named |= {name: np.frombuffer(data, np.uint8).copy() for name, data in program._encoded(maps, scalars)}
        return program._run(named, scalars, progress, limits or Limits())

    def _encoded(self, maps: Mapping[str, MapFields], scalars: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
        """The 128 bytes of each tensor map, with the address that its array has here."""
        for each in self.kernel.maps:
            fields = each.fields(scalars) if each.is_made else maps[each.name]
            base = self.places.by_name[each.of if each.is_made else mapped(each.name)].base
            yield each.name, fields.at(base + (each.start(scalars) if each.is_made else 0)).encode()

    def _run(
        self,
        arrays: Mapping[str, np.ndarray[Any, Any]],
        scalars: Mapping[str, Any],
        progress: Callable[[int, int], None] | None,
        limits: Limits,
    ) -> Run:
        for site in self.sites:
            site.reset()
        again = {name: array.copy() for name, array in arrays.items()} if self._depends_on_the_schedule() else None
        with np.errstate(all="ignore"):
            execution = Execution(self, arrays, scalars, self.own_checks, limits)
            execution.run(progress)
            result = execution.result()
            if again is not None:
                other = Execution(self, again, scalars, self.own_checks, limits, backwards=True)
                other.run(lambda done, ctas: None)
                result.warnings.extend(text for text in other.warnings if text not in result.warnings)
            return result

    def _depends_on_the_schedule(self) -> bool:
        """Do threads see who came first? Then the race check looks at a run in the opposite order as well."""
        heard = (site for site in self.sites if site.sem != "weak" and site.observes and not site.is_signal)
        return "races" in self.checks and not self.groups and any(heard)

    def _handles(self) -> Iterator[tuple[Buffer, Var]]:
        """The global buffers and their parameters."""
        for buffer in self.kernel.buffers:
            assert isinstance(buffer.data, Var)
            yield buffer, buffer.data

    def bound_scalars(self, scalars: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters as the generated code wants them: Python integers, NumPy floats, pointers as addresses."""
        found: dict[str, Any] = {}
        for buffer, handle in self._handles():
            found[handle.name] = self.places.by_name[buffer.name].base
        for var in (*self.kernel.params, *self.kernel.symbols):
            if var.name in found:
                continue
            value = scalars[var.name]
            if var.dtype.is_float:
                found[var.name] = np.asarray(value).astype(var.dtype.numpy)[()]
            else:
                found[var.name] = bool(value) if var.dtype.kind == "bool" else int(value)
        return found

    @staticmethod
    def number(value: Value, scalars: Mapping[str, Any]) -> int:
        """A launch extent, which may be an expression over the scalars."""
        return int(evaluate(value, scalars))

    # What emitters add

    def add_site(self, site: Site) -> Site:
        """Registers a site and gives it the hooks of the checks."""
        site.watch = self._hooks
        bounds = next((check for check in self.own_checks if isinstance(check, Bounds)), None)
        site.escapes = bounds.escapes if bounds else None
        site.hooks = self._hooks(site) if site.place else ()
        self.sites.append(site)
        return site

    def _hooks(self, site: Site) -> tuple[Hook, ...]:
        hooks = [check.watch(site) for check in self.own_checks]
        return tuple(hook for hook in hooks if hook is not None)

    def add_tally(self, name: str) -> int:
        """The place in `Execution.tally` where an instruction is counted."""
        if name not in self.tallies:
            self.tallies.append(name)
        return self.tallies.index(name)

    def extent_text(self, place: Place, size: int) -> str:
        """How large a buffer is, in the words of its author."""
        buffer = self.authored.get(place.name)
        if buffer is None:
            return f"{size} bytes"
        return f"{self.shape_text(place.name)}, {size * 8 // buffer.dtype.bits} elements of storage"

    def shape_text(self, name: str) -> str:
        """The shape of a buffer or view as its author has it; empty of one that nobody declared."""
        buffer = self.authored.get(name)
        return f"shape {' x '.join(map(str, buffer.shape))} of {buffer.dtype}" if buffer is not None else ""

    # Compiling

    @property
    def namespace(self) -> dict[str, Any]:
        """What the generated functions run in."""
        return self._out.namespace

    def place_of(self, segment: int) -> Span | None:
        """The line that a segment ends at; where nothing stands there, the last before."""
        spans = (self.spans[segment], *(stmt.at for stmt in reversed(self.cut[segment].body)))
        return next((span for span in spans if span is not None), None)

    def line(self, number: int) -> Span | None:
        """The kernel's line that a line of `source` comes from, counted from 1."""
        return self._out.spans[number - 1]

    def line_of(self, place: Place | None) -> Span | None:
        """The line that declares a buffer; the kernel's for none."""
        stmts = (stmt for stmt in statements(self.kernel.body) if isinstance(stmt, AllocBuffer))
        found = (stmt.at for stmt in stmts if place is not None and stmt.buffer.name == place.name)
        return next(found, self.kernel.at)

    def _compile(self) -> None:
        self._out = Source(dict(NAMESPACE))
        for segment in self.cut:
            live_out = frozenset().union(*(self.live_in[k] for k in segment.successors()))
            SegmentEmitter(self, self._out, segment, live_out).emit()
        self.source = self._out.text
        exec(compiled(self._out.lines, f"<segments of {self.kernel.name}>"), self._out.namespace)
        self.segments: list[Callable[[Batch], int | None]] = [
            self._out.namespace[f"segment_{segment.index}"] for segment in self.cut
        ]

    # Which variables matter where

    def reads(self, segment: Segment) -> frozenset[str]:
        """Variables that a segment takes from outside: parameters and live values, with their flags."""
        if segment.index not in self._reads:
            self._reads[segment.index] = self._with_flags(self._mentioned(segment) - self._bound(segment))
        return self._reads[segment.index]

    def writes(self, segment: Segment) -> frozenset[str]:
        """Variables that a segment leaves changed."""
        assigned = {s.var.name for s in statements(segment.body) if isinstance(s, (Bind, Assign))}
        return self._with_flags(frozenset(assigned))

    def _mentioned(self, segment: Segment) -> frozenset[str]:
        names = {s.var.name for s in statements(segment.body) if isinstance(s, Assign)}
        exprs = [expr for stmt in statements(segment.body) for expr in expressions(stmt)]
        if isinstance(segment.end, Branch):
            exprs += walk(segment.end.cond)
        elif isinstance(segment.end, (Synchronise, Poll)):
            exprs += walk(segment.end.call)
        return frozenset(names | {expr.name for expr in exprs if isinstance(expr, Var)})

    def _bound(self, segment: Segment) -> frozenset[str]:
        return frozenset(s.var.name for s in statements(segment.body) if isinstance(s, (Bind, For)))

    def _with_flags(self, names: frozenset[str]) -> frozenset[str]:
        return names | {f"{name}_s" for name in names if name in self.shadowed}

    def _liveness(self) -> list[frozenset[str]]:
        """For each segment the variables whose values it, or what follows it, may read."""
        live: list[frozenset[str]] = [frozenset() for _ in self.cut]
        changed = True
        while changed:
            changed = False
            for segment in reversed(self.cut):
                after = frozenset().union(*(live[k] for k in segment.successors()))
                own = self.reads(segment) | (after - self._with_flags(self._bound(segment)))
                now = frozenset(own - self.parameters)
                changed |= now != live[segment.index]
                live[segment.index] = now
        return live

    def _axes_of(self, names: frozenset[str]) -> dict[str, int]:
        unknown = {name: ALL if name.endswith("_s") else UNIFORM for name in sorted(names)}
        return unknown | {name: axes for name, axes in self.axes.variables.items() if name in names}

    # Which values may be uninitialised

    def may_be_poison(self, expr: Expr) -> bool:
        """Could this value hold bits that nobody wrote? A computed one cannot: computing with such bits is an error."""
        if not self.with_shadows:
            return False
        if isinstance(expr, Load):
            return not (expr.buffer.space == "global" and self.places.of(expr.buffer) is not None)
        if isinstance(expr, Var):
            return expr.name in self.shadowed
        if isinstance(expr, Select):
            return self.may_be_poison(expr.a) or self.may_be_poison(expr.b)
        if isinstance(expr, Reinterpret):
            return self.may_be_poison(expr.a)
        return isinstance(expr, Call) and bind(expr).form.moves and expr.dtype.bits > 0

    def _shadowed(self) -> frozenset[str]:
        self.shadowed = frozenset()
        while True:
            found = {
                s.var.name
                for s in statements(self.kernel.body)
                if isinstance(s, (Bind, Assign)) and self.may_be_poison(s.value)
            }
            if found <= self.shadowed:
                return self.shadowed
            self.shadowed = frozenset(found | self.shadowed)
