"""The commands that serve other programs: a judge of submissions, tools for agents, the kernels of a repository."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.options import Limit
from tilewright.errors import ArgumentError
from tilewright.terminal import complain, say

if TYPE_CHECKING:
    from tilewright.serve.server import Workers
    from tilewright.verdict import Report


def serve(
    jobs: Annotated[int, typer.Option(min=1, max=256, help="Submissions judged at once.")] = 1,
    http: Annotated[int | None, typer.Option(min=0, max=65535, help="A port on 127.0.0.1; 0: any free one.")] = None,
    token: Annotated[str | None, typer.Option(help="That HTTP asks for; left out, one is made and shown.")] = None,
    worker: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Judge submissions for a program: a line of JSON in, a line of JSON out; or over HTTP on this machine.

    A submission is a kernel (in tilewright's language, CUDA, PTX or Triton), a declaration of its arguments and a
    reference in NumPy. It runs on the simulator under every check, on shapes that are drawn from the declaration.
    Python code of a submission runs in a process of its own behind limits of time and memory, without network and
    without a way to change files, where the system has that; each answer says what it has not. Results come from what
    the kernel did to memory. docs/serve.md has the fields.

    \b
    Examples:
      tilewright serve --jobs 2 < submissions.jsonl
      tilewright serve --jobs 4 --http 8080 --token 5f1d...
      curl -H 'Authorization: Bearer 5f1d...' -d @submission.json http://127.0.0.1:8080/judge
    """
    from tilewright.cli.kernels import LOADS
    from tilewright.serve.confine import Walls
    from tilewright.serve.server import Workers, work

    if worker:
        work(LOADS, Walls.here(), sys.stdin.fileno(), sys.stdout.buffer)
        return
    workers = Workers(jobs)
    for text in Walls.here().missing():
        complain(f"warning: {text}")
    try:
        if http is None:
            from tilewright.serve.server import by_lines, lines_of

            by_lines(workers, lines_of(sys.stdin.buffer), sys.stdout, jobs)
        else:
            _over_http(workers, http, token)
    finally:
        workers.close()


def _over_http(workers: Workers, port: int, token: str | None) -> None:
    import secrets

    from tilewright.serve.server import HttpDoor

    chosen = token or secrets.token_urlsafe(24)
    try:
        door = HttpDoor(workers, port, chosen)
    except OSError as error:
        raise ArgumentError(f"cannot listen on port {port}", given=str(error), allowed="a free one; 0: any") from None
    complain(f"http://127.0.0.1:{door.server_address[1]}/judge" + ("" if token else f", token {chosen}"))
    try:
        door.serve_forever()
    except KeyboardInterrupt:
        door.server_close()


def mcp() -> None:
    """Serve an agent: these commands as tools of the Model Context Protocol, over standard input and output.

    \b
    Examples:
      pip install 'tilewright[mcp]'
      tilewright mcp
    """
    from tilewright.serve.mcp import server

    server().run("stdio")


# `tilewright ci`: the kernels of a repository, for continuous integration and for hooks of version control.


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

    if gone := [str(path) for path in paths if not path.exists()]:
        raise ArgumentError("nothing is there to check", given=", ".join(gone), allowed="files and folders that exist")
    reports, unrunnable = [], False
    for file in files_of(paths):
        if why := _without_kernel(file) or _not_to_be_run(file):
            complain(f"{file}: left out, {why}")
            unrunnable |= strict and _without_kernel(file) is None
            continue
        report = judged_apart(str(file), ("--no-propose",) * (file.suffix == ".cu"), limit or ())
        if _is_of_others(report) and not (strict or file.with_suffix(".toml").is_file()):
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


def _is_of_others(report: Report) -> bool:
    """Can nobody here run a file, though no line of its text is wrong?"""
    findings = [finding for verdict in report.verdicts for finding in verdict.findings]
    return report.status == "refused" and all(
        finding.line is None or finding.kind == "unsupported" for finding in findings
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
