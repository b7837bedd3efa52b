"""What a page shows behind `$ tilewright ...` is what that command says."""

from __future__ import annotations

import re
import shlex
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from tilewright.cli import main

ROOT = Path(__file__).parents[2]
COMMAND = re.compile(r"^```text\n\$ tilewright (.*?)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHOWN = COMMAND.findall((ROOT / "docs" / "howto" / "questions.md").read_text("utf-8"))


def said(command: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines that a command prints, the errors among them."""
    monkeypatch.setattr("sys.argv", ["tilewright", *shlex.split(command)])
    monkeypatch.chdir(ROOT)
    out = StringIO()
    with redirect_stdout(out), redirect_stderr(out), pytest.raises(SystemExit):
        main()
    return [line.rstrip() for line in out.getvalue().splitlines()]


@pytest.mark.parametrize(("command", "shown"), SHOWN, ids=[command for command, _ in SHOWN])
def test_a_question_is_answered_by_its_command(command: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = iter(said(command, monkeypatch))

    asked = [line for line in shown.splitlines() if line not in ("...", "")]
    assert [line for line in asked if line not in lines] == []  # in this order
    assert asked


def test_the_kernels_of_the_questions_have_one_each() -> None:
    commands = " ".join(command for command, _ in SHOWN)
    named = re.findall(r"^def (\w+)", (ROOT / "examples/questions/kernels.py").read_text("utf-8"), re.MULTILINE)
    named += re.findall(r"void (\w+)\(", (ROOT / "examples/questions/kernels.cu").read_text("utf-8"))

    assert [name for name in named if name not in commands] == []
