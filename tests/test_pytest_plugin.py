"""The pytest plugin, in a pytest of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = """
import numpy as np
import pytest
from tilewright import T


@T.prim_func
def reverse(A: T.Buffer((64,), "float32")):
    T.cta_id([1])
    tid = T.thread_id([64])
    row = T.alloc_shared((64,), "float32")
    row[tid] = A[tid]
    A[tid] = row[63 - tid]


@T.prim_func
def doubled(A: T.Buffer((64,), "float32")):
    T.cta_id([1])
    tid = T.thread_id([64])
    A[tid] = A[tid] * 2.0


def test_races(tilewright_check):
    tilewright_check(reverse)


def test_results(tilewright_check):
    a = np.arange(64, dtype=np.float32)
    tilewright_check(doubled, a, expect={"A": 3 * a})


def test_clean(tilewright_check):
    a = np.arange(64, dtype=np.float32)
    assert tilewright_check(doubled, a, expect={"A": 2 * a}).bank_conflicts == 0


def test_a_wrong_call(tilewright_check):
    tilewright_check(doubled, atolerance=3)


@T.prim_func
def ragged(a: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    tid = T.cta_id([(n + 31) // 32]) * 32 + T.thread_id([32])
    A[tid] = T.float32(1)


@pytest.mark.tilewright(sizes=[{"n": 32}, {"n": 33}], targets=["sm_80", "sm_90a"])
def test_sizes(tilewright_check):
    assert tilewright_check(ragged).target in ("sm_80", "sm_90a")
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("users")
    (folder / "test_kernels.py").write_text(TESTS, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "tilewright.pytest_plugin", "-p", "no:cacheprovider", "-q", "."]
    ran = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT), "HOME": str(folder), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=False,
    )
    return ran.stdout + ran.stderr


def test_a_failing_test_shows_its_own_line_and_the_report(output: str) -> None:
    assert "5 failed, 3 passed" in output
    assert ">       tilewright_check(reverse)\nE       Failed: reverse: wrong\n" in output
    assert "another thread has written [races]" in output
    assert "try:     T.cuda.cta_sync() between line 12 and line 13" in output
    assert re.search(r"Failed: doubled: wrong\nE +63 of 64 elements of A differ", output)


def test_a_failing_test_shows_no_frames_of_ours(output: str) -> None:
    assert "/tilewright/" not in output


def test_the_mark_repeats_a_test_for_each_size_and_target(output: str) -> None:
    assert "test_sizes[n=33-sm_80]" in output
    assert "test_sizes[n=33-sm_90a]" in output
    assert "test_sizes[n=32-" not in output, "these pass"


def test_the_plugin_imports_no_compiler_before_a_test_asks_for_it() -> None:
    asked = "import sys, tilewright.pytest_plugin; print(sorted(set(sys.modules) & {'numpy', 'tilewright.compiler'}))"
    ran = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, cwd=ROOT, check=True)

    assert ran.stdout.strip() == "[]"


def test_pytest_finds_the_plugin_by_its_entry_point() -> None:
    said = (ROOT / "pyproject.toml").read_text(encoding="utf-8")

    assert '[project.entry-points.pytest11]\ntilewright = "tilewright.pytest_plugin"\n' in said
