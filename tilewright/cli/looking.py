"""The commands that show a run: `tilewright look` makes its page, `tilewright needed` says which lines it needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.options import Arch, Const, Json, Seed, Sizes, Values
from tilewright.errors import ArgumentError, SimulationError

if TYPE_CHECKING:
    from tilewright.compiler import Executable
    from tilewright.load import LoadedKernel

__all__ = ["look", "needed"]

File = Annotated[str, typer.Argument(metavar="FILE.py[:KERNEL]|FILE.cu|FILE.ptx", help="Python, CUDA C++, or PTX.")]
Name = Annotated[str | None, typer.Option(help="Of a .cu or PTX file with several: NAME or 'NAME<128>'.")]
Grid = Annotated[str | None, typer.Option(help="Of a .cu or PTX file, CTAs: 4 or 4,2,1.")]
Block = Annotated[str | None, typer.Option(help="Threads of a CTA: 256 or 16,16.")]
Smem = Annotated[int, typer.Option(help="Bytes of dynamic shared memory.")]
Cluster = Annotated[str | None, typer.Option(help="CTAs of a cluster.")]


OF_OURS, OF_OTHERS = ("const", "size"), ("kernel", "grid", "block", "smem", "cluster")
"""Options that only kernels of Python have, and that only others have."""


@dataclass(frozen=True, slots=True)
class RunAsked:
    """A kernel to run, as the command line names it."""

    file: str
    kernel: str | None
    grid: str | None
    block: str | None
    smem: int
    cluster: str | None
    arg: list[str]
    const: list[str]
    size: list[str]
    seed: int
    arch: str | None

    def ready(self) -> tuple[Executable | LoadedKernel, tuple[Any, ...], dict[str, Any]]:
        """The kernel, its arguments and its launch, which ours has itself."""
        path, _, name = self.file.partition(":")
        if Path(path).suffix in (".cu", ".ptx", ".cuh"):
            self._refuse(OF_OURS, "not Python", "--kernel, --grid, --block, --smem, --cluster, --arg, --seed")
            return self._loaded(Path(path), self.kernel or name or None)
        self._refuse(OF_OTHERS, "Python, where a kernel has its launch itself", "--arg, --size, --const, --seed")
        from tilewright.cli.running import Inputs, compiled

        made = compiled(self.file, self.arch, self.const)
        return made, tuple(Inputs(self.arg, self.size, self.seed).arguments(made.kernel).values()), {}

    def _refuse(self, options: tuple[str, ...], what: str, allowed: str) -> None:
        given = [f"--{name}" for name in options if getattr(self, name)]
        if given:
            raise ArgumentError(f"{self.file} is {what}", given=", ".join(given), allowed=allowed)

    def _loaded(self, path: Path, name: str | None) -> tuple[LoadedKernel, tuple[Any, ...], dict[str, Any]]:
        import numpy as np

        from tilewright.checking import LAUNCH
        from tilewright.cli.checking import (
            Request,
            arguments_of,
            as_launched,
            kernel_of,
            loaded,
            numbers,
            requests_beside,
        )

        grid, block, cluster = (numbers(text) if text else None for text in (self.grid, self.block, self.cluster))
        request = Request(name, grid or (1,), block, self.smem, cluster, args=tuple(self.arg), seed=self.seed)
        if not self.arg and (beside := requests_beside(path)):
            own: dict[str, Any] = {"grid": grid, "block": block, "cluster": cluster, "shared_bytes": self.smem}
            found = next((one for one in beside if name in (None, one.kernel)), beside[0])
            request = replace(found, **{key: value for key, value in own.items() if value})
        module = loaded(path, self.arch, (), (), [request.kernel] if request.kernel else [])
        if request.block is None and path.suffix != ".ptx":
            request = as_launched(module, request, path)
        kernel = kernel_of(module, request)
        args = arguments_of(kernel, request, np.random.default_rng(request.seed))
        return kernel, tuple(args), {each: getattr(request, each) for each in LAUNCH}


def look(
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
    asked = RunAsked(file, kernel, grid, block, smem, cluster, arg or [], const or [], size or [], seed, arch)
    if not _looked(asked, out, trace, ctas=ctas, check=check, with_needed=with_needed):
        raise typer.Exit(1)


def _looked(asked: RunAsked, out: Path, trace: Path | None, *, ctas: int, check: str, with_needed: bool) -> bool:
    """Writes the page of a run; False where a finding has ended it."""
    from tilewright.view.look import Timeline, page_of, written
    from tilewright.view.terminal import complain, say, with_progress

    made, args, launch = asked.ready()
    rows = _rows(made, args, launch) if with_needed else []
    try:
        run = with_progress(f"running {made.name}", lambda _: made.simulate(*args, check=check, record=ctas, **launch))
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


def _rows(made: Executable | LoadedKernel, args: tuple[Any, ...], launch: dict[str, Any]) -> list[dict[str, Any]]:
    """What `tilewright.needed` says, as rows of the page; none where the kernel itself is wrong."""
    from tilewright.deleting import needed as tried

    try:
        return [one.as_dict() for one in tried(made, *args, **launch)]
    except SimulationError:
        return []


def needed(
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
    from json import dumps

    from tilewright.deleting import needed as tried
    from tilewright.view.terminal import say

    asked = RunAsked(file, kernel, grid, block, smem, cluster, arg or [], const or [], size or [], seed, arch)
    made, args, launch = asked.ready()
    rows = tried(made, *args, **launch)
    if json:
        say(dumps([one.as_dict() for one in rows], indent=1))
        return
    for one in rows:
        say(str(one))
    spare = [one for one in rows if not one.needed]
    say(f"\n{len(rows)} lines order something, {len(spare)} of them redundant for these arguments")
