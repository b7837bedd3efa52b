"""The processes of commands are forks."""

from __future__ import annotations

import pytest

from tests.forks import instead_of_processes


@pytest.fixture(autouse=True)
def _processes_are_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    instead_of_processes(monkeypatch)
