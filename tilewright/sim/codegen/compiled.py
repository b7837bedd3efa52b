"""A lowered kernel compiled for the simulator: cut into segments, each of them a Python function."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, cast

from tilewright.ir import deep_recursion
from tilewright.sim.codegen.analysis import Analysed
from tilewright.sim.codegen.functions import NAMESPACE, SegmentEmitter
from tilewright.sim.codegen.nesting import compiled
from tilewright.sim.codegen.source import PySource

if TYPE_CHECKING:
    from collections.abc import Callable

    from tilewright.errors import Span
    from tilewright.ir import Kernel
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.overlaps import Group

__all__ = ["Compiled"]

Function: TypeAlias = "Callable[[Batch], int | None]"  # of a segment: which one comes next


class Compiled(Analysed):
    """A kernel with its functions, ``segments``. `source` shows them; they run in `namespace`."""

    @deep_recursion()
    def __init__(
        self, kernel: Kernel, checks: frozenset[str], groups: tuple[Group, ...] = (), *, follows: bool = False
    ) -> None:
        super().__init__(kernel, checks, groups, follows=follows)
        out = PySource(dict(NAMESPACE))
        for segment in self.cut:
            live_out = frozenset().union(*(self.live_in[k] for k in segment.end.targets))
            SegmentEmitter(self, out, segment, live_out).emit()
        self.source = out.text
        self.namespace = out.namespace
        self._spans = out.spans
        exec(compiled(out.lines, f"<segments of {self.kernel.name}>"), out.namespace)
        self.segments = [cast("Function", out.namespace[f"segment_{segment.index}"]) for segment in self.cut]

    def line(self, number: int) -> Span | None:
        """The kernel's line that a line of `source` comes from, counted from 1."""
        return self._spans[number - 1]
