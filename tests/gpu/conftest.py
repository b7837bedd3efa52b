"""What the comparisons of hardware and simulator add up to, told at the end of the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.gpu.hardware import Bench

TALLY = "tally"


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Runs kernels on both sides and compares; what it counted goes into the report of the test."""
    made = Bench()
    yield made
    request.node.user_properties.append((TALLY, dict(made.tally)))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Sums the tallies of all tests, also of those that other processes ran. `Any`: pytest keeps the type to itself."""
    total: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") != "teardown":  # fixtures have counted by then
                continue
            for name, tally in getattr(report, "user_properties", ()):
                if name == TALLY:
                    total.update(tally)
    if not total:
        return
    terminalreporter.section("hardware against simulator")
    for name in sorted(total):
        terminalreporter.line(f"{total[name]:>16,} {name}")
