"""`tilewright.check`: a kernel compiled, run under every check, and a verdict on it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from linecache import getlines
from math import prod
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilewright import host
from tilewright.compiler import Executable, compile, unseen
from tilewright.errors import ArgumentError, TilewrightError, TilewrightWarning, ToolError, described
from tilewright.explain import BUILDS, Finding, parse_idioms
from tilewright.inputs import LAUNCH as LAUNCH  # the command line reads it here
from tilewright.inputs import make_arguments, shown, without_launch
from tilewright.ir import Kernel
from tilewright.load import LoadedKernel
from tilewright.load.cu_host import clears
from tilewright.load.cu_life import HostAround
from tilewright.load.cu_tree import is_passed_by
from tilewright.public import Public, keywords_of
from tilewright.ranks import named_arguments
from tilewright.sim.machine.device import Footprint, GridsMeet
from tilewright.small import smaller_grid
from tilewright.terms import told
from tilewright.verdict import Verdict, verdict_on

if TYPE_CHECKING:
    from tilewright.sim import Run
    from tilewright.sim.machine.counts import Line

public = Public(ArgumentError, {})

ALWAYS_LEFT = (
    "other inputs: the verdict is about those above",
    "outcomes of weak memory that no interleaving has",
    "speed",
)
SAMPLED = 4_000_000  # instructions of warps that one run of a kernel of others may take: ten seconds or so
EXPLORED = 4  # orders by chance of a kernel of others whose threads see which came first


@public
def check(
    kernel: Any,
    *args: Any,
    expect: Mapping[str, Any] | None = None,
    rtol: float = 1e-3,
    atol: float = 1e-3,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    checks: str | Iterable[str] = "all",
    target: Any = None,
    limit_s: float | None = None,
    limit_steps: int | None = host.MOST_STEPS,
    limit_bytes: int | None = None,
    max_findings: int = host.MOST_FINDINGS,
    both: bool = True,
    strict: str | Iterable[str] = (),
    explore: int | None = None,
    replay: str | None = None,
    small: bool = False,
    **named: Any,
) -> Verdict:
    """Compile a kernel and run it under ``checks``; errors of the kernel become findings of the verdict, never
    exceptions.

    kernel: ours; or one of `load_cu` or `load_ptx`, which takes ``grid=``, ``block=``, ``shared_bytes=``, ``cluster=``
    besides. args, named: copied before the run; of a kernel of ours, left out, they are random, by ``seed``, with
    symbolic extents of ``sizes``. expect: what arrays hold after it, by the name of the argument, within ``rtol`` and
    ``atol``. Limits and ``max_findings`` as of `simulate`. Of a kernel of `load_cu`, both: does it run as it is
    written, too, and not only as the compiler optimises it? strict: benign idioms that are told all the same. explore,
    replay: as of `simulate`; left out, a kernel of others is explored a little. small: of
    a kernel of others, run the fewest CTAs that reach every branch which the given ones reach; `Verdict.coverage` says
    how many.

    >>> verdict = check(kernel, a, b, expect={"B": a.T})  # doctest: +SKIP
    >>> verdict.assert_clean()  # doctest: +SKIP
    >>> check(load_cu("scale.cu")["scale"], x, 2.0, grid=4, block=256).assert_clean()  # doctest: +SKIP
    """
    limits = {"limit_s": limit_s, "limit_steps": limit_steps, "limit_bytes": limit_bytes,
              "max_findings": max_findings, "replay": replay}  # fmt: skip
    limits["explore"] = (EXPLORED if isinstance(kernel, LoadedKernel) else 0) if explore is None else explore
    wanted = Wanted(expect or {}, rtol, atol)
    policy = Policy(both, parse_idioms(strict))
    if small and not isinstance(kernel, LoadedKernel):
        raise ArgumentError("small=True is for kernels of load_cu and load_ptx", given=described(kernel))
    chosen = dict[str, Any]()
    if small:
        named, chosen = _small(kernel, args, named)
    verdict = ran(kernel, args, named, checks, limits, wanted=wanted, target=target, sizes=sizes or {}, seed=seed,
                  policy=policy)[0]  # fmt: skip
    return replace(verdict, coverage=chosen)


def _small(
    kernel: LoadedKernel, args: Sequence[Any], named: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The launch with the fewest CTAs, and what is said of it."""
    try:
        values, launch = _arguments(kernel, args, named, {}, 0)
        (_, _, shape), whole = smaller_grid((kernel, [*values.values()], launch))
    except (TilewrightError, MemoryError):  # the run itself tells of it
        return dict(named), {}
    grids = {"chosen": {"grid": shape["grid"]}, "given": {"grid": launch["grid"]}}
    return {**named, "grid": shape["grid"]}, {**whole.as_data, **grids}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What arrays hold after a run, by the names of arguments, and how far off they may be."""

    arrays: Mapping[str, Any] = field(default_factory=dict)
    rtol: float = 0.0
    atol: float = 0.0


@dataclass(frozen=True, slots=True)
class Policy:
    """What is asked of a kernel of others. both: does what is not optimised run, too? strict: the idioms of `IDIOMS`
    that are told. pdl: may its launch begin before the one before ends? around: what host code does around it.
    """

    both: bool = True
    strict: frozenset[str] = frozenset()
    pdl: bool = False
    around: HostAround = HostAround()

    def applied(self, verdict: Verdict) -> Verdict:
        """The verdict without what is benign."""
        told = tuple(finding for finding in verdict.findings if finding.idiom is None or finding.idiom in self.strict)
        return replace(verdict, findings=told)


def ran(
    kernel: Any, args: Sequence[Any], named: Mapping[str, Any], checks: str | Iterable[str], limits: Mapping[str, Any],
    *, wanted: Wanted = Wanted(), target: Any = None, sizes: Mapping[str, int] = {}, seed: int = 0,
    in_place: bool = False, policy: Policy = Policy(),
) -> tuple[Verdict, Run | TilewrightError | MemoryError]:  # fmt: skip
    """The verdict on a run, and what came of it. named: arguments, and the launch of a loaded kernel. in_place: the
    arrays change.
    """
    name = _name_of(kernel)
    began = monotonic()
    try:
        subject = kernel if isinstance(kernel, Executable | LoadedKernel) else compile(kernel, target)
        names = tuple(sorted(_parsed(checks)))
        values, launch = _arguments(subject, args, named, sizes, seed)
    except (TilewrightError, MemoryError) as error:
        return verdict_on(name, error, seconds=monotonic() - began, inputs={}), error
    trial = TrialRun(name, subject, names, launch, limits, wanted, policy.pdl)
    if not in_place:
        values = copies_of(values)
    if not isinstance(subject, LoadedKernel):
        return trial.run(values)
    before, variables = copies_of(values), variables_of(subject)
    if policy.both and subject.module.builds:
        verdict, outcome = _of_both(trial, subject, values, before, variables)
    else:
        verdict, outcome = trial.run(values)
    if verdict and not isinstance(outcome, TilewrightError | MemoryError):
        after = variables_of(subject)
        run = EndedRun(trial, (variables, after), before, values, outcome.counts.lines, verdict.seconds)
        verdict = with_later(verdict, told_of_host(run, policy.around))
        once_more = partial(come_again, trial, (variables, after), before, values)
        is_whole = not outcome.left_out and verdict.status == "clean"
        again = [replace(finding, severity="warning") for finding in once_more()] if is_whole else []
        doubts = [*once_more(is_launched=False)] if is_whole and not again else []
        passed = (finding.said(subject.dialect) for finding in passed_by(outcome))
        left = (f"{doubt.message}, unless it is set back: the text shows no launch" for doubt in doubts)
        verdict = replace(verdict, findings=(*verdict.findings, *again, *passed),
                          not_covered=(*left, *verdict.not_covered))  # fmt: skip
    return policy.applied(verdict), outcome


def passed_by(run: Run) -> Iterator[Finding]:
    """Barriers in a branch which some threads of a CTA pass by on their way to the kernel's end."""
    for at, text in run.met_without.items():
        if at is not None and is_passed_by("".join(getlines(at.file)), at.line):
            what = told("{}: it stands in a branch, or a loop, that not all threads take", text)
            yield Finding("divergence", what, "warning", at.file, at.line,
                          allowed="a barrier that all threads of a CTA come to, but those that have returned before",
                          hint="the barrier behind the branch, or a return in front of it")  # fmt: skip


def variables_of(kernel: LoadedKernel) -> dict[str, Any]:
    """Copies of the variables of a kernel's module."""
    return {name: value.copy() for name, value in kernel.module.set_globals().items()}


def come_again(
    trial: TrialRun,
    states: tuple[Mapping[str, Any], Mapping[str, Any]],
    before: dict[str, Any],
    ended: Mapping[str, Any],
    *,
    is_launched: bool = True,
) -> Iterable[Finding]:
    """What differs where a launch finds arrays as the first one did, but variables, and counters of CTAs, as that has
    left them.

    states: variables before the first one, and before this one. before, ended: arrays before and behind the first.
    is_launched: variables, and counters of a kernel that the text launches; else those of one whose host code is
    elsewhere.
    """
    kernel, (then, later) = trial.subject, states
    assert isinstance(kernel, LoadedKernel)
    text, shown = "\n".join(kernel.module.texts), kernel.module.module.shown
    changed = [name for name, value in later.items() if name not in then or (then[name] != value).any()]
    changed = [] if not is_launched or any(word in text for word in SETS) else changed
    counters = [name for name in _counters(trial, before, ended) if not clears(text, name)]
    counters = counters if counters and _launches(kernel) == is_launched else []  # of others they may be set back
    if not changed and not counters:
        return
    now = variables_of(kernel)
    kernel.module._put_globals(later if changed else then)
    limits = {**trial.limits, "explore": 0, "sample": None, "grids": None}
    before = copies_of({**before, **{name: ended[name] for name in counters}})
    verdict, outcome = replace(trial, limits=limits).run(before)
    kernel.module._put_globals(now)
    names = [*(shown.get(name, name) for name in changed), *counters]
    left, lines = ", ".join(names), [] if isinstance(outcome, Exception) else outcome.counts.lines
    stores = (line for line in lines if line.write and line.buffer in names and line.at is not None)
    at = next((line.at for line in stores), None)
    first, second = (
        {name: each for name, each in values.items() if name not in counters} for values in (ended, before)
    )
    mended = f"{left} set back at the end of the kernel{', or by the host before each launch' * bool(counters)}"
    for finding in [*apart(first, second)][:1] if verdict else []:
        what = f"the launch comes again and leaves other values in {finding.buffer}"
        yield Finding(
            "results", f"{what}: it finds what the first has left in {left}", "error",
            at.file if at else None, at.line if at else None, buffer=finding.buffer,
            given=str(finding.given).replace("unoptimised", "then").replace("optimised", "at first"),
            allowed="the same results for the same arguments", hint=mended,
        )  # fmt: skip


def with_later(verdict: Verdict, told: Iterable[Finding]) -> Verdict:
    """The verdict with what was found later."""
    later = (*told,)
    is_wrong = any(finding.severity == "error" for finding in later)
    return replace(verdict, status="wrong" if is_wrong else verdict.status, findings=(*verdict.findings, *later))


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run that came to its end, to be compared with others. variables: of the module before it and after it. before,
    ended: arrays before it and after it.
    """

    trial: TrialRun
    variables: tuple[Mapping[str, Any], Mapping[str, Any]]
    before: Mapping[str, Any]
    ended: Mapping[str, Any]
    lines: Sequence[Line]
    seconds: float

    def again(self, values: Mapping[str, Any]) -> Verdict:
        """The verdict on a run with other arrays, in one order, from the same variables on."""
        kernel = self.trial.subject
        assert isinstance(kernel, LoadedKernel)
        kernel.module._put_globals(self.variables[0])
        limits = {**self.trial.limits, "explore": 0, "replay": "forwards", "limit_s": seconds_left(self.seconds, None)}
        limits |= {"grids": None} if "grids" in limits else {}  # of a sequence
        verdict, _ = replace(self.trial, limits=limits).run(values)
        kernel.module._put_globals(self.variables[1])
        return verdict

    def apart(self, values: Mapping[str, Any], verdict: Verdict, words: tuple[str, str]) -> Finding | None:
        """What another run has found, or left otherwise; None where that is nothing. words: for this run and that."""
        if not verdict:
            first = next(iter(verdict.findings), None)
            return Finding("results", "", given=f"{words[1]}: {first.message if first else verdict.status}")
        finding = next(iter(apart({name: self.ended[name] for name in values}, values)), None)
        shown = str(finding.given if finding else "").replace("unoptimised", words[1]).replace("optimised", words[0])
        return replace(finding, given=shown) if finding is not None else None


def told_of_host(run: EndedRun, around: HostAround) -> Iterator[Finding]:
    """What host code lacks around a launch: first values of arrays, and again in each turn of a loop."""
    told = [*_begun_unset(run, around)]
    is_wrong = any(finding.severity == "error" for finding in told)
    yield from (*told, *(_turns(run, around) if around.loop and not is_wrong else ()))


def _begun_unset(run: EndedRun, around: HostAround) -> Iterator[Finding]:
    """The array whose contents decide what a launch leaves, although host code has only allocated it: with others in
    it the kernel is run again.
    """
    reads = {line.buffer: line.at for line in reversed(run.lines) if line.buffer in around.unset and not line.write}
    changed = {line.buffer for line in run.lines if line.write}
    for name, at in reads.items():
        began = copies_of(run.before)
        if not isinstance(began[name], np.ndarray):
            continue
        if name not in changed:  # an input: programs that measure times alone leave it like that
            what = f"{at}: reads {name}, which nothing sets between its allocation in line {around.unset[name]} and the"
            file, line = (at.file, at.line) if at else (None, None)
            yield Finding("poison", f"{what} launch in line {around.line}", "warning", file, line, buffer=name)
            continue
        began[name] = _others(began[name])
        values = copies_of(began)
        verdict = run.again(values)
        keeps = (run.ended[name] == run.before[name]) & (values[name] == began[name])
        values[name] = np.where(keeps, run.ended[name], values[name])
        if (finding := run.apart(values, verdict, ("with one content", "with another"))) is not None:
            yield Finding(
                "poison", f"{name} is not set before the launch, and what it holds decides the results", "error",
                at.file if at else None, at.line if at else None, buffer=name,
                given=f"allocated in line {around.unset[name]}, launched in line {around.line}, not set in between; "
                f"{finding.given}",
                allowed="an array that the host, or a launch before, has set: cudaMalloc leaves anything in it",
                hint=f"cudaMemset({around.words.get(name, name)}, 0, ...) before line {around.line}, or a copy of what "
                "it is to begin with",
            )  # fmt: skip


def _others(array: NDArray[Any]) -> NDArray[Any]:
    """An array of large numbers, as memory that others have used may hold them."""
    narrow = array.dtype.itemsize < (4 if array.dtype.kind == "f" else 2)
    large: Any = 95 if narrow else 1e30 if array.dtype.kind == "f" else 12345
    return np.full_like(array, large) if array.dtype.kind in "iuf" else array


def _turns(run: EndedRun, around: HostAround) -> Iterator[Finding]:
    """What the next turn of a loop of the host finds in counters and sums that no turn sets, where that is all that
    changes: other results for the same arguments.
    """
    left = [*_left_changed(run, around)]
    values = copies_of({**run.before, **{name: run.ended[name] for name, _ in left}})
    verdict = run.again(values) if left else None
    counters = {name for name, is_counter in left if is_counter}
    rest = {name: value for name, value in values.items() if name not in counters}
    finding = run.apart(rest, verdict, ("after one turn", "after the next")) if verdict is not None else None
    for name, is_counter in left[:1] if finding is not None else ():
        at = next((line.at for line in run.lines if line.buffer == name), None)
        what = f"finds {name} as the last has left it" if is_counter else f"adds to what the last has left in {name}"
        yield Finding(
            "results", f"each turn of the loop at line {around.loop} {what}", "error" if is_counter else "warning",
            at.file if at else None, at.line if at else None, buffer=name, given=finding.given if finding else None,
            allowed="the same results for the same arguments in each turn",
            hint=f"cudaMemset({around.words.get(name, name)}, 0, ...) in the loop, before line {around.line}",
        )  # fmt: skip


def _left_changed(run: EndedRun, around: HostAround) -> Iterator[tuple[str, bool]]:
    """The arrays that a launch changes by atomics alone and no turn of the loop sets: counters, whose old values the
    kernel uses, and sums, which the host uses, where nothing else that it reads has changed. Counters come first.
    """
    by_kind: dict[str, set[str]] = {"atom": set(), "red": set(), "": set(), "read": set()}
    for line in run.lines:
        kind = next((part for part in line.op.split(".") if part in ("atom", "red")), "")
        by_kind[kind if line.write or kind else "read"].add(line.buffer)
    arrays = {name: value for name, value in run.ended.items() if isinstance(value, np.ndarray)}
    changed = {name for name, value in arrays.items() if value.tobytes() != run.before[name].tobytes()}
    plain = by_kind[""] | by_kind["read"]
    counters = (by_kind["atom"] - plain) & changed & around.kept
    sums = (by_kind["red"] - by_kind["atom"] - plain) & changed & around.looked_at
    yield from ((name, True) for name in sorted(counters))
    if not changed & by_kind[""] & by_kind["read"]:
        yield from ((name, False) for name in sorted(sums))


def _launches(kernel: LoadedKernel) -> bool:
    """Do the texts of a kernel launch it?"""
    from tilewright.load.cu_launches import launched

    return any(launched(text, kernel.name, around=kernel.module.texts) for text in kernel.module.texts)


def _counters(trial: TrialRun, before: Mapping[str, Any], ended: Mapping[str, Any]) -> Iterator[str]:
    """Arguments of integers of which a launch has changed one alone, to which each CTA has added one."""
    grid = trial.launch.get("grid", 1)
    ctas = prod(grid) if isinstance(grid, Iterable) else grid
    for name, value in ended.items():
        if isinstance(value, np.ndarray) and value.dtype.kind in "iu" and ctas > 1:
            added = (value - before[name]).ravel()
            if (changed := added[added != 0]).size == 1 and changed[0] == ctas:
                yield name


def copies_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments with copies of their arrays, also of those in structures; arrays that overlap do so again."""
    copies = iter(host.copies(host.arrays_in(values)))
    return {name: host.with_arrays(value, copies) for name, value in values.items()}


@dataclass(frozen=True, slots=True)
class TrialRun:
    """What runs, and how."""

    name: str
    subject: Executable | LoadedKernel
    checks: tuple[str, ...]
    launch: Mapping[str, Any]
    limits: Mapping[str, Any]
    wanted: Wanted
    pdl: bool = False

    def _of_others(self, values: Iterable[str]) -> dict[str, Any]:
        """Of a kernel of others: large launches run in part, where no results are asked for; and what is known of the
        launches around.
        """
        if not isinstance(self.subject, LoadedKernel) or "grids" in self.limits:
            return {}
        alone = GridsMeet(Footprint(self.name), alone="early" if self.pdl else "waits", arguments=frozenset(values))
        return {"grids": alone} | ({} if self.wanted.arrays else {"sample": SAMPLED})

    def run(self, values: Mapping[str, Any]) -> tuple[Verdict, Run | TilewrightError | MemoryError]:
        """The verdict on a run that changes these arguments, and what came of it."""
        began = monotonic()
        fields: dict[str, Any] = {"checks": self.checks, "target": str(self.subject.target)}
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always", TilewrightWarning)
            try:
                fields["inputs"] = {name: shown(value) for name, value in values.items()}
                limits = {**self._of_others(values), **self.limits}
                run = self.subject.simulate(*values.values(), check=self.checks, progress=unseen, **self.launch,
                                         **limits)  # fmt: skip
            except (TilewrightError, MemoryError) as error:
                fields["seconds"] = monotonic() - began
                return verdict_on(self.name, error, _warned(heard), **fields), error
        fields["seconds"] = monotonic() - began
        told = [*_differences(values, self.wanted), *_warned(heard)]
        return finished(self.name, run, told, self.wanted, fields), run


SETS = ("cudaMemcpyToSymbol", "cudaGetSymbolAddress")  # by which host code sets variables
TIMES, LEAST_SECONDS = 2.0, 3.0  # as long as the optimised build the other one may take, and always so many seconds


def seconds_left(taken: float, limit: float | None) -> float:
    """Seconds that the other build may take where the optimised one has taken some: both together the limit, or little
    more.

    >>> seconds_left(4.0, None), seconds_left(4.0, 60.0), seconds_left(50.0, 60.0), seconds_left(60.0, 60.0)
    (8.0, 8.0, 10.0, 3.0)
    """
    seconds = max(TIMES * taken, LEAST_SECONDS)
    return seconds if limit is None else min(seconds, limit, max(LEAST_SECONDS, limit - taken))


def _of_both(
    trial: TrialRun,
    subject: LoadedKernel,
    values: Mapping[str, Any],
    before: Mapping[str, Any],
    variables: Mapping[str, Any],
) -> tuple[Verdict, Run | TilewrightError | MemoryError]:
    """The verdict on both builds, see `joined`; what came of the optimised one."""
    verdict, outcome = trial.run(values)
    if verdict.status not in ("clean", "wrong"):
        return verdict, outcome

    def again(build: str) -> tuple[Verdict, dict[str, Any]]:
        other, copies = subject.built(build), copies_of(before)
        other.module._put_globals(variables)
        limits = {**trial.limits, "limit_s": seconds_left(verdict.seconds, trial.limits.get("limit_s"))}
        limits["replay"] = limits.get("replay") or "forwards"  # other orders are those of the optimised build
        return replace(trial, subject=other, limits=limits).run(copies)[0], copies

    try:
        other, copies = again("unoptimised")
        told: list[Finding] = []
        differs = isinstance(outcome, TilewrightError | MemoryError) or outcome.may_differ or outcome.left_out
        if verdict and other and not differs and (told := [*apart(values, copies)]):
            exact, changed = again("exact")
            told = [*apart(changed, copies)] if exact else []  # else products and sums that are one explain it
    except ToolError as error:
        return replace(verdict, not_covered=(f"unoptimised code: {error.what}", *verdict.not_covered)), outcome
    merged = joined(verdict, other)
    return replace(merged, status="wrong" if told else merged.status, findings=(*merged.findings, *told)), outcome


def _name_of(kernel: Any) -> str:
    if isinstance(kernel, LoadedKernel):
        return kernel.title
    authored = kernel if isinstance(kernel, Kernel) else getattr(kernel, "kernel", None)
    return authored.name if isinstance(authored, Kernel) else str(getattr(kernel, "__name__", kernel))


def finished(name: str, run: Run, told: Iterable[Finding], wanted: Wanted, fields: Mapping[str, Any]) -> Verdict:
    """The verdict on a run that came to its end. told: differences from the expected arrays, and warnings."""
    findings = (*told, *run.findings)
    left = (f"{run.left_out:,} CTAs, which did not run: the launch is a large one",) if run.left_out else ()
    return Verdict(
        name, "wrong" if any(finding.severity == "error" for finding in findings) else "clean", findings=findings,
        not_covered=(*left, *_left(fields["checks"], wanted.arrays)), instructions=run.counts.instructions,
        bank_conflicts=run.counts.bank_conflicts, output=run.output, orders=run.orders, **fields,
    )  # fmt: skip


def _parsed(checks: str | Iterable[str]) -> frozenset[str]:
    from tilewright.sim import parse_checks

    return parse_checks(checks)


def _arguments(
    subject: Executable | LoadedKernel,
    args: Sequence[Any],
    named: Mapping[str, Any],
    sizes: Mapping[str, int],
    seed: int,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments by the names of buffers and parameters, random ones where there are none, and the launch.

    The call itself says what is missing.
    """
    if isinstance(subject, LoadedKernel):
        launch, rest = without_launch(named)
        names, values = subject.parameters, subject.ordered(args, rest, [*LAUNCH, *keywords_of(check)])
    else:
        names, launch = named_arguments(subject.kernel), {}
        values = subject.ordered(tuple(args), named, check)
        values = values or tuple(make_arguments(subject.kernel, {}, sizes, seed).values())
    names = (*names, *(f"argument {n}" for n in range(len(names), len(values))))
    return dict(zip(names, values, strict=False)), launch


def _warned(heard: Iterable[warnings.WarningMessage]) -> list[Finding]:
    return [
        Finding("warning", str(warning.message), "warning", warning.filename, warning.lineno)
        for warning in heard
        if issubclass(warning.category, TilewrightWarning)
    ]


def _differences(values: Mapping[str, Any], wanted: Wanted) -> Iterable[Finding]:
    """Findings for arrays that differ from the expected ones."""
    for name, expected in wanted.arrays.items():
        have = values.get(name, values.get(f"{name}_ptr"))
        if not isinstance(have, np.ndarray):
            yield Finding("results", f"there is no array {name} to compare", given=name, allowed=", ".join(values))
            continue
        try:
            want = np.asarray(expected, np.float64)
        except (TypeError, ValueError) as error:
            yield Finding("results", f"{name} cannot be compared", given=f"{described(expected)}: {error}", buffer=name)
            continue
        if have.shape != want.shape:
            yield Finding("results", f"{name} has another shape", buffer=name, given=f"{want.shape} expected",
                          allowed=f"{have.shape}")  # fmt: skip
        elif (unequal := differing(name, have, want, wanted.rtol, wanted.atol)) is not None:
            yield unequal


def differing(
    name: str, have: NDArray[Any], want: NDArray[Any], rtol: float, atol: float, *, exact: bool = False,
    kept: Callable[[NDArray[np.bool_]], int] | None = None,
) -> Finding | None:  # fmt: skip
    """A finding where elements of an array, of equal shapes, are not what is wanted.

    exact: without tolerances, as integers. kept: how many of wrong elements, marked in an array, nobody has written.
    """
    with np.errstate(invalid="ignore"):  # random bits of what nobody wrote may be a signalling NaN
        left, right = (have, want) if exact else (have.astype(np.float64), want.astype(np.float64))
    close = left == right if exact else np.isclose(left, right, rtol=rtol, atol=atol, equal_nan=True)
    wrong = ~np.asarray(close)
    if not wrong.any():
        return None
    first = tuple(int(axis[0]) for axis in np.nonzero(wrong)) if wrong.ndim else ()
    numbers = {"wrong": int(wrong.sum()), "elements": wrong.size, **({"unwritten": kept(wrong)} if kept else {})}
    many, unwritten = numbers["wrong"], numbers.get("unwritten", 0)
    message = f"{many:,} of {wrong.size:,} elements of {name} differ" + "s" * (many == 1)
    if unwritten:
        which = f"{unwritten:,} of them" if unwritten < many else "it" if many == 1 else "they"
        message += f"; {which} {'was' if unwritten == 1 else 'were'} never written"
    place = f"{name}{list(first)}"
    return Finding("results", message, buffer=name, place=place, given=f"{place} = {left[first]}",
                   allowed=f"{right[first]}", numbers=numbers)  # fmt: skip


def _left(checks: Iterable[str], expect: Mapping[str, Any]) -> Iterable[str]:
    from tilewright.sim import CHECKS

    if missing := sorted({*CHECKS} - {*checks}):
        yield f"checks left out: {', '.join(missing)}"
    if not expect:
        yield "results: nothing was expected of them"
    yield from ALWAYS_LEFT


# Two builds of one kernel, as the compiler optimises it and as it is written: their findings as one verdict.
#
# What the compiler removes or joins no run of the optimised text shows; what it moves or vectorises no run of the
# other. A finding says which build has it. Where neither has one, both give the same values.


RELATIVE = 1e-3  # of two floats, and of a float and the largest one of its array, that fused sums do not explain
OPTIMISED, UNOPTIMISED = BUILDS


def joined(first: Verdict, other: Verdict) -> Verdict:
    """The verdict on both builds: counts and output are those of the optimised one, which comes first."""
    left, findings = [*other.findings], []
    late = [finding for finding in left if finding.kind == "limit"]
    idle = [finding for finding in left if _branches_idly(finding, first)]
    alone = () if late or idle else (OPTIMISED,)  # of a build that did not come to its end nobody knows
    for finding in first.findings:
        same = _same(finding, left)
        if same is not None:
            left.remove(same)
        findings.append(replace(finding, builds=alone if same is None else (OPTIMISED, UNOPTIMISED)))
    hidden = [
        replace(finding, builds=(UNOPTIMISED,)) for finding in left if finding.kind != "limit" and finding not in idle
    ]
    findings += [finding for finding in hidden if not _repeats(finding, findings)]
    told = tuple(f"{UNOPTIMISED} code: {finding.message}" for finding in late)
    told += tuple(f"{UNOPTIMISED} code behind line {finding.line}, which branches on a value that nobody has written"
                  for finding in idle)  # fmt: skip
    is_wrong = any(finding.severity == "error" for finding in findings)
    status = first.status if first.status not in ("clean", "wrong") else "wrong" if is_wrong else "clean"
    return replace(
        first, status=status, findings=tuple(findings), not_covered=(*told, *first.not_covered),
        seconds=first.seconds + other.seconds, builds=(OPTIMISED, UNOPTIMISED),
    )  # fmt: skip


def _branches_idly(finding: Finding, optimised: Verdict) -> bool:
    """Does code that is not optimised branch on bytes of shared memory that nobody has written, as lanes beyond the
    partial sums of a reduction do, and nothing that is seen depends on it? The optimised code chooses where that one
    branches, and tells where something does.
    """
    return "branching_lanes" in finding.numbers and "poison" not in {said.kind for said in optimised.findings}


def _lines(finding: Finding) -> frozenset[tuple[str | None, int | None]]:
    """The lines that it is about."""
    here = {(finding.file, finding.line)} if finding.line else set()
    there = {(finding.other.file, finding.other.line)} if finding.other is not None and finding.other.line else set()
    return frozenset(here | there)


def _same(finding: Finding, others: Iterable[Finding]) -> Finding | None:
    """The finding of another build that says the same: of the same lines, or of one of them and the same buffer; also
    in other words, of another check, where one line and one buffer are what both are about.
    """
    equal = [other for other in others if other.severity == finding.severity]
    alike = [other for other in equal if other.kind == finding.kind]

    def is_of_place(other: Finding) -> bool:
        return bool(_lines(other) & _lines(finding)) and other.buffer == finding.buffer

    rules: Sequence[tuple[Sequence[Finding], Callable[[Finding], bool]]] = (
        (alike, lambda other: _lines(other) == _lines(finding) and bool(_lines(other))),
        (alike, is_of_place),
        (alike, lambda other: other.message == finding.message),
        (equal, lambda other: is_of_place(other) and other.buffer is not None),
    )
    return next((other for those, rule in rules for other in those if rule(other)), None)


def _repeats(finding: Finding, others: Iterable[Finding]) -> bool:
    """Is a finding of one build the same mistake as one of both, seen at another of its lines?"""
    both = (candidate for candidate in others if len(candidate.builds) > 1 and candidate.severity == finding.severity)
    alike = (candidate for candidate in both if _lines(candidate) & _lines(finding))
    return any(
        candidate.kind == finding.kind or (finding.buffer is not None and candidate.buffer == finding.buffer)
        for candidate in alike
    )


def apart(optimised: Mapping[str, Any], unoptimised: Mapping[str, Any]) -> Iterable[Finding]:
    """Findings for arrays that hold other values after the unoptimised build; floats may differ by rounding."""
    for name, left, right in _arrays(optimised, unoptimised):
        if not (wrong := _places(left, right)).size:
            continue
        first = np.unravel_index(int(wrong[0]), np.shape(left))
        where = "".join(f"[{i}]" for i in first)
        yield Finding(
            "results", f"{wrong.size:,} of {np.size(left):,} elements of {name} differ between the builds",
            buffer=name, given=f"{name}{where} = {left[first]} optimised, {right[first]} unoptimised",
            allowed="one value: no finding explains two", hint="what the language leaves undefined there",
        )  # fmt: skip


def _places(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """Where two arrays differ, as numbers of elements. Pieces with the same bytes are not looked at again."""
    flat, other = left.reshape(-1), right.reshape(-1)
    bounds = {(piece.start, piece.stop) for array in (flat, other) for piece in host.touched(array)}
    pieces = [slice(start // flat.itemsize, stop // flat.itemsize) for start, stop in sorted(bounds)]
    doubtful = [piece for piece in pieces if flat[piece].tobytes() != other[piece].tobytes()]
    is_float = flat.dtype.kind == "f"
    most = max((_largest(flat[piece]) for piece in pieces), default=0.0) if doubtful and is_float else 0.0
    places = [piece.start + np.flatnonzero(_differ(flat[piece], other[piece], most)) for piece in doubtful]
    return np.concatenate(places) if places else np.zeros(0, np.int64)


def _largest(values: NDArray[Any]) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size else 0.0


def _arrays(optimised: Mapping[str, Any], unoptimised: Mapping[str, Any]) -> Iterable[tuple[str, Any, Any]]:
    """The arrays of numbers of two runs by the names of arguments, those of structures among them, once each."""
    seen = set[tuple[int, int]]()
    for name, value in optimised.items():
        for left, right in zip(host.arrays_in(value), host.arrays_in(unoptimised[name]), strict=True):
            if isinstance(left, np.ndarray) and left.dtype.names is None and left.dtype.kind in "biuf":
                place = (left.ctypes.data, left.nbytes)
                if place not in seen:
                    yield name, left, right
                seen.add(place)


def _differ(left: NDArray[Any], right: NDArray[Any], most: float) -> NDArray[Any]:
    if left.dtype.kind != "f":
        return np.asarray(left != right)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        a, b = left.astype(np.float64), right.astype(np.float64)
    return np.asarray(~np.isclose(a, b, rtol=RELATIVE, atol=RELATIVE * most, equal_nan=True))
