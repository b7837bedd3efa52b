"""Our command in a fork of this process: to start Python and to import the package takes longer than most checks."""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from tilewright.cli import verdicts
from tilewright.serve import mcp

FAILED = 70  # the code of a process that ends by an exception


def forked(
    arguments: list[str], seconds: float, folder: str | Path = ".", first: Callable[[], object] = bool
) -> tuple[int | None, str, str]:
    """Its exit code, None where it took longer, what it printed, what it complained of. first: called in the fork."""
    with TemporaryDirectory() as texts:
        files = [Path(texts) / "out", Path(texts) / "err"]
        child = os.fork()
        if child == 0:
            _be_the_process(arguments, files, folder, first)
        code = _wait(child, seconds)
        out, err = (file.read_text("utf-8", "replace") if file.exists() else "" for file in files)
        return code, out, err


def _be_the_process(
    arguments: list[str], files: Iterable[Path], folder: str | Path, first: Callable[[], object]
) -> NoReturn:
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        for number, file in enumerate(files, 1):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.stdin, sys.stdout, sys.stderr = (open(n, "w" if n else "r", closefd=False) for n in range(3))  # noqa: SIM115
        faulthandler.register(signal.SIGUSR1)  # says where it hangs
        os.chdir(folder)
        sys.argv = ["tilewright", *arguments]
        first()
        from tilewright.cli import main

        main()
    except SystemExit as left:
        with suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(left.code if isinstance(left.code, int) else 1)
    except BaseException:
        import traceback

        with suppress(BaseException):
            traceback.print_exc()
            sys.stderr.flush()
    os._exit(FAILED)


def _wait(child: int, seconds: float) -> int | None:
    """The code with which it ended by itself. Its whole group has, after this."""
    until = time.monotonic() + seconds
    ended = status = 0
    while not ended and time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0 if ended else 0.004)
    if not ended:
        os.kill(child, signal.SIGUSR1)
        time.sleep(0.2)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    if not ended:
        os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) if ended else None


def _of_verdicts(arguments: list[str], seconds: float, into: Path) -> tuple[int | None, Iterable[str]]:
    code, _, complaint = forked(arguments, seconds)  # ends it all the same, whatever it has written
    return code, complaint.strip().splitlines()[-1:]


def _of_answers(line: list[str], *, cwd: str, timeout: float, **_: Any) -> subprocess.CompletedProcess[str]:
    code, out, complaint = forked(line[3:], timeout, cwd)  # after python -m tilewright
    if code is None:
        raise subprocess.TimeoutExpired(line, timeout)
    return subprocess.CompletedProcess(line, code, out, complaint)


def instead_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What our commands and our tools start as processes are forks, in which NVRTC works, too."""
    if hasattr(os, "fork"):
        monkeypatch.setattr(verdicts, "_process", _of_verdicts)
        run = SimpleNamespace(run=_of_answers, TimeoutExpired=subprocess.TimeoutExpired)
        monkeypatch.setattr(mcp, "subprocess", run)
