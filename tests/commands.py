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


def ran(*words: object) -> tuple[int, str, str]:
    """The exit code, standard output, and standard error."""
    out, err = StringIO(), StringIO()
    asked = patch("sys.argv", ["tilewright", *map(str, words)])
    with asked, redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as left:
        main()
    return int(left.value.code or 0), out.getvalue(), err.getvalue()


def verdicts_on(text: str, folder: Path, *options: str) -> list[dict[str, Any]]:
    """The verdicts on the text of a .cu file."""
    (folder / "k.cu").write_text(text)
    return cast(list[dict[str, Any]], loads(ran("check", folder / "k.cu", "--json", *options)[1])["verdicts"])
