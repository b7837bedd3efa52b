"""The process of these tests stands for a warm worker: what others have changed in it is no trick of a submission."""

from __future__ import annotations

import pytest

from tilewright.serve.judge import settle


@pytest.fixture(autouse=True)
def like_a_worker() -> None:
    settle()
