"""`tilewright.check`: a kernel compiled, run under every check, and a verdict on it; of a .cu file, on both builds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from linecache import getlines
from time import monotonic
from typing import TYPE_CHECKING, Any

from tilewright import host
from tilewright.compiler import Executable, compile
from tilewright.errors import ArgumentError, TilewrightError, ToolError, described
from tilewright.explain import BUILDS, IDIOMS, Finding, parse_idioms
from tilewright.inputs import LAUNCH as LAUNCH  # the command line reads it here
from tilewright.inputs import make_arguments, named_arguments, without_launch
from tilewright.ir import Kernel
from tilewright.load import LoadedKernel
from tilewright.load.cu_life import HostAround
from tilewright.load.cu_tree import is_passed_by
from tilewright.public import Public, keywords_of
from tilewright.small import smaller_grid
from tilewright.terms import told
from tilewright.trials import TrialRun, Wanted, apart, copies_of, seconds_left, variables_of
from tilewright.variations import EndedRun, told_of_host, told_of_the_next
from tilewright.verdict import Verdict, verdict_on

if TYPE_CHECKING:
    from tilewright.sim import Run

public = Public(ArgumentError, {})

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
        told = self.strict | {None, *(name for name, idiom in IDIOMS.items() if idiom.is_told)}
        return replace(verdict, findings=tuple(finding for finding in verdict.findings if finding.idiom in told))


NOTHING_WANTED = Wanted()


def ran(
    kernel: Any, args: Sequence[Any], named: Mapping[str, Any], checks: str | Iterable[str], limits: Mapping[str, Any],
    *, wanted: Wanted = NOTHING_WANTED, target: Any = None, sizes: Mapping[str, int] = {}, seed: int = 0,
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
        states = variables, variables_of(subject)
        run = EndedRun(trial, states, before, values, outcome.counts.lines, verdict.seconds, policy.around)
        verdict = with_later(verdict, told_of_host(run))
        verdict = verdict if outcome.left_out or verdict.status != "clean" else _with_the_next(verdict, run)
        passed = tuple(finding.said(subject.dialect) for finding in passed_by(outcome))
        verdict = replace(verdict, findings=(*verdict.findings, *passed))
    return policy.applied(verdict), outcome


def _with_the_next(verdict: Verdict, run: EndedRun) -> Verdict:
    """The verdict with a warning of what a launch leaves to the next one, an error where nothing can set it back; or,
    where no text says how it is launched, with that among what is not covered.
    """
    if (again := told_of_the_next(run)) is not None:
        return with_later(verdict, [again if run.only_counts else replace(again, severity="warning")])
    doubt = told_of_the_next(run, is_launched=False)
    left = (f"{doubt.message}, unless it is set back: the text shows no launch",) if doubt is not None else ()
    return replace(verdict, not_covered=(*left, *verdict.not_covered))


def passed_by(run: Run) -> Iterator[Finding]:
    """Barriers in a branch which some threads of a CTA pass by on their way to the kernel's end."""
    for at, text in run.met_without.items():
        if at is not None and is_passed_by("".join(getlines(at.file)), at.line):
            what = told("{}: it stands in a branch, or a loop, that not all threads take", text)
            yield Finding("divergence", what, "warning", at.file, at.line,
                          allowed="a barrier that all threads of a CTA come to, but those that have returned before",
                          hint="the barrier behind the branch, or a return in front of it")  # fmt: skip


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

    def again(build: str) -> tuple[Verdict, dict[str, Any], bool]:
        other, copies = subject.built(build), copies_of(before)
        other.module._put_globals(variables)
        limits = {**trial.limits, "limit_s": seconds_left(verdict.seconds, trial.limits.get("limit_s"))}
        limits["replay"] = limits.get("replay") or "forwards"  # other orders are those of the optimised build
        limits["passes"] = False
        checks = () if build == "exact" else trial.checks  # of that one, values alone are wanted
        found, ended = replace(trial, subject=other, checks=checks, limits=limits).run(copies)
        return found, copies, getattr(ended, "left_out", 0) == 0

    try:
        other, copies, is_whole = again("unoptimised")
        told: list[Finding] = []
        differs = isinstance(outcome, TilewrightError | MemoryError) or outcome.may_differ or outcome.left_out
        if verdict and other and is_whole and not differs and (told := [*apart(values, copies)]):
            exact, changed, is_whole = again("exact")
            told = [*apart(changed, copies)] if exact and is_whole else []  # else fused products and sums explain it
    except ToolError as error:
        return replace(verdict, not_covered=(f"unoptimised code: {error.what}", *verdict.not_covered)), outcome
    merged = joined(verdict, other)
    return replace(merged, status="wrong" if told else merged.status, findings=(*merged.findings, *told)), outcome


def _name_of(kernel: Any) -> str:
    if isinstance(kernel, LoadedKernel):
        return kernel.title
    authored = kernel if isinstance(kernel, Kernel) else getattr(kernel, "kernel", None)
    return authored.name if isinstance(authored, Kernel) else str(getattr(kernel, "__name__", kernel))


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


# Two builds of one kernel, as the compiler optimises it and as it is written: their findings as one verdict.
#
# What the compiler removes or joins no run of the optimised text shows; what it moves or vectorises no run of the
# other. A finding says which build has it. Where neither has one, both give the same values.


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


def with_later(verdict: Verdict, told: Iterable[Finding]) -> Verdict:
    """The verdict with what was found later."""
    later = (*told,)
    is_wrong = any(finding.severity == "error" for finding in later)
    return replace(verdict, status="wrong" if is_wrong else verdict.status, findings=(*verdict.findings, *later))
