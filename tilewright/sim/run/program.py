"""A lowered kernel that runs on the simulator, as often as one likes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import prod
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import SimulationError
from tilewright.host import Limits, copies
from tilewright.ir import Body, Break, Continue, For, Stmt, While, bodies
from tilewright.ir.tensor_map import MapFields
from tilewright.isa import MOST_REGISTERS, bind, most_registers, resident_ctas
from tilewright.process import one_blas_thread
from tilewright.sim.codegen.compiled import Compiled, handles, with_arrays_of_maps
from tilewright.sim.codegen.values import calls_of
from tilewright.sim.machine.places import ALONE, Group, Ranks, groups_of
from tilewright.sim.machine.precedence import FORWARDS, PATIENT, REFUSING, Made, Precedence, others, seeded
from tilewright.sim.machine.unknown import Dependence, as_a_whole
from tilewright.sim.run.execution import Execution, Run, Several, encoded, over_ranks

if TYPE_CHECKING:
    from tilewright.ir import Kernel, Number
    from tilewright.isa import Arch
    from tilewright.sim.machine import Array, GridsMeet
    from tilewright.sim.record import RecordingOptions

TIMES, LEAST_SECONDS = 2.0, 3.0  # as long as the first run orders by chance may take together, or so many seconds
MORE_FINDINGS = 1000  # besides that race
MORE_STEPS = 10_000  # that a run may take to come from a value that is missing to the thread that writes it


class Program:
    """``run`` executes the kernel on arrays. It is compiled when it first runs, and once more for arguments that share
    memory, or for a run that is recorded.

    kernel: of stage "lowered". checks: names out of `CHECKS`. target: the architecture whose largest GPU says how many
    CTAs run at once; None for a GPU that has room for all.
    """

    def __init__(self, kernel: Kernel, checks: frozenset[str], target: Arch | None = None) -> None:
        self._lowered = with_arrays_of_maps(kernel)
        self._target = target
        self._checks = checks
        self._by_groups: dict[object, Compiled] = {}  # see `_of`

    @property
    def compiled(self) -> Compiled:
        """The code for arguments that share no memory."""
        return self._of(())

    def base_of(self, name: str, arrays: Mapping[str, Array]) -> int:
        """The address of a buffer's first byte, where the arguments are these arrays."""
        return self._of(groups_of(arrays, views=self._lowered.compiled)).places.by_name[name].base

    def _of(
        self, groups: tuple[Group, ...], ranks: Ranks = ALONE, *, pauses: bool = False, recorded: bool = False
    ) -> Compiled:
        """groups: of the arguments that share memory. pauses, recorded: see `Compiled`."""
        key = groups, ranks, pauses, recorded
        if key not in self._by_groups:
            kernel = self._lowered if ranks is ALONE else over_ranks(self._lowered, ranks)
            self._by_groups[key] = Compiled(kernel, self._checks, groups, ranks, pauses=pauses, recorded=recorded)
        return self._by_groups[key]

    def run(
        self,
        arrays: Mapping[str, Array],
        scalars: Mapping[str, Number],
        maps: Mapping[str, MapFields] = {},
        *,
        progress: Callable[[int, int], None] | None = None,
        limits: Limits | None = None,
        grids: GridsMeet | None = None,
        record: RecordingOptions | None = None,
    ) -> Run:
        """Execute the whole grid; arrays are changed in place.

        arrays: by the name of the handle parameter, C-contiguous, with the buffer's bytes. scalars: parameters and
        symbols by name. maps: the tensor maps that are arguments; ``arrays`` has their arrays as `mapped`.
        progress: called with CTAs done and CTAs in all. limits: what the run may take. record: what is recorded of it.
        grids: of launches around it.
        Raises SimulationError for what a check finds, and at a limit.
        """
        hidden = {tensor_map.name for tensor_map in self._lowered.maps}
        named = {
            buffer.name: arrays[handle.name] for buffer, handle in handles(self._lowered) if buffer.name not in hidden
        }
        program = self._of(groups_of(named, views=self._lowered.compiled), recorded=record is not None)
        starts = {name: place.base for name, place in program.places.by_name.items()}
        encodings = encoded(program.kernel, starts, maps, scalars)
        named |= {name: np.frombuffer(data, np.uint8).copy() for name, data in encodings}
        if record is None or program.recorder is None:
            limits = self._on_target(limits or Limits(), program, scalars)
            return self._run(program, named, scalars, progress, limits, grids=grids)
        program.recorder.arm(record)
        size = prod(program.launch.cluster)
        last = record.last // size * size + size - 1 if record.alone else None
        try:
            limits = self._on_target(limits or Limits(), program, scalars)
            run = self._run(program, named, scalars, progress, limits, last, grids)
        except SimulationError as error:
            error.recording = program.recorder.taken(str(self._target), error.findings)
            raise
        return replace(run, recording=program.recorder.taken(str(self._target), tuple(run.findings)))

    def run_on_ranks(
        self,
        of_ranks: Sequence[Mapping[str, Array]],
        scalars: Mapping[str, Number],
        maps: Sequence[Mapping[str, MapFields]],
        *,
        progress: Callable[[int, int], None] | None = None,
        limits: Limits | None = None,
    ) -> Run:
        """`run` on several GPUs: arrays and maps of each, in the order of their ranks, and scalars of all."""
        own = {tensor_map.name for tensor_map in self._lowered.maps}
        named = [
            {b.name: arrays[handle.name] for b, handle in handles(self._lowered) if handle.name in arrays.keys() - own}
            for arrays in of_ranks
        ]
        with Several.of(self.compiled.kernel, named, maps, scalars) as several:
            program = self._of((), several.ranks)
            limits = self._on_target(limits or Limits(), program, scalars, several.ranks.count)
            return self._run(program, several.arrays, scalars, progress, limits)

    def _on_target(self, limits: Limits, program: Compiled, scalars: Mapping[str, Number], ranks: int = 1) -> Limits:
        """The limits, with the CTAs that so many of the target run at once. How many registers a thread has is found
        out where CTAs may wait for each other, and are too many for threads with as many as there can be.
        """
        launch = program.launch
        if self._target is None:
            return limits
        room = partial(resident_ctas, self._target, launch.threads, launch.shared_bytes, prod(launch.cluster))
        resident = room()
        most = launch.max_registers or MOST_REGISTERS
        if not launch.max_registers and not self._lowered.compiled:  # then the text has launch bounds
            most = most_registers(self._target, launch.threads, max(1, launch.min_blocks_per_sm))
        if limits.registers is not None and program.may_wait:
            ctas = prod(program.grid(program.bound_scalars(scalars)))
            if room(most) * ranks < ctas <= resident * ranks:
                resident = room(limits.registers())
        return replace(limits, ctas=resident * ranks)

    def _run(
        self,
        program: Compiled,
        arrays: Mapping[str, Array],
        scalars: Mapping[str, Number],
        progress: Callable[[int, int], None] | None,
        limits: Limits,
        last: int | None = None,
        grids: GridsMeet | None = None,
    ) -> Run:
        for site in program.sites:
            site.reset()
        strong = any(site.how.sem != "weak" for site in program.sites)
        watched = "races" in program.checks and not program.groups and strong
        before = _copied(arrays) if "races" in program.checks else arrays
        with np.errstate(all="ignore"), one_blas_thread():
            chosen = Precedence.of(limits.replay) if limits.replay is not None else FORWARDS
            code = self._of(program.groups, program.ranks, pauses=True) if chosen.stops else program
            first = Execution(code, arrays, scalars, limits, precedence=chosen)
            first.grids = grids
            if last is not None:
                first.end_after(last)
            self._execute(first, before, progress)
            started = first.watch.started
            result = first.result()
            runs: list[Made] = []
            topics = {first.topics.get(finding.message) for finding in result.findings}
            alone = not watched or last is not None or limits.replay is not None
            others = () if alone else _other_orders(program, runs, first.steps, limits)
            orders, began = [str(first.precedence)], monotonic()
            least, limits = max(TIMES * (began - started), LEAST_SECONDS), replace(limits, passes=False)
            for precedence in others:
                code = self._of(program.groups, program.ranks, pauses=True) if precedence.stops else program
                limits_here = _shorter(limits, began + least - started) if precedence.is_extra else limits
                other = Execution(code, _copied(before), scalars, limits_here, precedence=precedence, started=started)
                if not self._explore(other, before):
                    break
                orders.append(str(precedence))
                if precedence.late is not None:
                    runs.append(Made(precedence.late, other.scheduler.overtaking.first, other.steps))
                new = [finding for finding in other.warned() if other.topics.get(finding.message) not in topics]
                topics |= {other.topics.get(finding.message) for finding in new}
                result.warnings.extend(finding.message for finding in new)
                result.findings.extend(replace(finding, choice=str(precedence)) for finding in new)
            return replace(result, orders=tuple(orders), may_differ=first.has_clock or _sees_order(program))

    def _explore(self, other: Execution, before: Mapping[str, Array]) -> bool:
        """A run in another order; what it finds is said to be shown by that. False where no time is left for more."""
        try:
            self._execute(other, before, lambda done, ctas: None)
        except SimulationError as error:
            if other.precedence.is_extra and error.kind == "limit":
                return False
            error.findings = tuple(replace(finding, choice=str(other.precedence)) for finding in error.findings)
            raise
        return True

    def _execute(
        self, run: Execution, before: Mapping[str, Array], progress: Callable[[int, int], None] | None
    ) -> None:
        """The whole grid. Where a value is missing that another thread writes later, the error is that race.

        before: the arrays as the run has found them.
        """
        try:
            self._excusing(run, before, progress)
        except SimulationError as missing:
            if run.unwritten == "used" and "races" in run.program.checks:
                steps = MORE_STEPS + 4 * (run.steps + run.watch.turns)
                limits = replace(run.watch.limits, seconds=None, steps=steps, findings=MORE_FINDINGS)
                again = Execution(run.program, _copied(before), run.scalars, limits, precedence=run.precedence)
                again.unwritten = "sought"
                try:
                    again.run(lambda done, ctas: None)
                except SimulationError as race:
                    if again.unwritten != "found":
                        raise missing from None
                    if not run.findings:
                        raise race from None
                    run.findings.told_as("poison", race)
                    raise run.findings.error() from None
            raise

    def _excusing(
        self, run: Execution, before: Mapping[str, Array], progress: Callable[[int, int], None] | None
    ) -> None:
        """The whole grid. Of races that a dependence of data may excuse another run finds out whether it does; those
        that it does not are told by a third one.
        """
        stop: SimulationError | None = None
        try:
            run.run(progress)
        except SimulationError as error:
            stop = error
        if run.doubts:
            dependence = Dependence(run.doubts.values())
            with suppress(SimulationError), as_a_whole():
                self._again(run, before, dependence, None)
            for key in dependence.holds:
                text, run.about[text] = run.doubts[key].excuse
                run.warnings.append(text)
            if run.doubts.keys() - dependence.holds:
                self._again(run, before, None, dependence.holds)
        if stop is not None:
            raise stop

    @staticmethod
    def _again(
        run: Execution, before: Mapping[str, Array], dependence: Dependence | None, excused: Collection[Hashable] | None
    ) -> None:
        """The same run on copies of what it has found."""
        limits = run.watch.limits
        again = Execution(run.program, _copied(before), run.scalars, limits, precedence=run.precedence)
        again.dependence, again.excused = dependence, excused
        again.run(lambda done, ctas: None)


def _shorter(limits: Limits, seconds: float) -> Limits:
    """The limits with no more than so many seconds for all runs together."""
    return replace(limits, seconds=min(max(seconds, 0.001), limits.seconds or seconds))


def _copied(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Copies, which share memory where the arrays do."""
    return dict(zip(arrays, copies(arrays.values()), strict=True))


def _sees_order(program: Compiled) -> bool:
    """Do threads see which came first?"""
    kinds = (site.how for site in program.sites)
    return program.asks or any(how.sem != "weak" and how.observes and not how.is_signal for how in kinds)


def _may_refuse(program: Compiled) -> bool:
    """Does the answer of a wait decide where a thread goes on, other than to the same wait again?"""
    return program.asks or (program.kernel.compiled and _goes_on(program.kernel.body, polls=False))


def _goes_on(body: Body, *, polls: bool) -> bool:
    """Among some statements of compiled code: a wait, unless they are a loop that asks the same wait again."""
    if not polls and any(bind(call).form.signal_of("wait") for stmt in body for call in calls_of(stmt)):
        return True
    return any(
        _goes_on(inner, polls=isinstance(stmt, (For, While)) and not any(map(_branches, inner)))
        for stmt in body
        for inner in bodies(stmt)
    )


def _branches(stmt: Stmt) -> bool:
    """Does a statement hold others, besides one that ends a loop or its turn?"""
    return any(not isinstance(inner, (Break, Continue)) for side in bodies(stmt) for inner in side)


def _other_orders(program: Compiled, runs: list[Made], steps: int, limits: Limits) -> Iterator[Precedence]:
    """Do threads see which came first? Then the race check makes runs in other orders as well."""
    sees = _sees_order(program)
    if sees:
        for check in program.own_checks:
            yield from others(check.strong, runs, steps, asks=program.asks)
    if any(check.doubtful for check in program.own_checks):
        yield PATIENT
    if _may_refuse(program):
        yield from REFUSING
    if sees:
        yield from seeded(limits.explore)
