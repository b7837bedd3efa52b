"""Launches one behind the other: memory carries on, and one that begins before the last has ended may touch too much.

sequence(launch(fill, x, grid=4, block=64), launch(use, x, out, grid=4, block=64, pdl=True)).assert_clean()
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tilewright import host
from tilewright.checking import EXPLORED, Policy, joined, with_later
from tilewright.compiler import Executable, compile
from tilewright.errors import ArgumentError, ToolError, described
from tilewright.explain import parse_idioms
from tilewright.inputs import LAUNCH, named_arguments, without_launch
from tilewright.ir import Kernel
from tilewright.load import LoadedKernel
from tilewright.load.cu_life import HostAround
from tilewright.public import Public
from tilewright.sim.machine.device import Footprint, GridsMeet
from tilewright.trials import TrialRun, Wanted, copies_of, variables_of
from tilewright.variations import EndedRun, told_of_host, told_of_the_next
from tilewright.verdict import Report, Verdict

public = Public(ArgumentError, {})


@dataclass(frozen=True, eq=False)
class PlannedLaunch:
    """One launch of a sequence, as `launch` makes it."""

    kernel: LoadedKernel | Executable
    values: tuple[Any, ...]
    shape: Mapping[str, Any] = field(default_factory=dict)
    pdl: bool = False
    around: HostAround = HostAround()  # what host code does around it

    def repeats(self, other: PlannedLaunch) -> bool:
        """Is it the same launch again, with the same arrays?"""
        same = self.kernel is other.kernel and self.shape == other.shape and len(self.values) == len(other.values)
        return same and all(
            a is b or (_is_number(a) and a == b) for a, b in zip(self.values, other.values, strict=True)
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number))


@public
def launch(kernel: Any, *args: Any, pdl: bool = False, **named: Any) -> PlannedLaunch:
    """A launch of a kernel, for `sequence`: its arguments, and of one of `load_cu` or `load_ptx` ``grid=``, ``block=``,
    ``shared_bytes=``, ``cluster=``. One of ours has its launch itself.

    pdl: has its launch the attribute of programmatic dependent launch, so that it may begin before the last one ends?
    """
    if isinstance(kernel, LoadedKernel):
        shape, rest = without_launch(named)
        return PlannedLaunch(kernel, kernel.ordered(args, rest, [*LAUNCH, "pdl"]), shape, pdl)
    if not isinstance(kernel, Executable | Kernel) and not isinstance(getattr(kernel, "kernel", None), Kernel):
        allowed = "a kernel of load_cu, load_ptx or @T.prim_func"
        raise ArgumentError("a launch is one of a kernel", given=described(kernel), allowed=allowed)
    compiled = kernel if isinstance(kernel, Executable) else compile(kernel)
    return PlannedLaunch(compiled, compiled.ordered(args, named, launch), {}, pdl)


@public
def sequence(
    *launches: Any,
    checks: str | Iterable[str] = "all",
    both: bool = True,
    strict: str | Iterable[str] = (),
    explore: int | None = None,
    limit_s: float | None = None,
    max_findings: int = host.MOST_FINDINGS,
) -> Report:
    """Run launches one behind the other under ``checks``: a verdict for each, and none after one that is wrong.

    Arrays are copied before the first; launches that are given one array share its copy, and ``__device__`` variables
    keep their values. What a launch with ``pdl=True`` touches before it waits for the one before it is held against all
    that this one does. Where it is the first, nothing is known of that one: a write is an error, a read a warning, and
    both are errors where it never waits. Where a launch comes again with the same arguments, and what the first one has
    left in variables changes its results, that is told. both, strict, explore: as of `check`.
    """
    from tilewright.sim import parse_checks

    if not launches:
        raise ArgumentError(
            "a sequence has no launch", given="none", allowed="tw.launch(kernel, x, grid=4, block=64), ..."
        )
    for planned in launches:
        if not isinstance(planned, PlannedLaunch):
            allowed = "tw.launch(kernel, x, grid=4, block=64)"
            raise ArgumentError("a sequence is made of launches", given=described(planned), allowed=allowed)
    names = tuple(sorted(parse_checks(checks)))
    limits = {"limit_s": limit_s, "max_findings": max_findings, "explore": EXPLORED if explore is None else explore}
    policy = Policy(both, parse_idioms(strict))
    run = _Sequence(launches, names, limits)
    others = [planned.kernel for planned in launches if isinstance(planned.kernel, LoadedKernel)]
    before = {id(kernel.module): variables_of(kernel) for kernel in others}
    verdicts = run.verdicts("")
    if policy.both and others and all(kernel.module.builds for kernel in others):
        for kernel in others:
            kernel.module.built("unoptimised")._put_globals(before[id(kernel.module)])
        verdicts = _of_both(verdicts, run)
    return Report("", tuple(map(policy.applied, verdicts)), {name: value for name, value in limits.items() if value})


def _of_both(verdicts: Sequence[Verdict], run: _Sequence) -> list[Verdict]:
    """The verdicts, each with that on the launch of the unoptimised build; more where that goes on longer."""
    try:
        others = run.verdicts("unoptimised")
    except ToolError as error:
        what = f"unoptimised code: {error.what}"
        return [replace(verdict, not_covered=(what, *verdict.not_covered)) for verdict in verdicts]
    return [*(joined(*pair) for pair in zip(verdicts, others, strict=False)), *verdicts[len(others) :]]


@dataclass(frozen=True)
class _Sequence:
    launches: tuple[PlannedLaunch, ...]
    checks: tuple[str, ...]
    limits: Mapping[str, Any]

    def verdicts(self, build: str) -> list[Verdict]:
        """The verdict on each launch, up to the first that is wrong."""
        from tilewright.sim import Run

        shared: dict[int, Any] = {}
        verdicts: list[Verdict] = []
        states: list[dict[str, Any]] = []
        runs: dict[int, EndedRun] = {}
        last: GridsMeet | None = None
        for number, planned in enumerate(self.launches):
            kernel = planned.kernel
            if build and isinstance(kernel, LoadedKernel):
                kernel = kernel.built(build)
            values = {name: _shared(value, shared) for name, value in zip(_names(planned), planned.values, strict=True)}
            states.append(variables_of(kernel) if isinstance(kernel, LoadedKernel) else {})
            footprint = Footprint(planned.kernel.name)
            meets = GridsMeet(footprint)
            if planned.pdl:  # the first is behind a launch of which nothing is known
                first_of_all = GridsMeet(footprint, alone="sequence", arguments=frozenset(values))
                meets = last.next(footprint) if last is not None else first_of_all
            name, limits = f"{number + 1}. {planned.kernel.name}", {**self.limits, "grids": meets}
            trial = TrialRun(name, kernel, self.checks, planned.shape, limits, Wanted())
            first = next((k for k in range(number) if planned.repeats(self.launches[k])), None)
            is_kept = self._comes_again(number) or bool(planned.around.unset)
            before = copies_of(values) if is_kept else {}
            verdict, outcome = trial.run(values)
            if verdict and is_kept and isinstance(outcome, Run) and isinstance(kernel, LoadedKernel):
                variables, lines = (states[number], variables_of(kernel)), outcome.counts.lines
                run = EndedRun(trial, variables, before, copies_of(values), lines, verdict.seconds, planned.around)
                verdict, runs[number] = with_later(verdict, told_of_host(run)), run
            if verdict and first in runs:
                next_one = replace(runs[first], variables=(states[first], states[number]))
                verdict = with_later(verdict, filter(None, [told_of_the_next(next_one)]))
            verdicts.append(verdict)
            if not verdict:
                left = f"launches {number + 2} to {len(self.launches)}" if number + 1 < len(self.launches) else ""
                verdicts[-1] = replace(verdict, not_covered=(*filter(None, (left,)), *verdict.not_covered))
                break
            last = meets
        return verdicts

    def _comes_again(self, number: int) -> bool:
        return any(later.repeats(self.launches[number]) for later in self.launches[number + 1 :])


def _names(planned: PlannedLaunch) -> tuple[str, ...]:
    kernel = planned.kernel
    names = kernel.parameters if isinstance(kernel, LoadedKernel) else named_arguments(kernel.kernel)
    return (*names, *(f"argument {n}" for n in range(len(names), len(planned.values))))


def _shared(value: Any, shared: dict[int, Any]) -> Any:
    """The copy of a value, the same for all launches that are given one array."""
    arrays = [*host.arrays_in(value)]
    for array in arrays:
        if id(array) not in shared:
            shared[id(array)] = host.copies([array])[0]
    return host.with_arrays(value, iter([shared[id(array)] for array in arrays]))
