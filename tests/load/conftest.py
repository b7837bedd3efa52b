"""NVRTC in the process of the tests."""

from __future__ import annotations

import pytest

from tilewright.load import cu_compile, cu_process

# Of its own process: what it takes and how it ends, and files that may end it.
APART = ("test_cu_files.py", "test_cu_patience.py", "test_garbled_files.py", "test_kept_texts.py")


@pytest.fixture(autouse=True)
def _nvrtc_is_here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVRTC works in this process, as it does in a judge's: to start one takes four times as long as a small file."""
    if request.path.name not in APART:
        monkeypatch.setattr(cu_compile, "answered", cu_process.answer)
