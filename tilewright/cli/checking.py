"""`tilewright check`: a kernel of a .cu or PTX file on the simulator with every check, and a verdict.

Its launch and its arguments come from the command line, from a TOML file beside the kernel's, or from its host code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, islice
from os.path import commonpath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilewright.checking import EXPLORED, UNOPTIMISED, Policy, ran
from tilewright.cli.argument_spec import ArgumentSpec, argument_spec
from tilewright.cli.arguments import (
    Request,
    arguments_of,
    kernel_of,
    named_by,
    requests_beside,
    sequences_beside,
    sizes_without_host_code,
)
from tilewright.cli.branching import left_out
from tilewright.cli.clock import FileClock, KernelClock
from tilewright.cli.doubts import has_update, is_apart, is_by_data
from tilewright.cli.launching import (
    Launched,
    as_launched,
    kernels_asked_for,
    smaller,
    zeros_for_ramps,
)
from tilewright.cli.options import extents
from tilewright.cli.proposing import meets, with_proposals
from tilewright.cli.sequencing import ProposedOrder, in_order, is_dependent, planned, proposed_orders, waits
from tilewright.cli.turns import last_turn
from tilewright.errors import ArgumentError, Span, TilewrightError
from tilewright.explain import BUILDS, COMMAND, WAITING, Finding, parse_idioms, reworded
from tilewright.load import LoadedKernel, LoadedModule, load_cu, load_ptx
from tilewright.load.cu_headers import absent, headers
from tilewright.load.cu_host import switches
from tilewright.load.cu_launcher import instances_of_templates
from tilewright.load.cu_life import HostAround
from tilewright.sequences import PlannedLaunch, sequence
from tilewright.terminal import complain, say
from tilewright.trials import copies_of, differ, named_arrays, variables_of, with_named
from tilewright.variations import others
from tilewright.verdict import Report, Verdict, notes_on, verdict_on

if TYPE_CHECKING:
    from tilewright.cli.verdicts import Asked
    from tilewright.load.cu_numbers import Number
    from tilewright.sim import Run

# Limits of a run with other sizes: nothing is told of one that takes longer; of a large grid a part runs.
BESIDE = {"explore": 0, "replay": "forwards", "limit_s": 10.0, "passes": False, "sample": 400_000}
MOST_UNEVEN = 5.0  # seconds of a run that is made once more with sizes that are no multiples of a warp's lanes
APART = ("simulation", "divergence", *WAITING)  # kinds of findings of lanes and threads that do not meet
ORDER_SECONDS, EARLY_SECONDS = 20.0, 8.0  # of launches one behind the other, and of each of them
MORE_ROOM = 2  # times that an array gets twice its length
Keep: TypeAlias = Callable[[Report], None]
"""Gets the report on a file as far as it is."""


def loaded(
    path: Path,
    arch: str | None,
    defines: Iterable[str],
    include: Iterable[Path],
    kernels: Sequence[str],
    options: Sequence[str] = (),
) -> LoadedModule:
    """The module of a file: PTX by its suffix, else CUDA C++."""
    if not path.is_file():
        raise ArgumentError(f"there is no file {path}", given=str(path), allowed="FILE.py, FILE.cu or FILE.ptx")
    if path.suffix == ".ptx":
        return load_ptx(path)
    pairs = (define.partition("=") for define in defines)
    macros = {name: value if equals else None for name, equals, value in pairs}
    for name in switches(path.read_text(encoding="utf-8", errors="replace"), "__global__", macros):
        complain(f"{path.name}: -D {name}, as all of its kernels ask for it")
        macros[name] = "1"
    folders = _with_headers(path, [*include, *_repository(path)])
    return load_cu(path, arch or "sm_90a", defines=macros, include=folders, kernels=kernels, options=options)


ROOTS = (".git", "pyproject.toml", "setup.py", "CMakeLists.txt", "PKG-INFO")  # what stands in the folder of a project


def _repository(path: Path) -> list[Path]:
    """The folder of the project that a file is part of, whose headers it may include by their way from there."""
    around = path.resolve().parents
    return [folder for folder in around if any((folder / name).exists() for name in ROOTS)][-1:]


DEPTH = 4  # of headers that are found by their names and include others
MOST_FILES = 20_000  # of a project in which headers are looked for


def _with_headers(path: Path, folders: list[Path]) -> list[Path]:
    """The folders, and those of the project with the headers that these lack, each by `_nearest_folder`."""
    text, project = path.read_text(encoding="utf-8", errors="replace"), dict[str, list[Path]]()
    for _ in range(DEPTH):
        texts = headers(text, path.resolve().parent, folders, is_whole=False)[1]
        lacking = [name for name, header in texts.items() if header == absent(name)]
        if lacking and not project:
            files = [*islice((file for folder in _repository(path) for file in folder.rglob("*")), MOST_FILES)]
            for file in files if len(files) < MOST_FILES else ():
                project.setdefault(file.name, []).append(file)
        more = dict.fromkeys(folder for name in lacking for folder in _nearest_folder(name, project, path.resolve()))
        if not more:
            break
        folders = [*folders, *more]
    return folders


def _nearest_folder(name: str, project: Mapping[str, Sequence[Path]], near: Path) -> list[Path]:
    """The folder below which a header is, as an include names it: where several are, of the one that has most folders
    in common with a file, if there is one.
    """
    parts = Path(name).parts
    files = [file for file in project.get(parts[-1], ()) if file.parts[-len(parts) :] == parts]
    shared = {file: len(commonpath((file, near))) for file in files}
    nearest = [file for file in files if shared[file] == max(shared.values())]
    return [file.parents[len(parts) - 1] for file in nearest] if len(nearest) == 1 else []


def check_file(asked: Asked, limits: Mapping[str, Any], keep: Keep = lambda report: None) -> Report:
    """Run what is asked for, and say of each run what came of it: as it goes, or under --json in the report alone.
    keep: gets the report as far as it is.

    Raises TilewrightError where there is nothing to run.
    """
    line = Request.of(asked, check=asked.checks, globals=tuple(map(argument_spec, asked.const)), made_by=asked.made_by)
    if asked.profile is not None:
        from tilewright.profiling import gpu

        gpu(asked.profile)  # an unknown one is told before the run
    sizes = extents(asked.size)
    if asked.in_order:
        return _in_order(asked, line.args, limits, sizes)
    sequences = [] if asked.arg else sequences_beside(asked.file)
    requests = ([] if asked.arg else requests_beside(asked.file)) or ([] if sequences else [line])
    every = [*requests, *chain(*(whole.launches for whole in sequences))]
    kernels = [name for request in every for name in request.kernels]
    module = _with_instances(partial(loaded, asked.file, asked.arch, asked.define, asked.include,
                                     options=asked.option), kernels, propose=asked.propose)  # fmt: skip
    table = None if requests == [line] else asked.file.with_suffix(".toml")
    by_host_code = line.block is None and requests == [line] and asked.file.suffix != ".ptx"
    in_order_too = by_host_code and line.kernel is None
    if in_order_too and is_dependent(module):
        try:
            ordered = in_order(module, asked.file, line.args, sizes, asked.seed, pdl=asked.pdl)
        except ArgumentError:
            if not asked.propose:
                raise
        else:
            complain(f"{asked.file.name}: launches that may begin early: checked in order, as with --sequence")
            return _ran_in_order(asked, limits, ordered)
    refused = list[Verdict]()
    if by_host_code:
        launches, refused = _by_host_code(module, asked, line, sizes)
    else:
        if sizes:
            raise sizes_without_host_code(module, requests, sizes)
        launches = [Launched(request, request, "", {}) for request in requests]
    limited = {**limits, "max_findings": asked.max_findings}
    check = FileCheck(asked, module, sizes, limited, launches, is_alone=len(launches) + len(refused) == 1)
    with named_by(table):
        verdicts = check.verdicts(keep) + refused
        if in_order_too and asked.propose:
            verdicts = check.with_orders(verdicts)
    with named_by(asked.file.with_suffix(".toml") if sequences else None):
        reports = [_ran_in_order(asked, limits, planned(module, whole)) for whole in sequences]
    verdicts += [verdict for report in reports for verdict in report.verdicts]
    return Report(str(asked.file), tuple(verdicts), limits)


def _with_instances(load: Callable[..., LoadedModule], kernels: Sequence[str], *, propose: bool) -> LoadedModule:
    """A module with these kernels; of templates that nothing instantiates an instance is proposed."""
    module = load(kernels=kernels)
    if not propose or module.kernels or not module.texts:
        return module
    names = instances_of_templates(module.texts)
    return load(kernels=names) if names else module


def _by_host_code(
    module: LoadedModule, asked: Asked, line: Request, sizes: Mapping[str, int]
) -> tuple[list[Launched], list[Verdict]]:
    """The launches of the host code, and verdicts on the kernels that cannot be launched, where others can.

    Raises TilewrightError where none can.
    """
    read = partial(with_proposals if asked.propose else as_launched, module, file=asked.file, sizes=sizes)
    refused = dict(module.refused) if line.kernel is None else {}
    try:
        launches = read(request=line)
    except TilewrightError:
        every = line.kernel is None and asked.propose and not line.args
        names = [name for name, _ in kernels_asked_for(module, line, asked.file, sizes)] if every else []
        ways = {name: _tried(partial(read, request=replace(line, kernel=name))) for name in names if len(names) > 1}
        launches = [launch for way in ways.values() if not isinstance(way, TilewrightError) for launch in way]
        refused |= {name: error for name, error in ways.items() if isinstance(error, TilewrightError)}
        if not launches:
            raise
    verdicts = [verdict_on(name, error) for name, error in refused.items()]
    for verdict in verdicts if not asked.json else ():
        say(str(verdict))
    skipped = left_out(module, asked.file, sizes) if line.kernel is None else []
    complain("\n".join([*(launch.said for launch in launches if launch.ways is None), *skipped]))
    return launches, verdicts


def _tried(launches: Callable[[], list[Launched]]) -> list[Launched] | TilewrightError:
    try:
        return launches()
    except TilewrightError as error:
        return error


@dataclass(frozen=True)
class FileCheck:
    """The launches of a module, and how they are checked. is_alone: is there one, and no other that is refused? chosen:
    what they are launched with.
    """

    asked: Asked
    module: LoadedModule
    sizes: Mapping[str, Number]
    limits: Mapping[str, Any]
    launches: Sequence[Launched]
    is_alone: bool
    chosen: list[Launched] = field(default_factory=list)

    @cached_property
    def policy(self) -> Policy:
        return Policy(self.asked.both, parse_idioms(self.asked.strict or ()), self.asked.pdl)

    @cached_property
    def bounds(self) -> dict[str, Any]:
        """Limits of the runs."""
        asked = self.asked
        return {**self.limits, "explore": EXPLORED if asked.explore is None else asked.explore, "replay": asked.replay}

    def verdicts(self, keep: Keep) -> list[Verdict]:
        """A verdict on each launch, in its share of the time."""
        clock = FileClock(self.limits["limit_s"], *([self.limits["limit_s"]] if self.asked.limit else []))
        handed = Handed.between(() if self.asked.small else self.launches)
        verdicts = list[Verdict]()
        for number, launch in enumerate(self.launches):
            left = len(self.launches) - number
            verdicts.append(self._verdict(launch, handed.of(launch), clock.share(left)))
            keep(Report(str(self.asked.file), tuple(verdicts), self.limits))
        return verdicts

    def with_orders(self, verdicts: Sequence[Verdict]) -> list[Verdict]:
        """The verdicts, with what is wrong where a kernel begins before the one before it in the host code has ended.
        Each order is run with what is chosen for its kernels alone.
        """
        told = {verdict.kernel: verdict for verdict in verdicts}
        with suppress(TilewrightError):  # what is proposed for kernels may not fit together, or the time is over
            clock = KernelClock(ORDER_SECONDS)
            for order in self._orders():
                for planned_launch, verdict in self._in_order(order, clock):
                    name = planned_launch.kernel.title if isinstance(planned_launch.kernel, LoadedKernel) else ""
                    if name in told:
                        told[name] = self._with_early(told[name], verdict, order)
        return [told[verdict.kernel] for verdict in verdicts]

    def _in_order(self, order: ProposedOrder, clock: KernelClock) -> Iterator[tuple[PlannedLaunch, Verdict]]:
        """The verdicts on launches; those behind a wrong one come as if it began when all before it had ended."""
        launches, told = [*order.launches], 0
        while told < len(launches):
            report = sequence(
                *launches, checks="races", both=self.asked.both, strict=self.asked.strict or (), explore=0,
                limit_s=min(clock.within(EARLY_SECONDS) or 0, self.limits["limit_s"]),
                max_findings=self.limits["max_findings"],
            )  # fmt: skip
            yield from zip(launches[told:], report.verdicts[told:], strict=False)
            told, last = len(report.verdicts), launches[len(report.verdicts) - 1]
            if not last.pdl:
                return
            launches[told - 1] = replace(last, pdl=False)

    def _orders(self) -> Iterator[ProposedOrder]:
        kernels = [kernel_of(self.module, launch.request) for launch in self.chosen]
        if not is_dependent(self.module) and not any(map(waits, kernels)):
            return
        sizes: dict[str, Number] = {}
        for launch in self.chosen:
            for name, size in launch.proposed.sizes.items():
                sizes[name] = size if name in launch.multiples else min(size, sizes.get(name, size))
        launches = [launch for launch in self.chosen if {**sizes, **launch.proposed.sizes} == sizes]
        if len(launches) < len(self.chosen):  # again, as all have the same sizes
            ways = with_proposals(self.module, Request.of(self.asked), self.asked.file, {**self.sizes, **sizes})
            launches = [next(way.ways(KernelClock())) if way.ways is not None else way for way in ways]
        yield from proposed_orders(self.module, launches, {**self.sizes, **sizes}, self.asked.seed)

    def _with_early(self, verdict: Verdict, ordered: Verdict, order: ProposedOrder) -> Verdict:
        """A verdict on a kernel alone with the races of one that is launched in order."""
        errors = {(finding.kind, finding.file, finding.line) for finding in verdict.findings
                 if finding.severity == "error"}  # fmt: skip
        more = [finding for finding in ordered.findings if finding.severity == "error"
                and (finding.kind, finding.file, finding.line) not in errors]  # fmt: skip
        if not more:
            return verdict
        if not self.asked.json:
            lines = ", ".join(map(str, order.lines))
            say("\n".join([f"{verdict.kernel}: wrong, launched in order: lines {lines}", *map(_with_line, more)]))
        places = {(finding.file, finding.line) for finding in more}
        left = [finding for finding in verdict.findings if (finding.file, finding.line) not in places]
        return replace(verdict, status="wrong", findings=(*more, *left))

    def _verdict(self, launch: Launched, handed: Handed, clock: KernelClock) -> Verdict:
        """The verdict on one launch. Raises TilewrightError where it is alone, and cannot be run as asked."""
        try:
            ways = launch.ways(clock) if launch.ways is not None else iter([launch.checked()])
            first = next(ways)
            self.chosen.append(first)
            if not (first.proposed.args or self.asked.small):
                sizes = {**self.sizes, **first.proposed.sizes}
                first = replace(first, last=last_turn(self.module, first, self.asked.file, sizes))
            return self._check(first, handed, clock).of_ways(ways)
        except TilewrightError as error:
            if self.is_alone and error.kind != "limit":
                raise
            name = kernel_of(self.module, launch.request).title
            verdict = verdict_on(name, error)
            if not self.asked.json:
                _say(verdict, error)
            return verdict

    def _check(self, launch: Launched, handed: Handed, clock: KernelClock) -> LaunchCheck:
        asked = self.asked
        if launch.proposed.args or launch.proposed.sizes:
            complain(launch.said)
        if asked.small:
            request, coverage = smaller(self.module, launch, asked.file, self.sizes)
            launch = replace(launch, request=request, coverage=coverage)
        policy = replace(self.policy, pdl=self.policy.pdl or launch.request.pdl, around=launch.around)
        return LaunchCheck(self.module, launch, self.bounds, policy, asked.gpu, asked.json, asked.profile, handed,
                           clock=clock)  # fmt: skip


@dataclass(frozen=True)
class Handed:
    """What launches hand on. homes: of the arrays of a launch that others have, too, by name; shared: of those of
    all launches. left: what launches before have left, by homes; one that ends clean adds what it has changed. sure:
    homes of what only numbers of the host code have led to. ran: the lines of launches that have ended clean. rest: the
    bytes that these have left as they were allocated, of the wanted ones, by homes.
    """

    homes: Mapping[str, Any] = field(default_factory=dict)
    shared: frozenset[Any] = frozenset()
    left: dict[Any, NDArray[Any]] = field(default_factory=dict)
    sure: set[Any] = field(default_factory=set)
    wanted: set[Any] = field(default_factory=set)
    ran: set[int] = field(default_factory=set)
    rest: dict[Any, NDArray[np.bool_]] = field(default_factory=dict)

    @property
    def is_sure(self) -> bool:
        return all(home in self.sure for home in self.homes.values() if home in self.left)

    def to(self, kernel: LoadedKernel, values: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments, with what launches before have left in them."""
        arrays, copies = dict[str, Any](), dict[int, NDArray[Any]]()
        for name, array in named_arrays(kernel, values).items():
            octets = self.left.get(self.homes.get(name))
            if octets is not None and isinstance(array, np.ndarray) and array.nbytes == octets.size:
                left = octets.copy().view(array.dtype).reshape(array.shape)
                arrays[name] = copies.setdefault(id(array), left)  # one that is passed twice stays one
        return with_named(kernel, values, arrays)

    @classmethod
    def between(cls, launches: Sequence[Launched]) -> Handed:
        """What these launches will hand on."""
        many = Counter(home for launch in launches for home in {*launch.homes.values()})
        homes = {launch.homes.get(name) for launch in launches for name in launch.around.by_launches}
        return cls(shared=frozenset(home for home, count in many.items() if count > 1), wanted=homes)

    def of(self, launch: Launched) -> Handed:
        """The same for one launch."""
        return replace(self, homes={name: home for name, home in launch.homes.items() if home in self.shared})

    def rest_of(self, around: HostAround) -> dict[str, NDArray[np.bool_]]:
        """Of arrays that launches alone have set, the bytes that these have left as they were allocated."""
        rests = {name: self.rest.get(self.homes.get(name)) for name, lines in around.by_launches.items()
                 if lines <= self.ran}  # fmt: skip
        return {name: rest for name, rest in rests.items() if rest is not None and rest.any()}

    def keep(
        self,
        around: HostAround,
        arrays: Mapping[str, Any],
        after: Mapping[str, Any],
        again: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    ) -> None:
        """Remember what a launch leaves of the wanted arrays as it was allocated, which a run with other contents there
        tells. arrays, after: before and after the launch; again: those after one that has begun with others.
        """
        self.ran.add(around.line)
        rests = dict[str, NDArray[np.bool_]]()
        for name, home in self.homes.items():
            array = arrays.get(name)
            if home in self.wanted and isinstance(array, np.ndarray):
                rest = np.ones(array.nbytes, np.bool_) if name in around.unset else around.rest.get(name)
                if rest is not None and rest.size == array.nbytes:
                    rests[name] = rest
        where = {name: rest.reshape(-1, arrays[name].itemsize).any(1).reshape(arrays[name].shape)
                 for name, rest in rests.items()}  # fmt: skip
        began = {name: np.where(which, others(arrays[name]), arrays[name]) for name, which in where.items()}
        ended = again(began) if began else {}
        for name, which in where.items():
            same = which & (after[name] == arrays[name]) & (ended[name] == began[name]) & (began[name] != arrays[name])
            self.rest[self.homes[name]] = np.repeat(same.reshape(-1), arrays[name].itemsize)

    def take(self, request: Request, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """Remember what a launch has changed."""
        is_sure = self.is_sure and not any(spec.fills & {"ramp", "random"} for spec in request.args)
        for name, array in after.items():
            if name in self.homes and isinstance(array, np.ndarray) and differ(array, before[name]):
                self.left[self.homes[name]] = copies_of({name: array.reshape(-1).view(np.uint8)})[name]
                (self.sure.add if is_sure else self.sure.discard)(self.homes[name])


@dataclass(frozen=True)
class _Ended:
    """A run that has ended. named, began: its arguments after and before it; before: those, where they are wanted."""

    kernel: LoadedKernel
    verdict: Verdict
    outcome: Run | TilewrightError | MemoryError
    named: Mapping[str, Any]
    began: Mapping[str, Any]
    before: Sequence[Any]


@dataclass(frozen=True)
class LaunchCheck:
    """A launch of a module's kernel, and how it is checked. gpu: is it launched on the GPU, too, and compared? quiet:
    is nothing printed? profile: the GPU for which its time is told. handed: what launches before have left. is_known:
    do integers have the values of the host code, not zeros instead? clock: of the kernel.
    """

    module: LoadedModule
    launch: Launched
    limits: Mapping[str, Any]
    policy: Policy
    gpu: bool = False
    quiet: bool = False
    profile: str | None = None
    handed: Handed = field(default_factory=Handed)
    is_known: bool = True
    clock: KernelClock = field(default_factory=KernelClock)

    @property
    def request(self) -> Request:
        return self.launch.request

    def with_args(self, change: Callable[[ArgumentSpec], ArgumentSpec]) -> LaunchCheck:
        """The same with other arguments."""
        request = replace(self.request, args=tuple(map(change, self.request.args)))
        return replace(self, launch=replace(self.launch, request=request))

    def of_ways(self, others: Iterator[Launched]) -> Verdict:
        """The verdict on a launch, whose arrays of integers may be proposed: what some numbers show and others do not
        is no finding, but updates that lack an atomic, and threads of a CTA that do not meet, as `_stands` says. A
        clean one is run once more.
        """
        if not self.launch.proposed.args:
            return self.with_integers()
        begin = self._from_here()
        check, first = self._with_room(begin)
        for other in islice(others, 1 if first.verdict else None) if not has_update(first.verdict) else ():
            begin()
            way = replace(self, launch=other)
            check_of_way, told = (way._quick() if first.verdict else way)._with_room(begin)
            if first.verdict and has_update(told.verdict):
                begin()
                check_of_way, told = way._with_room(begin)
            if has_update(told.verdict) or (told.verdict and not first.verdict and not self._stands(first, other)):
                return check_of_way._told(told)
            if first.verdict and self._in_shared_memory(told):
                begin()
                check, first = way._with_room(begin)
        return check._told(first)

    def _stands(self, ended: _Ended, other: Launched) -> bool:
        """Is it wrong that threads of a CTA do not meet, though nothing is with numbers that reach less of the code?"""
        less, more = (launch.coverage.get("reached", 0) for launch in (other, self.launch))
        return less < more and meets(self.module.texts) and is_apart(ended.verdict)

    def _in_shared_memory(self, ended: _Ended) -> bool:
        """Do threads of a CTA not meet between their accesses of its shared memory?"""
        inner = [finding for finding in ended.verdict.findings if finding.kind == "races"
                 and (finding.buffer or "").partition(".")[0] not in ended.kernel.parameters]  # fmt: skip
        return is_apart(replace(ended.verdict, findings=tuple(inner)))

    def _with_room(self, begin: Callable[[], None]) -> tuple[LaunchCheck, _Ended]:
        """A run with arrays as long as another one has reached; where numbers in them lead further now, with longer
        ones: an array without another length has no end.
        """
        check, ended = self, self._run()
        for _ in range(MORE_ROOM):
            outside = {(finding.buffer or "").partition(".")[0] for finding in ended.verdict.findings
                       if finding.kind == "bounds" and finding.severity == "error"}  # fmt: skip
            if not outside & check.launch.loose:
                break
            begin()
            check = replace(check, launch=check.launch.longer(outside & check.launch.loose))
            ended = check._run()
        return check, ended

    def _quick(self) -> LaunchCheck:
        """The same in one build, and without what is said besides."""
        return replace(self, policy=replace(self.policy, both=False), profile=None, gpu=False)

    def with_integers(self) -> Verdict:
        """The verdict on a launch of host code with small integers in the arrays that this fills with numbers which
        nobody knows; with zeros, where those lead out of an array or to no end; and then without what launches before
        have left, where that comes from such numbers.
        """
        zeros = replace(self.with_args(zeros_for_ramps), is_known=False)
        has_ramps = zeros.request.args != self.request.args
        checks, begin = [self, *([zeros] * has_ramps)], self._from_here()
        if has_ramps and has_update(zeros._quick()._run().verdict):
            checks = [zeros]
        arrays = (self.handed, *([Handed()] * (not self.handed.is_sure)))
        ways = [replace(check, handed=handed) for handed in arrays for check in checks]
        for way in ways[:-1]:
            begin()
            ended = way._run()
            if not is_by_data(ended.verdict):
                return way._told(ended)
        begin()
        verdict = ways[-1]._told(ways[-1]._run())
        if verdict and len(ways) > 1:
            instead = "ramps, whose numbers lead" if has_ramps else "what launches before leave, which leads"
            complain(f"{verdict.kernel}: zeros in place of {instead} out of an array or to no end")
        return verdict

    def _from_here(self) -> Callable[[], None]:
        """What puts the variables of the device back to what they are now."""
        kernel = kernel_of(self.module, self.request)
        return partial(kernel.module._put_globals, variables_of(kernel))

    def _run(self) -> _Ended:
        """A run, of which nothing is told yet."""
        kernel = kernel_of(self.module, self.request)
        random = np.random.default_rng(self.request.seed)
        self._put_globals(random)
        values = arguments_of(kernel, self.request, random)
        named = self.handed.to(kernel, dict(zip(kernel.parameters, values, strict=True)))
        args = [*named.values()]
        began = copies_of(named) if self.handed.homes else {}
        kept = self.gpu or self.profile is not None
        before = [np.copy(value) if isinstance(value, np.ndarray) else value for value in args] if kept else []
        policy = replace(self.policy, around=self._around)
        limits = {**self.limits, "limit_s": self.clock.within(self.limits.get("limit_s"))}
        verdict, outcome = ran(kernel, args, self.request.launch, self.request.check, limits, in_place=True,
                               policy=policy)  # fmt: skip
        if self.launch.proposed.args:
            left = self._without_removed(verdict)
            unfit = self._unfit(verdict, left)
            verdict = left if unfit is None else verdict_on(verdict.kernel, unfit)
            outcome = outcome if unfit is None else unfit
        return _Ended(kernel, verdict, outcome, named, began, before)

    @property
    def _around(self) -> HostAround:
        return replace(self.policy.around, rest=self.handed.rest_of(self.policy.around))

    def _told(self, ended: _Ended) -> Verdict:
        """The verdict on a run, printed; later launches find what it has left."""
        verdict, outcome, kernel = ended.verdict, ended.outcome, ended.kernel
        if verdict and ended.began:
            self._hand_on(ended)
        if isinstance(outcome, TilewrightError) and verdict.status == "refused" and outcome.at is None:
            raise outcome  # of the call, not of this kernel's text
        if self.gpu and verdict:
            verdict = _compared(kernel, verdict, ended.before, [*ended.named.values()], self.request.launch)
        if self.launch.unguarded is not None:
            verdict = replace(verdict, findings=(*verdict.findings, *self._unguarded(self.launch.unguarded)))
        if (self.launch.tail or self.launch.last) and verdict:
            rest = [*self._tail(self.launch.tail), *self._last(self.launch.last)]
            verdict = replace(verdict, status="wrong" if rest else verdict.status, findings=(*rest, *verdict.findings))
        verdict = replace(verdict, findings=(*verdict.findings, *self.launch.cut))
        if self.launch.wide is not None and verdict and verdict.seconds < MOST_UNEVEN:
            verdict = replace(verdict, findings=(*verdict.findings, *self._wide(self.launch.wide)))
        if self.launch.uneven is not None and verdict and verdict.seconds < MOST_UNEVEN:
            verdict = replace(verdict, findings=(*verdict.findings, *self._uneven(self.launch.uneven)))
        verdict = replace(verdict, coverage=self.launch.coverage, proposed=self.launch.proposed.words())
        if not self.quiet:
            _say(verdict, outcome, self.policy.around.line, counted=self.profile is None)
        if self.profile is not None and not isinstance(outcome, TilewrightError | MemoryError):
            verdict = self._timed(verdict, ended, self.profile)
        return verdict

    def _timed(self, verdict: Verdict, ended: _Ended, gpu: str) -> Verdict:
        """The verdict with the least time that the launch takes on a GPU, and about how long it takes; both printed."""
        from tilewright.profiling import estimate_loaded, profile_loaded
        from tilewright.profiling import gpu as gpu_named

        launch = ended.kernel, ended.before, self.request.launch, gpu_named(gpu)
        least, about = profile_loaded(*launch), estimate_loaded(*launch)
        if not self.quiet:
            say(f"{least}\n\n{about}")
        times = {"gpu": about.gpu, "figures": "measured" if about.measured else "of documents", "least_s": least.bound,
                 "bound_by": least.unit, "about_s": about.seconds, "why": about.why}  # fmt: skip
        return replace(verdict, times=times)

    def _hand_on(self, ended: _Ended) -> None:
        kernel, began = ended.kernel, ended.began
        arrays = named_arrays(kernel, began), named_arrays(kernel, ended.named)
        self.handed.take(self.request, *arrays)
        ramps = [spec.name for spec in self.request.args if "ramp" in spec.fills]
        is_known = self.is_known and all(self.handed.homes.get(name or "") in self.handed.left for name in ramps)
        if is_known and not getattr(ended.outcome, "left_out", 1):
            self.handed.keep(self._around, *arrays, partial(self._again, kernel, began))

    def _uneven(self, launch: Launched) -> Iterator[Finding]:
        """A warning of lanes and threads that do not meet where a size is no multiple of a warp's lanes: kernels may be
        meant for multiples alone.
        """
        for finding in self._first_beside(launch, APART):
            even = self.launch.proposed.sizes
            odd = {name: size for name, size in launch.proposed.sizes.items() if size != even.get(name)}
            said = ", ".join(f"{name} = {size}, not {even.get(name)}" for name, size in odd.items())
            what = f"{finding.message}, where {said}"
            yield replace(finding, message=what, severity="warning", remedy=None)

    def _unguarded(self, launch: Launched) -> Iterator[Finding]:
        """A warning of what a kernel that compares a size with nothing does where that is no multiple."""
        for finding in self._first_beside(launch, ("bounds",)):
            sizes = " and ".join(f"{name} = {launch.proposed.sizes[name]}" for name in self.launch.multiples)
            needs = " and ".join(f"{name} to be a multiple of {width}"
                                 for name, width in self.launch.multiples.items())  # fmt: skip
            what = f"{finding.message}, where {sizes}: it needs {needs}, and compares it with nothing"
            yield replace(finding, message=what, severity="warning", hint=None, remedy=None)

    def _last(self, launch: Launched | None) -> Iterator[Finding]:
        """What is outside of an array in the last turn of the loop of host code that launches."""
        for finding in self._first_beside(launch, ("bounds", "alignment")) if launch is not None else ():
            yield replace(finding, message=f"{finding.message}, in the last turn of the loop that launches it")

    def _tail(self, launch: Launched | None) -> Iterator[Finding]:
        """What is outside of an array where sizes leave a part of a vector, for which host code has a thread or the
        kernel has code; nothing of kernels without that whose rows of that size begin in the middle of a vector then:
        these are for multiples.
        """
        for finding in self._first_beside(launch, ("bounds", "alignment")) if launch is not None else ():
            if launch is not None and (finding.kind == "bounds" or launch.has_rest):
                even = self.launch.proposed.sizes
                odd = {name: size for name, size in launch.proposed.sizes.items() if size != even.get(name)}
                said = ", ".join(f"{name} = {size}, not {even.get(name)}" for name, size in odd.items())
                yield replace(finding, message=f"{finding.message}, where {said}")

    def _wide(self, launch: Launched) -> Iterator[Finding]:
        """A warning of an index with 32 bits, where the kernel takes sizes of 64."""
        for finding in self._first_beside(launch, ("bounds",)):
            sizes = launch.proposed.sizes
            said = ", ".join(f"{name} = {size:,}" for name, size in sizes.items()
                             if size != self.launch.proposed.sizes.get(name))  # fmt: skip
            what = f"{finding.message}, where {said}: an index has 32 bits, and the sizes have 64"
            yield replace(finding, message=what, severity="warning", remedy=None)

    def _first_beside(self, launch: Launched, kinds: Collection[str]) -> Iterator[Finding]:
        """The first finding of some kinds, none of them races, in one run of another launch, of which nothing stays."""
        from tilewright.sim import parse_checks

        checks = parse_checks(launch.request.check)
        named = checks & {*kinds} if checks.issuperset(kinds) else checks - {"races"}
        launch = replace(launch, request=replace(launch.request, check=",".join(sorted(named)) or "none"))
        alone = replace(self.policy, both=False, around=HostAround())
        bare = replace(self, policy=alone, launch=launch, handed=Handed(), limits={**self.limits, **BESIDE})
        begin = self._from_here()
        findings = bare._run().verdict.findings
        begin()
        return islice((finding for finding in findings if finding.kind in kinds), 1)

    def _again(self, kernel: LoadedKernel, began: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
        """What a run leaves that begins with other arrays."""
        values, limits = copies_of(with_named(kernel, began, changed)), {**self.limits, "explore": 0}
        ran(kernel, [*values.values()], self.request.launch, self.request.check, limits, in_place=True,
            policy=Policy(both=False))  # fmt: skip
        return named_arrays(kernel, values)

    def _unfit(self, verdict: Verdict, left: Verdict) -> ArgumentError | None:
        """Why a verdict tells of what is proposed, and not of the kernel: a division by 0 of proposed sizes, and places
        outside of arrays that no room suffices for. left: what is left of it `_without_removed`.
        """
        proposed, kinds = self.launch.proposed, {finding.kind for finding in verdict.findings}
        if "arithmetic" in kinds and proposed.sizes:
            return ArgumentError("not judged: it divides by 0 with the sizes that are proposed",
                                 given=proposed.hint, allowed="other ones, by --size")  # fmt: skip
        if self.launch.is_reach_known or verdict.status != "wrong" or left.status == "wrong":
            return None
        return ArgumentError("not judged: it reaches further than arrays are proposed", given=proposed.hint,
                             allowed="smaller sizes, or arrays as long as it reaches, by --size and --arg")  # fmt: skip

    def _without_removed(self, verdict: Verdict) -> Verdict:
        """The verdict without accesses outside of proposed arrays that the compiler removes: the lengths of these are
        how far optimised code reaches. Where no run has shown that, it has none of them.
        """
        names = {spec.name for spec in self.launch.proposed.args}
        findings = tuple(finding for finding in verdict.findings if finding.kind != "bounds"
                         or (self.launch.is_reach_known and finding.builds != (UNOPTIMISED,))
                         or (finding.buffer or "").partition(".")[0] not in names)  # fmt: skip
        is_wrong = verdict.status == "wrong" and any(finding.severity == "error" for finding in findings)
        status = verdict.status if is_wrong or verdict.status != "wrong" else "clean"
        return replace(verdict, findings=findings, status=status)

    def _put_globals(self, random: np.random.Generator) -> None:
        """Fill the variables of the device that the request names."""
        for spec in self.request.globals:
            values, place = spec.made(random), self.module.globals[spec.name or ""]
            if np.size(values) not in (1, place.size):
                allowed = f"{place.size} of {place.dtype}"
                raise ArgumentError(f"--const {spec.name} has another size", given=f"{spec}", allowed=allowed)
            place[...] = np.reshape(values, place.shape if np.size(values) > 1 else ())


def _in_order(
    asked: Asked, args: Sequence[ArgumentSpec], limits: Mapping[str, Any], sizes: Mapping[str, int]
) -> Report:
    """The verdicts on the launches of a file, in their order."""
    module = loaded(asked.file, asked.arch, asked.define, asked.include, (), asked.option)
    launches = in_order(module, asked.file, args, sizes, asked.seed, pdl=asked.pdl)
    return _ran_in_order(asked, limits, launches)


def _ran_in_order(asked: Asked, limits: Mapping[str, Any], launches: Sequence[PlannedLaunch]) -> Report:
    report = sequence(
        *launches, checks=asked.checks, both=asked.both, strict=asked.strict or (), explore=asked.explore,
        limit_s=limits.get("limit_s"), max_findings=asked.max_findings,
    )  # fmt: skip
    if not asked.json:
        for verdict in report.verdicts:
            say("\n".join([f"{verdict.kernel}: {verdict.said}", *map(_with_line, verdict.findings)]))
    return replace(report, file=str(asked.file))


def _with_line(finding: Finding) -> str:
    """A finding with the line of its file."""
    head, *fields = str(finding).split("\n")
    at = Span.from_column(finding.file, finding.line, finding.column)
    return "\n".join([head, *(at.excerpt() if at is not None else ()), *fields])


def _compared(
    kernel: LoadedKernel, verdict: Verdict, before: Sequence[Any], args: Sequence[Any], launch: Mapping[str, Any]
) -> Verdict:
    """The verdict, with differences from the same launch on a GPU."""
    from tilewright.load.on_gpu import differences

    apart = tuple(Finding("results", text) for text in differences(kernel, before, args, **launch))
    return replace(verdict, status="wrong" if apart else "clean", findings=(*apart, *verdict.findings))


def _say(
    verdict: Verdict, outcome: Run | TilewrightError | MemoryError, line: int = 0, *, counted: bool = True
) -> None:
    """The verdict, all of it, to stdout; an error of usage has been raised before. line: of the launch in the file.
    counted: with the counts of the run, which a profile tells itself.
    """
    launch = (
        {"option shared_bytes": f"{{1}} bytes of dynamic shared memory in the launch of line {line}"} if line else {}
    )
    dialect = replace(COMMAND, spellings={**COMMAND.spellings, **launch})
    if verdict.output:
        say(verdict.output.rstrip("\n"))
    say(f"{verdict.kernel}: {verdict.said}")
    for note in notes_on(verdict):
        say(note)
    if isinstance(outcome, TilewrightError):
        say(str(reworded(outcome, dialect)))
    shown = len(outcome.findings) if isinstance(outcome, TilewrightError) else 0
    for number, finding in enumerate(verdict.findings):
        if finding.severity == "warning":
            at = Span.from_column(finding.file, finding.line, finding.column)
            where = f"{at}: " if at is not None and not finding.message.startswith(f"{at}") else ""
            say(f"warning: {where}{finding.message}" + f"\n  try:     {finding.hint}" * bool(finding.hint))
        elif number >= shown:
            say(_with_line(finding))
        elif len(finding.builds) == 1:
            say(f"  line {finding.line}: {BUILDS[finding.builds[0]]}")
    if not isinstance(outcome, TilewrightError | MemoryError):
        if outcome.left_out:
            say(f"not run: {outcome.left_out:,} CTAs between others, as the launch is a large one")
        say(f"\n{outcome.counts}" * counted)
