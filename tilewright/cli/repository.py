"""`tilewright ci`: the kernels of a repository, for continuous integration and for hooks of version control."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.options import Limit
from tilewright.errors import ArgumentError

if TYPE_CHECKING:
    from tilewright.verdict import Report

SUFFIXES = (".py", ".cu", ".ptx")


def ci(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files, or folders to look through.")],
    sarif: Annotated[Path | None, typer.Option(help="Also write the findings as SARIF 2.1.0.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="A kernel that nobody can run is an error.")] = False,
    limit: Limit = None,
) -> None:
    """Check every kernel of files and folders, each file in a process of its own.

    A .py file counts where it has a kernel of tilewright; a .cu or .ptx file where a TOML file beside it, or a launch
    in the file itself, says how to run it. Others are named and left out. Exit code 1: something is wrong, 3: stopped.

    \b
    Examples:
      tilewright ci kernels/ --sarif findings.sarif
      tilewright ci changed.cu other.py --limit 60s
    """
    from tilewright.cli.verdicts import judged_apart
    from tilewright.verdict import EXIT_CODES
    from tilewright.view.terminal import complain, say

    if gone := [str(path) for path in paths if not path.exists()]:
        raise ArgumentError("nothing is there to check", given=", ".join(gone), allowed="files and folders that exist")
    reports, unrunnable = [], False
    for file in files_of(paths):
        if why := _without_kernel(file) or _not_to_be_run(file):
            complain(f"{file}: left out, {why}")
            unrunnable |= strict and _without_kernel(file) is None
            continue
        report = judged_apart(str(file), (), limit or ())
        if report.status == "refused" and not (strict or file.with_suffix(".toml").is_file()):
            complain(f"{file}: left out, {'; '.join(_messages(report))}")
            continue
        for verdict in report.verdicts:
            say(f"{file}: {str(verdict).removeprefix(f'{file.name}: ')}")  # a file without a kernel names itself
        reports.append(report)
    if sarif is not None:
        from tilewright.serve.sarif import sarif as as_sarif

        sarif.write_text(json.dumps(as_sarif(reports, Path.cwd()), indent=2) + "\n", encoding="utf-8")
    kernels = sum(len(report.verdicts) for report in reports)
    say(f"{len(reports)} file{'s' * (len(reports) != 1)}, {kernels} kernel{'s' * (kernels != 1)}")
    raise typer.Exit(
        max((report.exit_code for report in reports), default=0) or (EXIT_CODES["refused"] if unrunnable else 0)
    )


def _messages(report: Report) -> Iterator[str]:
    """What is told of the kernels that nobody can run."""
    refused = (verdict for verdict in report.verdicts if verdict.status == "refused")
    return (finding.message for verdict in refused for finding in verdict.findings)


def files_of(paths: Iterable[Path]) -> Iterator[Path]:
    """The files that are named, and in folders every one that may hold a kernel, hidden ones left out."""
    for path in paths:
        if path.is_dir():
            every = (file for file in sorted(path.rglob("*")) if file.suffix in SUFFIXES)
            yield from (
                file for file in every if not any(part.startswith(".") for part in file.relative_to(path).parts)
            )
        else:
            yield path


def _without_kernel(file: Path) -> str | None:
    """Why a file has nothing to run, by its name and text; None where it may have, or cannot be read."""
    if file.suffix not in SUFFIXES:
        return f"no {', '.join(SUFFIXES)} file"
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    if file.suffix == ".py" and not ("tilewright" in text and ("prim_func" in text or "T.jit" in text)):
        return "it has no kernel of tilewright"
    return None


def _not_to_be_run(file: Path) -> str | None:
    """Why a file that may have a kernel cannot be run: what ``--strict`` makes an error of."""
    try:
        file.open("rb").close()
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    if file.suffix == ".ptx" and not file.with_suffix(".toml").is_file():
        return f"nothing says how to launch it: {file.with_suffix('.toml').name} is missing"
    return None
