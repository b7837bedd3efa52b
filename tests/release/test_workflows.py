"""The files that GitHub reads are YAML, and name what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]  # it has no types of its own

from tools.size import ROOT

FILES = [*(ROOT / ".github").rglob("*.yml"), ROOT / "CITATION.cff", ROOT / ".pre-commit-config.yaml"]
WORKFLOWS = [file for file in FILES if file.parent.name == "workflows"]
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_file_is_yaml(file: Path) -> None:
    assert isinstance(yaml.safe_load(file.read_text()), dict)


def steps(file: Path) -> list[str]:
    """The commands that a workflow runs."""
    jobs = yaml.safe_load(file.read_text())["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_workflows_call_targets_that_the_makefile_has(file: Path) -> None:
    called = {name for step in steps(file) for name in re.findall(r"\bmake ([\w-]+)", step)}

    assert steps(file)
    assert called <= TARGETS


def test_every_supported_python_is_tested() -> None:
    matrix = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())["jobs"]["test"]["strategy"]["matrix"]
    classified = re.search(r'requires-python = ">=(3\.\d+)"', (ROOT / "pyproject.toml").read_text())

    assert classified is not None
    assert matrix["python"][0] == classified[1]
    assert len(matrix["os"]) == 3
