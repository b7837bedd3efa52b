"""A source and a question about it, answered by our command line in a process of its own.

The process is there so that a kernel that hangs or takes all memory gets an answer; it is no sandbox: a Python source
runs with the rights of the user who serves.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from tilewright.errors import ToolError

Language = Literal["py", "cu", "ptx"]
SECONDS = 60.0
START_SECONDS = 20.0  # to start Python and compile, beyond the limit of a run
MOST_LETTERS = 40_000  # of an answer: more helps no reader


def file_of(folder: str, source: str, language: Language, kernel: str | None) -> str:
    """The source as a file of this folder, named as a command takes it: with the kernel behind a colon."""
    file = Path(folder) / f"kernel.{language}"
    file.write_text(source, encoding="utf-8")
    return f"{file}:{kernel}" if kernel else str(file)


def asked(
    command: str, *words: str, source: str | None = None, language: Language = "py", kernel: str | None = None,
    seconds: float = SECONDS,
) -> str:  # fmt: skip
    """What `tilewright COMMAND [FILE] WORDS` prints. Raises ToolError with its complaint where it could not be done."""
    with tempfile.TemporaryDirectory() as folder:
        place = [] if source is None else [file_of(folder, source, language, kernel)]
        line = [sys.executable, "-m", "tilewright", command, *place, *words]
        try:
            done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=seconds + START_SECONDS)
        except subprocess.TimeoutExpired:
            raise ToolError(f"stopped: tilewright {command} took longer than {seconds:g} s") from None
        text = (done.stdout + done.stderr).replace(f"{folder}/", "")
    text = text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}\n... ({len(text)} letters in all)"
    if done.returncode and not done.stdout:
        raise ToolError(text.strip())
    return text


def checked(
    source: str, language: Language, kernel: str | None, options: Mapping[str, str | Iterable[str] | None],
    seconds: float = SECONDS,
) -> dict[str, Any]:  # fmt: skip
    """The report of `tilewright check --json`. options: by name; several values give the option several times.

    Raises ToolError where there is none.
    """
    words = [f"--{name}={value}" for name, option in options.items() for value in _values(option)]
    text = asked(
        "check", *words, "--json", f"--limit={seconds:g}s",
        source=source, language=language, kernel=kernel, seconds=seconds,
    )  # fmt: skip
    report: dict[str, Any] = json.loads(text)
    return report


def _values(value: str | Iterable[str] | None) -> Iterable[str]:
    return () if value is None else (value,) if isinstance(value, str) else value
