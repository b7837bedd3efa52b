"""The commands that run a kernel to judge it: is it right, what happens in a run, what would make it faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.options import Arch, Const, Json, Limit, Place, Seed, Sizes, Values, constants, extents
from tilewright.errors import ArgumentError, SimulationError, choices
from tilewright.terminal import complain, say, with_progress

if TYPE_CHECKING:
    from tilewright.compiler import Executable
    from tilewright.load import LoadedKernel

# The commands that show a run: `tilewright look` makes its page, `tilewright needed` says which lines it needs.


File = Annotated[str, typer.Argument(metavar="FILE.py[:KERNEL]|FILE.cu|FILE.ptx", help="Python, CUDA C++, or PTX.")]
Name = Annotated[str | None, typer.Option(help="Of a .cu or PTX file with several: NAME or 'NAME<128>'.")]
Grid = Annotated[str | None, typer.Option(help="Of a .cu or PTX file, CTAs: 4 or 4,2,1.")]
Block = Annotated[str | None, typer.Option(help="Threads of a CTA: 256 or 16,16.")]
Smem = Annotated[int, typer.Option(help="Bytes of dynamic shared memory.")]
Cluster = Annotated[str | None, typer.Option(help="CTAs of a cluster.")]
WideCluster = Annotated[
    bool, typer.Option("--non-portable-cluster", help="Clusters of 9 to 16 CTAs, as the host would have to ask for.")
]


OF_OURS, OF_OTHERS = ("const", "size"), ("kernel", "grid", "block", "smem", "cluster")
"""Options that only kernels of Python have, and that only others have."""


@dataclass(frozen=True, slots=True)
class RunAsked:
    """A kernel to run, as the options of a command name it."""

    file: str
    kernel: str | None
    grid: str | None
    block: str | None
    smem: int
    cluster: str | None
    non_portable_cluster: bool
    arg: list[str]
    const: list[str]
    size: list[str]
    seed: int
    arch: str | None

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> RunAsked:
        """The options of a command by name, which may be more."""
        return cls(**{row.name: params[row.name] for row in fields(cls)})

    def ready(self) -> tuple[Executable | LoadedKernel, tuple[Any, ...], dict[str, Any]]:
        """The kernel, its arguments and its launch, which ours has itself."""
        path, _, name = self.file.partition(":")
        if Path(path).suffix in (".cu", ".ptx", ".cuh"):
            self._refuse(OF_OURS, "not Python", "--kernel, --grid, --block, --smem, --cluster, --arg, --seed")
            return self._loaded(Path(path), self.kernel or name or None)
        self._refuse(OF_OTHERS, "Python, where a kernel has its launch itself", "--arg, --size, --const, --seed")
        from tilewright.cli.kernels import Inputs, compiled

        exe = compiled(self.file, self.arch, self.const)
        return exe, tuple(Inputs(self.arg, self.size, self.seed).arguments(exe.kernel).values()), {}

    def _refuse(self, options: tuple[str, ...], what: str, allowed: str) -> None:
        names = [f"--{name}" for name in options if getattr(self, name)]
        if names:
            raise ArgumentError(f"{self.file} is {what}", given=", ".join(names), allowed=allowed)

    def _loaded(self, path: Path, name: str | None) -> tuple[LoadedKernel, tuple[Any, ...], dict[str, Any]]:
        import numpy as np

        from tilewright.cli.arguments import Request, arguments_of, kernel_of, requests_beside
        from tilewright.cli.checking import loaded
        from tilewright.cli.launching import as_launched

        request = replace(Request.of(self), kernel=name)
        if not self.arg and (beside := requests_beside(path)):
            launch = {key: value for key, value in request.launch.items() if value and (key != "grid" or self.grid)}
            nearest = next((choice for choice in beside if name in (None, choice.kernel)), beside[0])
            request = replace(nearest, **launch)
        module = loaded(path, self.arch, (), (), request.kernels)
        if request.block is None and path.suffix != ".ptx":
            first = as_launched(module, request, path, extents(self.size))[0].checked()
            complain(first.said)
            request = first.request
        kernel = kernel_of(module, request)
        args = arguments_of(kernel, request, np.random.default_rng(request.seed))
        return kernel, tuple(args), request.launch


def look(
    ctx: typer.Context,
    file: File,
    out: Annotated[Path, typer.Option("--out", "-o", help="The page.")] = Path("run.html"),
    arg: Values = None,
    size: Sizes = None,
    const: Const = None,
    arch: Arch = None,
    kernel: Name = None,
    grid: Grid = None,
    block: Block = None,
    smem: Smem = 0,
    cluster: Cluster = None,
    non_portable_cluster: WideCluster = False,
    seed: Seed = 0,
    ctas: Annotated[int, typer.Option(min=1, help="How many CTAs are recorded.")] = 16,
    check: Annotated[str, typer.Option(help="all, default, none, or names with commas.")] = "all",
    trace: Annotated[Path | None, typer.Option(help="Also a trace for ui.perfetto.dev, into this file.")] = None,
    with_needed: Annotated[
        bool, typer.Option("--needed", help="Also what follows if each barrier were deleted.")
    ] = False,
) -> None:
    """Run a kernel, and write one page that shows the run: timeline, steps, findings, layouts.

    The page needs no network and no server; open it in a browser. A run that a finding ends is shown up to there, and
    the exit code is 1.

    \b
    Examples:
      tilewright look examples/matmul_ring.py --size m=128 --size n=64 --size k=160 -o run.html
      tilewright look reduce.cu --grid 4 --block 256 --arg x:f32[1024]=random --arg y:f32[4] --arg n=1024
    """
    if not _looked(RunAsked.of(ctx.params), out, trace, ctas=ctas, check=check, with_needed=with_needed):
        raise typer.Exit(1)


def _looked(asked: RunAsked, out: Path, trace: Path | None, *, ctas: int, check: str, with_needed: bool) -> bool:
    """Writes the page of a run; False where a finding has ended it."""
    from tilewright.view.look import Timeline, page_of, written

    exe, args, launch = asked.ready()
    rows = _rows(exe, args, launch) if with_needed else []
    try:
        run = with_progress(f"running {exe.name}", lambda _: exe.simulate(*args, check=check, record=ctas, **launch))
        recording, wrong = run.recording, False
    except SimulationError as error:
        complain(str(error))
        recording, wrong = error.recording, True
        if recording is None:
            raise
    assert recording is not None
    written(out, page_of(recording, needed=rows, view="findings" if wrong else "timeline"))
    if trace is not None:
        recording.timeline(trace)
    say(str(Timeline(recording)))
    say(f"\nthe page is {out} ({out.stat().st_size / 1024:,.0f} KiB)")
    return not wrong


def _rows(exe: Executable | LoadedKernel, args: tuple[Any, ...], launch: dict[str, Any]) -> list[dict[str, Any]]:
    """What `tilewright.needed` says, as rows of the page; none where the kernel itself is wrong."""
    from tilewright.deleting import needed as tried

    try:
        return [trial.as_dict() for trial in tried(exe, *args, **launch)]
    except SimulationError:
        return []


def needed(
    ctx: typer.Context,
    file: File,
    arg: Values = None,
    size: Sizes = None,
    const: Const = None,
    arch: Arch = None,
    kernel: Name = None,
    grid: Grid = None,
    block: Block = None,
    smem: Smem = 0,
    cluster: Cluster = None,
    non_portable_cluster: WideCluster = False,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Say of each barrier, wait and fence of a kernel what follows if its line is deleted.

    The kernel runs once without each of them, every check on, with the same arguments. A line is redundant where
    nothing is found and the results are the same: for these arguments, and by what the checks can see.

    \b
    Examples:
      tilewright needed examples/matmul_ring.py --size m=128 --size n=64 --size k=160
      tilewright needed reduce.cu --grid 4 --block 256 --arg x:f32[1024]=random --arg y:f32[4] --arg n=1024
    """
    from tilewright.deleting import needed as tried

    exe, args, launch = RunAsked.of(ctx.params).ready()
    rows = tried(exe, *args, **launch)
    if json:
        say(dumps([row.as_dict() for row in rows], indent=1))
        return
    for row in rows:
        say(str(row))
    tally = f"\n{_tally([row.needed for row in rows])} for these arguments"
    say(tally if rows else "no barrier, wait or fence is in it")


def _tally(needed: Sequence[bool]) -> str:
    """How many lines order something, and how many of them are redundant.

    >>> _tally([False]), _tally([True]), _tally([True, False, True])
    ('1 line orders something, and is redundant', '1 line orders something, and is needed', '3 lines order something, \
1 of them redundant')
    """
    if len(needed) == 1:
        return f"1 line orders something, and is {'needed' if needed[0] else 'redundant'}"
    return f"{len(needed)} lines order something, {needed.count(False)} of them redundant"


def advise(
    place: Place,
    arg: Values = None,
    size: Sizes = None,
    const: Const = None,
    arch: Arch = None,
    seed: Seed = 0,
    time: Annotated[
        str | None, typer.Option("--time", metavar="GPU", help="Also what each change gains in time on an H200, ...")
    ] = None,
) -> None:
    """Say which lines cost more passes of memory than they need, and which layout takes that away.

    The kernel's source, and under each line what its accesses take: wavefronts of shared memory and sectors of global
    memory, against the ideal, and which lanes meet. Then, for each buffer of shared memory with conflicts, the swizzle
    or padding with the fewest, found by what all accesses of the buffer need; each was compiled and run, with equal
    results. Or why none is better.

    \b
    Examples:
      tilewright advise examples/transpose.py:plain
      tilewright advise kernels.py:stage --size n=1000 --arch sm_90a
      tilewright advise kernels.py:stage --size n=1000 --time H200
    """
    from tilewright.cli.kernels import Inputs, advised

    say(str(advised(place, arch, const or [], Inputs(arg or [], size or [], seed), time)))


Both = Annotated[bool, typer.Option("--both/--no-both", help="Of a .cu file: as optimised, and as written.")]
Strict = Annotated[list[str] | None, typer.Option(help="Tell of a benign idiom: equal-values, all; repeatable.")]
Explore = Annotated[int | None, typer.Option(min=0, help="Orders by chance of a kernel with waits.")]
Replay = Annotated[str | None, typer.Option(help="One choice, as a finding has it: seed:3, refuse:1.")]
Small = Annotated[
    bool, typer.Option("--small", help="The smallest launch that reaches every branch which the given one reaches.")
]
MadeBy = Annotated[
    str | None,
    typer.Option(metavar="KERNEL", help="Writes the arguments through its first parameters; --arg are its others."),
]
InOrder = Annotated[
    bool, typer.Option("--sequence", help="The launches of the .cu file in order; --arg by the host's names.")
]
Propose = Annotated[
    bool, typer.Option(help="Of a .cu file: make up what neither it nor an option says, and tell; or ask for it.")
]
Pdl = Annotated[bool, typer.Option("--pdl", help="A launch may begin before the last one ends.")]
CheckedFile = Annotated[
    Path, typer.Argument(metavar="FILE.py[:KERNEL]|FILE.cu|FILE.ptx", help="Python, CUDA C++, or PTX.")
]
ProfiledFor = Annotated[
    str | None, typer.Option(metavar="GPU", help="Of a .cu or PTX file: also its time on an H200, A100, ...")
]


def check(
    ctx: typer.Context,
    file: CheckedFile,
    kernel: Annotated[str | None, typer.Option(help="NAME or 'NAME<128>'; needed where the file has several.")] = None,
    grid: Annotated[str, typer.Option(help="CTAs: 4 or 4,2,1.")] = "1",
    block: Annotated[str | None, typer.Option(help="Threads of a CTA: 256 or 16,16.")] = None,
    smem: Annotated[int, typer.Option(help="Bytes of dynamic shared memory.")] = 0,
    cluster: Annotated[str | None, typer.Option(help="CTAs of a cluster.")] = None,
    non_portable_cluster: WideCluster = False,
    arg: Annotated[list[str] | None, typer.Option(help="NAME:f32[1024]=random, NAME=7; repeatable.")] = None,
    const: Annotated[list[str] | None, typer.Option("--const", help="A __constant__: NAME:f32[7]=ramp.")] = None,
    define: Annotated[list[str] | None, typer.Option("-D", help="NAME or NAME=VALUE.")] = None,
    include: Annotated[list[Path] | None, typer.Option("-I", help="A folder of headers.")] = None,
    option: Annotated[list[str] | None, typer.Option(help="Of NVRTC: --option=--device-int128; repeatable.")] = None,
    arch: Arch = None,
    checks: Annotated[str, typer.Option("--check", help="all, default, none, or names with commas.")] = "all",
    gpu: Annotated[bool, typer.Option("--gpu", help="Launch it on the GPU, too, and compare.")] = False,
    json: Json = False,
    schema: Annotated[int, typer.Option(min=1, max=2, help="Version of what --json prints.")] = 2,
    both: Both = True,
    strict: Strict = None,
    explore: Explore = None,
    replay: Replay = None,
    in_order: InOrder = False,
    pdl: Pdl = False,
    max_findings: Annotated[int, typer.Option(min=1, help="Stop after so many; 1: at the first.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Of random arguments.")] = 0,
    limit: Limit = None,
    size: Sizes = None,
    profile: ProfiledFor = None,
    small: Small = False,
    made_by: MadeBy = None,
    propose: Propose = True,
    write: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Check a kernel without a GPU, and say what was found: for programs with --json.

    Runs it on the simulator, every check on: races, missing fences and barriers, deadlocks, uninitialised, misaligned
    and out-of-bounds accesses, told at the file's lines, with exit code 1. Of a .cu or PTX file, without --arg it does
    what FILE.toml beside the file says. A .py file runs as its author's code, in a process of its own, and so does
    everything under --json. All stop at the limits (120 s where none is named); exit 2: cannot run, 3: stopped.

    \b
    Examples:
      tilewright check vadd.cu --grid 4 --block 256 --arg a:f32[1000]=random --arg b:f32[1000] --arg n=1000
      tilewright check kernels.py:scale --size n=1000 --limit 30s --json
    """
    from tilewright.cli.verdicts import Asked, judged

    raise typer.Exit(judged(Asked.of(ctx.params), ctx).exit_code)


MOST_BYTES = 8 << 30  # of address space, for each part of a test


def judge(
    folder: Annotated[Path, typer.Argument(help="With task.yml, reference.py and submission.py.")],
    submission: Annotated[Path | None, typer.Option(help="Another file with custom_kernel.")] = None,
    benchmarks: Annotated[bool, typer.Option("--benchmarks", help="The sizes of task.yml's benchmarks.")] = False,
    checks: Annotated[str, typer.Option("--check", help="all, default, none, or names with commas.")] = "all",
    seconds: Annotated[float, typer.Option(min=1, help="That each part of a test may take.")] = 60.0,
    walls: Annotated[bool, typer.Option(help="Keep the submission from files, network and processes.")] = True,
    json: Json = False,
) -> None:
    """Judge a submission to a competition's problem, without a GPU: is it right, and does any check speak?

    The folder is as the public competitions have them. The reference makes the data of each test and says whether what
    custom_kernel returns is right; the kernels that it calls run on the simulator under every check. Tensors for a GPU
    are the host's.

    \b
    Examples:
      tilewright judge examples/problems/row_sums
      tilewright judge problems/vectoradd_py --submission mine.py --json
    """
    from tilewright.serve.contest import Allowance, contest, problem_of

    bounds = Allowance(seconds, MOST_BYTES, walls)
    group = "benchmarks" if benchmarks else "tests"
    report = contest(problem_of(folder, submission, group), group=group, checks=checks, bounds=bounds)
    if json:
        say(dumps(report.as_dict(), indent=2))
    else:
        for verdict in report.verdicts:
            say(str(verdict))
            say(f"  {verdict.seconds:.1f} s; not covered: {'; '.join(verdict.not_covered) or 'nothing'}")
        right = sum(map(bool, report.verdicts))
        say(f"{report.file}: {report.status}, {right} of {len(report.verdicts)} {group} clean")
    raise typer.Exit(report.exit_code)


# `tilewright tune`: configurations of a kernel, ranked by estimated time, with what bounds each.


SHOWN = 20


def tune(
    place: Place,
    gpu: Annotated[str, typer.Option(help="For which GPU: H200, A100, ...")] = "H200",
    shape: Annotated[
        list[str] | None, typer.Option("--shape", "--size", help="Symbolic extents: n=4096 or m=64,n=4096; repeatable.")
    ] = None,
    values: Annotated[
        list[str] | None, typer.Option("--try", help="BLOCK=64,128,256 of a @T.jit kernel; repeatable.")
    ] = None,
    const: Const = None,
    arg: Values = None,
    arch: Arch = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Rank the configurations of a kernel by the time that each is estimated to take, and say what bounds it.

    KERNEL is what tw.autotune made, with its own configurations, or a @T.jit kernel with --try for the constants to
    try. Needs no GPU: a few CTAs of each configuration run on the simulator, and are played with the GPU's figures. On
    a GPU, tw.autotune then measures the first eight.

    \b
    Examples:
      tilewright tune kernels.py:scale --shape n=1000000
      tilewright tune kernels.py:scale --gpu A100 --shape n=1000000 --try THREADS=128,256 --try RUN=4,8
    """
    from tilewright.cli.kernels import tunable_named
    from tilewright.inputs import make_arguments
    from tilewright.profiling import gpu as gpu_named
    from tilewright.tuning import Tuned, autotune

    on, tunable = gpu_named(gpu), tunable_named(place)
    configured = tunable.configs if isinstance(tunable, Tuned) and not values else None
    how = tunable.options if isinstance(tunable, Tuned) else {}
    configs = _configs(values or [], constants(const or [])) if configured is None else configured
    target = arch or how.get("target") or str(on.arch)
    kernel = tunable.make if isinstance(tunable, Tuned) else tunable
    name = tunable.__name__
    tunable = autotune(kernel, configs=configs, target=target, fast_math=how.get("fast_math", False), gpu=on.name)
    first = next(iter(tunable._executables().values()))
    args = tuple(make_arguments(first.kernel, constants(arg or []), extents(shape), seed).values())
    trials = with_progress(f"tuning {name}", lambda _: tunable.estimates(args))
    ranked = sorted(trials, key=lambda trial: trial.rank)
    say(_as_json(name, on.name, ranked) if json else _as_table(name, on.name, ranked))


def _as_json(name: str, gpu: str, ranked: Sequence[Any]) -> str:
    rows = [{"config": dict(trial.config), "seconds": trial.estimated, "why": trial.why, "refused": trial.refused}
            for trial in ranked]  # fmt: skip
    return dumps({"kernel": name, "gpu": gpu, "trials": rows}, indent=2, default=str)


def _as_table(name: str, gpu: str, ranked: Sequence[Any]) -> str:
    from tilewright.profiling.play import unmeasured

    lines = [f"{name} on {gpu}, estimated, not measured: {len(ranked)} configurations{unmeasured(gpu)}"]
    for number, trial in enumerate(ranked[:SHOWN], 1):
        more = more_stages(trial, ranked)
        lines.append(f"{number:4}  {trial.said(timed='')}" + (f"; {more}" if more else ""))
    return "\n".join([*lines, *([f"      and {len(ranked) - SHOWN} more"] if len(ranked) > SHOWN else [])])


def _configs(values: Sequence[str], fixed: Mapping[str, object]) -> list[dict[str, Any]]:
    """All combinations of the values that are to be tried. `Any`: values of compile time."""
    names, several = [], []
    for text in values:
        name, equals, listed = text.partition("=")
        if not equals or not listed:
            raise ArgumentError(f"{text!r} tries nothing", given=text, allowed="NAME=VALUE,VALUE,...")
        if name in names:
            raise ArgumentError(f"--try {name} is given twice", given=" ".join(f"--try {value}" for value in values),
                                allowed=f"--try {name}=VALUE,VALUE,...")  # fmt: skip
        names.append(name)
        several.append([constants([f"{name}={text}"])[name] for text in listed.split(",")])
    if not names:
        raise ArgumentError("there is nothing to try", given="no --try", allowed=choices(None, ["--try NAME=64,128"]))
    return [{**fixed, **dict(zip(names, choice, strict=True))} for choice in product(*several)]


def more_stages(trial: Any, trials: Sequence[Any]) -> str:
    """What one more stage of a ring would do, where it was among those that were tried and threads wait for copies."""
    from tilewright.cli.kernels import STAGES

    name = next((name for name in trial.config if STAGES in name.lower()), None)
    if name is None or trial.estimated is None or not trial.waits_for:
        return ""
    more = {**trial.config, name: trial.config[name] + 1}
    other = next((trial for trial in trials if dict(trial.config) == more), None)
    if other is None:
        return ""
    if other.refused:
        return f"{name}={more[name]} does not fit"
    gain = 1 - other.estimated / trial.estimated
    return f"{name}={more[name]} would fit, and take {abs(gain):.0%} {'less' if gain > 0 else 'more'}"
