"""The smallest launch of a kernel that still reaches every branch which a given launch reaches.

Each way of a branch, and the first two turns of each loop, get a mark in memory of the thread's own; a run that
looks at bounds alone says which of them are left. A launch with fewer CTAs, or of smaller numbers, is as good where it
leaves the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import gcd
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import ir
from tilewright.dtypes import dtype
from tilewright.errors import SimulationError, Span, TilewrightError
from tilewright.host import Limits
from tilewright.isa import bind
from tilewright.load import LoadedKernel
from tilewright.load.reach import MemoryReach
from tilewright.records import replace
from tilewright.trials import variables_of

if TYPE_CHECKING:
    from tilewright.load.reach import Reached
    from tilewright.ptx import Lowered
    from tilewright.sim import Program
    from tilewright.sim.machine.event import AccessEvent
    from tilewright.sim.machine.sites import Site

TILE = 128  # the largest that numbers stay multiples of
SECONDS = 20.0  # for all trials
LEAST = 2  # CTAs along an axis that has several: one alone meets nobody
_BYTE, _BUFFER = dtype("uint8"), "marks_of_branches"

Launch = tuple[LoadedKernel, Sequence[Any], Mapping[str, Any]]
"""A kernel, its arguments, and ``grid``, ``block`` and so on."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """The blocks of code that a launch reaches, and by what: by one lane, or by several lanes, warps or CTAs together.

    blocks: the lines of all of them, where they have one. turns: the blocks of the first turn, and of any later one, of
    each loop in which the threads of a CTA meet. ends, places: how far it reaches into arrays, as `MemoryReach` has it.
    """

    reached: frozenset[tuple[int, str]]
    blocks: tuple[Span | None, ...]
    turns: tuple[tuple[int, int], ...] = ()
    ends: Mapping[str, int] = field(default_factory=dict)
    places: Mapping[str, Sequence[Reached]] = field(default_factory=dict)

    @property
    def turns_once(self) -> bool:
        """Has a loop in which threads meet no second turn in any thread? Nobody meets what the first one leaves."""
        blocks = {block for block, _ in self.reached}
        return any(first in blocks and later not in blocks for first, later in self.turns)

    @property
    def as_data(self) -> dict[str, Any]:
        """What a verdict has of it."""
        blocks = {block for block, _ in self.reached}
        left = {at.line for n, at in enumerate(self.blocks) if at is not None and n not in blocks}
        return {"reached": len(blocks), "blocks": len(self.blocks), "lines_not_reached": sorted(left)}


class _Marks:
    """Puts a mark into every block of a kernel's code, and numbers its statements."""

    def __init__(self) -> None:
        self.blocks: list[Span | None] = []
        self.turned: list[ir.Stmt] = []
        self.turns: list[tuple[int, int]] = []
        self.statements = 0

    def marked(self, kernel: ir.Kernel) -> ir.Kernel:
        body = self._body(kernel.body)
        buffer = ir.Buffer(_BUFFER, _BYTE, (len(self.blocks) + -len(self.blocks) % 16 or 16,), "local", None, align=16)
        allocated = [n for n, stmt in enumerate(body) if isinstance(stmt, ir.AllocBuffer)]
        at = allocated[-1] + 1 if allocated else 0
        body = (*body[:at], ir.AllocBuffer(buffer), *self.turned, *body[at:])
        return replace(kernel, body=ir.map_body(body, partial(_stored, buffer)))

    def _mark(self, at: Span | None) -> ir.Stmt:
        self.blocks.append(at)
        return ir.Assign(ir.Var(f"{_BUFFER}_{len(self.blocks) - 1}", _BYTE), ir.as_expr(1, _BYTE), at=at)

    def _body(self, body: ir.Body) -> ir.Body:
        stmts: list[ir.Stmt] = []
        for stmt in body:
            if isinstance(stmt, ir.If):
                then = (self._mark(_first(stmt.then) or stmt.at), *self._body(stmt.then))
                other = (self._mark(_first(stmt.orelse) or stmt.at), *self._body(stmt.orelse))
                stmts.append(replace(stmt, then=then, orelse=other))
            elif isinstance(stmt, (ir.For, ir.While)):
                stmts += self._loop(stmt)
            elif stmt.at is not None:  # accesses of one line are told apart
                self.statements += 1
                stmts.append(replace(stmt, at=replace(stmt.at, column=self.statements)))
            else:
                stmts.append(stmt)
        return tuple(stmts)

    def _loop(self, stmt: ir.For | ir.While) -> Iterator[ir.Stmt]:
        """A loop with marks for its first turn, and for any later one."""
        at = _first(stmt.body) or stmt.at
        turned = ir.Var(f"turned_{len(self.turned)}", _BYTE)
        no, yes = ir.as_expr(0, _BYTE), ir.as_expr(1, _BYTE)
        self.turned.append(ir.Bind(turned, no))
        later, first = self._mark(at), self._mark(at)
        if _meets(stmt.body):
            self.turns.append((len(self.blocks) - 1, len(self.blocks) - 2))
        again = ir.If(ir.binary("==", turned, yes), (later,), (first,), at=at)
        yield ir.Assign(turned, no, at=stmt.at)
        yield replace(stmt, body=(again, ir.Assign(turned, yes, at=at), *self._body(stmt.body)))


def _first(body: ir.Body) -> Span | None:
    return next((stmt.at for stmt in body if stmt.at is not None), None)


def _meets(body: ir.Body) -> bool:
    """Do the threads of a CTA meet there?"""
    calls = (stmt.value for stmt in ir.statements(body) if isinstance(stmt, ir.Evaluate))
    syncs = (bind(call).form.sync for call in calls if isinstance(call, ir.Call))
    return any(sync is not None and sync.scope in ("cta", "named") for sync in syncs)


def _stored(buffer: ir.Buffer, stmt: ir.Stmt) -> ir.Body | None:
    """A mark as the store that it is."""
    if not isinstance(stmt, ir.Assign) or not stmt.var.name.startswith(_BUFFER):
        return None
    place = ir.Load(buffer, (ir.as_expr(int(stmt.var.name.rpartition("_")[2]), dtype("int32")),))
    return (ir.Store(place, stmt.value, at=stmt.at),)


class _Looks:
    """Runs that look how much of a kernel, and of its arrays, launches reach. What is made of the kernel for one of
    them serves others.
    """

    def __init__(self, kernel: LoadedKernel) -> None:
        self.kernel, self.written = kernel.changed(self._marked), kernel.written
        self.programs: dict[object, tuple[Lowered, Program]] = {}
        self._marks = _Marks()  # of the program that was made last
        self._watched: dict[Program, _Watched] = {}

    def _marked(self, kernel: ir.Kernel) -> ir.Kernel:
        self._marks = _Marks()
        return self._marks.marked(kernel)

    def watch(self, program: Program) -> _Watched:
        """What hears of the next run of a program."""
        if program not in self._watched:
            self._watched[program] = _Watched(self._marks, program)
        self._watched[program].clear()
        return self._watched[program]


class _Watched:
    """What the run of a program reaches: marks, and bytes of arrays."""

    def __init__(self, marks: _Marks, program: Program) -> None:
        self.marks, self.reached, self.reach = marks, set[tuple[int, str]](), MemoryReach("global")
        self.reach.subscribe(program)
        for site in program.compiled.sites:
            if site.place is not None and site.place.name == _BUFFER:
                site.hooks += (partial(_note, self.reached, site),)

    def clear(self) -> None:
        self.reached.clear()
        self.reach.clear()

    @property
    def coverage(self) -> Coverage:
        reach, marks = self.reach, self.marks
        places = {name: (*places.values(),) for name, places in reach.places.items()}
        return Coverage(frozenset(self.reached), tuple(marks.blocks), tuple(marks.turns), dict(reach.ends), places)


def coverage_of(
    launch: Launch, limits: Limits | None = None, spares: Callable[[SimulationError], bool] = lambda error: False
) -> Coverage:
    """What a launch reaches, by a run on copies of its arguments that looks at bounds alone; variables of the device
    stay as they are. limits: of the run. Raises what the run raises, but errors that are spared.
    """
    kernel, args, shape = launch
    looks: _Looks | None = kernel.looks
    if looks is None or looks.written is not kernel.written:
        looks = kernel.looks = _Looks(kernel)
    watched = list[_Watched]()
    variables = variables_of(kernel)
    try:
        looks.kernel._run_watched(
            args, shape, frozenset({"bounds"}), lambda program: watched.append(looks.watch(program)),
            replace(limits or Limits(), passes=False), looks.programs,
        )  # fmt: skip
    except SimulationError as error:
        if not watched or not spares(error):
            raise
    finally:
        kernel.module._put_globals(variables)
    return watched[0].coverage


def _note(reached: set[tuple[int, str]], site: Site, event: AccessEvent) -> None:
    warps = event.team.full.sum(2)
    several = {"lanes": warps, "warps": (warps > 0).sum(1), "CTAs": (warps.sum(1) > 0).sum()}
    together = ["lane", *(name for name, many in several.items() if np.max(many) > 1)]
    reached.update((int(at.lo) // site.width, name) for at in event.every for name in together)


def smallest(
    launch: Callable[[Mapping[str, int]], Launch], start: Mapping[str, int], tile: int = TILE
) -> tuple[dict[str, int], Coverage]:
    """The smallest numbers with which a launch reaches what it reaches with those of ``start``, and what that is.

    launch: the one for some numbers. tile: what the numbers stay multiples of, as far as they are. Each is halved for
    as long as nothing is lost, the largest first; 20 seconds are the most that is spent. Raises what the given launch
    raises.
    """
    began, numbers = monotonic(), dict(start)
    whole = coverage_of(launch(start))
    for name in sorted(start, key=lambda axis: -start[axis]):
        for value in _halves(start[name], gcd(start[name], tile)):
            if monotonic() - began > SECONDS:
                return numbers, whole
            try:
                other = coverage_of(launch({**numbers, name: value}))
            except (TilewrightError, MemoryError):
                continue
            if other.blocks == whole.blocks and other.reached >= whole.reached:
                numbers[name] = value
                break
    return numbers, whole


def _halves(value: int, tile: int) -> Iterator[int]:
    """Smaller numbers, the smallest first: halves, as multiples of a tile."""
    sizes = (-(-(value >> k) // tile) * tile for k in range(value.bit_length() - 1, 0, -1))
    return (size for size in dict.fromkeys(sizes) if size < value)


def smaller_grid(launch: Launch) -> tuple[Launch, Coverage]:
    """A launch with the fewest CTAs that reach what the given ones reach, two at least along an axis of several."""
    kernel, args, shape = launch
    grid = shape["grid"]
    grid = (grid,) if isinstance(grid, int) else tuple(grid)
    start = {str(axis): extent for axis, extent in enumerate(grid) if extent > LEAST}

    def launch_of(extents: Mapping[str, int]) -> Launch:
        chosen = tuple(max(LEAST, extents[str(axis)]) if str(axis) in extents else extent
                       for axis, extent in enumerate(grid))  # fmt: skip
        return kernel, args, {**shape, "grid": chosen}

    chosen, whole = smallest(launch_of, start, tile=1)
    return launch_of(chosen), whole
