"""One run of a program: its arguments, its waves of CTAs, and what it leaves behind."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from traceback import walk_stack, walk_tb
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors import SimulationError
from tilewright.isa import Access, Sync
from tilewright.sim.machine.batch import Batch
from tilewright.sim.machine.counts import Counts, Line
from tilewright.sim.machine.facets import Facet
from tilewright.sim.machine.masks import Mask
from tilewright.sim.machine.overlaps import blocks_of
from tilewright.sim.machine.wave import Wave
from tilewright.sim.run.limits import Watch
from tilewright.sim.run.printed import Printed
from tilewright.sim.run.progress import Display
from tilewright.sim.run.schedule import Scheduler

if TYPE_CHECKING:
    from types import TracebackType

    from tilewright.errors import Span
    from tilewright.host import Limits
    from tilewright.isa import Fence, ProxyFence, RegisterFence
    from tilewright.sim.checks import Check
    from tilewright.sim.machine.address import Part
    from tilewright.sim.machine.batch import Look
    from tilewright.sim.machine.masks import Value
    from tilewright.sim.machine.pending import Operation
    from tilewright.sim.machine.places import Place
    from tilewright.sim.machine.wave import Storage
    from tilewright.sim.run.program import Program

__all__ = ["Execution", "Run"]

WAVE_BYTES = 3 << 20  # shared memory, registers and temporaries of the CTAs that run together
LEAST_LANES = 16384  # fewer, and the cost of a statement is that of Python
MOST_LANES = 1 << 17
FEW_BYTES = 1 << 28  # that nobody asks for whether they are there
LANE_BYTES = 24  # of temporaries, for each lane


@dataclass(frozen=True, slots=True)
class Run:
    """What a run leaves besides its arrays. output: what ``printf`` wrote, its first MiB."""

    counts: Counts
    warnings: list[str] = field(default_factory=list)
    output: str = ""


class Execution:
    """A run while it goes on."""

    def __init__(
        self,
        program: Program,
        arrays: Mapping[str, np.ndarray[Any, Any]],
        scalars: Mapping[str, Any],
        checks: list[Check],
        limits: Limits,
        *,
        backwards: bool = False,
    ) -> None:
        """arrays: by the name of the buffer. backwards: the last CTA, warp and lane goes first where it may."""
        self.program = program
        self.backwards = backwards
        self.places = program.places
        self.scalars = program.bound_scalars(scalars)
        self.blocks = blocks_of(arrays, program.groups)
        self.sizes = {name: block.nbytes for name, block in self.blocks.items()} | {
            name: array.nbytes for name, array in arrays.items()
        }
        self.checks = checks
        launch = program.launch
        self.grid: tuple[int, int, int] = tuple(program.number(extent, self.scalars) for extent in launch.grid)  # type: ignore[assignment]
        self.cluster = launch.cluster
        self.cluster_ctas = self.cluster[0] * self.cluster[1] * self.cluster[2]
        self.threads = launch.threads
        self.warps = launch.warps
        self.shared_bytes = launch.shared_bytes
        self.exists = (np.arange(self.warps * 32) < self.threads).reshape(1, self.warps, 32)
        self.warnings: list[str] = []
        self.printed = Printed()
        self.steps = 0
        self.watch = Watch(self, limits)
        self.tally = [0] * len(program.tallies)
        self.scheduler = Scheduler(self, program.segments, program.live)
        self.lines: dict[tuple[Any, ...], Line] = {}  # what asynchronous operations move
        self._next = 0
        self.open: list[Wave] = []  # waves that run
        self._cta_bytes = self._bytes_of_a_cta()

    @property
    def ctas(self) -> int:
        """CTAs of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def ctas_done(self) -> int:
        """CTAs of the waves that are done."""
        return self._next - sum(wave.ctas for wave in self.open)

    def line(self, stop: TracebackType | None = None) -> Span | None:
        """The kernel's line that is running, or was when ``stop`` was raised."""
        for frame, number in walk_tb(stop) if stop is not None else walk_stack(None):
            if frame.f_globals is self.program.namespace:
                return self.program.line(number)
        batch = self.scheduler.current
        return self.program.place_of(batch.segment) if batch is not None else None

    # Running

    def run(self, progress: Callable[[int, int], None] | None) -> None:
        """The whole grid, a wave at a time. On a terminal it shows itself how far it has come, unless it tells
        ``progress``. Raises SimulationError at a limit; KeyboardInterrupt says where it was.
        """
        display = Display(self.program.kernel.name, self.ctas) if progress is None and sys.stderr.isatty() else None
        self.watch.show = display.show if display else None
        try:
            self._run(progress)
        except KeyboardInterrupt as stop:
            line = self.line(stop.__traceback__)
            where = f" at {line}" if line else ""
            name = self.program.kernel.name
            raise KeyboardInterrupt(f"{name} was stopped{where}: {self.watch.progress()}") from None
        finally:
            if display is not None:
                display.close()

    def _run(self, progress: Callable[[int, int], None] | None) -> None:
        for check in self.checks:
            check.begin(self)
        while self.admit():
            self.scheduler.run_all()
            while self.open:
                for check in self.checks:
                    check.ended(self.open[-1])
                self.open.pop().close()
            if progress is not None:
                progress(self._next, self.ctas)
        for check in self.checks:
            check.finish(self)

    def admit(self) -> bool:
        """Starts the next wave; False where no CTA is left. Raises SimulationError where memory is short."""
        size = min(self._wave_ctas(), self.ctas - self._next)
        if size <= 0:
            return False
        self.watch.look(monotonic())
        wave = Wave(self, self.ctas - self._next - size if self.backwards else self._next, size)
        self.open.append(wave)
        for check in self.checks:
            check.start(wave)
        self._next += size
        shape = (size, self.warps, 32)
        mask = Mask(shape, None if self.exists.all() else self.exists)
        self.scheduler.ready.append(Batch(wave, slice(0, size, 1), slice(0, self.warps, 1), mask))
        return True

    def _wave_ctas(self) -> int:
        """As many CTAs as cache well, not under `LEAST_LANES` where memory allows, whole clusters."""
        lanes = self.warps * 32
        each = self.shared_bytes + lanes * (self._register_bytes + LANE_BYTES)
        size = max(LEAST_LANES // lanes, min(WAVE_BYTES // each, MOST_LANES // lanes), 1)
        clusters = -(-size // self.cluster_ctas)
        return min(clusters, self._clusters_that_fit(clusters)) * self.cluster_ctas

    @property
    def _register_bytes(self) -> int:
        """Of a thread."""
        return sum(place.nbytes for place in self.places.locals)

    def _bytes_of_a_cta(self) -> int:
        each = self.shared_bytes + self.warps * 32 * self._register_bytes
        return 2 * each if self.program.with_shadows else each

    def _clusters_that_fit(self, wanted: int) -> int:
        """How many of ``wanted`` clusters, besides the CTAs that run. Raises SimulationError where there is no room."""
        each = self._cta_bytes * self.cluster_ctas
        taken = self._cta_bytes * sum(wave.ctas for wave in self.open)
        if self.watch.limits.nbytes is None and taken + wanted * each < FEW_BYTES:
            return wanted
        place = max(self.places.stored, key=lambda place: place.nbytes, default=None)
        what = f"{self.cluster_ctas} CTAs" if self.cluster_ctas > 1 else "a CTA"
        what = f"{what}, most of it for {place.name}" if place else what
        self.watch.check_room(taken + each, what, self.program.line_of(place))
        return (self.watch.room() - taken) // max(1, each)

    def thread_parts(self, warps: slice) -> dict[int, Part]:
        """Address parts that depend on thread numbers only, kept for all runs of the program."""
        return self.program.thread_parts.setdefault((warps.start, warps.stop, warps.step), {})

    # What generated code and instructions ask

    @staticmethod
    def plain(batch: Look, place: Place) -> Storage:
        """The bytes of a place themselves."""
        return batch.wave.storage(place)

    def ordered(self, batch: Batch, mask: Mask, what: Sync | Fence | ProxyFence | RegisterFence, at: Span | None) -> None:
        """A fence, or the lanes of whole warps meeting where none of them can be elsewhere."""
        if not isinstance(what, Sync):
            for check in self.checks:
                check.fenced(batch, mask, what)
            return
        active = mask.full
        if (
            mask.array is not None
            and not (active == (self.exists[:, batch.warps] & active.any(-1, keepdims=True))).all()
        ):
            raise SimulationError(
                "divergence: a warp meets without all of its lanes",
                given=f"{mask.lanes} of {mask.warps * 32} lanes active",
                allowed="all lanes of the warp",
                at=at,
            )
        for check in self.checks:
            check.warps_met(batch, mask)

    def assumed(self, batch: Batch, mask: Mask, holds: Value, text: str, at: Span | None) -> None:
        """An assumption of the kernel, or of a layout about which thread it is."""
        fails = mask.narrowed(~holds if isinstance(holds, np.ndarray | np.bool_) else not holds)
        if fails is not None:
            Facet(batch, mask, at, self.plain).fault(f"`{text}` does not hold", fails.full)

    def fingerprint(self, polling: list[Batch]) -> int:
        """A number that changes when anything does that a poll could see."""
        memories = [block.data for block in self.blocks.values()] + [batch.wave.shared.data for batch in polling]
        values = [batch.env[name] for batch in polling for name in sorted(batch.env)]
        total = zlib.crc32(repr([(batch.segment, batch.shape) for batch in polling]).encode())
        for array in (*memories, *values):
            total = zlib.crc32(np.ascontiguousarray(array).tobytes(), total)
        return total

    def moves(self, operation: Operation) -> None:
        """Counts what an asynchronous operation is going to read and write."""
        at, op = operation.instruction.at, operation.instruction.bound.instruction.name
        for one in operation.touched:
            if isinstance(one.effect, Access) and one.effect.computed and one.at.size:  # others are at their site
                where = (self.places.holding(one.space, int(one.at.flat[0])).name, one.space, one.writes)
                line = self.lines.setdefault((at, op, *where), Line(at, op, *where))
                line.accesses += int(one.touches.sum())
                line.nbytes += one.bytes_moved
                line.warps += operation.mask.warps

    # Results

    def result(self) -> Run:
        """What was counted, warned of and printed."""
        counts = Counts()
        for name, warps in zip(self.program.tallies, self.tally, strict=True):
            if warps:
                counts.instructions[name] = counts.instructions.get(name, 0) + warps
        rows: dict[tuple[object, ...], Line] = {}  # one for what a line of the kernel does to a buffer, however often
        for site in self.program.sites:
            for line in site.lines():
                if line.space != "local" or line.op != "register":
                    key = (str(line.at), line.op, line.buffer, line.space, line.write)
                    rows[key] = rows[key].joined(line) if key in rows else line
        counts.lines = list(rows.values())
        if self.lines:
            every = (*counts.lines, *self.lines.values())
            counts.lines = sorted(every, key=lambda line: line.at.line if line.at else 0)
        for line in counts.lines:
            into = counts.bytes_written if line.write else counts.bytes_read
            into[line.space] = into.get(line.space, 0) + line.nbytes
            if line.op in ("load", "store"):
                name = f"{line.op} {line.space}"
                counts.instructions[name] = counts.instructions.get(name, 0) + line.warps
        return Run(counts, [*self.warnings, *self.printed.warnings()], "".join(self.printed.lines))
