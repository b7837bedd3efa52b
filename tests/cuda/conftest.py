"""The machine of these tests: a fake GPU, and a fake torch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from ctypes import c_float, c_int, c_uint64

import pytest

from tests.cuda.fake_driver import FakeDriver, Tensor, torch_module
from tilewright.compiler import Executable
from tilewright.cuda import driver
from tilewright.cuda.tensors import QUICK


@pytest.fixture(params=[True, False], ids=["torch", "torch without guards"])
def fake(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    """A machine with one GPU, and a fake torch."""
    made = FakeDriver(kinds=(c_uint64, c_uint64, c_float, c_int))
    monkeypatch.setattr(driver, "library", lambda: made)
    monkeypatch.setitem(sys.modules, "torch", torch_module(guards=request.param))
    monkeypatch.setattr(Executable, "cubin", b"cubin")
    caches = (driver.device, driver.device_count, driver.is_usable)
    for cached in caches:
        cached.cache_clear()
    yield made
    for cached in caches:
        cached.cache_clear()
    QUICK.pop(Tensor, None)
