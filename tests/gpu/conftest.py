"""Totals of the comparisons of hardware and simulator, printed at the end of the run, and on request as JSON."""

from __future__ import annotations

import json
import platform
import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.gpu.hardware import ARCH, Bench, library

TALLY = "tally"
OF_THE_GPU = re.compile(r"^pytestmark = \[?pytest\.mark\.gpu\b", re.MULTILINE)
OUTCOMES = ("passed", "failed", "error", "skipped")  # skipped: what needs a library that is not installed


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--gpu-report", metavar="FILE", help="write the counts of hardware against simulator as JSON")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where tests of a GPU are left out, files of these alone are not even read: thousands of tests in each worker."""
    if "not gpu" not in config.getoption("markexpr") or collection_path.suffix != ".py":
        return None
    return True if OF_THE_GPU.search(collection_path.read_text(encoding="utf-8")) else None


@pytest.fixture(scope="module")
def torch() -> ModuleType:
    return library("torch")


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Runs kernels on both sides and compares; what it counted goes into the report of the test."""
    made = Bench()
    yield made
    request.node.user_properties.append((TALLY, (dict(made.tally), made.largest)))


def counted(reports: list[Any]) -> tuple[Counter[str], dict[str, float]]:
    """The sum over all tests, also of those that other processes ran. `Any`: pytest keeps the type to itself."""
    total: Counter[str] = Counter()
    largest: dict[str, float] = {}
    for report in reports:
        if getattr(report, "when", "") != "teardown":  # fixtures have counted by then
            continue
        for name, value in getattr(report, "user_properties", ()):
            if name == TALLY:
                total.update(value[0])
                for what, much in value[1].items():
                    largest[what] = max(much, largest.get(what, 0.0))
    return total, largest


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [report for group in terminalreporter.stats.values() for report in group]
    total, largest = counted(reports)
    if not total:
        return
    terminalreporter.section("hardware against simulator")
    for name in sorted(total):
        terminalreporter.line(f"{total[name]:>16,} {name}")
    for name in sorted(largest):
        terminalreporter.line(f"{largest[name]:>16.3g} {name}")
    path = terminalreporter.config.getoption("--gpu-report")
    if path:
        tests = {outcome: len(terminalreporter.stats.get(outcome, ())) for outcome in OUTCOMES}
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps({**machine(), "tests": tests, **total, **largest}, indent=2) + "\n")


def machine() -> dict[str, str]:
    from tilewright.cuda import driver, nvrtc

    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "gpu": str(driver.device(0)),
        "arch": str(ARCH),
        "nvrtc": nvrtc.version(),
        "python": platform.python_version(),
    }
