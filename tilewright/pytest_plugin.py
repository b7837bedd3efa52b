"""A pytest plugin: the fixture `tilewright_check`, whose failure shows the report of a kernel, and no frames of
tilewright.

Pytest loads it at its start, wherever tilewright is installed: the compiler is imported by the first test that asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tilewright.verdict import Verdict

__all__ = ["tilewright_check"]


@pytest.fixture(scope="session")
def tilewright_check() -> Callable[..., Verdict]:
    """`tilewright.check` of a kernel: whatever it finds fails the test. Returns the verdict, which is clean."""

    def check(kernel: Any, *args: Any, **named: Any) -> Verdict:
        __tracebackhide__ = True
        import tilewright

        verdict = tilewright.check(kernel, *args, **named)
        if not verdict:
            pytest.fail(str(verdict))
        return verdict

    return check
