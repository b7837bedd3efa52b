"""Counts of a public suite: by the names of its files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.suite import counted
from tests.commands import ran

KERNEL = """__global__ void k(int* a) {{
    __shared__ int s[64];
    s[threadIdx.x] = a[threadIdx.x];
    {}
    a[threadIdx.x] = s[63 - threadIdx.x];
}}
"""


def judged(place: str, options: tuple[str, ...], limit: list[str]) -> SimpleNamespace:
    """A verdict of this process."""
    return SimpleNamespace(status={0: "clean", 1: "wrong"}[ran("check", place, "--limit", *limit)[0]], verdicts=())


def test_a_suite_is_counted_by_what_its_names_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.suite.judged_apart", judged)
    for name, barrier in (("one", "__syncthreads();"), ("twoBug", ""), ("three", ""), ("fourBug", "__syncthreads();")):
        (tmp_path / f"{name}.cu").write_text(KERNEL.format(barrier))
        (tmp_path / f"{name}.toml").write_text('[[check]]\nblock = 64\nargs = ["a:i32[64]=ramp"]\n')
    counts, lines = counted(tmp_path, "Bug")
    assert counts == {"right": 1, "found": 1, "false alarm": 1, "missed": 1}
    assert sorted(line.split()[1] if line.startswith("missed") else line.split()[2] for line in lines) == [
        "fourBug.cu",
        "three.cu",
    ]
