"""`tilewright check FILE.py`: the kernels of a file judged in a process of their own, with limits of time and memory.

A .py file is Python and runs as its author's code, with the rights of the user who checks it. The process is there so
that a file that hangs or takes all memory gets a verdict; it is no sandbox.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tilewright.checking import check
from tilewright.cli.kernels import constants, kernel_named, kernels_of, split_place
from tilewright.errors import TilewrightError
from tilewright.inputs import make_arguments, parse_sizes
from tilewright.ir import Kernel
from tilewright.process import hold
from tilewright.verdict import Finding, Report, Verdict, finding_of, report_from, status_of

__all__ = ["judged_apart", "judged_here"]

DEFAULT_SECONDS = 60.0
START_SECONDS = 15.0  # to start Python and compile, beyond the limit of a run
OWN_BYTES = 4 << 30  # address space that Python and NumPy reserve without using it


def judged_apart(place: str, options: list[str], limits: dict[str, Any]) -> Report:
    """The report of another process on the file; if that hangs or dies, a report of that."""
    seconds = limits.get("limit_s") or DEFAULT_SECONDS
    with tempfile.TemporaryDirectory() as folder:
        into = Path(folder) / "report.json"
        command = [sys.executable, "-m", "tilewright", "check", place, *options, "--write", str(into)]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds + START_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return _stopped(place, f"the file took longer than {seconds:g} s", limits)
        if into.is_file():
            return report_from(json.loads(into.read_text("utf-8")))
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return _stopped(place, f"its process ended by itself, code {done.returncode}", limits, *last)


def _stopped(place: str, message: str, limits: dict[str, Any], given: str | None = None) -> Report:
    found = Finding("limit", message, file=place, given=given, allowed="--limit 120s --limit 4GiB")
    return Report(place, (Verdict(place, "stopped", findings=(found,), not_covered=("everything",)),), limits)


def judged_here(
    place: str, *, arch: str | None, const: list[str], given: tuple[list[str], list[str], int], checks: str,
    limits: dict[str, Any],
) -> Report:  # fmt: skip
    """The report of this process. given: --arg, --size and the seed of random arguments."""
    if "limit_bytes" in limits:
        hold(nbytes=limits["limit_bytes"] + OWN_BYTES)
    with redirect_stdout(sys.stderr):  # the file's output is no part of the report
        try:
            path, name = split_place(place)
            kernels = [kernel_named(place, const)] if name or const else kernels_of(path)
        except (TilewrightError, MemoryError) as error:
            return Report(place, (_refused(place, error),), limits)
        verdicts = [_judged(kernel, kernels, given, checks=checks, target=arch, **limits) for kernel in kernels]
    return Report(place, tuple(verdicts), limits)


def _judged(kernel: Kernel, kernels: list[Kernel], given: tuple[list[str], list[str], int], **how: Any) -> Verdict:
    """The verdict on one kernel of a file. It gets its own sizes, and refuses those that no kernel has."""
    args, sizes, seed = given
    others = {name for each in kernels for name in _symbols(each)} - _symbols(kernel)
    try:
        own = {name: size for name, size in parse_sizes(constants(sizes)).items() if name not in others}
        made = make_arguments(kernel, constants(args), own, seed)
        return check(kernel, *made.values(), **how)
    except (TilewrightError, MemoryError) as error:
        return _refused(kernel.name, error)


def _symbols(kernel: Kernel) -> set[str]:
    return {symbol.name for symbol in kernel.symbols}


def _refused(name: str, error: TilewrightError | MemoryError) -> Verdict:
    """The verdict on a kernel, or a file, that could not be run at all."""
    if isinstance(error, MemoryError):
        return Verdict(name, "stopped", findings=(Finding("limit", f"not enough memory: {error}"),))
    return Verdict(name, status_of(error), findings=(finding_of(error),), not_covered=("the run",))


def write(report: Report, into: Path) -> None:
    """Write the report for the process that started this one."""
    into.write_text(json.dumps({**asdict(report)}), encoding="utf-8")
