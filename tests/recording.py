"""What the calls of a method gave while a test ran."""

from __future__ import annotations

from typing import Any

import pytest


def results_of(monkeypatch: pytest.MonkeyPatch, owner: type, method: str) -> list[Any]:
    """What each call of the method returns from now on, in order."""
    results: list[Any] = []
    original = getattr(owner, method)

    def recorded(self: Any, *args: Any, **keywords: Any) -> Any:
        results.append(original(self, *args, **keywords))
        return results[-1]

    monkeypatch.setattr(owner, method, recorded)
    return results
