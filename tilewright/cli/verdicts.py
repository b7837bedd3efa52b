"""`tilewright check`: a file judged here, or in a process of its own, with limits of time and memory.

A .py file is Python and runs as its author's code, with the rights of the user who checks it. The process is there so
that a file that hangs or takes all memory gets a verdict; it is no sandbox. Under --json a .cu or PTX file has one,
too: a program that asks gets an answer.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import redirect_stdout, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Any

from tilewright.errors import ArgumentError, TilewrightError
from tilewright.explain import COMMAND, Finding, reworded
from tilewright.inputs import make_arguments, parse_limits
from tilewright.process import hold
from tilewright.terminal import complain, say
from tilewright.verdict import Report, Verdict, report_from, unjudged, verdict_on

if TYPE_CHECKING:
    from typer import Context

    from tilewright.ir import Kernel

DEFAULT_SECONDS = 120.0
START_SECONDS = 15.0  # to start Python and compile, beyond the limit of a run
OWN_BYTES = 4 << 30  # address space that Python and NumPy reserve without using it
OF_CU = {
    "grid": "--grid", "block": "--block", "smem": "--smem", "cluster": "--cluster",
    "non_portable_cluster": "--non-portable-cluster", "define": "-D", "include": "-I",
    "option": "--option", "gpu": "--gpu", "in_order": "--sequence", "pdl": "--pdl", "profile": "--profile",
    "small": "--small",
}  # fmt: skip
"""Fields of `Asked` that nothing reads for a .py file, with their options."""
LINE_BYTES = 1000  # of what a process says last


@dataclass(frozen=True)
class Asked:
    """The options of `tilewright check` by name. write: the file for a report, of the process that shall write it."""

    file: Path
    kernel: str | None
    grid: str
    block: str | None
    smem: int
    cluster: str | None
    non_portable_cluster: bool
    arg: list[str]
    const: list[str]
    define: list[str]
    include: list[Path]
    option: list[str]
    arch: str | None
    checks: str
    gpu: bool
    json: bool
    schema: int
    both: bool
    strict: list[str]
    explore: int | None
    replay: str | None
    in_order: bool
    pdl: bool
    max_findings: int
    seed: int
    limit: list[str]
    size: list[str]
    write: Path | None
    profile: str | None = None
    small: bool = False
    made_by: str | None = None
    propose: bool = True

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Asked:
        """The options as the command line has them: some versions of Typer hand paths over as strings."""
        write, (file, kernel) = params["write"], place_of(Path(params["file"]))
        paths = {"file": file, "kernel": params["kernel"] or kernel, "include": [*map(Path, params["include"])]}
        return cls(**{**params, **paths, "write": Path(write) if write else None})

    @property
    def is_python(self) -> bool:
        """Is it a file that runs as its author's code?"""
        return self.file.suffix.partition(":")[0] == ".py"


def place_of(path: Path) -> tuple[Path, str | None]:
    """``kernels.cu:scale`` as the file and the kernel; a .py file keeps the name, which its own reader takes apart."""
    file, colon, kernel = path.name.partition(":")
    if path.exists() or not colon or file.endswith(".py"):
        return path, None
    return path.with_name(file), kernel


def judged(asked: Asked, context: Context) -> Report:
    """The report on a file, printed, or written for the process that asked."""
    if asked.write is not None:
        leave(asked, asked.write)
    if not (asked.json or asked.is_python):
        return judged_here(asked)
    report = judged_apart(str(context.params["file"]), options_of(context), asked.limit)
    if asked.json:
        say(json.dumps(report.as_dict(asked.schema), indent=2))
        return report
    for verdict in report.verdicts:  # what cannot be run as asked is an error of usage
        (complain if verdict.status == "refused" else say)(str(verdict))
    return report


def judged_here(asked: Asked, keep: Callable[[Report], None] = lambda report: None) -> Report:
    """The report of this process. keep: gets it as far as it is.

    Raises TilewrightError where there is nothing to run.
    """
    limits = parse_limits(asked.limit)
    if asked.write is not None and "limit_bytes" in limits:
        hold(nbytes=limits["limit_bytes"] + OWN_BYTES)
    if asked.is_python:
        return _python(asked, limits)
    from tilewright.cli.checking import check_file

    return check_file(asked, {"limit_s": DEFAULT_SECONDS} | limits, keep)


# A process of its own


def options_of(context: Context) -> list[str]:
    """The options of a command as they were given, for another process."""
    words: list[str] = []
    for option in context.command.params:
        setting = context.params.get(option.name or "")
        if option.param_type_name != "option" or setting is None or setting == option.default:
            continue
        if isinstance(setting, bool):
            words += (option.opts if setting else option.secondary_opts)[:1]
        else:
            values = setting if isinstance(setting, (list, tuple)) else [setting]
            words += [f"{option.opts[0]}={value}" if option.opts[0][:2] == "--" else f"{option.opts[0]}{value}"
                      for value in values]  # fmt: skip
    return words


def judged_apart(place: str, options: Iterable[str], limit: Iterable[str]) -> Report:
    """The report of another process on the file; if that hangs or dies, a report of that."""
    try:
        limits = parse_limits(limit)
    except TilewrightError as error:
        return Report(place, (verdict_on(place, reworded(error, COMMAND)),))
    seconds = limits.get("limit_s") or DEFAULT_SECONDS
    with tempfile.TemporaryDirectory() as folder:
        into = Path(folder) / "report.json"
        code, last = _process(["check", *options, f"--write={into}", "--", place], seconds + START_SECONDS, into)
        report = report_from(json.loads(into.read_text("utf-8"))) if into.is_file() else Report(place, (), limits)
    if code == 0 and report.verdicts:
        return report
    why = f"the file took longer than {seconds:g} s" if code is None else f"its process ended by itself, code {code}"
    return replace(report, verdicts=(*report.verdicts, _stopped(place, why, *(last if code is not None else ()))))


def _process(arguments: list[str], seconds: float, into: Path) -> tuple[int | None, Iterable[str]]:
    """The exit code of our command, None where it took too long, and the last line that it complained of. into: the
    report that it writes; with each part of it the seconds begin anew.

    Whatever processes it has begun end with it.
    """
    command = [sys.executable, "-m", "tilewright", *arguments]
    last: deque[str] = deque(maxlen=1)
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=subprocess.PIPE, start_new_session=True)
    listener = Thread(target=lambda: last.extend(_lines(process)), daemon=True)
    listener.start()
    try:
        while True:
            before = _written(into)
            try:
                return process.wait(seconds), last
            except subprocess.TimeoutExpired:
                if _written(into) == before:
                    return None, ()
    finally:
        _end(process)
        listener.join(1.0)


def _written(into: Path) -> int:
    """When a report was written last; 0 where none was."""
    return into.stat().st_mtime_ns if into.is_file() else 0


def _lines(process: subprocess.Popen[bytes]) -> Iterator[str]:
    """What a process complains of, to its end: it never waits for a reader."""
    assert process.stderr is not None, "it was asked for"
    with process.stderr as pipe:
        for line in iter(lambda: pipe.readline(LINE_BYTES), b""):
            if text := line.decode(errors="replace").strip():
                yield text


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def _stopped(place: str, message: str, limit: str | None = None) -> Verdict:
    finding = Finding("limit", message, file=place, given=limit, allowed="--limit 120s --limit 4GiB")
    return unjudged(place, "stopped", finding)


def leave(asked: Asked, into: Path) -> None:
    """Write the report for the process that asked, as it goes, and end: what a file has left running has no say."""
    place = str(asked.file)
    parts = [Report(place, ())]

    def keep(report: Report) -> None:
        unfinished = into.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(asdict(report.in_dialect(COMMAND))), encoding="utf-8")
        unfinished.rename(into)
        parts.append(report)

    with redirect_stdout(sys.stderr):  # what the file prints is no part of the report
        try:
            keep(judged_here(asked, keep))
        except (TilewrightError, MemoryError) as error:
            keep(replace(parts[-1], verdicts=(*parts[-1].verdicts, verdict_on(place, error))))
    os._exit(0)


# Kernels of a Python file


def _python(asked: Asked, limits: dict[str, Any]) -> Report:
    """A verdict for each kernel. Together they take no more than the seconds of the limit."""
    from tilewright.cli.kernels import kernel_named, kernels_of, split_place  # the process that asks needs no compiler

    _check_options(asked)
    began, place = monotonic(), str(asked.file)
    seconds = limits.get("limit_s", DEFAULT_SECONDS)
    path, name = split_place(place)
    kernels = [kernel_named(place, asked.const)] if name or asked.const else kernels_of(path)
    verdicts = []
    for kernel in kernels:
        left = max(1.0, seconds - (monotonic() - began))
        verdicts.append(_judged(kernel, kernels, asked, **limits | {"limit_s": left}))
    return Report(place, tuple(verdicts), limits)


def _judged(kernel: Kernel, kernels: list[Kernel], asked: Asked, **limits: Any) -> Verdict:
    """The verdict on one kernel of a file. It gets its own sizes, and refuses those that no kernel has."""
    from tilewright.checking import check
    from tilewright.cli.options import constants, extents

    others = {name for other in kernels for name in _symbols(other)} - _symbols(kernel)
    try:
        sizes = {name: size for name, size in extents(asked.size).items() if name not in others}
        values = make_arguments(kernel, constants(asked.arg), sizes, asked.seed)
        return check(kernel, *values.values(), checks=asked.checks, target=asked.arch,
                     max_findings=asked.max_findings, explore=asked.explore, replay=asked.replay,
                     **limits)  # fmt: skip
    except (TilewrightError, MemoryError) as error:
        return verdict_on(kernel.name, error)


def _check_options(asked: Asked) -> None:
    """Raises ArgumentError for options that say nothing about a .py file: its kernels have their own launch."""
    options = [option for name, option in OF_CU.items() if (value := getattr(asked, name)) and value != "1"]
    if options:
        allowed = "--arg, --size, --const, --arch, --check, --explore, --replay, --seed, --limit, --max-findings"
        raise ArgumentError("these options are of .cu and .ptx files", given=", ".join(options), allowed=allowed)


def _symbols(kernel: Kernel) -> set[str]:
    return {symbol.name for symbol in kernel.symbols}
