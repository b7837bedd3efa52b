"""Which tests a change concerns, for `make check`."""

from __future__ import annotations

from pathlib import Path

from tools.inner import concerned

TESTS = [Path("tests/serve/test_judge.py"), Path("tests/serve/test_sarif.py"), Path("tests/layout/test_swizzle.py")]


def test_a_module_brings_the_tests_that_import_it() -> None:
    assert concerned([Path("tilewright/serve/sarif.py")], TESTS) == [Path("tests/serve/test_sarif.py")]


def test_a_changed_test_comes_first() -> None:
    found = concerned([Path("tests/layout/test_swizzle.py"), Path("tilewright/serve/sarif.py")], TESTS)
    assert found == [Path("tests/layout/test_swizzle.py"), Path("tests/serve/test_sarif.py")]


def test_a_page_brings_no_tests() -> None:
    assert concerned([Path("docs/index.md")], TESTS) == []
