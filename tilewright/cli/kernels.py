"""The kernels of Python files: the one that ``FILE.py:KERNEL`` names, compiled and run."""

from __future__ import annotations

import importlib.util
import shlex
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.cli.options import constants, extents
from tilewright.compiler import Executable, compile
from tilewright.errors import ArgumentError, KernelError, Span, TilewrightError, choices
from tilewright.inputs import Argument, make_arguments, named_arguments, shown
from tilewright.ir import Kernel
from tilewright.lang import JitKernel
from tilewright.terminal import complain, say, with_progress
from tilewright.tuning import Tuned

if TYPE_CHECKING:
    from tilewright.advise import Advice
    from tilewright.sim import Run

__all__ = ["LOADS", "kernel_named", "kernels_of", "split_place", "tunable_named"]


def split_place(place: str) -> tuple[Path, str | None]:
    """``examples/a.py:k`` as the file and the kernel's name, None where the file alone is given.

    Raises ArgumentError where there is no such file.
    """
    file, colon, name = (place, "", "") if Path(place).exists() else place.rpartition(":")
    path = Path(file if colon else place)
    if not path.is_file():
        raise ArgumentError(f"there is no file {path}", given=place, allowed="FILE.py or FILE.py:KERNEL")
    return path, name or None


def kernel_named(place: str, const: list[str]) -> Kernel:
    """The kernel of a file: the named one, its only one, or the one called as the file is.

    A ``@T.jit`` kernel is specialised with ``const``. Raises ArgumentError with the file's kernels where the name fits
    none or fits several, and KernelError at the file's line where the file itself fails.
    """
    path, name = split_place(place)
    kernels = _kernels(_imported(path))
    if not kernels:
        raise ArgumentError(f"{path} has no kernels", hint="decorate a function with @T.prim_func, at the top level")
    if name is None:
        name = next(iter(kernels)) if len({id(kernel) for kernel in kernels.values()}) == 1 else path.stem
    if name not in kernels:
        raise ArgumentError(
            f"{path} has no kernel {name!r}" if split_place(place)[1] else f"{path} has several kernels",
            given=place,
            allowed=choices(name, kernels),
            hint=f"{path}:{next(iter(kernels))}",
        )
    kernel = kernels[name]
    if isinstance(kernel, JitKernel):
        return _specialised(kernel, constants(const), name)
    if const:
        raise ArgumentError(f"{name} takes no constants", given=", ".join(const), hint="--const is for @T.jit kernels")
    return kernel


STAGES = "stage"  # in the name of a constant: how many buffers a ring has


def neighbours(place: str, const: list[str]) -> dict[str, Kernel]:
    """A ``@T.jit`` kernel with one whole number doubled or halved, or one stage more or less: by what is other."""
    path, name = split_place(place)
    jitted = {n: value for n, value in vars(_imported(path)).items() if isinstance(value, JitKernel)}
    kernel = jitted.get(name) if name else next(iter(jitted.values()), None)
    values = {**kernel.defaults, **constants(const)} if kernel else {}
    beside = {}
    for constant, value in values.items():
        if kernel is None or type(value) is not int or value <= 0:
            continue
        for other in (value + 1, value - 1) if STAGES in constant.lower() else (2 * value, value // 2):
            with suppress(TilewrightError):  # no kernel for that value
                beside[f"{constant}={other}"] = kernel.specialize(**{**values, constant: other})
    return beside


def tunable_named(place: str) -> Tuned | JitKernel:
    """What `tilewright.autotune` made, or a ``@T.jit`` kernel: the named one, or the only one of the file.

    Raises ArgumentError with those that there are, and KernelError at the file's line where the file itself fails.
    """
    path, name = split_place(place)
    module = _imported(path)
    tunable = {n: value for n, value in vars(module).items() if isinstance(value, Tuned | JitKernel)}
    if name is None and len({id(value) for value in tunable.values()}) == 1:
        name = next(iter(tunable))
    plain = [name for name in _kernels(module) if name not in tunable]
    if name in plain or (name is None and plain and not tunable):
        raise ArgumentError(f"{name or plain[0]} has no constants, so there is nothing to tune", given=place,
                            allowed="a kernel of @T.jit with --try NAME=64,128, or what tilewright.autotune made",
                            hint="give its tile as a parameter of @T.jit")  # fmt: skip
    if name is None or name not in tunable:
        raise ArgumentError(
            f"{path} has no kernel {name!r} with constants" if name else f"name one of the kernels of {path}",
            given=place, allowed=choices(name, tunable) if tunable else "what @T.jit or tilewright.autotune made",
        )  # fmt: skip
    return tunable[name]


def jitted_named(place: str, const: list[str]) -> object:
    """The kernel of Triton that ``FILE.py:NAME`` names, or the only one of the file.

    const: none here; Triton's constants are arguments of a call. Raises ArgumentError where the name fits none.
    """
    assert not const, "constants are arguments"
    path, name = split_place(place)
    functions = {n: f for n, f in vars(_imported(path)).items() if hasattr(f, "arg_names") and hasattr(f, "fn")}
    if name is None and len(functions) == 1:
        return next(iter(functions.values()))
    if name is None or name not in functions:
        raise ArgumentError(
            f"{path.name} has no kernel {name!r} of Triton" if name else f"name one of the kernels of {path.name}",
            given=name or ", ".join(functions) or "none",
            allowed=choices(name or "", functions) or "what @triton.jit made",
        )  # fmt: skip
    return functions[name]


LOADS = {"py": kernel_named, "triton": jitted_named}
"""By language: the kernel of a file, for a judge."""


def kernels_of(path: Path) -> list[Kernel]:
    """Every kernel of a file, once. Raises ArgumentError where there is none, or only some that lack constants."""
    kernels = [kernel for kernel in _kernels(_imported(path)).values() if isinstance(kernel, Kernel)]
    return list({id(kernel): kernel for kernel in kernels}.values()) or [kernel_named(str(path), [])]


def _specialised(kernel: JitKernel, values: dict[str, object], name: str) -> Kernel:
    missing = [constant for constant in kernel.constants if constant not in {**kernel.defaults, **values}]
    if missing or set(values) - set(kernel.constants):
        raise ArgumentError(
            f"{name} takes its constants on the command line",
            given=", ".join(values) or "none",
            allowed=", ".join(kernel.constants),
            hint=" ".join(f"--const {constant}=64" for constant in kernel.constants),
        )
    return kernel.specialize(**values)


def _kernels(module: ModuleType) -> dict[str, Kernel | JitKernel]:
    """The kernels of a module by name; a compiled kernel counts as its kernel."""
    named = ((n, value.kernel if isinstance(value, Executable) else value) for n, value in vars(module).items())
    return {name: value for name, value in named if isinstance(value, Kernel | JitKernel)}


def _imported(path: Path) -> ModuleType:
    """The file as a module; its neighbours can be imported from it, as if it were run.

    Any error in it is the file's own, and is shown at its line.
    """
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ArgumentError(f"{path} is no Python file", given=str(path), allowed="FILE.py or FILE.py:KERNEL")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    folder = str(path.parent.resolve())
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except TilewrightError as error:
        raise error.located(_line_at_fault(path, error)) from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit at the top of a file too
        message = _message(error)
        what = f"{type(error).__name__}: {message}" if message else type(error).__name__
        raise KernelError(what, at=_line_at_fault(path, error)) from error
    finally:
        if folder in sys.path:  # a file may change that, too
            sys.path.remove(folder)
    return module


def _message(error: BaseException) -> str:
    """What an exception of the file says of itself; nothing where its own ``__str__`` fails."""
    try:
        return str(error.msg if isinstance(error, SyntaxError) else error)
    except Exception:
        return ""


def _line_at_fault(path: Path, error: BaseException) -> Span:
    """The innermost line of the file that the error came through; of text that is no Python, the line it names."""
    if isinstance(error, SyntaxError) and error.lineno:
        start = max((error.offset or 1) - 1, 0)
        return Span(error.filename or str(path), error.lineno, start, start + 1)
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    if not lines or not lines[-1].lineno:
        return Span(str(path), 1)
    column = getattr(lines[-1], "colno", None) or 0  # from Python 3.11 on
    return Span(str(path), lines[-1].lineno, column, getattr(lines[-1], "end_colno", None) or 0)


# Kernels compiled and run, with arguments that fit them.


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
        return make_arguments(kernel, constants(self.args), extents(self.sizes), self.seed)

    def command(self, place: str, arch: str | None, const: list[str]) -> str:
        """The words behind another command's name for the same kernel and the same arguments."""
        options = (("--const", const), ("--arg", self.args), ("--size", self.sizes), ("--arch", [arch] if arch else []))
        return shlex.join([place, *(word for option, values in options for v in values for word in (option, v))])


def arch_for(gpu: str | None) -> str | None:
    """The architecture that a kernel is compiled for where a GPU is named, and no other architecture."""
    from tilewright.profiling import gpu as gpu_named

    return str(gpu_named(gpu).arch) if gpu else None


def advised(place: str, arch: str | None, const: list[str], inputs: Inputs, gpu: str | None) -> Advice:
    """The advice of `Executable.advise` for the kernel at ``place``."""
    arch = arch or arch_for(gpu)
    exe = compiled(place, arch, const)
    arguments = inputs.arguments(exe.kernel)
    others = neighbours(place, const) if gpu else {}
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
