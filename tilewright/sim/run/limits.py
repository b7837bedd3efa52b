"""Limits of a run, checked between parts of loops, so that they cost nothing: time, steps, memory; its progress bar."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from ctypes import c_ulong, py_object, pythonapi
from dataclasses import dataclass
from itertools import chain, repeat
from operator import attrgetter, length_hint
from threading import Condition, Lock, Thread, get_ident
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from tilewright.errors import SimulationError
from tilewright.host import MOST_SECONDS, MOST_STEPS, Limits, available_bytes, bytes_text
from tilewright.terms import Term, option, symbol, told

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from tilewright.errors import Span
    from tilewright.sim.run.execution import Execution

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
            self.kept = [each for each in self.kept if each is not alarm]

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
