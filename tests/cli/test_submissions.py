"""Whatever is handed in for a verdict gets one, in words, with the exit code of its status: no hang, nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.submissions import DYING, ENDLESS, Submission, faults, judged, submission
from tilewright.verdict import EXIT_CODES, SCHEMA

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each is judged in a fork")
SOME, ALL = range(0, 10_000, 777), range(10_000)


@pytest.mark.parametrize("number", SOME)
def test_a_submission_gets_a_verdict(number: int, tmp_path: Path) -> None:
    assert judged(submission(number), tmp_path).complaint == ""


@pytest.mark.long
def test_ten_thousand_submissions_get_a_verdict(tmp_path: Path) -> None:
    complaints = {number: judged(submission(number), tmp_path).complaint for number in ALL}

    assert {number: text for number, text in complaints.items() if text} == {}


@pytest.mark.parametrize(
    ("one", "status"),
    [
        (Submission("died.py", DYING[0].encode(), ends=False), "stopped"),
        (Submission("endless.py", ENDLESS[1].encode(), ends=False), "stopped"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_the_command_itself_leaves_with_the_code_of_the_status(one: Submission, status: str, tmp_path: Path) -> None:
    path = tmp_path / one.name
    path.write_bytes(one.data)
    command = [sys.executable, "-m", "tilewright", "check", str(path), *one.options, "--json", "--limit=1s"]
    slow = "import sys; from tilewright.cli import verdicts, main; verdicts.START_SECONDS = 1; main()"

    done = subprocess.run([sys.executable, "-c", slow, *command[3:]], capture_output=True, check=False, timeout=60)

    report = json.loads(done.stdout)
    assert (report["schema"], report["status"], done.returncode) == (SCHEMA, status, EXIT_CODES[status])
    assert list(faults(report)) == []
