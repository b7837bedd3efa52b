"""One run of a program: its arguments, its waves of CTAs, its results; and its limits, which are checked between parts
of loops, so that they cost nothing: time, steps, memory.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from ctypes import c_ulong, py_object, pythonapi
from dataclasses import dataclass, field
from itertools import chain, repeat
from operator import attrgetter, length_hint
from threading import Condition, Lock, Thread, get_ident
from time import monotonic
from traceback import walk_stack, walk_tb
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from tilewright import ir
from tilewright.dtypes import INT64
from tilewright.errors import ArgumentError, SimulationError
from tilewright.explain import Finding
from tilewright.host import MOST_SECONDS, MOST_STEPS, Limits, available_bytes, bytes_text
from tilewright.ir.tensor_map import MAP_BYTES, MapFields, mapped
from tilewright.public import at_the_edge
from tilewright.records import NotebookText, replace
from tilewright.sim.machine import Batch, Counts, Device, Line, Look, Team, Wave
from tilewright.sim.machine.memory import keep_pages
from tilewright.sim.machine.places import MULTICAST, BufferPlaces, OfRank, Ranks, groups_of
from tilewright.sim.machine.precedence import FORWARDS, Precedence
from tilewright.sim.run.schedule import Scheduler
from tilewright.terms import Term, option, symbol, told

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from rich.progress import Progress, TaskID

    from tilewright.errors import Span
    from tilewright.ir import Number
    from tilewright.sim.codegen.compiled import Compiled
    from tilewright.sim.machine import Array
    from tilewright.sim.record import Recording
    from tilewright.view.look import Timeline


# Limits of a run, checked between parts of loops, so that they cost nothing: time, steps, memory; its progress bar.


T = TypeVar("T")

LATE = 0.05  # of the limit of time: so much later the alarm rings, as parts of loops see the limit themselves
AGAIN = 0.5  # seconds until it rings again, as a callback of the garbage collector that hears it drops it; long enough
# that a run which has heard it has ended


class OutOfTime(BaseException):
    """The alarm of a run; no handler of errors takes it for one of its own."""


@dataclass(eq=False, slots=True)
class _Alarm:
    """When the run of a thread is to be interrupted next."""

    due: float
    watch: Watch
    thread: int


DUE = attrgetter("due")


class _Alarms:
    """The alarms of all runs, and the thread that rings them: one for the process, there from the first of them on."""

    def __init__(self) -> None:
        self.lock = Lock()  # `with` of it cannot be interrupted by an alarm before it is sure to let go
        self.changed = Condition(self.lock)
        self.kept: list[_Alarm] = []
        self.watcher: Thread | None = None

    def add(self, alarm: _Alarm) -> None:
        """Have it ring, until it is removed."""
        with self.lock:
            self.kept.append(alarm)
            if self.watcher is None:
                self.watcher = Thread(target=self._ring, name="tilewright limits", daemon=True)
                self.watcher.start()
            elif min(self.kept, key=DUE) is alarm:  # else the watcher wakes up in time
                self.changed.notify()

    def remove(self, alarm: _Alarm) -> None:
        """From now on it does not ring."""
        with self.lock:
            self.kept = [kept for kept in self.kept if kept is not alarm]

    def _ring(self) -> None:
        with self.changed:
            while True:
                self.changed.wait(min(map(DUE, self.kept)) - monotonic() if self.kept else None)
                for alarm in [waiting for waiting in self.kept if waiting.due <= monotonic()]:
                    alarm.due = monotonic() + AGAIN
                    alarm.watch.rung_in = alarm.watch.loops[-1:] or alarm.watch.rung_in
                    # at its next call of a Python function, or turn of a loop; never taken back, as CPython 3.11 then
                    # looks for it for ever, slowly, and under a profiler without end
                    pythonapi.PyThreadState_SetAsyncExc(c_ulong(alarm.thread), py_object(OutOfTime))


ALARMS = _Alarms()
if hasattr(os, "register_at_fork"):  # a child has no such thread
    os.register_at_fork(after_in_child=ALARMS.__init__)  # type: ignore[misc]  # a fresh one, whoever held its lock

FIRST_TURNS = 1  # turns of a loop before the first look at the clock: each may hold loops of thousands
INTERVAL = 0.02  # seconds between two looks at the clock
PATIENCE = 2.0  # seconds that a run may take before it shows a bar
TICK = 0.25  # seconds between two changes of the bar


@dataclass(eq=False, slots=True)
class _LoopUnderWay:
    """A loop that is under way. turns: of how many, None where that is not known."""

    turns: int | None
    done: int = 0


class Watch:
    """Looks at the clock of one run, about every `INTERVAL`. show: gets CTAs done, in parts of one, and the line."""

    def __init__(self, run: Execution, limits: Limits, started: float | None = None) -> None:
        self.run = run
        self.limits = limits
        self.show: Callable[[float, Span | None], None] | None = None
        self.seen = monotonic()
        self.started = self.seen if started is None else started
        self.turns = 0  # turns of loops inside of segments
        self.loops: list[_LoopUnderWay] = []  # the loops that are under way, the outermost first
        self.rung_in: list[_LoopUnderWay] = []  # the innermost of them as the alarm rang
        self.next_step = 0  # the step of the scheduler before the next look
        self._stride = 1

    # Inside of segments

    def counted(self, turns: range) -> Iterator[int]:
        """The numbers of a loop's turns."""
        return chain.from_iterable(self._parts(len(turns), lambda first, last: turns[first:last]))

    def endless(self) -> Iterator[None]:
        """One item for each turn of a loop that only a `break` ends."""
        return chain.from_iterable(self._parts(None, lambda first, last: repeat(None, last - first)))

    def _parts(self, turns: int | None, part: Callable[[int, int], Iterable[T]]) -> Iterator[Iterable[T]]:
        """A loop's turns a part at a time, so that C goes through each; parts grow until one takes `INTERVAL`."""
        loop, size = _LoopUnderWay(turns), FIRST_TURNS
        self.loops.append(loop)
        under_way: Iterator[T] = iter(())
        try:
            while turns is None or loop.done < turns:
                began = monotonic()
                self.look(began)
                size = min(size, self.left(), size if turns is None else turns - loop.done)
                under_way = iter(part(loop.done, loop.done + size))
                loop.done += size
                self.turns += size
                yield under_way
                size = 2 * size if monotonic() - began < INTERVAL else max(1, size // 2)
        finally:
            self.turns -= length_hint(under_way)
            self.loops.remove(loop)

    # Between them

    def stepped(self) -> None:
        """The scheduler has come to `next_step`."""
        now = monotonic()
        self._stride = 2 * self._stride if now - self.seen < INTERVAL / 2 else max(1, self._stride // 4)
        self.look(now)
        self.next_step = self.run.steps + min(self._stride, self.left())

    def left(self) -> int:
        """Steps that are left."""
        most = self.limits.steps
        return 1 << 62 if most is None else max(0, most - self.turns - self.run.steps)

    def look(self, now: float) -> None:
        """Raises SimulationError where a limit is reached; else shows how far the run has come."""
        self.seen = now
        if self.limits.seconds is not None and now - self.started > self.limits.seconds:
            raise self.out_of_time(self.run.line())
        if self.left() == 0:
            raise self._stopped(f"{self.limits.steps:,} steps", "limit_steps", self.limits.steps, self.run.line())
        if self.show is not None:
            self.show(self.done, self.run.line())

    @property
    def done(self) -> float:
        """CTAs that are done; those that run count in part where a loop shows how far they are."""
        run = self.run
        loop = self.loops[0] if self.loops else None
        part = loop.done / loop.turns if loop and loop.turns else 0
        return run.ctas_done + part * sum(wave.ctas for wave in run.open)

    def progress(self) -> str:
        """How far the run has come, in words."""
        turns = [
            f"{loop.done:,}" + (f" of {loop.turns:,}" if loop.turns else "") for loop in self.loops[-1:] or self.rung_in
        ]
        steps = f"{self.turns + self.run.steps:,} steps in {self.seconds:.1f} s"
        done = f"{self.run.ctas_done:,} of {self.run.ctas:,} CTAs done"
        if self.run.not_begun:
            done += f", {self.run.ctas - self.run.not_begun:,} begun"
        return "; ".join([*(f"turn {turn} of the loop" for turn in turns), done, steps])

    @property
    def seconds(self) -> float:
        """Since the run began."""
        return monotonic() - self.started

    def out_of_time(self, at: Span | None) -> SimulationError:
        """The error at the limit of time."""
        seconds = f"{self.limits.seconds:g}"
        return self._stopped(f"{seconds} s", "limit_s", seconds, at)

    def _stopped(self, limit: str, name: str, value: object, at: Span | None) -> SimulationError:
        default = self.limits.seconds == MOST_SECONDS if name == "limit_s" else self.limits.steps == MOST_STEPS
        return SimulationError(
            told("{} is stopped at its limit of {}", symbol(self.run.program.kernel.name), limit),
            given=self.progress(),
            allowed=told("{}{}", option(name, value), ", which is the default" if default else ""),
            hint=f"a larger {name}, or {name}=None for none" if default else None,
            at=at,
            kind="limit",
        )

    @contextmanager
    def alarm(self) -> Iterator[None]:
        """A context that is left by `OutOfTime` at the limit of time, wherever the thread is then: in a loop over the
        turns of an atomic, in one statement of thousands of CTAs. Between parts of loops `look` is in time itself.
        """
        if self.limits.seconds is None:
            yield
            return
        alarm = _Alarm(self.started + (1 + LATE) * self.limits.seconds, self, get_ident())
        ALARMS.add(alarm)
        try:
            try:
                yield
            finally:
                ALARMS.remove(alarm)
        finally:
            ALARMS.remove(alarm)  # it may have rung before the line above was done
            for _ in range(2):  # if it has rung, it is raised here at the latest
                monotonic()

    # Memory

    def room(self) -> int:
        """Bytes that the CTAs which run together may take."""
        return available_bytes() if self.limits.nbytes is None else self.limits.nbytes

    def check_room(self, needed: int, what: str, at: Span | None) -> None:
        """Raises SimulationError where that many bytes are not there."""
        room = self.room()
        if needed > room:
            limit: str | Term = "that this machine has left"
            if self.limits.nbytes is not None:
                limit = option("limit_bytes", self.limits.nbytes)
            lacks = told("{} needs more memory than there is", symbol(self.run.program.kernel.name))
            shown, allowed = f"{bytes_text(needed)} for {what}", told("{}, {}", bytes_text(room), limit)
            raise SimulationError(lacks, given=shown, allowed=allowed, at=at, kind="limit")


class Display:
    """A bar on standard error, there from `PATIENCE` on until `close`. total: CTAs."""

    def __init__(self, name: str, total: int) -> None:
        self.name = name
        self.total = total
        self.due = monotonic() + PATIENCE
        self.bar: tuple[Progress, TaskID] | None = None

    def show(self, done: float, at: Span | None) -> None:
        """Show how many CTAs are done, counting parts of those that run; ``at`` is the line that runs."""
        now = monotonic()
        if now < self.due:
            return
        self.due = now + TICK
        words = f"{int(done):,} of {self.total:,} CTAs" + (f", at {at}" if at else "")
        bar, task = self.bar = self.bar or self._begun(words)
        bar.update(task, completed=done, words=words)
        bar.refresh()

    def _begun(self, words: str) -> tuple[Progress, TaskID]:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        name, words_column = (TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[words]}"))
        columns = name, BarColumn(), words_column, TimeRemainingColumn()
        bar = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
        task = bar.add_task(f"simulating {self.name}", total=self.total, words=words)
        bar.start()
        return bar, task

    def close(self) -> None:
        """Takes the bar away."""
        if self.bar is not None:
            self.bar[0].stop()


# One run of a program: its arguments, its waves of CTAs, and its results.
#
# A kernel on several GPUs: one run, in which each buffer lies once for each of them, and their CTAs one GPU's after
# the other's.
#
# The memory of a GPU is a part of each buffer's window, and the parts are ``pitch`` bytes apart; in between is nothing.
# So an access of an own array begins where the thread's GPU has it, and a pointer to a peer's leads into another part.


GAP = 4096  # bytes between what two GPUs have of a buffer, at least


def over_ranks(kernel: ir.Kernel, ranks: Ranks) -> ir.Kernel:
    """A lowered kernel, as each of several GPUs runs it: its own arrays begin where they lie for the thread's GPU, and
    the parameter that tells the rank is a register.
    """
    rank, name, parts = ir.cast(ir.special(ir.RANK), INT64), kernel.attr("rank"), dict(ranks.parts)

    def change(node: ir.Expr) -> ir.Expr | None:
        if isinstance(node, ir.Var) and node.name == name:
            return ir.special(ir.RANK)
        if isinstance(node, ir.Load | ir.AddressOf) and node.buffer.name in parts:
            elements = parts[node.buffer.name].pitch * 8 // node.buffer.dtype.bits
            index = node.indices[0] if node.indices else 0
            return replace(node, indices=(ir.cast(index, INT64) + rank * elements,))
        return None

    return replace(kernel, body=ir.rewrite(kernel.body, change))


@dataclass(frozen=True, slots=True)
class Several:
    """The arrays of several GPUs as one run has them. arrays: by buffer, those of all GPUs."""

    ranks: Ranks
    arrays: Mapping[str, Array]

    @classmethod
    @contextmanager
    def of(
        cls,
        kernel: ir.Kernel,
        of_ranks: Sequence[Mapping[str, Array]],
        maps: Sequence[Mapping[str, MapFields]],
        scalars: Mapping[str, Number],
    ) -> Iterator[Several]:
        """Of the arrays of each GPU, by buffer; changed in place at the end. Pointers to peers, and the bytes of tensor
        maps, are made here. maps: those that the caller makes, of each GPU.
        """
        count, symmetric = len(of_ranks), [buffer for buffer in kernel.buffers if buffer.peers]
        shared = {buffer.name for buffer in symmetric}
        tables = {buffer.pointers.name: buffer.name for buffer in symmetric}
        sizes = {name: array.nbytes for name, array in of_ranks[0].items()}
        sizes |= {table: 8 * (count + 1) for table in tables} | {row.name: MAP_BYTES for row in kernel.maps}
        parts = {name: OfRank(nbytes, (-(-nbytes // GAP) + 1) * GAP, name in shared) for name, nbytes in sizes.items()}
        arrays = {name: np.zeros(count * part.pitch, np.uint8) for name, part in parts.items()}
        bases = {name: place.base for name, place in BufferPlaces(kernel).by_name.items()}
        for rank, mine in enumerate(of_ranks):
            _check_apart(kernel, mine, rank)
            for name, array in mine.items():
                _bytes(arrays[name], parts[name], rank)[:] = _octets(array)
            for table, name in tables.items():
                peers = [*(bases[name] + parts[name].pitch * np.arange(count)), bases[name] + MULTICAST]
                _bytes(arrays[table], parts[table], rank)[:] = np.array(peers, np.int64).view(np.uint8)
            starts = {name: base + rank * parts[name].pitch for name, base in bases.items() if name in parts}
            for name, data in encoded(kernel, starts, maps[rank], scalars):
                _bytes(arrays[name], parts[name], rank)[:] = np.frombuffer(data, np.uint8)
        try:
            yield cls(Ranks(count, tuple(parts.items())), arrays)
        finally:
            for rank, mine in enumerate(of_ranks):
                for name, array in mine.items():
                    if array.flags.writeable:
                        _octets(array)[:] = _bytes(arrays[name], parts[name], rank)


def encoded(
    kernel: ir.Kernel, starts: Mapping[str, int], maps: Mapping[str, MapFields], scalars: Mapping[str, Number]
) -> Iterator[tuple[str, bytes]]:
    """The 128 bytes of each tensor map, with the address that its array has here. starts: of the buffers."""
    for tensor_map in kernel.maps:
        fields = tensor_map.fields(scalars) if tensor_map.is_made else maps[tensor_map.name]
        base = starts[tensor_map.of if tensor_map.is_made else mapped(tensor_map.name)]
        yield tensor_map.name, fields.at(base + (tensor_map.start(scalars) if tensor_map.is_made else 0)).encode()


def _check_apart(kernel: ir.Kernel, arrays: Mapping[str, Array], rank: int) -> None:
    if groups := groups_of(arrays):
        what = f"arguments of {kernel.name} on several GPUs share memory"
        shown = f"{' and '.join(name for name, _ in groups[0])} of rank {rank}"
        raise ArgumentError(what, given=shown, allowed="arrays that do not overlap")


def _octets(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


def _bytes(stacked: Array, part: OfRank, rank: int) -> Array:
    return stacked[rank * part.pitch : rank * part.pitch + part.nbytes]


WAVE_BYTES = 12 << 20  # shared memory, registers and temporaries of the CTAs that run together
LEAST_LANES = 16384  # with fewer lanes a statement costs what Python costs
MOST_LANES = 1 << 17
ISSUING = 2  # times as many lanes, as an operation of few costs as much Python as several statements of all
FEW_BYTES = 1 << 28  # so few bytes are taken without a check
LARGE = 64 << 20  # bytes of an array
LANE_BYTES = 24  # bytes of temporaries per lane


@dataclass(frozen=True, slots=True)
class Run(NotebookText):
    """The results of a run besides its arrays. output: what ``printf`` wrote, its first MiB.
    findings: the warnings as data. orders: the choices that runs have made, by name, the results' own first.
    may_differ: may values depend on who comes first, or on clocks? recording: what was recorded, where that was asked
    for. left_out: CTAs that did not run, of a sample. met_without: what is said of barriers that threads met at without
    some that had ended, by their lines.
    """

    counts: Counts
    warnings: list[str] = field(default_factory=list)
    output: str = ""
    findings: list[Finding] = field(default_factory=list)
    orders: tuple[str, ...] = ()
    may_differ: bool = False
    recording: Recording | None = None
    left_out: int = 0
    met_without: Mapping[Span | None, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        said = [f"warning: {warning}" for warning in self.warnings]
        printed = [f"printed {len(self.output)} characters"] if self.output else []
        return "\n".join([f"<Run: {self.counts.summary()}>", *said, *printed])

    @at_the_edge
    def timeline(self, path: str | Path | None = None, *, units: str = "cycles") -> Timeline:
        """The run warp by warp; see `Recording.timeline`. Raises ArgumentError for a run that is not recorded."""
        return self._recorded().timeline(path, units=units)

    @at_the_edge
    def page(self, path: str | Path | None = None) -> str:
        """The page of the run, one HTML file that needs nothing else. path: also written there."""
        return self._recorded().page(path)

    def _recorded(self) -> Recording:
        if self.recording is None:
            raise ArgumentError("this run is not recorded", given="record=False", allowed="simulate(..., record=True)")
        return self.recording

    def _repr_html_(self) -> str:
        """What a notebook shows: the page where the run is recorded, else warnings, and the counts of each line."""
        return NotebookText._repr_html_(self) if self.recording is None else self.recording._repr_html_()

    def _notebook_text(self) -> str:
        return "\n".join([repr(self), *self.counts.table()])


def _checksum(arrays: Iterable[Array], total: int) -> int:
    for array in arrays:
        flat = np.ascontiguousarray(array).reshape(-1)
        total = zlib.crc32(flat.tobytes() if flat.dtype.hasobject else flat.view(np.uint8).data, total)
    return total


class Execution(Device):
    """A device while it runs a kernel, a wave of CTAs after the other."""

    def __init__(
        self,
        program: Compiled,
        arrays: Mapping[str, Array],
        scalars: Mapping[str, Number],
        limits: Limits,
        *,
        precedence: Precedence = FORWARDS,
        started: float | None = None,
    ) -> None:
        """arrays: by the name of the buffer. started: when the first of several runs has, which the limits are for."""
        keep_pages()
        self.scalars = program.bound_scalars(scalars)
        super().__init__(program, arrays, program.grid(self.scalars), program.everyone, precedence)
        self.program: Compiled = program
        self.findings.most, self.counts_passes = limits.findings, limits.passes
        self.watch = Watch(self, limits, started)
        self.scheduler = Scheduler(self, program.segments, program.live)
        self._next, self._end = 0, self.ctas
        self._pitch, self.left_out = 0, 0  # waves between two that run, once that is known; CTAs that do not run
        self.open: list[Wave] = []  # the waves that run
        nbytes = self.shared_bytes + self.warps * 32 * self._register_bytes
        self._cta_bytes = 2 * nbytes if program.with_shadows else nbytes

    @property
    def ctas_done(self) -> int:
        """CTAs whose threads have all ended."""
        return self._next - sum(self._running(wave, self.scheduler.current) for wave in self.open)

    def line(self, stop: TracebackType | None = None) -> Span | None:
        """The kernel's line that is running, or was when ``stop`` was raised."""
        for frame, number in walk_tb(stop) if stop is not None else walk_stack(None):
            if frame.f_globals is self.program.namespace:
                return self.program.line(number)
        batch = self.scheduler.current
        return self.program.place_of(batch.segment) if batch is not None else None

    # Running

    def run(self, progress: Callable[[int, int], None] | None) -> None:
        """The whole grid, a wave at a time. It shows its progress on a terminal, unless it calls ``progress``. Raises
        SimulationError at a limit; KeyboardInterrupt says where it was.
        """
        display = Display(self.program.kernel.name, self.ctas) if progress is None and sys.stderr.isatty() else None
        self.watch.show = display.show if display else None
        try:
            with self.watch.alarm():
                self._run(progress)
        except OutOfTime as stop:
            raise self.findings.error(self.watch.out_of_time(self.line(stop.__traceback__))) from None
        except SimulationError as last:
            if self.unwritten == "found" or not self.findings:
                raise
            raise self.findings.error(last) from None
        except KeyboardInterrupt as stop:
            line = self.line(stop.__traceback__)
            where = f" at {line}" if line else ""
            name = self.program.kernel.name
            raise KeyboardInterrupt(f"{name} was stopped{where}: {self.watch.progress()}") from None
        finally:
            if display is not None:
                display.close()

    def _run(self, progress: Callable[[int, int], None] | None) -> None:
        self.events.begin(self)
        while self.admit():
            self.scheduler.run_all()
            while self.open:
                self.events.ended(self.open[-1])
                size = self.open[-1].ctas
                self.open.pop().close()
                self._spread(size)
            if progress is not None:
                progress(self._next, self.ctas)
        self.events.finish(self)
        if self.findings:
            raise self.findings.error()

    def _spread(self, size: int) -> None:
        """Leave out what stands between two waves that run, of a grid that takes too much; see `Limits.sample`."""
        if (most := self.watch.limits.sample) is None or self._may_wait or self.program.takes_over:
            return
        if not self._pitch:
            waves = max(1, most // max(1, sum(self.tally)) - 1)
            self._pitch = max(1, -(-self.not_begun // size) // waves)
        left = min((self._pitch - 1) * size, max(0, self.not_begun - size))
        self._next += left
        self.left_out += left

    def admit(self) -> bool:
        """Starts the next wave; False where no CTA is left. Raises SimulationError where memory is short."""
        size = min(self._wave_ctas(), self.not_begun)
        if self.program.takes_over:  # the GPU has room for half of them
            size = min(size, -(-self.ctas // self.cluster_ctas) // 2 * self.cluster_ctas or size)
        if size <= 0:
            return False
        self.watch.look(monotonic())
        first = self._next if self.program.takes_over else self.precedence.next_cta(self._next, size, self.ctas)
        wave = Wave(self, first, size)
        self.open.append(wave)
        self.events.start(wave)
        self._next += size
        look = Look(wave, slice(0, size, 1), slice(0, self.warps, 1), (size, self.warps, 32))
        whole = Batch(Team(look, None if self.exists.all() else self.exists))
        self.scheduler.begin(whole.apart(self.precedence.parts(first, whole.team.full)))
        return True

    def _wave_ctas(self) -> int:
        """As many CTAs as cache well, not under `LEAST_LANES` where memory allows, whole clusters."""
        lanes = self.warps * 32
        nbytes = self.shared_bytes + lanes * (self._register_bytes + LANE_BYTES)
        least = LEAST_LANES * (ISSUING if self.program.has_asynchronous else 1)
        size = max(least // lanes, min(WAVE_BYTES // nbytes, MOST_LANES // lanes), 1)
        if self.open or self._may_wait:
            size = min(size, self.room() // self.cluster_ctas * self.cluster_ctas)
        clusters = -(-size // self.cluster_ctas)
        return min(clusters, self._clusters_that_fit(clusters)) * self.cluster_ctas

    @property
    def _may_wait(self) -> bool:
        """Does any loop poll memory, so that CTAs may wait for others?"""
        return any(site.polls for site in self.program.sites)

    @property
    def not_begun(self) -> int:
        """CTAs that have yet to begin."""
        return self._end - self._next

    def end_after(self, last: int) -> None:
        """CTAs behind this one do not run at all."""
        self._end = min(self.ctas, last + 1)

    def take_cluster(self) -> int | None:
        """The last cluster that has not begun. In runs in which later warps go first the GPU begins them itself."""
        if self.precedence.backwards or self.not_begun < self.cluster_ctas:
            return None
        self._end -= self.cluster_ctas
        return self._end

    def room(self) -> int:
        """How many CTAs more the GPU has room for, besides those of open waves that have not ended."""
        most = self.watch.limits.ctas
        if most is None:
            return self.ctas
        return most - sum(map(self._running, self.open))

    def _running(self, wave: Wave, current: Batch | None = None) -> int:
        """How many CTAs of a wave have threads that have not ended. current: the batch that runs, if one does."""
        queue = self.scheduler
        batches = [*queue.ready, *queue.overtaking.batches, *queue.held, *([] if current is None else [current])]
        return int(queue.warps_in(wave, batches).any(1).sum())

    @property
    def _register_bytes(self) -> int:
        """Bytes of registers that one thread has."""
        return sum(place.nbytes for place in self.places.locals)

    def _clusters_that_fit(self, wanted: int) -> int:
        """How many of ``wanted`` clusters, besides the CTAs that run. Raises SimulationError where there is no room."""
        nbytes = self._cta_bytes * self.cluster_ctas
        taken = self._cta_bytes * sum(wave.ctas for wave in self.open)
        if self.watch.limits.nbytes is None and taken + wanted * nbytes < FEW_BYTES:
            return wanted
        place = max(self.places.stored, key=lambda place: place.nbytes, default=None)
        what = f"{self.cluster_ctas} CTAs" if self.cluster_ctas > 1 else "a CTA"
        what = f"{what}, most of it for {place.name}" if place else what
        self.watch.check_room(taken + nbytes, what, self.program.line_of(place))
        return (self.watch.room() - taken) // max(1, nbytes)

    def fingerprint(self, polling: list[Batch]) -> int:
        """A number that changes with every change that a poll could see: of large arrays those that nobody writes are
        left out, as to read them takes seconds.
        """
        stores = [site.place.name if site.place else None for site in self.program.sites if site.write]
        read_only = set() if None in stores else {*self.blocks} - {*stores}
        blocks = [block for name, block in self.blocks.items() if block.nbytes < LARGE or name not in read_only]
        memories = [*(block.data for block in blocks), *(batch.wave.shared.data for batch in polling)]
        return _checksum(memories, self.registers_of(polling))

    def registers_of(self, polling: list[Batch]) -> int:
        """The same for what threads that poll hold themselves: where that changes, memory need not be read."""
        values = [np.asarray(batch.env[name]) for batch in polling for name in sorted(batch.env)]
        refused = sum(wave.refusals.count for wave in self.open) if self.precedence.refuses else 0
        begun = repr([refused, *((batch.segment, batch.shape) for batch in polling)])
        return _checksum(values, zlib.crc32(begun.encode()))

    # Results

    def result(self) -> Run:
        """The counts, warnings and output of the run."""
        counts = Counts()
        for name, warps in zip(self.program.tallies, self.tally, strict=True):
            if warps:
                counts.instructions[name] = counts.instructions.get(name, 0) + warps
        rows: dict[tuple[object, ...], Line] = {}  # what a line of the kernel does to a buffer, however often
        for site in self.program.sites:
            for line in site.lines():
                if line.space != "local" or line.op != "register":
                    key = (str(line.at), line.op, line.buffer, line.space, line.write)
                    if key in rows:
                        rows[key].add(line)
                    else:
                        rows[key] = line
        counts.lines = [*rows.values()]
        if self.lines:
            every = (*counts.lines, *self.lines.values())
            counts.lines = sorted(every, key=lambda line: line.at.line if line.at else 0)
        for line in counts.lines:
            into = counts.bytes_written if line.write else counts.bytes_read
            into[line.space] = into.get(line.space, 0) + line.nbytes
            if line.op in ("load", "store"):
                name = f"{line.op} {line.space}"
                counts.instructions[name] = counts.instructions.get(name, 0) + line.warps
        met = {at: meeting.text for at, meeting in self.met_without.items()}
        return Run(counts, [*self.warnings, *self.printed.warnings()], "".join(self.printed.lines), self.warned(),
                   left_out=self.left_out, met_without=met)  # fmt: skip

    def warned(self) -> list[Finding]:
        """The warnings as data."""
        texts = (*self.warnings, *self.printed.warnings())
        return [Finding("warning", text, "warning", **self.about.get(text, {})) for text in texts]
