"""Fixtures of tests of kernels."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

import tilewright as tw
from tilewright.sim.run import program


@pytest.fixture
def all_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every launch runs under all checks; a warning is a failure."""
    simulate = tw.Executable.simulate

    def checked(self: tw.Executable, *args: Any, **how: Any) -> Any:
        done = simulate(self, *args, **{**how, "check": "all"})
        assert not done.warnings
        return done

    monkeypatch.setattr(tw.Executable, "simulate", checked)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What runs in one order here runs in all of them in `make test-long`."""
    for item in items:
        if "one_order" in getattr(item, "fixturenames", ()) and is_another_case(item):
            item.add_marker(pytest.mark.sampled)


def is_another_case(item: Any) -> bool:
    """Is it a case of a test of right kernels, and not the first one?"""
    if item.get_closest_marker("long") or "mistake" in item.name:
        return False
    callspec = getattr(item, "callspec", None)
    return callspec is not None and any(callspec.indices.values())


@pytest.fixture(autouse=True)
def one_order(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first case of each test runs in other orders of threads too, as simulations do: twice the time. The rest does
    so in `make test-long`.
    """
    if settings.default is settings.get_profile("repeatable") and is_another_case(request.node):
        monkeypatch.setattr(program, "_other_orders", lambda *_: iter(()))
