"""Fixtures of tests of kernels."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tw


@pytest.fixture
def all_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every launch runs under all checks; a warning is a failure."""
    simulate = tw.Executable.simulate

    def checked(self: tw.Executable, *args: Any, **how: Any) -> Any:
        done = simulate(self, *args, **{**how, "check": "all"})
        assert not done.warnings
        return done

    monkeypatch.setattr(tw.Executable, "simulate", checked)
