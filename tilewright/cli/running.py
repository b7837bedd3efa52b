"""`tilewright run`: a kernel on random or given arguments, and its results."""

from __future__ import annotations

import shlex
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.cli.kernels import kernel_named, neighbours
from tilewright.cli.options import constants
from tilewright.compiler import Executable, compile
from tilewright.errors import TilewrightError
from tilewright.inputs import Argument, make_arguments, parse_sizes, shown
from tilewright.ranks import named_arguments
from tilewright.view.terminal import complain, say, with_progress

if TYPE_CHECKING:
    from tilewright.advise import Advice
    from tilewright.ir import Kernel
    from tilewright.sim import Run


def compiled(place: str, arch: str | None, const: list[str]) -> Executable:
    """The kernel at ``place``, compiled."""
    return with_progress(f"compiling {place}", lambda _: compile(kernel_named(place, const), arch))


@dataclass(frozen=True, slots=True)
class Inputs:
    """The arguments of a run on the command line: NAME=FILE or NAME=NUMBER, and the seed of the rest."""

    args: list[str]
    sizes: list[str]
    seed: int

    def arguments(self, kernel: Kernel) -> dict[str, Argument | list[Argument]]:
        """One for each parameter of a kernel."""
        return make_arguments(kernel, constants(self.args), parse_sizes(constants(self.sizes)), self.seed)

    def command(self, place: str, arch: str | None, const: list[str]) -> str:
        """The words behind another command's name for the same kernel and the same arguments."""
        options = (("--const", const), ("--arg", self.args), ("--size", self.sizes), ("--arch", [arch] if arch else []))
        return shlex.join([place, *(word for option, values in options for v in values for word in (option, v))])


def variants(place: str, arch: str | None, const: list[str]) -> dict[str, Executable]:
    """The kernel with other constants, where it has some: those that compile."""
    names = {}
    for what, kernel in neighbours(place, const).items():
        with suppress(TilewrightError):  # a variant that does not fit
            names[what] = compile(kernel, arch)
    return names


def advised(place: str, arch: str | None, const: list[str], inputs: Inputs, gpu: str | None) -> Advice:
    """The advice of `Executable.advise` for the kernel at ``place``."""
    exe = compiled(place, arch, const)
    arguments = inputs.arguments(exe.kernel)
    others = variants(place, arch, const) if gpu else {}
    return with_progress(f"looking at {exe.name}", lambda _: exe.advise(*arguments.values(), gpu=gpu, variants=others))


def profile_kernel(exe: Executable, inputs: Inputs, gpu: str) -> None:
    """Print what a kernel does, the least time that it takes on a GPU, and about how long it takes."""
    arguments = inputs.arguments(exe.kernel)
    say(str(with_progress(f"running {exe.name}", lambda _: exe.profile(*arguments.values(), gpu=gpu))))
    say()
    say(str(with_progress(f"estimating {exe.name}", lambda _: exe.estimate(*arguments.values(), gpu=gpu))))


def run_kernel(
    exe: Executable, inputs: Inputs, *, again: str, check: str, gpu: bool, out: Path | None, limits: dict[str, Any]
) -> None:
    """Run a kernel, and print what it printed and counted. again: see `Inputs.command`."""
    if out:
        out.mkdir(parents=True, exist_ok=True)  # before the run: a folder that cannot be made is an error at once
    arguments = inputs.arguments(exe.kernel)
    say(f"{exe.name} for {exe.target}")
    for name, value in zip(named_arguments(exe.kernel), arguments.values(), strict=True):
        say(f"  {name}: {shown(value)}")
    if gpu:
        with_progress(f"running {exe.name}", lambda _: exe(*arguments.values(), on="gpu"))
        say("ran on the GPU")
    else:
        try:
            _show(exe.simulate(*arguments.values(), check=check, **limits), again)
        except KeyboardInterrupt as stop:
            complain(str(stop))
            raise  # the command line leaves with code 130
    if out:
        _write(out, arguments)


def _show(run: Run, again: str) -> None:
    if run.output:
        say(run.output.rstrip("\n"))
    say()
    say(str(run.counts))
    if conflicts := run.counts.bank_conflicts:
        say(f"\n{conflicts:,} bank conflicts: `tilewright advise {again}` looks for the layout without them")
    for warning in run.warnings:
        say(f"warning: {warning}")


def _write(out: Path, arguments: dict[str, Argument | list[Argument]]) -> None:
    for name, value in arguments.items():
        every = {f"{name}.{rank}": x for rank, x in enumerate(value)} if isinstance(value, list) else {name: value}
        for file, array in every.items():
            if isinstance(array, np.ndarray):
                np.save(out / f"{file}.npy", array)
    say(f"\narrays written to {out}/")
