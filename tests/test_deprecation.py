"""A public name that goes warns for a minor version, at the user's line."""

from __future__ import annotations

import linecache
from types import FunctionType

import pytest

import tilewright
from tilewright.public import deprecated

INSIDE = f"{tilewright.__path__[0]}/made_up.py"
NAMES = {"deprecated": deprecated}
exec(
    compile("def going():\n    deprecated('going()', since='1.1', gone='1.2', instead='staying()')\n", INSIDE, "exec"),
    NAMES,
)
going = NAMES["going"]


def test_the_warning_says_what_to_write_and_stands_at_the_line_of_the_caller() -> None:
    assert isinstance(going, FunctionType)

    with pytest.warns(DeprecationWarning, match=r"since tilewright 1\.1 and goes with 1\.2: write staying\(\)") as told:
        going()

    assert told[0].filename == __file__
    assert linecache.getline(told[0].filename, told[0].lineno).strip() == "going()"
