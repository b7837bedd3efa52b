"""The process of the tests stands for a warm worker: what other tests have changed in it is no trick of a submission."""

from __future__ import annotations

import pytest

from tilewright.serve.reading import settle


@pytest.fixture(autouse=True)
def settled() -> None:
    settle()
