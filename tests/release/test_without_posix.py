"""On systems without POSIX's modules and functions (Windows) a check works, without limits of the address space."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.release.test_distributions import PTX

WITHOUT = """
import os, sys
for name in ("killpg", "geteuid", "getuid", "fork"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("resource", "fcntl", "pwd", "grp"):
    sys.modules[name] = None
sys.argv = ["tilewright", *sys.argv[1:]]
from tilewright.cli import main
main()
"""


def test_a_check_needs_no_posix(tmp_path: Path) -> None:
    (tmp_path / "twice.ptx").write_text(PTX)
    command = [sys.executable, "-c", WITHOUT, "check", "twice.ptx", "--block", "32", "--arg", "data:u32[32]"]

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)

    assert (done.stdout.splitlines()[:1], done.returncode) == (["twice: clean"], 0), done.stderr
