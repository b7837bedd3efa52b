"""A command of `tilewright`, run in this process."""

from __future__ import annotations

from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from json import loads
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import pytest

from tilewright.cli import main
from tilewright.verdict import report_from


def ran(*words: object) -> tuple[int, str, str]:
    """The exit code, standard output, and standard error."""
    out, err = StringIO(), StringIO()
    asked = patch("sys.argv", ["tilewright", *map(str, words)])
    with asked, redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as left:
        main()
    return int(left.value.code or 0), out.getvalue(), err.getvalue()


def verdicts_on(text: str, folder: Path, *options: str) -> list[dict[str, Any]]:
    """The verdicts on the text of a .cu file, as --json has them; what its own process does is done in this one."""
    (folder / "k.cu").write_text(text)
    into = folder / "k.json"
    with patch("os._exit", side_effect=SystemExit):
        ran("check", folder / "k.cu", "--write", into, *options)
    return cast(list[dict[str, Any]], report_from(loads(into.read_text())).as_dict(2)["verdicts"])
