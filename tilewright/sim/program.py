"""A lowered kernel compiled for the simulator: once, then run as often as one likes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.ir import (
    Assign,
    Bind,
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
    const_value,
    expressions,
    statements,
    walk,
)
from tilewright.isa import bind
from tilewright.sim.address import Part
from tilewright.sim.axes import ALL, UNIFORM, Axes
from tilewright.sim.batch import Batch
from tilewright.sim.checks import checks_of
from tilewright.sim.checks.bounds import Bounds
from tilewright.sim.codegen import NAMESPACE, SegmentEmitter
from tilewright.sim.execution import Execution, Run
from tilewright.sim.memory import Block
from tilewright.sim.places import Place, Places
from tilewright.sim.prepare import calls_of, prepared
from tilewright.sim.segments import Branch, Done, Poll, Segment, Synchronise, cut
from tilewright.sim.sites import Hook, Site
from tilewright.sim.source import Source

__all__ = ["Program"]


class Program:
    """``run`` executes the kernel on arrays. Compiling generates one Python function per segment; `source` shows them.

    kernel: of stage "lowered". checks: names out of `CHECKS`.
    """

    def __init__(self, kernel: Kernel, checks: frozenset[str]) -> None:
        assert kernel.stage == "lowered", "the simulator runs lowered kernels"
        assert kernel.launch is not None, "a lowered kernel has a launch"
        self.launch: Launch = kernel.launch
        self.kernel = kernel = replace(kernel, body=prepared(kernel.body))
        self.checks = checks
        self.axes = Axes(kernel)
        self.places = Places(kernel)
        self.parameters = frozenset(var.name for var in (*kernel.params, *kernel.symbols))
        self.authored = {buffer.name: buffer for buffer in (*kernel.buffers, *kernel.authored)}
        self.with_shadows = "poison" in checks
        self.has_asynchronous = any(
            bind(call).form.asynchronous is not None for stmt in statements(kernel.body) for call in calls_of(stmt)
        )
        self.sites: list[Site] = []
        self.tallies: list[str] = []
        self.part_ids: dict[str, int] = {}
        self.thread_parts: dict[tuple[int, int, int], dict[int, Part]] = {}
        self.own_checks = checks_of(checks, self)
        self.shadowed = self._shadowed()
        self.cut = cut(kernel, self.axes)
        self.spans = {segment.index: segment.end.at for segment in self.cut}
        self._reads: dict[int, frozenset[str]] = {}
        self.live_in = self._liveness()
        self.live = [self._axes_of(names) for names in self.live_in]
        self._compile()

    # Running

    def run(
        self,
        arrays: Mapping[str, np.ndarray[Any, Any]],
        scalars: Mapping[str, Any],
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> Run:
        """Execute the whole grid; arrays are changed in place.

        arrays: by the name of the handle parameter, C-contiguous, with the buffer's bytes. scalars: parameters and
        symbols by name. progress: called with CTAs done and CTAs in all.
        Raises SimulationError for what a check finds.
        """
        for site in self.sites:
            site.reset()
        with np.errstate(all="ignore"):
            execution = Execution(self, arrays, scalars, self.own_checks)
            execution.run(progress)
            return execution.result()

    def bound_arrays(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, Block]:
        """Each global buffer's bytes."""
        found = {}
        for buffer in self.kernel.buffers:
            assert isinstance(buffer.data, Var)
            found[buffer.name] = Block.of(arrays[buffer.data.name])
        return found

    def bound_scalars(self, scalars: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters as the generated code wants them: Python integers, NumPy floats, pointers as addresses."""
        found: dict[str, Any] = {}
        for buffer in self.kernel.buffers:
            assert isinstance(buffer.data, Var)
            found[buffer.data.name] = self.places.by_name[buffer.name].base
        for var in (*self.kernel.params, *self.kernel.symbols):
            if var.name in found:
                continue
            value = scalars[var.name]
            if var.dtype.is_float:
                found[var.name] = np.asarray(value).astype(var.dtype.numpy)[()]
            else:
                found[var.name] = bool(value) if var.dtype.kind == "bool" else int(value)
        return found

    def number(self, value: Value, scalars: Mapping[str, Any]) -> int:
        """A launch extent, which may be an expression over the scalars."""
        known = const_value(value)
        if known is not None:
            return int(known)
        assert isinstance(value, Expr)
        out = Source(dict(NAMESPACE))
        emitter = SegmentEmitter(self, out, Segment(0, (), Done()), frozenset())
        text = emitter.value(value, "m0").text
        names = {emitter.variable(Var(name)): number for name, number in scalars.items()}
        return int(eval(text, out.namespace, names))

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
        shape = " x ".join(map(str, buffer.shape))
        return f"shape {shape} of {buffer.dtype}, {size * 8 // buffer.dtype.bits} elements of storage"

    # Compiling

    def _compile(self) -> None:
        self._out = Source(dict(NAMESPACE))
        for segment in self.cut:
            live_out = frozenset().union(*(self.live_in[k] for k in segment.successors()))
            SegmentEmitter(self, self._out, segment, live_out).emit()
        self.source = self._out.text
        exec(compile(self.source, f"<segments of {self.kernel.name}>", "exec"), self._out.namespace)
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
