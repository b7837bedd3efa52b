"""The first screen of the README is what its commands print."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def test_the_bug_of_the_first_screen_is_told_as_shown(tmp_path: Path) -> None:
    text, shown = (re.search(rf"```{kind}\n(.*?)```", README, re.DOTALL) for kind in ("cuda", "text"))
    assert text
    assert shown
    (tmp_path / "reverse.cu").write_text(text[1])
    _, command, *wanted = shown[1].splitlines()
    words = shlex.split(command.removeprefix("$ "))
    ran = subprocess.run([sys.executable, "-m", *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout.splitlines()) == (1, wanted)
