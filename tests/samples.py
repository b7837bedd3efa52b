"""How many examples a property test draws: a sample of them in `make test`, all in `make test-long`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings

__all__ = ["sampled"]


def sampled(few: int, of: int) -> Callable[[Any], Any]:
    """That many examples; in another profile than the default one, `of` as many."""
    count = few if settings.default is settings.get_profile("repeatable") else of

    def decorate(test: Any) -> Any:
        return pytest.mark.sampled(settings(max_examples=count)(test))

    return decorate
