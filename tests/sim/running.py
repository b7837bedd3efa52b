"""A kernel on the simulator with every check on: what it warns of, or the error that it stops with."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tw
from tilewright.errors import SimulationError


def simulate(kernel: Any, *arrays: Any, target: str = "sm_90a", check: str = "all") -> list[str]:
    """Runs a kernel; returns its warnings."""
    return tw.simulate(kernel, *arrays, target=target, check=check).warnings


def refusal(kernel: Any, *arrays: Any, target: str = "sm_90a", check: str = "all") -> SimulationError:
    """The error that a kernel stops with."""
    made = tw.compile(kernel, target=target)
    with pytest.raises(SimulationError) as raised:
        made.simulate(*arrays, check=check)
    return raised.value
