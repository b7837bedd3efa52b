"""The commands that judge a kernel: what to change in its layouts, and whether it is right."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.options import (
    Arch,
    Both,
    CheckedFile,
    Const,
    Explore,
    InOrder,
    Json,
    Limit,
    Pdl,
    Place,
    ProfiledFor,
    Replay,
    Seed,
    Sizes,
    Small,
    Strict,
    Values,
    WideCluster,
)  # fmt: skip

__all__ = ["advise", "check", "judge"]

MOST_BYTES = 8 << 30  # of address space, for each part of a test


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
    from tilewright.cli.running import Inputs, advised
    from tilewright.view.terminal import say

    say(str(advised(place, arch, const or [], Inputs(arg or [], size or [], seed), time)))


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
    write: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Check a kernel without a GPU, and say what was found: for programs with --json.

    Runs it on the simulator, every check on: races, missing fences and barriers, deadlocks, uninitialised, misaligned
    and out-of-bounds accesses, told at the file's lines, with exit code 1. Of a .cu or PTX file, without --arg it does
    what FILE.toml beside the file says. A .py file is Python and runs as its author's code. It does so, and so does
    everything under --json, in a process of its own, stopped at the limits (60 s where none is named); exit code 2: it
    cannot be run, 3: stopped.

    \b
    Examples:
      tilewright check vadd.cu --grid 4 --block 256 --arg a:f32[1000]=random --arg b:f32[1000] --arg n=1000
      tilewright check matmul.cu --kernel 'matmul<64>' --grid 2,2 --block 16,16 --arg ...
      tilewright check vadd.cu --size n=1000000 --small
      tilewright check kernels.py:scale --size n=1000 --limit 30s --json
    """
    from tilewright.cli.verdicts import Asked, judged

    raise typer.Exit(judged(Asked.of(ctx.params), ctx).exit_code)


def judge(
    folder: Annotated[Path, typer.Argument(help="With task.yml, reference.py and submission.py.")],
    submission: Annotated[Path | None, typer.Option(help="Another file with custom_kernel.")] = None,
    benchmarks: Annotated[bool, typer.Option("--benchmarks", help="The sizes of task.yml's benchmarks.")] = False,
    checks: Annotated[str, typer.Option("--check", help="all, default, none, or names with commas.")] = "all",
    seconds: Annotated[float, typer.Option(min=1, help="That each part of a test may take.")] = 60.0,
    walls: Annotated[
        bool, typer.Option(help="Keep the submission from files, network and processes; Triton needs --no-walls.")
    ] = True,
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
    from json import dumps

    from tilewright.serve.contest import Allowance, contest
    from tilewright.serve.problem import problem_of
    from tilewright.view.terminal import say

    bounds = Allowance(seconds, MOST_BYTES, walls)
    group = "benchmarks" if benchmarks else "tests"
    report = contest(problem_of(folder, submission), group=group, checks=checks, bounds=bounds)
    if json:
        say(dumps(report.as_dict(), indent=2))
    else:
        for verdict in report.verdicts:
            say(str(verdict))
            say(f"  {verdict.seconds:.1f} s; not covered: {'; '.join(verdict.not_covered) or 'nothing'}")
        right = sum(map(bool, report.verdicts))
        say(f"{report.file}: {report.status}, {right} of {len(report.verdicts)} {group} clean")
    raise typer.Exit(report.exit_code)
